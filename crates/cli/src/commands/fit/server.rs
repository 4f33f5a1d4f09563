//! The server that `tacho fit --base-url` measures, one `tacho serve` run per load.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use tacho_forecast::fit::{Length, Load, Server, Traced};

use crate::args;
use crate::args::fit::FitArgs;
use crate::args::serve::ServeArgs;
use crate::args::shared::sign_in;
use crate::commands::{serve, values_for};

pub(super) struct MeasuredServer<'a> {
    args: &'a FitArgs,
    url: &'a str,
    /// Offset of the seed of each run: prompts of an earlier fit could be in the prefix cache.
    seed: u64,
    started: Instant,
}

impl<'a> MeasuredServer<'a> {
    pub(super) fn new(args: &'a FitArgs, url: &'a str) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = (since.as_millis() as u64 % 10_000_000) * 100;
        MeasuredServer { args, url, seed, started: Instant::now() }
    }

    fn words(&self, load: &Load) -> Vec<String> {
        let mut words: Vec<String> =
            ["serve", "--base-url", self.url, "--dataset-name", "random", "--ignore-eos", "--disable-tqdm", "--no-log"]
                .map(str::to_owned)
                .into();
        if !load.is_first {
            // Only the first run does a ready check: one per run would take a third of the time.
            words.extend(["--ready-check-timeout-sec", "0"].map(str::to_owned));
        }
        let pairs = [
            ("--random-prefix-len", load.prefix as u64),
            ("--random-input-len", load.input as u64),
            ("--random-output-len", load.output as u64),
            ("--max-concurrency", load.concurrency as u64),
            ("--seed", self.seed + load.seed as u64),
        ];
        words.extend(pairs.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value.to_string()]));
        words.extend(["--random-range-ratio".to_owned(), load.range.to_string()]);
        words.extend(match load.length {
            Length::Requests(count) => ["--num-prompts".to_owned(), count.to_string()],
            Length::Seconds(seconds) => ["--duration".to_owned(), format!("{seconds:.3}")],
        });
        if let Some(directory) = self.args.keep.as_ref().filter(|_| load.is_fitted()) {
            let file = format!("fit-{}.json", load.seed);
            words.extend(
                ["--save-result", "--save-detailed", "--result-dir", directory, "--result-filename", &file]
                    .map(str::to_owned),
            );
        }
        for (flag, value) in [("--model", &self.args.model), ("--tokenizer", &self.args.tokenizer)] {
            words.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
        }
        words.extend(sign_in::words(&self.args.values));
        words
    }
}

impl Server for MeasuredServer<'_> {
    type Error = anyhow::Error;

    fn run(&mut self, load: &Load) -> anyhow::Result<Vec<Traced>> {
        let words = self.words(load);
        let values = values_for(&args::serve::TABLE, &words)?.context("the experiment's own command line")?;
        let (record, _) = serve::run_inside(&ServeArgs::read(values)?, &words, None, None, true, &())?;
        Ok(record.measured.samples.iter().filter_map(|sample| Traced::of_sample(&sample)).collect())
    }

    fn elapsed(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}
