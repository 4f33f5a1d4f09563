//! `tacho selfcheck`: how many streams the client can measure accurately on this machine, as a table, bars, and
//! metrics.

use std::time::{Duration, Instant};
use std::{io::Write, sync::Arc};

use anyhow::bail;
use tacho_client::{allowed_processors, connection_limit, pin_thread};
use tacho_core::json::{Dict, Value, dumps};
use tacho_core::{Counters, EventSink, RunEvent, SystemClock, Work, dict};
use tacho_decide::search::{Levels, Measurement, Model, Search, Step};
use tacho_report::{Live, Progress, json::write_text, style::title};
use tacho_run::selfcheck::{Broken, CheckLoad, CheckPoint, check};
use tacho_run::serve::default_workers;
use tacho_sim::{ReferenceServer, ReferenceSpec, reference_server::send_times};

use super::outputs::check_writable;
use crate::{args::selfcheck::SelfcheckArgs, exit::Exit, interrupt::Interrupt};

/// The errors whose envelope is reported, in ms.
const LIMITS: [f64; 3] = [0.1, 1.0, 10.0];
const BAR: usize = 40;

/// The error in ms from which the client counts as failed.
const BROKEN: f64 = LIMITS[LIMITS.len() - 1];
/// The maximum number of streams is located to within this fraction.
const PRECISION: f64 = 0.25;
/// With fewer processors, client and reference server share them.
const SEPARATE: usize = 4;

/// Processors of the client and of the reference server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cores {
    client: Vec<usize>,
    server: Vec<usize>,
    workers: usize,
}

impl Cores {
    /// Divides the processors. By default, two thirds go to the reference server: its writes cost more than the
    /// client's reads. With given workers, it gets the remaining ones. Few processors are shared.
    fn divide(mut all: Vec<usize>, workers: Option<usize>) -> Self {
        let wanted = workers.unwrap_or(all.len().div_ceil(3));
        if all.len() < SEPARATE || wanted >= all.len() {
            return Cores { client: Vec::new(), server: Vec::new(), workers: workers.unwrap_or_else(default_workers) };
        }
        let server = all.split_off(wanted);
        Cores { client: all, server, workers: wanted }
    }

    fn are_shared(&self) -> bool {
        self.server.is_empty()
    }

    fn text(&self) -> String {
        let workers = self.workers;
        if self.are_shared() {
            return format!("{workers} worker(s); the client and the reference server share the cores");
        }
        let (client, server) = (self.client.len(), self.server.len());
        format!("{workers} worker(s) on {client} cores; the reference server has {server} other cores")
    }
}

/// Why the load at one token rate was not increased further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Broken(Broken),
    /// More streams would exceed the limit of open files.
    Files,
    Time,
    AllLevels,
}

/// The loads at one token rate, and why they ended.
struct Rise {
    points: Vec<CheckPoint>,
    end: End,
    /// The first load that was not measured.
    next: Option<usize>,
}

/// Increases the load at each rate until one side fails, and prints the results.
pub(crate) fn run(args: &SelfcheckArgs) -> anyhow::Result<Exit> {
    let _interrupt = Interrupt::catch()?;
    let cores = Cores::divide(allowed_processors(), args.workers);
    check_files(args)?;
    args.json.as_ref().map_or(Ok(()), |path| check_writable(path.as_ref()))?;
    let live = Live::new(Progress::Shown);
    let began = Instant::now();
    let mut rises = Vec::new();
    for (at, &rate) in args.rates.iter().enumerate() {
        // Time that earlier rates did not use is available to later ones.
        let share = args.max_seconds * (at + 1) as f64 / args.rates.len() as f64;
        let until = began + Duration::from_secs_f64(share);
        rises.push(rise(args, rate, &cores, until, &live)?);
    }
    let mut out = tacho_report::out();
    out.write_all(text(&rises, &cores).as_bytes())?;
    if let Some(path) = &args.json {
        let json = dumps(&json(&rises, &cores));
        write_text(path.as_ref(), &json)?;
    }
    Ok(Exit::Done)
}

/// Measures one rate with increasing numbers of streams: the requested ones, then doubling, then bisection between
/// the last success and the first failure.
fn rise(
    args: &SelfcheckArgs,
    tokens_per_second: f64,
    cores: &Cores,
    until: Instant,
    live: &dyn EventSink,
) -> anyhow::Result<Rise> {
    let mut listed = args.streams.value.clone();
    listed.sort_unstable();
    let mut listed = listed.into_iter().peekable();
    let max = (connection_limit() / 2) as f64;
    let levels = Levels::users(1.0, max.max(1.0));
    let search = Search { levels, model: Model::Monotone, unit: &|_| 0.0, budget: 0.0, tolerance: PRECISION };
    let (mut points, mut known): (Vec<CheckPoint>, Vec<Measurement>) = (Vec::new(), Vec::new());
    let mut broken = None;
    loop {
        let asked = if broken.is_none() { listed.next() } else { None };
        let (searched, files) = match search.next(&known) {
            Step::Run { level, .. } if !args.streams.is_set => (Some(level as usize), false),
            Step::Run { .. } => (None, false),
            Step::Done(_) => (None, broken.is_none() && !args.streams.is_set),
        };
        let next = if broken.is_none() { listed.peek().copied() } else { None };
        let Some(streams) = asked.or(searched) else {
            let end = broken.map_or(if files { End::Files } else { End::AllLevels }, End::Broken);
            return Ok(Rise { points, end, next });
        };
        let stopped = match () {
            () if streams as f64 > max => Some(End::Files),
            () if !points.is_empty() && Instant::now() >= until => Some(broken.map_or(End::Time, End::Broken)),
            () => None,
        };
        if let Some(end) = stopped {
            return Ok(Rise { points, end, next: Some(streams) });
        }
        let counters = Arc::new(Counters::default());
        live.event(RunEvent::Started { work: Work::Selfcheck, total: streams as u64, counters: counters.clone() });
        let load = CheckLoad { streams, tokens_per_second, seconds: args.seconds };
        let mut point = measure(load, cores, args, &counters)?;
        // A failed load is measured again: one disturbance of the machine is not a limit.
        if point.broken(BROKEN).is_some() && Instant::now() < until {
            let again = measure(load, cores, args, &counters)?;
            point = if again.broken(BROKEN).is_none() { again } else { point };
        }
        live.event(RunEvent::Finished);
        let side = point.broken(BROKEN);
        broken = side.or(broken);
        known.push(Measurement::exact(streams as f64, side.is_none()));
        points.push(point);
    }
}

/// The side that limits a failed load.
fn limited_by(broken: Broken, cores: &Cores) -> &'static str {
    match broken {
        Broken::Client | Broken::Server if cores.are_shared() => "cores",
        Broken::Client => "client",
        Broken::Server => "reference server",
        Broken::Requests => "failed requests",
    }
}

impl Rise {
    /// The smallest load at which one side failed.
    fn first_broken(&self) -> Option<(&CheckPoint, Broken)> {
        let broken = self.points.iter().filter_map(|point| Some((point, point.broken(BROKEN)?)));
        broken.min_by_key(|(point, _)| point.load.streams)
    }

    fn text(&self, cores: &Cores) -> String {
        let load =
            |point: &CheckPoint| format!("{} streams x {} tokens/s", point.load.streams, point.load.tokens_per_second);
        if let Some((point, broken)) = self.first_broken() {
            let what = match broken {
                Broken::Client => format!("the client's times are off by {:.1} ms (p99)", point.error_ms(99.0)),
                Broken::Server => format!(
                    "the reference server sent {:.1} ms late (p99), so the client may be able to do more",
                    point.server_delay_ms(99.0)
                ),
                Broken::Requests => format!("{} of {} requests failed or did not end", point.failed, point.requests),
            };
            return format!("limited by: {}, at {}: {what}", limited_by(broken, cores), load(point));
        }
        let Some(last) = self.points.last() else { return String::new() };
        match self.end {
            End::Files => format!(
                "no limit up to {}: {} streams would need more open files than the limit of {} leaves (ulimit -n)",
                load(last),
                self.next.unwrap_or(2 * last.load.streams),
                connection_limit()
            ),
            End::Time => format!("no limit up to {}: the time was over (--max-seconds)", load(last)),
            End::AllLevels | End::Broken(_) => format!("no limit up to {}", load(last)),
        }
    }
}

/// Checks the limit of open files: both ends of every connection are in this process.
fn check_files(args: &SelfcheckArgs) -> anyhow::Result<()> {
    let (limit, streams) = (connection_limit(), args.streams.value.iter().copied().max().unwrap_or(0) as u64);
    if args.streams.is_set && 2 * streams > limit {
        bail!(
            "{streams} streams need {} open files, the limit leaves room for {limit}: raise it (ulimit -n) or lower --streams",
            2 * streams
        );
    }
    Ok(())
}

fn total(load: &CheckLoad) -> f64 {
    load.streams as f64 * load.tokens_per_second
}

fn measure(load: CheckLoad, cores: &Cores, args: &SelfcheckArgs, counters: &Counters) -> anyhow::Result<CheckPoint> {
    let clock = SystemClock::start();
    let spec = ReferenceSpec { tokens: load.tokens(), gap: load.gap(), first: Duration::from_millis(20) };
    let processors = cores.server.clone();
    let begin = move |number: usize| {
        // Without permission to pin, the kernel places the thread.
        let _ = processors.get(number).is_none_or(|&at| pin_thread(&[at]));
    };
    let server = ReferenceServer::start_threads(spec, clock, cores.server.len(), begin)?;
    if !cores.are_shared() {
        let _ = pin_thread(&cores.client);
    }
    Ok(check(load, server.addr(), &send_times, cores.workers, args.timestamps, clock, counters)?)
}

fn text(rises: &[Rise], cores: &Cores) -> String {
    let points = sorted(rises);
    let mut lines = vec![title(" Client selfcheck ", '=')];
    lines.push(cores.text());
    lines.push("errors against the reference server's send times, ms: p99 of arrivals, gaps and TTFTs, of the p99 ITL, and its bound".to_owned());
    lines.push(format!(
        "{:>8} {:>9} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}",
        "streams", "tok/s ea.", "tok/s all", "arrival", "gap", "TTFT", "p99 ITL", "bound", "busy"
    ));
    for point in &points {
        let load = point.load;
        lines.push(format!(
            "{:>8} {:>9} {:>11} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9} {:>5.0}%  {}",
            load.streams,
            load.tokens_per_second,
            total(&load),
            point.error_ms(99.0),
            point.gap_error_ms(99.0),
            point.first_error_ms(99.0),
            itl_error_ms(point),
            point.itl_bound_ms.map_or_else(|| "–".to_owned(), |bound| format!("{bound:.3}")),
            point.busiest * 100.0,
            bar(point.error_ms(99.0)),
        ));
        if let Some(broken) = point.broken(BROKEN) {
            lines.push(format!("{:>8} limited by: {}", "", limited_by(broken, cores)));
        }
        if point.failed > 0 {
            lines.push(format!("{:>8} of {} requests failed", point.failed, point.requests));
        }
    }
    lines.push(format!("{:>88}  0.01     0.1       1         10        100 ms", ""));
    lines.push(title("Envelope", '-'));
    for limit in LIMITS {
        lines.push(match envelope(&points, limit) {
            Some(load) => format!(
                "p99 error under {limit} ms: up to {} streams x {} tokens/s",
                load.streams, load.tokens_per_second
            ),
            None => format!("p99 error under {limit} ms: not at any load tried"),
        });
    }
    lines.extend(rises.iter().map(|rise| rise.text(cores)));
    lines.push(title("", '='));
    lines.join("\n") + "\n"
}

/// By how much the p99 ITL of a report is off.
fn itl_error_ms(point: &CheckPoint) -> f64 {
    let [reported, truth] = point.gap_ms(99.0);
    (reported - truth).abs()
}

fn sorted(rises: &[Rise]) -> Vec<&CheckPoint> {
    let mut points: Vec<&CheckPoint> = rises.iter().flat_map(|rise| &rise.points).collect();
    points.sort_by(|a, b| total(&a.load).total_cmp(&total(&b.load)));
    points
}

/// A bar on a logarithmic scale from 0.01 to 100 ms.
fn bar(error_ms: f64) -> String {
    let decades = (error_ms.max(0.01) / 0.01).log10().min(4.0);
    "#".repeat((decades / 4.0 * BAR as f64).round() as usize)
}

/// The largest load such that it and all smaller ones are within the limit.
fn envelope(points: &[&CheckPoint], limit_ms: f64) -> Option<CheckLoad> {
    points
        .iter()
        .take_while(|point| point.error_ms(99.0) < limit_ms && point.broken(BROKEN).is_none())
        .last()
        .map(|point| point.load)
}

fn json(rises: &[Rise], cores: &Cores) -> Value {
    let points = sorted(rises);
    let point = |point: &&CheckPoint| {
        let mut errors = Dict::new();
        for (name, error) in [
            ("arrival_error", CheckPoint::error_ms as fn(&CheckPoint, f64) -> f64),
            ("gap_error", CheckPoint::gap_error_ms),
            ("ttft_error", CheckPoint::first_error_ms),
        ] {
            for percent in [50.0, 99.0, 100.0] {
                errors.set(format!("p{percent}_{name}_ms"), error(point, percent));
            }
        }
        dict! {
            "streams": point.load.streams,
            "tokens_per_second": point.load.tokens_per_second,
            ..errors,
            "p99_itl_error_ms": itl_error_ms(point),
            "p99_itl_bound_ms": point.itl_bound_ms,
            "server_delay_p99_ms": point.server_delay_ms(99.0),
            "busiest_worker": point.busiest,
            "late_coalesced_fraction": point.late_coalesced_fraction,
            "failed": point.failed,
        }
    };
    let limit = |limit: f64| (limit.to_string(), envelope(&points, limit).map(|load| total(&load)).into());
    let ends = rises.iter().filter_map(|rise| {
        let load = rise.points.last()?.load;
        Some(dict! {
            "tokens_per_second": load.tokens_per_second,
            "streams": load.streams,
            "limited_by": rise.first_broken().map(|(_, broken)| limited_by(broken, cores)),
            "text": rise.text(cores),
        })
    });
    let all = dict! {
        "version": 1_u64,
        "workers": cores.workers,
        "client_cores": cores.client.len(),
        "server_cores": cores.server.len(),
        "shared_cores": cores.are_shared(),
        "points": points.iter().map(point).collect::<Value>(),
        "max_tokens_per_second_by_error_ms": LIMITS.map(limit).into_iter().collect::<Dict>(),
        "ends": ends.collect::<Value>(),
    };
    Value::Dict(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_args::typed::FlagValue;
    use tacho_client::TimestampSource;

    fn args(streams: Vec<usize>, rates: Vec<f64>, seconds: f64) -> SelfcheckArgs {
        let (workers, timestamps, json) = (Some(1), TimestampSource::Kernel, None);
        let streams = FlagValue { value: streams, is_set: true };
        SelfcheckArgs { streams, rates, seconds, workers, timestamps, json, max_seconds: 60.0 }
    }

    #[test]
    fn a_rising_load_ends_and_says_why() {
        let cores = Cores { client: Vec::new(), server: Vec::new(), workers: 1 };
        let soon = Instant::now() + Duration::from_secs(60);
        let asked = rise(&args(vec![3, 1], vec![50.0], 0.1), 50.0, &cores, soon, &()).unwrap();
        let ended = matches!(asked.end, End::AllLevels | End::Broken(_));
        assert!(ended && !asked.points.is_empty() && !asked.text(&cores).is_empty(), "{}", asked.text(&cores));
        let over = rise(&args(vec![1, 2, 3], vec![50.0], 0.1), 50.0, &cores, Instant::now(), &()).unwrap();
        assert!(over.points.len() == 1, "one load is tried in any case");
        let mut goes_on = args(vec![1 << 40], vec![50.0], 0.1);
        goes_on.streams.is_set = false;
        let none = rise(&goes_on, 50.0, &cores, soon, &()).unwrap();
        assert_eq!((none.points.len(), none.end, none.next), (0, End::Files, Some(1 << 40)));
    }

    #[test]
    fn both_sides_have_cores_where_there_are_enough() {
        let divided = Cores::divide((0..16).collect(), None);
        assert_eq!((divided.workers, divided.client.len(), divided.server.len()), (6, 6, 10));
        assert!(divided.client.iter().all(|at| !divided.server.contains(at)) && !divided.are_shared());
        assert_eq!(limited_by(Broken::Server, &divided), "reference server");
        let asked = Cores::divide((0..16).collect(), Some(12));
        assert_eq!((asked.workers, asked.server.len()), (12, 4));
        let few = Cores::divide(vec![0, 1], None);
        assert!(few.are_shared() && few.text().contains("share the cores"));
        assert_eq!(limited_by(Broken::Server, &few), "cores");
    }
}
