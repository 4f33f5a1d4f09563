//! What the client itself costs, next to the least that any client must do.
//!
//! `cargo bench --bench own_cost` prints one table: CPU time per streamed token of a floor client (epoll, one read, one
//! timestamp, memchr) and of tacho, paced, in conversations and flooded, and how far the gaps each reports are from the ones
//! the server made. Of conversations a second table tells how far behind its due time a turn is sent, first against later
//! ones: a later turn's body is made of answers before its pause is over, so that it is no later than a first one.
//! TACHO_BENCH_ONLY=sessions runs the loads with that word in their name alone, TACHO_BENCH_SECONDS (4) is how long paced
//! ones go on. The server is a process of its own on another core. Ratios are what counts: both sides run on the same machine,
//! one after the other. What it costs to look at a run is another table: `watching.rs`.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints and may panic")]

mod floor;
mod null;
mod server;
mod sessions;
mod system;
mod tacho;
mod watching;

use std::time::Duration;

/// One load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    name: &'static str,
    streams: usize,
    /// Requests of a stream, one after the other; those of a conversation where there are several.
    turns: usize,
    /// Of each answer.
    tokens: usize,
    gap: Duration,
}

/// What one client saw and spent.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    tokens: usize,
    cpu: Duration,
    /// Reported gaps between tokens, in nanoseconds.
    gaps: Vec<u64>,
    /// The server's gaps, where the client kept what it was told.
    truth: Vec<u64>,
    /// Token events whose own arrival is not known because the client read late.
    blurred: u64,
    /// How far behind its due time each first and each later turn was sent, in nanoseconds.
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
    let mut late = Vec::new();
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
}
