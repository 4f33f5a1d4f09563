//! The settings of a saved workload: the flags that determine what is sent. They are saved with the requests, and
//! `--workload` restores them.

use std::path::Path;

use tacho_args::{Values, grammar::Parsed};
use tacho_core::json::{ByKey, Dict, Json, OrDefault, Value, dumps};
use tacho_core::secret::{REDACTED, is_secret_name, redact_args};
use tacho_run::serve::SAVED_VERSION;
use tacho_workload::read_settings;

use super::{ServeArgs, TABLE};
use crate::args::error::ArgumentError;
use crate::args::shared::tags::{SAVED, SAVED_DEFAULT};

type ClassHeaders = Vec<(String, Vec<(String, String)>)>;

tacho_core::record! {
    /// The settings in the file, without secrets. The run adds the version and the digest.
    struct Settings {
        flags: Vec<String> => OrDefault,
        headers: Vec<String> => OrDefault,
        class_headers: Vec<(String, Vec<String>)> => ByKey = Vec::new(),
        digest: Option<String> = None,
    }
}

/// What a saved workload has in addition to flags.
#[derive(Debug, Clone)]
pub(crate) struct Saved {
    /// The workload digest of the run that was saved.
    pub(crate) digest: Option<String>,
    pub(crate) class_headers: ClassHeaders,
}

/// What a run decided that its flags leave open.
#[derive(Debug)]
pub(crate) struct Decided<'a> {
    pub(crate) model_id: &'a str,
    pub(crate) model_name: &'a str,
    pub(crate) cache_salt: Option<&'a str>,
    pub(crate) max_concurrency: Option<usize>,
}

impl ServeArgs {
    /// The settings to save with the requests, without secrets.
    pub(crate) fn settings(&self, decided: &Decided<'_>) -> Dict {
        let mut args = Vec::new();
        for flag in flags(SAVED | SAVED_DEFAULT) {
            match flag {
                "--backend" => {
                    let alias = if self.target.backend.is_set { flag } else { "--endpoint-type" };
                    let name = self.values.get(alias).as_str().unwrap_or(self.target.backend().name());
                    args.push(format!("{flag}={name}"));
                }
                "--model" => args.push(format!("{flag}={}", decided.model_id)),
                "--served-model-name" if decided.model_name != decided.model_id => {
                    args.push(format!("{flag}={}", decided.model_name));
                }
                "--served-model-name" => {}
                "--ignore-eos" => args.extend(self.ignore_eos().then(|| flag.to_owned())),
                "--cache-salt" => args.extend(decided.cache_salt.map(|salt| format!("{flag}={salt}"))),
                "--max-concurrency" => args.extend(decided.max_concurrency.map(|max| format!("{flag}={max}"))),
                _ => args.extend(self.values.args(flag)),
            }
        }
        let class_headers = self.class_headers().into_iter().map(|(class, own)| (class, shown(&own))).collect();
        let (flags, headers) = (redact_args(&args), shown(&self.target.header));
        let settings = Settings { flags, headers, class_headers, digest: None };
        settings.to_json().as_dict().cloned().unwrap_or_default()
    }

    pub(crate) fn class_headers(&self) -> ClassHeaders {
        if let Some(saved) = &self.saved {
            return saved.class_headers.clone();
        }
        let own = self.classes.iter().filter(|class| class.args.values.get("--header") != self.values.get("--header"));
        own.map(|class| (class.name.clone(), class.args.target.header.clone())).collect()
    }
}

fn flags(tags: u32) -> impl Iterator<Item = &'static str> {
    TABLE.flags.iter().filter(move |flag| flag.has(tags)).map(|flag| flag.names[0])
}

/// Headers as text, without secrets.
fn shown(headers: &[(String, String)]) -> Vec<String> {
    let value = |name, value| if is_secret_name(name) { REDACTED } else { value };
    headers.iter().map(|(name, text)| format!("{name}={}", value(name, text.as_str()))).collect()
}

/// Restores the settings of `--workload`. `None` if the file has none: then the flags alone determine what is sent.
pub(super) fn restore(values: &mut Values) -> Result<Option<Saved>, ArgumentError> {
    let Some(path) = values.get("--workload").as_str().map(str::to_owned) else { return Ok(None) };
    // The run itself reports a file that cannot be read.
    let Ok(Some(settings)) = read_settings(Path::new(&path)) else { return Ok(None) };
    let file = File { path: &path };
    let version = settings.get("version").and_then(Value::as_i64);
    if version != Some(SAVED_VERSION) {
        return Err(file.wrong(format!("settings of version {SAVED_VERSION} are read, not {version:?}")));
    }
    let settings = Settings::from_dict(&settings).map_err(|error| file.wrong(error.to_string()))?;
    let saved = match Values::defaults(&TABLE).read(&settings.flags) {
        Ok(Parsed::Values(saved)) => saved,
        Ok(Parsed::Help(_)) => return Err(file.wrong("its flags ask for help".to_owned())),
        Err(error) => return Err(file.wrong(error.to_string())),
    };
    for flag in flags(SAVED) {
        file.check_given(flag, values, &saved)?;
    }
    for flag in flags(SAVED | SAVED_DEFAULT).filter(|flag| saved.is_set(flag)) {
        if !values.is_set(flag) {
            values.put(flag, saved.get(flag).clone());
        }
    }
    let given: Vec<String> = Vec::from_json(values.get("--header")).unwrap_or_default();
    let headers = file.headers(settings.headers, &given)?;
    let classes = settings.class_headers.into_iter();
    let class_headers = classes
        .map(|(class, list)| Ok((class, file.headers(list, &given)?)))
        .collect::<Result<Vec<_>, ArgumentError>>()?;
    let is_saved =
        |one: &String| class_headers.iter().any(|(_, list)| list.iter().any(|other| name(other) == name(one)));
    let mut all = headers;
    for one in given {
        let is_new = !all.contains(&one) && !is_saved(&one);
        if is_new && !is_secret_name(name(&one)) {
            return Err(file.fixed("--header"));
        }
        all.extend(is_new.then_some(one));
    }
    if !all.is_empty() {
        values.put("--header", all.to_json());
    }
    let pair = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let class_headers = class_headers.into_iter().map(|(class, list)| (class, list.iter().filter_map(pair).collect()));
    Ok(Some(Saved { digest: settings.digest, class_headers: class_headers.collect() }))
}

fn name(header: &str) -> &str {
    header.split('=').next().unwrap_or_default()
}

struct File<'p> {
    path: &'p str,
}

impl File<'_> {
    /// Refuses a flag that would change the requests, and a secret that files do not keep and no flag gives.
    fn check_given(&self, flag: &'static str, given: &Values, saved: &Values) -> Result<(), ArgumentError> {
        let (own, kept) = (given.get(flag), saved.get(flag));
        let has_secret = dumps(kept).contains(REDACTED);
        match given.is_set(flag) {
            false if has_secret => Err(self.missing(flag, "a secret")),
            true if own != kept && !has_secret && !(flag == "--backend" && is_file(own) && is_file(kept)) => {
                Err(self.fixed(flag))
            }
            _ => Ok(()),
        }
    }

    /// The saved headers, with their secrets from the given ones.
    fn headers(&self, saved: Vec<String>, given: &[String]) -> Result<Vec<String>, ArgumentError> {
        let whole = |header: String| {
            if !header.ends_with(&format!("={REDACTED}")) {
                return Ok(header);
            }
            let same = given.iter().find(|other| name(other).eq_ignore_ascii_case(name(&header)));
            same.cloned().ok_or_else(|| self.missing("--header", name(&header)))
        };
        saved.into_iter().map(whole).collect()
    }

    fn fixed(&self, flag: &'static str) -> ArgumentError {
        let path = self.path;
        ArgumentError::other(format!(
            "{flag} would change the requests of --workload {path}, which are sent as they were saved: leave it out"
        ))
    }

    fn missing(&self, flag: &'static str, what: &str) -> ArgumentError {
        let path = self.path;
        ArgumentError::other(format!(
            "the requests of --workload {path} have {what} in {flag}, which files do not keep: pass {flag} again"
        ))
    }

    fn wrong(&self, problem: String) -> ArgumentError {
        ArgumentError::other(format!("--workload {}: {problem}", self.path))
    }
}

/// Whether a backend is a file: its content decides, not its path.
fn is_file(backend: &Value) -> bool {
    backend.as_str().is_some_and(|name| tacho_client::BackendKind::from_name(name).is_none())
}
