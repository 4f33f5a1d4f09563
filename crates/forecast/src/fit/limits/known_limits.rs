//! Scheduler limits that a server states: on `/metrics`, in `/v1/models`, or in its startup log.

use crate::fit::profile::Limits;

/// Names of limits in a profile, with their spellings in texts.
const NAMES: [(&str, &[&str]); 7] = [
    ("max_num_seqs", &["max_num_seqs"]),
    ("max_num_batched_tokens", &["max_num_batched_tokens"]),
    ("block_size", &["block_size"]),
    ("num_gpu_blocks", &["num_gpu_blocks"]),
    ("max_model_len", &["max_model_len", "max_seq_len"]),
    ("enable_prefix_caching", &["enable_prefix_caching"]),
    ("enable_chunked_prefill", &["enable_chunked_prefill"]),
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
        let Some((name, _)) = NAMES.iter().find(|(known, _)| *known == name) else { return };
        if self.is_known(name) {
            return;
        }
        let limits = &mut self.limits;
        match *name {
            "enable_prefix_caching" => limits.prefix_caching = value > 0,
            "enable_chunked_prefill" => limits.chunked_prefill = value > 0,
            _ if value == 0 => return,
            "max_num_seqs" => limits.max_num_seqs = value,
            "max_num_batched_tokens" => limits.max_num_batched_tokens = value,
            "block_size" => limits.block_size = value,
            "num_gpu_blocks" => limits.num_blocks = value,
            _ => limits.max_model_len = value,
        }
        self.sources.push((name, from.to_owned()));
    }

    /// Assumes the default of a limit that was neither stated nor reached, or the observed lower bound if that is higher.
    pub fn assume(&mut self, name: &str, at_least: usize) {
        let (assumed, known) = (self.limits, self.is_known(name));
        if known || at_least == 0 {
            return;
        }
        let usual = match name {
            "max_num_seqs" => assumed.max_num_seqs,
            _ => assumed.max_num_batched_tokens,
        };
        let from = format!("assumed: not stated, not reached; at least {at_least}");
        self.learn(name, usual.max(at_least), &from);
    }

    /// Reads the limits that a text states.
    pub fn read(&mut self, text: &str, from: &str) {
        for (name, spellings) in NAMES {
            if let Some(value) = spellings.iter().find_map(|spelling| last_value(text, spelling)) {
                self.learn(name, value, from);
            }
        }
    }

    /// Each limit with its name, value and source.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, String, String)> {
        let limits = &self.limits;
        let switch = |on: bool| if on { "on".to_owned() } else { "off".to_owned() };
        let value = move |name: &str| match name {
            "enable_prefix_caching" => switch(limits.prefix_caching),
            "enable_chunked_prefill" => switch(limits.chunked_prefill),
            "max_num_seqs" => limits.max_num_seqs.to_string(),
            "max_num_batched_tokens" => limits.max_num_batched_tokens.to_string(),
            "block_size" => limits.block_size.to_string(),
            "num_gpu_blocks" => limits.num_blocks.to_string(),
            _ => limits.max_model_len.to_string(),
        };
        let from = move |name: &str| {
            let known = self.sources.iter().find(|(known, _)| *known == name);
            known.map_or("assumed: not stated, not reached", |(_, from)| from.as_str()).to_owned()
        };
        NAMES.iter().map(move |(name, _)| (*name, value(name), from(name)))
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
