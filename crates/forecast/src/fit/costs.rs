//! The costs of an engine step, and their regression on steps.

use super::regress::{self, Data, Estimate};
use super::robust::{median, spread};
use super::steps::Step;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Costs {
    pub fixed: Estimate,
    pub prefill: Estimate,
    pub sequence: Estimate,
    /// Per token of context.
    pub kv: Estimate,
    /// Per prompt token and token of context it attends to.
    pub attention: Estimate,
    /// Extra per back-to-back prefill step under asynchronous scheduling.
    pub back_to_back_prefill: Estimate,
}

impl Costs {
    pub fn seconds(&self, step: &Step) -> f64 {
        self.fixed.value * step.count
            + self.prefill.value * step.computed
            + self.sequence.value * step.sequences
            + self.kv.value * step.kv
            + self.attention.value * step.attention
            + self.back_to_back_prefill.value * step.back_to_back_prefill
    }
}

fn data(steps: &[Step], windows: Option<Vec<usize>>) -> Data<6> {
    Data {
        rows: steps.iter().map(Step::row).collect(),
        targets: steps.iter().map(|step| step.seconds).collect(),
        windows,
    }
}

pub(super) fn named([fixed, prefill, sequence, kv, attention, back_to_back_prefill]: [Estimate; 6]) -> Costs {
    Costs { fixed, prefill, sequence, kv, attention, back_to_back_prefill }
}

/// Costs by generalized least squares, with errors correlated within windows.
pub(super) fn exact(steps: &[Step]) -> Option<Costs> {
    let windows = steps.iter().map(|step| step.window).collect();
    regress::fit(&data(steps, Some(windows))).map(named)
}

/// Costs by least squares with independent errors.
pub(super) fn costs(steps: &[Step]) -> Option<Costs> {
    regress::fit(&data(steps, None)).map(named)
}

/// Costs by least squares, with iterative trimming of outliers.
pub(crate) fn robust(steps: &[Step]) -> Option<Costs> {
    let mut near = costs(steps)?;
    for _ in 0..4 {
        let off = |step: &Step| (step.seconds / near.seconds(step)).ln();
        let (middle, limit) = (median(steps.iter().map(off)), 2.5 * spread(steps.iter().map(off)).max(1e-3));
        let kept: Vec<Step> = steps.iter().copied().filter(|step| (off(step) - middle).abs() <= limit).collect();
        near = costs(&kept)?;
    }
    Some(near)
}
