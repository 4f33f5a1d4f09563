//! Rank 0 and others over real sockets: agreement, one clock, rows, losses.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tacho_core::json::Dict;
use tacho_core::{Clock, Observation, SystemClock};
use tacho_fleet::{Asked, Error, Follower, Guest, Host, Meeting, OnLost, Place, Reply, Share, Terms};

const VERSION: &str = "1";

fn asked(rank: usize, ranks: usize, port: u16) -> Asked {
    let rendezvous = Some(format!("127.0.0.1:{port}"));
    Asked { rank: Some(rank), ranks: Some(ranks), rendezvous, ..Asked::default() }
}

fn found(asked: &Asked, token: &str) -> Place {
    let get = |name: &str| (name == "TACHO_RENDEZVOUS_TOKEN" && !token.is_empty()).then(|| token.to_owned());
    Place::find(asked, &get, 1).unwrap().unwrap()
}

fn place(rank: usize, ranks: usize, port: u16) -> Place {
    found(&asked(rank, ranks, port), "")
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn never() -> bool {
    false
}

fn open(place: &Place, clock: SystemClock) -> Host {
    Host::open(place, clock, "hash", VERSION, Some("run")).unwrap()
}

fn join(place: &Place, clock: SystemClock) -> Result<Guest, Error> {
    Guest::join(place, clock, "hash", VERSION, &never)
}

/// All that others have done, once they have.
fn gather(host: Host) -> Vec<Share> {
    while !host.is_over() {
        std::thread::sleep(Duration::from_millis(5));
    }
    host.finish()
}

/// A rank that sends one row stamped now, and ends well or not at all.
fn attend(place: &Place, ends_well: bool) -> Result<(), Error> {
    let clock = SystemClock::start();
    let mut guest = join(place, clock)?;
    assert_eq!(guest.log(), Some("run"));
    let start = guest.ready(&never)?.unwrap();
    assert_eq!(start.unix_ns, 77);
    while clock.now() < start.stamp {
        std::thread::yield_now();
    }
    let row = Observation { done: start.stamp, ..Observation::dispatched(place.rank, start.stamp, start.stamp) };
    assert_eq!(guest.send(&[row], [1, 0, 5, 2], false)?, Reply::GoOn);
    let fit = guest.clock()?;
    if ends_well { guest.done(fit, Dict::new()) } else { Ok(()) }
}

#[test]
fn all_start_at_once_and_their_rows_are_on_one_clock() {
    let port = free_port();
    let ranks = [place(0, 3, port), place(1, 3, port), place(2, 3, port)];
    let clock = SystemClock::start();
    // Clocks of processes begin when they do.
    std::thread::sleep(Duration::from_millis(30));
    std::thread::scope(|scope| {
        let others: Vec<_> =
            ranks[1..].iter().map(|place| scope.spawn(move || attend(place, place.rank == 1))).collect();
        let host = open(&ranks[0], clock);
        host.wait_for_all(&never).unwrap();
        let start = host.start(&never, &|_| 77);
        assert!(start > clock.now());
        others.into_iter().for_each(|other| other.join().unwrap().unwrap());
        while !host.is_over() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(host.progress(), [2, 0, 10, 0], "nothing is under way at ranks that are not there");
        let shares = host.finish();
        assert_eq!(shares.len(), 2);
        for share in &shares {
            // One of them left without a word: what it had handed over is there all the same.
            assert_eq!(share.lost.is_some(), share.rank == 2, "{share:?}");
            let off = share.rows[0].done.0.abs_diff(start.0);
            let bound = share.before.unwrap().bound_ns();
            assert!(off <= 2 * bound + 1000, "{off} ns off, {bound} known");
        }
        // Both calendars are this machine's.
        let (ahead, bound) = shares[0].ahead.unwrap();
        assert!(ahead.unsigned_abs() <= bound + 1_000_000, "{ahead} ns ahead, known to {bound}");
    });
}

#[test]
fn who_differs_is_refused_by_name() {
    for (hash, version, says) in [("other", VERSION, "requests"), ("hash", "2", "tacho 2 where rank 0 has 1")] {
        let port = free_port();
        let host = open(&place(0, 2, port), SystemClock::start());
        let joined = Guest::join(&place(1, 2, port), SystemClock::start(), hash, version, &never);
        assert!(joined.unwrap_err().to_string().contains(says));
        let error = host.wait_for_all(&never).unwrap_err().to_string();
        assert!(error.starts_with("rank 1 on ") && error.contains(says), "{error}");
    }
}

#[test]
fn a_stranger_is_not_let_in() {
    let port = free_port();
    let _host = open(&found(&asked(0, 2, port), "secret"), SystemClock::start());
    let joined = join(&found(&asked(1, 2, port), "guess"), SystemClock::start());
    assert!(joined.unwrap_err().to_string().contains("token"));
}

#[test]
fn a_stop_reaches_everybody_and_ends_a_wait() {
    let port = free_port();
    let host = open(&place(0, 2, port), SystemClock::start());
    assert!(matches!(host.wait_for_all(&|| true), Err(Error::Stopped)));
    let mut guest = join(&place(1, 2, port), SystemClock::start()).unwrap();
    assert!(!host.exchange_stop(false, false));
    assert_eq!(guest.send(&[], [0; 4], false).unwrap(), Reply::GoOn);
    assert!(!host.exchange_stop(true, false));
    assert_eq!(guest.send(&[], [0; 4], false).unwrap(), Reply::Ended);
    assert_eq!(guest.send(&[], [0; 4], true).unwrap(), Reply::Asked);
    assert!(host.exchange_stop(false, false));
    let began = Instant::now();
    let soon = || began.elapsed() > Duration::from_millis(50);
    let joined = Guest::join(&place(1, 2, free_port()), SystemClock::start(), "hash", VERSION, &soon);
    assert!(matches!(joined, Err(Error::Stopped)));
}

#[test]
fn who_never_comes_is_lost_or_ends_the_run() {
    let wait = |on_lost| {
        let port = free_port();
        let terms = Terms { patience: Duration::from_millis(200), on_lost, ..Terms::default() };
        let host = open(&found(&Asked { terms, ..asked(0, 3, port) }, ""), SystemClock::start());
        let _guest = join(&place(1, 3, port), SystemClock::start()).unwrap();
        let waited = host.wait_for_all(&never);
        (waited, host.finish())
    };
    let (waited, shares) = wait(OnLost::Finish);
    waited.unwrap();
    assert!(shares[1].lost.as_ref().unwrap().contains("did not come"), "{shares:?}");
    let error = wait(OnLost::Stop).0.unwrap_err().to_string();
    assert!(error.contains("2 of 3 ranks") && error.contains("missing: rank 2"), "{error}");
}

#[test]
fn who_comes_after_the_start_is_told_so() {
    let port = free_port();
    let terms = Terms { patience: Duration::from_millis(100), ..Terms::default() };
    let host = open(&found(&Asked { terms, ..asked(0, 3, port) }, ""), SystemClock::start());
    let _guest = join(&place(1, 3, port), SystemClock::start()).unwrap();
    host.wait_for_all(&never).unwrap();
    host.start(&never, &|_| 0);
    let error = join(&place(2, 3, port), SystemClock::start()).unwrap_err().to_string();
    assert!(error.contains("too late"), "{error}");
}

#[test]
fn those_that_follow_hear_of_each_run_and_of_the_end() {
    let port = free_port();
    let meeting = Arc::new(Meeting::open(&place(0, 2, port)).unwrap());
    std::thread::scope(|scope| {
        let follower = scope.spawn(move || {
            let mut follower = Follower::join(&place(1, 2, port), &never).unwrap();
            let mut seen = Vec::new();
            while let Some(order) = follower.next(&never).unwrap() {
                attend(&place(1, 2, port).in_run(order.number, None), true).unwrap();
                seen.push(order.words);
            }
            seen
        });
        for words in ["one", "two"] {
            let order = meeting.order(&[words.to_owned()]);
            let host = open(&place(0, 2, port).in_run(order, Some(meeting.clone())), SystemClock::start());
            host.wait_for_all(&never).unwrap();
            host.start(&never, &|_| 77);
            assert_eq!(gather(host)[0].lost, None);
        }
        meeting.close();
        assert_eq!(follower.join().unwrap(), [["one"], ["two"]]);
    });
}

#[test]
fn a_certificate_is_the_one_or_nothing_is_said() {
    let folder = std::env::temp_dir().join(format!("tacho-fleet-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let made = || rcgen::generate_simple_self_signed(vec!["anything".to_owned()]).unwrap();
    let (ours, other) = (made(), made());
    let (certificate, key) = (write("cert.pem", &ours.cert.pem()), write("key.pem", &ours.signing_key.serialize_pem()));
    let other = write("other.pem", &other.cert.pem());
    let port = free_port();
    let with = |rank, certificate: &std::path::Path| {
        let (certificate, key) = (Some(certificate.to_owned()), Some(key.clone()));
        found(&Asked { certificate, key, ..asked(rank, 2, port) }, "secret")
    };
    let host = open(&with(0, &certificate), SystemClock::start());
    let plain = join(&found(&asked(1, 2, port), "secret"), SystemClock::start());
    assert!(plain.is_err(), "without TLS nobody is understood");
    assert!(join(&with(1, &other), SystemClock::start()).is_err(), "another certificate is another machine");
    std::thread::scope(|scope| {
        let guest = scope.spawn(|| attend(&with(1, &certificate), true));
        host.wait_for_all(&never).unwrap();
        host.start(&never, &|_| 77);
        guest.join().unwrap().unwrap();
    });
    assert_eq!(gather(host)[0].rows.len(), 1);
    let broken = with(0, &folder.join("none.pem"));
    assert!(Meeting::open(&broken).unwrap_err().to_string().contains("none.pem"));
    std::fs::remove_dir_all(&folder).unwrap();
}
