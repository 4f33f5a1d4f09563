//! Parameter uncertainty: variants of a fitted machine within the errors of its estimates.

use crate::machine::{Machine, TIMES};

/// Midpoints of nine equally likely bins of the standard normal distribution: stratified instead of random draws.
const QUANTILES: [f64; 9] = [-1.593, -0.967, -0.589, -0.282, 0.0, 0.282, 0.589, 0.967, 1.593];
/// Strides coprime to nine: each parameter visits the quantiles in its own order (Latin hypercube).
const STRIDES: [usize; 6] = [2, 4, 5, 7, 8, 1];

impl Machine {
    /// Nine variants, with each parameter at nine quantiles of its uncertainty.
    pub fn versions(&self) -> impl Iterator<Item = Machine> {
        (0..QUANTILES.len()).map(|number| self.version(number))
    }

    fn version(&self, number: usize) -> Machine {
        let mut version = self.clone();
        for (at, (error, time)) in self.errors.iter().zip(&TIMES).enumerate() {
            let off = QUANTILES[(number * STRIDES[at % STRIDES.len()] + at) % QUANTILES.len()];
            let value = (time.of)(&mut version);
            *value = (*value + off * error).max(0.0);
        }
        let drift = std::mem::take(&mut version.cost.schedule_drift);
        let times = (drift * QUANTILES[number] - drift * drift / 2.0).exp();
        version.cost.schedule_ns *= times;
        version.cost.schedule_cudagraph_ns *= times;
        version
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    #[test]
    fn versions_have_the_mean_and_spread_of_the_estimates() {
        let mut machine = Machine::from(Profile::Tiny);
        assert!(machine.versions().all(|version| version == machine), "no errors, no variation");
        machine.cost.schedule_ns = 1e6;
        machine.cost.schedule_drift = 0.1;
        machine.errors = vec![1e3; TIMES.len()];
        let versions: Vec<Machine> = machine.versions().collect();
        let off: Vec<f64> = versions.iter().map(|one| (one.cost.fixed_ns - machine.cost.fixed_ns) / 1e3).collect();
        let (mean, squares) = (off.iter().sum::<f64>() / 9.0, off.iter().map(|off| off * off).sum::<f64>() / 8.0);
        assert!(mean.abs() < 1e-6 && (0.95..1.0).contains(&squares), "{off:?}");
        let order = |value: fn(&Machine) -> f64| {
            let mut order: Vec<usize> = (0..9).collect();
            order.sort_by(|one, other| value(&versions[*one]).total_cmp(&value(&versions[*other])));
            order
        };
        assert_ne!(order(|one| one.cost.fixed_ns), order(|one| one.front.per_request_ns));
        assert!(versions[8].cost.schedule_ns > 1.1e6 && versions.iter().all(|one| one.cost.schedule_drift == 0.0));
    }
}
