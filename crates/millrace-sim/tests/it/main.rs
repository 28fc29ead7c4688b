//! Seeds on every change, and those that once found a bug.

mod seeds;
