//! Flags of `tacho sweep serve`, `serve_workload`, `serve_sla` and `startup`.

pub(crate) mod plot;
pub(crate) mod plot_pareto;
mod table;

use table::{PlaceFlags, SlaFlags, StartupFlags, SweepFlags, WorkloadFlags};
pub(crate) use table::{SERVE, SERVE_SLA, SERVE_WORKLOAD, STARTUP};

use tacho_args::Values;
use tacho_args::flag::Table;
use tacho_run::sweep::LoadVariable;

use super::compare::missing;
use super::error::{ArgError, Refusal};
use super::live::LiveArgs;
use super::ranks::RankArgs;

/// A sweep over servers and clients.
#[derive(Debug, Clone)]
pub(crate) struct SweepArgs {
    pub(crate) kind: SweepKind,
    pub(crate) serve_cmd: Option<String>,
    pub(crate) bench_cmd: String,
    pub(crate) after_bench_cmd: Option<String>,
    /// Seconds.
    pub(crate) server_ready_timeout: u64,
    pub(crate) serve_params: Option<String>,
    pub(crate) bench_params: Option<String>,
    pub(crate) link_vars: String,
    pub(crate) warmup_num_prompts: usize,
    pub(crate) continue_on_error: bool,
    pub(crate) sim: bool,
    pub(crate) place: PlaceArgs,
    pub(crate) ranks: RankArgs,
}

/// The kinds of sweeps over servers and clients.
#[derive(Debug, Clone)]
pub(crate) enum SweepKind {
    /// The Cartesian product of the sets.
    Serve,
    /// Load levels; `label` is their console name.
    Workload { variable: LoadVariable, iterations: usize, label: &'static str },
    /// The maximum load that meets the SLOs.
    Sla { variable: LoadVariable, params: String, tolerance: f64, seconds: Option<f64>, budget: f64 },
}

/// Output directory and repetitions.
#[derive(Debug, Clone)]
pub(crate) struct PlaceArgs {
    pub(crate) output_dir: String,
    pub(crate) experiment_name: Option<String>,
    pub(crate) num_runs: usize,
    pub(crate) show_stdout: bool,
    pub(crate) dry_run: bool,
    pub(crate) resume: bool,
    /// Live view.
    pub(crate) live: LiveArgs,
}

/// Arguments of `tacho sweep startup`.
#[derive(Debug, Clone)]
pub(crate) struct StartupSweepArgs {
    /// `None` means the default.
    pub(crate) startup_cmd: Option<String>,
    pub(crate) serve_params: Option<String>,
    pub(crate) startup_params: Option<String>,
    pub(crate) strict_params: bool,
    pub(crate) place: PlaceArgs,
}

impl PlaceArgs {
    fn new(flags: PlaceFlags) -> Result<Self, Refusal> {
        let resumed = flags.resume.clone().flatten();
        if let (Some(named), Some(resumed)) = (&flags.experiment_name, &resumed)
            && named != resumed
        {
            return Err(Refusal::Together { flag: "--experiment-name", other: "--resume NAME" });
        }
        Ok(PlaceArgs {
            live: flags.live.with_output(flags.show_stdout)?,
            output_dir: flags.output_dir,
            experiment_name: flags.experiment_name.or(resumed),
            num_runs: flags.num_runs.value,
            show_stdout: flags.show_stdout,
            dry_run: flags.dry_run,
            resume: flags.resume.is_some(),
        })
    }
}

impl SweepArgs {
    /// Arguments of `tacho sweep serve`.
    pub(crate) fn serve(v: &Values) -> Result<Self, ArgError> {
        Self::new(v.into(), &SERVE, SweepKind::Serve)
    }

    /// Arguments of `tacho sweep serve_workload`.
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
            None if sla.sla_iters.is_given => {
                SweepKind::Workload { variable, iterations: sla.sla_iters.value, label: "SLA" }
            }
            None => return Err(missing(&SERVE_SLA, "--sla-params")),
        };
        let mut flags = SweepFlags::from(v);
        let runs = &mut flags.place.num_runs;
        if matches!(kind, SweepKind::Sla { .. }) && !runs.is_given && !flags.place.dry_run {
            // A search repeats points as needed.
            runs.value = 1;
        }
        Self::new(flags, &SERVE_SLA, kind)
    }

    fn new(flags: SweepFlags, table: &Table, kind: SweepKind) -> Result<Self, ArgError> {
        let bench_cmd = match (&flags.serve_cmd, flags.bench_cmd) {
            (None, None) if !flags.sim => return Err(missing(table, "--serve-cmd, --bench-cmd")),
            (_, None) => return Err(missing(table, "--bench-cmd")),
            (None, _) if !flags.sim => return Err(missing(table, "--serve-cmd")),
            (_, Some(bench_cmd)) => bench_cmd,
        };
        Ok(SweepArgs {
            kind,
            serve_cmd: flags.serve_cmd,
            bench_cmd,
            after_bench_cmd: flags.after_bench_cmd,
            server_ready_timeout: flags.server_ready_timeout,
            serve_params: flags.serve_params,
            bench_params: flags.bench_params,
            link_vars: flags.link_vars,
            warmup_num_prompts: flags.warmup_num_prompts,
            continue_on_error: flags.continue_on_error,
            sim: flags.sim,
            place: PlaceArgs::new(flags.place)?,
            ranks: flags.ranks,
        })
    }
}

impl StartupSweepArgs {
    /// Arguments of `tacho sweep startup`.
    pub(crate) fn new(v: &Values) -> Result<Self, ArgError> {
        let flags = StartupFlags::from(v);
        Ok(StartupSweepArgs {
            startup_cmd: flags.startup_cmd.typed().cloned(),
            serve_params: flags.serve_params,
            startup_params: flags.startup_params,
            strict_params: flags.strict_params,
            place: PlaceArgs::new(flags.place)?,
        })
    }
}
