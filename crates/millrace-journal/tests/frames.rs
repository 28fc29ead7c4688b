//! Which frames count: `docs/internals/journal-format.md`, "Which frames count".

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use millrace_journal::frame::{Chain, FrameHeader, FrameKind, Prior, Verdict};
use millrace_journal::{Epoch, Position};

const CHAIN: Chain = Chain { epoch: Epoch(5), counter: 9, previous: 77 };
const CRC: u32 = 1234;

fn frame(kind: FrameKind, epoch: u64, counter: u64, previous: u32) -> FrameHeader {
    let (prior, place) = (Prior::Durable, Position(0));
    let epoch = Epoch(epoch);
    FrameHeader { kind, prior, length: 48, place, epoch, counter, previous, records: 0 }
}

fn valid(epoch: u64, counter: u64, previous: u32) -> Verdict {
    Verdict::Valid(Chain { epoch: Epoch(epoch), counter, previous })
}

#[test]
fn a_frame_counts_only_where_it_follows() {
    use FrameKind::{Data, Gap, Open};
    use Verdict::{Broken, Void};
    for (kind, epoch, counter, previous, verdict) in [
        (Open, 6, 10, 77, valid(6, 10, CRC)),
        (Open, 9, 10, 77, valid(9, 10, CRC)),
        (Open, 5, 10, 77, Broken),
        (Open, 6, 9, 77, Broken),
        (Open, 6, 11, 77, Broken),
        (Open, 6, 10, 78, Broken),
        (Open, 4, 10, 77, Void),
        (Data, 5, 10, 77, valid(5, 10, CRC)),
        (Data, 6, 10, 77, Broken),
        (Data, 5, 9, 77, Broken),
        (Data, 5, 11, 77, Broken),
        (Data, 5, 10, 78, Broken),
        (Data, 4, 10, 77, Void),
        (Gap, 5, 10, 78, valid(5, 10, 78)),
        (Gap, 8, 20, 78, valid(8, 20, 78)),
        (Gap, 5, 9, 77, Broken),
        (Gap, 4, 20, 77, Void),
    ] {
        let frame = frame(kind, epoch, counter, previous);
        assert_eq!(CHAIN.judge(&frame, CRC), verdict, "{frame:?}");
    }
    // Nothing that a disk may hold is too great.
    let end = Chain { counter: u64::MAX, ..CHAIN };
    assert_eq!(end.judge(&frame(Data, 5, 0, 77), CRC), valid(5, 0, CRC));
}

#[test]
fn later_frames_that_knew_the_others_to_be_durable_prove_damage() {
    for (epoch, counter, is_proof) in
        [(5, 10, true), (5, 11, true), (6, 30, true), (5, 9, false), (6, 9, false), (4, 30, false)]
    {
        let frame = frame(FrameKind::Data, epoch, counter, 0);
        assert_eq!(CHAIN.is_outlived_by(&frame), is_proof, "{frame:?}");
        let unsynced = FrameHeader { prior: Prior::Unsynced, ..frame };
        assert!(!CHAIN.is_outlived_by(&unsynced));
    }
}
