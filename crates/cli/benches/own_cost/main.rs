//! What the client itself costs, next to the least that any client must do.
//!
//! `cargo bench --bench own_cost` prints one table: CPU time per streamed token of a floor client (epoll, one read, one
//! stamp, memchr) and of tacho, paced and flooded, and how far the gaps each reports are from the ones the server made.
//! The server is a process of its own on another core. Ratios are what counts: both sides run on the same machine,
//! one after the other.
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints and may panic")]

mod floor;
mod null;
mod server;
mod system;
mod tacho;

use std::time::Duration;

/// One load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    name: &'static str,
    streams: usize,
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
    system::pin(system::cores().1);
    let seconds = std::env::var("TACHO_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4_usize);
    let loads = [
        Load {
            name: "paced, 100 streams x 100 tokens/s",
            streams: 100,
            tokens: 100 * seconds,
            gap: Duration::from_millis(10),
        },
        Load {
            name: "paced, 1000 streams x 100 tokens/s",
            streams: 1000,
            tokens: 100 * seconds,
            gap: Duration::from_millis(10),
        },
        Load { name: "flood, 64 streams", streams: 64, tokens: 50_000, gap: Duration::ZERO },
        Load { name: "flood, 1024 streams", streams: 1024, tokens: 4_000, gap: Duration::ZERO },
    ];
    println!("null target: {:.0} requests/s through the dispatch loop on one thread", null::requests_per_second());
    println!(
        "{:<36} {:>10} {:>10} {:>7}  {:>11} {:>11} {:>11} {:>8}",
        "load", "floor", "tacho", "ratio", "floor p99", "tacho p99", "true p99", "blurred"
    );
    for load in loads {
        let mut floor = floor::run(load);
        let mut ours = tacho::run(load);
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
    }
}
