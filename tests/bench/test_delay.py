"""`--delay`: a line of its own between the generator and the endpoint."""

import os
import subprocess

from support.process import running
from support.server import binary, free_port

FEW = ["--scale", "0.01", "--model", "serial", "--batch", "10", "--handler", "1ms"]


def test_a_delayed_poll_accepts_the_certificate_of_the_endpoints_name(tmp_path):
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=CA:FALSE",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )
    port = free_port()
    endpoint = f"https://localhost:{port}"
    serve = ["serve", "--listen", f"127.0.0.1:{port}", "--data", str(tmp_path / "data"), "--console-listen", "off"]
    with running([str(binary()), *serve, "--tls-cert", certificate, "--tls-key", key], stderr=subprocess.PIPE):
        environment = os.environ | {"SSL_CERT_FILE": certificate}
        ready = [str(binary()), "ready", "--wait", "20", "--endpoint", endpoint]
        subprocess.run(ready, check=True, capture_output=True, env=environment)

        poll = [str(binary()), "bench", "poll", "--delay", "1ms", "--ca", certificate, *FEW, "--endpoint", endpoint]
        polled = subprocess.run(poll, capture_output=True, text=True, timeout=60)

    assert polled.returncode == 0, polled.stderr
