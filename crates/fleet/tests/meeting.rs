//! Rank 0 and others over real sockets: agreement, one clock, rows, losses.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::{Duration, Instant};

use tacho_core::json::Dict;
use tacho_core::{Clock, Observation, SystemClock};
use tacho_fleet::{Asked, Error, Guest, Host, Place};

const VERSION: &str = "1";

fn place(rank: usize, ranks: usize, port: u16, token: &str) -> Place {
    let asked = Asked { rank: Some(rank), ranks: Some(ranks), rendezvous: Some(format!("127.0.0.1:{port}")) };
    let get = |name: &str| (name == "TACHO_RENDEZVOUS_TOKEN" && !token.is_empty()).then(|| token.to_owned());
    Place::find(&asked, &get, 1).unwrap().unwrap()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn never() -> bool {
    false
}

/// A rank that sends one row stamped now, and ends well or not at all.
fn attend(place: &Place, ends_well: bool) -> Result<(), Error> {
    let clock = SystemClock::start();
    let mut guest = Guest::join(place, clock, "hash", VERSION, &never)?;
    let start = guest.ready()?;
    while clock.now() < start {
        std::thread::yield_now();
    }
    let row = Observation { done: start, ..Observation::released(place.rank, start, start) };
    assert!(!guest.send(&[row], false)?);
    if ends_well { guest.done(Dict::new()) } else { Ok(()) }
}

#[test]
fn all_start_at_once_and_their_rows_are_on_one_clock() {
    let port = free_port();
    let ranks = [place(0, 3, port, ""), place(1, 3, port, ""), place(2, 3, port, "")];
    let clock = SystemClock::start();
    // Clocks of processes begin when they do.
    std::thread::sleep(Duration::from_millis(30));
    std::thread::scope(|scope| {
        let others: Vec<_> =
            ranks[1..].iter().map(|place| scope.spawn(move || attend(place, place.rank == 1))).collect();
        let host = Host::listen(&ranks[0], clock, "hash", VERSION).unwrap();
        host.wait_for_all(&never).unwrap();
        let start = host.start(&never);
        assert!(start > clock.now());
        let shares = host.gather(&|| (false, false));
        others.into_iter().for_each(|other| other.join().unwrap().unwrap());
        assert_eq!(shares.len(), 2);
        for share in &shares {
            // One of them left without a word: what it had handed over is there all the same.
            assert_eq!(share.lost.is_some(), share.rank == 2, "{share:?}");
            let off = share.rows[0].done.0.abs_diff(start.0);
            let bound = share.clock.unwrap().bound_ns();
            assert!(off <= 2 * bound + 1000, "{off} ns off, {bound} known");
        }
    });
}

#[test]
fn who_differs_is_refused_by_name() {
    for (hash, version, says) in [("other", VERSION, "requests"), ("hash", "2", "tacho 2 where rank 0 has 1")] {
        let port = free_port();
        let host = Host::listen(&place(0, 2, port, ""), SystemClock::start(), "hash", VERSION).unwrap();
        let joined = Guest::join(&place(1, 2, port, ""), SystemClock::start(), hash, version, &never);
        assert!(joined.unwrap_err().to_string().contains(says));
        let error = host.wait_for_all(&never).unwrap_err().to_string();
        assert!(error.starts_with("rank 1 on ") && error.contains(says), "{error}");
    }
}

#[test]
fn a_stranger_is_not_let_in() {
    let port = free_port();
    let _host = Host::listen(&place(0, 2, port, "secret"), SystemClock::start(), "hash", VERSION).unwrap();
    let joined = Guest::join(&place(1, 2, port, "guess"), SystemClock::start(), "hash", VERSION, &never);
    assert!(joined.unwrap_err().to_string().contains("token"));
}

#[test]
fn a_stop_reaches_everybody_and_ends_a_wait() {
    let port = free_port();
    let host = Host::listen(&place(0, 2, port, ""), SystemClock::start(), "hash", VERSION).unwrap();
    assert!(matches!(host.wait_for_all(&|| true), Err(Error::Stopped)));
    let mut guest = Guest::join(&place(1, 2, port, ""), SystemClock::start(), "hash", VERSION, &never).unwrap();
    assert!(!host.exchange_stop(false));
    assert!(guest.send(&[], true).unwrap());
    assert!(host.exchange_stop(false));
    let began = Instant::now();
    let alone = place(1, 2, free_port(), "");
    let joined =
        Guest::join(&alone, SystemClock::start(), "hash", VERSION, &|| began.elapsed() > Duration::from_millis(50));
    assert!(matches!(joined, Err(Error::Stopped)));
}
