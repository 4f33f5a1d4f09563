//! The short experiment of `tacho fit --base-url`: runs at several loads, in rounds so that a slow minute of the machine is
//! not taken for a cost, then as many requests at once as tell the limits, then one prefix several times.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use tacho_metrics::fit::Traced;

use crate::args;
use crate::args::fit::FitArgs;
use crate::args::serve::ServeArgs;
use crate::commands::foreseen::say;
use crate::commands::{serve, values_for};

/// Requests at once in the runs of a round, and how long their prompts and answers are in the middle. Prompts that come alone
/// are from next to none to many tokens, so that what grows with the square of a prompt is told from what grows with its
/// length; answers are short, so that many steps have a prompt in them, beside steps that have none.
const LEVELS: [(usize, usize, usize); 4] = [(1, 510, 8), (4, 450, 16), (12, 250, 20), (40, 160, 24)];
/// The most rounds, in which slow minutes of a machine meet all loads.
const ROUNDS: usize = 3;
/// Steps that a run of a round should have at least: fewer are over before its first requests are.
const STEPS: f64 = 150.0;
/// The share of the time for the requests that come all at once.
const BURST: f64 = 0.12;
/// The seed of the first requests.
const LOOK: usize = 99;
/// Tokens that the prompts of the last runs share: so many as take this many seconds to their first token, within bounds. A
/// quick server computes few in the time that it takes for anything.
const SHARED: (f64, usize, usize) = (0.15, 480, 4000);
/// Tokens of a model's length that are left for answers.
const ROOM: usize = 40;

/// What was measured.
#[derive(Default)]
pub(super) struct Experiment {
    /// Runs of prompts that share nothing.
    pub(super) runs: Vec<Vec<Traced>>,
    /// Requests one after the other whose prompts share nothing.
    pub(super) unlike: Vec<Traced>,
    /// Requests one after the other whose prompts begin alike, and are as long.
    pub(super) alike: Vec<Traced>,
}

/// Measures for about the time that the arguments give; no prompt is longer than the model's length allows.
pub(super) fn measure(args: &FitArgs, url: &str, max_model_len: usize) -> anyhow::Result<Experiment> {
    let levels = LEVELS.map(|(level, _, _)| level);
    say(&[format!(
        "measuring {url} for about {:.0} s: {levels:?} requests at once in up to {ROUNDS} rounds, then many at once",
        args.seconds
    )])?;
    let began = Instant::now();
    let longest = max_model_len.saturating_sub(ROOM).max(16);
    let server = Server { args, url, prompts: prompts(), longest };
    let look = server.run(&Load { seed: LOOK, ..Load::of(1, (330, 12), Length::Requests(3)) })?;
    anyhow::ensure!(!look.is_empty(), "the server answered nothing that could be timed");
    // Half of the longest, since prompts that share nothing are drawn up to twice as long.
    let shared = shared(&look).min((longest / 2).saturating_sub(16));
    let until = args.seconds * (1.0 - BURST);
    let parts = LEVELS.len() * rounds(&look, until - began.elapsed().as_secs_f64());
    let mut runs = vec![look];
    let (mut fastest, mut over) = (0.0_f64, 0.0);
    for place in 0..parts {
        let (level, prompt, answer) = LEVELS[place % LEVELS.len()];
        let left = (until - began.elapsed().as_secs_f64()) / (parts - place) as f64;
        let length = (left - over).max(left * 0.3).max(0.5);
        let before = Instant::now();
        let load = Load { seed: place + 1, ..Load::of(level, (prompt, answer), Length::Seconds(length)) };
        let done = server.run(&if level == 1 { Load { range: "0.96", ..load } } else { load })?;
        let took = before.elapsed().as_secs_f64();
        // Answers under way at the end take their time; those of the next level take longer.
        over = if place % LEVELS.len() == LEVELS.len() - 1 { 0.0 } else { (took - length) * 1.3 };
        fastest = fastest.max(done.len() as f64 / took);
        runs.push(done);
    }
    let many = ((fastest * 1.6 * args.seconds * BURST) as usize).clamp(24, 4000);
    let burst = Load { range: "0.3", seed: 50, ..Load::of(many, (120, 24), Length::Requests(many)) };
    runs.push(server.run(&burst)?);
    let one_by_one = |prompt: usize| Load { range: "0", ..Load::of(1, (prompt, 2), Length::Requests(6)) };
    let unlike = server.run(&Load { seed: 52, ..one_by_one(shared + 16) })?;
    let alike = server.run(&Load { prefix: shared, seed: 51, ..one_by_one(16) })?;
    Ok(Experiment { runs, unlike, alike })
}

/// As many rounds as leave each run its steps, whose length the first requests tell.
fn rounds(look: &[Traced], seconds: f64) -> usize {
    let tokens = look.iter().flat_map(|one| one.tokens.windows(2)).map(|pair| pair[1] - pair[0]);
    let (sum, count) = tokens.fold((0.0, 0.0), |(sum, count), gap| (sum + gap, count + 1.0));
    let step: f64 = if count > 0.0 { sum / count } else { 0.0 };
    let each = (STEPS * step).max(1.0);
    ((seconds / LEVELS.len() as f64 / each) as usize).clamp(1, ROUNDS)
}

/// Tokens that are seen when they need not be computed.
fn shared(look: &[Traced]) -> usize {
    let (seconds, least, most) = SHARED;
    let first = |one: &Traced| one.tokens.first().map(|token| (one.prompt as f64, token - one.sent));
    let (tokens, took) = look.iter().filter_map(first).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    ((seconds * tokens / took.max(1e-6)) as usize).clamp(least, most)
}

/// A seed that no fit before has had: a server that has seen the prompts need not compute them again.
fn prompts() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_millis() as u64 % 10_000_000) * 100
}

/// What is measured.
struct Server<'a> {
    args: &'a FitArgs,
    url: &'a str,
    /// Added to the seed of each run.
    prompts: u64,
    /// Tokens of the longest prompt.
    longest: usize,
}

/// How long a run of the experiment is.
enum Length {
    Requests(usize),
    Seconds(f64),
}

/// What a run of the experiment sends.
struct Load {
    level: usize,
    length: Length,
    prefix: usize,
    input: usize,
    output: usize,
    range: &'static str,
    seed: usize,
}

impl Load {
    fn of(level: usize, (input, output): (usize, usize), length: Length) -> Self {
        Load { level, length, prefix: 0, input, output, range: "0.9", seed: 0 }
    }
}

impl Server<'_> {
    fn run(&self, load: &Load) -> anyhow::Result<Vec<Traced>> {
        let Server { args, url, prompts, longest } = self;
        // Lengths are drawn up to nearly twice the middle.
        let prefix = load.prefix.min(longest / 2);
        let input = load.input.min((longest - prefix) / 2);
        let mut words: Vec<String> =
            ["serve", "--base-url", url, "--dataset-name", "random", "--ignore-eos", "--disable-tqdm", "--no-log"]
                .map(str::to_owned)
                .into();
        if load.seed != LOOK {
            // The first look has found it ready; a request to try it before every run would take a third of the time.
            words.extend(["--ready-check-timeout-sec", "0"].map(str::to_owned));
        }
        let pairs = [
            ("--random-prefix-len", prefix as u64),
            ("--random-input-len", input.max(1) as u64),
            ("--random-output-len", load.output as u64),
            ("--max-concurrency", load.level as u64),
            ("--seed", prompts + load.seed as u64),
        ];
        words.extend(pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value.to_string()]));
        words.extend(["--random-range-ratio".to_owned(), load.range.to_owned()]);
        words.extend(match load.length {
            Length::Requests(count) => ["--num-prompts".to_owned(), count.to_string()],
            Length::Seconds(seconds) => ["--duration".to_owned(), format!("{seconds:.3}")],
        });
        if let Some(folder) = args.keep.as_ref().filter(|_| load.range != "0") {
            let file = format!("fit-{}.json", load.seed);
            words.extend(
                ["--save-result", "--save-detailed", "--result-dir", folder, "--result-filename", &file]
                    .map(str::to_owned),
            );
        }
        for (flag, value) in [("--model", &args.model), ("--tokenizer", &args.tokenizer)] {
            words.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
        }
        let values = values_for(&args::serve::TABLE, &words)?.context("the experiment's own command line")?;
        let (record, _) = serve::run_inside(&ServeArgs::read(values)?, &words, None, None, &())?;
        Ok(record.measured.samples.iter().filter_map(|sample| Traced::of_sample(&sample)).collect())
    }
}
