//! Starts of an engine, with cold and with warm caches.

use tacho_core::json::{Dict, Value};

/// State of the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Empty.
    Cold,
    /// Filled by an earlier start.
    Warm,
}

impl Phase {
    /// Its name in keys.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Cold => "cold",
            Phase::Warm => "warm",
        }
    }
}

/// One start, seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Start {
    /// Building the engine: vLLM's startup time.
    pub startup: f64,
    /// Compiling the language model.
    pub compilation: f64,
    /// Compiling the encoder.
    pub encoder_compilation: f64,
    /// Importing the library, which vLLM excludes.
    pub import: f64,
    /// From the start of the process until the engine is ready.
    pub wall: f64,
}

impl Start {
    /// The object in logs.
    pub fn to_json(&self, phase: Phase) -> Dict {
        let mut dict = Dict::new();
        dict.set("phase", phase.name());
        dict.set("startup_s", self.startup);
        dict.set("compilation_s", self.compilation);
        dict.set("encoder_compilation_s", self.encoder_compilation);
        dict.set("import_s", self.import);
        dict.set("wall_s", self.wall);
        dict
    }

    /// Reads what [`Start::to_json`] wrote; `None` for anything else.
    pub fn from_json(value: &Value) -> Option<(Phase, Self)> {
        let phase = match value.get("phase")?.as_str()? {
            "cold" => Phase::Cold,
            "warm" => Phase::Warm,
            _ => return None,
        };
        let seconds = |key: &str| value.get(key)?.as_f64();
        let start = Start {
            startup: seconds("startup_s")?,
            compilation: seconds("compilation_s")?,
            encoder_compilation: seconds("encoder_compilation_s")?,
            import: seconds("import_s")?,
            wall: seconds("wall_s")?,
        };
        Some((phase, start))
    }
}

/// The starts of an engine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Startup {
    /// Number of starts with empty caches.
    pub cold: Vec<Start>,
    /// Starts with full ones.
    pub warm: Vec<Start>,
    /// Reasons of failed starts.
    pub failures: Vec<String>,
}

impl Startup {
    /// The starts of a phase.
    pub fn starts(&self, phase: Phase) -> &[Start] {
        match phase {
            Phase::Cold => &self.cold,
            Phase::Warm => &self.warm,
        }
    }

    /// Whether an encoder was compiled in any start.
    pub fn has_encoder(&self) -> bool {
        self.cold.iter().chain(&self.warm).any(|start| start.encoder_compilation > 0.0)
    }

    /// The metrics that are reported: name and values of a phase.
    pub fn metrics(&self, phase: Phase) -> Vec<(&'static str, Vec<f64>)> {
        let values = |of: fn(&Start) -> f64| self.starts(phase).iter().map(of).collect::<Vec<f64>>();
        let mut metrics =
            vec![("startup", values(|start| start.startup)), ("compilation", values(|start| start.compilation))];
        if self.has_encoder() {
            metrics.push(("encoder_compilation", values(|start| start.encoder_compilation)));
        }
        metrics
    }
}
