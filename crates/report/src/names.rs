//! Paths of result files: vLLM's names, and the files next to them.

use std::path::{Path, PathBuf};

use tacho_core::json::float_repr;
use tacho_metrics::Setup;

/// The default name of a result file, as in vLLM.
pub fn file_name(setup: &Setup) -> String {
    let who = setup.label.as_deref().filter(|label| !label.is_empty()).unwrap_or(&setup.backend);
    let rate = match &setup.ramp_up {
        _ if !setup.stages.is_empty() => "stages".to_owned(),
        Some(ramp) => format!("ramp-up-{}-{}qps-{}qps", ramp.strategy, ramp.start_rps, ramp.end_rps),
        None => format!("{}qps", float_repr(setup.request_rate)),
    };
    let concurrency = setup.max_concurrency.map_or_else(String::new, |limit| format!("-concurrency{limit}"));
    let model = part_of_name(setup.model_id.rsplit('/').next().unwrap_or(&setup.model_id));
    format!("{who}-{rate}{concurrency}-{model}-{}.json", setup.date)
}

/// A text from a server as part of a file name: on one line, without control characters, and short enough for a file
/// system.
pub fn part_of_name(text: &str) -> String {
    let hidden = |c: char| {
        c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let safe = text.chars().map(|c| if hidden(c) || matches!(c, '/' | '\\') { '_' } else { c });
    let mut name = String::new();
    for c in safe {
        if name.len() + c.len_utf8() > MAX_MODEL_BYTES {
            break;
        }
        name.push(c);
    }
    name
}

/// Most bytes of a model's name in a file name, so that the whole name stays below the usual 255.
const MAX_MODEL_BYTES: usize = 128;

/// The whole path: a given name replaces the default, and a directory is prepended to either unless it is absolute.
pub fn result_path(setup: &Setup, directory: Option<&Path>, name: Option<&str>) -> PathBuf {
    let name = name.filter(|name| !name.is_empty()).map_or_else(|| file_name(setup), str::to_owned);
    directory.map_or_else(|| PathBuf::from(&name), |directory| directory.join(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers_are_made_safe() {
        assert_eq!(part_of_name("a\u{1b}[2J\u{202e}b\nc"), "a_[2J_b_c");
        assert_eq!(part_of_name(".."), "..");
        assert_eq!(part_of_name("Qwen3-8B.Q4 (x)"), "Qwen3-8B.Q4 (x)");
        assert!(part_of_name(&"é".repeat(1_000_000)).len() <= MAX_MODEL_BYTES);
    }
}
