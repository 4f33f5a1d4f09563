//! Maps session flags to the run's plan.

use std::path::{Path, PathBuf};

use tacho_client::BackendKind;
use tacho_run::serve::{SessionSource, SessionStart, SessionsPlan};
use tacho_workload::has_sessions;
use tacho_workload::sessions::{Format, InProgress, Options, SyntheticSpec, ThinkTime};

use super::workload::source;
use crate::args::serve::{MultiTurnFlags, ServeArgs};
use crate::{commands::convert::trace_format, exit::misused};

/// The sessions of the run: from a file, from a saved workload, or generated.
pub(super) fn plan(args: &ServeArgs) -> anyhow::Result<Option<SessionsPlan>> {
    let flags = &args.sessions;
    let mut scaling = args.scaling();
    let conversations = args.multi_turn();
    let source = match (file(args)?, &conversations) {
        (Some(source), _) => source,
        (None, Some(made)) => {
            let source = multi_turn(args, made)?;
            if made.is_sharegpt() {
                let count = usize::try_from(args.load.num_prompts)?;
                scaling.sample = Some((count, args.load.seed.unsigned_abs()));
                scaling.repeat_to = Some(count);
                scaling.min_turns = Some(2.max(usize::try_from(made.turns.0)?));
                scaling.max_turns = made.capped.then(|| usize::try_from(made.turns.1)).transpose()?;
            }
            source
        }
        (None, None) => return Ok(None),
    };
    if flags.server_history && args.target.backend() != BackendKind::OpenAiResponses {
        misused!("--server-history needs a server that keeps answers: use --backend openai-responses");
    }
    scaling.check()?;
    let sharegpt_pause = conversations.filter(|made| made.is_sharegpt() && made.delay_ms > 0.0);
    let think = flags.think_time.as_deref().and_then(ThinkTime::parse);
    Ok(Some(SessionsPlan {
        source,
        scaling,
        think: think.or(sharegpt_pause.map(|made| ThinkTime::Constant(made.delay_ms / 1000.0))),
        tool_latency: flags.tool_latency.as_deref().and_then(ThinkTime::parse),
        start: start(args),
        max_sessions: flags.concurrency,
        ramp: flags.ramp_up,
        warmup: flags.warmup,
        in_progress: flags.in_progress.as_deref().map(|cache| in_progress(args, cache)),
        on_failure: flags.on_failure,
        server_history: flags.server_history,
        output_len: flags.output_len,
    }))
}

fn file(args: &ServeArgs) -> anyhow::Result<Option<SessionSource>> {
    let flags = &args.sessions;
    let saved = args.tacho.workload.as_ref().filter(|path| has_sessions(Path::new(path)));
    let Some(path) = flags.file.as_ref().or(saved) else { return Ok(None) };
    let format = flags.format.as_deref().map(|name| trace_format("--sessions-format", name)).transpose()?;
    let options = Options::parse(flags.options.iter().map(String::as_str))?;
    let format = saved.map(|_| Format::Model).or(format);
    Ok(Some(SessionSource::File { path: PathBuf::from(path), format, options }))
}

fn multi_turn(args: &ServeArgs, made: &MultiTurnFlags) -> anyhow::Result<SessionSource> {
    if made.is_sharegpt() {
        let path = PathBuf::from(args.dataset.path.clone().unwrap_or_default());
        return Ok(SessionSource::File { path, format: Some(Format::ShareGpt), options: Options::default() });
    }
    if made.is_shared_prefix() {
        return Ok(SessionSource::SharedPrefix(source(args).shared_prefix()));
    }
    let tokens = |count: i64| u64::try_from(count);
    let input_len = tokens(args.dataset.input_len())?;
    Ok(SessionSource::Made(SyntheticSpec {
        conversations: usize::try_from(args.load.num_prompts)?,
        turns: (usize::try_from(made.turns.0)?, usize::try_from(made.turns.1)?),
        input_len,
        later_len: if made.later_len == 0 { input_len } else { tokens(made.later_len)? },
        output_len: tokens(args.dataset.output_len())?,
        prefix_len: tokens(args.dataset.flags.random_prefix_len.value)?,
        shared: made.shared,
        delay_ms: made.delay_ms,
        max_len: args.load.max_model_len,
        seed: u32::try_from(args.load.seed)?,
    }))
}

/// Start times of sessions. Conversations of a dataset have no timestamps and start immediately.
fn start(args: &ServeArgs) -> SessionStart {
    let flags = &args.sessions;
    match (flags.users, flags.user_rate, flags.rate) {
        (Some(users), Some(rate), _) => SessionStart::Users { users, rate },
        (_, _, Some(rate)) => SessionStart::Rate { rate, burstiness: args.load.burstiness.value },
        _ => SessionStart::Recorded,
    }
}

/// As many sessions as run at the same time.
fn in_progress(args: &ServeArgs, cache: &str) -> InProgress {
    let sessions = [args.sessions.concurrency, args.sessions.users].into_iter().flatten().min().unwrap_or(0);
    InProgress { sessions, warm: cache == "warm" }
}
