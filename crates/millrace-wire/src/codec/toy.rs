//! A structure with a member of every kind, for tests and for fuzzing.

use std::collections::BTreeMap;

use super::scalar::{Blob, Time};

crate::structures! {
    /// Every kind of member.
    pub(crate) Toy {
        text: Option<String> = "Text",
        number: Option<f64> = "Number",
        integer: Option<i64> = "Integer",
        truth: Option<bool> = "Truth",
        time: Option<Time> = "Time",
        blob: Option<Blob> = "Blob",
        part: Option<Part> = "Part",
        /// Contains itself, to show where that ends.
        inner: Option<Box<Toy>> = "Inner",
        texts: Option<Vec<String>> = "Texts",
        numbers: Option<Vec<f64>> = "Numbers",
        times: Option<Vec<Time>> = "Times",
        blobs: Option<Vec<Blob>> = "Blobs",
        parts: Option<Vec<Part>> = "Parts",
        rows: Option<Vec<Vec<i64>>> = "Rows",
        flat_texts: Option<Vec<String>> = "FlatText".flat(),
        flat_parts: Option<Vec<Part>> = "FlatPart".flat(),
        texts_by_name: Option<BTreeMap<String, String>> = "TextsByName",
        parts_by_name: Option<BTreeMap<String, Part>> = "PartsByName".keyed("Name", "Value"),
        flat_map: Option<BTreeMap<String, bool>> = "FlatMap".flat().keyed("Name", "Value"),
        maps: Option<Vec<BTreeMap<String, i64>>> = "Maps",
    }

    /// Members that are always there.
    pub(crate) Part {
        key: String = "Key",
        values: Vec<i64> = "Values",
    }
}
