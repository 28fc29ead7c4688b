//! Signature verification of an arbitrary request.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| millrace_wire::fuzz::sigv4(input));
