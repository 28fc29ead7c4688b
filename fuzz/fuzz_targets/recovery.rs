//! Opening, checking and repairing a journal of arbitrary bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| millrace_journal::fuzz_recovery(input));
