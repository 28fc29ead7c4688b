//! The data points of one entity at one time, as blobs of the database and old files hold them.
//!
//! ```text
//! row    entity (varint) | bytes of the cells (varint) | cell …
//! cell   column × 8 + form (varint) | what the form says
//! ```
//!
//! | form | of a cell whose values are |
//! |--:|---|
//! | 0 | one zero, in this and the next columns: how many columns (varint) |
//! | 1 | one whole number (varint) |
//! | 2 | one number (float) |
//! | 3 | whole numbers: count, sum, smallest, largest (varints) |
//! | 4 | numbers: count, sum, smallest, largest (floats) |
//! | 5 | as 4, then how many different ones (varint) and for each value and count (floats) |

use crate::Summary;
use crate::number::{Reader, put_float, put_varint};

/// The cells of one entity, in ascending order of column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub entity: u32,
    pub cells: Vec<(u16, Summary)>,
}

/// Whole numbers that a float holds exactly.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

impl Row {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut cells = Vec::with_capacity(self.cells.len() * 3);
        let mut rest = self.cells.as_slice();
        while let Some((column, summary)) = rest.first() {
            let zeros = zeros_from(rest, *column);
            if zeros > 0 {
                put_varint(&mut cells, u64::from(*column) << 3);
                put_varint(&mut cells, zeros as u64);
            } else {
                put_cell(&mut cells, *column, summary);
            }
            rest = rest.get(zeros.max(1)..).unwrap_or_default();
        }
        put_varint(out, u64::from(self.entity));
        put_varint(out, cells.len() as u64);
        out.extend_from_slice(&cells);
    }

    /// Reads the next row if `is_wanted` says so, else skips it. `Err`: the bytes make no sense.
    pub(crate) fn take(
        reader: &mut Reader<'_>,
        is_wanted: impl FnOnce(u32) -> bool,
    ) -> Result<Option<Row>, Malformed> {
        let entity = reader.number().ok_or(Malformed)?;
        let bytes = reader.number().ok_or(Malformed)?;
        let cells = reader.bytes(bytes).ok_or(Malformed)?;
        if !is_wanted(entity) {
            return Ok(None);
        }
        let cells = take_cells(&mut Reader(cells)).ok_or(Malformed)?;
        Ok(Some(Row { entity, cells }))
    }
}

/// Bytes whose checksum is right but which this code cannot have written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Malformed;

/// How many cells from the first on hold one zero each and stand in successive columns.
fn zeros_from(cells: &[(u16, Summary)], first: u16) -> usize {
    let zero = Summary::of(0.0);
    let successive = (first..).zip(cells);
    successive.take_while(|(expected, (column, s))| expected == column && *s == zero).count()
}

fn put_cell(out: &mut Vec<u8>, column: u16, summary: &Summary) {
    let tag = |form: u64| u64::from(column) << 3 | form;
    let Summary { count, sum, min, max, .. } = *summary;
    let is_one = count == 1.0 && sum == min && min == max;
    let numbers = [count, sum, min, max];
    let is_whole = |n: &f64| n.is_sign_positive() && *n < WHOLE_MAX && n.fract() == 0.0;
    if let Some(values) = summary.known_values() {
        put_varint(out, tag(5));
        numbers.iter().for_each(|number| put_float(out, *number));
        put_varint(out, values.len() as u64);
        values.iter().flat_map(|(v, n)| [v, n]).for_each(|number| put_float(out, *number));
        return;
    }
    match (is_one, numbers.iter().all(is_whole)) {
        (true, true) => {
            put_varint(out, tag(1));
            put_varint(out, min as u64);
        }
        (true, false) => {
            put_varint(out, tag(2));
            put_float(out, min);
        }
        (false, true) => {
            put_varint(out, tag(3));
            numbers.iter().for_each(|number| put_varint(out, *number as u64));
        }
        (false, false) => {
            put_varint(out, tag(4));
            numbers.iter().for_each(|number| put_float(out, *number));
        }
    }
}

fn take_cells(reader: &mut Reader<'_>) -> Option<Vec<(u16, Summary)>> {
    let mut cells = Vec::new();
    while !reader.is_empty() {
        let tag = reader.varint()?;
        let column = u16::try_from(tag >> 3).ok()?;
        if tag & 7 == 0 {
            let count: u16 = reader.number()?;
            let end = column.checked_add(count)?;
            cells.extend((column..end).map(|column| (column, Summary::of(0.0))));
            continue;
        }
        let mut whole = || reader.varint().map(|number| number as f64);
        let summary = match tag & 7 {
            1 => Summary::of(whole()?),
            3 => Summary::of_set(whole()?, whole()?, whole()?, whole()?),
            2 => Summary::of(reader.float()?),
            form @ (4 | 5) => {
                let [count, sum, min, max] =
                    [reader.float()?, reader.float()?, reader.float()?, reader.float()?];
                let set = Summary::of_set(count, sum, min, max);
                if form == 4 { set } else { set.with_values(take_values(reader)?) }
            }
            _ => return None,
        };
        cells.push((column, summary));
    }
    Some(cells)
}

fn take_values(reader: &mut Reader<'_>) -> Option<Vec<(f64, f64)>> {
    let count: u16 = reader.number()?;
    (0..count).map(|_| Some((reader.float()?, reader.float()?))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn summary() -> impl Strategy<Value = Summary> {
        let number =
            prop_oneof![Just(0.0), 0.0..1e6_f64, -1e3..1e3_f64, (0..99_u32).prop_map(f64::from)];
        prop_oneof![
            Just(Summary::of(0.0)),
            number.clone().prop_map(Summary::of),
            (1..9_u32, number.clone(), number.clone(), number.clone())
                .prop_map(|(n, sum, min, max)| Summary::of_set(f64::from(n), sum, min, max)),
            proptest::collection::vec((number, 1.0..9.0_f64), 1..100)
                .prop_map(|values| Summary::of_values(values).unwrap()),
        ]
    }

    proptest! {
        #[test]
        fn rows_read_back_as_they_were(
            entity in any::<u32>(),
            cells in proptest::collection::btree_map(0..40_u16, summary(), 0..20),
        ) {
            let row = Row { entity, cells: cells.into_iter().collect() };
            let mut bytes = Vec::new();
            row.put(&mut bytes);

            let mut reader = Reader(&bytes);
            let read = Row::take(&mut reader, |_| true).unwrap().unwrap();
            prop_assert_eq!(read, row);
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Row::take(&mut Reader(&bytes), |_| true);
        }
    }

    #[test]
    fn a_cell_takes_the_smallest_form_that_holds_it() {
        for (summary, len) in [
            (Summary::of(0.0), 4),
            (Summary::of(7.0), 4),
            (Summary::of(-7.0), 11),
            (Summary::of(0.5), 11),
            (Summary::of(WHOLE_MAX), 11),
            (Summary::of(WHOLE_MAX - 1.0), 11),
            (Summary::of_set(1.0, 7.0, 3.0, 3.0), 7),
            (Summary::of_set(2.0, 7.0, 3.0, 4.0), 7),
            (Summary::of_set(2.0, 0.5, 0.0, 0.5), 35),
            (Summary::of_set(2.0, -1.0, -1.0, 0.0), 35),
        ] {
            let row = Row { entity: 1, cells: vec![(2, summary.clone())] };
            let mut bytes = Vec::new();
            row.put(&mut bytes);
            assert_eq!(bytes.len(), len, "{summary:?}");
            assert_eq!(Row::take(&mut Reader(&bytes), |_| true).unwrap(), Some(row));
        }
    }

    #[test]
    fn an_idle_queue_takes_four_bytes() {
        let cells = (0..9).map(|column| (column, Summary::of(0.0))).collect();
        let mut bytes = Vec::new();
        Row { entity: 100, cells }.put(&mut bytes);

        assert_eq!(bytes, [100, 2, 0, 9]);
    }
}
