//! Items and their attributes.

/// An item, or those of its attributes that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    pub name: String,
    /// One for each value. Names are in the order of first insertion, the values of a name by
    /// their bytes.
    pub attributes: Vec<Attribute>,
}

/// A pair of name and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub name: String,
    pub value: String,
}
