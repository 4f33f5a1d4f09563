//! The capacity that a server logs at its start.

use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    pub tokens: u64,
    /// Tokens of a request of maximum length.
    pub request: u64,
    /// Number of such requests that fit at once.
    pub requests: f64,
}

impl Capacity {
    /// The capacity in a server's log; with several engines the last one counts.
    pub fn of_log(path: &Path) -> Option<Self> {
        Self::read(&String::from_utf8_lossy(&std::fs::read(path).ok()?))
    }

    fn read(log: &str) -> Option<Self> {
        let (_, size) = log.rsplit_once("KV cache size: ")?;
        let (_, max) = log.rsplit_once("Maximum concurrency for ")?;
        let (request, max) = max.split_once(" tokens per request: ")?;
        let (requests, _) = max.split_once('x')?;
        Some(Capacity { tokens: whole(size)?, request: whole(request)?, requests: requests.trim().parse().ok()? })
    }
}

/// The integer at the beginning of a text, with or without thousands separators.
fn whole(text: &str) -> Option<u64> {
    let digits: String =
        text.trim_start().chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|c| *c != ',').collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_the_lines_are_read() {
        let wanted = Some(Capacity { tokens: 1_234_560, request: 40_960, requests: 30.14 });
        let two = "INFO 11-15 [kv_cache_utils.py:864] GPU KV cache size: 1,234,560 tokens\n\
                   INFO 11-15 [kv_cache_utils.py:868] Maximum concurrency for 40,960 tokens per request: 30.14x\n";
        assert_eq!(Capacity::read(two), wanted);
        let one = "(EngineCore pid=1) GPU KV cache size: 1234560 tokens, Maximum concurrency for 40960 tokens per request: 30.14x";
        assert_eq!(Capacity::read(one), wanted);
        for other in ["", "GPU KV cache size: many tokens", "Maximum concurrency for 5 tokens per request: 3x"] {
            assert_eq!(Capacity::read(other), None, "{other}");
        }
    }
}
