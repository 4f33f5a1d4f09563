//! Truncated, overwritten and forged files: no panic, no unjustified allocation, and all rows before the damage.

use std::{fs, path::Path};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tacho_rowlog::{Row, Stored, Tail};
use tempfile::TempDir;

use crate::sample::{log, parts, plausible};

const BATCHES: usize = 4;

/// A log whose segment has four batches of two rows each, the segment's content, and the end of each of its messages:
/// the schema, then the batches.
struct Sound {
    directory: TempDir,
    content: Vec<u8>,
    ends: Vec<usize>,
}

fn sound() -> Sound {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows-0.arrows");
    let mut log = log(directory.path(), &[]);
    let mut ends = vec![fs::metadata(&path).unwrap().len() as usize];
    for batch in 0..BATCHES {
        log.append(parts(&rows(batch))).unwrap();
        ends.push(fs::metadata(&path).unwrap().len() as usize);
    }
    Sound { content: fs::read(&path).unwrap(), directory, ends }
}

fn rows(batch: usize) -> Vec<Row> {
    (2 * batch..2 * batch + 2).map(|index| plausible(index, 20)).collect()
}

/// The readable part of a segment with this content; `None` if it cannot be opened.
fn recovered(directory: &Path, content: &[u8]) -> Option<(Vec<Row>, Tail)> {
    fs::write(directory.join("rows-0.arrows"), content).unwrap();
    let stored = Stored::open(directory).ok()?;
    let mut batches = stored.segments().first()?.batches().ok()?;
    let rows = batches.by_ref().flat_map(Result::unwrap).collect();
    Some((rows, batches.tail().unwrap()))
}

#[test]
fn a_file_cut_anywhere_keeps_its_whole_batches() {
    let Sound { directory, content, ends } = sound();
    let near_an_end = |length: &usize| ends.iter().any(|end| length.abs_diff(*end) < 24);
    for length in (0..=content.len()).filter(|length| length % 19 == 0 || near_an_end(length)) {
        let found = recovered(directory.path(), &content[..length]);
        let whole = ends.iter().filter(|&&end| end <= length).count();
        let Some((rows_found, tail)) = found else {
            assert_eq!(whole, 0, "cut at {length}");
            continue;
        };
        let expected: Vec<Row> = (0..whole - 1).flat_map(rows).collect();
        assert_eq!(rows_found, expected, "cut at {length}");
        let (start, torn) = (ends[whole - 1], length - ends[whole - 1]);
        let expected = match torn {
            0 => Tail::Open,
            _ => Tail::Torn { whole: start as u64, lost: torn as u64 },
        };
        assert_eq!(tail, expected);
    }
}

/// Runs `test` on many values of `strategy`, all with one intact log.
fn for_many<S: Strategy>(cases: u32, strategy: S, test: impl Fn(&Sound, S::Value)) {
    let sound = sound();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let test = |value| {
        test(&sound, value);
        Ok(())
    };
    TestRunner::new(config).run(&strategy, test).unwrap();
}

#[test]
fn a_file_with_other_bytes_keeps_what_is_before_them() {
    let damage = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6);
    for_many(3000, damage, |sound, damage| {
        let (mut content, ends) = (sound.content.clone(), &sound.ends);
        let mut first = content.len();
        for (place, byte) in damage {
            let place = place.index(content.len());
            if content[place] != byte {
                content[place] = byte;
                first = first.min(place);
            }
        }
        let untouched = ends.iter().filter(|&&end| end <= first).count();
        match recovered(sound.directory.path(), &content) {
            Some((found, _)) => {
                let expected: Vec<Row> = (0..untouched.saturating_sub(1)).flat_map(rows).collect();
                assert!(found.starts_with(&expected));
            }
            None => assert_eq!(untouched, 0),
        }
    });
}

#[test]
fn lengths_that_lie_are_not_believed() {
    let value = prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(-2), Just(1 << 40), Just((1 << 31) - 1), any::<i64>()];
    for_many(3000, (any::<prop::sample::Index>(), value), |sound, (place, value)| {
        let mut content = sound.content.clone();
        let place = place.index(content.len() / 8) * 8;
        content[place..place + 8].copy_from_slice(&value.to_le_bytes());
        recovered(sound.directory.path(), &content);
    });
}

#[test]
fn bytes_that_are_no_log_are_no_log() {
    for_many(500, prop::collection::vec(any::<u8>(), 0..600), |sound, content| {
        let directory = sound.directory.path();
        recovered(directory, &content);
        let marked = [&[0xff; 4], &200u32.to_le_bytes()[..], content.as_slice()].concat();
        recovered(directory, &marked);
    });
}

#[test]
fn a_damaged_schema_is_reported() {
    let Sound { directory, content, ends } = sound();
    let mut silent = 0;
    for place in (0..ends[0]).step_by(7) {
        let mut damaged = content.clone();
        damaged[place] ^= 0x40;
        fs::write(directory.path().join("rows-0.arrows"), &damaged).unwrap();
        // Either an error or the segment is there; it is never dropped silently.
        silent += usize::from(Stored::open(directory.path()).is_ok_and(|stored| stored.segments().is_empty()));
    }
    assert_eq!(silent, 0);
}

#[test]
fn a_manifest_of_other_bytes_is_refused() {
    for_many(500, prop::collection::vec(any::<u8>(), 0..200), |sound, content| {
        fs::write(sound.directory.path().join("manifest.json"), &content).unwrap();
        assert!(Stored::open(sound.directory.path()).is_err());
    });
}
