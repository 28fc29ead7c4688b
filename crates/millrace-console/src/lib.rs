//! The web console: a server-rendered shell, hand-written modules, and figures that move.
//!
//! What it promises: every change goes through the same actions as clients' requests; looking
//! changes nothing; figures are sampled once a second for all viewers together, and not at all
//! while nobody looks. What it never does: send a message's body as HTML, keep a secret key, answer
//! a host name that it does not know.
//!
//! In reading order: [`Console`] (which path is what), `guard` (who may ask from where), `session`
//! (who logged in), `failures` (who guesses), `page` and `assets` (what the browser loads), `view`
//! (what a tab shows), `surroundings` (alarms, and the server itself), `sample` (all queues once a
//! second), `rows` (a tab's part of it), `iron_mq`
//! (what is IronMQ's in a queue's), `history` (the last minutes), `live` (server-sent events),
//! `browse` (messages without receiving them), `chosen` (what becomes of messages that a page
//! shows), `filter` (filter policies of SNS, tried),
//! `deliveries` (counts of subscriptions).

mod assets;
mod browse;
mod chosen;
mod console;
mod deliveries;
mod failures;
mod filter;
mod guard;
mod history;
mod html;
mod iron_mq;
mod live;
mod page;
mod rows;
mod sample;
mod session;
mod surroundings;
mod view;

pub use console::{Console, Options};
pub use surroundings::{ProcessFigures, ReadFigures};
