//! Rank 0 and others over real sockets: agreement, one clock, rows, losses.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use tacho_core::{Clock, Observation, SystemClock, json::Dict};
use tacho_fleet::{
    Coordinator, Directive, Error, Membership, OnLost, Policy, RankOptions, RankReport, Rendezvous, SweepWorker, Worker,
};

const VERSION: &str = "1";

fn asked(rank: usize, ranks: usize, port: u16) -> RankOptions {
    let rendezvous = Some(format!("127.0.0.1:{port}"));
    RankOptions { rank: Some(rank), ranks: Some(ranks), rendezvous, ..RankOptions::default() }
}

fn found(asked: &RankOptions, token: &str) -> Membership {
    let get = |name: &str| (name == "TACHO_RENDEZVOUS_TOKEN" && !token.is_empty()).then(|| token.to_owned());
    Membership::find(asked, &get, 1).unwrap().unwrap()
}

fn place(rank: usize, ranks: usize, port: u16) -> Membership {
    found(&asked(rank, ranks, port), "")
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn ignore(_: String) {}

fn never() -> bool {
    false
}

fn open(place: &Membership, clock: SystemClock) -> Coordinator {
    Coordinator::open(place, clock, "hash", VERSION, Some("run")).unwrap()
}

fn join(place: &Membership, clock: SystemClock) -> Result<Worker, Error> {
    Worker::join(place, clock, "hash", VERSION, &never)
}

/// The reports of the other ranks, and their rows, once they are done.
fn gather(host: Coordinator) -> (Vec<RankReport>, Vec<(usize, Vec<Observation>)>) {
    while !host.is_over() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let rows = host.fresh();
    (host.finish(), rows)
}

/// A rank that sends one row with the current time, and ends properly or disappears.
fn attend(place: &Membership, ends_well: bool) -> Result<(), Error> {
    let clock = SystemClock::start();
    let mut guest = join(place, clock)?;
    assert_eq!(guest.log(), Some("run"));
    let start = guest.ready(None, &never)?.unwrap();
    assert_eq!(start.unix_ns, 77);
    while clock.now() < start.timestamp {
        std::thread::yield_now();
    }
    let row =
        Observation { done: start.timestamp, ..Observation::dispatched(place.rank, start.timestamp, start.timestamp) };
    assert_eq!(guest.send(&[row], [1, 0, 5, 2], false)?, Directive::Continue);
    let fit = guest.clock()?;
    if ends_well { guest.done(fit, Dict::new().into()) } else { Ok(()) }
}

#[test]
fn all_start_at_once_and_their_rows_are_on_one_clock() {
    let port = free_port();
    let ranks = [place(0, 3, port), place(1, 3, port), place(2, 3, port)];
    let clock = SystemClock::start();
    // The clock of a process starts with it.
    std::thread::sleep(Duration::from_millis(30));
    std::thread::scope(|scope| {
        let others: Vec<_> =
            ranks[1..].iter().map(|place| scope.spawn(move || attend(place, place.rank == 1))).collect();
        let host = open(&ranks[0], clock);
        host.wait_for_all(&never, &ignore).unwrap();
        let start = host.start(&never, &|_| 77);
        assert!(start > clock.now());
        others.into_iter().for_each(|other| other.join().unwrap().unwrap());
        while !host.is_over() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(host.progress(), [2, 0, 10, 0], "nothing is under way at ranks that are not there");
        let (shares, rows) = gather(host);
        assert_eq!(shares.len(), 2);
        for share in &shares {
            // One of them left before it was done; the rows it had sent are kept.
            assert_eq!(share.lost.is_some(), share.rank == 2, "{share:?}");
            assert_eq!(share.rows, 1);
            let row = &rows.iter().find(|(rank, _)| *rank == share.rank).unwrap().1[0];
            let off = row.done.0.abs_diff(start.0);
            let bound = share.clock.unwrap().bound_ns();
            assert!(off <= 2 * bound + 2000, "{off} ns off, {bound} known");
        }
        // Both wall clocks are this machine's.
        let (ahead, bound) = shares[0].wall_offset.unwrap();
        assert!(ahead.unsigned_abs() <= bound + 1_000_000, "{ahead} ns ahead, known to {bound}");
    });
}

#[test]
fn who_differs_is_refused_by_name() {
    for (hash, version, says) in [("other", VERSION, "requests"), ("hash", "2", "tacho 2 where rank 0 has 1")] {
        let port = free_port();
        let host = open(&found(&asked(0, 2, port), "secret"), SystemClock::start());
        let other = found(&asked(1, 2, port), "secret");
        let joined = Worker::join(&other, SystemClock::start(), hash, version, &never);
        assert!(joined.unwrap_err().to_string().contains(says));
        let error = host.wait_for_all(&never, &ignore).unwrap_err().to_string();
        assert!(error.starts_with("rank 1 on ") && error.contains(says), "{error}");
    }
}

#[test]
fn a_stranger_is_not_let_in() {
    let port = free_port();
    let _host = open(&found(&asked(0, 2, port), "secret"), SystemClock::start());
    let joined = join(&found(&asked(1, 2, port), "guess"), SystemClock::start());
    assert!(joined.unwrap_err().to_string().contains("TACHO_RENDEZVOUS_TOKEN differs"));
}

#[test]
fn a_stop_reaches_everybody_and_ends_a_wait() {
    let port = free_port();
    let host = open(&place(0, 2, port), SystemClock::start());
    let mut guest = join(&place(1, 2, port), SystemClock::start()).unwrap();
    assert!(!host.exchange_stop(false, false));
    assert_eq!(guest.send(&[], [0; 4], false).unwrap(), Directive::Continue);
    assert!(!host.exchange_stop(true, false));
    assert_eq!(guest.send(&[], [0; 4], false).unwrap(), Directive::Ended);
    assert_eq!(guest.send(&[], [0; 4], true).unwrap(), Directive::Interrupted);
    assert!(host.exchange_stop(false, false));
    let began = Instant::now();
    let soon = || began.elapsed() > Duration::from_millis(50);
    let joined = Worker::join(&place(1, 2, free_port()), SystemClock::start(), "hash", VERSION, &soon);
    assert!(matches!(joined, Err(Error::Stopped)));
}

#[test]
fn who_never_comes_is_lost_or_ends_the_run() {
    let wait = |on_lost| {
        let port = free_port();
        let policy = Policy { timeout: Duration::from_millis(200), on_lost, ..Policy::default() };
        let host = open(&found(&RankOptions { policy, ..asked(0, 3, port) }, ""), SystemClock::start());
        let _guest = join(&place(1, 3, port), SystemClock::start()).unwrap();
        let waited = host.wait_for_all(&never, &ignore);
        (waited, host.finish())
    };
    let (waited, shares) = wait(OnLost::Finish);
    waited.unwrap();
    assert!(shares[1].lost.as_ref().unwrap().contains("did not join"), "{shares:?}");
    assert!(!shares[1].machine.is_empty(), "messages name a host");
    let error = wait(OnLost::Stop).0.unwrap_err().to_string();
    assert!(error.contains("2 of 3 ranks") && error.contains("missing: rank 2"), "{error}");
}

#[test]
fn who_comes_after_the_start_is_told_so() {
    let port = free_port();
    let policy = Policy { timeout: Duration::from_millis(100), ..Policy::default() };
    let host = open(&found(&RankOptions { policy, ..asked(0, 3, port) }, ""), SystemClock::start());
    let _guest = join(&place(1, 3, port), SystemClock::start()).unwrap();
    host.wait_for_all(&never, &ignore).unwrap();
    host.start(&never, &|_| 0);
    let error = join(&place(2, 3, port), SystemClock::start()).unwrap_err().to_string();
    assert!(error.contains("too late"), "{error}");
}

#[test]
fn those_that_follow_hear_of_each_run_and_of_the_end() {
    let port = free_port();
    let meeting = Arc::new(Rendezvous::open(&place(0, 2, port)).unwrap());
    std::thread::scope(|scope| {
        let follower = scope.spawn(move || {
            let mut follower = SweepWorker::join(&place(1, 2, port), &never).unwrap();
            let mut seen = Vec::new();
            while let Some(order) = follower.next(&never).unwrap() {
                attend(&place(1, 2, port).in_run(order.number, None), true).unwrap();
                seen.push(order.args);
            }
            seen
        });
        for args in ["one", "two"] {
            let order = meeting.assign(&[args.to_owned()]);
            let host = open(&place(0, 2, port).in_run(order, Some(meeting.clone())), SystemClock::start());
            host.wait_for_all(&never, &ignore).unwrap();
            host.start(&never, &|_| 77);
            assert_eq!(gather(host).0[0].lost, None);
        }
        meeting.close();
        assert_eq!(follower.join().unwrap(), [["one"], ["two"]]);
    });
}

#[test]
fn a_certificate_is_the_one_or_nothing_is_said() {
    let directory = std::env::temp_dir().join(format!("tacho-fleet-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let fixture = |name| write(name, &tacho_testkit::certificate(name));
    let (certificate, key, other) = (fixture("server.pem"), fixture("server.key"), fixture("other.pem"));
    let port = free_port();
    let with = |rank, certificate: &std::path::Path| {
        let (certificate, key) = (Some(certificate.to_owned()), Some(key.clone()));
        found(&RankOptions { certificate, key, ..asked(rank, 2, port) }, "secret")
    };
    let host = open(&with(0, &certificate), SystemClock::start());
    let plain = join(&found(&asked(1, 2, port), "secret"), SystemClock::start());
    assert!(plain.is_err(), "without TLS nobody is understood");
    let error = join(&with(1, &other), SystemClock::start()).unwrap_err().to_string();
    assert!(error.contains("not the one of --rendezvous-cert"), "{error}");
    let notices = std::cell::RefCell::new(Vec::new());
    std::thread::scope(|scope| {
        let guest = scope.spawn(|| attend(&with(1, &certificate), true));
        host.wait_for_all(&never, &|text| notices.borrow_mut().push(text)).unwrap();
        host.start(&never, &|_| 77);
        guest.join().unwrap().unwrap();
    });
    assert_eq!(gather(host).0[0].rows, 1);
    // The second rejection may be noticed after the others have joined.
    let notices = notices.take();
    assert!(!notices.is_empty() && notices.iter().all(|text| text.contains("--rendezvous-cert")), "{notices:?}");
    let broken = with(0, &directory.join("none.pem"));
    assert!(Rendezvous::open(&broken).unwrap_err().to_string().contains("none.pem"));
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_bad_join_does_not_end_a_run() {
    let port = free_port();
    let host = open(&place(0, 2, port), SystemClock::start());
    let bad = Worker::join(&place(1, 2, port), SystemClock::start(), "other", VERSION, &never);
    assert!(matches!(bad, Err(Error::Refused { .. })));
    let _good = join(&place(1, 2, port), SystemClock::start()).unwrap();
    let notices = std::cell::RefCell::new(Vec::new());
    host.wait_for_all(&never, &|text| notices.borrow_mut().push(text)).unwrap();
    assert_eq!(notices.borrow().len(), 1, "{notices:?}");
}

#[test]
fn no_rank_exits_before_rank_0_has_saved() {
    let port = free_port();
    let member = place(0, 2, port).listening().unwrap();
    std::thread::scope(|scope| {
        let (sender, released) = std::sync::mpsc::channel();
        let worker = scope.spawn(move || {
            let mut worker = join(&place(1, 2, port), SystemClock::start()).unwrap();
            worker.ready(None, &never).unwrap();
            let fit = worker.clock().unwrap();
            worker.done(fit, Dict::new().into()).unwrap();
            worker.wait_for_release(&never).unwrap();
            sender.send(()).unwrap();
        });
        let host = open(&member, SystemClock::start());
        host.wait_for_all(&never, &ignore).unwrap();
        host.start(&never, &|_| 77);
        assert_eq!(gather(host).0[0].lost, None);
        assert!(released.try_recv().is_err(), "the result is not saved yet");
        member.release();
        worker.join().unwrap();
        released.try_recv().unwrap();
    });
}

/// A rank 0 that gives every call the same response.
fn impostor(body: &'static str) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let mut stream = listener.accept().unwrap().0;
        let mut buffer = vec![0; 1 << 16];
        while let Ok(1..) = stream.read(&mut buffer) {
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    port
}

#[test]
fn a_start_in_the_far_future_is_refused() {
    let port = impostor(r#"{"now": 5, "start": [9000000000000000000, 1]}"#);
    let mut worker = join(&place(1, 2, port), SystemClock::start()).unwrap();
    assert!(matches!(worker.ready(None, &never), Err(Error::CoordinatorLost { .. })));
}

#[test]
fn a_rank_0_that_never_ends_the_run_holds_nobody() {
    let policy = Policy { timeout: Duration::from_millis(300), ..Policy::default() };
    let port = impostor(r#"{"now": 5}"#);
    let mut worker = join(&found(&RankOptions { policy, ..asked(1, 2, port) }, ""), SystemClock::start()).unwrap();
    let error = worker.wait_for_release(&never).unwrap_err().to_string();
    assert!(error.contains("did not end the run within 0.3 s"), "{error}");
}

#[test]
fn ranks_with_other_requests_end_the_wait_for_them() {
    let port = free_port();
    let host = open(&place(0, 3, port), SystemClock::start());
    let mut waiting = join(&place(1, 3, port), SystemClock::start()).unwrap();
    assert!(Worker::join(&place(2, 3, port), SystemClock::start(), "other", VERSION, &never).is_err());
    let began = Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || waiting.ready(None, &never));
        let error = host.wait_for_all(&never, &ignore).unwrap_err();
        assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        assert!(began.elapsed() < Duration::from_secs(10), "the rendezvous timeout is 300 s");
        drop(host);
        // Ranks that have joined get the reason.
        let reason = waiting.join().unwrap().unwrap_err().to_string();
        assert!(reason.contains("rank 2 on") && reason.contains("requests or their times differ"), "{reason}");
    });
}

#[test]
fn a_signal_before_the_start_interrupts_all_ranks() {
    for signaled in [0, 1] {
        let port = free_port();
        let host = open(&place(0, 3, port), SystemClock::start());
        let mut waiting = join(&place(1, 3, port), SystemClock::start()).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(move || waiting.ready(None, &|| signaled == 1));
            let stopped = host.wait_for_all(&|| signaled == 0, &ignore);
            assert!(matches!(stopped, Err(Error::Stopped)));
            drop(host);
            assert_eq!(waiting.join().unwrap().unwrap(), None, "interrupted, not lost");
        });
    }
}

#[test]
fn connections_that_never_identify_themselves_keep_nobody_out() {
    let port = free_port();
    let host = open(&found(&asked(0, 2, port), "secret"), SystemClock::start());
    let idle: Vec<_> = (0..200).map(|_| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    let _worker = join(&found(&asked(1, 2, port), "secret"), SystemClock::start()).unwrap();
    host.wait_for_all(&never, &ignore).unwrap();
    drop(idle);
}

#[test]
fn a_wrong_token_is_named_at_rank_0() {
    for ranks in [2, 3] {
        let port = free_port();
        let policy = Policy { timeout: Duration::from_millis(300), ..Policy::default() };
        let host = open(&found(&RankOptions { policy, ..asked(0, ranks, port) }, "secret"), SystemClock::start());
        let _joined = (ranks == 3).then(|| join(&found(&asked(2, ranks, port), "secret"), SystemClock::start()));
        assert!(join(&found(&asked(1, ranks, port), "guess"), SystemClock::start()).is_err());
        let notices = std::cell::RefCell::new(Vec::new());
        let waited = host.wait_for_all(&never, &|text| notices.borrow_mut().push(text));
        let notices = notices.take();
        assert!(notices[0].contains("from 127.0.0.1 was rejected: its TACHO_RENDEZVOUS_TOKEN"), "{notices:?}");
        let lost = waited.map_or_else(|error| error.to_string(), |()| host.finish()[0].lost.clone().unwrap());
        assert!(lost.contains("1 connection was rejected: its TACHO_RENDEZVOUS_TOKEN differs"), "{lost}");
    }
}
