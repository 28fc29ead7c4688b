//! The words of the domain, shared by every floor: ids, names, ARNs, URLs, time, limits and
//! digests.
//!
//! Nothing here does I/O or knows a protocol.

mod arn;
mod date;
mod digest;
mod ids;
pub mod instant_text;
pub mod limits;
mod md5_lanes;
mod share;
pub mod text;
mod time;
mod url;

pub use arn::{Arn, QueueKey, is_account, is_plain_name, partition};
pub use date::Date;
pub use digest::{
    AttributeDigest, SharedDigest, hex, hex_digits, hex_text, md5, md5_of_each, sha256_hex,
};
pub use ids::{MessageId, QueueId, ShardId};
pub use share::may_take;
pub use time::{Clock, SystemClock, Timestamp};
pub use url::{Url, UrlError};
