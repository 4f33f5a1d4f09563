//! Scheduler limits: stated by the server on `/metrics`, in `/v1/models`, or in its startup log, or inferred from runs
//! that reached them.

pub(crate) mod budget;
mod queue;
pub mod reached;

use tacho_engine::{EngineSpec, LIMITS, Limit, NamedLimit};

/// The limits that servers state.
const STATED: &[NamedLimit] = LIMITS.split_at(LIMITS.len() - 1).0;

/// Lines of vLLM's startup log about asynchronous scheduling.
const SCHEDULING: [(&str, bool); 2] =
    [("Asynchronous scheduling is enabled", true), ("Asynchronous scheduling is disabled", false)];

/// Spellings in texts of limits that have several.
const SPELLINGS: [(&str, &str); 1] = [("max_model_len", "max_seq_len")];

#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownLimits {
    pub limits: EngineSpec,
    /// Whether the server schedules asynchronously, if it says so.
    pub async_scheduling: Option<bool>,
    /// Sources of the known limits; the first source of each counts.
    pub sources: Vec<(&'static str, String)>,
}

impl KnownLimits {
    pub fn is_known(&self, name: &str) -> bool {
        self.sources.iter().any(|(known, _)| *known == name)
    }

    /// Sets a limit that is not known yet; switches are 0 and 1.
    pub fn learn(&mut self, name: &str, value: usize, from: &str) {
        let Some((name, limit)) = STATED.iter().find(|(known, _)| *known == name) else { return };
        let limit = limit(&mut self.limits);
        if (value > 0 || matches!(limit, Limit::Switch(_))) && !self.sources.iter().any(|(known, _)| known == name) {
            limit.set(value);
            self.sources.push((name, from.to_owned()));
        }
    }

    /// Assumes the default of a limit that was neither stated nor reached, or the observed lower bound if that is higher.
    pub fn assume(&mut self, name: &str, at_least: usize) {
        let Some((_, limit)) = STATED.iter().find(|(known, _)| *known == name && at_least > 0) else { return };
        let from = format!("assumed: not stated, not reached; at least {at_least}");
        let value = limit(&mut self.limits).value().max(at_least);
        self.learn(name, value, &from);
    }

    pub fn read(&mut self, text: &str, from: &str) {
        let on = || last_value(text, "async_scheduling").map(|value| value == 1);
        let logged = |(line, on)| text.contains(line).then_some(on);
        self.async_scheduling = self.async_scheduling.or_else(on).or_else(|| SCHEDULING.into_iter().find_map(logged));
        for (name, _) in STATED {
            let others = SPELLINGS.iter().filter(|(known, _)| known == name).map(|(_, other)| other);
            if let Some(value) = std::iter::once(name).chain(others).find_map(|spelling| last_value(text, spelling)) {
                self.learn(name, value, from);
            }
        }
    }

    /// Reads the settings that a server stated.
    pub fn read_settings(&mut self, settings: &[(String, String)], from: &str) {
        settings.iter().for_each(|(name, value)| self.read(&format!("{name}={value}"), from));
    }

    /// Each limit with its name, value and source.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, String, String)> {
        let mut limits = self.limits.clone();
        STATED.iter().map(move |(name, limit)| {
            let value = match limit(&mut limits) {
                Limit::Switch(on) => if *on { "on" } else { "off" }.to_owned(),
                Limit::Count(count) => count.to_string(),
            };
            let known = self.sources.iter().find(|(known, _)| known == name);
            let from = known.map_or("assumed: not stated, not reached", |(_, from)| from.as_str()).to_owned();
            (*name, value, from)
        })
    }
}

/// The last value assigned to a name: `name=1`, `'name': 1`, `name="True"`.
fn last_value(text: &str, name: &str) -> Option<usize> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let value = |(at, _): (usize, &str)| {
        if text[..at].bytes().next_back().is_some_and(word) {
            return None;
        }
        let rest = text[at + name.len()..].trim_start_matches(['"', '\'']).trim_start();
        let rest = rest.strip_prefix(['=', ':'])?.trim_start().trim_start_matches(['"', '\'']);
        match rest {
            _ if rest.starts_with("True") || rest.starts_with("true") => Some(1),
            _ if rest.starts_with("False") || rest.starts_with("false") => Some(0),
            _ => rest[..rest.bytes().take_while(u8::is_ascii_digit).count()].parse().ok(),
        }
    };
    text.match_indices(name).filter_map(value).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_server_output() {
        let page = "vllm:cache_config_info{block_size=\"128\",effective_attention_block_size=\"7\",\
            enable_prefix_caching=\"False\",num_gpu_blocks=\"1365\",num_gpu_blocks_override=\"None\"} 1.0";
        let log = "non-default args: {'max_model_len': 2048, 'max_num_seqs': 48}\n\
            Chunked prefill is enabled with max_num_batched_tokens=1024.\nmax_seq_len=2048, enable_chunked_prefill=True";
        let mut known = KnownLimits::default();
        known.learn("max_num_seqs", 32, "given");
        known.read(page, "/metrics");
        known.read(log, "the log");
        let limits = &known.limits;
        assert_eq!((limits.block_size, limits.num_blocks, limits.enable_prefix_caching), (128, 1365, false));
        assert_eq!((limits.max_num_seqs, limits.max_num_batched_tokens, limits.max_model_len), (32, 1024, 2048));
        assert!(limits.enable_chunked_prefill && known.is_known("enable_chunked_prefill"));
        assert_eq!(known.rows().next(), Some(("max_num_seqs", "32".to_owned(), "given".to_owned())));
        assert_eq!(known.async_scheduling, None);
        known.read("Asynchronous scheduling is enabled.", "the log");
        known.read_settings(&[("async_scheduling".into(), "false".into())], "the first source counts");
        assert_eq!(known.async_scheduling, Some(true));
        let mut nothing = KnownLimits::default();
        nothing.read("block_size = , max_num_seqs: none, num_gpu_blocks=0", "a text");
        assert_eq!(nothing, KnownLimits::default());
    }
}
