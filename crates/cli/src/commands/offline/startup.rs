//! `tacho startup`: start-up time of an engine.

use tacho_report::Progress;
use tacho_run::offline::{PlanKind, StartupPlan};

use super::{Bench, Session};
use crate::args::offline::Backend;
use crate::args::offline::startup::StartupArgs;
use crate::exit::Exit;

pub(crate) fn run(args: &StartupArgs) -> anyhow::Result<Exit> {
    let session = Session::open(&args.common, args.common.backend(Backend::Vllm), Progress::Shown)?;
    let plan = StartupPlan { cold: args.num_iters_cold, warmups: args.num_iters_warmup, warm: args.num_iters_warm };
    session.run(Bench::new("startup", &args.common, PlanKind::Startup(plan)))
}
