//! Heads and chunked bodies of HTTP/1.1: the first byte says how many bytes come at a time.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| millrace_server::fuzz::http1(input));
