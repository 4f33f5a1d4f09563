//! Flags of `tacho selfcheck`.

use tacho_args::declare::*;
use tacho_client::TimestampSource;
use tacho_loadgen::MAX_WORKERS;

use super::error::ArgumentError;
use crate::args::shared::tags::WRITES;

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
    SelfcheckArgs? {
        FLAGS [
            /// If not given, they are doubled beyond the last one until one side fails.
            streams: FlagValue<Vec<usize>> = tacho(&["--streams"], Kind::OneOrMore, "N", DefaultValue::Unset, &OPTIONS,
                "Numbers of streams to try, in ascending order. Default: 1 10 100 300 1000 3000, then doubled until the client or the \
                 server fails.") => streams;
            rates: Vec<f64> = tacho(&["--rates"], Kind::OneOrMore, "TOKENS/S", DefaultValue::Unset, &OPTIONS,
                "Tokens per second of each stream. Default: 20 100.") => rates;
            seconds: f64 = tacho(&["--seconds"], Kind::Seconds, "SEC", DefaultValue::Float(1.0), &OPTIONS, "Duration of each stream.")
                .between(0.001, 600.0);
            max_seconds: f64 = tacho(&["--max-seconds"], Kind::Seconds, "SEC", DefaultValue::Float(120.0), &OPTIONS,
                "Start no further load level after this time.").between(0.001, 1e6);
            workers: Option<usize> = tacho(&["--workers"], Kind::Int, "N", DefaultValue::Unset, &OPTIONS,
                "Client threads (default: all cores but one).").between(1.0, MAX_WORKERS as f64);
            timestamps: TimestampSource = tacho(&["--timestamps"], Choice(&TimestampSource::NAMES), "WHERE", DefaultValue::Str("kernel"), &OPTIONS,
                "Source of receive timestamps: kernel, or user for comparison.") => try_named;
            json: Option<String> = tacho(&["--json"], Kind::Str, "FILE", DefaultValue::Unset, &OPTIONS, "Write the results to this file too.").tagged(WRITES);
        ]
    }
}

impl SelfcheckArgs {
    /// A check of about 20 s whose results go to `file`.
    pub(crate) fn short(file: &str) -> Self {
        let streams = FlagValue { value: vec![1, 100, 1000], is_set: true };
        let (rates, timestamps, json) = (vec![20.0, 100.0], TimestampSource::Kernel, Some(file.to_owned()));
        SelfcheckArgs { streams, rates, seconds: 1.0, max_seconds: 20.0, workers: None, timestamps, json }
    }
}

fn streams(setting: Setting<'_>) -> Result<FlagValue<Vec<usize>>, ArgumentError> {
    let value = numbers(setting, &[1, 10, 100, 300, 1000, 3000], (1, 1_000_000))?;
    Ok(FlagValue { value, is_set: setting.is_set })
}

fn rates(setting: Setting<'_>) -> Result<Vec<f64>, ArgumentError> {
    numbers(setting, &[20.0, 100.0], (0.01, 1e6))
}

fn numbers<T>(setting: Setting<'_>, default: &[T], (min, max): (T, T)) -> Result<Vec<T>, ArgumentError>
where
    T: std::str::FromStr + PartialOrd + Copy,
{
    let number = |text: String| match text.parse::<T>() {
        Ok(number) if number >= min && number <= max => Ok(number),
        _ => Err(ArgumentError::range(setting.flag, text, "numbers above 0, up to a million")),
    };
    match Option::<Vec<String>>::from_flag(setting) {
        Some(given) => given.into_iter().map(number).collect(),
        None => Ok(default.to_vec()),
    }
}
