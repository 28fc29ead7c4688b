//! `millrace journal check|repair`.

use std::io;

use anyhow::{Context, bail};
use millrace_journal::{CheckReport, RealFileSystem};
use serde_json::json;

use crate::{
    cli::DataFlags,
    config::Config,
    show::{Format, print},
};

/// The journal could not be checked: nothing is known of damage. The process ends with 2.
#[derive(Debug, thiserror::Error)]
#[error("the journal was not checked")]
pub(crate) struct Unchecked;

/// Prints what the journal holds. Fails if it is damaged; a torn tail is not damage. Whatever else
/// goes wrong is [`Unchecked`].
pub(crate) fn check(flags: &DataFlags, format: Format) -> anyhow::Result<()> {
    match print_report(flags, format).context(Unchecked)?.corruption {
        // Its journal may end early, and be sound.
        None => crate::copy::refuse_unfinished(&flags.load()?.data),
        Some(corruption) => {
            crate::copy::refuse_unfinished(&flags.load()?.data)?;
            bail!("{corruption}")
        }
    }
}

/// Makes the journal start again; prints what that took and what is lost.
pub(crate) fn repair(config: &Config) -> anyhow::Result<()> {
    let dir = existing(config)?;
    // All segments are opened.
    crate::limits::raise_open_files();
    let report = millrace_journal::repair(RealFileSystem::new(), &dir)
        .with_context(|| format!("repairing the journal in {}", dir.display()))?;
    let mut text = String::new();
    for (segment, offset) in &report.unreadable {
        text.push_str(&format!(
            "segment {segment} offset {offset}: unreadable, written as zeros\n"
        ));
    }
    for segment in &report.headers {
        text.push_str(&format!("segment {segment}: header written anew\n"));
    }
    for segment in &report.missing {
        text.push_str(&format!("segment {segment}: missing, what it held is lost\n"));
    }
    for segment in &report.lengthened {
        text.push_str(&format!(
            "segment {segment}: file was too short, what was in the rest is lost\n"
        ));
    }
    for gap in &report.gaps {
        text.push_str(&format!("{gap}\n"));
    }
    if let Some(cut) = &report.cut {
        text.push_str(&format!("cut at: {}\n", cut.at));
        let lost = cut.lost_frames.map_or("not known".to_owned(), |frames| frames.to_string());
        text.push_str(&format!("readable frames lost behind it: {lost}\n"));
        for segment in &cut.removed {
            text.push_str(&format!("removed segment {segment}\n"));
        }
    }
    for backup in &report.backups {
        text.push_str(&format!("kept a copy: {}\n", backup.display()));
    }
    print(if text.is_empty() { "nothing to repair\n" } else { &text })
}

/// Makes the next start take the domains as they are on the disk.
pub(crate) fn accept_domains(config: &Config) -> anyhow::Result<()> {
    existing(config)?;
    let has_data = crate::tables::accept(&config.data)?;
    print(match has_data {
        true => "the next start takes the domains as they are\n",
        false => "the next start begins without domains: there is no database that can be read\n",
    })
}

fn print_report(flags: &DataFlags, format: Format) -> anyhow::Result<CheckReport> {
    let dir = existing(&flags.load()?)?;
    crate::limits::raise_open_files();
    let report = millrace_journal::check(&*RealFileSystem::read_only(), &dir)
        .with_context(|| format!("checking the journal in {}", dir.display()))?;
    let text = match format {
        Format::Text => as_text(&report),
        Format::Json => format!("{:#}\n", as_json(&report)),
    };
    print(&text)?;
    Ok(report)
}

fn existing(config: &Config) -> anyhow::Result<std::path::PathBuf> {
    let dir = config.journal_dir();
    // One without a file was never written: a wrong directory, or a server that could not start.
    let is_there = match dir.read_dir() {
        Ok(mut files) => files.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error).with_context(|| format!("reading {}", dir.display())),
    };
    if !is_there {
        bail!("there is no journal in {}", config.data.display());
    }
    Ok(dir)
}

fn as_text(report: &CheckReport) -> String {
    let mut text = String::new();
    for segment in &report.segments {
        text.push_str(&format!(
            "segment {}: {} frames, {} records, {} bytes, {}, sidecar {}\n",
            segment.id,
            segment.frames,
            segment.records,
            segment.bytes,
            if segment.is_sealed { "sealed" } else { "active" },
            segment.sidecar,
        ));
    }
    if let Some(torn) = report.torn_tail {
        text.push_str(&format!(
            "torn tail: {} bytes at segment {} offset {}; the next start cuts them off\n",
            torn.bytes, torn.segment, torn.offset
        ));
    }
    text.push_str(if report.is_sound() { "sound\n" } else { "damaged\n" });
    text
}

fn as_json(report: &CheckReport) -> serde_json::Value {
    let segments = report.segments.iter().map(|segment| {
        json!({
            "segment": segment.id.to_string(),
            "frames": segment.frames,
            "records": segment.records,
            "size_bytes": segment.bytes,
            "is_sealed": segment.is_sealed,
            "sidecar": segment.sidecar.to_string(),
        })
    });
    json!({
        "is_sound": report.is_sound(),
        "segments": segments.collect::<Vec<_>>(),
        "spares": report.spares,
        "torn_tail": report.torn_tail.map(|torn| json!({
            "segment": torn.segment.to_string(),
            "offset": torn.offset,
            "size_bytes": torn.bytes,
        })),
        "corruption": report.corruption.as_ref().map(|corruption| json!({
            "segment": corruption.segment.to_string(),
            "offset": corruption.offset,
            "reason": corruption.reason,
        })),
    })
}
