//! Hardware of this machine, as reported by the vendors' tools.

use std::fs;
use std::process::{Command, Stdio};

use tacho_run::suite::Hardware;

use crate::args::suite::SuiteArgs;
use crate::commands::platform::{nodes, processor};

pub(super) struct Machine {
    /// Device names, one per line.
    name: String,
    /// Number of GPUs, or of NUMA nodes for CPU tests.
    pub(super) devices: u64,
    /// Suffix of the test files for this hardware.
    pub(super) suffix: &'static str,
}

impl Machine {
    /// Detects GPUs, or only the CPU if requested.
    pub(super) fn look(args: &SuiteArgs) -> Self {
        if args.on_cpu {
            let suffix = if args.on_arm64_cpu() { "-arm64-cpu" } else { "-cpu" };
            return Machine { name: processor(), devices: nodes(), suffix };
        }
        let nvidia = lines("nvidia-smi", &["--query-gpu=name", "--format=csv,noheader"]);
        if !nvidia.is_empty() {
            return Machine::of_gpus(nvidia.iter().map(|name| second_word(name)).collect(), "");
        }
        let amd: Vec<String> = lines("amd-smi", &["list"]).into_iter().filter(|line| line.starts_with("GPU")).collect();
        if !amd.is_empty() {
            let names = lines("amd-smi", &["static", "-g", "0", "-a"]);
            let name = names.iter().find(|line| line.contains("MARKET_NAME")).map(|line| second_word(line.trim()));
            return Machine::of_gpus(vec![name.unwrap_or_else(|| "AMD".into()); amd.len()], "");
        }
        let gaudi = lines("hl-smi", &["-Q", "name", "-f", "csv,noheader"]);
        Machine::of_gpus(gaudi.clone(), if gaudi.is_empty() { "" } else { "-hpu" })
    }

    fn of_gpus(names: Vec<String>, suffix: &'static str) -> Self {
        Machine { devices: names.len() as u64, name: names.join("\n"), suffix }
    }

    pub(super) fn hardware(&self, args: &SuiteArgs) -> Hardware {
        let elsewhere = args.sim || args.remote().is_some() || args.dry_run;
        Hardware {
            name: if args.sim { "simulated".to_owned() } else { self.name.clone() },
            devices: (!elsewhere).then_some(self.devices),
            counts_stages: args.on_cpu,
        }
    }

    /// A description in the format of vLLM's environment report.
    pub(super) fn text(&self) -> String {
        let system = fs::read_to_string("/proc/version").unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        format!(
            "==============================\n        System Info\n==============================\nOS: {}\n\
             CPU: {}\nCPUs: {cores}\nNUMA nodes: {}\nDevices: {}\ntacho version: {}\n",
            system.trim(),
            processor(),
            nodes(),
            self.name.replace('\n', ", "),
            env!("CARGO_PKG_VERSION")
        )
    }
}

fn second_word(text: &str) -> String {
    text.split_whitespace().nth(1).unwrap_or(text).to_owned()
}

/// The output lines of a tool; empty if it is missing or fails.
fn lines(program: &str, args: &[&str]) -> Vec<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(str::to_owned).filter(|line| !line.trim().is_empty()).collect()
}
