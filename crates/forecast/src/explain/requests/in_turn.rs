//! A front end that takes requests in turn, each for the same time: those that are sent close together wait for one another.

use super::{Observed, Stream};
use crate::fit::robust::median;

/// Service times that are tried at once, and how often the range is narrowed around the best.
const TRIED: (usize, usize) = (32, 3);
/// Most observed times that are compared.
const MAX_COMPARED: usize = 2000;
/// Part of the misfit of a constant time that may be left, and least misfit of a constant time in iterations.
const MISFIT: (f64, f64) = (0.5, 0.02);

/// Time of each request in the front end, if this explains when requests reached the engine much better than a constant
/// time does.
pub(super) fn turns(streams: &[Stream], observed: &[Observed], iteration: f64) -> Option<Vec<f64>> {
    let mut order: Vec<usize> = (0..streams.len()).collect();
    let sent = |stream: usize| streams[stream].traced.sent;
    order.sort_unstable_by(|one, other| sent(*one).total_cmp(&sent(*other)));
    let turns = |service: f64| {
        let (mut free, mut turns) = (f64::NEG_INFINITY, vec![0.0; streams.len()]);
        for &stream in &order {
            free = free.max(sent(stream)) + service;
            turns[stream] = free - sent(stream);
        }
        turns
    };
    let compared: Vec<Observed> =
        observed.iter().step_by(observed.len().div_ceil(MAX_COMPARED).max(1)).copied().collect();
    let misfit = |service: f64| misfit(&turns(service), &compared);
    let constant = misfit(0.0);
    // The requests that were observed passed it one after another.
    let ends = observed.iter().map(|one| sent(one.stream) + one.middle + one.width / 2.0);
    let longest = (ends.fold(f64::NEG_INFINITY, f64::max) - sent(*order.first()?)) / observed.len() as f64;
    let (mut best, mut low, mut high) = ((0.0, constant), 0.0, longest);
    for _ in 0..TRIED.1 {
        let step = (high - low) / TRIED.0 as f64;
        let tried = (1..=TRIED.0).map(|at| low + step * at as f64);
        best = tried.map(|service| (service, misfit(service))).fold(best, |a, b| if b.1 < a.1 { b } else { a });
        (low, high) = ((best.0 - step).max(0.0), best.0 + step);
    }
    let is_better = best.1 < MISFIT.0 * constant && constant > MISFIT.1 * iteration;
    is_better.then(|| turns(best.0))
}

/// Mean distance of the times to the engine from their bounds, with the constant that fits them best.
fn misfit(turns: &[f64], observed: &[Observed]) -> f64 {
    let bounds = |one: &Observed| [-0.5, 0.5].map(|side| one.middle + side * one.width - turns[one.stream]);
    let constant = median(observed.iter().flat_map(bounds)).max(0.0);
    let outside = |one: &Observed| (bounds(one)[0] - constant).max(constant - bounds(one)[1]).max(0.0);
    observed.iter().map(outside).sum::<f64>() / observed.len().max(1) as f64
}
