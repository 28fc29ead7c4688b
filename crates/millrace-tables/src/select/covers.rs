//! Which ranges of which index have all items that a condition holds for.

use super::ast::{Expression, Operand, Operator, Predicate, Quantifier};
use super::ranges::Ranges;

/// Of several covers, so many are kept. Each is enough by itself.
pub(super) const COVERS_MAX: usize = 8;

/// All items that the condition holds for have a value of the attribute in the ranges. Item names
/// are values of `itemName()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub operand: Operand,
    pub ranges: Ranges,
    /// The value is the one that the chain is true with, so another range of the chain has it, too.
    is_of_chain: bool,
}

/// Returns the covers of a condition. It may have none, as `a is null` does.
pub(super) fn covers(expression: &Expression) -> Vec<Cover> {
    let mut covers = match expression {
        Expression::Predicate(predicate) => of_predicate(predicate),
        // Items without the attribute are in the complement.
        Expression::Not(_) => Vec::new(),
        Expression::Combined(operator, left, right) => {
            let (left, right) = (covers(left), covers(right));
            match operator {
                Operator::And => of_both(left, right),
                Operator::Or => of_either(&left, &right),
                Operator::Intersection => {
                    let mut all = [left, right].concat();
                    all.iter_mut().for_each(|cover| cover.is_of_chain = false);
                    all
                }
            }
        }
    };
    covers.truncate(COVERS_MAX);
    covers
}

/// Returns the ranges of a condition that is about one value of one attribute: it holds if one is in
/// them, and not otherwise.
pub(super) fn exact(expression: &Expression) -> Option<(&Operand, Ranges)> {
    match expression {
        Expression::Predicate(Predicate { operand, quantifier, test }) => {
            let is_exact = *quantifier == Quantifier::Any && Ranges::are_exact(test);
            is_exact.then(|| (operand, Ranges::of(test)))
        }
        Expression::Combined(operator @ (Operator::And | Operator::Or), left, right) => {
            let (operand, left) = exact(left)?;
            let (other, right) = exact(right)?;
            let ranges = match operator {
                Operator::And => left.intersection(&right),
                _ => left.union(&right),
            };
            (operand == other).then_some((operand, ranges))
        }
        _ => None,
    }
}

fn of_predicate(predicate: &Predicate) -> Vec<Cover> {
    let Predicate { operand, test, .. } = predicate;
    // `is null` is passed by items that no index of the attribute has.
    if *test == super::ast::Test::IsNull && *operand != Operand::ItemName {
        return Vec::new();
    }
    // If every value is in the ranges, the one of the chain is.
    vec![Cover { operand: operand.clone(), ranges: Ranges::of(test), is_of_chain: true }]
}

fn of_both(mut left: Vec<Cover>, right: Vec<Cover>) -> Vec<Cover> {
    for cover in right {
        let is_same_value = |other: &&mut Cover| {
            other.operand == cover.operand && other.is_of_chain && cover.is_of_chain
        };
        match left.iter_mut().find(is_same_value) {
            Some(other) => other.ranges = other.ranges.intersection(&cover.ranges),
            None => left.push(cover),
        }
    }
    left
}

fn of_either(left: &[Cover], right: &[Cover]) -> Vec<Cover> {
    let pairs = left.iter().flat_map(|one| right.iter().map(move |two| (one, two)));
    let same = pairs.filter(|(one, two)| one.operand == two.operand);
    let united = same.map(|(one, two)| Cover {
        operand: one.operand.clone(),
        ranges: one.ranges.union(&two.ranges),
        is_of_chain: one.is_of_chain && two.is_of_chain,
    });
    united.collect()
}
