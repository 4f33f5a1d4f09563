//! The lines of the hashing benchmarks, as vLLM's scripts print them.

use tacho_metrics::hash::{ChainTimes, FunctionTimes};

const WIDTH: usize = 60;

/// The comparison of functions; the last one is what the others are held against.
pub fn functions(times: &[FunctionTimes], iterations: usize) -> Vec<String> {
    let rule = "=".repeat(WIDTH);
    let mut lines = vec![rule.clone(), "HASH FUNCTION MICRO BENCHMARK".to_owned(), rule.clone()];
    lines.push("Test data: (32-byte bytes object, 32-int tuple)".to_owned());
    lines.push(format!("Iterations: {}", thousands(iterations)));
    lines.extend([rule.clone(), String::new(), "Results:".to_owned()]);
    lines.extend(times.iter().map(|time| format!("  {:16}: {:8.2} ± {:6.2} μs", time.name, time.mean, time.std)));
    let Some((base, others)) = times.split_last() else { return lines };
    lines.extend([String::new(), rule.clone(), format!("SUMMARY (relative to {})", base.name), rule]);
    let slower =
        |time: &FunctionTimes| format!("• {} is {:.1}x slower than {}", time.name, time.mean / base.mean, base.name);
    lines.extend(others.iter().map(slower));
    lines
}

/// What is said before chains are hashed.
pub fn chains_headline(algorithms: usize, blocks: usize, block_size: usize) -> String {
    format!("Benchmarking {algorithms} algorithms on {blocks} blocks (block size={block_size}).")
}

/// The line of an algorithm.
pub fn chain(times: &ChainTimes) -> String {
    format!(
        "{:14} avg: {:.6}s  best: {:.6}s  throughput: {:.2}M tokens/s",
        times.algorithm,
        times.average(),
        times.best(),
        times.throughput()
    )
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap_or_default()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use tacho_testkit::golden_json;

    use super::*;

    /// Numbers as recorded lines mask them.
    fn masked(line: &str) -> String {
        let mut out = String::new();
        let mut words = line.split(' ').peekable();
        let number = |word: &str| word.trim_end_matches(['s', 'x', 'M']).parse::<f64>().is_ok() && word.contains('.');
        while let Some(word) = words.next() {
            let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
            let shown = if number(word) { format!("{{t}}{unit}") } else { word.to_owned() };
            out += &shown;
            out += if words.peek().is_some() { " " } else { "" };
        }
        out
    }

    #[test]
    fn lines_are_the_scripts() {
        let golden = golden_json("scenarios/hashing/console.json");
        let times = ["SHA256 (pickle)", "xxHash (pickle)", "built-in hash()"].map(|name| FunctionTimes {
            name,
            mean: 1234.5,
            std: 123.45,
        });
        let ours: Vec<String> = functions(&times, 12_345).iter().map(|line| masked(line)).collect();
        let blank = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let theirs: Vec<String> =
            golden[1]["stdout"].as_array().unwrap().iter().map(|line| blank(line.as_str().unwrap())).collect();
        assert_eq!(ours.iter().map(|line| blank(line)).collect::<Vec<_>>(), theirs);
        let line = chain(&ChainTimes { algorithm: "sha256", seconds: vec![0.5, 1.5], tokens: 3_000_000 });
        assert_eq!(line, "sha256         avg: 1.000000s  best: 0.500000s  throughput: 6.00M tokens/s");
        assert_eq!(chains_headline(4, 50, 32), golden[3]["stdout"][0].as_str().unwrap());
    }
}
