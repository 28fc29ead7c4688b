//! The documented numbers of IronMQ (its reference of version 3, and of version 1 where that says
//! something else).

/// Seconds that a reservation lasts if nobody says otherwise.
pub const MESSAGE_TIMEOUT_S: u32 = 60;
/// Its most. The documents say at least 30, but the service took less.
pub const MESSAGE_TIMEOUT_MAX_S: u64 = 86_400;
/// Seconds that a message is kept if nobody says otherwise.
pub const MESSAGE_EXPIRATION_S: u32 = 604_800;
/// Its most.
pub const MESSAGE_EXPIRATION_MAX_S: u64 = 2_592_000;
/// Seconds that a message may be delayed.
pub const DELAY_S: u64 = 604_800;
/// Messages of one reserve, peek or delete.
pub const MESSAGES: u64 = 100;
/// Seconds that a reserve may wait.
pub const WAIT_S: u64 = 30;
/// Attempts after the first to push a message, if nobody says otherwise.
pub const RETRIES: u32 = 3;
/// Its most.
pub const RETRIES_MAX: u64 = 100;
/// Seconds between two attempts, if nobody says otherwise.
pub const RETRIES_DELAY_S: u32 = 60;
/// Its least.
pub const RETRIES_DELAY_MIN_S: u64 = 3;
/// Its most.
pub const RETRIES_DELAY_MAX_S: u64 = 86_400;
/// Alerts of one queue.
pub const ALERTS: usize = 5;
/// Headers of one message that go to endpoints.
pub const PUSH_HEADERS: usize = 5;
/// Bytes of such a header's name.
pub const PUSH_HEADER_NAME_BYTES: usize = 64;
/// Bytes of its value.
pub const PUSH_HEADER_VALUE_BYTES: usize = 1_024;
/// Reservations before a message is dead, if nobody says otherwise.
pub const MAX_RESERVATIONS: u32 = 10;
/// Its most.
pub const MAX_RESERVATIONS_MAX: u64 = 1_000;
/// Queues of one list, if nobody says otherwise.
pub const PER_PAGE: usize = 30;
/// Its most.
pub const PER_PAGE_MAX: u64 = 100;
/// The highest page number of version 1.
pub const PAGE_MAX: u64 = 100;
/// Bytes of a queue's name; not documented.
pub const QUEUE_NAME_BYTES: usize = 255;
