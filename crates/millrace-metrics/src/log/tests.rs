use std::os::unix::fs::PermissionsExt;

use super::*;

fn frames(path: &Path) -> (Vec<Vec<u8>>, Log) {
    let mut frames = Vec::new();
    let log = Log::open(path, |_, _, payload| frames.push(payload.to_vec())).unwrap();
    (frames, log)
}

#[test]
fn a_torn_end_is_cut_off_at_any_byte_and_appending_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (_, mut log) = frames(&path);
    log.append(b"first").unwrap();
    let whole = log.len;
    log.append(b"second").unwrap();
    let bytes = std::fs::read(&path).unwrap();

    for end in whole..log.len {
        std::fs::write(&path, &bytes[..end as usize]).unwrap();
        let (found, mut log) = frames(&path);
        assert_eq!(found, [b"first"], "cut at {end}");
        log.append(b"third").unwrap();
        assert_eq!(frames(&path).0, [&b"first"[..], b"third"]);
    }
}

#[test]
fn what_is_cut_off_never_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let len = || std::fs::metadata(&path).unwrap().len();
    let (_, mut log) = frames(&path);
    log.append(b"first").unwrap();
    let whole = log.len;
    // Zeros, and a whole frame whose checksum is wrong: both end what was being written.
    for torn in [&[0; 40][..], &[9, 0, 0, 0, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9]] {
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&bytes[..whole as usize], torn].concat()).unwrap();
        let (found, log) = frames(&path);
        assert_eq!((found, len(), log.len), (vec![b"first".to_vec()], whole, whole));
    }
    let (_, mut log) = frames(&path);
    log.append(b"taken back").unwrap();
    log.cut(whole).unwrap();
    log.append(b"2").unwrap();
    assert_eq!(len(), log.len());
    assert_eq!(frames(&path).0, [&b"first"[..], b"2"]);
}

#[test]
fn a_flipped_bit_costs_the_frame_that_it_is_in_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (_, mut log) = frames(&path);
    // The second holds what looks like a frame.
    let lure = [b"->", &head(b"lure").unwrap()[..], b"lure"].concat();
    let written = [&b"first"[..], &lure, b"third"];
    let places = written.map(|payload| log.append(payload).unwrap());
    let bytes = std::fs::read(&path).unwrap();

    for (damaged, (at, len)) in places.into_iter().enumerate() {
        for bit in at * 8..(at + u64::from(len)) * 8 {
            let mut bytes = bytes.clone();
            bytes[bit as usize / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bytes).unwrap();
            let (found, mut log) = frames(&path);
            // Nothing tells where a frame ends whose length is damaged.
            let is_lured = damaged == 1 && bit < (at + 4) * 8;
            let mut kept = written.to_vec();
            match is_lured {
                true => kept[damaged] = b"lure",
                false => drop(kept.remove(damaged)),
            }
            assert_eq!(found, kept, "bit {bit}");
            log.append(b"fourth").unwrap();
            kept.push(b"fourth");
            assert_eq!(frames(&path).0, kept, "bit {bit}");
        }
    }
}

#[test]
fn a_frame_is_found_behind_any_amount_of_damage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (_, mut log) = frames(&path);
    let (at, len) = log.append(&[7; 64 << 10]).unwrap();
    log.append(&vec![1; 32 << 20]).unwrap();
    // At every fourth place, a frame of 32 MiB could begin.
    let mut bytes = std::fs::read(&path).unwrap();
    let lures = (32_u32 << 20).to_le_bytes();
    for (place, byte) in bytes.iter_mut().enumerate().skip(at as usize).take(len as usize) {
        *byte = lures[place % 4];
    }
    std::fs::write(&path, bytes).unwrap();

    let (found, _) = frames(&path);

    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [32 << 20]);
}

#[test]
fn a_damaged_beginning_costs_nothing_and_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (_, mut log) = frames(&path);
    log.append(b"first").unwrap();
    let bytes = std::fs::read(&path).unwrap();

    for at in 0..VERSION_AT {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        std::fs::write(&path, &damaged).unwrap();
        let (found, mut log) = frames(&path);
        assert_eq!(found, [b"first"], "{at}");
        assert!(log.take_dirty().is_some());
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{at}");
    }
    let mut newer = bytes.clone();
    newer[VERSION_AT] = b'2';
    std::fs::write(&path, &newer).unwrap();
    assert!(Log::open(&path, |_, _, _| ()).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), newer);
}

#[test]
fn a_file_that_a_crash_left_at_its_beginning_is_begun_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    for len in 0..=MAGIC.len() {
        std::fs::write(&path, &MAGIC[..len]).unwrap();
        let (_, mut log) = frames(&path);
        assert_eq!(log.take_dirty().is_some(), len < MAGIC.len(), "the beginning is synced");
        log.append(b"first").unwrap();
        assert!(log.take_dirty().is_some() && log.take_dirty().is_none());
        assert_eq!(frames(&path).0, [b"first"], "{len}");
    }
    for other in [&b"x"[..], &MAGIC[1..], b"MRMETRC2"] {
        std::fs::write(&path, other).unwrap();
        assert!(Log::open(&path, |_, _, _| ()).is_err());
    }
}

#[test]
fn a_frame_that_would_not_be_read_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (_, mut log) = frames(&path);
    log.append(b"first").unwrap();

    let too_long = vec![1; FRAME_BYTES_MAX + 1];
    assert_eq!(log.append(&too_long).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    log.append(b"second").unwrap();
    assert_eq!(frames(&path).0, [&b"first"[..], b"second"]);
    assert!(Log::replace(&path, [Ok(too_long)].into_iter()).is_err());
    assert_eq!(frames(&path).0, [&b"first"[..], b"second"]);
}

#[test]
fn a_file_of_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, b"something else").unwrap();

    assert!(Log::open(&path, |_, _, _| ()).is_err());
}

#[test]
fn files_are_for_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let (opened, replaced) = (dir.path().join("opened.log"), dir.path().join("replaced.log"));

    Log::open(&opened, |_, _, _| ()).unwrap();
    Log::replace(&replaced, std::iter::empty()).unwrap();

    for made in [opened, replaced] {
        assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
