# An image of the static programs alone. docs/operations.md, "In a container", says how it is built and run;
# packaging/build makes the same image without Docker.
FROM scratch

COPY millrace millrace-bench /
# A named volume takes over whose directory it is.
COPY --chown=65532:65532 data /data

USER 65532:65532
ENV MILLRACE_DATA=/data MILLRACE_LISTEN=0.0.0.0:4566 MILLRACE_CONSOLE_LISTEN=0.0.0.0:4567
VOLUME /data
EXPOSE 4566 4567
ENTRYPOINT ["/millrace"]
CMD ["serve"]
