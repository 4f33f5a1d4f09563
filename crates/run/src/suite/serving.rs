//! Serving tests: one server for all loads of a test, then the refinement of its levels.

use tacho_core::json::{Dict, Value, python_str};
use tacho_record::ResultFields;

use super::adaptive::{Bounds, refine};
use super::command::{args, line, line_with};
use super::file::Test;
use super::runner::{ServerKind, Suite, SuitePlan};
use crate::experiment::{Error, Failure, Point, Slot, Stop, Style};

struct Case<'a> {
    rate: &'a str,
    concurrency: u64,
    /// Whether it belongs to the refinement.
    adaptive: bool,
}

impl Test {
    fn case_name(&self, rate: &str, concurrency: u64) -> String {
        format!("{}_qps_{rate}_concurrency_{concurrency}", self.name)
    }

    pub(super) fn case_names(&self) -> Vec<String> {
        let name = |rate: &String, level: &u64| self.case_name(rate, *level);
        self.rates.iter().flat_map(|rate| self.concurrencies.iter().map(move |level| name(rate, level))).collect()
    }
}

impl SuitePlan {
    pub(super) fn client_commands(&self, test: &Test) -> Vec<Vec<String>> {
        let levels =
            |rate| test.concurrencies.iter().map(move |&concurrency| Case { rate, concurrency, adaptive: false });
        let cases = test.rates.iter().flat_map(|rate| levels(rate.as_str()));
        cases.map(|case| self.client_command(test, &case)).collect()
    }

    /// Returns whether a result is within the limits of the refinement; `None` without a refinement, or if it lacks
    /// the metrics.
    fn verdict(&self, result: &Dict) -> Option<bool> {
        self.adaptive.and_then(|spec| spec.verdict(ResultFields(result)))
    }

    /// The server command of a test; empty if a server is already running.
    pub fn server_command(&self, test: &Test) -> Vec<String> {
        match &self.server {
            ServerKind::Command(start) => {
                let mut command = start.clone();
                command.extend(test.model.clone());
                command.extend(args(&test.engine).unwrap_or_default());
                command
            }
            ServerKind::Simulator { knows } => {
                let known = test.engine.iter().filter(|(key, _)| knows(key));
                let known: Dict = known.map(|(key, value)| (key.to_owned(), value.clone())).collect();
                let model = test.model.as_deref().unwrap_or_default();
                let mut command = ["tacho", "sim", "--model", model].map(str::to_owned).to_vec();
                command.extend(args(&known).unwrap_or_default());
                command
            }
            ServerKind::Running(_) => Vec::new(),
        }
    }

    fn client_command(&self, test: &Test, case: &Case<'_>) -> Vec<String> {
        let name = format!("{}.json", test.case_name(case.rate, case.concurrency));
        let directory = self.directory.display().to_string();
        let concurrency = case.concurrency.to_string();
        let mut command = self.bench_cmd.clone();
        let mut add = |parts: &[&str]| command.extend(parts.iter().map(|part| (*part).to_owned()));
        add(&["serve", "--save-result", "--result-dir", &directory, "--result-filename", &name]);
        add(&["--request-rate", case.rate, "--max-concurrency", &concurrency]);
        let mut client = test.client.clone();
        if let Some(rule) = self.prompts {
            let prompts = (case.concurrency * rule.per_concurrency).clamp(rule.min, rule.max.max(rule.min));
            add(&["--num-prompts", &prompts.to_string()]);
            let _ = (client.remove("num_prompts"), client.remove("num-prompts"));
        }
        add(&["--metadata"]);
        let upstream =
            [("tensor_parallel_size", Some("1")), ("compilation_config.mode", None), ("optimization_level", None)];
        // The table reads it from the server's command, which the simulator does not have.
        let stages = matches!(self.server, ServerKind::Simulator { .. }).then_some(("pipeline_parallel_size", None));
        for (key, preset) in upstream.into_iter().chain(stages) {
            if let Some(text) = test.engine.get(key).map(python_str).or(preset.map(str::to_owned)) {
                add(&[&format!("{key}={text}")]);
            }
        }
        if case.adaptive {
            add(&["adaptive_search=1"]);
        }
        command.extend(args(&client).unwrap_or_default());
        if let ServerKind::Running(remote) = &self.server {
            command.push(format!("--host={}", remote.host));
            command.extend(remote.port.as_ref().map(|port| format!("--port={port}")));
        }
        command
    }
}

impl Suite<'_> {
    pub(super) fn serving(&mut self, test: &Test) -> Result<(), Error> {
        let model = test.model.as_deref().unwrap_or_default();
        if let Some(other) = test.client.text("model").filter(|other| *other != model) {
            let reason = format!("the client's model {other} is not the server's {model}");
            self.say(format!("Skipping {}: {reason}", test.name));
            return Ok(());
        }
        let command = self.plan.server_command(test);
        self.say(format!("Running test case {}", test.name));
        if !matches!(self.plan.server, ServerKind::Running(_)) {
            self.say(format!("Server command: {}", line_with(&test.variables, &command)));
        }
        let log = self.plan.directory.join(format!("{}_server.log", test.name));
        let mut slot = Slot::new(command.clone(), test.variables.clone(), log);
        let server = line_with(&test.variables, &command);
        for rate in &test.rates {
            let mut known = Vec::new();
            for &concurrency in &test.concurrencies {
                let case = Case { rate, concurrency, adaptive: false };
                known.extend(self.case(test, &case, &server, &mut slot)?.map(|passes| (concurrency, passes)));
            }
            if !self.plan.dry_run {
                self.adapt(test, rate, known, &server, &mut slot)?;
            }
        }
        Ok(())
    }

    /// Runs one load; returns the verdict on it if levels are refined.
    fn case(&mut self, test: &Test, case: &Case<'_>, server: &str, slot: &mut Slot) -> Result<Option<bool>, Error> {
        let name = test.case_name(case.rate, case.concurrency);
        let output = self.plan.output(&name);
        let client = self.plan.client_command(test, case);
        self.say(format!("Running test case {name}"));
        self.say(format!("Client command: {}", line(&client)));
        if !self.plan.dry_run
            && let Some(result) = self.tools.archive.result(&output)
        {
            self.found(&output)?;
            return Ok(self.plan.verdict(&result));
        }
        let commands = [("server_command", server.to_owned()), ("client_command", line(&client))];
        self.keep_commands(&name, &commands, case.adaptive)?;
        if self.plan.dry_run {
            return Ok(None);
        }
        let plan = self.plan;
        let after = |address: Option<&str>| {
            plan.after.as_ref().map_or(Ok(()), |after| after.act(&plan.supervised, address, self.tools.sink))
        };
        let own = (!matches!(plan.server, ServerKind::Running(_))).then_some(&mut *slot);
        let measured = self.measure(own, &Point { after: &after, ..self.point(&client, &output) });
        let measured = measured.map_err(|stop| match stop {
            Stop::Server(Failure { kind, text }) if slot.log().exists() => {
                Failure { kind, text: format!("{text}; see {}", slot.log().display()) }
            }
            stop => stop.into_failure(),
        });
        Ok(self.conclude(&name, measured)?.and_then(|result| plan.verdict(&result)))
    }

    /// Refines the levels of one rate and records the result.
    fn adapt(
        &mut self,
        test: &Test,
        rate: &str,
        mut known: Vec<(u64, bool)>,
        server: &str,
        slot: &mut Slot,
    ) -> Result<(), Error> {
        let Some(spec) = self.plan.adaptive else { return Ok(()) };
        let listed = Bounds::of(&known);
        refine(&spec, &test.concurrencies, &mut known, |concurrency| {
            self.case(test, &Case { rate, concurrency, adaptive: true }, server, slot)
        })?;
        let found = Bounds::of(&known);
        let mut summary = tacho_core::dict! {
            "test_name": test.name.as_str(),
            "qps": rate,
            "sla_ttft_ms": spec.ttft_ms,
            "sla_tpot_ms": spec.tpot_ms,
        };
        for (which, Bounds { last_pass, first_fail }) in [("static", listed), ("final", found)] {
            summary.set(format!("{which}_last_pass"), Value::from(last_pass));
            summary.set(format!("{which}_first_fail"), Value::from(first_fail));
        }
        let Bounds { last_pass, first_fail } = found;
        let [pass, fail] = [last_pass, first_fail]
            .map(|level: Option<u64>| level.map_or_else(|| "none".to_owned(), |level| level.to_string()));
        let name = &test.name;
        self.say(format!("{name} at qps {rate}: the limits are kept up to {pass}, first broken at {fail}"));
        let path = self.plan.directory.join(format!("{}_qps_{rate}_sla_summary.json", test.name));
        self.tools.archive.keep(&path, &Value::Dict(summary), Style::Result).map_err(Error::Ended)
    }
}
