//! The queue engine: pure, deterministic state machines.
//!
//! A [`Queue`] takes commands with the present time as an argument and changes its state. Each change
//! that must outlive a crash adds its [`record`] to the caller's [`Records`](record::Records), and
//! [`Replay`] rebuilds the same state from them. No I/O, clock, thread or randomness inside: message
//! ids, times and hash keys are arguments.
//!
//! ```text
//!            send                    delay ends
//!   ────────────────► delayed ──────────────────────┐
//!      │  (no delay)                                ▼
//!      └─────────────────────────────────────────► ready ◄───────────────┐
//!                                                   │  │                 │ visibility ends, or
//!                                       receive     │  │ received too    │ is changed to 0
//!                                                   ▼  │ often           │
//!   deleted ◄────────────────────────────────── in flight ───────────────┘
//!   expired ◄── any state, when the retention      │
//!               period since the send is over      └──► dead-letter queue (at the next receive)
//! ```
//!
//! Costs: every command is O(messages named in it), O(log messages in flight or delayed) for its
//! timers; nothing depends on the number of waiting messages or groups. What does, such as a changed
//! delay of a FIFO queue, is done piece by piece with the ticks that follow.

mod content;
mod definition;
mod kept;
mod queue;
mod receipt;
pub mod record;
mod replay;
mod view;

pub use content::{Attribute, Content, ContentVersion, NewContent, StoredContent};
pub use definition::{DeduplicationScope, Definition, Kind, NewDefinition, Redrive, Settings};
pub use kept::{KeptDocument, MOVE_TASKS};
pub use queue::{
    BrowseCursor, BrowseFilter, BrowsePage, Claim, ClaimError, Claimant, Counts, DeadLetters,
    Delivery, Discarded, Expired, Fairness, Gauges, MessageState, MessageView, Queue, Receive,
    ReceiveError, Received, Relocate, RememberedSend, Send, Sent, VisibilityError,
};
pub use receipt::{Handle, ReceiptKey, SealedHandle};
pub use replay::{Finished, Replay, ReplayError, ReplayedQueue};
