//! Numbers from outside (files, flags, servers) with an upper bound that is checked once, where they are read. Later
//! code can then allocate, add and convert without further checks.

use std::{fmt, time::Duration};

use crate::json::Value;

/// Tokens of a prompt or an output; the maximum exceeds any context window.
pub type TokenCount = BoundedCount<{ 1 << 24 }>;
/// Requests, sessions or turns of a run; more rows would not fit in memory.
pub type RequestCount = BoundedCount<100_000_000>;
/// Tokens that a server reports for one request, over all its prompts and outputs.
pub type UsageCount = BoundedCount<1_000_000_000>;
/// Ranks of a run.
pub type RankCount = BoundedCount<65_536>;
/// A pause, timeout or interval of at most a year.
pub type Pause = BoundedDuration<31_536_000>;
/// The time of a request after the start of its run or trace: at most ten years.
pub type ScheduledTime = BoundedDuration<315_360_000>;
/// The length of a run that a result or a log describes: at most about four months.
pub type RunTime = BoundedDuration<10_000_000>;

/// A number outside its range. The message names the number, its value and the range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfRange {
    name: String,
    value: String,
    allowed: String,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, expected {}", self.name, self.value, self.allowed)
    }
}

impl std::error::Error for OutOfRange {}

/// A count from 0 to `MAX`.
///
/// ```
/// use tacho_core::bounded::TokenCount;
///
/// let tokens = TokenCount::new("input_length", 512_u64)?;
/// assert_eq!(tokens.as_usize(), 512);
/// let error = TokenCount::new("input_length", 1_000_000_000_000_u64).unwrap_err();
/// assert_eq!(error.to_string(), "input_length is 1000000000000, expected a whole number from 0 to 16,777,216");
/// # Ok::<(), tacho_core::bounded::OutOfRange>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoundedCount<const MAX: u64>(u64);

impl<const MAX: u64> BoundedCount<MAX> {
    /// The largest value.
    pub const MAX: u64 = MAX;

    /// Checks an integer of any type; `name` is the field, flag or key it was read from. Fails when it is negative or
    /// above `MAX`.
    pub fn new(name: &str, value: impl TryInto<i128> + fmt::Display + Copy) -> Result<Self, OutOfRange> {
        let count = value.try_into().ok().and_then(|value| u64::try_from(value).ok());
        count.filter(|count| *count <= MAX).map(BoundedCount).ok_or_else(|| Self::refuse(name, &value))
    }

    /// Whether an integer is within the range.
    pub fn holds(value: impl TryInto<u64>) -> bool {
        value.try_into().is_ok_and(|value| value <= MAX)
    }

    /// Checks a float and drops its fraction, as Python's `int` does. Fails when it is negative, above `MAX` or not a
    /// number.
    pub fn from_f64(name: &str, value: f64) -> Result<Self, OutOfRange> {
        let fits = value >= 0.0 && value.trunc() <= MAX as f64;
        if fits { Self::new(name, value as u64) } else { Err(Self::refuse(name, &value)) }
    }

    /// Checks a JSON number. Fails when it is not a number, negative or above `MAX`.
    pub fn from_json(name: &str, value: &Value) -> Result<Self, OutOfRange> {
        match value {
            Value::Int(value) => Self::new(name, *value),
            Value::Float(value) => Self::from_f64(name, *value),
            other => Err(Self::refuse(name, &crate::json::dumps(other))),
        }
    }

    /// The sum of two counts. Fails when it is above `MAX`.
    pub fn checked_add(self, name: &str, more: Self) -> Result<Self, OutOfRange> {
        Self::new(name, u128::from(self.0) + u128::from(more.0))
    }

    /// The count.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The count as a length.
    pub const fn as_usize(self) -> usize {
        self.0 as usize
    }

    fn refuse(name: &str, value: &dyn fmt::Display) -> OutOfRange {
        let allowed = format!("a whole number from 0 to {}", grouped(MAX));
        OutOfRange { name: name.to_owned(), value: value.to_string(), allowed }
    }
}

/// A duration from 0 to `MAX_SECS` seconds.
///
/// ```
/// use tacho_core::bounded::Pause;
///
/// assert_eq!(Pause::from_secs("delay", 1.5)?.get().as_millis(), 1500);
/// assert!(Pause::from_secs("delay", 1e300).is_err() && Pause::from_secs("delay", f64::NAN).is_err());
/// # Ok::<(), tacho_core::bounded::OutOfRange>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BoundedDuration<const MAX_SECS: u64>(Duration);

impl<const MAX_SECS: u64> BoundedDuration<MAX_SECS> {
    /// The longest duration.
    pub const MAX: Duration = Duration::from_secs(MAX_SECS);

    /// Whether `seconds` is within the range.
    pub fn holds(seconds: f64) -> bool {
        (0.0..=MAX_SECS as f64).contains(&seconds)
    }

    /// Converts computed seconds, clamped to the range.
    pub fn clamped(seconds: f64) -> Duration {
        Duration::try_from_secs_f64(seconds.max(0.0)).map_or(Self::MAX, |duration| duration.min(Self::MAX))
    }

    /// Checks seconds. Fails when they are negative, above the maximum or not a number.
    pub fn from_secs(name: &str, seconds: f64) -> Result<Self, OutOfRange> {
        let duration = Duration::try_from_secs_f64(seconds).ok();
        duration.filter(|duration| *duration <= Self::MAX).map(BoundedDuration).ok_or_else(|| OutOfRange {
            name: name.to_owned(),
            value: format!("{seconds:?} s"),
            allowed: format!("0 to {} s", grouped(MAX_SECS)),
        })
    }

    /// Checks milliseconds. Fails as [`BoundedDuration::from_secs`].
    pub fn from_millis(name: &str, millis: f64) -> Result<Self, OutOfRange> {
        Self::from_secs(name, millis / 1e3)
    }

    /// The duration.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// The duration in seconds.
    pub const fn as_secs(self) -> f64 {
        self.0.as_secs_f64()
    }
}

/// Formats a number with commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let comma = |at: usize| at > 0 && (digits.len() - at).is_multiple_of(3);
    digits.char_indices().flat_map(|(at, digit)| comma(at).then_some(',').into_iter().chain([digit])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Small = BoundedCount<1_000>;
    type Minute = BoundedDuration<60>;

    #[test]
    fn counts_are_checked_at_both_ends() {
        let good = [Small::new("n", 0_u8), Small::new("n", 1_000_usize), Small::from_f64("n", 1_000.9)];
        assert_eq!(good.map(|count| count.unwrap().get()), [0, 1_000, 1_000]);
        let bad = [
            Small::new("n", -1_i32),
            Small::new("n", 1_001_u64),
            Small::new("n", u128::MAX),
            Small::from_f64("n", 1_001.0),
            Small::from_f64("n", -0.5),
            Small::from_f64("n", f64::NAN),
            Small::from_f64("n", f64::INFINITY),
        ];
        assert!(bad.iter().all(Result::is_err), "{bad:?}");
        assert_eq!(bad[1].as_ref().unwrap_err().to_string(), "n is 1001, expected a whole number from 0 to 1,000");
    }

    #[test]
    fn counts_come_from_json_numbers_alone() {
        let read = |text: &str| Small::from_json("n", &crate::json::parse(text).unwrap());
        assert_eq!((read("7").unwrap().get(), read("7.0").unwrap().get()), (7, 7));
        assert!(
            ["null", "\"7\"", "true", "NaN", "123456789012345678901234567890"].iter().all(|text| read(text).is_err())
        );
    }

    #[test]
    fn sums_stay_bounded() {
        let [half, one] = [500_u64, 501].map(|count| Small::new("n", count).unwrap());
        assert_eq!(half.checked_add("n", half).unwrap().as_usize(), 1_000);
        assert!(half.checked_add("n", one).is_err());
    }

    #[test]
    fn durations_are_checked_at_both_ends() {
        assert_eq!(Minute::from_millis("t", 60_000.0).unwrap().get(), Minute::MAX);
        assert_eq!(Minute::from_secs("t", 0.25).unwrap().as_secs(), 0.25);
        for bad in [-1e-9, 60.001, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(Minute::from_secs("t", bad).is_err() && !Minute::holds(bad), "{bad}");
        }
        assert_eq!([-1.0, f64::NAN, 1e300].map(Minute::clamped), [Duration::ZERO, Duration::ZERO, Minute::MAX]);
        let error = Minute::from_secs("t", 61.0).unwrap_err();
        assert_eq!(error.to_string(), "t is 61.0 s, expected 0 to 60 s");
    }

    #[test]
    fn digits_are_grouped() {
        assert_eq!([0, 999, 1_000, 16_777_216].map(grouped), ["0", "999", "1,000", "16,777,216"]);
    }
}
