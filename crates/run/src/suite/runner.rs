//! A suite in progress: which tests run, one command per test without a server, and records of failures.

use std::path::{Path, PathBuf};

use tacho_core::event::SuiteNote;
use tacho_core::json::{Dict, Value};
use tacho_core::{RunEvent, Work};

use super::adaptive::AdaptiveSpec;
use super::command::{line, line_with, words};
use super::file::{OfflineTest, Test, TestKind};
use crate::experiment::layout::failure_file;
use crate::experiment::{
    AfterBench, Error, Failure, Point, Processes, Report, Session, Stop, Style, Supervised, Tools,
};

/// What serves the model.
#[derive(Debug, Clone)]
pub enum ServerKind {
    /// A command that takes the model as its first word and the parameters as flags.
    Command(Vec<String>),
    /// The simulator, which takes only some of the parameters.
    Simulator {
        /// Whether it has a parameter of this name.
        knows: fn(&str) -> bool,
    },
    /// A server that runs already.
    Running(Remote),
}

/// A server that runs already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its machine.
    pub host: String,
    /// Its port, if it is not the client's default.
    pub port: Option<String>,
}

/// What the tests run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hardware {
    /// The devices' name, a line for each.
    pub name: String,
    /// How many there are; nothing when that does not matter.
    pub devices: Option<u64>,
    /// Whether pipeline stages need devices of their own as well.
    pub counts_stages: bool,
}

/// How many prompts a level gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptRule {
    /// Prompts per concurrent request.
    pub per_concurrency: u64,
    /// Fewest prompts.
    pub least: u64,
    /// Most prompts.
    pub most: u64,
}

/// A suite.
#[derive(Debug, Clone)]
pub struct SuitePlan {
    /// The tests in the order in which they are run.
    pub tests: Vec<Test>,
    /// Where results are written.
    pub directory: PathBuf,
    /// What serves the models.
    pub server: ServerKind,
    /// The words before the kind of a benchmark.
    pub bench_cmd: Vec<String>,
    /// Whether tests without a server run on the simulated engine.
    pub simulated: bool,
    /// What the tests run on.
    pub hardware: Hardware,
    /// How many prompts a level gets, if not what its test says.
    pub prompts: Option<PromptRule>,
    /// How levels are refined, if at all.
    pub adaptive: Option<AdaptiveSpec>,
    /// What to do after each run against a server, if anything.
    pub after: Option<AfterBench>,
    /// How commands are started.
    pub supervised: Supervised,
    /// Whether to say what would be done, and run nothing.
    pub dry_run: bool,
}

impl SuitePlan {
    /// The results that the tests will certainly write.
    pub fn outputs(&self) -> Vec<PathBuf> {
        let names = self.tests.iter().flat_map(|test| match test {
            Test::Serving(test) => test.case_names(),
            Test::Offline(test) => vec![test.name.clone()],
        });
        names.map(|name| self.output(&name)).collect()
    }

    /// The benchmark commands of all tests, each with the name of its test.
    pub fn commands(&self) -> Vec<(&str, Vec<String>)> {
        let of = |test: &Test| match test {
            Test::Serving(test) => self.client_commands(test),
            Test::Offline(test) => vec![self.offline_command(test)],
        };
        self.tests.iter().flat_map(|test| of(test).into_iter().map(move |command| (test.name(), command))).collect()
    }

    /// The command of a test without a server.
    fn offline_command(&self, test: &OfflineTest) -> Vec<String> {
        let output = self.output(&test.name).display().to_string();
        let mut command = self.bench_cmd.clone();
        command.extend([test.kind.name().to_owned(), "--output-json".to_owned(), output]);
        let mut parameters = test.parameters.clone();
        match test.kind {
            TestKind::Throughput if self.simulated => parameters.set("backend", "sim"),
            _ if self.simulated => command.push("--sim".to_owned()),
            _ => {}
        }
        command.extend(words(&parameters).unwrap_or_default());
        command
    }

    pub(super) fn output(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.json"))
    }
}

/// Runs the tests. What fails is written down, and the others go on.
pub fn suite(plan: &SuitePlan, tools: Tools<'_>) -> Result<Report, Error> {
    let total = (!plan.dry_run).then(|| plan.outputs().len());
    let mut suite = Suite::begin(plan, tools, Work::Suite, total);
    for test in &plan.tests {
        if let Some(reason) = suite.too_large(test) {
            suite.say(SuiteNote::Skipped { name: test.name().to_owned(), reason });
            continue;
        }
        match test {
            Test::Serving(test) => suite.serving(test)?,
            Test::Offline(_) if plan.dry_run => {}
            Test::Offline(test) => suite.offline(test)?,
        }
    }
    if !plan.dry_run {
        tools.sink.event(RunEvent::Finished);
    }
    Ok(suite.report)
}

/// A suite in progress.
pub(super) type Suite<'a> = Session<'a, SuitePlan>;

impl Suite<'_> {
    /// Why the machine is too small for a test.
    fn too_large(&self, test: &Test) -> Option<String> {
        let hardware = &self.plan.hardware;
        let size = |key: &str| {
            let value = test.engine().get(key);
            let number = value.and_then(|value| value.as_i64().or_else(|| value.as_str()?.parse().ok()));
            number.map_or(1, i64::unsigned_abs)
        };
        let stages = if hardware.counts_stages { size("pipeline_parallel_size") } else { 1 };
        let needed = size("tensor_parallel_size") * stages;
        let there = hardware.devices.filter(|&there| there < needed)?;
        Some(format!("it needs {needed} devices and there are {there}"))
    }

    fn offline(&mut self, test: &OfflineTest) -> Result<(), Error> {
        let output = self.plan.output(&test.name);
        self.say(SuiteNote::Case { name: test.name.clone() });
        if self.tools.archive.result(&output).is_some() {
            return self.found(&output);
        }
        let command = self.plan.offline_command(test);
        self.keep_commands(&test.name, &[(&format!("{}_command", test.kind.name()), line(&command))], false)?;
        self.say(SuiteNote::Runs { who: "Benchmark", line: line_with(&test.variables, &command) });
        let log = output.with_extension("log");
        let replaced = Path::new(&command[0]).file_name().is_some_and(|name| name == "tacho");
        let bench = Processes { supervised: &self.plan.supervised, variables: &test.variables, replaced };
        let point = Point { log: Some(&log), bench: &bench, ..self.point(&command, &output) };
        let measured = self.measure(None, &point).map_err(Stop::into_failure);
        self.conclude(&test.name, measured).map(drop)
    }

    /// A case that was run before.
    pub(super) fn found(&mut self, output: &Path) -> Result<(), Error> {
        self.say(SuiteNote::Found { output: output.to_owned() });
        self.report.results += 1;
        self.count();
        Ok(())
    }

    /// Counts a case; one that failed is written down.
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
        self.warn(SuiteNote::Failed { name: name.to_owned(), failure: failure.to_string() });
        self.failed(format!("{name}: {failure}"));
        Ok(None)
    }

    /// Writes the commands of a case next to its result.
    pub(super) fn keep_commands(&self, name: &str, commands: &[(&str, String)], adaptive: bool) -> Result<(), Error> {
        let mut all = Dict::new();
        for (key, command) in commands {
            all.set(*key, command.as_str());
        }
        all.set("gpu_type", self.plan.hardware.name.as_str());
        if adaptive {
            all.set("adaptive_search", true);
        }
        let path = self.plan.directory.join(format!("{name}.commands"));
        self.tools.archive.keep(&path, &Value::Dict(all), Style::Note).map_err(Error::Ended)
    }
}
