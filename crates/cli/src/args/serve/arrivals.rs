//! Classes with arrival processes of their own: a rate or stages in each `--class`.

use tacho_loadgen::{Merged, ScheduleSpec};

use super::{ClassArgs, ServeArgs};
use crate::args::error::ArgumentError;

/// What gives a class its own arrivals.
const PROCESS: [&str; 2] = ["--request-rate", "--stages"];
/// What only changes such arrivals.
const DETAILS: [&str; 2] = ["--burstiness", "--num-prompts"];
/// Flags of the whole run that would set the times again.
const OF_RUN: [&str; 6] =
    ["--request-rate", "--stages", "--ramp-up-strategy", "--sweep-request-rate", "--sweep-max-concurrency", "--until"];

/// The arrival process of a class with its number of requests.
type Process = (ScheduleSpec, usize);

/// The processes of the classes; none if they share the schedule of the run.
pub(super) fn read(run: &ServeArgs, classes: &[ClassArgs]) -> Result<Vec<Process>, ArgumentError> {
    let owns = |class: &ClassArgs| class.class_flags.set_of(PROCESS).next().is_some();
    for class in classes {
        class.check(owns(class)).map_err(|problem| class_error(class, &problem))?;
    }
    if !classes.iter().any(owns) {
        return Ok(Vec::new());
    }
    if let Some(class) = classes.iter().find(|class| !owns(class)) {
        let problem = "another class has its own arrivals: give this one --request-rate or --stages too";
        return Err(class_error(class, problem));
    }
    if let Some(flag) = run.values.set_of(OF_RUN).next() {
        return Err(ArgumentError::Together { flag, other: "a class with --request-rate or --stages" });
    }
    let seconds = seconds(run, classes)?;
    classes.iter().map(|class| class.process(seconds).map_err(|problem| class_error(class, &problem))).collect()
}

fn class_error(class: &ClassArgs, problem: &str) -> ArgumentError {
    ArgumentError::other(format!("--class '{}': {problem}", class.name))
}

/// How long a class without stages and a number of its own sends: the duration of the run, that of the longest stages, or
/// the time in which all classes together send the number of requests of the run.
fn seconds(run: &ServeArgs, classes: &[ClassArgs]) -> Result<f64, ArgumentError> {
    let staged = classes.iter().filter_map(|class| class.args.stages.stages.as_ref());
    let staged = staged.map(tacho_loadgen::Stages::seconds).fold(0.0, f64::max);
    if staged > 0.0 && run.values.is_set("--num-prompts") {
        return Err(ArgumentError::Together { flag: "--num-prompts", other: "stages in a class" });
    }
    let rate: f64 = classes.iter().map(|class| class.args.load.request_rate).filter(|rate| rate.is_finite()).sum();
    Ok(match run.stops.duration {
        Some(duration) => duration.as_secs_f64(),
        None if staged > 0.0 => staged,
        None => run.load.num_prompts as f64 / rate,
    })
}

impl ClassArgs {
    fn check(&self, own_process: bool) -> Result<(), String> {
        let details = self.class_flags.set_of(DETAILS).next();
        if let Some(flag) = details.filter(|_| !own_process) {
            return Err(format!(
                "{flag} in a class needs --request-rate there: add it, or move {flag} out of the class"
            ));
        }
        if !own_process {
            return Ok(());
        }
        if self.weight.is_some() {
            return Err("it has its own arrivals, so a weight has no effect: write NAME: FLAGS".to_owned());
        }
        if self.args.stages.stages.is_some() {
            let clash = ["--request-rate", "--num-prompts"].into_iter().find(|flag| self.class_flags.is_set(flag));
            if let Some(flag) = clash {
                return Err(format!("use {flag} or --stages, not both"));
            }
            if self.args.stages.is_closed_loop() {
                return Err("a concurrency limit in its --stages is not supported: use rates".to_owned());
            }
            if self.args.stages.vary_requests() {
                return Err("its stages cannot have lengths or a dataset of their own: use another class".to_owned());
            }
        }
        Ok(())
    }

    fn process(&self, seconds: f64) -> Result<Process, String> {
        let load = &self.args.load;
        if let Some(stages) = &self.args.stages.stages {
            return Ok((ScheduleSpec::Stages(stages.clone()), stages.requests()));
        }
        let count = if self.class_flags.is_set("--num-prompts") {
            load.num_prompts.max(0) as f64
        } else if load.request_rate.is_finite() {
            (load.request_rate * seconds).round()
        } else {
            return Err(
                "--request-rate inf sends all of its requests at once: add --num-prompts to the class".to_owned()
            );
        };
        if !(1.0..=super::stages::MAX_REQUESTS as f64).contains(&count) {
            let max = super::stages::MAX_REQUESTS;
            return Err(format!("it sends {count} requests: change its rate or the duration for 1 to {max}"));
        }
        let spec = ScheduleSpec::Rate { rate: load.request_rate, burstiness: load.burstiness.value };
        Ok((spec, count as usize))
    }
}

impl ServeArgs {
    pub(crate) fn arrivals(&self) -> &[Process] {
        &self.arrivals
    }

    /// The schedule of classes with their own arrivals, for the current seed.
    pub(crate) fn merged(&self) -> anyhow::Result<Option<Merged>> {
        let seed = u32::try_from(self.load.seed)?;
        Ok((!self.arrivals.is_empty()).then(|| Merged::new(&self.arrivals, seed)).transpose()?)
    }
}
