//! SimpleDB's Select: an expression, NUL, a token.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| millrace_tables::select::fuzz::select(input));
