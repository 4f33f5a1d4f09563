//! A suite in progress: selection of tests, offline commands, and records of failures.

use std::path::{Path, PathBuf};

use tacho_core::json::{Dict, Value};
use tacho_core::{RunEvent, Work, dict};

use super::adaptive::AdaptiveSpec;
use super::command::{args, line, line_with};
use super::file::{Test, TestKind};
use crate::experiment::layout::failure_file;
use crate::experiment::{
    AfterBench, Error, Failure, Point, Processes, Report, Session, Stop, Style, Supervised, Tools,
};

#[derive(Debug, Clone)]
pub enum ServerKind {
    /// A command that takes the model as its first argument and the parameters as flags.
    Command(Vec<String>),
    /// The simulator, which supports only some of the parameters.
    Simulator {
        /// Returns whether it has a parameter of this name.
        knows: fn(&str) -> bool,
    },
    Running(Remote),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    pub host: String,
    /// Its port, if it is not the client's default.
    pub port: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hardware {
    /// Names of the devices, one per line.
    pub name: String,
    /// Number of devices; `None` if it does not matter.
    pub devices: Option<u64>,
    /// Whether pipeline stages need separate devices too.
    pub counts_stages: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptRule {
    pub per_concurrency: u64,
    pub min: u64,
    pub max: u64,
}

#[derive(Debug, Clone)]
pub struct SuitePlan {
    /// The tests in the order in which they are run.
    pub tests: Vec<Test>,
    pub directory: PathBuf,
    pub server: ServerKind,
    /// The benchmark command before its kind.
    pub bench_cmd: Vec<String>,
    /// Whether offline tests run on the simulated engine.
    pub simulated: bool,
    pub hardware: Hardware,
    /// Number of prompts per level, if it overrides the test's.
    pub prompts: Option<PromptRule>,
    pub adaptive: Option<AdaptiveSpec>,
    /// The action after each run against a server, if any.
    pub after: Option<AfterBench>,
    pub supervised: Supervised,
    pub dry_run: bool,
}

impl SuitePlan {
    /// The results that the tests will certainly write.
    pub fn outputs(&self) -> Vec<PathBuf> {
        let names = self.tests.iter().flat_map(|test| match test.kind {
            TestKind::Serving => test.case_names(),
            _ => vec![test.name.clone()],
        });
        names.map(|name| self.output(&name)).collect()
    }

    /// The benchmark commands of all tests, each with the name of its test.
    pub fn commands(&self) -> Vec<(&str, Vec<String>)> {
        let of = |test: &Test| match test.kind {
            TestKind::Serving => self.client_commands(test),
            _ => vec![self.offline_command(test)],
        };
        let named = |test| of(test).into_iter().map(|command| (test.name.as_str(), command));
        self.tests.iter().flat_map(named).collect()
    }

    fn offline_command(&self, test: &Test) -> Vec<String> {
        let output = self.output(&test.name).display().to_string();
        let mut command = self.bench_cmd.clone();
        command.extend([test.kind.name().to_owned(), "--output-json".to_owned(), output]);
        let mut parameters = test.engine.clone();
        match test.kind {
            TestKind::Throughput if self.simulated => parameters.set("backend", "sim"),
            _ if self.simulated => command.push("--sim".to_owned()),
            _ => {}
        }
        command.extend(args(&parameters).unwrap_or_default());
        command
    }

    pub(super) fn output(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.json"))
    }
}

/// Runs the tests. A failure is recorded, and the others continue.
pub fn suite(plan: &SuitePlan, tools: Tools<'_>) -> Result<Report, Error> {
    let total = (!plan.dry_run).then(|| plan.outputs().len());
    let mut suite = Suite::begin(plan, tools, Work::Suite, total);
    for test in &plan.tests {
        if let Some(reason) = suite.too_large(test) {
            suite.say(format!("Skipping {}: {reason}", test.name));
            continue;
        }
        match test.kind {
            TestKind::Serving => suite.serving(test)?,
            _ if plan.dry_run => {}
            _ => suite.offline(test)?,
        }
    }
    if !plan.dry_run {
        tools.sink.event(RunEvent::Finished);
    }
    Ok(suite.report)
}

pub(super) type Suite<'a> = Session<'a, SuitePlan>;

impl Suite<'_> {
    /// Why the machine is too small for a test.
    fn too_large(&self, test: &Test) -> Option<String> {
        let hardware = &self.plan.hardware;
        let size = |key: &str| {
            let value = test.engine.get(key);
            let number = value.and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok()));
            number.map_or(1, i64::unsigned_abs)
        };
        let stages = if hardware.counts_stages { size("pipeline_parallel_size") } else { 1 };
        let needed = size("tensor_parallel_size") * stages;
        let there = hardware.devices.filter(|&there| there < needed)?;
        Some(format!("it needs {needed} devices and there are {there}"))
    }

    fn offline(&mut self, test: &Test) -> Result<(), Error> {
        let output = self.plan.output(&test.name);
        self.say(format!("Running test case {}", test.name));
        if self.tools.archive.result(&output).is_some() {
            return self.found(&output);
        }
        let command = self.plan.offline_command(test);
        self.keep_commands(&test.name, &[(&format!("{}_command", test.kind.name()), line(&command))], false)?;
        self.say(format!("Benchmark command: {}", line_with(&test.variables, &command)));
        let log = output.with_extension("log");
        let replaced = Path::new(&command[0]).file_name().is_some_and(|name| name == "tacho");
        let bench = Processes { supervised: &self.plan.supervised, variables: &test.variables, replaced };
        let point = Point { log: Some(&log), bench: &bench, ..self.point(&command, &output) };
        let measured = self.measure(None, &point).map_err(Stop::into_failure);
        self.conclude(&test.name, measured).map(drop)
    }

    /// Counts a case with a stored result.
    pub(super) fn found(&mut self, output: &Path) -> Result<(), Error> {
        self.say(format!("Found existing results in {}.", output.display()));
        self.report.results += 1;
        self.count();
        Ok(())
    }

    /// Counts a case; a failed one is recorded.
    pub(super) fn conclude(&mut self, name: &str, measured: Result<Dict, Failure>) -> Result<Option<Dict>, Error> {
        self.count();
        let failure = match measured {
            Ok(result) => {
                self.report.results += 1;
                return Ok(Some(result));
            }
            Err(failure) => failure,
        };
        let output = self.plan.output(name);
        self.tools.archive.discard(&output);
        let path = failure_file(&output);
        self.keep_failure(&path, &failure, &[("test_name", name.into())], &[]).map_err(Error::Ended)?;
        self.warn(format!("{name}: {failure}"));
        self.failed(format!("{name}: {failure}"));
        Ok(None)
    }

    /// Writes the commands of a case next to its result.
    pub(super) fn keep_commands(&self, name: &str, commands: &[(&str, String)], adaptive: bool) -> Result<(), Error> {
        let commands: Dict = commands.iter().map(|(key, line)| ((*key).to_owned(), line.as_str().into())).collect();
        let all = dict! {
            ..commands,
            "gpu_type": self.plan.hardware.name.as_str(),
            "adaptive_search"?: adaptive.then_some(true),
        };
        let path = self.plan.directory.join(format!("{name}.commands"));
        self.tools.archive.keep(&path, &Value::Dict(all), Style::Note).map_err(Error::Ended)
    }
}
