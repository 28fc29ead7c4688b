use super::*;
use crate::database::{Database, Writer};
use crate::memory_limits::NAME_BYTES_MOST;

fn entity(namespace: &str, value: String) -> Entity {
    let scope = Scope { region: "us-east-1".into(), account: "000000000000".into() };
    Entity::new(scope, namespace, vec![("name".into(), value)])
}

fn save(catalog: &mut Catalog, writer: &mut Writer) {
    catalog.save(writer.connection()).unwrap();
    catalog.saved();
}

#[test]
fn names_of_clients_take_a_bounded_amount_of_memory() {
    let mut catalog = Catalog::default();
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
    let mut catalog = Catalog::default();
    let of = |namespace, n: usize| entity(namespace, n.to_string());
    let mut series = |namespace, n| catalog.series(&of(namespace, n), "m", Unit::Count).is_ok();

    assert!((0..SERIES_MAX).all(|n| series("shop", n)));
    assert!(!series("shop", SERIES_MAX));
    assert!((0..SERIES_MAX).all(|n| series("AWS/SQS", n)));
    assert!(!series("AWS/SQS", SERIES_MAX));
    assert!(series("shop", 0) && series("AWS/SQS", 0), "they are known already");
}

#[test]
fn an_entity_has_a_bounded_number_of_series() {
    let mut catalog = Catalog::default();
    let mut series = |value: &str, metric: usize| {
        let entity = entity("shop", value.to_owned());
        catalog.series(&entity, &metric.to_string(), Unit::Count).is_ok()
    };

    assert!((0..COLUMNS_MAX).all(|metric| series("a", metric)));
    assert!(!series("a", COLUMNS_MAX) && series("a", 0));
    assert!(series("b", COLUMNS_MAX));
}

#[test]
fn a_day_is_saved_once_for_each_series() {
    let (_database, mut writer) = Database::in_memory().unwrap();
    let mut catalog = Catalog::default();
    let series = catalog.series(&entity("shop", "a".into()), "Sales", Unit::Count).unwrap();
    let mut saw = |catalog: &mut Catalog, time_s| {
        catalog.saw(time_s, [series].into_iter());
        let is_unsaved = !catalog.unsaved.series.is_empty();
        save(catalog, &mut writer);
        is_unsaved
    };

    assert!(saw(&mut catalog, 5 * DAY_S));
    assert!(!saw(&mut catalog, 5 * DAY_S + 60) && !saw(&mut catalog, 4 * DAY_S));
    assert_eq!(catalog.known(series.0).unwrap().seen_s(), 5 * DAY_S + 60);
    assert!(saw(&mut catalog, 6 * DAY_S));
    let loaded = Catalog::load(writer.connection(), 0).unwrap();
    assert_eq!(loaded.known(series.0).unwrap().seen_s(), 7 * DAY_S - 1);
}

#[test]
fn what_is_forgotten_makes_room_and_is_new_when_it_comes_back() {
    let mut catalog = Catalog::default();
    let see = |catalog: &mut Catalog, namespace, value: &str, time_s| {
        let entity = entity(namespace, value.to_owned());
        let series = catalog.series(&entity, "m", Unit::Count).unwrap();
        catalog.saw(time_s, [series].into_iter());
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
fn one_account_leaves_room_for_the_names_of_others() {
    let mut catalog = Catalog::default();
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
    catalog.remove(|entity, _| entity.scope.account == "1");
    assert!((0..first - 80).all(|n| series(&mut catalog, "2", second + n)), "there is room again");
}

#[test]
fn what_is_removed_stays_so_and_comes_back_as_another() {
    let (_database, mut writer) = Database::in_memory().unwrap();
    let mut catalog = Catalog::default();
    let series = |catalog: &mut Catalog, value: &str, metric| {
        catalog.series(&entity("shop", value.into()), metric, Unit::Count).unwrap()
    };
    let names = [("a", "x"), ("a", "y"), ("b", "x")];
    let given = names.map(|(value, metric)| series(&mut catalog, value, metric));
    catalog.saw(DAY_S, given.into_iter());
    save(&mut catalog, &mut writer);
    assert_eq!(catalog.remove(|_, metric| metric == "x"), 2);
    let left = |catalog: &Catalog| -> Vec<String> {
        let columns = catalog.entities.values().flat_map(Known::named_columns);
        columns.map(|column| column.metric.clone()).collect()
    };
    let usage = |catalog: &Catalog| catalog.usages.all();
    let (kept, taken) = (left(&catalog), usage(&catalog));
    assert_eq!((kept.as_slice(), taken.client_series), (&["y".to_owned()][..], 1));
    assert_eq!(catalog.id(&entity("shop", "b".into())), None);

    save(&mut catalog, &mut writer);
    let mut catalog = Catalog::load(writer.connection(), DAY_S).unwrap();
    assert_eq!((left(&catalog), usage(&catalog)), (kept, taken));
    assert_eq!(series(&mut catalog, "a", "y"), given[1]);
    let again = [series(&mut catalog, "a", "x"), series(&mut catalog, "b", "x")];
    assert!(again.iter().all(|series| !given.contains(series)), "{again:?} of {given:?}");
    assert_eq!(catalog.remove(|_, _| true), 3);
    assert_eq!((usage(&catalog), catalog.scopes().count()), (Usage::default(), 0));
    save(&mut catalog, &mut writer);
    let mut catalog = Catalog::load(writer.connection(), DAY_S).unwrap();
    let new = series(&mut catalog, "c", "x");
    assert!(given.iter().chain(&again).all(|(id, _)| *id != new.0), "{new:?}");
}
