# An image of the static binary alone. docs/operations.md, "In a container", says how it is built and run.
FROM scratch

COPY millrace /millrace
# A named volume takes over whose directory it is.
COPY --chown=65532:65532 data /data

USER 65532:65532
ENV MILLRACE_DATA=/data MILLRACE_LISTEN=0.0.0.0:4566 MILLRACE_CONSOLE_LISTEN=0.0.0.0:4567
VOLUME /data
EXPOSE 4566 4567
ENTRYPOINT ["/millrace"]
CMD ["serve"]
