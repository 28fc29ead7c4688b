//! What a view shows of a sample, as JSON, and what changed between two of them.
//!
//! A frame has a head (single figures) and lists of rows; each row has a `key`. A delta names only
//! what differs, so that a page of quiet queues costs a few bytes a second.

use std::collections::BTreeSet;

use millrace_broker::Kind;
use millrace_core::{QueueKey, Timestamp};
use serde_json::{Map, Value, json};

use crate::iron_mq;
use crate::sample::{Looked, Rates, Sample};
use crate::view::{KindFilter, Order, PAGE_ROWS, Part, Selection, Sort, View};

/// The deepest queues that the overview shows, and dead-letter queues that hold messages.
const OVERVIEW_ROWS: usize = 10;
/// Source queues that a dead-letter queue's page names.
const SOURCES_SHOWN: usize = 100;

/// Regions that the filter of queues offers.
const REGIONS_SHOWN: usize = 100;

/// What a view shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Frame {
    pub head: Map<String, Value>,
    pub lists: Vec<(&'static str, Vec<Row>)>,
}

/// One line of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub key: String,
    pub cells: Map<String, Value>,
}

impl Frame {
    pub(crate) fn of(sample: &Sample, view: &View) -> Frame {
        match &view.part {
            Part::Overview => overview(sample, view),
            Part::Queues(selection) => queues(sample, view, selection),
            Part::Queue(key) => queue(sample, view, key),
            Part::Server => server(sample, view),
        }
        .with_alarms(sample, view)
    }

    /// With how many of the viewer's alarms are in alarm, which every page shows.
    fn with_alarms(mut self, sample: &Sample, view: &View) -> Frame {
        let of_viewer = |(account, _): &(&String, &u64)| {
            view.account.as_ref().is_none_or(|mine| mine == *account)
        };
        let count: u64 = sample.in_alarm.iter().filter(of_viewer).map(|(_, count)| count).sum();
        self.head.insert("in_alarm".to_owned(), count.into());
        self
    }

    /// All of it.
    pub(crate) fn whole(&self) -> Value {
        let lists: Map<String, Value> = self
            .lists
            .iter()
            .map(|(name, rows)| {
                let rows: Vec<Value> = rows.iter().map(Row::whole).collect();
                ((*name).to_owned(), Value::Array(rows))
            })
            .collect();
        json!({ "head": self.head, "lists": lists })
    }

    /// What to change in `before` to have this.
    pub(crate) fn since(&self, before: &Frame) -> Value {
        let mut lists = Map::new();
        for (name, rows) in &self.lists {
            let empty = Vec::new();
            let known = before.lists.iter().find(|(known, _)| known == name);
            let known = known.map_or(&empty, |(_, rows)| rows);
            let is_same_order = rows.len() == known.len()
                && rows.iter().zip(known).all(|(row, known)| row.key == known.key);
            let changed: Vec<Value> = rows
                .iter()
                .filter_map(|row| match known.iter().find(|known| known.key == row.key) {
                    None => Some(row.whole()),
                    Some(known) => row.since(known),
                })
                .collect();
            let mut list = Map::new();
            if !changed.is_empty() {
                list.insert("rows".to_owned(), Value::Array(changed));
            }
            if !is_same_order {
                let keys = rows.iter().map(|row| Value::from(row.key.as_str()));
                list.insert("order".to_owned(), keys.collect());
            }
            if !list.is_empty() {
                lists.insert((*name).to_owned(), Value::Object(list));
            }
        }
        json!({ "head": changed_cells(&self.head, &before.head), "lists": lists })
    }
}

impl Row {
    fn whole(&self) -> Value {
        let mut cells = self.cells.clone();
        cells.insert("key".to_owned(), Value::from(self.key.as_str()));
        Value::Object(cells)
    }

    /// Its key and the cells that differ; none if none do.
    fn since(&self, before: &Row) -> Option<Value> {
        let mut cells = changed_cells(&self.cells, &before.cells);
        if cells.is_empty() {
            return None;
        }
        cells.insert("key".to_owned(), Value::from(self.key.as_str()));
        Some(Value::Object(cells))
    }
}

/// Cells that are new or differ; those that are gone become null.
fn changed_cells(now: &Map<String, Value>, before: &Map<String, Value>) -> Map<String, Value> {
    let mut changed: Map<String, Value> = now
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(*value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    for name in before.keys().filter(|name| !now.contains_key(*name)) {
        changed.insert(name.clone(), Value::Null);
    }
    changed
}

fn overview(sample: &Sample, view: &View) -> Frame {
    let sums = sample.sums(view);
    let mut head = Map::new();
    put_counts(&mut head, sums.counts, sums.oldest_sent);
    put_rates(&mut head, sums.rates);
    head.insert("queues".to_owned(), sums.queues.into());
    head.insert("now".to_owned(), sample.now.0.into());
    let mine = || sample.queues.iter().filter(|looked| view.may_show(looked.queue.key()));
    let mut deepest: Vec<&Looked> = mine().filter(|looked| backlog(looked) > 0).collect();
    keep_first(&mut deepest, OVERVIEW_ROWS, |looked| std::cmp::Reverse(backlog(looked)));
    let mut dead: Vec<&Looked> = mine()
        .filter(|looked| backlog(looked) > 0 && sample.sources.contains_key(looked.queue.key()))
        .collect();
    head.insert("dead_letter_queues".to_owned(), dead.len().into());
    keep_first(&mut dead, OVERVIEW_ROWS, |looked| std::cmp::Reverse(backlog(looked)));
    let rows = |list: Vec<&Looked>| list.into_iter().map(|looked| row(sample, looked)).collect();
    Frame { head, lists: vec![("deepest", rows(deepest)), ("dead", rows(dead))] }
}

fn server(sample: &Sample, view: &View) -> Frame {
    let (mut head, actions) = sample.surroundings.server(view);
    head.insert("now".to_owned(), sample.now.0.into());
    Frame { head, lists: vec![("actions", actions)] }
}

fn queues(sample: &Sample, view: &View, selection: &Selection) -> Frame {
    let all = sample.queues.iter().filter(|looked| view.may_show(looked.queue.key()));
    let total = all.clone().count();
    let regions: BTreeSet<&str> = all.clone().map(|l| l.queue.key().region.as_str()).collect();
    let mut found: Vec<&Looked> = all.filter(|l| is_selected(sample, l, selection)).collect();
    let count = found.len();
    sort(&mut found, selection);
    let pages = count.div_ceil(PAGE_ROWS).max(1);
    let page = selection.page.min(pages);
    let rows = found.into_iter().skip((page - 1) * PAGE_ROWS).take(PAGE_ROWS);
    let rows = rows.map(|looked| row(sample, looked)).collect();
    let mut head = Map::new();
    for (name, value) in [("total", total), ("count", count), ("page", page), ("pages", pages)] {
        head.insert(name.to_owned(), value.into());
    }
    let regions: Vec<&str> = regions.into_iter().take(REGIONS_SHOWN).collect();
    head.insert("regions".to_owned(), regions.into());
    head.insert("now".to_owned(), sample.now.0.into());
    Frame { head, lists: vec![("queues", rows)] }
}

fn queue(sample: &Sample, view: &View, key: &QueueKey) -> Frame {
    let mut head = Map::new();
    head.insert("now".to_owned(), sample.now.0.into());
    let Some(looked) = sample.find(key).filter(|_| view.may_show(key)) else {
        head.insert("is_gone".to_owned(), true.into());
        return Frame { head, lists: Vec::new() };
    };
    head.extend(row(sample, looked).cells);
    let totals = &looked.glance.totals;
    for (name, value) in [
        ("total_sent", totals.messages_sent),
        ("total_received", totals.messages_received),
        ("total_deleted", totals.messages_deleted),
        ("total_empty_receives", totals.empty_receives),
        ("total_dead_lettered", totals.messages_dead_lettered),
        ("total_expired", totals.messages_expired),
    ] {
        head.insert(name.to_owned(), value.into());
    }
    let sources = sample.sources.get(key).map(Vec::as_slice).unwrap_or_default();
    let sources = sources.iter().take(SOURCES_SHOWN).filter_map(|source| sample.find(source));
    let rows = sources.map(|looked| row(sample, looked)).collect();
    let services = sample.surroundings.services();
    let subscribers = iron_mq::show(services, &looked.queue, &mut head);
    Frame { head, lists: vec![("sources", rows), ("subscribers", subscribers)] }
}

fn is_selected(sample: &Sample, looked: &Looked, selection: &Selection) -> bool {
    let key = looked.queue.key();
    let is_kind = match selection.kind {
        KindFilter::All => true,
        KindFilter::Standard => looked.definition.settings.kind == Kind::Standard,
        KindFilter::Fifo => looked.definition.settings.kind == Kind::Fifo,
        KindFilter::DeadLetter => sample.sources.contains_key(key),
    };
    let is_there = selection.region.is_empty() || key.region == selection.region;
    is_kind
        && is_there
        && (selection.filter.is_empty() || key.name.to_lowercase().contains(&selection.filter))
}

/// Sorts by what is asked for; among equals by key, whatever the direction.
fn sort(found: &mut [&Looked], selection: &Selection) {
    let rate = |looked: &Looked, of: fn(&Rates) -> f64| {
        looked.rates.as_ref().map_or(0, |rates| (of(rates) * 1000.0) as u64)
    };
    let number = |looked: &Looked| match selection.sort {
        Sort::Available => looked.glance.counts.ready,
        Sort::InFlight => looked.glance.counts.in_flight,
        Sort::Delayed => looked.glance.counts.delayed,
        // The oldest was sent first: its age is the largest.
        Sort::Oldest => looked.glance.oldest_sent.map_or(0, |sent| u64::MAX - sent.0),
        Sort::Sent => rate(looked, |rates| rates.sent),
        Sort::Deleted => rate(looked, |rates| rates.deleted),
        Sort::Created => looked.definition.created_ms,
        Sort::Name | Sort::Region => 0,
    };
    match (selection.sort, selection.order) {
        (Sort::Name, Order::Ascending) => found.sort_by(|a, b| by_name(a, b)),
        (Sort::Name, Order::Descending) => found.sort_by(|a, b| by_name(b, a)),
        // Keys begin with the region.
        (Sort::Region, Order::Ascending) => found.sort_by(|a, b| a.queue.key().cmp(b.queue.key())),
        (Sort::Region, Order::Descending) => found.sort_by(|a, b| b.queue.key().cmp(a.queue.key())),
        (_, Order::Ascending) => found.sort_by_key(|looked| number(looked)),
        (_, Order::Descending) => found.sort_by_key(|looked| std::cmp::Reverse(number(looked))),
    }
}

fn by_name(a: &Looked, b: &Looked) -> std::cmp::Ordering {
    let (a, b) = (a.queue.key(), b.queue.key());
    (&a.name, a).cmp(&(&b.name, b))
}

/// The first `count` in the order of `key`, in that order.
fn keep_first<K: Ord>(list: &mut Vec<&Looked>, count: usize, key: impl Fn(&Looked) -> K) {
    if list.len() > count {
        list.select_nth_unstable_by_key(count, |looked| key(looked));
        list.truncate(count);
    }
    list.sort_by_key(|looked| (key(looked), looked.queue.key()));
}

fn backlog(looked: &Looked) -> u64 {
    let counts = looked.glance.counts;
    counts.total()
}

fn row(sample: &Sample, looked: &Looked) -> Row {
    let key = looked.queue.key();
    let mut cells = Map::new();
    cells.insert("name".to_owned(), key.name.as_str().into());
    cells.insert("region".to_owned(), key.region.as_str().into());
    cells.insert("account".to_owned(), key.account.as_str().into());
    let is_fifo = looked.definition.settings.kind == Kind::Fifo;
    cells.insert("is_fifo".to_owned(), is_fifo.into());
    cells.insert("created".to_owned(), looked.definition.created_ms.into());
    put_counts(&mut cells, looked.glance.counts, looked.glance.oldest_sent);
    put_rates(&mut cells, looked.rates);
    if let Some(redrive) = &looked.definition.settings.redrive {
        let target = redrive.target();
        cells.insert("dead_letter_queue".to_owned(), row_key(&target).into());
        cells.insert("max_receive_count".to_owned(), redrive.max_receive_count.into());
    }
    if let Some(push_type) = sample.surroundings.services().push_type(&looked.queue) {
        cells.insert("push_type".to_owned(), push_type.into());
    }
    if let Some(sources) = sample.sources.get(key) {
        cells.insert("sources".to_owned(), sources.len().into());
    }
    Row { key: row_key(key), cells }
}

fn put_counts(
    cells: &mut Map<String, Value>,
    counts: millrace_broker::Counts,
    oldest_sent: Option<Timestamp>,
) {
    cells.insert("available".to_owned(), counts.ready.into());
    cells.insert("in_flight".to_owned(), counts.in_flight.into());
    cells.insert("delayed".to_owned(), counts.delayed.into());
    cells.insert("oldest".to_owned(), oldest_sent.map(|sent| sent.0).into());
}

fn put_rates(cells: &mut Map<String, Value>, rates: Option<Rates>) {
    let tenths = |rate: f64| (rate * 10.0).round() / 10.0;
    for (name, rate) in [
        ("sent", rates.map(|rates| rates.sent)),
        ("received", rates.map(|rates| rates.received)),
        ("deleted", rates.map(|rates| rates.deleted)),
        ("empty_receives", rates.map(|rates| rates.empty_receives)),
    ] {
        cells.insert(name.to_owned(), rate.map(tenths).into());
    }
}

/// `region/account/name`.
fn row_key(key: &QueueKey) -> String {
    format!("{}/{}/{}", key.region, key.account, key.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, available: u64) -> Row {
        let cells = json!({ "available": available, "name": key });
        let Value::Object(cells) = cells else { unreachable!("an object") };
        Row { key: key.to_owned(), cells }
    }

    fn frame(rows: Vec<Row>) -> Frame {
        Frame { head: Map::new(), lists: vec![("queues", rows)] }
    }

    #[test]
    fn a_delta_names_only_what_differs() {
        let before = frame(vec![row("a", 1), row("b", 2)]);
        let after = frame(vec![row("a", 1), row("b", 3)]);

        let delta = after.since(&before);

        assert_eq!(
            delta["lists"],
            json!({ "queues": { "rows": [{ "key": "b", "available": 3 }] } })
        );
        assert_eq!(after.since(&after), json!({ "head": {}, "lists": {} }));
    }

    #[test]
    fn rows_that_come_go_or_move_change_the_order() {
        let before = frame(vec![row("a", 9), row("b", 2)]);
        let after = frame(vec![row("c", 9), row("a", 9)]);

        let queues = after.since(&before)["lists"]["queues"].clone();

        assert_eq!(queues["order"], json!(["c", "a"]));
        assert_eq!(queues["rows"], json!([{ "key": "c", "available": 9, "name": "c" }]));
    }

    #[test]
    fn a_cell_that_goes_becomes_null() {
        let mut before = row("a", 1);
        before.cells.insert("dead_letter_queue".to_owned(), "x".into());

        let delta = frame(vec![row("a", 1)]).since(&frame(vec![before]));

        let expected = json!({ "key": "a", "dead_letter_queue": null });
        assert_eq!(delta["lists"]["queues"]["rows"][0], expected);
    }
}
