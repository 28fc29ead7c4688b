"""Each scenario at a tiny scale against a real server: that it ends, counts right and says so.
Speed is not judged here: the machine may be busy."""

import html.parser
import json
import resource
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from support.sdk import sdk_client
from support.server import binary

from .run import bench
from .simpledb import FakeSimpleDb

QUICK = ["--scale", "0.001", "--json"]


def test_pc_counts_every_message_and_request(endpoint):
    outcome = bench("pc", *QUICK, "--producers", "2", "--consumers", "2", endpoint=endpoint)

    assert outcome.metric("pc.single.messages") > 0
    assert outcome.metric("pc.single.requests_per_message") == pytest.approx(3.0, abs=0.3)
    assert outcome.metric("pc.batch.requests_per_message") == pytest.approx(0.3, abs=0.1)
    assert outcome.metric("pc.single.lost") == outcome.metric("pc.batch.lost") == 0
    assert outcome.metric("pc.single.duplicated") == 0
    assert outcome.metric("pc.single.server_cpu") > 0


def test_pc_keeps_the_order_of_fifo_groups(endpoint):
    outcome = bench("pc", *QUICK, "--fifo", "--batch", "10", "--producers", "2", "--consumers", "2", endpoint=endpoint)

    assert outcome.metric("messages") > 0
    assert outcome.metric("lost") == outcome.metric("reordered") == outcome.metric("duplicated") == 0


def test_pc_from_two_processes_knows_what_each_received_of_the_other(endpoint):
    outcome = bench("pc", *QUICK, "--procs", "2", "--batch", "10", "--producers", "2", "--consumers", "2", endpoint=endpoint)

    assert outcome.metric("messages") > 0
    assert outcome.metric("lost") == outcome.metric("duplicated") == 0


def test_a_round_trip_bounds_what_a_connection_can_do(endpoint):
    outcome = bench(
        "pc", *QUICK, "--batch", "1", "--producers", "1", "--consumers", "0", "--delay", "50ms", endpoint=endpoint
    )

    assert 0 < outcome.metric("pc.single.rate") <= 20
    assert outcome.metric("send.p50") >= 50_000


def test_position_sees_the_close_and_spares_hide_it(endpoint):
    outcome = bench(
        "position", *QUICK, "--sends", "70", "--contrast", "30", "--at-once", "10", "--fail-if",
        "endpoint.closed_by_server>0", endpoint=endpoint,
    )

    assert outcome.metric("position.endpoint.connections") == 20
    # 20 runs of 70 sends on connections of 30: each run is closed on twice.
    assert outcome.metric("position.capped.closed_by_server") == 40
    assert outcome.metric("position.capped.connections") == 60
    capped = outcome.report["sections"][0]["tables"][2]["rows"]
    opened = {int(row[0]): int(row[-1]) for row in capped if int(row[-1])}
    assert opened == {1: 20, 31: 20, 61: 20}


def test_position_opens_its_connections_at_once_however_many(endpoint):
    """A histogram for each position of each run at a time took two gigabytes, and seconds of what it measures."""

    def with_little_memory():
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))

    command = [str(binary()), "bench", "position", *QUICK, "--at-once", "64", "--endpoint", endpoint]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=with_little_memory)

    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["metrics"]


def test_drain_opens_what_it_must_and_no_more(endpoint):
    outcome = bench("drain", *QUICK, "--workers", "2", endpoint=endpoint)

    assert outcome.metric("drain.http.kept.2.connections") == 2
    assert outcome.metric("drain.https.kept.2.connections") == 2
    assert outcome.metric("drain.http.new.2.connections") >= 2000
    assert outcome.metric("drain.https.new.2.client_cpu") > outcome.metric("drain.https.kept.2.client_cpu")
    assert outcome.metric("drain.https.kept.2.server_cpu") > 0


def test_poll_handles_every_message_in_every_model(endpoint):
    outcome = bench(
        "poll", *QUICK, "--handler", "50ms", "--interval", "10ms", "--batch", "1", endpoint=endpoint
    )

    # Eight consumers, 20 messages, 50 ms each.
    assert outcome.metric("poll.serial.1.time") >= 0.15
    assert 0 < outcome.metric("poll.serial.1.busy_handlers") <= 8
    assert outcome.metric("poll.worker.time") > 0 and outcome.metric("poll.timer.1.time") > 0


def test_sweep_fits_the_law(endpoint):
    outcome = bench("sweep", *QUICK, "--clients", "1,2,4", endpoint=endpoint)

    assert outcome.metric("sweep.1.rate") > 0 and outcome.metric("sweep.4.rate") > 0
    assert outcome.metric("sweep.serial") >= 0


def test_producers_send_on_where_nobody_consumes(endpoint):
    outcome = bench(
        "pc", *QUICK, "--batch", "10", "--producers", "2", "--consumers", "0", "--backlog", "10", endpoint=endpoint
    )

    # A bound of ten would have let each producer send once or twice.
    assert outcome.metric("pc.batch.messages") > 40


def test_rate_holds_a_low_rate(endpoint):
    outcome = bench("rate", *QUICK, "--rate", "50", "--conns", "4", endpoint=endpoint)

    achieved, unsent = outcome.metric("rate.50.achieved"), outcome.metric("rate.50.unsent")
    # At most what was due, warm-up included; and what is missing is counted, but for four under way at the end.
    assert 0 < achieved <= 1.3 * 50 + 1
    assert achieved + unsent >= 44
    assert outcome.metric("rate.50.p99") >= outcome.metric("rate.50.p50") > 0


def test_unsent_are_whole_requests(endpoint):
    """Ten messages each: a count that was estimated from the rate would not be a multiple."""
    outcome = bench("rate", *QUICK, "--rate", "107", "--batch", "10", "--conns", "4", endpoint=endpoint)

    assert outcome.metric("rate.107.unsent") % 10 == 0
    assert outcome.metric("rate.107.achieved") > 0


def test_consumers_may_poll_without_a_pause(endpoint):
    outcome = bench("poll", *QUICK, "--handler", "1ms", "--interval", "0s", "--batch", "1", endpoint=endpoint)

    assert outcome.metric("poll.timer.1.time") > 0


def test_a_rate_at_which_nothing_is_due_for_minutes_ends_when_it_is_over(endpoint):
    # Nothing was measured, which is no success.
    outcome = bench("rate", *QUICK, "--rate", "0.05", endpoint=endpoint, code=1)

    assert outcome.metric("failed") == outcome.metric("unsent") == 0


def test_rate_goes_through_its_stages(endpoint):
    outcome = bench("rate", *QUICK, "--stage", "20/s:1s,200/s:1s", "--conns", "8", endpoint=endpoint)

    first, second = outcome.metric("rate.stage1.achieved"), outcome.metric("rate.stage2.achieved")
    # At most what was due since the warm-up began; and what is missing is counted, but for eight under way at the end.
    assert 0 < first <= 27
    assert first < second <= 300
    assert second + outcome.metric("rate.stage2.unsent") >= 190
    assert len(outcome.report["sections"][0]["charts"]) == 2


def test_a_stage_does_not_sleep_on_by_the_rate_of_the_one_before(endpoint, tmp_path):
    log = tmp_path / "stages.hlog"
    stages = "1/s:1s,100/s:2s,1/s:1s"
    outcome = bench("rate", *QUICK, "--stage", stages, "--conns", "64", "--hdr", str(log), endpoint=endpoint)

    # By the first stage's rate, each of 64 connections would send once a minute.
    assert outcome.metric("rate.stage2.unsent") <= 20
    assert outcome.metric("rate.stage2.achieved") > 80
    reader, sends = HistogramLogReader(str(log), HdrHistogram(1, 600 * 10**9, 3)), {}
    while interval := reader.get_next_interval_histogram():
        sends[interval.get_tag()] = interval.get_total_count()
    assert {f"rate.stage{number}.send" for number in (1, 2, 3)} <= set(sends)
    assert sends["rate.stage1.send"] + sends["rate.stage3.send"] < sends["rate.stage2.send"] <= 200


def test_a_stage_has_bodies_and_handlers_of_its_own(endpoint, tmp_path):
    table, page = tmp_path / "stages.csv", tmp_path / "stages.html"
    outcome = bench(
        "rate", *QUICK, "--stage", "40/s:2s:size=100,40/s:2s:size=10KB:delay=500ms", "--conns", "8", "--consumers", "2",
        "--csv", str(table), "--html", str(page), endpoint=endpoint,
    )

    # Two consumers that take half a second for each message receive four a second, and what they held before.
    assert outcome.metric("rate.stage2.received") <= 4 + 4 < outcome.metric("rate.stage1.received")
    assert outcome.metric("rate.stage2.achieved") > 20
    assert outcome.metric("rate.stages.lost") == outcome.metric("rate.stages.failed") == 0
    sizes, seconds = outcome.report["sections"][0]["tables"]
    assert [row[:2] for row in seconds["rows"]] == [["by stages", str(second)] for second in (1, 2)]
    assert [row[1:3] for row in sizes["rows"]] == [["100 bytes", "0 µs"], ["10,240 bytes", "500 ms"]]
    assert "10,240 bytes" in table.read_text() and "10,240 bytes" in page.read_text()


def test_a_stage_that_nobody_could_run_is_refused(endpoint):
    assert "--consumers is 0" in bench("rate", "--stage", "1/s:1s:delay=1s", endpoint=endpoint, code=1).err
    assert "size=SIZE" in bench("rate", "--stage", "1/s:1s:colour=red", endpoint=endpoint, code=2).err


def test_rate_with_consumers_leaves_nothing_behind(endpoint):
    outcome = bench("rate", *QUICK, "--rate", "50", "--conns", "4", "--consumers", "2", endpoint=endpoint)

    assert outcome.metric("rate.50.lost") == 0
    assert outcome.metric("rate.50.end_to_end_p99") > 0


def test_the_interval_log_is_what_other_tools_read(endpoint, tmp_path):
    log = tmp_path / "rate.hlog"
    report = bench(
        "rate", *QUICK, "--rate", "50", "--conns", "4", "--consumers", "2", "--hdr", str(log), endpoint=endpoint
    )

    reader = HistogramLogReader(str(log), HdrHistogram(1, 600 * 10**9, 3))
    recorded = {}
    while interval := reader.get_next_interval_histogram():
        recorded[interval.get_tag()] = interval
    assert {f"rate.50.{verb}" for verb in ("send", "service", "late", "receive", "end_to_end")} <= set(recorded)
    # A value stands for all that are within a thousandth of it.
    longest_us = recorded["rate.50.send"].get_max_value() / 1000
    assert longest_us == pytest.approx(report.metric("rate.50.max"), rel=0.002)


def test_every_scenario_has_histograms(endpoint, tmp_path):
    log = tmp_path / "scenario.hlog"
    scenarios = {
        "position": (["position", "--sends", "10", "--at-once", "4"], {"position.endpoint.send"}),
        "drain": (
            ["drain", "--workers", "2", "--pool", "on", "--scheme", "http"],
            {"drain.http.kept.2.receive", "drain.http.kept.2.delete"},
        ),
        "poll": (
            ["poll", "--handler", "10ms", "--interval", "10ms", "--batch", "1", "--model", "serial,worker", "--delay", "0s"],
            {f"poll.{model}.{verb}" for model in ("serial.1", "worker") for verb in ("receive", "delete")},
        ),
    }
    for arguments, tags in scenarios.values():
        bench(*arguments, *QUICK, "--hdr", str(log), endpoint=endpoint)
        reader, found = HistogramLogReader(str(log), HdrHistogram(1, 600 * 10**9, 3)), set()
        while interval := reader.get_next_interval_histogram():
            assert interval.get_total_count() > 0
            found.add(interval.get_tag())
        assert found == tags


def test_http_asks_any_server_what_it_is_told_to():
    asked, answer = [], [200]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.path, self.headers["X-Kind"], body, self.client_address))
            self.send_response(answer[0])
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            where = f"http://127.0.0.1:{http.server_port}/some/path?x=1"
            request = ["http", *QUICK, "--method", "POST", "--body", "hello", "--header", "X-Kind: secret"]
            closed = bench(*request, "--conns", "3", endpoint=where)
            connections = {address for *_, address in asked}
            paced = bench(*request, "--rate", "50", "--conns", "4", endpoint=where)
            answer[0] = 500
            refused = bench(*request, endpoint=where, code=1)
        finally:
            http.shutdown()
            thread.join()

    assert {entry[:3] for entry in asked} == {("/some/path?x=1", "secret", b"hello")}
    assert closed.metric("http.closed.achieved") > 0 and len(connections) == 3
    assert "secret" not in closed.report["command"]
    assert 0 < paced.metric("http.50.achieved") <= 1.3 * 50 + 1
    assert paced.metric("http.50.p99") >= paced.metric("http.50.service_p99") > 0
    assert "no answer was a success: status 500" in refused.err


def test_find_max_ends_at_a_rate_that_keeps_the_objective(endpoint):
    outcome = bench(
        "rate", *QUICK, "--rate", "10", "--find-max", "--slo", "p50<1us", "--conns", "4", endpoint=endpoint
    )

    # Nothing is so quick: it went down to one message a second and gave up.
    assert outcome.metric("rate.max") == 0
    assert "broken" in outcome.err


def test_ab_finds_a_round_trip_but_nothing_between_an_endpoint_and_itself(endpoint, slow):
    outcome = bench("ab", *QUICK, "--sends", "10", "--versus", slow(endpoint), endpoint=endpoint)

    assert outcome.metric("ab.difference.p50.low") > 5000
    assert "A is quicker in the median" in outcome.report["sections"][0]["finding"]


def test_sdb_csv_writes_every_row_both_ways(tmp_path):
    log = tmp_path / "writes.hlog"
    fake = FakeSimpleDb()
    try:
        flags = ["--trials", "1", "--connections", "1", "--sign", "key:secret", "--hdr", str(log)]
        outcome = bench("sdb-csv", *QUICK, *flags, endpoint=fake.endpoint)
    finally:
        fake.close()

    single, batch = fake.domains.values()
    assert len(single) == 50 and single == batch
    assert all(len(row) == 8 for row in single.values())
    assert fake.actions.count("PutAttributes") == 50
    assert fake.actions.count("BatchPutAttributes") == 2
    assert fake.actions.count("Select") == 10
    assert not fake.refused
    assert "Tag=sdb.1.single.1.send" in log.read_text() and "Tag=sdb.1.batch.1.send" in log.read_text()
    assert outcome.metric("sdb.1.gain") > 0
    assert not any(metric["name"].endswith("syncs_per_put") for metric in outcome.report["metrics"])


def test_sdb_csv_measures_millrace_in_both_ways_over_one_and_eight_connections(make_server):
    server = make_server(durability="fsync")
    outcome = bench("sdb-csv", *QUICK, "--rows", "200000", "--trials", "1", endpoint=server.endpoint)

    figures = {metric["name"]: metric["value"] for metric in outcome.report["metrics"]}
    for connections in (1, 8):
        for way in ("single", "batch"):
            front = f"sdb.{connections}.{way}."
            rows = 1 if way == "single" else 25
            assert figures[front + "rate"] == pytest.approx(figures[front + "puts"] * rows)
            assert 0 < figures[front + "p50"] <= figures[front + "p99"]
            # What a commit holds is made durable by one sync; the server's own commits come on top.
            assert 0 < figures[front + "syncs_per_put"] < 3
        assert figures[f"sdb.{connections}.gain"] > 0
    assert figures["sdb.8.single.syncs_per_put"] < figures["sdb.1.single.syncs_per_put"]
    assert 0 < figures["sdb.select.p50"] <= figures["sdb.select.p99"]
    ratios = outcome.report["sections"][0]["tables"][1]["rows"]
    assert [row[1] for row in ratios[-2:]] == ["8.4", "5.4"]
    assert not sdk_client(server, service="sdb").list_domains().get("DomainNames"), "domains were left"


def test_sdb_csv_over_a_delay_pays_it_once_a_request(endpoint):
    flags = ["--trials", "1", "--connections", "1", "--delay", "20ms", "--rows", "50"]
    outcome = bench("sdb-csv", "--json", *flags, endpoint=endpoint)

    assert outcome.metric("sdb.1.single.p50") >= 20_000
    assert outcome.metric("sdb.1.single.time") >= 50 * 0.02
    assert outcome.metric("sdb.1.gain") > 5


def test_the_page_is_well_formed_and_needs_nothing_else(endpoint, tmp_path):
    page, table = tmp_path / "report.html", tmp_path / "report.csv"
    bench("sweep", *QUICK, "--clients", "1,2,4", "--html", str(page), "--csv", str(table), endpoint=endpoint)

    class Checker(html.parser.HTMLParser):
        open_tags = []
        links = []

        def handle_starttag(self, tag, attributes):
            self.links += [value for name, value in attributes if name in ("src", "href")]
            if tag not in ("meta", "line", "rect", "polyline", "circle", "br"):
                self.open_tags.append(tag)

        def handle_endtag(self, tag):
            if tag not in ("line", "rect", "polyline", "circle"):
                assert self.open_tags.pop() == tag

        def handle_startendtag(self, tag, attributes):
            self.links += [value for name, value in attributes if name in ("src", "href")]

    checker = Checker()
    checker.feed(page.read_text())
    assert not checker.open_tags
    assert all(link.startswith("#") for link in checker.links)
    assert "<svg" in page.read_text()
    assert table.read_text().startswith("section,table,clients,messages/s,efficiency")


def test_json_goes_to_a_file_beside_the_table(endpoint, tmp_path):
    path = tmp_path / "report.json"
    outcome = bench("sweep", "--scale", "0.001", "--clients", "1,2,4", f"--json={path}", endpoint=endpoint)

    assert json.loads(path.read_text())["scenario"] == "sweep"
    assert "efficiency" in outcome.out


def test_a_short_run_misses_no_expectation_by_chance(endpoint, tmp_path):
    page = tmp_path / "report.html"
    outcome = bench("poll", *QUICK, "--html", str(page), endpoint=endpoint)

    shapes = [shape for section in outcome.report["sections"] for shape in section["shapes"]]
    assert shapes
    # In a run as short as this, patterns are not judged, and figures only if they are far off.
    assert all(shape["holds"] or not shape["is_judged"] for shape in shapes) == (outcome.metric("shapes_missed") == 0)
    assert "data-label=" in page.read_text()
