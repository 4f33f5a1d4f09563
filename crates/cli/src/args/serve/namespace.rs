//! vLLM's argument dumps: as given in the `Namespace(...)` line, and as finally used in records of PyTorch's
//! benchmark format.

use tacho_args::flag::{Flag, Origin};
use tacho_args::repr::{joined, repr};
use tacho_args::shown::shown;
use tacho_core::json::{Dict, Value};
use tacho_core::{dict, secret::redact_url};

use super::{ServeArgs, dataset::BUCKETS};
use crate::args::shared::{first_entries, logging_entries};

impl ServeArgs {
    /// Every flag by its underscore name, given or default: vLLM's in its order, then tacho's. Without secrets.
    pub(crate) fn namespace(&self) -> Dict {
        self.values.iter().map(|(flag, value)| (flag.dest(), shown(flag, value))).collect()
    }

    /// The dump in Python's notation; under strict parity, without tacho's flags.
    pub(crate) fn namespace_line(&self) -> String {
        let dump = |wanted: fn(&Flag) -> bool| {
            let rows = self.values.iter().filter(move |(flag, _)| wanted(flag));
            rows.map(|(flag, value)| format!("{}={}", flag.dest(), python(flag, &shown(flag, value))))
        };
        let logging = format!(
            "logging_config=LoggingConfig(log_level='{}', formatter='text', configure_logging=True, \
             pylogging_config_file=None)",
            std::env::var("VLLM_LOGGING_LEVEL").unwrap_or_else(|_| "INFO".to_owned()).to_uppercase()
        );
        // Python prints the address of the function; here, the address of a function of this program.
        let function = format!(
            "dispatch_function=<function BenchmarkServingSubcommand.cmd at {:#x}>",
            std::ptr::from_ref(&super::TABLE) as usize
        );
        let head = ["subparser='bench'".to_owned(), "bench_type='serve'".to_owned(), function];
        let vllm = dump(|flag| flag.origin != Origin::Tacho);
        let tail = ["log_config_file=None".to_owned(), logging];
        let tacho = dump(|flag| flag.origin == Origin::Tacho).filter(|_| !self.tacho.strict_parity);
        format!("Namespace({})", joined(head.into_iter().chain(vllm).chain(tail).chain(tacho)))
    }

    /// Every flag with its value in effect, among the other entries of vLLM's namespace.
    pub(crate) fn final_namespace(&self) -> Dict {
        let mut dict = first_entries("serve");
        let typed = self.namespace();
        let (tacho, vllm): (Vec<_>, Vec<_>) = self.values.iter().partition(|(flag, _)| flag.origin == Origin::Tacho);
        let take = |dict: &mut Dict, dest: String| {
            let value = typed.get(&dest).cloned().unwrap_or(Value::Null);
            dict.set(dest, value);
        };
        vllm.into_iter().for_each(|(flag, _)| take(&mut dict, flag.dest()));
        self.decide(&mut dict);
        dict.update(&logging_entries());
        tacho.into_iter().for_each(|(flag, _)| take(&mut dict, flag.dest()));
        dict
    }

    /// Adds values derived from other flags.
    fn decide(&self, dict: &mut Dict) {
        let dataset = &self.dataset;
        if self.has_moderate_load() {
            dict.update(&dict! {
                "num_prompts": self.load.num_prompts,
                "request_rate": self.load.request_rate,
                "random_output_len": dataset.output_len(),
            });
        }
        if let Some(len) = dataset.flags.output_len {
            let lens = ["random", "sharegpt", "custom", "hf", "spec_bench", "prefix_repetition"];
            lens.iter().for_each(|name| dict.set(format!("{name}_output_len"), len));
        }
        dict.update(&dict! {
            "random_input_len": dataset.input_len(),
            "random_range_ratio"?: dataset.range_ratio().ok().map(|ratio| ratio.value),
            "ignore_eos": self.ignore_eos(),
            "self_timed": self.self_timed(),
            "endpoint": redact_url(&self.endpoint()),
        });
    }
}

/// A value in Python's notation; the keys of media sizes are tuples.
fn python(flag: &Flag, value: &Value) -> String {
    match value {
        Value::Dict(buckets) if flag.kind == BUCKETS => {
            format!("{{{}}}", joined(buckets.iter().map(|(key, share)| format!("{key}: {}", repr(share)))))
        }
        other => repr(other),
    }
}
