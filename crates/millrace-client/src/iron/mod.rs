//! IronMQ, versions 3 and 1 of its HTTP interface.
//!
//! Both reserve messages for a time, extend that (touch) and give them back (release). Version 3
//! names each reservation; version 1 knows messages only, so that a late delete may hit the
//! reservation of somebody else. Neither tells the outcome of single entries.

mod body;
mod exchange;
mod peer;
#[cfg(test)]
mod tests;

pub use peer::{IronOptions, IronPeer, IronVersion};
