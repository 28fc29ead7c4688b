//! Filter policies of SNS: a policy, NUL, a body, then name, type and value of attributes.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| millrace_filters::fuzz::filter(input));
