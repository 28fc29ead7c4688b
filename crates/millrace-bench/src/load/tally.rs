//! What one process knows of the messages of a run, in a form that can be added up: several
//! processes may send to and receive from one queue.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::ledger::Verdict;

/// A set of sequence numbers, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u64>);

/// The messages that one process sent, as another (or itself) saw them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// Who sent them.
    pub(crate) run: u32,
    pub(crate) acknowledged: Bits,
    pub(crate) received: Bits,
    pub(crate) deleted: Bits,
    /// Receives of a message beyond the first by this process.
    pub(crate) again: u64,
}

impl Bits {
    pub(crate) fn insert(&mut self, number: u64) {
        let index = (number / 64) as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        if let Some(word) = self.0.get_mut(index) {
            *word |= 1 << (number % 64);
        }
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn add(&mut self, other: &Bits) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(word, others)| *word |= others);
    }

    /// How many are in this set and not in `other`.
    fn count_without(&self, other: &Bits) -> u64 {
        let others = other.0.iter().copied().chain(std::iter::repeat(0));
        self.0.iter().zip(others).map(|(word, other)| u64::from((word & !other).count_ones())).sum()
    }
}

/// What became of all messages, from the tallies of every process.
pub(crate) fn verdict(tallies: &[Tally]) -> Verdict {
    let mut runs: Vec<u32> = tallies.iter().map(|tally| tally.run).collect();
    runs.sort_unstable();
    runs.dedup();
    let mut verdict = Verdict::default();
    for run in runs {
        let mut all = Tally::default();
        let mut receivers = 0;
        for tally in tallies.iter().filter(|tally| tally.run == run) {
            all.acknowledged.add(&tally.acknowledged);
            all.received.add(&tally.received);
            all.deleted.add(&tally.deleted);
            all.again += tally.again;
            receivers += tally.received.count();
        }
        let received = all.received.count();
        verdict.acknowledged += all.acknowledged.count();
        verdict.received += received;
        verdict.deleted += all.deleted.count();
        verdict.lost += all.acknowledged.count_without(&all.received);
        verdict.unacknowledged += all.received.count_without(&all.acknowledged);
        // Twice by one process, or once by each of two.
        verdict.duplicates += all.again + (receivers - received);
    }
    verdict
}

/// Base64 of the words, least significant byte first.
impl Serialize for Bits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
        serializer.serialize_str(&STANDARD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for Bits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bits, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(place, byte)| *place = *byte);
            u64::from_le_bytes(word)
        });
        Ok(Bits(words.collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(numbers: &[u64]) -> Bits {
        let mut bits = Bits::default();
        numbers.iter().for_each(|number| bits.insert(*number));
        bits
    }

    #[test]
    fn what_one_process_sent_another_may_receive() {
        let sender = Tally { run: 1, acknowledged: bits(&[0, 1, 70]), ..Tally::default() };
        let receiver = Tally { run: 1, received: bits(&[0, 70, 71]), ..Tally::default() };

        let found = verdict(&[sender, receiver]);

        assert_eq!((found.acknowledged, found.received), (3, 3));
        assert_eq!((found.lost, found.unacknowledged, found.duplicates), (1, 1, 0));
    }

    #[test]
    fn receives_by_two_processes_are_duplicates() {
        let one = Tally {
            run: 1,
            acknowledged: bits(&[5]),
            received: bits(&[5]),
            again: 2,
            ..Tally::default()
        };
        let other = Tally { run: 1, received: bits(&[5]), ..Tally::default() };

        let found = verdict(&[one, other]);

        assert_eq!((found.received, found.duplicates, found.lost), (1, 3, 0));
    }

    #[test]
    fn runs_are_kept_apart() {
        let one = Tally { run: 1, acknowledged: bits(&[5]), ..Tally::default() };
        let other = Tally { run: 2, received: bits(&[5]), ..Tally::default() };

        assert_eq!(verdict(&[one, other]).lost, 1);
    }

    #[test]
    fn bits_survive_the_way_to_another_process() {
        let bits = bits(&[0, 63, 64, 1000]);

        let json = serde_json::to_string(&bits).unwrap();

        assert_eq!(serde_json::from_str::<Bits>(&json).unwrap(), bits);
        assert!(serde_json::from_str::<Bits>("\"?\"").is_err());
    }
}
