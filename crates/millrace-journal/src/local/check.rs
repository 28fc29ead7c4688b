//! `millrace journal check`: reads everything, bodies included, and changes nothing.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use super::recover::find_end;
use super::scan::scan;
use super::segment::index_path;
use super::sidecar::Sidecar;
use super::survey::{Found, Survey, lock_dir, survey};
use crate::error::{Corruption, OpenError};
use crate::frame::Chain;
use crate::fs::FileSystem;
use crate::position::{SegmentId, TornTail};

/// What a journal directory holds, and what is wrong with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Oldest first, as far as they could be read.
    pub segments: Vec<SegmentReport>,
    /// Files with space set aside and nothing in them.
    pub spares: u32,
    /// A crash's trace: the next start cuts it off.
    pub torn_tail: Option<TornTail>,
    /// Damage: the next start is refused.
    pub corruption: Option<Corruption>,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    pub id: SegmentId,
    pub frames: u64,
    pub records: u64,
    /// Up to the end of the last good frame.
    pub bytes: u32,
    pub is_sealed: bool,
    pub sidecar: SidecarState,
}

/// A sidecar that is missing or invalid is made again; it is no damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidecarState {
    /// The active segment has none.
    None,
    Valid,
    Missing,
    Invalid,
}

/// Checks a journal that no process has open.
pub fn check(fs: &dyn FileSystem, dir: &Path) -> Result<CheckReport, OpenError> {
    let _lock = lock_dir(fs, dir)?;
    let survey = survey(fs, dir)?;
    check_survey(fs, dir, &survey)
}

/// The same under a lock that is already held.
pub(super) fn check_survey(
    fs: &dyn FileSystem,
    dir: &Path,
    survey: &Survey,
) -> Result<CheckReport, OpenError> {
    let mut report = CheckReport {
        spares: survey.spares.len() as u32,
        corruption: survey.corruption.clone(),
        ..CheckReport::default()
    };
    let bad_header = survey.corruption.as_ref().map(|corruption| corruption.segment);
    for found in &survey.segments {
        // Behind a header that does not count, nothing does.
        if bad_header.is_some_and(|bad| found.header.segment >= bad) {
            break;
        }
        if check_segment(fs, dir, survey, found, &mut report)?.is_break() {
            break;
        }
    }
    Ok(report)
}

/// Reads one segment into the report. Breaks if the log cannot be followed past it.
fn check_segment(
    fs: &dyn FileSystem,
    dir: &Path,
    survey: &Survey,
    found: &Found,
    report: &mut CheckReport,
) -> Result<ControlFlow<()>, OpenError> {
    let id = found.header.segment;
    let reading = || OpenError::io(format!("reading segment {id}"));
    let mut ignore = |_: crate::record::Replayed<'_>| ControlFlow::Continue(());
    let stop = scan(&*found.file, &found.header, u64::MAX, &mut ignore).map_err(reading())?;
    let next_start = survey.next_start(id);
    report.segments.push(SegmentReport {
        id,
        frames: stop.frames,
        records: stop.records,
        bytes: stop.offset,
        is_sealed: next_start.is_some(),
        sidecar: sidecar_state(fs, dir, found, next_start),
    });
    if let Some(start) = next_start {
        if start == stop.chain {
            return Ok(ControlFlow::Continue(()));
        }
        let reason = format!("frame is damaged, but segment {} follows", id.next());
        report.corruption = Some(Corruption::at(id, stop.offset, reason));
        return Ok(ControlFlow::Break(()));
    }
    // Before a damaged header, only what is in this segment can be earlier damage.
    let behind = if survey.corruption.is_none() { &survey.spares[..] } else { &[] };
    match find_end(found, behind, &mut ignore) {
        Ok(end) => report.torn_tail = end.torn_tail,
        Err(OpenError::Corrupt(corruption)) => report.corruption = Some(corruption),
        Err(error) => return Err(error),
    }
    Ok(ControlFlow::Continue(()))
}

fn sidecar_state(
    fs: &dyn FileSystem,
    dir: &Path,
    found: &Found,
    next_start: Option<Chain>,
) -> SidecarState {
    if next_start.is_none() {
        return SidecarState::None;
    }
    if fs.open(&index_path(dir, found.header.segment)).is_err() {
        return SidecarState::Missing;
    }
    match Sidecar::load(fs, dir, &found.header, next_start) {
        Some(_) => SidecarState::Valid,
        None => SidecarState::Invalid,
    }
}

impl CheckReport {
    /// Whether the next start goes through without losing anything acknowledged.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.corruption.is_none()
    }
}

impl fmt::Display for SidecarState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Valid => "valid",
            Self::Missing => "missing",
            Self::Invalid => "invalid",
        })
    }
}
