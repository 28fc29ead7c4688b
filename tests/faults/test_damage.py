"""What the disk shows after a crash is not what was written: a torn tail is cut off, damage before
it is refused and repaired by hand.

After a crash the server is started and killed once more, without clients. What that appends was
never acknowledged to anybody, so it may be torn; and it says that all before it was durable, so
damage there is no torn tail.
"""

import re

import pytest

from crash.clients import Connection, drain
from crash.ledger import QueueLedger
from faults.rig import SCALE, Journal, LedgeredLoad, log_since
from support.waiting import eventually

FRAME_MAGIC = b"MRFR"
BATCH = 10  # Messages in a request.


def unacknowledged_end(server) -> tuple[str, int, int]:
    """Starts and kills without clients: segment, and the range that was appended."""
    journal = Journal(server)
    _, before = journal.end()
    server.start()
    server.kill()
    segment, after = journal.end()
    assert after > before, "a start appends something"
    return segment, before, after


def garbage(journal, rng, segment, begin, end):
    """Behind the end: noise, as a sector that was never written may hold."""
    journal.write(segment, end, rng.randbytes(rng.randrange(1, 100_000)))


def half_a_frame(journal, rng, segment, begin, end):
    """Behind the end: the beginning of the last frame again, as if the next had been cut."""
    head = journal.read(segment, begin, end - begin)
    journal.write(segment, end, head[: rng.randrange(8, len(head))])


def forged_frame(journal, rng, segment, begin, end):
    """Behind the end: a frame's magic and a length beyond every bound."""
    journal.write(segment, end, rng.randbytes(4) + FRAME_MAGIC + b"\1\2\0\0" + b"\xff" * 36)


def flipped_bit(journal, rng, segment, begin, end):
    at = rng.randrange(begin, end)
    (byte,) = journal.read(segment, at, 1)
    journal.write(segment, at, bytes([byte ^ 1 << rng.randrange(8)]))


def zeroed(journal, rng, segment, begin, end):
    """From somewhere in the last frame on, but before its last byte that is not zero already."""
    written = len(journal.read(segment, begin, end - begin).rstrip(b"\0"))
    at = rng.randrange(begin + 1, begin + written)
    journal.write(segment, at, bytes(end - at))


def shortened(journal, rng, segment, begin, end):
    """The file ends in the middle of the last frame."""
    with journal.path(segment).open("r+b") as file:
        file.truncate(rng.randrange(begin + 1, end))


def shortened_to_the_end(journal, rng, segment, begin, end):
    """The file ends with the last frame: nothing is torn, the space behind is gone."""
    with journal.path(segment).open("r+b") as file:
        file.truncate(end)


TEARS = [garbage, half_a_frame, forged_frame, flipped_bit, zeroed]


@pytest.mark.timeout(60 + 60 * SCALE)
def test_torn_tail_is_cut_off_and_costs_nothing(make_server, rng, say):
    server = make_server(durability="fsync", test=False)
    journal = Journal(server)
    load = LedgeredLoad(server)

    for tear in rng.sample(TEARS, len(TEARS)) * SCALE:
        with load:
            load.go_on_for(rng.uniform(0.1, 0.4))
            load.kill(server)
        segment, begin, end = unacknowledged_end(server)
        tear(journal, rng, segment, begin, end)
        report = journal.report()
        assert report["is_sound"], (tear.__name__, report)
        assert report["torn_tail"] is not None, (tear.__name__, report)

        logged = server.log.stat().st_size
        server.start()

        assert b"torn tail cut off" in log_since(server, logged), tear.__name__

    load.check(say)
    server.stop()
    assert journal.report()["torn_tail"] is None


@pytest.mark.parametrize("tear", [shortened, shortened_to_the_end])
def test_file_that_is_too_short_is_refused_and_repaired(make_server, rng, say, tear):
    """No crash shortens a file: a copy was not finished, say."""
    server = make_server(durability="fsync", test=False)
    journal = Journal(server)
    load = LedgeredLoad(server)
    with load:
        load.go_on_for(0.2)
        load.kill(server)
    segment, begin, end = unacknowledged_end(server)
    tear(journal, rng, segment, begin, end)

    server.spawn()
    assert server.process.wait(20) == 1, server.log_tail()
    assert f"segment {segment} offset 0: file is shorter" in server.log.read_text()
    assert not journal.report()["is_sound"]
    assert f"segment {segment}: file was too short" in journal.command("repair").stdout
    assert journal.report()["is_sound"]

    server.start()
    load.check(say)


@pytest.mark.parametrize("number", range(SCALE))
def test_damage_in_the_middle_is_refused_and_repaired(make_server, rng, say, number):
    server = make_server(durability="fsync", test=False)
    journal = Journal(server)
    early, late = LedgeredLoad(server, "early"), LedgeredLoad(server, "late")
    with early:
        early.go_on_for(0.4)
    # From here on the early queues are left alone, but for what is still in flight there.
    server.stop()
    _, safe = journal.end()
    server.start()
    with late:
        late.go_on_for(0.4)
        late.kill(server)
    segment, end, _ = unacknowledged_end(server)
    at = rng.randrange(safe, end - 64)
    how = rng.choice(["bit", "noise", "zeros"])
    if how == "bit":
        bad = bytes([journal.read(segment, at, 1)[0] ^ 1 << rng.randrange(8)])
    else:
        bad = rng.randbytes(200) if how == "noise" else bytes(300)
    bad = bad[: end - at]
    was = journal.read(segment, at, len(bad))
    journal.write(segment, at, bad)
    # Zeros over a frame's padding change nothing yet: the damage begins at the first other byte.
    at += next(n for n, (old, new) in enumerate(zip(was, bad, strict=True)) if old != new)

    # The start is refused, and says where.
    server.spawn()
    assert server.process.wait(20) == 1, server.log_tail()
    told = re.search(r"journal is corrupt: segment (\w+) offset (\d+)", server.log.read_text())
    assert told, server.log_tail()
    offset = int(told[2])
    assert told[1] == segment
    assert safe <= offset <= at, "the damage is not where it is said to be"
    say(f"{how} at {at}, between {safe} and {end}; refused at {offset}")

    # `check` finds the same and changes nothing; `repair` puts a gap there and keeps a copy.
    before = journal.read(segment, 0, end)
    report = journal.report()
    assert not report["is_sound"]
    assert (report["corruption"]["segment"], report["corruption"]["offset"]) == (segment, offset)
    assert f"offset {offset}" in journal.command("check").stderr
    assert journal.read(segment, 0, end) == before
    repaired = journal.command("repair")
    assert repaired.returncode == 0, repaired
    assert f"segment {segment} offset {offset}: " in repaired.stdout, repaired.stdout
    assert (journal.directory / f"{segment}.seg.bak").read_bytes()[:end] == before
    assert journal.read(segment, 0, offset) == before[:offset]
    assert journal.report()["is_sound"]
    assert journal.command("repair").stdout == "nothing to repair\n"
    say(repaired.stdout.strip())

    # All is there but what the damage held: its sends are lost, what its deletes took comes back.
    records = sum(int(lost) for lost in re.findall(r"(\d+) of \d+ records lost", repaired.stdout))
    frames = sum(int(lost) for lost in re.findall(r"(\d+) frames lost", repaired.stdout))
    assert records or frames
    # Each of the late load's six connections has one request in a frame.
    lost_sends = records + frames * 6 * BATCH
    lost_deletes = records * BATCH + frames * 6 * BATCH
    server.start()
    early.check(say)
    connection = Connection(server.port)
    for url, ledger in late.queues:
        found = {ledger.key(body) for body in drain(connection, url, type(ledger)())}
        assert found <= ledger.sending, "bodies that were never sent"
        lost = ledger.acknowledged - ledger.deleting - found
        back = found & ledger.deleted_at.keys()
        say(f"{len(ledger.acknowledged)} acknowledged, {len(lost)} lost, {len(back)} back")
        assert len(lost) <= lost_sends
        assert len(back) <= lost_deletes


def sealed_segment(server, journal, rng) -> tuple[str, str, list[str]]:
    """Sends until a segment is sealed and kills: its name, the queue, and the bodies."""
    connection = Connection(server.port)
    url = connection.call("CreateQueue", QueueName="large")["QueueUrl"]
    bodies = []

    def sidecars():
        return list(journal.directory.glob("*.idx"))

    while len(bodies) < 90 or (len(bodies) < 300 and not sidecars()):
        bodies.append(f"m{len(bodies)}-" + chr(97 + rng.randrange(26)) * rng.randrange(900_000, 1_000_000))
        assert connection.call("SendMessage", QueueUrl=url, MessageBody=bodies[-1]) is not None
    # The thread that writes them gives way to all others, and so to other tests.
    eventually(sidecars, "a sidecar", 30)
    server.kill()
    return min(sidecars()).stem, url, bodies


def test_damaged_sidecar_is_made_anew(make_server, rng, say):
    server = make_server(durability="os")
    journal = Journal(server)
    segment, url, bodies = sealed_segment(server, journal, rng)
    sidecar = journal.directory / f"{segment}.idx"

    for how in ("flipped", "shortened", "emptied", "replaced", "missing"):
        data = bytearray(sidecar.read_bytes())
        if how == "flipped":
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif how == "shortened":
            del data[rng.randrange(1, len(data)) :]
        else:
            data = rng.randbytes(len(data)) if how == "replaced" else b""
        sidecar.write_bytes(data)
        if how == "missing":
            sidecar.unlink()
        state = {found["segment"]: found["sidecar"] for found in journal.report()["segments"]}
        server.start()
        shown = Connection(server.port).call("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])
        server.kill()

        say(f"{how}: {state[segment]}")
        assert state[segment] in ("invalid", "missing")
        assert shown["Attributes"]["ApproximateNumberOfMessages"] == str(len(bodies))

    server.start()
    ledger = QueueLedger()
    ledger.send_begins(bodies)
    connection = Connection(server.port)
    assert sorted(drain(connection, url, ledger)) == sorted(bodies)


@pytest.mark.parametrize("first", ["start", "repair"])
def test_damaged_body_in_a_sealed_segment_takes_only_its_message(make_server, rng, say, first):
    """A start does not read such bodies: the damage shows when the message would be received. A repair
    costs no other message either."""
    server = make_server(durability="fsync")
    journal = Journal(server)
    segment, url, bodies = sealed_segment(server, journal, rng)
    victim = rng.choice(bodies[:40])
    data = journal.path(segment).read_bytes()
    at = data.index(victim.encode()[:100]) + rng.randrange(100, 900_000)
    journal.write(segment, at, bytes([data[at] ^ 1]))
    assert journal.report()["corruption"]["segment"] == segment
    if first == "repair":
        assert "1 of 1 records lost" in journal.command("repair").stdout
        assert journal.report()["is_sound"]

    server.start()
    connection = Connection(server.port)
    received = set()
    while messages := connection.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            received.add(message["Body"])
            connection.call("DeleteMessage", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    say(f"byte {at} of segment {segment}: {len(received)} of {len(bodies)} came")
    assert received == set(bodies) - {victim}
    assert f"record at position {segment}" in server.log.read_text()
