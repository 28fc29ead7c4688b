use super::*;
use crate::memory_limits::NAME_BYTES_MOST;

fn entity(namespace: &str, value: String) -> Entity {
    let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
    Entity::new(scope, namespace, vec![("name".into(), value)])
}

#[test]
fn names_of_clients_take_a_bounded_amount_of_memory() {
    let mut catalog = Catalog::in_memory();
    let long = |n: usize| entity("shop", format!("{n}{}", "x".repeat(4 << 10)));
    let unit = Unit::Count;
    let count = (0..).take_while(|n| catalog.series(&long(*n), "m", unit).is_ok()).count();

    assert!((4_608..4_640).contains(&(NAME_BYTES_MOST / count)), "{count}");
    assert!(catalog.series(&long(0), "new", unit).is_err());
    assert!(catalog.series(&long(0), "m", unit).is_ok(), "it is known already");
    assert!(catalog.series(&entity("AWS/SQS", "jobs".into()), "Sent", unit).is_ok());
}

#[test]
fn as_many_series_of_clients_as_may_be_leave_room_for_the_servers_own() {
    let mut catalog = Catalog::in_memory();
    let of = |namespace, n: usize| entity(namespace, n.to_string());
    let mut series = |namespace, n| catalog.series(&of(namespace, n), "m", Unit::Count).is_ok();

    assert!((0..SERIES_MAX).all(|n| series("shop", n)));
    assert!(!series("shop", SERIES_MAX));
    assert!((0..SERIES_MAX).all(|n| series("AWS/SQS", n)));
    assert!(!series("AWS/SQS", SERIES_MAX));
    assert!(series("shop", 0) && series("AWS/SQS", 0), "they are known already");
}

#[test]
fn the_file_stays_short_however_many_days_are_noted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.log");
    let mut catalog = Catalog::open(&path, 0).unwrap();
    let series = |catalog: &mut Catalog, name: &str| {
        catalog.series(&entity("shop", name.to_owned()), "Sales", Unit::Count).unwrap()
    };
    let first: Vec<_> = (0..10).map(|n| series(&mut catalog, &n.to_string())).collect();

    for day in 0..1_000 {
        catalog.saw(day * DAY_S, &first).unwrap();
        catalog.tidy().unwrap();
    }
    let after = series(&mut catalog, "after");
    catalog.saw(999 * DAY_S, &[after]).unwrap();

    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!(bytes < 2 * OUTDATED_BYTES_MAX, "{bytes}");
    drop(catalog);
    let mut catalog = Catalog::open(&path, 1_000 * DAY_S).unwrap();
    assert_eq!((series(&mut catalog, "3"), series(&mut catalog, "after")), (first[3], after));
    assert!(catalog.entities.values().all(|known| known.seen_s() == 1_000 * DAY_S - 1));
}

#[test]
fn a_file_that_cannot_be_written_anew_is_used_on_unless_it_may_be_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.log");
    let mut catalog = Catalog::open(&path, 0).unwrap();
    let series = catalog.series(&entity("shop", "a".into()), "Sales", Unit::Count).unwrap();
    (0..1_000).for_each(|day| catalog.saw(day * DAY_S, &[series]).unwrap());
    let new = path.with_extension("new");

    std::fs::create_dir(&new).unwrap();
    assert!(catalog.tidy().is_ok());
    catalog.saw(1_000 * DAY_S, &[series]).unwrap();
    let known = Catalog::open(&path, 0).unwrap();
    assert_eq!(known.known(series.0).unwrap().seen_s(), 1_001 * DAY_S - 1);
    std::fs::remove_dir(&new).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(catalog.tidy(), Err(StoreError::Poisoned)));
}

#[test]
fn a_catalog_that_cannot_be_written_anew_is_used_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.log");
    let mut catalog = Catalog::open(&path, 0).unwrap();
    let (id, _) = catalog.series(&entity("shop", "a".into()), "Sales", Unit::Count).unwrap();
    drop(catalog);
    std::fs::create_dir(path.with_extension("new")).unwrap();

    let mut catalog = Catalog::open(&path, 0).unwrap();
    assert_eq!(catalog.id(&entity("shop", "a".into())), Some(id));
    let (other, _) = catalog.series(&entity("shop", "b".into()), "Sales", Unit::Count).unwrap();
    drop(catalog);
    assert_eq!(Catalog::open(&path, 0).unwrap().id(&entity("shop", "b".into())), Some(other));
}

#[test]
fn an_entity_has_a_bounded_number_of_series() {
    let mut catalog = Catalog::in_memory();
    let mut series = |value: &str, metric: usize| {
        let entity = entity("shop", value.to_owned());
        catalog.series(&entity, &metric.to_string(), Unit::Count).is_ok()
    };

    assert!((0..COLUMNS_MAX).all(|metric| series("a", metric)));
    assert!(!series("a", COLUMNS_MAX) && series("a", 0));
    assert!(series("b", COLUMNS_MAX));
}

#[test]
fn a_day_is_noted_once_for_each_series() {
    let dir = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::open(&dir.path().join("catalog.log"), 0).unwrap();
    let series = catalog.series(&entity("shop", "a".into()), "Sales", Unit::Count).unwrap();
    catalog.saw(5 * DAY_S, &[series]).unwrap();
    let bytes = catalog.log.len();

    catalog.saw(5 * DAY_S + 60, &[series]).unwrap();
    catalog.saw(4 * DAY_S, &[series]).unwrap();
    assert_eq!(catalog.log.len(), bytes);
    assert_eq!(catalog.known(series.0).unwrap().seen_s(), 5 * DAY_S + 60);
    catalog.saw(6 * DAY_S, &[series]).unwrap();
    assert!(catalog.log.len() > bytes);
}

#[test]
fn what_is_forgotten_makes_room_and_is_new_when_it_comes_back() {
    let mut catalog = Catalog::in_memory();
    let see = |catalog: &mut Catalog, namespace, value: &str, time_s| {
        let entity = entity(namespace, value.to_owned());
        let series = catalog.series(&entity, "m", Unit::Count).unwrap();
        catalog.saw(time_s, &[series]).unwrap();
        series.0
    };
    let counted = |catalog: &Catalog| {
        let Usage { client_series, own_series, name_bytes } = catalog.usages.all();
        (client_series, own_series, name_bytes, catalog.ids.len())
    };
    for value in ["a", "b"] {
        see(&mut catalog, "shop", value, 0);
        see(&mut catalog, "AWS/SQS", value, 0);
    }
    let end_s = HOURS_KEPT_S + DAY_S;
    let kept = ["shop", "AWS/SQS"].map(|namespace| see(&mut catalog, namespace, "b", end_s));
    see(&mut catalog, "AWS/SQS", "c", end_s);
    // Name space, dimension, value and metric of what clients gave.
    let bytes = "shop".len() + "name".len() + "b".len() + "m".len() + 512;

    catalog.forget(end_s);
    assert_eq!(counted(&catalog), (2, 3, 2 * bytes, 5), "none is too old yet");
    catalog.forget(end_s + 1);
    assert_eq!(counted(&catalog), (1, 2, bytes, 3));
    let again = see(&mut catalog, "shop", "a", end_s);
    assert!(!kept.contains(&again) && catalog.known(again).is_some());
    assert_eq!(see(&mut catalog, "shop", "b", end_s), kept[0], "the number stays");
}

#[test]
fn what_damage_takes_the_name_of_is_no_other_and_costs_no_other_its_days() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.log");
    let names = || ["a", "b", "c"].into_iter().flat_map(|e| ["x", "y", "z"].map(|m| (e, m)));
    let series = |catalog: &mut Catalog, (value, metric): (&str, &str)| {
        catalog.series(&entity("shop", value.into()), metric, Unit::Count).unwrap()
    };
    let mut catalog = Catalog::open(&path, 0).unwrap();
    let given: Vec<_> = names().map(|name| series(&mut catalog, name)).collect();
    catalog.saw(DAY_S, &given).unwrap();
    drop(catalog);
    let bytes = std::fs::read(&path).unwrap();
    let mut frames = Vec::new();
    drop(Log::open(&path, |at, _, payload| frames.push((at as usize, payload[0]))).unwrap());

    for (at, kind) in frames {
        let mut damaged = bytes.clone();
        damaged[at + 8] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        drop(Catalog::open(&path, DAY_S).unwrap());
        let mut catalog = Catalog::open(&path, DAY_S).unwrap();
        let mut known: Vec<_> =
            catalog.entities.values().map(|known| known.named_columns().count()).collect();
        known.sort_unstable();
        let expected: &[usize] = match kind {
            1 => &[3, 3],
            2 => &[2, 3, 3],
            _ => &[3, 3, 3],
        };
        assert_eq!(known, expected, "{at}");
        if kind != 3 {
            assert!(catalog.entities.values().all(|known| known.seen_s() == 2 * DAY_S - 1), "{at}");
        }
        for name in ["a", "b", "c", "new"].map(|value| (value, "new")) {
            assert!(!given.contains(&series(&mut catalog, name)), "{name:?} of {at}");
        }
        for (name, number) in names().zip(&given) {
            let now = series(&mut catalog, name);
            assert!(now == *number || !given.contains(&now), "{name:?} of {at}");
        }
    }
}

#[test]
fn one_account_leaves_room_for_the_names_of_others() {
    let mut catalog = Catalog::in_memory();
    let of = |account: &str, n: usize| {
        let scope = Scope { region: "us-east-1".into(), account: account.into() };
        Entity::new(scope, "shop", vec![(format!("{n}"), "x".repeat(4 << 10))])
    };
    let series = |catalog: &mut Catalog, account: &str, n: usize| {
        catalog.series(&of(account, n), "m", Unit::Count).is_ok()
    };

    let first = (0..).take_while(|n| series(&mut catalog, "1", *n)).count();
    assert!((4_608..4_640).contains(&(NAME_BYTES_MOST / first)), "{first}");
    let second = (0..).take_while(|n| series(&mut catalog, "2", *n)).count();
    assert!((40..55).contains(&second), "{second}");
    assert!(series(&mut catalog, "3", 0) && !series(&mut catalog, "1", first));
    catalog.remove(|entity, _| entity.scope.account == "1").unwrap();
    assert!((0..first - 80).all(|n| series(&mut catalog, "2", second + n)), "there is room again");
}

#[test]
fn what_is_removed_stays_so_and_comes_back_as_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.log");
    let mut catalog = Catalog::open(&path, 0).unwrap();
    let series = |catalog: &mut Catalog, value: &str, metric| {
        catalog.series(&entity("shop", value.into()), metric, Unit::Count).unwrap()
    };
    let names = [("a", "x"), ("a", "y"), ("b", "x")];
    let given = names.map(|(value, metric)| series(&mut catalog, value, metric));
    catalog.saw(DAY_S, &given).unwrap();
    assert_eq!(catalog.remove(|_, metric| metric == "x").unwrap(), 2);
    let left = |catalog: &Catalog| -> Vec<String> {
        let columns = catalog.entities.values().flat_map(Known::named_columns);
        columns.map(|column| column.metric.clone()).collect()
    };
    let usage = |catalog: &Catalog| catalog.usages.all();
    let (kept, taken) = (left(&catalog), usage(&catalog));
    assert_eq!((kept.as_slice(), taken.client_series), (&["y".to_owned()][..], 1));
    assert_eq!(catalog.id(&entity("shop", "b".into())), None);

    for _ in 0..2 {
        // First as it was appended, then as it was written anew.
        drop(catalog);
        catalog = Catalog::open(&path, DAY_S).unwrap();
        assert_eq!((left(&catalog), usage(&catalog)), (kept.clone(), taken));
    }
    assert_eq!(series(&mut catalog, "a", "y"), given[1]);
    let again = [series(&mut catalog, "a", "x"), series(&mut catalog, "b", "x")];
    assert!(again.iter().all(|series| !given.contains(series)), "{again:?} of {given:?}");
    assert_eq!(catalog.remove(|_, _| true).unwrap(), 3);
    assert_eq!((usage(&catalog), catalog.scopes().count()), (Usage::default(), 0));
}
