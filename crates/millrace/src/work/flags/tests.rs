use clap::Parser;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    flags: WorkFlags,
}

fn parse(text: &str) -> Result<WorkFlags, clap::Error> {
    let words = std::iter::once("work").chain(text.split(' '));
    Cli::try_parse_from(words).map(|cli| cli.flags)
}

#[test]
fn handler_is_needed_and_there_is_one() {
    assert!(parse("--queue q --exec true").is_ok());
    assert!(parse("--queue q --post http://h/").is_ok());
    assert!(parse("--queue q").is_err());
    assert!(parse("--queue q --exec true --post http://h/").is_err());
    assert!(parse("--queue q --exec true --max-receives 3").is_err());
    assert!(parse("--queue q --exec true --concurrency 0").is_err());
}

#[test]
fn flags_become_options() {
    let options = |text| parse(text).unwrap().options("q");

    let plain = options("--queue q --exec true");
    assert_eq!(plain.until, Until::Drained);
    assert_eq!(plain.concurrency, Concurrency::Fixed(10));
    let told = options("--queue q --exec true --concurrency auto --until-empty --backoff 1s,1m");
    assert_eq!(told.until, Until::Empty);
    assert_eq!(told.concurrency, Concurrency::Auto { max: 64 });
    assert_eq!(told.backoff.delay(2), Duration::from_secs(60));
    assert_eq!(options("--queue q --exec true --dry-run").until, Until::Once);
    let two = options("--queue q --queue r --exec true --max-held-bytes 1KiB");
    assert_eq!(two.max_held_bytes, 512);
}

#[test]
fn end_fits_into_what_supervisors_grant() {
    let drain = parse("--queue q --exec true").unwrap().options("q").drain;

    // Kubernetes and others kill after 30 s; the last second is for metrics and the log.
    assert!(drain.drain + drain.cancel_grace + drain.flush <= 29 * SECOND, "{drain:?}");
}

#[test]
fn sqsd_changes_defaults_and_not_what_is_given() {
    let options = |text| parse(text).unwrap().options("q");

    let sqsd = options("--queue q --post http://h/ --sqsd");
    assert_eq!(sqsd.concurrency, Concurrency::Fixed(50));
    assert_eq!(sqsd.visibility_timeout, Duration::from_secs(300));
    assert_eq!((sqsd.backoff.delay(1), sqsd.backoff.delay(9)), (2 * SECOND, 2 * SECOND));
    assert_eq!(parse("--queue q --post http://h/ --sqsd").unwrap().timeout(), 299 * SECOND);
    let given = options("--queue q --post http://h/ --sqsd --concurrency 3 --backoff 7s");
    assert_eq!(given.concurrency, Concurrency::Fixed(3));
    assert_eq!(given.backoff.delay(1), 7 * SECOND);
    assert!(parse("--queue q --exec true --sqsd").is_err());
    assert!(parse("--queue q --post http://h/ --sqsd --reject-status 400").is_err());
}

#[test]
fn batches_are_for_functions() {
    let options = |text| parse(text).unwrap().options("q");

    assert_eq!(options("--queue q --exec true").batch_size, 1);
    assert_eq!(options("--queue q --lambda http://h").batch_size, 10);
    assert_eq!(options("--queue q --lambda http://h").concurrency, Concurrency::Fixed(1));
    let several = options("--queue q --lambda http://h --concurrency 3");
    assert_eq!(several.concurrency, Concurrency::Fixed(3));
    let large = options("--queue q --lambda http://h --batch-size 10000 --batch-window 5m");
    assert_eq!((large.batch_size, large.batch_window), (10_000, 300 * SECOND));
    assert!(parse("--queue q --lambda http://h --batch-size 10001").is_err());
    assert!(parse("--queue q --lambda http://h --batch-window 301s").is_err());
    assert!(parse("--queue q --post http://h --batch-size 5").is_err());
}

#[test]
fn queues_have_weights_or_an_order() {
    let priorities = |text| {
        let flags = parse(text).unwrap();
        flags.priorities().map(|all| all.iter().map(|p| (p.rank, p.weight)).collect())
    };

    let by_weight: Result<Vec<(u32, u32)>, _> = priorities("--queue a --queue b=3 --exec true");
    assert_eq!(by_weight.unwrap(), [(0, 1), (0, 3)]);
    let strict = priorities("--queue a --queue b --strict-priority --exec true");
    assert_eq!(strict.unwrap(), [(0, 1), (1, 1)]);
    assert!(priorities("--queue a --queue b=3 --strict-priority --exec true").is_err());
}
