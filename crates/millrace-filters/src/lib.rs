//! Filter policies of SNS: which subscriptions of a topic a message is for.
//!
//! [`FilterPolicy::parse`] checks and compiles one policy, [`FilterPolicy::matches`] applies it to a
//! [`Message`], and [`Filters`] finds the matches among the policies of many subscriptions. Pure:
//! no I/O, no clock, no state besides the index.
//!
//! Operators: exact strings, numbers, booleans and null; `prefix`, `suffix`, `equals-ignore-case`,
//! `anything-but` with a value, a list or a prefix, `numeric`, `exists`, `cidr`, `$or`. SNS refuses
//! `wildcard`, and any other operator inside `anything-but`; so does this crate.
//!
//! Rules where Amazon's documentation says little:
//!
//! - Numbers are equal if they agree to six digits behind the point. Above five billion they are
//!   compared as 64-bit integers, or else as binary floating-point numbers.
//! - A message attribute of type Number is a number only: no string equals it. Binary attributes
//!   do not exist for a policy. A String.Array that is not a JSON array of strings, numbers,
//!   booleans and nulls makes the message unreadable for all policies on attributes.
//! - A body that is not a JSON object, or nests more than 127 levels, matches no policy.
//! - In a body, `{"a.b": 1}` is the same as `{"a": {"b": 1}}`. All conditions below an array are
//!   met by the same element of it. Arrays in arrays are one array; an empty one is absent.
//! - If parts of a policy that hold together name the same key twice, the last one counts.

mod condition;
mod error;
mod filters;
#[doc(hidden)]
pub mod fuzz;
mod index;
mod json;
mod message;
mod node;
mod number;
mod parse;
mod policy;
#[cfg(test)]
mod tests;

pub use error::FilterError;
pub use filters::Filters;
pub use message::{Attribute, AttributeKind, Message};
pub use policy::{FilterPolicy, Scope};
