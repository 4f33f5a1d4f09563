//! The arguments as vLLM dumps them: as typed in the `Namespace(...)` line, and as finally used in the record that
//! goes with PyTorch's benchmark format.

use tacho_core::json::{Dict, Value};

use super::ServeArgs;
use crate::args::flag::Origin;
use crate::args::repr::{joined, repr};

impl ServeArgs {
    /// Every flag under its underscore name, as typed or by default: vLLM's in its order, then ours. The headers
    /// may hold a key, so they are not shown.
    pub(crate) fn namespace(&self) -> Dict {
        let mut dict: Dict = self.values.iter().map(|(flag, value)| (flag.dest(), value.clone())).collect();
        if self.target.header.is_some() {
            dict.set("header", "***");
        }
        dict
    }

    /// The dump as Python prints it.
    pub(crate) fn namespace_line(&self) -> String {
        let dict = self.namespace();
        format!("Namespace({})", joined(dict.iter().map(|(name, value)| format!("{name}={}", repr(value)))))
    }

    /// Every flag with the value that the run uses, among what else vLLM's parser leaves there.
    pub(crate) fn final_namespace(&self) -> Dict {
        let mut dict = Dict::new();
        dict.set("subparser", "bench");
        dict.set("bench_type", "serve");
        dict.set("dispatch_function", "<function is not JSON serializable>");
        let typed = self.namespace();
        let (own, vllm): (Vec<_>, Vec<_>) = self.values.iter().partition(|(flag, _)| flag.origin == Origin::Tacho);
        let take = |dict: &mut Dict, dest: String| {
            let value = typed.get(&dest).cloned().unwrap_or(Value::Null);
            dict.set(dest, value);
        };
        vllm.into_iter().for_each(|(flag, _)| take(&mut dict, flag.dest()));
        self.decide(&mut dict);
        dict.set("log_config_file", Value::Null);
        dict.set("logging_config", "<LoggingConfig is not JSON serializable>");
        own.into_iter().for_each(|(flag, _)| take(&mut dict, flag.dest()));
        dict
    }

    /// Puts in what follows from other flags.
    fn decide(&self, dict: &mut Dict) {
        let dataset = &self.dataset;
        dict.set("random_input_len", dataset.input_len());
        if let Some(len) = dataset.output_len {
            let lens = ["random", "sharegpt", "custom", "hf", "spec_bench", "prefix_repetition"];
            lens.iter().for_each(|name| dict.set(format!("{name}_output_len"), len));
        }
        if let Ok(ratio) = dataset.range_ratio() {
            dict.set("random_range_ratio", ratio.value);
        }
        dict.set("ignore_eos", self.ignore_eos());
        dict.set("self_timed", self.self_timed());
        dict.set("endpoint", self.endpoint());
    }
}
