//! `servegen`: clients of production traffic as published with ServeGen, composed to one workload. A client has a rate
//! and a distribution of gaps for every 10 minutes, and distributions of lengths for every 6 hours.

use std::path::{Path, PathBuf};

use tacho_core::{Content, Request, bounded::TokenCount, json::parse};
use tacho_pyrand::{RandomState, ln_gamma};

use super::timed_trace::Blocks;
use crate::{
    Error, sampling::context::SampleContext, sampling::sampled::Sampled, sampling::selection::Selection,
    sources::read_text,
};

#[derive(Debug, Clone, PartialEq)]
pub struct ServeGenSpec {
    /// The directory with `chunk-N-trace.csv` and `chunk-N-dataset.json` of each client.
    pub path: PathBuf,
    pub selection: Selection,
    /// Time of the data at which the workload starts, in seconds.
    pub start: f64,
    /// Requests per second of all clients together; `None` for those of the data.
    pub rate: Option<f64>,
    /// Seconds after which no request is generated, instead of the number of requests.
    pub duration: Option<f64>,
    /// Factor on the generated times.
    pub time_scale: f64,
    /// `PYTHONHASHSEED`, on which the tokens of prompts depend.
    pub hash_seed: u32,
}

/// Most requests that a duration may give.
const MAX_ARRIVALS: usize = 10_000_000;

/// Time, prompt length and output length of a request.
type Arrival = (f64, u64, i64);

/// Generates the requests; does not use the global generators.
pub(crate) fn sample(spec: &ServeGenSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("servegen")?;
    let arrivals = spec.arrivals()?;
    if arrivals.is_empty() {
        let (path, start) = (spec.path.display(), spec.start);
        return Err(data!("{path}: no client sends anything from second {start} on: change --servegen-start"));
    }
    let mut blocks = Blocks::new(tokenizer, spec.hash_seed)?;
    let mut requests = Vec::with_capacity(arrivals.len());
    for (index, (seconds, input, output)) in arrivals.into_iter().enumerate() {
        let ids = blocks.tokens(&format!("request {index}"), input as usize).to_vec();
        let (id, timestamp) = (spec.selection.id(index), Some(seconds * spec.time_scale));
        requests.push(Request { id, timestamp, content: Content::Ids(ids), ..Request::text("", input, output) });
        context.counters.finish_one();
    }
    Ok(Sampled::of(requests))
}

impl ServeGenSpec {
    /// The arrivals of all clients in the order of their times, which count from the start.
    fn arrivals(&self) -> Result<Vec<Arrival>, Error> {
        let seed =
            u32::try_from(self.selection.seed).map_err(|_| Error::SeedOutOfRange { seed: self.selection.seed })?;
        let mut clients = self.clients(seed)?;
        let mut starts: Vec<f64> = clients.iter().flat_map(|one| one.windows.iter().map(|own| own.start)).collect();
        starts.sort_by(f64::total_cmp);
        starts.dedup();
        let wanted = if self.duration.is_some() { MAX_ARRIVALS + 1 } else { self.selection.wanted() };
        let last = self.start + self.duration.unwrap_or(f64::INFINITY) / self.time_scale.max(f64::MIN_POSITIVE);
        let size = starts.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
        let size = if size.is_finite() { size } else { 600.0 };
        let mut all = Vec::new();
        for window in starts.into_iter().filter(|window| window + size > self.start) {
            let (from, to) = (window.max(self.start), (window + size).min(last));
            if all.len() >= wanted || from >= to {
                break;
            }
            let total: f64 = clients.iter().filter_map(|client| Some(client.at(window)?.rate)).sum();
            // Recorded times are scaled afterwards, which changes the rate.
            let factor = self.rate.map_or(1.0, |rate| rate * self.time_scale / total);
            let before = all.len();
            for client in &mut clients {
                client.arrivals(window, (from, to), factor, wanted - before, &mut all);
            }
            all[before..].sort_by(|left, right| left.0.total_cmp(&right.0));
        }
        if self.duration.is_some() && all.len() > MAX_ARRIVALS {
            let path = self.path.display();
            return Err(data!(
                "{path}: the rate and --duration give more than {MAX_ARRIVALS} requests: lower one of them"
            ));
        }
        all.truncate(wanted);
        all.iter_mut().for_each(|arrival| arrival.0 -= self.start);
        Ok(all)
    }

    /// Reads the clients in the order of their numbers. Those without lengths are left out.
    fn clients(&self, seed: u32) -> Result<Vec<Client>, Error> {
        let failed = |source| Error::Read { path: self.path.clone(), source };
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            let number = name.strip_prefix("chunk-").and_then(|rest| rest.strip_suffix("-trace.csv"));
            numbers.extend(number.and_then(|number| number.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        if numbers.is_empty() {
            let path = self.path.display();
            return Err(data!(
                "{path} has no chunk-N-trace.csv: pass a directory of ServeGen's data, such as data/language/m-large"
            ));
        }
        let client = |number: u32| {
            let path = |end: &str| self.path.join(format!("chunk-{number}-{end}"));
            let random = RandomState::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(number));
            let windows = windows(&path("trace.csv"))?;
            let lengths = lengths(&path("dataset.json"))?;
            Ok(Client { windows, lengths, random, left: None })
        };
        let clients = numbers.into_iter().map(client).collect::<Result<Vec<_>, Error>>()?;
        Ok(clients.into_iter().filter(|client| !client.lengths.is_empty()).collect())
    }
}

struct Client {
    /// Its active windows, ascending.
    windows: Vec<Window>,
    /// Distributions of prompt and output lengths from a time on, ascending.
    lengths: Vec<(f64, [Lengths; 2])>,
    random: RandomState,
    /// The rest of the current gap, in mean gaps.
    left: Option<f64>,
}

/// The traffic of a client in a window of time.
struct Window {
    start: f64,
    rate: f64,
    gaps: Gaps,
}

/// A distribution of gaps with a mean of 1, by its shape.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gaps {
    Gamma(f64),
    Weibull(f64),
}

impl Gaps {
    fn draw(self, random: &mut RandomState) -> f64 {
        match self {
            Gaps::Gamma(shape) => random.standard_gamma(shape) / shape,
            Gaps::Weibull(shape) => (random.standard_exponential().ln() / shape - ln_gamma(1.0 + 1.0 / shape)).exp(),
        }
    }

    /// The time to the first arrival in steady state: a uniform part of a gap that is drawn in proportion to its
    /// length.
    fn draw_first(self, random: &mut RandomState) -> f64 {
        let gap = match self {
            Gaps::Gamma(shape) => random.standard_gamma(shape + 1.0) / shape,
            Gaps::Weibull(shape) => {
                (random.standard_gamma(1.0 + 1.0 / shape).ln() / shape - ln_gamma(1.0 + 1.0 / shape)).exp()
            }
        };
        gap * random.random_sample()
    }
}

/// Token counts with cumulative probabilities.
struct Lengths(Vec<(u64, f64)>);

impl Lengths {
    fn draw(&self, random: &mut RandomState) -> u64 {
        let Some(&(longest, total)) = self.0.last() else { return 1 };
        let position = random.random_sample() * total;
        let found = self.0.partition_point(|(_, sum)| *sum <= position);
        self.0.get(found).map_or(longest, |(tokens, _)| *tokens).max(1)
    }
}

impl Client {
    /// Its window that starts at this time, if it is active then.
    fn at(&self, start: f64) -> Option<&Window> {
        let position = self.windows.binary_search_by(|window| window.start.total_cmp(&start)).ok()?;
        self.windows.get(position)
    }

    /// Adds at most `wanted` arrivals of a span of a window. A gap goes on in the next window at the rate of that one.
    fn arrivals(&mut self, window: f64, (from, to): (f64, f64), factor: f64, wanted: usize, all: &mut Vec<Arrival>) {
        let Some(&Window { rate, gaps, .. }) = self.at(window) else { return };
        let rate = rate * factor;
        let lengths = self.lengths.partition_point(|(since, _)| *since <= window).saturating_sub(1);
        let random = &mut self.random;
        let mut left = self.left.unwrap_or_else(|| gaps.draw_first(random));
        let mut now = from;
        let max = all.len().saturating_add(wanted);
        while now + left / rate < to && all.len() < max {
            now += left / rate;
            let [input, output] = self.lengths[lengths].1.each_ref().map(|own| own.draw(random));
            all.push((now, input, output as i64));
            left = gaps.draw(random);
        }
        self.left = Some(left - (to - now) * rate);
    }
}

/// Reads the active windows of a client: lines of start, rate, coefficient of variation, family, shape and scale. The
/// scale and the coefficient of variation follow from the rate and the shape.
fn windows(path: &Path) -> Result<Vec<Window>, Error> {
    let mut windows: Vec<Window> = Vec::new();
    for (index, line) in read_text(path)?.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |field: &str, expected| Error::LineField {
            path: path.to_path_buf(),
            line: index + 1,
            field: field.to_owned(),
            expected,
        };
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [start, rate, _, family, shape, _] = fields[..] else {
            return Err(wrong("columns", "six: start, rate, cv, family, shape, scale"));
        };
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        let start = number(start).ok_or_else(|| wrong("start", "seconds of 0 or more"))?;
        let rate = number(rate).ok_or_else(|| wrong("rate", "a number of 0 or more"))?;
        if family.is_empty() || rate == 0.0 {
            continue;
        }
        let shape = number(shape).filter(|shape| *shape > 0.0).ok_or_else(|| wrong("shape", "a number above 0"))?;
        let gaps = match family {
            "Gamma" => Gaps::Gamma(shape),
            "Weibull" => Gaps::Weibull(shape),
            _ => return Err(wrong("family", "Gamma or Weibull")),
        };
        if windows.last().is_some_and(|last| last.start >= start) {
            return Err(wrong("start", "later than that of the line before"));
        }
        windows.push(Window { start, rate, gaps });
    }
    Ok(windows)
}

/// Reads the lengths of a client: for each time an object with distributions, written as Python dictionaries.
fn lengths(path: &Path) -> Result<Vec<(f64, [Lengths; 2])>, Error> {
    let file = parse(&read_text(path)?).map_err(|source| Error::FileNotJson { path: path.to_path_buf(), source })?;
    let wrong = |problem: String| data!("{}: {problem}", path.display());
    let dict = file.as_dict().ok_or_else(|| wrong("must be an object of times".to_owned()))?;
    let mut all = Vec::new();
    for (time, fields) in dict.iter() {
        let since: f64 = time.parse().map_err(|_| wrong(format!("the key {time:?} is not a time in seconds")))?;
        let of = |name: &str| {
            let text = fields.text(name);
            let text = text.ok_or_else(|| wrong(format!("{name} is missing at {time}: data of texts is needed")))?;
            distribution(text)
                .ok_or_else(|| wrong(format!("{name} at {time} is not of the form {{TOKENS: SHARE, ...}}")))
        };
        let [input, output] = [of("input_tokens")?, of("output_tokens")?];
        if !input.0.is_empty() && !output.0.is_empty() {
            all.push((since, [input, output]));
        }
    }
    all.sort_by(|left: &(f64, _), right| left.0.total_cmp(&right.0));
    Ok(all)
}

/// Parses a distribution `{9: 0.25, 163: 0.75}`.
fn distribution(text: &str) -> Option<Lengths> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut sum = 0.0;
    let entry = |entry: &str| {
        let (tokens, share) = entry.split_once(':')?;
        let tokens = tokens.trim().parse::<i64>().ok().filter(|tokens| TokenCount::holds(*tokens))?;
        sum += share.trim().parse::<f64>().ok().filter(|share| share.is_finite() && *share >= 0.0)?;
        Some((tokens.unsigned_abs(), sum))
    };
    inner.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(entry).collect::<Option<_>>().map(Lengths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::context::with_builtin;

    /// Two clients for two windows; the second client is idle in the first window.
    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write("chunk-0-trace.csv", "0,3.0,2.0,Gamma,0.25,1.3\n20000,1.0,2.0,Gamma,0.25,4.0\n");
        write(
            "chunk-0-dataset.json",
            r#"{"0": {"input_tokens": "{10: 0.25, 20: 0.75}", "output_tokens": "{5: 1.0}"}}"#,
        );
        write("chunk-1-trace.csv", "0,0,0,,0,0\n20000,3.0,9.0,Weibull,0.5,0.1\n");
        let lengths = r#"{"0": {"input_tokens": "{}", "output_tokens": "{}"},
            "20000": {"input_tokens": "{100: 0.5, 200: 0.5}", "output_tokens": "{7: 0.1, 9: 0.9}"}}"#;
        write("chunk-1-dataset.json", lengths);
        directory
    }

    fn spec(directory: &Path) -> ServeGenSpec {
        ServeGenSpec {
            path: directory.to_path_buf(),
            selection: Selection { seed: 1, num_prompts: 1000, ..Selection::default() },
            start: 0.0,
            rate: None,
            duration: None,
            time_scale: 1.0,
            hash_seed: 0,
        }
    }

    /// Mean and coefficient of variation of the gaps.
    fn gaps(times: &[f64]) -> (f64, f64) {
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn no_more_arrivals_are_drawn_than_are_wanted() {
        // Two hours of this rate would not fit into memory.
        let directory = directory();
        let mut spec = ServeGenSpec { rate: Some(1e9), ..spec(directory.path()) };
        spec.selection.num_prompts = 10;
        let arrivals = spec.arrivals().unwrap();
        assert!(arrivals.len() == 10 && arrivals.is_sorted_by_key(|arrival| arrival.0), "{arrivals:?}");
        spec.duration = Some(7_200.0);
        assert!(spec.arrivals().unwrap_err().to_string().contains("the rate and --duration give more than"));
    }

    #[test]
    fn each_client_keeps_its_rate_its_gaps_and_its_lengths() {
        let directory = directory();
        let both = ServeGenSpec { start: 20_000.0, duration: Some(20_000.0), ..spec(directory.path()) };
        let arrivals = both.arrivals().unwrap();
        let of = |client: fn(u64) -> bool| -> Vec<f64> {
            arrivals.iter().filter(|arrival| client(arrival.1)).map(|arrival| arrival.0).collect()
        };
        let (gamma, weibull) = (of(|input| input < 50), of(|input| input > 50));
        // The CV is 1/√k of a gamma and √5 of a Weibull distribution of shape 0.5.
        for (times, rate, cv) in [(&gamma, 1.0, 2.0), (&weibull, 3.0, 5_f64.sqrt())] {
            let (mean, found) = gaps(times);
            assert!((mean * rate - 1.0).abs() < 0.1, "{mean} {rate}");
            assert!((found / cv - 1.0).abs() < 0.1, "{found} {cv}");
        }
        let share =
            |wanted: fn(&Arrival) -> bool, of: f64| arrivals.iter().filter(|one| wanted(one)).count() as f64 / of;
        assert!((share(|one| one.1 == 20, gamma.len() as f64) - 0.75).abs() < 0.02);
        assert!((share(|one| one.2 == 7, weibull.len() as f64) - 0.1).abs() < 0.01);
        assert!(arrivals.is_sorted_by(|left, right| left.0 <= right.0) && arrivals[0].0 < 10.0);
        assert_eq!(both.arrivals().unwrap(), arrivals, "the seed decides");
    }

    #[test]
    fn rates_scale_and_idle_clients_send_nothing() {
        let directory = directory();
        let early = spec(directory.path()).arrivals().unwrap();
        assert_eq!(early.len(), 1000);
        assert!(early.iter().all(|arrival| arrival.1 < 50), "only the first client is active");
        let fast =
            ServeGenSpec { start: 20_000.0, rate: Some(40.0), duration: Some(2_000.0), ..spec(directory.path()) };
        let arrivals = fast.arrivals().unwrap();
        // Four standard deviations of the count with a squared CV of the gaps below 5.
        assert!((arrivals.len() as f64 - 80_000.0).abs() < 4.0 * (5.0 * 80_000_f64).sqrt(), "{}", arrivals.len());
        let slow = ServeGenSpec { time_scale: 2.0, ..fast }.arrivals().unwrap();
        assert!((slow.len() as f64 / arrivals.len() as f64 - 1.0).abs() < 0.1, "the rate is that of the run");
        let sampled = with_builtin(|context| sample(&spec(directory.path()), context)).unwrap();
        for (request, arrival) in sampled.requests.iter().zip(early) {
            let Content::Ids(ids) = &request.content else { panic!("ids") };
            assert_eq!(
                (ids.len() as u64, request.output_len, request.timestamp),
                (arrival.1, arrival.2, Some(arrival.0))
            );
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let directory = directory();
        let error = |name: &str, text: &str| {
            let path = directory.path().join(name);
            let before = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, text).unwrap();
            let error = spec(directory.path()).arrivals().unwrap_err().to_string();
            std::fs::write(&path, before).unwrap();
            error
        };
        assert!(error("chunk-0-trace.csv", "0,1,1,Pareto,1,1\n").contains("line 1: field \"family\""));
        assert!(error("chunk-0-trace.csv", "0,1\n").contains("six"));
        assert!(
            error("chunk-0-dataset.json", r#"{"0": {"text_tokens": "{1: 1.0}"}}"#).contains("input_tokens is missing")
        );
        assert!(
            error("chunk-0-dataset.json", r#"{"0": {"input_tokens": "1", "output_tokens": "{}"}}"#).contains("form")
        );
        let empty = tempfile::tempdir().unwrap();
        assert!(spec(empty.path()).arrivals().unwrap_err().to_string().contains("chunk-N-trace.csv"));
        let late = ServeGenSpec { start: 1e9, ..spec(directory.path()) };
        let error = with_builtin(|context| sample(&late, context)).unwrap_err();
        assert!(error.to_string().contains("--servegen-start"), "{error}");
    }
}
