//! Where result files go: vLLM's names, and the files beside them.

use std::path::{Path, PathBuf};

use tacho_core::json::float_repr;
use tacho_metrics::Setup;

/// The name vLLM makes up for a result file.
pub fn file_name(setup: &Setup) -> String {
    let who = setup.label.as_deref().filter(|label| !label.is_empty()).unwrap_or(&setup.backend);
    let rate = match &setup.ramp_up {
        Some(ramp) => format!("ramp-up-{}-{}qps-{}qps", ramp.strategy, ramp.start_rps, ramp.end_rps),
        None => format!("{}qps", float_repr(setup.request_rate)),
    };
    let concurrency = setup.max_concurrency.map_or_else(String::new, |limit| format!("-concurrency{limit}"));
    let model = setup.model_id.rsplit('/').next().unwrap_or(&setup.model_id);
    format!("{who}-{rate}{concurrency}-{model}-{}.json", setup.date)
}

/// The whole path: a given name replaces the made-up one, and a folder is put before either unless it is absolute.
pub fn result_path(setup: &Setup, folder: Option<&Path>, name: Option<&str>) -> PathBuf {
    let name = name.filter(|name| !name.is_empty()).map_or_else(|| file_name(setup), str::to_owned);
    folder.map_or_else(|| PathBuf::from(&name), |folder| folder.join(&name))
}

/// The file beside a result: its last extension replaced by `suffix`, such as `pytorch.json`.
pub fn side_path(result: &Path, suffix: &str) -> PathBuf {
    result.with_extension(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn side_files_replace_the_last_extension() {
        assert_eq!(side_path(Path::new("out.d/r.x.json"), "pytorch.json"), Path::new("out.d/r.x.pytorch.json"));
        assert_eq!(side_path(Path::new("out.d/res"), "timeline.html"), Path::new("out.d/res.timeline.html"));
    }
}
