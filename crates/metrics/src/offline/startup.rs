//! Starts of an engine, with cold and with warm caches.

use tacho_core::json::Flat;

tacho_core::named! {
    /// State of the caches.
    pub enum Phase, "a phase" {
        /// Empty.
        Cold = "cold",
        /// Filled by an earlier start.
        Warm = "warm",
    }
}

tacho_core::record! {
    /// A start in a log.
    #[derive(Debug, Clone, Copy, PartialEq)]
    pub struct LoggedStart {
        /// State of the caches.
        pub phase: Phase,
        /// Its times.
        pub start: Start => Flat,
    }
}

tacho_core::record! {
    /// One start, seconds.
    #[derive(Debug, Clone, Copy, Default, PartialEq)]
    pub struct Start {
        /// Building the engine: vLLM's startup time.
        pub startup as "startup_s": f64,
        /// Compiling the language model.
        pub compilation as "compilation_s": f64,
        /// Compiling the encoder.
        pub encoder_compilation as "encoder_compilation_s": f64,
        /// Importing the library, which vLLM excludes.
        pub import as "import_s": f64,
        /// From the start of the process until the engine is ready.
        pub wall as "wall_s": f64,
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
