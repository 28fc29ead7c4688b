//! Evaluates a condition on an item.
//!
//! Predicates that `and` and `or` join are a *chain*. It is true if there is a choice of one value
//! for each attribute with which it is true: so `a > '1' and a < '3'` asks for one value between.
//! `not`, `every()`, `is null` and `intersection` are about the item as a whole, and true or false
//! for whichever choice.

use super::ast::{Expression, Operand, Operator, Predicate, Quantifier, Test};

/// A condition, its attributes replaced by numbers.
#[derive(Debug)]
pub(super) struct Condition {
    /// The attributes that it is about, by number.
    pub attributes: Vec<String>,
    root: Node,
}

/// What a condition has to know of an item.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub item_name: String,
    /// The values of each attribute, by number.
    pub values: Vec<Vec<String>>,
}

#[derive(Debug)]
enum Node {
    Chain(Chain),
    Not(Box<Node>),
    Both(Box<Node>, Box<Node>),
    /// A predicate about the item as a whole.
    Item(ItemTest),
}

#[derive(Debug)]
struct ItemTest {
    subject: Subject,
    test: Test,
}

#[derive(Debug)]
enum Subject {
    ItemName,
    Every(usize),
    /// Tests that there is a value, or that there is none.
    Presence(usize),
}

/// Each leaf is a bit: set if it is true.
#[derive(Debug, Default)]
struct Chain {
    formula: Vec<Step>,
    values: Vec<ValueTests>,
    leaves: Vec<(u32, Node)>,
}

/// A formula is a list of steps on a stack.
#[derive(Clone, Copy, Debug)]
enum Step {
    Bit(u32),
    And,
    Or,
}

/// The tests of a chain on a value of one attribute.
#[derive(Debug)]
struct ValueTests {
    attribute: usize,
    tests: Vec<(u32, Test)>,
}

impl Condition {
    pub(super) fn new(expression: &Expression) -> Condition {
        let mut attributes = Vec::new();
        let root = Node::new(expression, &mut attributes);
        Condition { attributes, root }
    }

    pub(super) fn holds(&self, facts: &Facts) -> bool {
        self.root.holds(facts)
    }

    pub(super) fn number_of(&self, attribute: &str) -> Option<usize> {
        self.attributes.iter().position(|known| known == attribute)
    }
}

impl Facts {
    pub(super) fn values_of(&self, attribute: usize) -> &[String] {
        self.values.get(attribute).map_or(&[], Vec::as_slice)
    }
}

impl Node {
    fn new(expression: &Expression, attributes: &mut Vec<String>) -> Node {
        match expression {
            Expression::Not(inner) => Node::Not(Box::new(Node::new(inner, attributes))),
            Expression::Combined(Operator::Intersection, left, right) => Node::Both(
                Box::new(Node::new(left, attributes)),
                Box::new(Node::new(right, attributes)),
            ),
            _ => {
                let mut chain = Chain::default();
                chain.add(expression, attributes);
                Node::Chain(chain)
            }
        }
    }

    fn holds(&self, facts: &Facts) -> bool {
        match self {
            Node::Chain(chain) => chain.holds(facts),
            Node::Not(inner) => !inner.holds(facts),
            Node::Both(left, right) => left.holds(facts) && right.holds(facts),
            Node::Item(ItemTest { subject, test }) => match *subject {
                Subject::ItemName => test.passes(&facts.item_name),
                Subject::Every(attribute) => {
                    let values = facts.values_of(attribute);
                    !values.is_empty() && values.iter().all(|value| test.passes(value))
                }
                Subject::Presence(attribute) => {
                    facts.values_of(attribute).is_empty() == (*test == Test::IsNull)
                }
            },
        }
    }
}

impl Chain {
    fn add(&mut self, expression: &Expression, attributes: &mut Vec<String>) {
        match expression {
            Expression::Combined(operator @ (Operator::And | Operator::Or), left, right) => {
                self.add(left, attributes);
                self.add(right, attributes);
                self.formula.push(if *operator == Operator::And { Step::And } else { Step::Or });
            }
            Expression::Predicate(predicate) => self.add_predicate(predicate, attributes),
            _ => {
                let node = Node::new(expression, attributes);
                self.add_leaf(node);
            }
        }
    }

    fn add_predicate(&mut self, predicate: &Predicate, attributes: &mut Vec<String>) {
        let Predicate { operand, quantifier, test } = predicate;
        let Operand::Attribute(name) = operand else {
            return self.add_item_test(Subject::ItemName, test);
        };
        let known = attributes.iter().position(|known| known == name);
        let attribute = known.unwrap_or_else(|| {
            attributes.push(name.clone());
            attributes.len() - 1
        });
        if matches!(test, Test::IsNull | Test::IsNotNull) {
            return self.add_item_test(Subject::Presence(attribute), test);
        }
        if *quantifier == Quantifier::Every {
            return self.add_item_test(Subject::Every(attribute), test);
        }
        let bit = self.next_bit();
        match self.values.iter_mut().find(|values| values.attribute == attribute) {
            Some(values) => values.tests.push((bit, test.clone())),
            None => {
                self.values.push(ValueTests { attribute, tests: vec![(bit, test.clone())] });
            }
        }
        self.formula.push(Step::Bit(bit));
    }

    fn add_item_test(&mut self, subject: Subject, test: &Test) {
        self.add_leaf(Node::Item(ItemTest { subject, test: test.clone() }));
    }

    fn add_leaf(&mut self, node: Node) {
        let bit = self.next_bit();
        self.leaves.push((bit, node));
        self.formula.push(Step::Bit(bit));
    }

    /// There are no more leaves than predicates in an expression.
    fn next_bit(&self) -> u32 {
        let count = self.leaves.len() + self.values.iter().map(|of| of.tests.len()).sum::<usize>();
        1 << count
    }

    fn holds(&self, facts: &Facts) -> bool {
        let mut common = 0;
        for (bit, node) in &self.leaves {
            if node.holds(facts) {
                common |= bit;
            }
        }
        let mut choices: Vec<Vec<u32>> = Vec::new();
        let mut most = common;
        for values in &self.values {
            let masks = values.masks(facts.values_of(values.attribute));
            let union = masks.iter().fold(0, |union, mask| union | mask);
            most |= union;
            // One value passes everything that any passes.
            if masks.contains(&union) {
                common |= union;
            } else {
                choices.push(masks);
            }
        }
        // A formula has no negation: what is false with all bits is false with fewer.
        self.is_true(most) && (choices.is_empty() || self.is_true_for_a_choice(common, &choices))
    }

    /// Tries each choice of one mask of each list. The values of an item are so few that the choices
    /// are some thousands at most, and more than a few only in expressions made for it.
    fn is_true_for_a_choice(&self, common: u32, choices: &[Vec<u32>]) -> bool {
        let mut chosen = vec![0_usize; choices.len()];
        loop {
            let pairs = choices.iter().zip(&chosen);
            let masks = pairs.filter_map(|(masks, chosen)| masks.get(*chosen));
            if self.is_true(masks.fold(common, |bits, mask| bits | mask)) {
                return true;
            }
            let mut is_last = true;
            for (chosen, masks) in chosen.iter_mut().zip(choices) {
                *chosen += 1;
                if *chosen < masks.len() {
                    is_last = false;
                    break;
                }
                *chosen = 0;
            }
            if is_last {
                return false;
            }
        }
    }

    fn is_true(&self, bits: u32) -> bool {
        // A stack of bits, the top lowest. It is never deeper than there are leaves.
        let mut stack = 0_u64;
        for step in &self.formula {
            let (top, below) = (stack & 1, stack >> 1);
            stack = match step {
                Step::Bit(bit) => stack << 1 | u64::from(bits & bit != 0),
                Step::And => (below & !1) | (below & top),
                Step::Or => below | top,
            };
        }
        stack & 1 == 1
    }
}

impl ValueTests {
    /// The tests that each value passes, without those that pass fewer than another does.
    fn masks(&self, values: &[String]) -> Vec<u32> {
        let mut masks: Vec<u32> = Vec::new();
        for value in values {
            let passed = self.tests.iter().filter(|(_, test)| test.passes(value));
            let mask = passed.fold(0, |mask, (bit, _)| mask | bit);
            if !masks.iter().any(|known| known & mask == mask) {
                masks.retain(|known| known & mask != *known);
                masks.push(mask);
            }
        }
        masks
    }
}
