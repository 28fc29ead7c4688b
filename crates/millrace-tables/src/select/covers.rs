//! Which ranges of which index have all items that a condition holds for.

use super::ast::{Expression, Operand, Operator, Predicate, Quantifier, Test};
use super::ranges::Ranges;

/// Of several covers, so many are kept. Each is enough by itself.
pub(super) const COVERS_MAX: usize = 8;

/// All items that the condition holds for have a value in one of the parts. No two parts are of the
/// same operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub parts: Vec<Part>,
    /// The value is the one that the chain is true with, so another range of the chain has it, too.
    is_of_chain: bool,
}

/// Item names are values of `itemName()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub operand: Operand,
    pub ranges: Ranges,
}

impl Cover {
    /// Returns the ranges if the cover is of that operand alone.
    pub(super) fn ranges_of(&self, operand: &Operand) -> Option<&Ranges> {
        match self.parts.as_slice() {
            [part] if part.operand == *operand => Some(&part.ranges),
            _ => None,
        }
    }

    fn intersect(&mut self, other: &Cover) -> bool {
        let ([part], [other_part]) = (self.parts.as_mut_slice(), other.parts.as_slice()) else {
            return false;
        };
        let is_same_value =
            part.operand == other_part.operand && self.is_of_chain && other.is_of_chain;
        if is_same_value {
            part.ranges = part.ranges.intersection(&other_part.ranges);
        }
        is_same_value
    }

    fn unite(mut self, other: &Cover) -> Cover {
        self.is_of_chain &= other.is_of_chain;
        for part in &other.parts {
            match self.parts.iter_mut().find(|known| known.operand == part.operand) {
                Some(known) => known.ranges = known.ranges.union(&part.ranges),
                None => self.parts.push(part.clone()),
            }
        }
        self
    }
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
    if *test == Test::IsNull && *operand != Operand::ItemName {
        return Vec::new();
    }
    // If every value is in the ranges, the one of the chain is.
    let part = Part { operand: operand.clone(), ranges: Ranges::of(test) };
    vec![Cover { parts: vec![part], is_of_chain: true }]
}

fn of_both(mut left: Vec<Cover>, right: Vec<Cover>) -> Vec<Cover> {
    for cover in right {
        if !left.iter_mut().any(|other| other.intersect(&cover)) {
            left.push(cover);
        }
    }
    left
}

/// Any cover of the one side with any of the other is enough.
fn of_either(left: &[Cover], right: &[Cover]) -> Vec<Cover> {
    let pairs = left.iter().flat_map(|one| right.iter().map(move |two| one.clone().unite(two)));
    let mut covers: Vec<Cover> = pairs.collect();
    // Fewer parts are cheaper, and few covers are kept.
    covers.sort_by_key(|cover| cover.parts.len());
    covers
}
