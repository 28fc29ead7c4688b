//! Any query against a slow and obvious evaluation of it.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::ast::{
    Direction, Expression, Operand, Operator, Order, Output, Predicate, Quantifier, Select, Test,
};
use super::super::parser::parse;
use super::super::pattern::Pattern;
use super::database::Row;
use super::{Bounds, Database};

const ATTRIBUTES: [&str; 3] = ["a", "b", "select"];
const VALUES: [&str; 6] = ["", "a", "ab", "b", "b%", "c'`\"é"];
const PATTERNS: [&str; 7] = ["%", "a%", "%b", "%b%", "a%b", "b\\%", "b\\%%"];

fn values() -> impl Strategy<Value = String> {
    prop::sample::select(&VALUES[..]).prop_map(str::to_owned)
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let values = prop::collection::btree_set(values(), 1..4);
    let attribute = (prop::sample::select(&ATTRIBUTES[..]).prop_map(str::to_owned), values);
    let attributes = prop::collection::vec(attribute, 1..4);
    let names = prop::collection::btree_set("[ab]{1,3}", 0..9);
    let names = names.prop_map(Vec::from_iter).prop_shuffle();
    (names, prop::collection::vec(attributes, 9)).prop_map(|(names, attributes)| {
        let rows = names.into_iter().zip(attributes);
        rows.map(|(name, mut attributes)| {
            let mut known = BTreeSet::new();
            attributes.retain(|(name, _)| known.insert(name.clone()));
            (name, attributes)
        })
        .collect()
    })
}

fn tests() -> impl Strategy<Value = Test> {
    let pattern = || prop::sample::select(&PATTERNS[..]).prop_map(Pattern::parse);
    prop_oneof![
        values().prop_map(Test::Equal),
        values().prop_map(Test::NotEqual),
        values().prop_map(Test::Less),
        values().prop_map(Test::LessOrEqual),
        values().prop_map(Test::Greater),
        values().prop_map(Test::GreaterOrEqual),
        pattern().prop_map(Test::Like),
        pattern().prop_map(Test::NotLike),
        (values(), values()).prop_map(|(low, high)| Test::Between(low, high)),
        prop::collection::vec(values(), 1..4).prop_map(Test::In),
        Just(Test::IsNull),
        Just(Test::IsNotNull),
    ]
}

fn operands() -> impl Strategy<Value = Operand> {
    prop_oneof![
        1 => Just(Operand::ItemName),
        5 => prop::sample::select(&ATTRIBUTES[..]).prop_map(|name| Operand::Attribute(name.to_owned())),
    ]
}

fn predicates() -> impl Strategy<Value = Expression> {
    (operands(), prop::bool::weighted(0.2), tests()).prop_map(|(operand, is_every, test)| {
        let is_every = is_every && operand != Operand::ItemName;
        let quantifier = if is_every { Quantifier::Every } else { Quantifier::Any };
        Expression::Predicate(Predicate { operand, quantifier, test })
    })
}

fn expressions() -> impl Strategy<Value = Expression> {
    predicates().prop_recursive(3, 6, 2, |inner| {
        let operator = prop_oneof![
            3 => Just(Operator::And),
            3 => Just(Operator::Or),
            1 => Just(Operator::Intersection),
        ];
        prop_oneof![
            1 => inner.clone().prop_map(|inner| Expression::Not(Box::new(inner))),
            5 => (operator, inner.clone(), inner).prop_map(|(operator, left, right)| {
                Expression::Combined(operator, Box::new(left), Box::new(right))
            }),
        ]
    })
}

fn selects() -> impl Strategy<Value = Select> {
    let names = prop::sample::subsequence(&ATTRIBUTES[..], 1..3);
    let output = prop_oneof![
        Just(Output::All),
        Just(Output::ItemName),
        names.prop_map(|names| {
            Output::Attributes(names.into_iter().map(str::to_owned).collect())
        }),
    ];
    let direction = prop_oneof![Just(Direction::Ascending), Just(Direction::Descending)];
    let order = prop::option::of((operands(), direction));
    (output, prop::option::weighted(0.95, expressions()), order).prop_map(
        |(output, condition, order)| {
            let mut sortable = BTreeSet::new();
            if let Some(condition) = &condition {
                condition.visit(&mut |predicate| {
                    if predicate.test != Test::IsNull {
                        sortable.insert(predicate.operand.to_string());
                    }
                });
            }
            let order = order.filter(|(by, _)| sortable.contains(&by.to_string()));
            let order = order.map(|(by, direction)| Order { by, direction });
            Select { output, domain: "mydomain".to_owned(), condition, order, limit: None }
        },
    )
}

fn text_of(select: &Select, output: &str, limit: u32) -> String {
    format!("select {output} {select} limit {limit}")
}

fn output_of(output: &Output) -> String {
    match output {
        Output::All => "*".to_owned(),
        Output::ItemName => "itemName()".to_owned(),
        Output::Count => "count(*)".to_owned(),
        Output::Attributes(names) => {
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Whether the condition holds for an item.
fn holds(expression: &Expression, row: &Row) -> bool {
    match expression {
        Expression::Not(inner) => !holds(inner, row),
        Expression::Combined(Operator::Intersection, left, right) => {
            holds(left, row) && holds(right, row)
        }
        _ => choices(row, &ATTRIBUTES).iter().any(|choice| holds_with(expression, row, choice)),
    }
}

/// A value chosen for each attribute that the item has.
type Choice<'a> = Vec<(&'a str, &'a str)>;

fn choices<'a>(row: &'a Row, attributes: &[&'a str]) -> Vec<Choice<'a>> {
    let Some((attribute, others)) = attributes.split_first() else { return vec![Vec::new()] };
    let rest = choices(row, others);
    let values = values_of(row, attribute);
    if values.is_empty() {
        return rest;
    }
    let with = |value: &'a str| {
        rest.iter().map(move |rest| [vec![(*attribute, value)], rest.clone()].concat())
    };
    values.into_iter().flat_map(with).collect()
}

fn values_of<'a>(row: &'a Row, attribute: &str) -> Vec<&'a str> {
    let known = row.1.iter().filter(|(name, _)| name == attribute);
    known.flat_map(|(_, values)| values.iter().map(String::as_str)).collect()
}

fn holds_with(expression: &Expression, row: &Row, choice: &Choice<'_>) -> bool {
    let predicate = match expression {
        Expression::Combined(Operator::And, left, right) => {
            return holds_with(left, row, choice) && holds_with(right, row, choice);
        }
        Expression::Combined(Operator::Or, left, right) => {
            return holds_with(left, row, choice) || holds_with(right, row, choice);
        }
        Expression::Predicate(predicate) => predicate,
        _ => return holds(expression, row),
    };
    let test = &predicate.test;
    let Operand::Attribute(name) = &predicate.operand else { return passes(test, &row.0) };
    let values = values_of(row, name);
    match (test, predicate.quantifier) {
        (Test::IsNull, _) => values.is_empty(),
        (Test::IsNotNull, _) => !values.is_empty(),
        (_, Quantifier::Every) => {
            !values.is_empty() && values.iter().all(|value| passes(test, value))
        }
        (_, Quantifier::Any) => {
            choice.iter().any(|(chosen, value)| chosen == name && passes(test, value))
        }
    }
}

fn passes(test: &Test, value: &str) -> bool {
    match test {
        Test::Equal(other) => value == other,
        Test::NotEqual(other) => value != other,
        Test::Less(other) => value.as_bytes() < other.as_bytes(),
        Test::LessOrEqual(other) => value.as_bytes() <= other.as_bytes(),
        Test::Greater(other) => value.as_bytes() > other.as_bytes(),
        Test::GreaterOrEqual(other) => value.as_bytes() >= other.as_bytes(),
        Test::Like(pattern) => is_like(&pattern.to_string(), value),
        Test::NotLike(pattern) => !is_like(&pattern.to_string(), value),
        Test::Between(low, high) => low.as_str() <= value && value <= high.as_str(),
        Test::In(others) => others.iter().any(|other| other == value),
        Test::IsNull => false,
        Test::IsNotNull => true,
    }
}

fn is_like(pattern: &str, text: &str) -> bool {
    if let Some(rest) = pattern.strip_prefix('%') {
        return text.char_indices().any(|(at, _)| is_like(rest, &text[at..])) || is_like(rest, "");
    }
    let pattern =
        pattern.strip_prefix("\\").filter(|rest| rest.starts_with('%')).unwrap_or(pattern);
    match (pattern.chars().next(), text.chars().next()) {
        (None, None) => true,
        (Some(one), Some(two)) if one == two => {
            is_like(&pattern[one.len_utf8()..], &text[two.len_utf8()..])
        }
        _ => false,
    }
}

/// The names of the items found, in order if there is one.
fn expected(select: &Select, rows: &[Row]) -> Vec<String> {
    let is_found =
        |row: &&Row| select.condition.as_ref().is_none_or(|condition| holds(condition, row));
    let found = rows.iter().enumerate().filter(|(_, row)| is_found(row));
    let Some(Order { by, direction }) = &select.order else {
        return found.map(|(_, row)| row.0.clone()).collect();
    };
    let key = |row: &Row| match by {
        Operand::ItemName => Some(row.0.clone()),
        Operand::Attribute(name) => {
            let values = values_of(row, name).into_iter();
            let key = match direction {
                Direction::Ascending => values.min(),
                Direction::Descending => values.max(),
            };
            key.map(str::to_owned)
        }
    };
    let keyed = found.filter_map(|(index, row)| Some((key(row)?, index, row.0.clone())));
    let mut sorted: Vec<_> = keyed.collect();
    sorted.sort();
    if *direction == Direction::Descending {
        sorted.reverse();
    }
    sorted.into_iter().map(|(_, _, name)| name).collect()
}

fn has_output(select: &Select, row: &Row) -> bool {
    match &select.output {
        Output::Attributes(names) => names.iter().any(|name| !values_of(row, name).is_empty()),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_written_is_parsed_as_it_was(select in selects()) {
        let text = format!("select {} {select}", output_of(&select.output));
        prop_assert_eq!(parse(&text), Ok(select));
    }

    #[test]
    fn an_answer_is_that_of_the_slow_evaluation(
        rows in rows(), select in selects(), size in 1_u32..4, has_figures: bool,
    ) {
        let database = Database::new("mydomain", &rows);
        if !has_figures {
            database.connection.execute("UPDATE names SET items = 0", []).unwrap();
        }
        let found = expected(&select, &rows);
        let row_of = |name: &String| rows.iter().find(|row| row.0 == *name).unwrap();
        let shown: Vec<String> =
            found.iter().filter(|name| has_output(&select, row_of(name))).cloned().collect();

        let bounds = Bounds::default();
        let output = output_of(&select.output);
        let whole = database.all(&text_of(&select, &output, 2500), &bounds);
        let whole_names: Vec<String> = whole.iter().map(|item| item.name.clone()).collect();
        let sorted = |mut names: Vec<String>| { names.sort(); names };
        if select.order.is_some() {
            prop_assert_eq!(&whole_names, &shown);
        } else {
            prop_assert_eq!(sorted(whole_names), sorted(shown));
        }
        prop_assert_eq!(&database.all(&text_of(&select, &output, size), &bounds), &whole);
        for limit in [size, 2500] {
            let counted = database.count(&text_of(&select, "count(*)", limit), &bounds);
            prop_assert_eq!(counted, found.len() as u64);
        }
    }
}
