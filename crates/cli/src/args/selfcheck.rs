//! What was typed after `tacho selfcheck`.

use tacho_client::StampSource;
use tacho_loadgen::MAX_WORKERS;

use super::error::Refusal;
use super::flag::{Flag, Group, Kind, Preset, Table, own};
use super::grammar::Values;

static OPTIONS: Group = Group { title: "options", vllm_title: "options", about: "How hard to look." };

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho selfcheck",
    about: "Measure this machine's client against a server that tells the truth.",
    examples: &[(
        "tacho selfcheck",
        "up to how many streams and tokens/s the client's error stays under 0.1, 1, 10 ms",
    )],
    groups: &[&OPTIONS],
    flags: FLAGS,
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    own(&["-h", "--help"], Kind::Help, "TOPIC", Preset::Unset, &OPTIONS, "Show this help. --help=all explains every option."),
    own(&["--streams"], Kind::OneOrMore, "N", Preset::Unset, &OPTIONS,
        "Numbers of streams to try, rising. Default: 1 10 100 300 1000 3000, and then ever twice as many until the client or \
         the server gives way."),
    own(&["--rates"], Kind::OneOrMore, "TOKENS/S", Preset::Unset, &OPTIONS,
        "Tokens per second of each stream to try. Default: 20 100."),
    own(&["--seconds"], Kind::Seconds, "SEC", Preset::Float(1.0), &OPTIONS, "Seconds that each stream lasts.")
        .between(0.001, 600.0),
    own(&["--most-seconds"], Kind::Seconds, "SEC", Preset::Float(120.0), &OPTIONS,
        "Begin no further load after this time.").between(0.001, 1e6),
    own(&["--workers"], Kind::Int, "N", Preset::Unset, &OPTIONS,
        "Threads that receive. Default: all cores but one.").between(1.0, MAX_WORKERS as f64),
    own(&["--timestamps"], Kind::Choice(&["kernel", "user"]), "WHERE", Preset::Str("kernel"), &OPTIONS,
        "Where arriving bytes get their time: kernel, or user to see what the kernel's stamps are worth."),
    own(&["--json"], Kind::Str, "FILE", Preset::Unset, &OPTIONS, "Write the numbers to this file as well."),
];

/// All flags of `tacho selfcheck`.
#[derive(Debug, Clone)]
pub(crate) struct SelfcheckArgs {
    pub(crate) streams: Vec<usize>,
    pub(crate) rates: Vec<f64>,
    /// Seconds.
    pub(crate) seconds: f64,
    /// Whether streams are doubled beyond those numbers until something gives way.
    pub(crate) goes_on: bool,
    /// Seconds.
    pub(crate) most_seconds: f64,
    pub(crate) workers: Option<usize>,
    pub(crate) timestamps: StampSource,
    pub(crate) json: Option<String>,
}

impl SelfcheckArgs {
    /// Reads and checks the values.
    pub(crate) fn read(values: &Values) -> Result<Self, Refusal> {
        Ok(SelfcheckArgs {
            streams: numbers(values, "--streams", &[1, 10, 100, 300, 1000, 3000], (1, 1_000_000))?,
            rates: numbers(values, "--rates", &[20.0, 100.0], (0.01, 1e6))?,
            seconds: values.float("--seconds"),
            goes_on: values.list("--streams").is_none(),
            most_seconds: values.float("--most-seconds"),
            workers: values.maybe_int("--workers").map(|workers| workers.unsigned_abs() as usize),
            timestamps: match values.text("--timestamps").as_str() {
                "user" => StampSource::User,
                _ => StampSource::Kernel,
            },
            json: values.maybe_text("--json"),
        })
    }
}

fn numbers<T>(values: &Values, flag: &'static str, preset: &[T], (least, most): (T, T)) -> Result<Vec<T>, Refusal>
where
    T: std::str::FromStr + PartialOrd + Copy,
{
    let Some(given) = values.list(flag) else { return Ok(preset.to_vec()) };
    let number = |text: String| match text.parse::<T>() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(Refusal::OutOfRange { flag, value: text, allowed: "numbers above 0, up to a million" }),
    };
    given.into_iter().map(number).collect()
}
