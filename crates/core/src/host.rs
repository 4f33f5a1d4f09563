//! The client machine, as logs and results describe it.

use crate::json::{Dict, Value};

/// A machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// Its host name.
    pub name: String,
    /// Operating system and release.
    pub system: String,
    /// Available processors.
    pub cpus: u64,
    /// The processor model; empty if unknown.
    pub cpu: String,
}

impl Host {
    /// As JSON.
    pub fn to_dict(&self) -> Dict {
        let mut host = Dict::new();
        host.set("name", self.name.as_str());
        host.set("system", self.system.as_str());
        host.set("cpus", self.cpus);
        host.set("cpu", self.cpu.as_str());
        host
    }

    /// Parses the output of [`Self::to_dict`]; missing fields stay empty.
    pub fn from_value(value: &Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let cpus = value.get("cpus").and_then(Value::as_i64).and_then(|count| u64::try_from(count).ok());
        Host { name: text("name"), system: text("system"), cpus: cpus.unwrap_or_default(), cpu: text("cpu") }
    }
}
