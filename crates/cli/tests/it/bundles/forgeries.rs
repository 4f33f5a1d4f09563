//! Forgeries are named: of rows, members, signatures, and a cache of responses in front of the server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::{collections::BTreeMap, sync::Arc, sync::Mutex};

use serde_json::{Value, json};
use tacho_core::{Observation, Timestamp};
use tacho_record::bundle::{LOG, RESULT, WORKLOAD};
use tacho_record::zip::{Member, unzip};
use tacho_rowlog::{Log, Row, Stored};
use tacho_testkit::place::wait_for;

use super::{GRID, bundled, count, forged, member, members, put, trusted, verified};
use crate::tacho::{Place, stderr, stdout};

/// Replaces the rows of the log, and, if `consistent`, the result by the one that they give.
pub(super) fn with_rows(
    place: &Place,
    members: &mut Vec<Member>,
    consistent: bool,
    edit: impl FnOnce(&mut Vec<Row>),
    shorter: bool,
) {
    let old = place.file("r.rows");
    let stored = Stored::open(&old).unwrap();
    let (mut rows, origin) = (stored.joined().unwrap().rows, stored.segments()[0].origin());
    edit(&mut rows);
    let new = place.file("forged.rows");
    let _ = std::fs::remove_dir_all(&new);
    let mut manifest = stored.manifest().clone();
    let mut closing: Value = serde_json::from_slice(&std::fs::read(old.join("summary.json")).unwrap()).unwrap();
    if shorter {
        manifest.requests = Some(rows.len() as u64);
        closing["setup"]["num_prompts"] = json!(rows.len());
    }
    let mut log = Log::create(&new, &manifest).unwrap();
    log.begin(origin).unwrap();
    log.append(rows.iter().map(|row| (&row.request, &row.observation))).unwrap();
    log.finish(stored.closing().unwrap()).unwrap();
    std::fs::write(new.join("summary.json"), closing.to_string()).unwrap();
    for name in ["manifest.json", "summary.json", "rows-0.arrows"] {
        put(members, &format!("{LOG}{name}"), std::fs::read(new.join(name)).unwrap());
    }
    if consistent {
        let output = place.run(&["report", "forged.rows", "--save-result", "forged.json"]);
        assert!(output.status.success(), "{}", stderr(&output));
        put(members, RESULT, std::fs::read(place.file("forged.json")).unwrap());
    }
}

/// Pseudorandom numbers (a linear congruential generator).
struct Dice(u64);

impl Dice {
    fn below(&mut self, max: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % max
    }

    /// A number of steps of recorded times: from one to another in milliseconds.
    fn steps(&mut self, from: u64, to: u64) -> u64 {
        (from + self.below(to - from)) * 1_000_000 / GRID * GRID
    }
}

fn latency(row: &Row) -> u64 {
    row.observation.done.0 - row.observation.sent.0
}

/// Scales the times after sending, in steps of recorded times.
fn faster(row: &mut Observation, percent: u64) {
    let sent = row.sent.0;
    let to = |time: Timestamp| match time.0 > sent {
        true => Timestamp(sent + (time.0 - sent) * percent / 100 / GRID * GRID),
        false => time,
    };
    row.shift(to);
}

/// Forgeries: name, the checks of which one must name it, and how it is made.
type Forge = fn(&Place, &mut Vec<Member>, &mut Dice);
#[rustfmt::skip]
const FORGERIES: [(&str, &[&str], Forge); 9] = [
    ("slow rows dropped", &["rows_missing"], |place, members, dice| {
        let max = 1 + dice.below(4) as usize;
        with_rows(place, members, true, |rows| drop_slowest(rows, max), false);
    }),
    ("slow rows dropped, the others renumbered", &["plan_differs", "rows_missing"], |place, members, dice| {
        let max = 1 + dice.below(4) as usize;
        with_rows(place, members, true, |rows| {
            drop_slowest(rows, max);
            rows.iter_mut().enumerate().for_each(|(at, row)| row.observation.index = at);
        }, true);
    }),
    ("send times shifted", &["plan_differs"], |place, members, dice| {
        let (at, by) = (dice.below(30) as usize, dice.steps(1, 200));
        with_rows(place, members, true, |rows| rows[at].observation.shift(|time| Timestamp(time.0 + by)), false);
    }),
    ("one latency shortened in the log", &["metrics_differ", "times_impossible"], |place, members, dice| {
        let percent = 50 + dice.below(45);
        with_rows(place, members, false, |rows| {
            let slowest = rows.iter_mut().max_by_key(|row| latency(row)).unwrap();
            faster(&mut slowest.observation, percent);
        }, false);
    }),
    ("events out of order", &["times_impossible"], |place, members, dice| {
        let at = dice.below(30) as usize;
        with_rows(place, members, true, |rows| {
            let row = rows.iter_mut().cycle_to(at);
            row.observation.chunks.reverse();
        }, false);
    }),
    ("metric edited", &["metrics_differ"], |_, members, dice| {
        let mut result: Value = serde_json::from_slice(member(members, RESULT)).unwrap();
        let keys = ["p99_ttft_ms", "mean_tpot_ms", "request_throughput", "output_throughput", "median_itl_ms", "mean_ttft_ms"];
        let key = keys[dice.below(keys.len() as u64) as usize];
        result[key] = json!(result[key].as_f64().unwrap() * (0.5 + dice.below(49) as f64 / 100.0));
        put(members, RESULT, result.to_string().into_bytes());
    }),
    ("another seed claimed", &["seed_differs", "settings_differ"], |_, members, dice| {
        let seed = 1000 + dice.below(1000);
        for (name, place) in [(RESULT.to_owned(), "/tacho/provenance/seed"), (format!("{LOG}summary.json"), "/provenance/seed"), (format!("{LOG}manifest.json"), "/seed")] {
            let mut value: Value = serde_json::from_slice(member(members, &name)).unwrap();
            *value.pointer_mut(place).unwrap() = json!(seed);
            put(members, &name, value.to_string().into_bytes());
        }
    }),
    ("throttled client, verdict edited", &["client_unreliable", "metrics_differ"], |place, members, dice| {
        let late = dice.steps(30, 120);
        with_rows(place, members, true, |rows| {
            for row in rows.iter_mut() {
                let (scheduled, by) = (row.observation.scheduled, late * (1 + row.observation.index as u64 % 3));
                row.observation.shift(|time| if time == scheduled { time } else { Timestamp(time.0 + by) });
                row.observation.scheduled = scheduled;
                row.observation.dispatched = Timestamp(scheduled.0 + by);
            }
        }, false);
        let mut result: Value = serde_json::from_slice(member(members, RESULT)).unwrap();
        result["tacho"]["client"]["trustworthy"] = json!(true);
        result["tacho"]["client"]["word"] = json!("ok");
        put(members, RESULT, result.to_string().into_bytes());
    }),
    ("all rows sped up", &["server_contradicts"], |place, members, dice| {
        let percent = 50 + dice.below(30);
        with_rows(place, members, true, |rows| rows.iter_mut().for_each(|row| faster(&mut row.observation, percent)), false);
    }),
];

fn drop_slowest(rows: &mut Vec<Row>, max: usize) {
    for _ in 0..max {
        // The last one is kept: an early end would explain that it is missing.
        let slowest = (0..rows.len() - 1).max_by_key(|at| latency(&rows[*at])).unwrap();
        rows.remove(slowest);
    }
}

/// The row with token events at or after a place.
trait CycleTo<'r> {
    fn cycle_to(self, at: usize) -> &'r mut Row;
}

impl<'r, I: Iterator<Item = &'r mut Row>> CycleTo<'r> for I {
    fn cycle_to(self, at: usize) -> &'r mut Row {
        self.filter(|row| row.observation.chunks.len() > 2).nth(at % 20).unwrap()
    }
}

/// Runs that forgeries start from: those whose dues, lengths or order say something.
const FORGED_KINDS: [usize; 3] = [0, 3, 7];

#[test]
fn forgeries_are_named() {
    let bases: Vec<Place> = FORGED_KINDS.iter().map(|kind| bundled(*kind, 5)).collect();
    let mut named: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut unnamed = Vec::new();
    for at in 0..count(2 * FORGERIES.len()) {
        let (name, wanted, forge) = FORGERIES[at % FORGERIES.len()];
        let place = &bases[at / FORGERIES.len() % bases.len()];
        let mut members = members(place);
        forge(place, &mut members, &mut Dice(at as u64));
        let (verdict, checks) = forged(place, &members);
        let is_named = verdict == "INVALID" && checks.iter().any(|check| wanted.contains(&check.as_str()));
        let entry = named.entry(name).or_default();
        (entry.0, entry.1) = (entry.0 + usize::from(is_named), entry.1 + 1);
        if !is_named {
            unnamed.push(format!("{name} ({at}): {verdict} {checks:?}"));
        }
    }
    named.iter().for_each(|(name, (found, all))| eprintln!("{found} of {all}: {name}"));
    assert!(unnamed.is_empty(), "{unnamed:#?}");
}

#[test]
fn altered_members_and_signatures_are_named() {
    let place = trusted(0);
    place.write("key.pem", KEY.0);
    place.write("public.pem", KEY.1);
    place.write("other.pem", KEY.2);
    assert!(place.run(&["bundle", "r.json", "-o", "signed.tacho.zip", "--sign", "key.pem"]).status.success());
    let status = |args: &[&str]| place.run(args).status.code();
    assert_eq!(status(&["verify", "signed.tacho.zip", "--key", "public.pem"]), Some(0));
    assert_eq!(status(&["verify", "signed.tacho.zip", "--key", "other.pem"]), Some(3));
    assert_eq!(status(&["verify", "a.tacho.zip", "--key", "public.pem"]), Some(3), "not signed");
    let mut all = unzip(&std::fs::read(place.file("signed.tacho.zip")).unwrap()).unwrap();
    let mut zip = tacho_record::zip::Zip::default();
    all.iter_mut().filter(|member| member.name == WORKLOAD).for_each(|member| member.content.push(b'\n'));
    all.iter().for_each(|member| zip.add(&member.name, &member.content));
    std::fs::write(place.file("altered.tacho.zip"), zip.finish()).unwrap();
    let (verdict, checks) = verified(&place, "altered.tacho.zip");
    assert_eq!((verdict.as_str(), checks[0].as_str()), ("INVALID", "bytes_changed"));
}

/// A private key, its public key, and another public key.
const KEY: (&str, &str, &str) = (
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIKCoTFiDJu4I6BVT5SyPETEeP2siDMDmUux3GYZXhNXW\n-----END PRIVATE KEY-----\n",
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA5yz8G1hqYu5cWQ5c5RVVfmfD+3+wmRcPqC5uSkS1R40=\n-----END PUBLIC KEY-----\n",
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA6yz8G1hqYu5cWQ5c5RVVfmfD+3+wmRcPqC5uSkS1R40=\n-----END PUBLIC KEY-----\n",
);

/// Forwards requests to a server, and answers those that it has seen before from memory. Returns its port.
fn caching_proxy(server: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let known: Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>> = Arc::default();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let known = known.clone();
            std::thread::spawn(move || passed_on(client, server, &known));
        }
    });
    port
}

/// Serves the one request of a connection.
fn passed_on(mut client: TcpStream, server: u16, known: &Mutex<BTreeMap<Vec<u8>, Vec<u8>>>) -> Option<()> {
    let (mut request, mut buffer) = (Vec::new(), [0; 65536]);
    let (head, length) = loop {
        let count = client.read(&mut buffer).ok().filter(|count| *count > 0)?;
        request.extend(&buffer[..count]);
        let Some(head) = request.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&request[..head]).to_lowercase();
        let length = text.split_once("content-length:").and_then(|(_, rest)| rest.lines().next()?.trim().parse().ok());
        break (head + 4, length.unwrap_or(0));
    };
    while request.len() < head + length {
        let count = client.read(&mut buffer).ok().filter(|count| *count > 0)?;
        request.extend(&buffer[..count]);
    }
    let body = request[head..].to_vec();
    let answer = known.lock().unwrap().get(&body).cloned().filter(|_| length > 0);
    if let Some(answer) = answer {
        return client.write_all(&answer).ok();
    }
    let line = request.windows(2).position(|two| two == b"\r\n")? + 2;
    request.splice(line..line, *b"Connection: close\r\n");
    let mut upstream = TcpStream::connect(("127.0.0.1", server)).ok()?;
    upstream.write_all(&request).ok()?;
    let mut answer = Vec::new();
    while let Some(count) = upstream.read(&mut buffer).ok().filter(|count| *count > 0) {
        client.write_all(&buffer[..count]).ok()?;
        answer.extend(&buffer[..count]);
    }
    known.lock().unwrap().insert(body, answer);
    Some(())
}

#[test]
fn a_response_cache_in_front_is_named() {
    let place = Place::new();
    let lines: String =
        (0..40).map(|at| format!("{{\"prompt\": \"question {}\", \"output_tokens\": 24}}\n", at % 8)).collect();
    place.write("own.jsonl", &lines);
    let port = place.port.to_string();
    let mut server = place.spawn(&["sim", "--port", &port, "--profile", "h100-8b", "--tokenizer", "gpt2"]);
    wait_for("the server", || TcpStream::connect(("127.0.0.1", place.port)).is_ok());
    let cache = caching_proxy(place.port);
    for (port, is_cached) in [(place.port, false), (cache, true)] {
        let url = format!("http://127.0.0.1:{port}");
        let run = [
            "serve",
            "--base-url",
            &url,
            "--tokenizer",
            "gpt2",
            "--dataset-name",
            "custom",
            "--dataset-path",
            "own.jsonl",
            "--skip-chat-template",
            "--disable-shuffle",
            "--custom-output-len",
            "24",
            "--num-prompts",
            "40",
            "--request-rate",
            "20",
            "--ignore-eos",
            "--save-result",
            "--result-filename",
            "r.json",
            "--no-log",
            "--save-detailed",
            "--save-workload",
            "w.jsonl",
        ];
        let output = place.run(&run);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(place.run(&["bundle", "r.json"]).status.success());
        let (_, checks) = verified(&place, "r.tacho.zip");
        assert_eq!(checks.contains(&"response_cache".to_owned()), is_cached, "{port}: {checks:?}");
    }
    let output = place.run(&["verify", "r.tacho.zip"]);
    assert!(stdout(&output).contains("invalid[response_cache]"), "{}", stdout(&output));
    server.kill().unwrap();
    server.wait().unwrap();
}
