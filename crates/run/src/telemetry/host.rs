//! The client's machine: CPU load, memory, network. Read from `/proc`; empty on other systems.

use tacho_metrics::dcgm::Found;

#[derive(Default)]
pub(super) struct Host {
    before: Option<Read>,
}

#[derive(Clone, Copy)]
struct Read {
    time: f64,
    busy: u64,
    all: u64,
    received: u64,
    sent: u64,
}

impl Host {
    pub(super) fn sample(&mut self, time: f64) -> Vec<Found> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        self.seen(time, &read("/proc/stat"), &read("/proc/meminfo"), &read("/proc/net/dev"))
    }

    fn seen(&mut self, time: f64, stat: &str, memory: &str, network: &str) -> Vec<Found> {
        let mut found = Vec::new();
        let mut add = |name, unit, value: f64| found.push(("host".to_owned(), name, unit, value));
        if let Some(used) = memory_used(memory) {
            add("memory_used", "GiB", used);
        }
        let now = processors(stat).map(|(busy, all)| {
            let (received, sent) = bytes(network);
            Read { time, busy, all, received, sent }
        });
        if let Some((now, before)) = now.zip(self.before).filter(|(now, before)| now.time > before.time) {
            let grown = |of: fn(&Read) -> u64| of(&now).saturating_sub(of(&before)) as f64;
            let seconds = now.time - before.time;
            if now.all > before.all {
                add("cpu", "%", grown(|read| read.busy) / grown(|read| read.all) * 100.0);
            }
            add("received", "MB/s", grown(|read| read.received) / seconds / 1e6);
            add("sent", "MB/s", grown(|read| read.sent) / seconds / 1e6);
        }
        self.before = now.or(self.before);
        found
    }
}

/// Busy and total time of all processors, in ticks.
fn processors(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // Guest time is already part of user time.
    let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let (all, idle) = (ticks.iter().sum::<u64>(), ticks.get(3)? + ticks.get(4).unwrap_or(&0));
    Some((all - idle, all))
}

fn memory_used(memory: &str) -> Option<f64> {
    let kilobytes = |name: &str| -> Option<f64> {
        let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    };
    Some((kilobytes("MemTotal:")? - kilobytes("MemAvailable:")?) / (1u64 << 20) as f64)
}

/// Bytes received and sent over all interfaces, including loopback, for a server on the same machine.
fn bytes(network: &str) -> (u64, u64) {
    let interface = |line: &str| {
        let words: Vec<u64> =
            line.split_once(':')?.1.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        Some((*words.first()?, *words.get(8)?))
    };
    network.lines().filter_map(interface).fold((0, 0), |(a, b), (received, sent)| (a + received, b + sent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_between_two_samples() {
        let mut host = Host::default();
        let memory = "MemTotal: 4194304 kB\nMemFree: 1 kB\nMemAvailable: 3145728 kB\n";
        let network =
            |bytes: u64| format!("Inter-|\n lo: {bytes} 1 0 0 0 0 0 0 {} 1 0\n eth0: 0 0 0 0 0 0 0 0 0 0\n", 2 * bytes);
        let first = host.seen(1.0, "cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1\n", memory, &network(0));
        assert_eq!(first, [("host".to_owned(), "memory_used", "GiB", 1.0)]);
        let second = host.seen(3.0, "cpu  40 0 20 130 10 0 0 0 0 0\n", memory, &network(4_000_000));
        let value = |name: &str| second.iter().find(|found| found.1 == name).map(|found| found.3);
        assert_eq!((value("cpu"), value("received"), value("sent")), (Some(40.0), Some(2.0), Some(4.0)));
    }

    #[test]
    fn missing_values_are_omitted() {
        let mut host = Host::default();
        assert!(host.seen(0.0, "", "", "").is_empty() && host.seen(1.0, "cpu x", "MemTotal: y", ":").is_empty());
    }
}
