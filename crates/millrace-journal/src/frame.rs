//! Frames: the unit of writing, one a commit group, and the rule that says which frames count.
//!
//! ```text
//!  0        4       8   9   10    12       16          24       32         40         44        48
//!  ┌────────┬───────┬───┬───┬─────┬────────┬───────────┬────────┬──────────┬──────────┬─────────┬──
//!  │ CRC32C │ MRFR  │ver│knd│flags│ length │ place     │ epoch  │ counter  │ previous │ records │ …
//!  │ u32    │       │ u8│ u8│ u16 │ u32    │ u64       │ u64    │ u64      │ u32      │ u32     │
//!  └────────┴───────┴───┴───┴─────┴────────┴───────────┴────────┴──────────┴──────────┴─────────┴──
//!  little endian; records follow, then zeros up to a multiple of 8; length covers all of it
//! ```
//!
//! * The CRC is seeded with the log's salt (64 random bits, in each segment's header) and covers
//!   everything behind it.
//! * `place` is the frame's own position, so a frame that is found anywhere else does not count.
//! * `previous` is the CRC of the frame before, which covers that frame's `previous`, and so on.
//!
//! Salt and place together make the rule airtight against bytes that only look like frames: old
//! contents of a recycled file carry another place (segment numbers are never used again), and
//! message bodies that quote a journal carry either the wrong place or, without the salt, which
//! no client sees, a CRC that does not match.

use crate::owner::Owner;
use crate::position::{Epoch, Position};

pub const FRAME_HEADER_BYTES: usize = 48;
/// The header in front of the first frame of a segment.
pub const SEGMENT_HEADER_BYTES: usize = 64;
/// Frames start at multiples of this.
pub const FRAME_ALIGN: usize = 8;
const MAGIC: [u8; 4] = *b"MRFR";
const VERSION: u8 = 1;
const FLAG_PRIOR_DURABLE: u16 = 1;
const CHAIN_BYTES: usize = 20;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Starts an epoch. Its one record names the [owner](Owner), and is not shown; earlier versions
    /// wrote none.
    Open,
    /// A commit group: any number of batches, each of any number of records.
    Data,
    /// Stands where `repair` found damage. Its epoch, counter and previous are the chain behind
    /// what stood there, so that the next frame follows. Of its records, those count that are
    /// whole.
    Gap,
}

/// What the frame says about the frames before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prior {
    /// They were durable when this one was written. So a bad frame before this one is damage, not
    /// the trace of a crash.
    Durable,
    /// They may be lost while this one is not (durability `Os`).
    Unsynced,
}

/// A frame's header in memory. `length` includes header and padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    pub kind: FrameKind,
    pub prior: Prior,
    pub length: u32,
    pub place: Position,
    pub epoch: Epoch,
    pub counter: u64,
    pub previous: u32,
    pub records: u32,
}

/// The state of the chain behind a frame: all that is needed to judge the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    pub epoch: Epoch,
    pub counter: u64,
    /// CRC of the last frame.
    pub previous: u32,
}

/// Whether a frame with a good CRC counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Valid(Chain),
    /// Written late by an owner whose epoch is over. Not an error; as if it were not there.
    Void,
    /// Claims this epoch or a later one, but does not follow: something between is missing.
    Broken,
}

impl Chain {
    /// The validity rule, the same for every implementation: a frame counts only if it follows in
    /// the latest epoch, or opens a later one, and its counter and hash chain on; or if it is a gap
    /// that leads on.
    #[must_use]
    pub fn judge(&self, header: &FrameHeader, crc: u32) -> Verdict {
        if header.epoch < self.epoch {
            return Verdict::Void;
        }
        let is_next =
            header.counter == self.counter.wrapping_add(1) && header.previous == self.previous;
        let follows = match header.kind {
            FrameKind::Open => header.epoch > self.epoch && is_next,
            FrameKind::Data => header.epoch == self.epoch && is_next,
            FrameKind::Gap => header.counter > self.counter,
        };
        if follows { Verdict::Valid(Self::behind(header, crc)) } else { Verdict::Broken }
    }

    /// Whether a frame that was found behind an unreadable place proves that what stood there had
    /// been durable, so that its loss is damage and not a crash's torn tail.
    #[must_use]
    pub fn is_outlived_by(&self, header: &FrameHeader) -> bool {
        header.prior == Prior::Durable
            && header.epoch >= self.epoch
            && header.counter > self.counter
    }

    /// The header of the next frame of this epoch.
    #[must_use]
    pub fn next(&self, kind: FrameKind, place: Position, prior: Prior) -> FrameHeader {
        let epoch = match kind {
            FrameKind::Open => Epoch(self.epoch.0.saturating_add(1)),
            FrameKind::Data | FrameKind::Gap => self.epoch,
        };
        FrameHeader {
            kind,
            prior,
            length: FRAME_HEADER_BYTES as u32,
            place,
            epoch,
            counter: self.counter.wrapping_add(1),
            previous: self.previous,
            records: 0,
        }
    }

    /// The chain that a frame was written behind, as far as the frame tells.
    #[must_use]
    pub fn before(header: &FrameHeader) -> Self {
        let epoch = match header.kind {
            FrameKind::Open => Epoch(header.epoch.0.saturating_sub(1)),
            FrameKind::Data | FrameKind::Gap => header.epoch,
        };
        Self { epoch, counter: header.counter.saturating_sub(1), previous: header.previous }
    }

    /// As the headers of segments and sidecars have it: epoch, counter, previous.
    pub(crate) fn encode(&self) -> [u8; CHAIN_BYTES] {
        let mut bytes = [0; CHAIN_BYTES];
        bytes[..8].copy_from_slice(&self.epoch.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.counter.to_le_bytes());
        bytes[16..].copy_from_slice(&self.previous.to_le_bytes());
        bytes
    }

    /// The chain at the start of `bytes`, and what is behind it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (epoch, rest) = bytes.split_first_chunk::<8>()?;
        let (counter, rest) = rest.split_first_chunk::<8>()?;
        let (previous, rest) = rest.split_first_chunk::<4>()?;
        let chain = Self {
            epoch: Epoch(u64::from_le_bytes(*epoch)),
            counter: u64::from_le_bytes(*counter),
            previous: u32::from_le_bytes(*previous),
        };
        Some((chain, rest))
    }

    fn behind(header: &FrameHeader, crc: u32) -> Self {
        let previous = if header.kind == FrameKind::Gap { header.previous } else { crc };
        Self { epoch: header.epoch, counter: header.counter, previous }
    }
}

/// A sealed frame: what an implementation appends. Header and body are written one behind the
/// other; they are apart so that the body never moves.
#[derive(Clone, Debug)]
pub struct Frame {
    pub header: FrameHeader,
    pub crc: u32,
    pub head: [u8; FRAME_HEADER_BYTES],
    /// Records and padding.
    pub body: bytes::Bytes,
}

impl Frame {
    /// Seals `body`, which is padded already, behind `header`.
    #[must_use]
    pub fn seal(mut header: FrameHeader, body: bytes::Bytes, salt: u64) -> Self {
        assert!(body.len().is_multiple_of(FRAME_ALIGN), "frame body is not padded");
        header.length = (FRAME_HEADER_BYTES + body.len()) as u32;
        let mut head = header.encode();
        let (sum, covered) = head.split_at_mut(4);
        let crc = crc32c::crc32c_append(crc32c::crc32c_append(seed(salt), covered), &body);
        sum.copy_from_slice(&crc.to_le_bytes());
        Self { header, crc, head, body }
    }

    /// The frame that starts the epoch of `header` for `owner`.
    #[must_use]
    pub fn open(header: FrameHeader, owner: &Owner, salt: u64) -> Self {
        assert!(header.kind == FrameKind::Open, "only an OPEN frame has an owner");
        Self::seal(FrameHeader { records: 1, ..header }, owner.body(), salt)
    }

    /// The chain behind this frame.
    #[must_use]
    pub fn chain(&self) -> Chain {
        Chain::behind(&self.header, self.crc)
    }

    /// The first place behind this frame.
    #[must_use]
    pub fn end(&self) -> Position {
        self.header.place.plus(self.header.length)
    }
}

impl FrameHeader {
    /// All but the CRC, which stays zero.
    fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let kind = match self.kind {
            FrameKind::Open => 1,
            FrameKind::Data => 2,
            FrameKind::Gap => 3,
        };
        let flags = match self.prior {
            Prior::Durable => FLAG_PRIOR_DURABLE,
            Prior::Unsynced => 0,
        };
        let mut bytes = [0; FRAME_HEADER_BYTES];
        let mut at = 4;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&MAGIC);
        put(&[VERSION, kind]);
        put(&flags.to_le_bytes());
        put(&self.length.to_le_bytes());
        put(&self.place.0.to_le_bytes());
        put(&self.epoch.0.to_le_bytes());
        put(&self.counter.to_le_bytes());
        put(&self.previous.to_le_bytes());
        put(&self.records.to_le_bytes());
        bytes
    }

    /// Reads a header that claims to stand at `place`, with the CRC that it claims. None unless
    /// it is a frame of this version, at this place, of a length that makes sense. Nothing else in
    /// it is to be trusted before [`is_intact`] has seen the whole frame.
    #[must_use]
    pub fn decode(bytes: &[u8], place: Position) -> Option<(Self, u32)> {
        let (crc, rest) = bytes.split_first_chunk::<4>()?;
        let (magic, rest) = rest.split_first_chunk::<4>()?;
        if *magic != MAGIC {
            return None;
        }
        let ([version, kind], rest) = rest.split_first_chunk::<2>()?;
        let (flags, rest) = rest.split_first_chunk::<2>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (claimed, rest) = rest.split_first_chunk::<8>()?;
        let (epoch, rest) = rest.split_first_chunk::<8>()?;
        let (counter, rest) = rest.split_first_chunk::<8>()?;
        let (previous, rest) = rest.split_first_chunk::<4>()?;
        let (records, _) = rest.split_first_chunk::<4>()?;
        let kind = match kind {
            1 => FrameKind::Open,
            2 => FrameKind::Data,
            3 => FrameKind::Gap,
            _ => return None,
        };
        let prior = match u16::from_le_bytes(*flags) {
            0 => Prior::Unsynced,
            FLAG_PRIOR_DURABLE => Prior::Durable,
            _ => return None,
        };
        let length = u32::from_le_bytes(*length);
        let fits = length as usize >= FRAME_HEADER_BYTES
            && (length as usize).is_multiple_of(FRAME_ALIGN)
            && u64::from_le_bytes(*claimed) == place.0
            && *version == VERSION;
        let header = Self {
            kind,
            prior,
            length,
            place,
            epoch: Epoch(u64::from_le_bytes(*epoch)),
            counter: u64::from_le_bytes(*counter),
            previous: u32::from_le_bytes(*previous),
            records: u32::from_le_bytes(*records),
        };
        fits.then_some((header, u32::from_le_bytes(*crc)))
    }
}

/// Whether the CRC at the start of a whole frame matches the rest of it.
#[must_use]
pub fn is_intact(frame: &[u8], salt: u64) -> bool {
    let Some((crc, covered)) = frame.split_first_chunk::<4>() else { return false };
    crc32c::crc32c_append(seed(salt), covered) == u32::from_le_bytes(*crc)
}

/// A salt with which a whole frame is intact. There is one for any bytes, so it says something only
/// if another frame agrees.
#[must_use]
pub fn fitting_salt(frame: &[u8]) -> Option<u64> {
    let (crc, covered) = frame.split_first_chunk::<4>()?;
    let crc = u32::from_le_bytes(*crc);
    let fitting_seed = preimage(|seed| crc32c::crc32c_append(seed, covered), crc)?;
    preimage(|salt| seed(u64::from(salt)), fitting_seed).map(u64::from)
}

/// What a map turns into `image`, if it is affine over GF(2), as checksums are: by elimination.
fn preimage(map: impl Fn(u32) -> u32, image: u32) -> Option<u32> {
    let zero = map(0);
    // Of each highest bit, an image that has it, and what it is the image of.
    let mut rows = [(0, 0); u32::BITS as usize];
    let reduce = |rows: &[(u32, u32)], of: (u32, u32)| {
        let by_highest = rows.iter().rev();
        by_highest
            .fold(of, |of, row| if of.0 ^ row.0 < of.0 { (of.0 ^ row.0, of.1 ^ row.1) } else { of })
    };
    for bit in 0..u32::BITS {
        let row = reduce(&rows, (map(1 << bit) ^ zero, 1 << bit));
        if let Some(highest) = row.0.checked_ilog2() {
            rows[highest as usize] = row;
        }
    }
    let (rest, found) = reduce(&rows, (image ^ zero, 0));
    (rest == 0).then_some(found)
}

/// Bytes of zeros that bring `bytes` to a multiple of [`FRAME_ALIGN`].
#[must_use]
pub const fn padding(bytes: usize) -> usize {
    bytes.next_multiple_of(FRAME_ALIGN) - bytes
}

fn seed(salt: u64) -> u32 {
    crc32c::crc32c(&salt.to_le_bytes())
}
