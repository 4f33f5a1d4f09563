//! Flags of `tacho sweep serve`, `serve_workload`, `serve_sla` and `startup`.

pub(crate) mod plot;
pub(crate) mod plot_pareto;
mod table;

pub(crate) use table::{SERVE, SERVE_SLA, SERVE_WORKLOAD, STARTUP};

use tacho_args::flag::Table;
use tacho_args::grammar::Values;
use tacho_run::sweep::LoadVariable;

use super::error::{ArgError, Refusal, UsageError};
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

/// Which of the sweeps over servers and clients.
#[derive(Debug, Clone)]
pub(crate) enum SweepKind {
    /// The product of the sets.
    Serve,
    /// Load levels; `label` is what the console calls them.
    Workload { variable: LoadVariable, iterations: usize, label: &'static str },
    /// The largest load that meets targets.
    Sla { variable: LoadVariable, params: String, tolerance: f64, seconds: Option<f64>, budget: f64 },
}

/// Where results go and how often things run.
#[derive(Debug, Clone)]
pub(crate) struct PlaceArgs {
    pub(crate) output_dir: String,
    pub(crate) experiment_name: Option<String>,
    pub(crate) num_runs: usize,
    pub(crate) show_stdout: bool,
    pub(crate) dry_run: bool,
    pub(crate) resume: bool,
    /// What is shown meanwhile.
    pub(crate) live: LiveArgs,
}

/// `tacho sweep startup`.
#[derive(Debug, Clone)]
pub(crate) struct StartupSweepArgs {
    /// `None` when it was left to the default.
    pub(crate) startup_cmd: Option<String>,
    pub(crate) serve_params: Option<String>,
    pub(crate) startup_params: Option<String>,
    pub(crate) strict_params: bool,
    pub(crate) place: PlaceArgs,
}

/// A number that its row keeps from being negative.
fn count(v: &Values, flag: &str) -> usize {
    usize::try_from(v.int(flag)).unwrap_or_default()
}

impl TryFrom<&Values> for PlaceArgs {
    type Error = Refusal;

    fn try_from(v: &Values) -> Result<Self, Refusal> {
        let resume = v.get("--resume");
        let named = v.maybe_text("-e");
        if let (Some(named), Some(resumed)) = (named.as_deref(), resume.as_str())
            && named != resumed
        {
            return Err(Refusal::Together { flag: "--experiment-name", other: "--resume NAME" });
        }
        let live = LiveArgs::with_output(v)?;
        Ok(PlaceArgs {
            live,
            output_dir: v.text("-o"),
            experiment_name: named.or_else(|| resume.as_str().map(str::to_owned)),
            num_runs: count(v, "--num-runs"),
            show_stdout: v.switch("--show-stdout"),
            dry_run: v.switch("--dry-run"),
            resume: resume.truthy(),
        })
    }
}

fn variable(v: &Values, flag: &str) -> LoadVariable {
    if v.text(flag) == "max_concurrency" { LoadVariable::MaxConcurrency } else { LoadVariable::RequestRate }
}

impl SweepArgs {
    /// `tacho sweep serve`.
    pub(crate) fn serve(v: &Values) -> Result<Self, ArgError> {
        Self::new(v, &SERVE, SweepKind::Serve)
    }

    /// `tacho sweep serve_workload`.
    pub(crate) fn serve_workload(v: &Values) -> Result<Self, ArgError> {
        let (variable, iterations) = (variable(v, "--workload-var"), count(v, "--workload-iters"));
        Self::new(v, &SERVE_WORKLOAD, SweepKind::Workload { variable, iterations, label: "WL" })
    }

    /// `tacho sweep serve_sla`, in its searching form or the one that explores levels.
    pub(crate) fn serve_sla(v: &Values) -> Result<Self, ArgError> {
        let variable = variable(v, "--sla-variable");
        let kind = match v.maybe_text("--sla-params") {
            Some(params) => {
                let (tolerance, seconds) = (v.float("--sla-tolerance"), v.maybe_float("--sla-seconds"));
                let budget = v.float("--sla-budget");
                SweepKind::Sla { variable, params, tolerance, seconds, budget }
            }
            None if v.is_given("--sla-iters") => {
                SweepKind::Workload { variable, iterations: count(v, "--sla-iters"), label: "SLA" }
            }
            None => return Err(missing(&SERVE_SLA, "--sla-params")),
        };
        let searches = matches!(kind, SweepKind::Sla { .. });
        let mut args = Self::new(v, &SERVE_SLA, kind)?;
        if searches && !v.is_given("--num-runs") && !args.place.dry_run {
            // A search repeats what needs it.
            args.place.num_runs = 1;
        }
        Ok(args)
    }

    fn new(v: &Values, table: &Table, kind: SweepKind) -> Result<Self, ArgError> {
        let (serve_cmd, bench_cmd, sim) = (v.maybe_text("--serve-cmd"), v.maybe_text("--bench-cmd"), v.switch("--sim"));
        let bench_cmd = match (&serve_cmd, bench_cmd) {
            (None, None) if !sim => return Err(missing(table, "--serve-cmd, --bench-cmd")),
            (_, None) => return Err(missing(table, "--bench-cmd")),
            (None, _) if !sim => return Err(missing(table, "--serve-cmd")),
            (_, Some(bench_cmd)) => bench_cmd,
        };
        Ok(SweepArgs {
            kind,
            serve_cmd,
            bench_cmd,
            after_bench_cmd: v.maybe_text("--after-bench-cmd"),
            server_ready_timeout: count(v, "--server-ready-timeout") as u64,
            serve_params: v.maybe_text("--serve-params"),
            bench_params: v.maybe_text("--bench-params"),
            link_vars: v.text("--link-vars"),
            warmup_num_prompts: count(v, "--warmup-num-prompts"),
            continue_on_error: v.switch("--continue-on-error"),
            sim,
            place: PlaceArgs::try_from(v)?,
            ranks: RankArgs::from(v),
        })
    }
}

impl StartupSweepArgs {
    /// `tacho sweep startup`.
    pub(crate) fn new(v: &Values) -> Result<Self, ArgError> {
        Ok(StartupSweepArgs {
            startup_cmd: v.is_given("--startup-cmd").then(|| v.text("--startup-cmd")),
            serve_params: v.maybe_text("--serve-params"),
            startup_params: v.maybe_text("--startup-params"),
            strict_params: v.switch("--strict-params"),
            place: PlaceArgs::try_from(v)?,
        })
    }
}

fn missing(table: &Table, what: &'static str) -> ArgError {
    ArgError::Usage { command: table.command, error: UsageError::Missing { what: what.to_owned() } }
}
