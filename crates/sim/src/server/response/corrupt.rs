//! Wrong outputs on purpose. An output keeps its number of tokens, so that the engine's work does not change.

use std::sync::atomic::Ordering;

use super::generation::{Generation, draw_choice};
use crate::{faults::Corruption, server::app::hashed, server::driver::Signal};
use tacho_engine::Draw;

/// Fraction of a token's probability that noise moves to other tokens.
const NOISE: f64 = 0.2;

impl Generation {
    /// Applies the first output fault that hits this choice; called before its first token.
    pub(super) fn corrupt(&mut self, signal: &Signal) {
        let (app, at) = (&self.app, signal.choice);
        let (serving, adapter) = (app.serving.load(Ordering::Relaxed), app.salt(&self.model));
        let choice = &self.choices[at];
        let other = app.last_output.lock().replace(choice.output.clone());
        let seed = app.spec.faults.seed;
        let prompt = Draw { seed, request_seed: None, prompt: &choice.prompt.ids, choice: 0 }.number();
        let hit = app.spec.faults.outputs.iter().find_map(|fault| {
            let is_possible = match fault.kind {
                Corruption::Swap => serving > 1 && other.is_some(),
                Corruption::Adapter => adapter > 0,
                Corruption::Stale => signal.cached > 0,
                Corruption::Flip | Corruption::Cut | Corruption::Noise => true,
            };
            let drawn = match fault.kind {
                Corruption::Noise => hashed(seed, prompt),
                _ => hashed(seed, app.ids.fetch_add(1, Ordering::Relaxed)),
            };
            let is_hit = is_possible && serving > fault.above && (drawn as f64 / u64::MAX as f64) < fault.rate;
            is_hit.then_some((fault.kind, hashed(drawn, 1)))
        });
        let Some((kind, random)) = hit else { return };
        let adapters = app.spec.lora_modules.len() as u64;
        let wrong = if adapters > 1 { adapter % adapters + 1 } else { 0 };
        let number = at % self.ask.n;
        let mut ids = choice.output.ids().to_vec();
        let from = (random % ids.len().max(1) as u64) as usize;
        let mut silent = choice.silent;
        let source = match kind {
            Corruption::Swap => other,
            Corruption::Adapter => {
                draw_choice(app, &self.ask, wrong, &choice.prompt, number).ok().map(|wrong| wrong.output)
            }
            _ => None,
        };
        match (kind, source) {
            (Corruption::Cut, _) => silent = silent.max(ids.len() - from),
            (Corruption::Swap | Corruption::Adapter, Some(source)) => {
                ids.iter_mut().zip(source.ids().iter().cycle()).for_each(|(id, other)| *id = *other);
            }
            (Corruption::Stale, _) => random_from(0, random, &mut ids, |number| app.vocabulary.token(number)),
            _ => random_from(from, random, &mut ids, |number| app.vocabulary.token(number)),
        }
        let choice = &mut self.choices[at];
        (choice.output, choice.silent) = (ids.into(), silent);
        choice.noise = if kind == Corruption::Noise { NOISE } else { 0.0 };
    }
}

fn random_from(from: usize, seed: u64, ids: &mut [u32], token: impl Fn(u64) -> u32) {
    for (at, id) in ids.iter_mut().enumerate().skip(from) {
        *id = token(hashed(seed, at as u64));
    }
}
