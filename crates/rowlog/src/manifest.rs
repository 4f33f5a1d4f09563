//! Metadata of a run that is known before its first row.

use std::path::Path;

use tacho_core::Host;
use tacho_core::json::{Codec, Dict, Flat, Json, Value, dumps_indented};

use crate::Error;
use crate::files::{read_json, write_atomically};
use crate::segment::{FORMAT, known};

/// The manifest's name in the directory of the log.
pub(crate) const NAME: &str = "manifest.json";
/// Its name up to format 3.
pub(crate) const OLD_NAME: &str = "manifest.tacho";
const LIMIT: u64 = 64 << 20;

pub fn this_host() -> Host {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    Host {
        name: text(name.nodename()),
        system: format!("{} {} {}", text(name.sysname()), text(name.release()), text(name.machine())),
        cpus: std::thread::available_parallelism().map_or(0, |count| count.get() as u64),
        cpu: cpu_model(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
    }
}

/// The first model name in the text of `/proc/cpuinfo`.
fn cpu_model(text: &str) -> String {
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    let mut models = fields.filter(|(key, _)| key.trim() == "model name").map(|(_, model)| model.trim().to_owned());
    models.next().unwrap_or_default()
}

tacho_core::record! {
    /// Metadata of a run. It must not contain secrets: the command is redacted.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Manifest {
        /// The version of tacho, with its commit.
        pub tacho: String = String::new(),
        pub command: Vec<String> = Vec::new(),
        pub seed: Option<i64>,
        /// A hash of the requests, to check that a resumed run has the same ones.
        pub workload: Option<String>,
        pub requests: Option<u64>,
        pub host: Host = Host::default(),
        pub clock: String = String::new(),
        /// Further data for readers of the log.
        pub more: Value,
    }
}

impl Manifest {
    pub(crate) fn save(&self, directory: &Path) -> Result<(), Error> {
        let mut dict = Dict::new();
        dict.set("format", FORMAT);
        Flat::set(&mut dict, "", self);
        write_atomically(&directory.join(NAME), dumps_indented(&dict.into(), 2).as_bytes())
    }

    pub(crate) fn read(directory: &Path) -> Result<Self, Error> {
        let path = directory.join(NAME);
        if !path.is_file() {
            let old = directory.join(OLD_NAME);
            if old.is_file() {
                let found = read_json(&old, LIMIT)?.get("format").and_then(Value::as_i64).unwrap_or(0);
                return Err(Error::Older { path: directory.to_owned(), found, known: FORMAT });
            }
            return Err(Error::Missing { path: directory.to_owned() });
        }
        Self::from_value(&path, &read_json(&path, LIMIT)?)
    }

    fn from_value(path: &Path, value: &Value) -> Result<Self, Error> {
        let Some(found) = value.get("format").and_then(Value::as_i64) else {
            return Err(Error::malformed(path, "it has no \"format\": it is not the manifest of a log"));
        };
        known(path, found)?;
        Self::from_json(value).map_err(|wrong| Error::malformed(path, wrong.to_string()))
    }
}
