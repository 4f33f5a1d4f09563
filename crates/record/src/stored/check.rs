//! Results that cannot be read.

use tacho_core::json::{Dict, Value, dumps};

use crate::{Error, RunRecord, metric::Known};

/// Checks the version of tacho's part of a result; vLLM's results have none.
pub(super) fn check_version(dict: &Dict) -> Result<(), Error> {
    match dict.get("tacho").and_then(Value::as_dict).and_then(|tacho| tacho.get("version")) {
        Some(version) if version.as_i64() != Some(RunRecord::VERSION as i64) => {
            Err(Error::Version { found: dumps(version), known: RunRecord::VERSION })
        }
        _ => Ok(()),
    }
}

/// Rejects negative metrics, except differences of counters that a server restart may reset.
pub(super) fn possible(fields: &Dict) -> Result<(), Error> {
    for (key, value) in
        fields.iter().filter(|(key, _)| !key.starts_with("spec_decode") && !key.starts_with("diffusion"))
    {
        if value.as_f64().is_some_and(|number| number < 0.0) && Known::find(key).is_some() {
            return Err(Error::Impossible { key: key.to_owned(), value: dumps(value) });
        }
    }
    Ok(())
}
