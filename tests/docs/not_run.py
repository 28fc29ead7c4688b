"""Samples that no test runs: for each reason, the first lines of their blocks, by page."""

NOT_RUN = {
    "builds for minutes": {
        "README.md": [
            "cargo build --profile dist -p millrace -p millrace-bench && target/dist/millrace bench targets --only 1,2,3,4",
        ],
        "docs/bench.md": [
            "cargo build --profile dist -p millrace -p millrace-bench && target/dist/millrace bench targets --dir /var/tmp",
        ],
        "docs/client.md": ["cargo run --profile fast -p millrace-client --example call_cost -- \\"],
        "docs/getting-started.md": ["cargo build --release"],
        "docs/install.md": [
            "cargo run --release -- serve",
            "packaging/build",
            "rustup target add aarch64-unknown-linux-gnu",
        ],
        "docs/operations.md": [
            "rustup target add x86_64-unknown-linux-musl",
        ],
        "docs/tracing.md": ["cargo build --release --features otel"],
        "docs/tuning.md": [
            "cargo run --profile fast -p millrace-journal --example group_commit -- /var/tmp/journal 8 3",
        ],
    },
    "is this suite, or longer than it": {
        "README.md": ["./test"],
        "docs/console.md": ["PYTHONPATH=tests tests/.venv-current/bin/python tests/console/many_queues.py"],
    },
    "measures for minutes; tests/bench runs every scenario at a small scale": {
        "docs/bench.md": [
            "millrace serve &",
            "millrace bench pc --duration 5m",
            "millrace bench pc --duration 10s --warm-up 4s --endpoint URL",
            "millrace bench position --contrast",
            "millrace bench ab --endpoint http://127.0.0.1:4566 --versus http://127.0.0.1:9324",
            "millrace bench drain --https-endpoint https://127.0.0.1:4577 --insecure-tls",
            "millrace bench poll",
            "millrace bench poll --peer ironmq-v1 --iron-project 53a3b3bd5e8edd1245000001 --iron-token any",
            "millrace bench sdb-csv",
            "millrace bench fanout",
            "millrace bench sweep --operation pc --batch 10",
            "millrace bench rate --rate 1000,5000",
            "millrace bench http --endpoint http://127.0.0.1:8080/path",
        ],
        "docs/compatibility/simpledb.md": ["python3 rows.py > rows.csv"],
    },
    "needs several hosts, or a service with an account": {
        "docs/backup.md": ["millrace backup /mnt/backup/2026-11-28 --endpoint https://queues.example.com"],
        "docs/bench.md": [
            "host-a$ millrace bench node --listen 10.0.0.1:7345",
            "millrace bench sdb-csv --endpoint https://sdb.amazonaws.com --sign env",
            "export IRON_PROJECT_ID=… IRON_TOKEN=…",
        ],
        "docs/moving-from-ironmq.md": [
            """jq -r '.messages | reverse[] | "\\(.id) \\(.reservation_id)"' reserved.json | while read -r id reservation; do""",
            "AWS_ACCESS_KEY_ID=ACCOUNT AWS_SECRET_ACCESS_KEY=any millrace queue list",
        ],
        "docs/moving-from-localstack.md": [
            "export AWS_ENDPOINT_URL=http://localhost:4576        # the server of everything else",
        ],
    },
    "run by tests/packaging": {
        "docs/install.md": [
            "def test_a_message_comes_back_after_its_visibility_timeout(millrace, millrace_sqs):",
            'import { SQSClient } from "@aws-sdk/client-sqs";',
        ],
    },
    "run by tests/crash, on domains that are lost": {
        "docs/troubleshooting.md": ["millrace journal accept-domains --data millrace-data"],
    },
    "changes the machine, or needs a container engine": {
        "docs/backup.md": ["systemctl stop millrace"],
        "docs/install.md": [
            "tar xf dist/millrace-*-linux-x86_64.tar.gz",
            "apt install ./dist/millrace_*_amd64.deb      # or: dnf install ./dist/millrace-*.x86_64.rpm",
            "docker load -i dist/millrace-*-image-amd64.docker.tar",
            "docker compose -f packaging/compose.yaml up --wait",
            "helm install queues dist/millrace-chart-*.tgz --set image.repository=registry.example/millrace \\",
            "pip install dist/millrace-*.whl",
            "npm install --save-dev ./dist/millrace-npm-*.tgz",
        ],
        "docs/operations.md": [
            "install -D -m 644 packaging/systemd/sysusers.conf /etc/sysusers.d/millrace.conf",
            "mkdir -p target/image/data",
        ],
        "docs/testing-recipes.md": ["import java.net.URI;"],
        "docs/tracing.md": ["docker run --rm -p 16686:16686 -p 4318:4318 jaegertracing/jaeger:latest"],
    },
    "needs Go's SDK from the module proxy; run by hand with sqs 1.53.0": {
        "docs/testing-recipes.md": ["package jobs"],
    },
    "needs a tool that is not installed: promtool": {
        "docs/metrics.md": ["promtool check rules docs/alerts.yaml"],
    },
    "flags that tests/cli and the unit tests of the configuration cover": {
        "docs/console.md": ["millrace serve --console-listen 127.0.0.1:8080   # another address"],
        "docs/operations.md": [
            "millrace serve --tls-cert cert.pem --tls-key key.pem",
            "millrace serve --listen 0.0.0.0:4566",
        ],
    },
    "removes the queue that later samples look into; docs/moving-from-localstack.md has the same call": {
        "docs/testing-against-millrace.md": ["curl -X POST http://127.0.0.1:4566/_localstack/state/reset"],
    },
    "names programs of the reader; tests/worker runs such handlers": {
        "docs/worker.md": [
            "millrace work --queue letters --exec './deliver.sh'",
            "export IRON_PROJECT_ID=53a3b3bd5e8edd1245000001 IRON_TOKEN=any",
            "millrace work --queue orders=3 --queue letters --exec './handle.sh'",
            "def is_genuine(key: bytes, headers, body: bytes) -> bool:",
        ],
    },
}
