//! Provenance of a result: enough to repeat the run and to judge what it applies to.

use tacho_core::Host;
use tacho_core::json::{Dict, Value};

/// The origin of a run. It contains no secrets: the command is redacted, and only known settings of a server are
/// kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Provenance {
    /// Version and commit of tacho.
    pub tacho: Option<String>,
    /// The command line, quoted for a shell.
    pub command: Option<String>,
    /// The seed of the workload.
    pub seed: Option<i64>,
    /// The dataset, or the file that the requests come from.
    pub dataset: Option<String>,
    /// SHA-256 of the rows that were read, in hexadecimal; those of several classes are separated by spaces.
    pub dataset_sha256: Option<String>,
    /// The machine that sent the requests.
    pub host: Option<Host>,
    /// SLOs of the run, as they were passed.
    pub slos: Vec<String>,
    /// The server under test.
    pub server: ServerFacts,
}

/// Facts about a server, from its API.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerFacts {
    /// The engine's name.
    pub engine: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Settings by name.
    pub settings: Vec<(String, String)>,
}

impl ServerFacts {
    /// Engine and version for display; `None` if neither is known.
    pub fn name(&self) -> Option<String> {
        match (&self.engine, &self.version) {
            (Some(engine), Some(version)) => Some(format!("{engine} {version}")),
            (Some(engine), None) => Some(engine.clone()),
            (None, version) => version.as_ref().map(|version| format!("version {version}")),
        }
    }
}

impl Provenance {
    /// As JSON, without unknown fields.
    pub fn to_dict(&self) -> Dict {
        let mut dict = Dict::new();
        let mut set = |key: &str, value: Option<Value>| value.into_iter().for_each(|value| dict.set(key, value));
        set("tacho", self.tacho.as_deref().map(Value::from));
        set("command", self.command.as_deref().map(Value::from));
        set("seed", self.seed.map(Value::from));
        set("dataset", self.dataset.as_deref().map(Value::from));
        set("dataset_sha256", self.dataset_sha256.as_deref().map(Value::from));
        set("host", self.host.as_ref().map(|host| Value::Dict(host.to_dict())));
        let slos = self.slos.iter().map(|slo| Value::from(slo.as_str())).collect::<Vec<_>>();
        set("slos", (!slos.is_empty()).then_some(Value::List(slos)));
        let mut server = Dict::new();
        for (key, value) in [("engine", &self.server.engine), ("version", &self.server.version)] {
            if let Some(value) = value {
                server.set(key, value.as_str());
            }
        }
        if !self.server.settings.is_empty() {
            let setting = |(key, value): &(String, String)| (key.clone(), Value::from(value.as_str()));
            server.set("settings", self.server.settings.iter().map(setting).collect::<Dict>());
        }
        set("server", server.iter().next().is_some().then(|| Value::Dict(server.clone())));
        dict
    }

    /// Reads what [`Self::to_dict`] wrote; missing or malformed fields are unknown.
    pub fn from_value(value: &Value) -> Self {
        let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let slos = value.get("slos").and_then(Value::as_list).unwrap_or_default();
        let server = value.get("server").unwrap_or(&Value::Null);
        let settings = server.get("settings").and_then(Value::as_dict);
        let setting = |(key, value): (&str, &Value)| Some((key.to_owned(), value.as_str()?.to_owned()));
        Provenance {
            tacho: text(value, "tacho"),
            command: text(value, "command"),
            seed: value.get("seed").and_then(Value::as_i64),
            dataset: text(value, "dataset"),
            dataset_sha256: text(value, "dataset_sha256"),
            host: value.get("host").map(Host::from_value),
            slos: slos.iter().filter_map(|slo| slo.as_str().map(str::to_owned)).collect(),
            server: ServerFacts {
                engine: text(server, "engine"),
                version: text(server, "version"),
                settings: settings.map(|settings| settings.iter().filter_map(setting).collect()).unwrap_or_default(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_read_back() {
        let host = Host { name: "n".into(), system: "Linux".into(), cpus: 2, cpu: "Model".into() };
        let full = Provenance {
            tacho: Some("0.1.0 (abc)".into()),
            command: Some("tacho serve --sim".into()),
            seed: Some(7),
            dataset: Some("random".into()),
            dataset_sha256: Some("ab12".into()),
            host: Some(host),
            slos: vec!["p99_ttft_ms>200".into()],
            server: ServerFacts {
                engine: Some("vLLM".into()),
                version: Some("0.32.0".into()),
                settings: vec![("block_size".into(), "16".into())],
            },
        };
        assert_eq!(Provenance::from_value(&Value::Dict(full.to_dict())), full);
        assert_eq!(full.server.name().as_deref(), Some("vLLM 0.32.0"));
        let empty = Provenance::default();
        assert_eq!((empty.to_dict(), empty.server.name()), (Dict::new(), None));
        assert_eq!(Provenance::from_value(&Value::from("x")), empty);
    }
}
