//! The CloudWatch decoders: the first byte chooses the protocol, the second the action.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| millrace_wire::fuzz::cloudwatch(input));
