//! Pools of entries as requests: each request takes one entry of every pool, drawn uniformly.

use tacho_core::json::{Dict, Value};
use tacho_pyrand::Random;

use super::model::{Pool, Prompt, Step, Trace};

impl Trace {
    /// Draws `count` requests from the pools, each in its own session.
    pub fn draw(&mut self, count: usize, seed: u32) {
        let mut random = Random::new(u64::from(seed));
        let pools = std::mem::take(&mut self.pools);
        for number in 0..count {
            let mut content = Dict::new();
            for pool in &pools {
                let Some(entry) = entry(pool, &mut random) else { continue };
                join(&mut content, entry);
            }
            let mut step = Step::new(format!("draw{number}"), 0);
            step.output_tokens =
                content.remove("output_length").and_then(|length| u64::try_from(length.as_i64()?).ok());
            step.notes.extra = content.remove("extra").and_then(|extra| extra.as_dict().cloned());
            step.prompt = Prompt::Given(content);
            self.push(step);
        }
    }
}

fn entry<'p>(pool: &'p Pool, random: &mut Random) -> Option<&'p Dict> {
    pool.entries.get(random.choice_index(pool.entries.len())?)
}

/// Merges an entry with those of other pools: lists of the same kind are joined.
fn join(content: &mut Dict, entry: &Dict) {
    for (key, value) in entry.iter() {
        let many = match key {
            "text" | "image" | "audio" | "video" => format!("{key}s"),
            other => other.to_owned(),
        };
        let items = match value {
            Value::List(items) => items.clone(),
            one if matches!(key, "text" | "image" | "audio" | "video") => vec![one.clone()],
            other => {
                content.set(key, other.clone());
                continue;
            }
        };
        let mut all = content.get(&many).and_then(Value::as_list).unwrap_or_default().to_vec();
        all.extend(items);
        content.set(many, all);
    }
}
