//! Fuzzes messages between ranks and launcher settings: an error or a value, never a panic, an abort or unbounded
//! memory. `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-fleet --lib fuzz -- --nocapture --test-threads=1`
//! tries a million inputs of each kind on all cores.

use tacho_core::json::{Json, parse};
use tacho_core::{Clock, Observation, Secret, SystemClock, Timestamp};
use tacho_testkit::{Counted, fuzz};

use crate::http::{read_request, read_response, write_request, write_response};
use crate::{Membership, RankOptions, clock::ClockFit, coordinator::Shared, hostlist, message::Hello};

#[global_allocator]
static COUNTED: Counted = Counted;

#[test]
fn fuzz_http() {
    let (mut request, mut response) = (Vec::new(), Vec::new());
    write_request(&mut request, "h", "/v1/rows?first=3", &Secret::new("t"), b"body").unwrap();
    write_response(&mut response, 200, b"{\"now\": 1}").unwrap();
    fuzz("messages of ranks", &[request, response], |bytes| {
        let (mut stream, mut buffer) = (bytes, Vec::new());
        while let Ok(Some(head)) = read_request(&mut stream, &mut buffer) {
            if head.read_body(&mut stream, &mut buffer).is_err() {
                break;
            }
        }
        let _ = read_response(&mut &*bytes, &mut Vec::new()).is_ok();
    });
}

#[test]
fn fuzz_messages() {
    let rendezvous = Some("127.0.0.1:9".to_owned());
    let options = RankOptions { rank: Some(0), ranks: Some(3), rendezvous, ..RankOptions::default() };
    let member = Membership::find(&options, &|_| None, 1).unwrap().unwrap();
    let clock = SystemClock::start();
    let row = Observation::dispatched(1, clock.now(), Timestamp(5));
    let good = [
        br#"{"rank": 1, "ranks": 3, "hash": "h", "version": "v", "machine": "m"}"#.to_vec(),
        br#"{"clock": [5, -7, 1.000001, 100, 9], "wall_clock": [5, 1800000000000000000, 50], "stopping": true}"#
            .to_vec(),
        tacho_rowlog::pack(std::slice::from_ref(&row)).unwrap(),
    ];
    fuzz("messages to rank 0", &good, |bytes| {
        let shared = Shared::new(&member, clock, "h", "v", None);
        if let Ok(message) = parse(&String::from_utf8_lossy(bytes)) {
            let _ = Hello::from_json(&message).is_ok_and(|hello| shared.join(&hello).is_ok());
            if let Some(Ok(fit)) = message.get("clock").map(ClockFit::from_json) {
                let mut row = row.clone();
                fit.place(&mut row);
                fit.place_on_grid(7, &mut row);
            }
        }
        for path in ["/v1/clock", "/v1/ready", "/v1/rows", "/v1/done"] {
            let _ = shared.respond(path, "0,1,2,3,4", bytes, 1).is_ok();
        }
    });
}

#[test]
fn fuzz_hostlists() {
    let good = [&b"node[01-03,7],gpu5"[..], b"a,b,c", b"n[1-2]x[3-4]"];
    fuzz("hostlists", &good, |bytes| drop(hostlist::first(&String::from_utf8_lossy(bytes))));
}
