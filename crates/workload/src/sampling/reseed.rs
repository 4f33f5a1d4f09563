//! The same dataset with another seed, for runs that use up their first requests.

use crate::WorkloadSpec;

impl WorkloadSpec {
    /// The spec with its seed advanced by `by`. Rows of a file without random draws repeat unchanged.
    pub fn reseeded(&self, by: i64) -> WorkloadSpec {
        if let WorkloadSpec::Mix(mix) = self {
            return WorkloadSpec::Mix(mix.reseeded(by));
        }
        let mut spec = self.clone();
        if let WorkloadSpec::OutputLengths(own) = &mut spec {
            own.workload = own.workload.reseeded(by);
        }
        if let Some(seed) = spec.seed_mut() {
            // Seeds are 32 bits wide, like those of flags.
            *seed = (*seed).wrapping_add(by).rem_euclid(1 << 32);
        }
        spec
    }

    fn seed_mut(&mut self) -> Option<&mut i64> {
        Some(match self {
            WorkloadSpec::Random(spec) => &mut spec.seed,
            WorkloadSpec::RandomMm(spec) => &mut spec.seed,
            WorkloadSpec::RandomRerank(spec) => &mut spec.seed,
            WorkloadSpec::PrefixRepetition(spec) => &mut spec.seed,
            WorkloadSpec::SharedPrefix(spec) => &mut spec.seed,
            WorkloadSpec::Custom(spec) => &mut spec.selection.seed,
            WorkloadSpec::Rows(spec) => &mut spec.selection.seed,
            WorkloadSpec::CustomImage(spec) => &mut spec.selection.seed,
            WorkloadSpec::CustomAudio(spec) => &mut spec.selection.seed,
            WorkloadSpec::ShareGpt(spec) => &mut spec.selection.seed,
            WorkloadSpec::SpecBench(spec) => &mut spec.selection.seed,
            WorkloadSpec::SpeedBench(spec) => &mut spec.selection.seed,
            WorkloadSpec::Hf(spec) => &mut spec.selection.seed,
            WorkloadSpec::HfText(spec) => &mut spec.hf.selection.seed,
            WorkloadSpec::OutputLengths(spec) => &mut spec.seed,
            WorkloadSpec::BurstGpt(spec) => &mut spec.selection.seed,
            WorkloadSpec::ServeGen(spec) => &mut spec.selection.seed,
            _ => return None,
        })
    }
}
