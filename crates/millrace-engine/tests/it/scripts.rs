//! Text scripts: one file a topic, meant to be read.
//!
//! ```text
//! queue NAME [fifo] [timeout=30s] [delay=0s] [retention=4d] [scope=group] [dead=NAME] [max=3]
//! send GROUP BODY... [dedup=ID] [delay=5s]      GROUP is - for none; [-> duplicate of BODY]
//! receive MAX [timeout=0s] [attempt=ID] [limit=N] -> BODY... | nothing | over limit
//!                                                 [; dead BODY...] what was dead-lettered
//! delete BODY...  [-> gone | expired]           BODY@2: with the handle of its second receive
//! visibility BODY TIME  [-> not available | beyond limit]
//! give_back BODY...  [-> nothing]
//! message BODY [state=..] [count=..] [sent=..] [first=..] [deadline=..] [from=..] [group=..]
//! counts [ready=N] [delayed=N] [in_flight=N]    what is not named is 0
//! oldest TIME | nothing                         when the oldest message was sent
//! next TIME | never                             when there is something to do
//! set [timeout=..] [delay=..] [retention=..] [dead=..] [max=..] [scope=..]
//! tick TIME
//! purge
//! restart                                       replay all records, go on with the outcome
//! truncate                                      relocate everything, drop what was before, restart
//! ```
//! Commands are for the first queue unless a line begins with `NAME:`. Times that lines tell are
//! counted from the script's start. After every command the journal is replayed and compared.

use std::collections::HashMap;
use std::fmt::Write as _;

use millrace_core::Timestamp;
use millrace_engine::{
    DeduplicationScope, Kind, MessageState, Receive, ReceiveError, Redrive, Sent, Settings,
    VisibilityError,
};

use crate::harness::{Broker, NewMessage, Outcome, Receipt, START};
use crate::replay::assert_replay_is_live;

macro_rules! scripts {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name), include_str!(concat!("scripts/", stringify!($name), ".txt")));
        })*
    };
}

scripts! {
    attempts
    dead_letters_fifo
    dead_letters_standard
    deduplication
    delays
    delays_fifo
    fair_queues
    fifo_groups
    give_back
    in_flight_limit
    life_cycle
    purge
    retention
    visibility_fifo
    visibility_standard
}

struct Script {
    broker: Broker,
    /// The latest receipt of every message and that of each receive.
    receipts: HashMap<String, Receipt>,
}

/// A line without its queue: words, options and what is expected.
struct Line<'a> {
    queue: usize,
    command: &'a str,
    words: Vec<&'a str>,
    options: Vec<(&'a str, &'a str)>,
    expected: Option<&'a str>,
}

impl Line<'_> {
    fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

fn run(name: &str, text: &str) {
    let mut script = Script { broker: Broker::new(), receipts: HashMap::new() };
    for (number, line) in (1..).zip(text.lines()) {
        let said = line.split('#').next().unwrap_or_default().trim();
        if said.is_empty() {
            continue;
        }
        let place = format!("scripts/{name}.txt:{number}: {said}");
        let line = script.parse(said);
        let found = script.execute(&line);
        let expected = line.expected.unwrap_or("ok");
        assert_eq!(found, expected, "{place}");
        println!("{place}");
        assert_replay_is_live(&mut script.broker);
    }
}

impl Script {
    fn parse<'a>(&self, text: &'a str) -> Line<'a> {
        let (text, expected) = match text.split_once(" -> ") {
            Some((text, expected)) => (text, Some(expected.trim())),
            None => (text, None),
        };
        let (queue, text) = match text.split_once(": ") {
            Some((name, text)) => (self.queue(name), text),
            None => (0, text),
        };
        let mut parts = text.split_whitespace();
        let command = parts.next().expect("a command");
        let (options, words): (Vec<_>, Vec<_>) = parts.partition(|part| part.contains('='));
        let options = options.into_iter().filter_map(|option| option.split_once('='));
        Line { queue, command, words, options: options.collect(), expected }
    }

    /// Does what the line says; returns what came of it.
    fn execute(&mut self, line: &Line<'_>) -> String {
        match line.command {
            "queue" => self.create(line),
            "send" => return self.send(line),
            "receive" => return self.receive(line),
            "delete" => return self.delete(line),
            "visibility" => return self.change_visibility(line),
            "give_back" => {
                let receipts: Vec<_> = line.words.iter().map(|w| self.receipt(w)).collect();
                let returned = self.broker.give_back(&receipts);
                return if returned.is_empty() { "nothing" } else { "ok" }.to_owned();
            }
            "message" => self.assert_message(line),
            "counts" => self.assert_counts(line),
            "oldest" => {
                let oldest = self.broker.members[line.queue].queue.oldest_sent();
                assert_eq!(oldest, (line.words != ["nothing"]).then(|| at(line.words[0])));
            }
            "next" => {
                let next = self.broker.members[line.queue].queue.next_deadline();
                let never = line.words == ["never"];
                assert_eq!(next, if never { Timestamp::NEVER } else { at(line.words[0]) });
            }
            "set" => {
                let settings = self.broker.members[line.queue].queue.settings().clone();
                self.broker.set(line.queue, with_options(settings, line));
            }
            "tick" => {
                self.broker.now = self.broker.now.plus_millis(millis(line.words[0]));
                self.broker.tick();
            }
            "purge" => self.broker.purge(line.queue),
            "restart" => self.broker.restart(),
            "truncate" => {
                self.broker.truncate(u32::MAX);
                self.broker.restart();
            }
            other => panic!("no such command: {other}"),
        }
        "ok".to_owned()
    }

    fn create(&mut self, line: &Line<'_>) {
        let kind = if line.words.contains(&"fifo") { Kind::Fifo } else { Kind::Standard };
        let settings = with_options(Settings { kind, ..Settings::default() }, line);
        self.broker.create(line.words[0], settings);
    }

    fn send(&mut self, line: &Line<'_>) -> String {
        let [group, names @ ..] = line.words.as_slice() else { panic!("send GROUP BODY") };
        let message = NewMessage {
            group: (*group != "-").then_some(*group),
            dedup: line.option("dedup"),
            delay_s: line.option("delay").map(seconds),
        };
        let mut found = "ok".to_owned();
        for name in names {
            if let Sent::Duplicate { id, .. } = self.broker.send(line.queue, name, message) {
                found = format!("duplicate of {}", self.broker.name(id));
            }
        }
        found
    }

    fn receive(&mut self, line: &Line<'_>) -> String {
        let receive = Receive {
            max: line.words[0].parse().expect("a number"),
            visibility_timeout_s: line.option("timeout").map(seconds),
            attempt: line
                .option("attempt")
                .map(|id| id.bytes().fold(0, |hash, byte| hash << 8 | u128::from(byte))),
            in_flight_limit: line.option("limit").map_or(120_000, |n| n.parse().expect("limit")),
        };
        let outcome = match self.broker.receive(line.queue, &receive) {
            Err(ReceiveError::OverLimit) => return "over limit".to_owned(),
            other => other.expect("the dead-letter queue is at hand"),
        };
        let said = describe(&outcome);
        for receipt in outcome.receipts {
            let name = receipt.name.clone();
            let numbered = format!("{name}@{}", receipt.handle.receive_count);
            self.receipts.insert(numbered, receipt.clone());
            self.receipts.insert(name, receipt);
        }
        said
    }

    fn delete(&mut self, line: &Line<'_>) -> String {
        let mut found = "ok";
        for word in &line.words {
            match self.broker.delete(&self.receipt(word).handle) {
                Ok(true) => {}
                Ok(false) => found = "gone",
                Err(_) => found = "expired",
            }
        }
        found.to_owned()
    }

    fn change_visibility(&mut self, line: &Line<'_>) -> String {
        let receipt = self.receipt(line.words[0]);
        let found = self.broker.change_visibility(&receipt.handle, seconds(line.words[1]));
        match found {
            Ok(()) => "ok",
            Err(VisibilityError::NotAvailable) => "not available",
            Err(VisibilityError::BeyondLimit) => "beyond limit",
        }
        .to_owned()
    }

    fn assert_message(&self, line: &Line<'_>) {
        let queue = &self.broker.members[line.queue].queue;
        let journal = &self.broker.journal;
        let view = queue
            .messages()
            .find(|view| journal.at(view.delivery.position).body == line.words[0])
            .expect("the message is there");
        for (name, value) in &line.options {
            let is_so = match *name {
                "state" => {
                    let state = match view.state {
                        MessageState::Free => "free",
                        MessageState::Delayed => "delayed",
                        MessageState::Ready => "ready",
                        MessageState::InFlight => "in_flight",
                    };
                    state == *value
                }
                "count" => view.delivery.receive_count.to_string() == *value,
                "sent" => view.delivery.sent == at(value),
                "first" => view.delivery.first_received == at(value),
                "deadline" => view.deadline == at(value),
                "group" => view.delivery.group.as_deref() == Some(value),
                "from" => view.delivery.source.as_deref().is_some_and(|arn| arn.ends_with(value)),
                other => panic!("no such option: {other}"),
            };
            assert!(is_so, "{name} is not {value}: {view:?}");
        }
    }

    fn assert_counts(&self, line: &Line<'_>) {
        let counts = self.broker.members[line.queue].queue.counts();
        let wanted = |name| line.option(name).map_or(0, |n| n.parse().expect("a number"));
        let found = [counts.ready, counts.delayed, counts.in_flight];
        let wanted = ["ready", "delayed", "in_flight"].map(wanted);
        assert_eq!(found, wanted, "ready, delayed, in flight");
    }

    fn receipt(&self, word: &str) -> Receipt {
        self.receipts.get(word).expect("the message was received").clone()
    }

    fn queue(&self, name: &str) -> usize {
        let members = &self.broker.members;
        members.iter().position(|member| member.definition.name == name).expect("the queue exists")
    }
}

fn describe(outcome: &Outcome) -> String {
    let names: Vec<_> = outcome.receipts.iter().map(|receipt| receipt.name.as_str()).collect();
    let mut said = if names.is_empty() { "nothing".to_owned() } else { names.join(" ") };
    if !outcome.moved.is_empty() {
        let _ = write!(said, "; dead {}", outcome.moved.join(" "));
    }
    said
}

fn with_options(mut settings: Settings, line: &Line<'_>) -> Settings {
    for (name, value) in &line.options {
        match *name {
            "timeout" => settings.visibility_timeout_s = seconds(value),
            "delay" => settings.delay_s = seconds(value),
            "retention" => settings.retention_s = seconds(value),
            "scope" if *value == "group" => {
                settings.deduplication_scope = DeduplicationScope::MessageGroup;
            }
            "dead" => {
                settings.redrive = Some(Redrive {
                    region: "us-east-1".to_owned(),
                    account: "000000000000".to_owned(),
                    name: (*value).to_owned(),
                    max_receive_count: line.option("max").expect("max").parse().expect("a number"),
                });
            }
            "max" => {}
            other => panic!("no such option: {other}"),
        }
    }
    settings
}

/// `500ms`, `30s`, `5m`, `12h`, `4d`.
fn millis(text: &str) -> u64 {
    let digits = text.find(|c: char| !c.is_ascii_digit()).expect("a unit");
    let number: u64 = text[..digits].parse().expect("a number");
    let unit_ms = match &text[digits..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        other => panic!("no such unit: {other}"),
    };
    number * unit_ms
}

fn seconds(text: &str) -> u32 {
    (millis(text) / 1000) as u32
}

fn at(text: &str) -> Timestamp {
    START.plus_millis(millis(text))
}
