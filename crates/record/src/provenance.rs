//! Provenance of a result: enough to repeat the run and to judge what it applies to.

use tacho_core::{Host, json::ByKey};

tacho_core::record! {
    /// The origin of a run. It contains no secrets: the command is redacted, and only known settings of a server are
    /// kept.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct Provenance {
        /// Version and commit of tacho.
        pub tacho: Option<String> = None,
        /// The command line, quoted for a shell, without secrets.
        pub command: Option<String> = None,
        /// The seed of the workload, by --seed.
        pub seed: Option<i64> = None,
        /// The dataset, or the file that the requests come from.
        pub dataset: Option<String> = None,
        /// SHA-256 of the rows that were read, in hexadecimal: of --dataset-command up to the last row, of a --map file
        /// or of --workload; those of several classes are separated by spaces.
        pub dataset_sha256: Option<String> = None,
        /// The machine of the client: name, CPU, memory, system.
        pub host: Option<Host> = None,
        /// Conditions of --fail-if.
        pub slos: Vec<String> = Vec::new(),
        /// The server: engine, version and settings that it reports.
        pub server: ServerFacts = ServerFacts::default(),
    }
}

tacho_core::record! {
    /// Facts about a server, from its API.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct ServerFacts {
        /// The engine's name.
        pub engine: Option<String> = None,
        /// Its version.
        pub version: Option<String> = None,
        /// Its start command, by --server-command, without secrets.
        pub command: Option<String> = None,
        /// The weights that it serves: the root of the model in /v1/models, or its path.
        pub model: Option<String> = None,
        /// The revision of the weights.
        pub revision: Option<String> = None,
        /// The label or digest of its container image.
        pub image: Option<String> = None,
        /// Its GPUs.
        pub gpus: Option<String> = None,
        /// The driver of its GPUs.
        pub driver: Option<String> = None,
        /// The version of CUDA.
        pub cuda: Option<String> = None,
        /// Settings by name.
        pub settings: Vec<(String, String)> => ByKey = Vec::new(),
    }
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

    /// What a reader needs to start the same server: name and value, `None` where it is not known.
    pub fn stack(&self) -> [(&'static str, Option<&str>); 7] {
        [
            ("server command", self.command.as_deref()),
            ("weights", self.model.as_deref()),
            ("revision", self.revision.as_deref()),
            ("image", self.image.as_deref()),
            ("GPUs", self.gpus.as_deref()),
            ("GPU driver", self.driver.as_deref()),
            ("CUDA", self.cuda.as_deref()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::{Dict, Json, assert_round_trip};

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
                command: Some("vllm serve m".into()),
                model: Some("org/m".into()),
                revision: Some("ab12".into()),
                image: Some("sha256:cd".into()),
                gpus: Some("8× H200".into()),
                driver: Some("550.54".into()),
                cuda: Some("12.4".into()),
                settings: vec![("block_size".into(), "16".into())],
            },
        };
        assert_round_trip(&full);
        assert_eq!(full.server.name().as_deref(), Some("vLLM 0.32.0"));
        let empty = Provenance::default();
        assert_eq!((empty.to_json(), empty.server.name()), (Dict::new().into(), None));
    }
}
