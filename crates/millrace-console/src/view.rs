//! What a tab shows, as its address says it.

use millrace_core::QueueKey;
use millrace_wire::ApiError;
use millrace_wire::query::Parameters;

/// Queues on a page.
pub(crate) const PAGE_ROWS: usize = 100;

/// What a tab shows, of the queues that its viewer may see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct View {
    /// None: queues of all accounts.
    pub account: Option<String>,
    pub part: Part,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Overview,
    Queues(Selection),
    Queue(QueueKey),
    Server,
}

/// Which queues, in which order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Selection {
    /// Part of the name, in lower case; empty for all.
    pub filter: String,
    /// Empty for all.
    pub region: String,
    pub kind: KindFilter,
    pub sort: Sort,
    pub order: Order,
    /// From 1.
    pub page: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum KindFilter {
    #[default]
    All,
    Standard,
    Fifo,
    /// Queues that are the dead-letter queue of another.
    DeadLetter,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Sort {
    #[default]
    Available,
    InFlight,
    Delayed,
    Oldest,
    Sent,
    Deleted,
    Name,
    Region,
    Created,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    Ascending,
    #[default]
    Descending,
}

impl View {
    /// Reads `view=overview`, `view=queues&filter=…` or `view=queue&region=…&account=…&name=…`.
    pub(crate) fn parse(query: &str, account: Option<&str>) -> Result<View, ApiError> {
        let parameters = Parameters::parse(query, b"")?;
        let part = match parameters.get("view").unwrap_or_default() {
            "queues" => Part::Queues(Selection::of(&parameters)),
            "queue" => Part::Queue(queue_key(&parameters)?),
            "server" => Part::Server,
            _ => Part::Overview,
        };
        Ok(View { account: account.map(str::to_owned), part })
    }

    /// Whether a queue is one that the viewer may see.
    pub(crate) fn may_show(&self, key: &QueueKey) -> bool {
        self.account.as_ref().is_none_or(|account| *account == key.account)
    }
}

impl Selection {
    /// From the parameters of the queues page. What is not understood is as if it were not given.
    pub(crate) fn of(parameters: &Parameters<'_>) -> Selection {
        let get = |name: &str| parameters.get(name).unwrap_or_default();
        let sort = match get("sort") {
            "in_flight" => Sort::InFlight,
            "delayed" => Sort::Delayed,
            "oldest" => Sort::Oldest,
            "sent" => Sort::Sent,
            "deleted" => Sort::Deleted,
            "name" => Sort::Name,
            "region" => Sort::Region,
            "created" => Sort::Created,
            _ => Sort::Available,
        };
        let order = match (get("order"), sort) {
            ("ascending", _) => Order::Ascending,
            ("descending", _) => Order::Descending,
            (_, Sort::Name | Sort::Region) => Order::Ascending,
            _ => Order::Descending,
        };
        Selection {
            filter: get("filter").trim().to_lowercase(),
            region: get("region").to_owned(),
            kind: match get("type") {
                "standard" => KindFilter::Standard,
                "fifo" => KindFilter::Fifo,
                "dead-letter" => KindFilter::DeadLetter,
                _ => KindFilter::All,
            },
            sort,
            order,
            page: get("page").parse().unwrap_or(1).max(1),
        }
    }
}

/// The queue that `region`, `account` and `name` name.
pub(crate) fn queue_key(parameters: &Parameters<'_>) -> Result<QueueKey, ApiError> {
    let get = |name: &'static str| {
        let value = parameters.get(name).filter(|value| !value.is_empty());
        value.ok_or_else(|| ApiError::missing_parameter(name))
    };
    Ok(QueueKey::new(get("region")?, get("account")?, get("name")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_what_its_address_says() {
        let view = View::parse(
            "view=queues&filter=Or%20d&sort=oldest&page=3&type=fifo&region=eu-west-1",
            None,
        );
        let Part::Queues(selection) = view.unwrap().part else { panic!("not the queues") };

        assert_eq!((&*selection.filter, selection.page), ("or d", 3));
        assert_eq!((selection.sort, selection.order), (Sort::Oldest, Order::Descending));
        assert_eq!((selection.kind, &*selection.region), (KindFilter::Fifo, "eu-west-1"));
    }

    #[test]
    fn nonsense_is_the_first_page_of_all() {
        let view = View::parse("view=queues&sort=%3Cscript%3E&page=-1&type=7", Some("1"));

        let expected = Selection { page: 1, ..Selection::default() };
        assert_eq!(view.unwrap().part, Part::Queues(expected));
        assert!(View::parse("view=queue&region=r&account=&name=q", None).is_err());
    }
}
