//! CPU cost of the client compared with the lower bound of any client.
//!
//! `cargo bench --bench own_cost` prints the CPU time per streamed token of a floor client (epoll, one read, one
//! timestamp, memchr) and of tacho: paced, in conversations, and flooded. It also prints the error of the gaps that
//! each reports. For conversations, a second table shows the dispatch delay of first and later turns. The body of a
//! later turn is built before its pause ends, so it should not be later than a first one. A third table compares the
//! built-in completions backend with the same one as a file.
//!
//! `TACHO_BENCH_ONLY=sessions` runs only the loads with that word in their name, and `TACHO_BENCH_SECONDS` (4) is the
//! duration of paced loads. The server is a separate process on another core. Compare the ratios: both clients run on
//! the same machine, one after the other. `watching.rs` measures the cost of live views.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints and may panic")]

mod floor;
mod null;
mod server;
mod sessions;
mod system;
mod tacho;
mod watching;

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    name: &'static str,
    streams: usize,
    /// Consecutive requests of a stream; several make a conversation.
    turns: usize,
    /// Tokens of each response.
    tokens: usize,
    gap: Duration,
}

/// Measurements and cost of one client.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    tokens: usize,
    cpu: Duration,
    /// Reported gaps between tokens, in nanoseconds.
    gaps: Vec<u64>,
    /// The server's gaps, if the client kept the response text.
    truth: Vec<u64>,
    /// Token events without an arrival time of their own, because the client read late.
    blurred: u64,
    /// Dispatch delay of first and of later turns, in nanoseconds.
    late: [Vec<u64>; 2],
}

impl Seen {
    fn micros_per_token(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.tokens as f64
    }
}

fn percentile_ms(values: &mut [u64], percent: usize) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.sort_unstable();
    values[(values.len() - 1) * percent / 100] as f64 / 1e6
}

fn main() {
    if let Some(spec) = std::env::var_os("TACHO_BENCH_SERVER") {
        server::serve(&spec.into_string().unwrap());
        return;
    }
    if std::env::var_os("TACHO_BENCH_WATCHING").is_some() {
        return watching::run();
    }
    system::pin(system::cores().1);
    let seconds = std::env::var("TACHO_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4_usize);
    let loads = [
        Load {
            name: "paced, 100 streams x 100 tokens/s",
            streams: 100,
            turns: 1,
            tokens: 100 * seconds,
            gap: Duration::from_millis(10),
        },
        Load {
            name: "paced, 1000 streams x 100 tokens/s",
            streams: 1000,
            turns: 1,
            tokens: 100 * seconds,
            gap: Duration::from_millis(10),
        },
        Load {
            name: "paced, 100 sessions x 5 turns",
            streams: 100,
            turns: 5,
            tokens: 20 * seconds,
            gap: Duration::from_millis(10),
        },
        Load {
            name: "paced, 1000 sessions x 5 turns",
            streams: 1000,
            turns: 5,
            tokens: 20 * seconds,
            gap: Duration::from_millis(10),
        },
        Load { name: "flood, 64 streams", streams: 64, turns: 1, tokens: 50_000, gap: Duration::ZERO },
        Load { name: "flood, 1024 streams", streams: 1024, turns: 1, tokens: 4_000, gap: Duration::ZERO },
    ];
    println!("null target: {:.0} requests/s through the dispatch loop on one thread", null::requests_per_second());
    println!(
        "{:<36} {:>10} {:>10} {:>7}  {:>11} {:>11} {:>11} {:>8}",
        "load", "floor", "tacho", "ratio", "floor p99", "tacho p99", "true p99", "blurred"
    );
    let (mut late, mut by_file) = (Vec::new(), Vec::new());
    let only = std::env::var("TACHO_BENCH_ONLY").unwrap_or_default();
    for load in loads.into_iter().filter(|load| load.name.contains(&only)) {
        let mut floor = floor::run(load);
        let mut ours = if load.turns > 1 { sessions::run(load) } else { tacho::run(load) };
        let (floor_cost, our_cost) = (floor.micros_per_token(), ours.micros_per_token());
        print!("{:<36} {floor_cost:>7.2} us {our_cost:>7.2} us {:>6.2}x", load.name, our_cost / floor_cost);
        if load.gap.is_zero() {
            println!();
        } else {
            let truth = percentile_ms(&mut ours.truth, 99);
            let (theirs, reported) = (percentile_ms(&mut floor.gaps, 99), percentile_ms(&mut ours.gaps, 99));
            let blurred = ours.blurred as f64 * 100.0 / ours.tokens as f64;
            println!("  {theirs:>8.3} ms {reported:>8.3} ms {truth:>8.3} ms {blurred:>6.2} %");
        }
        if load.turns == 1 {
            // In turn, so that a busy machine costs both the same.
            let pairs = [(); 3].map(|()| (tacho::run(load), tacho::run_by_file(load)));
            let costs = |cost: fn(&(Seen, Seen)) -> &Seen| {
                let mut all = pairs.iter().map(|pair| cost(pair).micros_per_token()).collect::<Vec<_>>();
                all.sort_by(f64::total_cmp);
                all[1]
            };
            by_file.push((load.name, costs(|pair| &pair.0), costs(|pair| &pair.1)));
        }
        late.extend((load.turns > 1).then_some((load.name, ours.late)));
    }
    println!(
        "{:<36} {:>11} {:>11} {:>11} {:>11}",
        "sent behind due", "first p50", "first p99", "later p50", "later p99"
    );
    for (name, [mut first, mut later]) in late {
        let of = |values: &mut [u64]| (percentile_ms(values, 50), percentile_ms(values, 99));
        let ((p50, p99), (later_p50, later_p99)) = (of(&mut first), of(&mut later));
        println!("{name:<36} {p50:>8.3} ms {p99:>8.3} ms {later_p50:>8.3} ms {later_p99:>8.3} ms");
    }
    println!("{:<36} {:>10} {:>10} {:>7}", "backend, medians of 3", "built in", "from file", "ratio");
    for (name, own, file) in by_file {
        println!("{name:<36} {own:>7.2} us {file:>7.2} us {:>6.2}x", file / own);
    }
}
