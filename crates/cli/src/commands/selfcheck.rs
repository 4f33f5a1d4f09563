//! `tacho selfcheck`: the machine's envelope, as a table, a picture and numbers.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::bail;
use tacho_client::connection_limit;
use tacho_core::json::{Dict, Value, dumps};
use tacho_core::{Counters, EventSink, RunEvent, SystemClock, Work};
use tacho_report::json::write_whole;
use tacho_report::style::title;
use tacho_report::{Live, Progress};
use tacho_run::selfcheck::{CheckLoad, CheckPoint, check};
use tacho_run::serve::default_workers;
use tacho_sim::metronome::send_times;
use tacho_sim::{Metronome, MetronomeSpec};

use crate::args::selfcheck::SelfcheckArgs;
use crate::exit::Exit;
use crate::interrupt::Interrupt;

/// The errors whose envelope is told, in ms.
const LIMITS: [f64; 3] = [0.1, 1.0, 10.0];
/// Width of the longest bar.
const BAR: usize = 40;

/// Checks every load and prints what was found.
pub(crate) fn run(args: &SelfcheckArgs) -> anyhow::Result<Exit> {
    let _interrupt = Interrupt::catch()?;
    let workers = args.workers.unwrap_or_else(default_workers);
    let loads = loads(args);
    check_files(&loads)?;
    let live = Live::new(Progress::Shown);
    let counters = Arc::new(Counters::default());
    live.event(RunEvent::Started { work: Work::Selfcheck, total: loads.len() as u64, counters: counters.clone() });
    let mut points = Vec::new();
    for load in loads {
        points.push(measure(load, workers, args)?);
        counters.finished.fetch_add(1, Ordering::Relaxed);
    }
    live.event(RunEvent::Finished);
    let mut out = io::stdout();
    out.write_all(text(&points, workers).as_bytes())?;
    if let Some(path) = &args.json {
        let json = dumps(&json(&points, workers));
        write_whole(path.as_ref(), |out| out.write_all(json.as_bytes()))?;
    }
    Ok(Exit::Done)
}

/// Both ends of every connection are in this process.
fn check_files(loads: &[CheckLoad]) -> anyhow::Result<()> {
    let limit = connection_limit();
    let streams = loads.iter().map(|load| load.streams as u64).max().unwrap_or(0);
    if 2 * streams > limit {
        bail!(
            "{streams} streams need {} open files, the limit leaves room for {limit}: raise it (ulimit -n) or lower --streams",
            2 * streams
        );
    }
    Ok(())
}

fn loads(args: &SelfcheckArgs) -> Vec<CheckLoad> {
    let mut loads: Vec<CheckLoad> = (args.rates.iter())
        .flat_map(|&tokens_per_second| {
            args.streams.iter().map(move |&streams| CheckLoad { streams, tokens_per_second, seconds: args.seconds })
        })
        .collect();
    loads.sort_by(|a, b| total(a).total_cmp(&total(b)));
    loads
}

/// Tokens per second of all streams.
fn total(load: &CheckLoad) -> f64 {
    load.streams as f64 * load.tokens_per_second
}

fn measure(load: CheckLoad, workers: usize, args: &SelfcheckArgs) -> anyhow::Result<CheckPoint> {
    let clock = SystemClock::start();
    let spec = MetronomeSpec { tokens: load.tokens(), gap: load.gap(), first: Duration::from_millis(20) };
    let server = Metronome::start(spec, clock)?;
    Ok(check(load, server.addr(), &send_times, workers, args.timestamps, clock)?)
}

fn text(points: &[CheckPoint], workers: usize) -> String {
    let mut lines = vec![title(" Client selfcheck ", '=')];
    lines.push(format!("{workers} worker(s); errors against the server's own send times, p99 in ms"));
    lines.push(format!(
        "{:>8} {:>9} {:>11} {:>9} {:>9} {:>9} {:>6}",
        "streams", "tok/s ea.", "tok/s all", "arrival", "gap", "TTFT", "busy"
    ));
    for point in points {
        let load = point.load;
        lines.push(format!(
            "{:>8} {:>9} {:>11} {:>9.3} {:>9.3} {:>9.3} {:>5.0}%  {}",
            load.streams,
            load.tokens_per_second,
            total(&load),
            point.error_ms(99.0),
            point.gap_error_ms(99.0),
            point.first_error_ms(99.0),
            point.busiest * 100.0,
            bar(point.error_ms(99.0)),
        ));
        if point.failed > 0 {
            lines.push(format!("{:>8} of {} requests failed", point.failed, point.requests));
        }
    }
    lines.push(format!("{:>68}  0.01     0.1       1         10        100 ms", ""));
    lines.push(title("Envelope", '-'));
    for limit in LIMITS {
        lines.push(match envelope(points, limit) {
            Some(load) => format!(
                "p99 error under {limit} ms: up to {} streams x {} tokens/s",
                load.streams, load.tokens_per_second
            ),
            None => format!("p99 error under {limit} ms: not at any load tried"),
        });
    }
    lines.push(title("", '='));
    lines.join("\n") + "\n"
}

/// A bar on a logarithmic scale from 0.01 to 100 ms.
fn bar(error_ms: f64) -> String {
    let decades = (error_ms.max(0.01) / 0.01).log10().min(4.0);
    "#".repeat((decades / 4.0 * BAR as f64).round() as usize)
}

/// The largest load that kept the limit while all smaller ones did too.
fn envelope(points: &[CheckPoint], limit_ms: f64) -> Option<CheckLoad> {
    points
        .iter()
        .take_while(|point| point.error_ms(99.0) < limit_ms && point.failed == 0)
        .last()
        .map(|point| point.load)
}

fn json(points: &[CheckPoint], workers: usize) -> Value {
    let mut all = Dict::new();
    all.set("version", 1_u64);
    all.set("workers", workers);
    let point = |point: &CheckPoint| {
        let mut dict = Dict::new();
        dict.set("streams", point.load.streams);
        dict.set("tokens_per_second", point.load.tokens_per_second);
        for (name, error) in [
            ("arrival_error", CheckPoint::error_ms as fn(&CheckPoint, f64) -> f64),
            ("gap_error", CheckPoint::gap_error_ms),
            ("ttft_error", CheckPoint::first_error_ms),
        ] {
            for percent in [50.0, 99.0, 100.0] {
                dict.set(format!("p{percent}_{name}_ms"), error(point, percent));
            }
        }
        dict.set("busiest_worker", point.busiest);
        dict.set("blurred_share", point.blurred_share);
        dict.set("failed", point.failed);
        Value::Dict(dict)
    };
    all.set("points", points.iter().map(point).collect::<Vec<_>>());
    let mut limits = Dict::new();
    for limit in LIMITS {
        let streams = envelope(points, limit).map(|load| total(&load));
        limits.set(limit.to_string(), streams);
    }
    all.set("max_tokens_per_second_by_error_ms", limits);
    Value::Dict(all)
}
