//! What goes in comes out.

use std::fs;

use proptest::prelude::*;
use tacho_core::{Timestamp, json::Value};
use tacho_rowlog::{Error, Log, Origin, Row, Stored, Tail};

use crate::sample::{ORIGIN, any_row, log, manifest, measured, parts, plausible, read};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_rows_come_back_as_they_were(batches in prop::collection::vec(prop::collection::vec(any_row(), 1..6), 0..5)) {
        let directory = tempfile::tempdir().unwrap();
        let unfinished = log(directory.path(), &batches);
        prop_assert_eq!(&read(directory.path()), &batches.concat());
        unfinished.finish(&Value::Int(3)).unwrap();
        prop_assert_eq!(read(directory.path()), batches.concat());
    }
}

#[test]
fn manifest_origin_and_closing_come_back() {
    let directory = tempfile::tempdir().unwrap();
    log(directory.path(), &[vec![plausible(0, 3)]]).finish(&Value::Float(0.1)).unwrap();
    let stored = Stored::open(directory.path()).unwrap();
    assert_eq!(stored.manifest(), &manifest());
    assert_eq!(stored.segments()[0].origin(), ORIGIN);
    assert_eq!(stored.segments()[0].tail().unwrap(), Tail::Closed);
    assert_eq!(stored.closing(), Some(&Value::Float(0.1)));
}

#[test]
fn a_token_takes_at_most_four_bytes_in_busy_and_quiet_runs() {
    for per_batch in [1, 500] {
        let directory = tempfile::tempdir().unwrap();
        let rows: Vec<_> = (0..2000).map(|index| plausible(index, 128)).collect();
        let batches: Vec<_> = rows.chunks(per_batch).map(<[_]>::to_vec).collect();
        log(directory.path(), &batches).finish(&Value::Null).unwrap();
        let size = fs::metadata(directory.path().join("rows-0.arrows")).unwrap().len();
        let per_token = size as f64 / (2000.0 * 128.0);
        assert!(per_token <= 4.0, "{per_token} bytes a token in batches of {per_batch}");
        assert_eq!(read(directory.path()), rows);
    }
}

#[test]
fn a_token_of_a_short_answer_takes_little_more() {
    for (tokens, max) in [(8, 4.0), (4, 6.0)] {
        let directory = tempfile::tempdir().unwrap();
        let rows: Vec<_> = (0..10_000).map(|index| measured(index, tokens)).collect();
        let batches: Vec<_> = rows.chunks(300).map(<[_]>::to_vec).collect();
        log(directory.path(), &batches).finish(&Value::Null).unwrap();
        let size = fs::metadata(directory.path().join("rows-0.arrows")).unwrap().len();
        let per_token = size as f64 / (10_000.0 * tokens as f64);
        assert!(per_token <= max, "{per_token} bytes a token in answers of {tokens}");
        assert_eq!(read(directory.path()), rows);
    }
}

#[test]
fn ids_come_back_whether_they_follow_or_not() {
    let with = |index: usize, id: Option<&str>| {
        let mut row = plausible(index, 1);
        row.request.request_id = id.map(str::to_owned);
        row
    };
    let follow = [with(7, Some("a-7")), with(3, Some("a-3")), with(12, Some("b-12")), with(1, Some("a-01"))];
    let some = [with(7, Some("a-7")), with(3, None), with(8, Some("a-8"))];
    let bare = [with(1, Some("1")), with(2, Some("2")), with(3, Some(""))];
    for rows in [follow.to_vec(), some.to_vec(), bare.to_vec(), vec![with(0, None)]] {
        let directory = tempfile::tempdir().unwrap();
        let unfinished = log(directory.path(), &[rows.clone(), rows.clone()]);
        assert_eq!(read(directory.path()), [rows.clone(), rows.clone()].concat());
        unfinished.finish(&Value::Null).unwrap();
        assert_eq!(read(directory.path()), [rows.clone(), rows].concat());
    }
}

#[test]
fn a_log_of_an_older_format_is_refused() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/log/format-2");
    assert!(matches!(Stored::open(directory.as_ref()), Err(Error::Older { found: 2, known: 4, .. })));
    let oldest = tempfile::tempdir().unwrap();
    fs::write(oldest.path().join("manifest.tacho"), "{}").unwrap();
    assert!(matches!(Stored::open(oldest.path()), Err(Error::Older { found: 0, .. })));
}

#[test]
fn resuming_changes_nothing_before_a_segment_begins() {
    let directory = tempfile::tempdir().unwrap();
    log(directory.path(), &[vec![plausible(0, 3)]]).finish(&Value::Int(7)).unwrap();
    let (resumed, stored) = Log::resume(directory.path()).unwrap();
    assert_eq!(stored.closing(), Some(&Value::Int(7)));
    drop(resumed);
    assert_eq!(Stored::open(directory.path()).unwrap().closing(), Some(&Value::Int(7)), "looking is not changing");
    let (mut resumed, _) = Log::resume(directory.path()).unwrap();
    resumed.begin(ORIGIN).unwrap();
    assert_eq!(Stored::open(directory.path()).unwrap().closing(), None);
}

#[test]
fn resuming_cuts_the_torn_tail_and_goes_on_in_a_second_segment() {
    let directory = tempfile::tempdir().unwrap();
    drop(log(directory.path(), &[vec![plausible(0, 3)], vec![plausible(1, 3)]]));
    let path = directory.path().join("rows-0.arrows");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 5]).unwrap();
    let (mut log, stored) = Log::resume(directory.path()).unwrap();
    let Tail::Torn { lost, .. } = stored.segments()[0].tail().unwrap() else { panic!("the tail is whole") };
    assert_eq!((stored.joined().unwrap().lost, lost > 0), (lost, true));
    log.cut_tails(&stored).unwrap();
    assert_eq!(stored.segments()[0].tail().unwrap(), Tail::Open);
    let origin = Origin { timestamp: Timestamp(1), unix_ns: 9 };
    log.begin(origin).unwrap();
    log.append(parts(&[plausible(1, 4)])).unwrap();
    log.finish(&Value::Null).unwrap();
    assert_eq!(read(directory.path()), [plausible(0, 3), plausible(1, 4)]);
    assert_eq!(Stored::open(directory.path()).unwrap().segments()[1].origin(), origin);
}

#[test]
fn a_log_is_neither_overwritten_nor_written_by_two() {
    let directory = tempfile::tempdir().unwrap();
    let open = log(directory.path(), &[]);
    assert!(matches!(Log::create(directory.path(), &manifest()), Err(Error::Exists { .. })));
    assert!(matches!(Log::resume(directory.path()), Err(Error::Busy { .. })));
    drop(open);
    Log::resume(directory.path()).unwrap();
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(Stored::open(empty.path()), Err(Error::Missing { .. })));
}

#[test]
fn a_newer_format_is_distinguished_from_a_broken_one() {
    let directory = tempfile::tempdir().unwrap();
    drop(log(directory.path(), &[]));
    let path = directory.path().join("manifest.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"format\": 4", "\"format\": 9")).unwrap();
    assert!(matches!(Stored::open(directory.path()), Err(Error::Newer { found: 9, .. })));
    fs::write(&path, text.replace("\"format\": 4", "\"format\": 1")).unwrap();
    assert!(matches!(Stored::open(directory.path()), Err(Error::Older { found: 1, .. })));
    fs::write(&path, "{").unwrap();
    assert!(matches!(Stored::open(directory.path()), Err(Error::Malformed { .. })));
}

#[test]
fn segments_are_joined_without_the_time_between_them() {
    let directory = tempfile::tempdir().unwrap();
    drop(log(directory.path(), &[vec![plausible(2, 3), plausible(0, 3)]]));
    let (mut log, _) = Log::resume(directory.path()).unwrap();
    let later = Origin { timestamp: Timestamp(1_000_000), unix_ns: ORIGIN.unix_ns + 60_000_000_000 };
    log.begin(later).unwrap();
    log.append(parts(&[plausible(1, 2), plausible(2, 4)])).unwrap();
    drop(log);
    let joined = Stored::open(directory.path()).unwrap().joined().unwrap();
    let indices: Vec<usize> = joined.rows.iter().map(|row| row.observation.index).collect();
    assert_eq!((indices.as_slice(), joined.replaced, joined.lost), ([0, 1, 2].as_slice(), 1, 0));
    let [first, second] = joined.segments[..] else { panic!("{:?}", joined.segments) };
    assert_eq!(joined.rows[0], plausible(0, 3));
    assert_eq!((second.start, second.rows), (first.end, 2));
    assert_eq!(second.gap_ns, 60_000_000_000 - (first.end.0 - first.start.0) as i64);
    let (moved, stored) = (&joined.rows[2].observation, plausible(2, 4).observation);
    let shift = second.start.0 - later.timestamp.0;
    assert_eq!((moved.scheduled.0, moved.done.0), (stored.scheduled.0 + shift, stored.done.0 + shift));
    assert_eq!(moved.chunks[3].0, stored.chunks[3].0 + shift);
}

#[test]
fn segments_are_numbered_without_gaps() {
    let directory = tempfile::tempdir().unwrap();
    let mut written = log(directory.path(), &[vec![plausible(0, 3)]]);
    for index in 1..3 {
        written.begin(ORIGIN).unwrap();
        let row = plausible(index, 3);
        written.append(parts(&[row])).unwrap();
    }
    written.finish(&Value::Null).unwrap();
    let exists = |number: usize| directory.path().join(format!("rows-{number}.arrows")).is_file();
    assert_eq!((0..4).map(exists).collect::<Vec<_>>(), [true, true, true, false]);
}

#[test]
fn a_batch_with_one_impossible_row_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let mut impossible = plausible(2, 3);
    impossible.observation.done = Timestamp(u64::MAX / 2);
    drop(log(directory.path(), &[vec![plausible(0, 3)], vec![plausible(1, 3), impossible]]));
    assert_eq!(read(directory.path()), [plausible(0, 3)]);
}

#[test]
fn small_batches_are_merged_and_large_ones_stay() {
    let sizes = |batches: &[Vec<Row>]| {
        let directory = tempfile::tempdir().unwrap();
        log(directory.path(), batches).finish(&Value::Null).unwrap();
        let segment = Stored::open(directory.path()).unwrap().segments()[0].clone();
        let found: Vec<usize> = segment.batches().unwrap().map(|batch| batch.unwrap().len()).collect();
        assert_eq!(found.iter().sum::<usize>(), batches.concat().len());
        found
    };
    assert_eq!(sizes(&[vec![plausible(0, 3)], vec![plausible(1, 3)], vec![plausible(2, 3)]]), [3]);
    // A row counts as its events and 8 more: 1,310 a batch, of which 101 make the 131,072 of a merged one.
    let rows: Vec<Row> = (0..1200).map(|index| plausible(index, 123)).collect();
    assert_eq!(sizes(&rows.chunks(10).map(<[_]>::to_vec).collect::<Vec<_>>()), [1010, 190]);
    // 1,016 events and 8: 128 such rows are exactly as many.
    let rows: Vec<Row> = (0..260).map(|index| plausible(index, 1016)).collect();
    assert_eq!(sizes(&rows.chunks(1).map(<[_]>::to_vec).collect::<Vec<_>>()), [128, 128, 4]);
    // 64 characters at random take 6 bits each: batches of 150 KiB, and of 375 KiB.
    let noisy = |kib: u64| {
        let character = |at: u64| {
            let mixed = (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at << 7).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            b'0' + (mixed >> 58) as u8
        };
        let text = |index: u64| (0..kib << 10).map(|at| character(at + index * 7_000_003)).collect::<Vec<u8>>();
        let row = |index: usize| {
            let mut row = plausible(index, 1);
            row.observation.text = text(index as u64);
            vec![row]
        };
        (0..3).map(row).collect::<Vec<_>>()
    };
    assert_eq!((sizes(&noisy(200)), sizes(&noisy(500))), (vec![3], vec![1, 1, 1]));
}

#[test]
fn rows_that_were_written_are_read_up_to_a_count() {
    let directory = tempfile::tempdir().unwrap();
    let rows: Vec<Row> = (0..4).map(|index| plausible(index, 3)).collect();
    let log = log(directory.path(), &[rows[..2].to_vec(), rows[2..].to_vec()]);
    for count in 0..=4 {
        let mut found = Vec::new();
        log.written().unwrap().unwrap().rows(count, |row| found.push(row)).unwrap();
        assert_eq!(found, rows[..count]);
    }
    let error = log.written().unwrap().unwrap().rows(7, drop).unwrap_err().to_string();
    assert!(error.contains("3 of 7 rows"), "{error}");
    assert!(log.written().unwrap().unwrap().rows(5, drop).unwrap_err().to_string().contains("1 of 5 rows"));
}

#[test]
fn rows_with_very_many_events_are_divided_among_batches() {
    let directory = tempfile::tempdir().unwrap();
    // A row counts as its events and 32 more: four of these are the 1,048,576 of a batch.
    let rows: Vec<Row> = (0..5).map(|index| plausible(index, (1 << 18) - 32)).collect();
    drop(log(directory.path(), &[rows]));
    let stored = Stored::open(directory.path()).unwrap();
    let found: Vec<usize> = stored.segments()[0].batches().unwrap().map(|batch| batch.unwrap().len()).collect();
    assert_eq!(found, [4, 1]);
}
