//! Machines that a fitted one may be as well: what it was learned to cost has errors, and some of it drifts between runs.

use crate::machine::{Machine, TIMES};

/// By how many deviations a machine is off in something: the middles of the ninths of a normal distribution, so that nine tell
/// as much as many that are drawn.
const OFF: [f64; 9] = [-1.593, -0.967, -0.589, -0.282, 0.0, 0.282, 0.589, 0.967, 1.593];
/// Steps through these that come to each of them once: what is off in one thing is not so in another.
const STEPS: [usize; 6] = [2, 4, 5, 7, 8, 1];

impl Machine {
    /// Nine machines, each off by something else.
    pub fn versions(&self) -> impl Iterator<Item = Machine> {
        (0..OFF.len()).map(|number| self.version(number))
    }

    fn version(&self, number: usize) -> Machine {
        let mut version = self.clone();
        for (at, (error, time)) in self.errors.iter().zip(&TIMES).enumerate() {
            let off = OFF[(number * STEPS[at % STEPS.len()] + at) % OFF.len()];
            let value = (time.of)(&mut version);
            *value = (*value + off * error).max(0.0);
        }
        let drift = std::mem::take(&mut version.cost.prepare_drift);
        let times = (drift * OFF[number] - drift * drift / 2.0).exp();
        version.cost.prepare_ns *= times;
        version.cost.prepare_recorded_ns *= times;
        version
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Profile;

    #[test]
    fn what_is_not_known_is_off_in_each_by_something_else_and_by_nothing_in_the_mean() {
        let mut machine = Machine::from(Profile::Tiny);
        assert!(machine.versions().all(|version| version == machine), "nothing is in doubt");
        machine.cost.prepare_ns = 1e6;
        machine.cost.prepare_drift = 0.1;
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
        assert!(versions[8].cost.prepare_ns > 1.1e6 && versions.iter().all(|one| one.cost.prepare_drift == 0.0));
    }
}
