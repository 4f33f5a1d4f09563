//! Intervals of fixed runs. Their formulas and limits were chosen together, by `coverage.rs` and the grid of
//! `tests/intervals.rs` of tacho-record: a change of these numbers asks for both again.

use std::fmt::Write;

use super::{Recorded, Rows, Saturation, Spread, few_queues, rate, values};
use crate::{Gaps, GoodputLimits, MetricSettings, RareFields, Sample, Samples, Setup, statistics::Statistic};
use tacho_pyrand::Generator;

/// Slots of the server.
const SLOTS: usize = 4;

/// How requests are sent.
#[derive(Clone, Copy)]
enum Load {
    /// At random times, at this fraction of the capacity.
    Open(f64),
    /// By this many users, each after its response.
    Closed(usize),
    /// By as many users, in sessions of five requests.
    Sessions(usize),
}

/// Requests to a server that works on some at once: 0.2 s to the first token and 20 ms for each other one.
fn run(load: Load, count: usize) -> Samples {
    let mut random = Generator::new(count as u64);
    let (mut slots, mut clock) = ([0.0_f64; SLOTS], 0.0);
    let mut users = vec![0.0_f64; if let Load::Closed(users) | Load::Sessions(users) = load { users } else { 0 }];
    let first = |times: &[f64]| (0..times.len()).min_by(|a, b| times[*a].total_cmp(&times[*b]));
    let sample = |index: usize| {
        let tokens = 5 + (random.random() * 35.0) as usize;
        let gap = |_| 0.02 * (0.5 + random.random());
        let gaps: Vec<f64> = (1..tokens).map(gap).collect();
        // Mean 0.2 + 21 · 0.02 s.
        let user = first(&users);
        clock = match (load, user) {
            (Load::Open(load), _) => clock - (1.0 - random.random()).ln() * 0.62 / SLOTS as f64 / load,
            (_, Some(user)) => users[user],
            _ => clock,
        };
        let delay = 1e-3 * random.random();
        let (sent, slot) = (clock + delay, first(&slots).unwrap_or(0));
        let begun = slots[slot].max(sent);
        let (ttft, decode) = (begun - sent + 0.2, gaps.iter().sum::<f64>());
        slots[slot] = begun + 0.2 + decode;
        user.into_iter().for_each(|user| users[user] = slots[slot]);
        let session = matches!(load, Load::Sessions(_)).then_some((index as u32 / 5, index as u32 % 5));
        Sample {
            index,
            scheduled: if matches!(load, Load::Open(_)) { clock } else { 0.0 },
            dispatched: sent - delay / 3.0,
            sent,
            done: slots[slot],
            ttft,
            latency: ttft + decode,
            itl: Gaps::from(gaps),
            prompt_len: 100 + index as u64 % 7,
            output_len: tokens as u64,
            rare: RareFields { session, ..RareFields::default() }.into(),
            ..Sample::default()
        }
    };
    (0..count).map(sample).collect::<Vec<_>>().into()
}

fn line(spread: Option<Spread>) -> String {
    let Some(spread) = spread else { return "none".to_owned() };
    let ((low, high), (narrow_low, narrow_high)) = (spread.bounds(0.95, 1.0), spread.bounds(0.8, 4.0));
    let flags = if spread.is_vague() { " vague" } else { "" };
    format!("{:.9e} {low:.9e} {high:.9e} {narrow_low:.9e} {narrow_high:.9e}{flags}", spread.value)
}

fn table() -> String {
    let runs = [
        ("open", Load::Open(0.6), 600),
        ("busy", Load::Open(0.95), 700),
        ("short", Load::Open(0.7), 45),
        ("long", Load::Open(0.8), 4300),
        ("closed", Load::Closed(9), 400),
        ("few", Load::Closed(3), 24),
        ("sessions", Load::Sessions(6), 300),
    ];
    let goodput = Some(GoodputLimits { e2el_ms: Some(900.0), ..GoodputLimits::default() });
    let setup = Setup { metrics: MetricSettings { goodput, ..MetricSettings::default() }, ..Setup::example() };
    let mut text = String::new();
    let mut out = |name: &str, what: String| writeln!(text, "{name} {what}").expect("a string takes all");
    for (name, load, count) in runs {
        let samples = run(load, count);
        let rows = Recorded::of(&samples).within(&setup);
        for family in ["ttft", "e2el", "tpot", "ntpot", "itl", "e2el_from_schedule", "ttft_including_client_queue"] {
            let found = values(&rows, family);
            let statistics = [Statistic::Mean, Statistic::Deviation].into_iter();
            for of in statistics.chain([25.0, 50.0, 75.0, 90.0, 99.0].map(Statistic::Percentile)) {
                let spread = found.as_ref().and_then(|values| Spread::of(values, of));
                out(name, format!("{family} {of:?}: {}", line(spread)));
            }
        }
        for key in ["request_throughput", "output_throughput", "total_token_throughput", "request_goodput"] {
            out(name, format!("{key}: {}", line(rate(&rows, key, samples_end(&samples)))));
        }
        let (ttft, e2el) = (few_queues(&rows, "ttft"), few_queues(&rows, "e2el"));
        let few = [ttft, e2el].map(|few| few.map(|few| (format!("{:.9e}", few.effective), !few.is_short)));
        let saturation = Saturation::of(&rows);
        let saturation = saturation.map(|one| format!("{:.9e} {:.9e}", one.slowdown, one.relaxations));
        out(name, format!("{} queues: {few:?} {saturation:?}", rows.count()));
    }
    text
}

fn samples_end(samples: &Samples) -> f64 {
    samples.iter().map(|sample| sample.done).fold(0.0, f64::max)
}

#[test]
fn intervals_of_fixed_runs_do_not_change() {
    tacho_testkit::assert_golden_numbers("known/intervals.txt", &table());
}
