//! Domains: their names and figures.

/// Names a domain.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainKey {
    pub region: String,
    pub account: String,
    pub name: String,
}

/// The size of a domain, as DomainMetadata has it. Bytes are of UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainFigures {
    pub items: u64,
    pub item_name_bytes: u64,
    /// Distinct names.
    pub attribute_names: u64,
    pub attribute_name_bytes: u64,
    /// Pairs of name and value.
    pub attribute_values: u64,
    pub attribute_value_bytes: u64,
}
