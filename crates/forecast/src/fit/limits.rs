//! Scheduler limits: stated by the server on `/metrics`, in `/v1/models`, or in its startup log, or inferred from runs
//! that reached them.

mod budget;
mod queue;
pub mod reached;

/// The scheduler's limits: given, stated by the server, or inferred from runs that reached them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most sequences in a step.
    pub max_num_seqs: usize,
    pub max_num_batched_tokens: usize,
    /// Tokens per KV block.
    pub block_size: usize,
    pub num_blocks: usize,
    pub max_model_len: usize,
    pub prefix_caching: bool,
    /// Whether prompts may be split to fill a step.
    pub chunked_prefill: bool,
}

impl Default for Limits {
    /// The defaults of an unconfigured engine.
    fn default() -> Self {
        Limits {
            max_num_seqs: 256,
            max_num_batched_tokens: 8192,
            block_size: 16,
            num_blocks: 16_384,
            max_model_len: 32_768,
            prefix_caching: true,
            chunked_prefill: true,
        }
    }
}

/// A limit; switches are 0 and 1.
pub(super) struct Limit {
    /// Its name in a profile.
    pub(super) name: &'static str,
    /// Its spellings in texts.
    spellings: &'static [&'static str],
    pub(super) is_switch: bool,
    pub(super) get: fn(&Limits) -> usize,
    set: fn(&mut Limits, usize),
}

#[rustfmt::skip]
pub(super) const LIMITS: [Limit; 7] = [
    Limit { name: "max_num_seqs", spellings: &["max_num_seqs"], is_switch: false,
        get: |limits| limits.max_num_seqs, set: |limits, value| limits.max_num_seqs = value },
    Limit { name: "max_num_batched_tokens", spellings: &["max_num_batched_tokens"], is_switch: false,
        get: |limits| limits.max_num_batched_tokens, set: |limits, value| limits.max_num_batched_tokens = value },
    Limit { name: "block_size", spellings: &["block_size"], is_switch: false,
        get: |limits| limits.block_size, set: |limits, value| limits.block_size = value },
    Limit { name: "num_gpu_blocks", spellings: &["num_gpu_blocks"], is_switch: false,
        get: |limits| limits.num_blocks, set: |limits, value| limits.num_blocks = value },
    Limit { name: "max_model_len", spellings: &["max_model_len", "max_seq_len"], is_switch: false,
        get: |limits| limits.max_model_len, set: |limits, value| limits.max_model_len = value },
    Limit { name: "enable_prefix_caching", spellings: &["enable_prefix_caching"], is_switch: true,
        get: |limits| limits.prefix_caching.into(), set: |limits, value| limits.prefix_caching = value > 0 },
    Limit { name: "enable_chunked_prefill", spellings: &["enable_chunked_prefill"], is_switch: true,
        get: |limits| limits.chunked_prefill.into(), set: |limits, value| limits.chunked_prefill = value > 0 },
];

#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownLimits {
    pub limits: Limits,
    /// Sources of the known limits; the first source of each counts.
    pub sources: Vec<(&'static str, String)>,
}

impl KnownLimits {
    /// Returns whether this limit has a source.
    pub fn is_known(&self, name: &str) -> bool {
        self.sources.iter().any(|(known, _)| *known == name)
    }

    /// Sets a limit that is not known yet; switches are 0 and 1.
    pub fn learn(&mut self, name: &str, value: usize, from: &str) {
        let is_new = |limit: &&Limit| limit.name == name && (limit.is_switch || value > 0);
        if let Some(limit) = LIMITS.iter().find(is_new).filter(|_| !self.is_known(name)) {
            (limit.set)(&mut self.limits, value);
            self.sources.push((limit.name, from.to_owned()));
        }
    }

    /// Assumes the default of a limit that was neither stated nor reached, or the observed lower bound if that is higher.
    pub fn assume(&mut self, name: &str, at_least: usize) {
        let Some(limit) = LIMITS.iter().find(|limit| limit.name == name && at_least > 0) else { return };
        let from = format!("assumed: not stated, not reached; at least {at_least}");
        self.learn(name, (limit.get)(&self.limits).max(at_least), &from);
    }

    /// Reads the limits that a text states.
    pub fn read(&mut self, text: &str, from: &str) {
        for limit in LIMITS {
            if let Some(value) = limit.spellings.iter().find_map(|spelling| last_value(text, spelling)) {
                self.learn(limit.name, value, from);
            }
        }
    }

    /// Each limit with its name, value and source.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, String, String)> {
        LIMITS.into_iter().map(|limit| {
            let value = match (limit.is_switch, (limit.get)(&self.limits)) {
                (true, value) => if value > 0 { "on" } else { "off" }.to_owned(),
                (false, value) => value.to_string(),
            };
            let known = self.sources.iter().find(|(known, _)| *known == limit.name);
            let from = known.map_or("assumed: not stated, not reached", |(_, from)| from.as_str()).to_owned();
            (limit.name, value, from)
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
        let limits = known.limits;
        assert_eq!((limits.block_size, limits.num_blocks, limits.prefix_caching), (128, 1365, false));
        assert_eq!((limits.max_num_seqs, limits.max_num_batched_tokens, limits.max_model_len), (32, 1024, 2048));
        assert!(limits.chunked_prefill && known.is_known("enable_chunked_prefill"));
        assert_eq!(known.rows().next(), Some(("max_num_seqs", "32".to_owned(), "given".to_owned())));
        let mut nothing = KnownLimits::default();
        nothing.read("block_size = , max_num_seqs: none, num_gpu_blocks=0", "a text");
        assert_eq!(nothing, KnownLimits::default());
    }
}
