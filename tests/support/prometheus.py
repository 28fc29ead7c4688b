"""Scrapes /metrics as Prometheus does, and checks its form."""

import re
import urllib.request

LINE = re.compile(r'([a-z_]+)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def scrape(server, token=None) -> dict:
    """Name and labels → value. Checks types, units and the end."""
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(server.endpoint + "/metrics", headers=headers)
    with urllib.request.urlopen(request) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        text = answer.read().decode()
    assert text.endswith("# EOF\n")
    series, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"{name} is described twice"
            types[name] = kind
        elif not line.startswith("#"):
            name, labels, value = LINE.fullmatch(line).groups()
            family = re.sub(r"_(total|bucket|sum|count)$", "", name)
            kind = types.get(name) or types[family]
            assert name.endswith("_total") == (kind == "counter"), line
            key = (name, *sorted(LABEL.findall(labels or "")))
            assert key not in series, f"{line} is there twice"
            series[key] = float(value)
    return series


def of(series, name, **labels) -> float:
    return series[(name, *sorted(labels.items()))]
