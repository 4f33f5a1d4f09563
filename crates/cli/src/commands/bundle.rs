//! `tacho bundle`: packs a result with what supports it.

pub(super) mod opened;
pub(super) mod plan;
pub(super) mod reproduce;
pub(super) mod verify;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tacho_core::files::{read_data, read_settings_text};
use tacho_core::json::{Dict, Value, dumps};
use tacho_core::secret::redact_known;
use tacho_record::bundle::{LOG, RESULT, SELFCHECK, Signer, WORKLOAD, pack};
use tacho_record::restored::{provenance, restored};
use tacho_record::{Provenance, ResultKind, zip::Member};
use tacho_report::json::{Detail, ResultFile, write_whole};
use tacho_report::results;
use tacho_rowlog::Stored;
use tacho_run::serve::{Contact, prepare, save_workload, workload_digest};

use self::plan::{Recipe, Source};
use super::{compare::sides::log_of, selfcheck, serve};
use crate::exit::{Exit, note, saved};
use crate::{args::bundle::BundleArgs, args::program::build, args::selfcheck::SelfcheckArgs};

pub(crate) fn run(args: &BundleArgs) -> anyhow::Result<Exit> {
    let path = &args.run[0];
    let target = args.output.clone().unwrap_or_else(|| path.with_extension("tacho.zip"));
    let signer = args.sign.as_deref().map(signer).transpose()?;
    let run = Run::find(path)?;
    let mut members = vec![Member { name: RESULT.to_owned(), content: run.result_bytes()? }];
    if let Some(log) = &run.log {
        members.extend(log_members(log)?);
    }
    members.iter().try_for_each(refuse_secrets)?;
    if !args.no_workload {
        match run.workload(args.workload.as_deref()) {
            Ok(member) => members.push(member),
            Err(error) if args.workload.is_some() => return Err(error),
            Err(error) => {
                let is_endless = matches!(error.downcast_ref(), Some(tacho_run::Error::EndlessWorkload));
                let remedy = if is_endless { "" } else { ". Save them with --save-workload, and pass --workload FILE" };
                note(&format!("warning: the bundle has no requests: {error:#}{remedy}"));
            }
        }
    }
    if let Some(file) = &args.selfcheck {
        members.push(Member { name: SELFCHECK.to_owned(), content: self_checked(file.as_deref().map(Path::new))? });
    }
    let bytes = pack(&members, &build(), &jiff::Timestamp::now().to_string(), signer.as_ref());
    write_whole(&target, |out| out.write_all(&bytes))?;
    saved(&target);
    Ok(Exit::Done)
}

fn signer(path: &Path) -> anyhow::Result<Signer> {
    let named = || format!("--sign {}", path.display());
    Signer::from_pem(&read_settings_text(path).with_context(named)?).with_context(named)
}

/// A result and its log.
struct Run {
    result: Dict,
    /// The result file as it is; `None` if it is made from the log.
    file: Option<PathBuf>,
    log: Option<PathBuf>,
}

impl Run {
    fn find(path: &Path) -> anyhow::Result<Self> {
        if !path.exists() {
            bail!("{} does not exist: pass a result file or the directory of a log", path.display());
        }
        if Stored::is_log(path) {
            let record = opened::of_log(path)?;
            let result = ResultFile::new(&record, Detail::Brief).to_dict();
            return Ok(Run { result, file: None, log: Some(path.to_owned()) });
        }
        if path.is_dir() {
            bail!(
                "{}: it is a directory without a log; pass a result, or a directory that --log wrote",
                path.display()
            );
        }
        let dicts = results::read(path)?;
        let [result] = dicts.as_slice() else {
            bail!("{} holds {} results: a bundle is of one run", path.display(), dicts.len());
        };
        if ResultKind::of(result) != Some(ResultKind::Serving) || result.get("tacho").is_none() {
            bail!("{} is not the result of a serving run of tacho", path.display());
        }
        let log = log_of(path, result);
        if log.is_none() && restored(result, |_| ())?.is_none() {
            bail!(
                "{} has no rows: its log is not next to it, and it was saved without --save-detailed; pass the log itself",
                path.display()
            );
        }
        Ok(Run { result: result.clone(), file: Some(path.to_owned()), log })
    }

    fn result_bytes(&self) -> anyhow::Result<Vec<u8>> {
        Ok(match &self.file {
            Some(path) => read_data(path).with_context(|| format!("cannot use {}", path.display()))?,
            None => dumps(&Value::Dict(self.result.clone())).into_bytes(),
        })
    }

    fn digest(&self) -> Option<&str> {
        self.result.get("tacho")?.get("workload")?.as_str()
    }

    /// The requests: from the given file, from that of the run's command, or made again.
    fn workload(&self, given: Option<&Path>) -> anyhow::Result<Member> {
        let provenance = provenance(&self.result);
        let content = match (given, self.named_in(&provenance)) {
            (Some(path), _) => self.of_file(path).with_context(|| path.display().to_string())?,
            (None, Some(path)) => self.of_file(&path).or_else(|_| self.made_again(&provenance))?,
            (None, None) => self.made_again(&provenance)?,
        };
        Ok(Member { name: WORKLOAD.to_owned(), content })
    }

    /// The requests in a file, if they are those of the run.
    fn of_file(&self, path: &Path) -> anyhow::Result<Vec<u8>> {
        let content = read_data(path)?;
        let member = Member { name: WORKLOAD.to_owned(), content };
        // Before its settings are used: from then on, all its headers count as secrets.
        refuse_secrets(&member)?;
        let found = plan::digest_of(path)?;
        match self.digest() {
            Some(stated) if stated != found => bail!("its requests have digest {found}, and those of the run {stated}"),
            _ => {}
        }
        let kept = plan::headers_of(path)?.1;
        let names: Vec<&str> = kept.iter().filter_map(|text| text.split('=').next()).collect();
        if !names.is_empty() {
            note(&format!("warning: the bundle has the values of {}: --no-workload leaves them out", names.join(", ")));
        }
        Ok(member.content)
    }

    /// The file with the requests that the command of the run wrote or read.
    fn named_in(&self, provenance: &Provenance) -> Option<PathBuf> {
        let values = plan::recorded(provenance.command.as_deref()?).ok()?;
        let path = |flag: &str| values.get(flag).as_str().map(PathBuf::from).filter(|path| path.is_file());
        path("--save-workload").or_else(|| path("--workload"))
    }

    /// The requests of a synthetic dataset, from the flags and the seed.
    fn made_again(&self, provenance: &Provenance) -> anyhow::Result<Vec<u8>> {
        let model = self.result.get("model_id").and_then(Value::as_str).unwrap_or_default();
        let recipe = Recipe::of(provenance, model)?;
        let source = Source::Recipe(Box::new(recipe));
        let plan = source.plan(&opened::offline_hub())?;
        let prepared = prepare(&plan, Contact::Minimal, &())?;
        let found = workload_digest(&plan, &prepared)?;
        if self.digest().is_some_and(|stated| stated != found) {
            bail!("the flags and the seed make requests with digest {found}, and the run had others");
        }
        let directory = tempfile::tempdir()?;
        let path = directory.path().join(WORKLOAD);
        save_workload(&plan, &prepared, serve::settings(source.args(), &plan, &prepared), &path)?;
        Ok(std::fs::read(path)?)
    }
}

/// The files of a log.
fn log_members(log: &Path) -> anyhow::Result<Vec<Member>> {
    let stored = Stored::open(log)?;
    let segments = stored.segments().iter().map(|segment| segment.path().to_owned());
    let files = ["manifest.json", "summary.json"].map(|name| log.join(name));
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let content = read_data(&path).with_context(|| path.display().to_string())?;
        Ok(Member { name: format!("{LOG}{name}"), content })
    };
    files.into_iter().filter(|path| path.exists()).chain(segments).map(read).collect()
}

/// The self-check in a file, or a short one of this machine.
fn self_checked(file: Option<&Path>) -> anyhow::Result<Vec<u8>> {
    if let Some(path) = file {
        return read_data(path).with_context(|| format!("--selfcheck {}", path.display()));
    }
    let directory = tempfile::tempdir()?;
    let path = directory.path().join(SELFCHECK);
    selfcheck::run(&SelfcheckArgs::short(&path.to_string_lossy()))?;
    Ok(std::fs::read(path)?)
}

/// Characters that are shown before a secret.
const SHOWN: usize = 30;

/// Refuses to write a secret of this process or its environment.
fn refuse_secrets(member: &Member) -> anyhow::Result<()> {
    // The rows of a log are packed; their texts were redacted when they came in.
    let Ok(text) = std::str::from_utf8(&member.content) else { return Ok(()) };
    let clean = redact_known(text);
    let same = clean.chars().zip(text.chars()).take_while(|(one, other)| one == other).count();
    if clean != text {
        let before: String = clean.chars().skip(same.saturating_sub(SHOWN)).take(SHOWN).collect();
        bail!("{} holds a secret of this command or its environment after {before:?}: remove it first", member.name);
    }
    Ok(())
}
