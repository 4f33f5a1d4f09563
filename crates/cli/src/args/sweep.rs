//! Flags of `tacho sweep serve`, `serve_workload`, `serve_sla` and `startup`.

pub(crate) mod plot;
pub(crate) mod plot_pareto;
mod table;

pub(crate) use table::{OutputArgs, SERVE, SERVE_SLA, SERVE_WORKLOAD, STARTUP, StartupSweepArgs};
use table::{SlaFlags, SweepFlags, WorkloadFlags};

use tacho_args::declare::*;
use tacho_run::sweep::LoadVariable;

use super::compare::missing;
use super::error::{ArgError, ArgumentError};

#[derive(Debug, Clone)]
pub(crate) struct SweepArgs {
    pub(crate) kind: SweepKind,
    pub(crate) bench_cmd: String,
    pub(crate) flags: SweepFlags,
}

#[derive(Debug, Clone)]
pub(crate) enum SweepKind {
    /// The Cartesian product of the sets.
    Serve,
    /// Load levels; `label` is their console name.
    Workload { variable: LoadVariable, iterations: usize, label: &'static str },
    /// The maximum load that meets the SLOs.
    Sla { variable: LoadVariable, params: String, tolerance: f64, seconds: Option<f64>, budget: f64 },
}

impl OutputArgs {
    fn check(&self) -> Result<(), ArgumentError> {
        match (&self.experiment_name, self.resume.iter().flatten().next()) {
            (Some(named), Some(resumed)) if named != resumed => {
                Err(ArgumentError::Together { flag: "--experiment-name", other: "--resume NAME" })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn name(&self) -> Option<&String> {
        self.experiment_name.iter().chain(self.resume.iter().flatten()).next()
    }
}

impl SweepArgs {
    pub(crate) fn serve(v: &Values) -> Result<Self, ArgError> {
        Self::new(v.into(), &SERVE, SweepKind::Serve)
    }

    pub(crate) fn serve_workload(v: &Values) -> Result<Self, ArgError> {
        let WorkloadFlags { workload_var: variable, workload_iters: iterations } = v.into();
        Self::new(v.into(), &SERVE_WORKLOAD, SweepKind::Workload { variable, iterations, label: "WL" })
    }

    /// Arguments of `tacho sweep serve_sla`, which searches or explores levels.
    pub(crate) fn serve_sla(v: &Values) -> Result<Self, ArgError> {
        let sla = SlaFlags::from(v);
        let variable = sla.sla_variable;
        let kind = match sla.sla_params {
            Some(params) => SweepKind::Sla {
                variable,
                params,
                tolerance: sla.sla_tolerance,
                seconds: sla.sla_seconds,
                budget: sla.sla_budget,
            },
            None if sla.sla_iters.is_set => {
                SweepKind::Workload { variable, iterations: sla.sla_iters.value, label: "SLA" }
            }
            None => return Err(missing(&SERVE_SLA, "--sla-params")),
        };
        let mut flags = SweepFlags::from(v);
        let runs = &mut flags.output.num_runs;
        if matches!(kind, SweepKind::Sla { .. }) && !runs.is_set && !flags.output.dry_run {
            // A search repeats points as needed.
            runs.value = 1;
        }
        Self::new(flags, &SERVE_SLA, kind)
    }

    fn new(flags: SweepFlags, table: &Table, kind: SweepKind) -> Result<Self, ArgError> {
        let starts = flags.serve_cmd.is_some() || flags.sim;
        let bench_cmd = match &flags.bench_cmd {
            None if !starts => return Err(missing(table, "--serve-cmd, --bench-cmd")),
            None => return Err(missing(table, "--bench-cmd")),
            Some(bench_cmd) => bench_cmd.clone(),
        };
        if !starts && !names_server(&bench_cmd) {
            return Err(ArgumentError::other(
                "--serve-cmd is missing: pass the command that starts the server, or name one that runs already with \
                 --base-url in --bench-cmd",
            )
            .into());
        }
        if !starts && flags.serve_params.is_some() {
            return Err(ArgumentError::other(
                "--serve-params needs --serve-cmd: the settings of a server that runs already cannot be changed",
            )
            .into());
        }
        flags.output.check()?;
        Ok(SweepArgs { kind, bench_cmd, flags })
    }
}

/// Whether a client's command says where its server is.
fn names_server(command: &str) -> bool {
    let names = ["--base-url", "--host", "--port"];
    let mut args = command.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
    args.any(|word| names.contains(&word.split('=').next().unwrap_or(word)))
}

impl StartupSweepArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let args = StartupSweepArgs::from(v);
        args.output.check()?;
        Ok(args)
    }
}
