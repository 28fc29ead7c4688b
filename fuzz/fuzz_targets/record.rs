//! Decoding and replaying arbitrary records: each is a length u16 and that many bytes.

#![no_main]

use millrace_engine::Replay;
use millrace_engine::record::Record;

libfuzzer_sys::fuzz_target!(|input: &[u8]| replay(input));

fn replay(input: &[u8]) {
    let mut replay = Replay::default();
    let (mut rest, mut position) = (input, 1_u64 << 32);
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (index, behind) = behind.split_at(length);
        rest = behind;
        let is_known = Record::decode(index).is_some();
        let is_applied = replay.apply(index, position, length as u32).is_ok();
        assert!(is_known || !is_applied, "an unknown record was applied");
        position += 1 << 20;
    }
    let finished = replay.finish(1 << 40);
    for queue in finished.queues {
        queue.queue.assert_consistent();
    }
}
