//! The AWS JSON decoder: the first byte chooses the action, the rest is the body.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| millrace_wire::fuzz::json(input));
