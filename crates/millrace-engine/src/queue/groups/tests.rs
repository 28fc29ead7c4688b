use super::*;

#[test]
fn groups_of_a_ring_take_turns_and_quieter_rings_come_first() {
    let mut groups = Groups::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| groups.join(Some(name)));
    groups.enter_ring(a, 2);
    groups.enter_ring(b, 2);
    groups.enter_ring(c, 0);

    assert_eq!(groups.first(), Some(c));
    groups.leave_ring(c);
    assert_eq!(groups.first(), Some(a));
    groups.leave_ring(a);
    groups.enter_ring(a, 2);
    assert_eq!(groups.first(), Some(b));
}

#[test]
fn a_group_that_keeps_its_turn_is_first_of_its_ring_again() {
    let mut groups = Groups::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| groups.join(Some(name)));
    groups.keep_turn(a);
    assert_eq!(groups.first(), None, "it stands in no ring");

    for group in [a, b, c] {
        groups.enter_ring(group, 0);
        groups.keep_turn(group);
    }

    assert_eq!(groups.turns().map(|(_, group)| group).collect::<Vec<_>>(), [c, b, a]);
    groups.keep_turn(a);
    groups.leave_ring(b);
    assert_eq!(groups.turns().map(|(_, group)| group).collect::<Vec<_>>(), [a, c]);
}

#[test]
fn a_group_ends_with_its_last_member() {
    let mut groups = Groups::new();
    let a = groups.join(Some("a"));
    assert_eq!(groups.join(Some("a")), a);
    groups.enter_ring(a, 0);
    groups.leave(a);
    assert_eq!(groups.first(), Some(a));
    groups.leave(a);

    assert_eq!(groups.first(), None);
    assert!(!groups.has_names() && groups.at(a).name.is_none());
    assert_eq!(groups.join(Some("b")), a, "its place is reused");
}

#[test]
fn the_group_without_a_name_waits_for_no_turn_when_it_is_empty() {
    let mut groups = Groups::new();
    let group = groups.join(None);
    groups.enter_ring(group, 0);

    groups.leave(group);

    assert_eq!(groups.first(), None);
    assert_eq!(groups.join(None), group);
}

#[test]
fn thousands_of_groups_are_told_apart() {
    let mut groups = Groups::new();
    let names: Vec<String> = (0..3_000).map(|number| format!("g{number}")).collect();
    let numbers: Vec<u32> = names.iter().map(|name| groups.join(Some(name))).collect();
    let again: Vec<u32> = names.iter().map(|name| groups.join(Some(name))).collect();
    assert_eq!(again, numbers);
    assert!(groups.iter().skip(1).map(|(number, _)| number).eq(numbers.iter().copied()));

    for number in numbers.iter().skip(1).flat_map(|number| [number; 2]) {
        groups.leave(*number);
    }

    assert_eq!(groups.join(Some("g0")), numbers[0]);
    assert!((groups.join(Some("g1")) as usize) < CHUNK, "the first places are filled first");
}

#[test]
fn groups_that_have_ended_take_no_memory() {
    let mut groups = Groups::new();
    let numbers: Vec<u32> = (0..10_000).map(|n| groups.join(Some(&n.to_string()))).collect();
    assert!(groups.chunks.len() >= 9);
    let (last, others) = numbers.split_last().unwrap();
    others.iter().for_each(|number| groups.leave(*number));
    let chunks = groups.chunks.len();
    // The last chunk is needed; the places before it are used up before any behind it.
    for n in 0..9_000 {
        assert!(groups.join(Some(&format!("again{n}"))) < *last);
    }
    assert_eq!(groups.chunks.len(), chunks);

    groups.leave(*last);
    for n in 0..9_000 {
        let number = groups.join(Some(&format!("again{n}")));
        groups.leave(number);
        groups.leave(number);
    }

    assert!(groups.chunks.len() <= 2, "{}", groups.chunks.len());
    assert_eq!(groups.iter().filter(|(_, group)| group.members > 0).count(), 0);
    assert!(!groups.has_members(*last));
    let again: Vec<u32> = (0..3_000).map(|n| groups.join(Some(&n.to_string()))).collect();
    assert!((0..3_000).all(|n| groups.join(Some(&n.to_string())) == again[n as usize]));
}
