//! Records of PyTorch's benchmark format for metrics that are lists.

use std::path::Path;

use tacho_core::dict;
use tacho_core::json::{Dict, Value};
use tacho_metrics::offline::EngineNote;

use super::floats;
use crate::export::pytorch::record;

pub(super) struct Metric {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
    pub(super) extra: Dict,
}

/// One record per metric. `args` are all flags with their final values.
pub(super) fn records(engine: &EngineNote, args: &Dict, output_json: &Path, metrics: Vec<Metric>) -> Vec<Value> {
    let benchmark = benchmark(engine, args, output_json);
    let one = |metric: Metric| record(&benchmark, args, &metric.name, floats(&metric.values), metric.extra);
    metrics.into_iter().map(one).collect()
}

fn benchmark(engine: &EngineNote, args: &Dict, output_json: &Path) -> Dict {
    let mode = args.get("compilation_config").and_then(|config| config.get("mode")).cloned().unwrap_or(Value::Null);
    let level = args.get("optimization_level").cloned().unwrap_or_else(|| Value::from(""));
    let eager = args.get("enforce_eager").is_some_and(Value::truthy)
        || output_json.to_string_lossy().contains("eager")
        || mode.as_str() == Some("0")
        || mode.as_i64() == Some(0);
    let mut extra = dict! {
        "args": args.clone(),
        "compilation_config.mode": mode,
        "optimization_level": level,
        "use_compile": !eager,
    };
    if let Some(profile) = &engine.simulated {
        // Dashboards must be able to distinguish simulated records from measured ones.
        extra.set("simulated", true);
        extra.set("sim_profile", profile.as_str());
    }
    dict! { "name": "vLLM benchmark", "extra_info": extra }
}
