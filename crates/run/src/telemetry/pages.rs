//! Metrics pages of other exporters: DCGM, other replicas of the server, any Prometheus endpoint.

use std::time::Duration;

use tacho_client::{BackendKind, EndpointSpec, Url, control::Caller};
use tacho_metrics::dcgm::{self, Found};
use tacho_metrics::{ServerMetrics, Telemetry, telemetry::Track};

use crate::Error;

/// Timeout of a scrape; a late page would show another time.
const TIMEOUT: Duration = Duration::from_secs(2);

pub(super) struct Exporter {
    name: String,
    path: String,
    caller: Caller,
    pub(super) gpus: bool,
    pub(super) models: Vec<String>,
}

impl Exporter {
    /// Scrapes once, so that errors show before the run.
    pub(super) fn find(url: &Url) -> Result<Self, Error> {
        let path = if url.path == "/" { "/metrics".to_owned() } else { url.path.clone() };
        let endpoint = EndpointSpec::new(url.clone(), BackendKind::OpenAi);
        let caller = Caller::new(&endpoint, "", TIMEOUT).map_err(Error::Client)?;
        let mut exporter = Exporter { name: url.peer(), path, caller, gpus: false, models: Vec::new() };
        let page = exporter.page()?;
        (exporter.gpus, exporter.models) = (dcgm::is_page(&page), dcgm::models(&page));
        Ok(exporter)
    }

    fn page(&self) -> Result<String, Error> {
        let silent = |error| Error::silent(format!("--telemetry-url: {}", self.caller.url(&self.path)), error);
        let response = self.caller.get(&self.path, self.caller.user_headers()).map_err(silent)?;
        let text = || response.text();
        let is_metrics =
            |text: &String| text.lines().any(|line| line.starts_with("# TYPE") || line.starts_with("DCGM_"));
        let found = (response.status == 200).then(text).filter(is_metrics);
        found.ok_or_else(|| Error::Exporter { url: self.caller.url(&self.path), status: response.status })
    }
}

#[derive(Default)]
pub(super) struct Pages {
    /// Exporters without GPU metrics, by index.
    others: Vec<ServerMetrics>,
}

impl Pages {
    /// Scrapes all exporters; returns GPU metrics and keeps the rest.
    pub(super) fn scrape(&mut self, exporters: &[Exporter], time: f64) -> Vec<Found> {
        self.others.resize_with(exporters.len(), ServerMetrics::default);
        let mut found = Vec::new();
        for (exporter, metrics) in exporters.iter().zip(&mut self.others) {
            // A failed scrape leaves a gap.
            let page = exporter.page().unwrap_or_default();
            match exporter.gpus {
                true => found.extend(dcgm::gpus(&page)),
                false => metrics.add(time, &page),
            }
        }
        found
    }

    pub(super) fn finish(self, exporters: &[Exporter], telemetry: &mut Telemetry) {
        let count = telemetry.times.len();
        for (exporter, metrics) in exporters.iter().zip(self.others) {
            let whole = |track: &Track| track.values.len() == count;
            telemetry.tracks.extend(metrics.tracks(&exporter.name).into_iter().filter(whole));
        }
    }
}
