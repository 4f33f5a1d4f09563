//! Flags of `tacho selfcheck`.

use tacho_args::flag::{Group, HELP, Kind, Preset, Table, group, own, rows};
use tacho_args::flags;
use tacho_args::grammar::Values;
use tacho_client::TimestampSource;
use tacho_loadgen::MAX_WORKERS;

use super::error::Refusal;
use super::serve::timestamp_source;

static OPTIONS: Group = group("options", "options", "Load levels, duration and client threads.");

pub(crate) static TABLE: Table = Table {
    command: "tacho selfcheck",
    about: "Measure the client's own timing error and capacity on this machine, against a server with known timings.",
    examples: &[(
        "tacho selfcheck",
        "up to how many streams and tokens/s the client's error stays under 0.1, 1 and 10 ms",
    )],
    groups: &[&OPTIONS],
    flags: rows!(&[HELP], FLAGS),
    ..Table::PLAIN
};

flags! {
    /// The flags of `tacho selfcheck`.
    SelfcheckFlags {
        FLAGS [
            streams: Vec<String> = own(&["--streams"], Kind::OneOrMore, "N", Preset::Unset, &OPTIONS,
                "Numbers of streams to try, in ascending order. Default: 1 10 100 300 1000 3000, then doubled until the client or the \
                 server fails.");
            rates: Vec<String> = own(&["--rates"], Kind::OneOrMore, "TOKENS/S", Preset::Unset, &OPTIONS,
                "Tokens per second of each stream. Default: 20 100.");
            /// Seconds.
            seconds: f64 = own(&["--seconds"], Kind::Seconds, "SEC", Preset::Float(1.0), &OPTIONS, "Duration of each stream.")
                .between(0.001, 600.0);
            /// Seconds.
            max_seconds: f64 = own(&["--max-seconds"], Kind::Seconds, "SEC", Preset::Float(120.0), &OPTIONS,
                "Start no further load level after this time.").between(0.001, 1e6);
            workers: Option<usize> = own(&["--workers"], Kind::Int, "N", Preset::Unset, &OPTIONS,
                "Client threads (default: all cores but one).").between(1.0, MAX_WORKERS as f64);
            timestamps: TimestampSource = own(&["--timestamps"], Kind::Choice(&["kernel", "user"]), "WHERE", Preset::Str("kernel"), &OPTIONS,
                "Source of receive timestamps: kernel, or user for comparison.") => timestamp_source;
            json: Option<String> = own(&["--json"], Kind::Str, "FILE", Preset::Unset, &OPTIONS, "Write the results to this file too.");
        ]
    }
}

/// Arguments of `tacho selfcheck`.
#[derive(Debug, Clone)]
pub(crate) struct SelfcheckArgs {
    pub(crate) streams: Vec<usize>,
    pub(crate) rates: Vec<f64>,
    /// Seconds.
    pub(crate) seconds: f64,
    /// Whether streams are doubled beyond these numbers until one side fails.
    pub(crate) goes_on: bool,
    /// Seconds.
    pub(crate) max_seconds: f64,
    pub(crate) workers: Option<usize>,
    pub(crate) timestamps: TimestampSource,
    pub(crate) json: Option<String>,
}

impl SelfcheckArgs {
    /// Parses and checks the values.
    pub(crate) fn read(values: &Values) -> Result<Self, Refusal> {
        let SelfcheckFlags { streams, rates, seconds, max_seconds, workers, timestamps, json } = values.into();
        let goes_on = streams.is_empty();
        let streams = numbers(streams, "--streams", &[1, 10, 100, 300, 1000, 3000], (1, 1_000_000))?;
        let rates = numbers(rates, "--rates", &[20.0, 100.0], (0.01, 1e6))?;
        Ok(SelfcheckArgs { streams, rates, seconds, goes_on, max_seconds, workers, timestamps, json })
    }
}

fn numbers<T>(given: Vec<String>, flag: &'static str, preset: &[T], (least, most): (T, T)) -> Result<Vec<T>, Refusal>
where
    T: std::str::FromStr + PartialOrd + Copy,
{
    if given.is_empty() {
        return Ok(preset.to_vec());
    }
    let number = |text: String| match text.parse::<T>() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(Refusal::OutOfRange { flag, value: text, allowed: "numbers above 0, up to a million" }),
    };
    given.into_iter().map(number).collect()
}
