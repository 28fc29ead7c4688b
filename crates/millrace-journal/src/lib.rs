//! The journal: an ordered, durable sequence of atomic batches of opaque bytes.
//!
//! What it promises: a batch whose ticket is settled is there, whole and in its place, after any
//! crash; a batch that is not is there whole or not at all; positions only grow; nothing but
//! `truncate_before` forgets. What it never does: look into a record, retry a failed sync, answer
//! with bytes that it did not write.
//!
//! In reading order: the words ([`position`], [`record`]), the unit of writing and the rule that
//! says which of them count ([`frame`]), the seam ([`journal`]), what callers hold ([`group`]),
//! and the implementations ([`local`], [`memory`]), which pass [`conformance`]. The bytes on disk are drawn in
//! `docs/internals/journal-format.md`.

pub mod conformance;
mod error;
pub mod frame;
pub mod fs;
pub mod group;
pub mod journal;
pub mod local;
pub mod memory;
pub mod owner;
pub mod position;
mod received;
pub mod record;
pub mod store;

pub use error::{AppendError, Corruption, OpenError, ReadError, TruncateError, Unavailable};
pub use frame::SEGMENT_HEADER_BYTES;
pub use fs::{Fault, FileSystem, RealFileSystem, SimFileSystem};
pub use group::{
    GroupCommit, GroupOptions, Reservation, SYNC_BUCKETS, SYNC_FIRST_BUCKET_US, Stats,
};
pub use journal::{Journal, Pin, Pinned, PutFile, SegmentInfo};
pub use local::{
    CheckReport, Cut, Gap, LocalJournal, LocalOptions, LocalStore, Origin, RepairReport,
    UnownedLocal, check, fuzz_recovery, repair, segment_file_bytes,
};
pub use memory::{MemoryJournal, MemoryStore};
pub use owner::Owner;
pub use position::{Durability, Epoch, Opened, Position, Purpose, SegmentId, Ticket, TornTail};
pub use record::{Record, RecordBytes, Replayed};
pub use store::{End, JournalStore, Unowned};
