//! Scales of axes: from a value to its position between 0 and 1, and the values of ticks.

tacho_core::named! {
    pub enum ScaleKind {
        Linear = "linear",
        /// Logarithmic; only positive values have a position.
        Log = "log",
        /// Linear around 0, logarithmic beyond 2.
        Symlog = "symlog",
        Asinh = "asinh",
        /// Log-odds of fractions; only values between 0 and 1 have a position.
        Logit = "logit",
        Sqrt = "sqrt",
    }
}

const LINEAR_BELOW: f64 = 2.0;

impl ScaleKind {
    /// Position of `value` on an unbounded axis; `None` if it has none.
    fn forward(self, value: f64) -> Option<f64> {
        let position = match self {
            ScaleKind::Linear => value,
            ScaleKind::Log => (value > 0.0).then(|| value.log10())?,
            ScaleKind::Symlog if value.abs() <= LINEAR_BELOW => value / LINEAR_BELOW,
            ScaleKind::Symlog => value.signum() * (1.0 + 0.9 * (value.abs() / LINEAR_BELOW).log10()),
            ScaleKind::Asinh => value.asinh(),
            ScaleKind::Logit => (value > 0.0 && value < 1.0).then(|| (value / (1.0 - value)).log10())?,
            ScaleKind::Sqrt => value.signum() * value.abs().sqrt(),
        };
        position.is_finite().then_some(position)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    kind: ScaleKind,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    whole: bool,
}

impl Scale {
    /// The range from `low` to `high`; if that is empty, one around them.
    pub(super) fn new(kind: ScaleKind, low: f64, high: f64) -> Self {
        let (low, high) = match (kind.forward(low), kind.forward(high)) {
            (Some(from), Some(to)) if from < to => (low, high),
            (Some(_), _) => Self::around(kind, low),
            _ if kind == ScaleKind::Logit => (0.1, 0.9),
            _ => (1.0, 10.0),
        };
        let position = |value| kind.forward(value).expect("both ends were seen to have a position");
        Scale { kind, low, high, from: position(low), to: position(high), whole: false }
    }

    /// Restricts ticks to integers if `whole` is set.
    pub(super) fn whole(self, whole: bool) -> Self {
        Scale { whole, ..self }
    }

    /// A range with one value in its middle.
    fn around(kind: ScaleKind, value: f64) -> (f64, f64) {
        match kind {
            ScaleKind::Log => (value / 2.0, value * 2.0),
            ScaleKind::Logit => (value / 2.0, (1.0 + value) / 2.0),
            _ => {
                let half = (value.abs() * 0.05).max(0.5);
                (value - half, value + half)
            }
        }
    }

    /// Position of `value`: 0 at the low end, 1 at the high end.
    pub(super) fn position(&self, value: f64) -> Option<f64> {
        let position = (self.kind.forward(value)? - self.from) / (self.to - self.from);
        (-1e-9..=1.0 + 1e-9).contains(&position).then_some(position)
    }

    /// The values with a tick, and their labels; about `wish` of them.
    pub(super) fn ticks(&self, wish: usize) -> Vec<(f64, String)> {
        if matches!(self.kind, ScaleKind::Linear | ScaleKind::Sqrt) {
            return self.even_ticks(wish);
        }
        let distance = 1.0 / (wish as f64 * 1.6);
        let mut taken: Vec<(f64, f64)> = Vec::new();
        for value in self.candidates() {
            if let Some(position) = self.position(value)
                && (!self.whole || value.fract() == 0.0)
                && taken.iter().all(|(_, other)| (position - other).abs() >= distance)
            {
                taken.push((value, position));
            }
        }
        if taken.len() < 2 {
            return self.even_ticks(wish);
        }
        taken.sort_by(|a, b| a.1.total_cmp(&b.1));
        taken.into_iter().map(|(value, _)| (value, number(value))).collect()
    }

    /// Round values, the roundest first.
    fn candidates(&self) -> Vec<f64> {
        let powers = |digit: f64| (-12..=15).map(move |power| digit * 10f64.powi(power));
        if self.kind == ScaleKind::Logit {
            let small: Vec<f64> = (1..=9).map(|power| 10f64.powi(-power)).collect();
            let large: Vec<f64> = small.iter().map(|share| 1.0 - share).collect();
            return [vec![0.5], small, large, vec![0.2, 0.8, 0.3, 0.7]].concat();
        }
        let positive: Vec<f64> = powers(1.0).chain(powers(2.0)).chain(powers(5.0)).collect();
        let mut all = vec![0.0];
        all.extend(positive.iter().flat_map(|&value| [value, -value]));
        all
    }

    fn even_ticks(&self, wish: usize) -> Vec<(f64, String)> {
        let min = if self.whole { 1.0 } else { 0.0 };
        let step = round_step((self.high - self.low) / wish as f64).max(min);
        let (first, last) = ((self.low / step - 1e-9).ceil(), (self.high / step + 1e-9).floor());
        let count = (last - first) as usize + 1;
        let values = (0..count).map(|at| (first + at as f64) * step);
        let decimals = decimals_of(step);
        values.map(|value| (value, labeled(value, decimals, self.low.abs().max(self.high.abs())))).collect()
    }
}

/// The next round number: 1, 2 or 5 times a power of ten.
fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= rough * (1.0 - 1e-9));
    digit.unwrap_or(10.0) * power
}

/// Decimals that multiples of `step` need.
fn decimals_of(step: f64) -> usize {
    (0..12)
        .find(|&decimals| {
            let scaled = step * 10f64.powi(decimals);
            (scaled - scaled.round()).abs() < 1e-6
        })
        .unwrap_or(12) as usize
}

/// The label of a tick: in millions or billions if all digits would be too long.
fn labeled(value: f64, decimals: usize, largest: f64) -> String {
    let value = if value == 0.0 { 0.0 } else { value };
    for (unit, name) in [(1e9, "G"), (1e6, "M")] {
        if largest >= unit * 10.0 {
            return format!("{}{name}", number(value / unit));
        }
    }
    if largest < 1e-4 { format!("{value:e}") } else { format!("{value:.decimals$}") }
}

/// A number in few characters.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if value != 0.0 && !(1e-4..1e7).contains(&size) {
        return format!("{value:e}");
    }
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(kind: ScaleKind, low: f64, high: f64) -> Vec<String> {
        Scale::new(kind, low, high).ticks(6).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(ScaleKind::Linear, 0.0, 10.0), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(ScaleKind::Linear, -0.3, 0.9), ["-0.2", "0.0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(labels(ScaleKind::Linear, 0.0, 3e7), ["0M", "5M", "10M", "15M", "20M", "25M", "30M"]);
        assert_eq!(labels(ScaleKind::Log, 1.0, 1000.0), ["1", "10", "100", "1000"].map(String::from).to_vec());
        assert_eq!(labels(ScaleKind::Logit, 0.05, 0.95)[..3], ["0.1", "0.2", "0.5"]);
    }

    #[test]
    fn whole_numbers_have_whole_ticks() {
        let labels = |scale: Scale| scale.ticks(6).into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(Scale::new(ScaleKind::Linear, 0.9, 2.1).whole(true)), ["1", "2"]);
        assert_eq!(labels(Scale::new(ScaleKind::Log, 0.8, 5.0).whole(true)), ["1", "2", "5"]);
    }

    #[test]
    fn values_without_a_place_have_none() {
        let scale = Scale::new(ScaleKind::Log, 1.0, 100.0);
        assert_eq!(scale.position(0.0), None);
        assert_eq!(scale.position(f64::NAN), None);
        assert_eq!(scale.position(f64::INFINITY), None);
        assert_eq!(scale.position(10.0), Some(0.5));
    }

    #[test]
    fn a_single_value_gets_room_around_it() {
        for kind in [ScaleKind::Linear, ScaleKind::Log, ScaleKind::Symlog, ScaleKind::Asinh, ScaleKind::Sqrt] {
            let scale = Scale::new(kind, 7.0, 7.0);
            let position = scale.position(7.0).unwrap();
            assert!((0.3..0.7).contains(&position), "{kind:?} {position}");
            assert!(scale.ticks(6).len() >= 2, "{kind:?}");
        }
        assert!(Scale::new(ScaleKind::Log, -5.0, 0.0).ticks(6).len() >= 2);
        assert!(Scale::new(ScaleKind::Linear, f64::NAN, f64::INFINITY).ticks(6).len() >= 2);
    }

    #[test]
    fn scales_rise() {
        for (at, name) in ScaleKind::NAMES.iter().enumerate() {
            let kind = ScaleKind::from_name(name).unwrap();
            let positions: Vec<f64> = (1..99).filter_map(|at| kind.forward(f64::from(at) / 100.0 * 0.99)).collect();
            assert!(positions.len() == 98 && positions.is_sorted(), "{at} {name}");
        }
        assert_eq!(ScaleKind::from_name("cubic"), None);
    }
}
