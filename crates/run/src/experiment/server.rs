//! The life cycle of a server under test: its address, readiness, and cache resets.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tacho_client::{BackendKind, EndpointSpec, Url, control::Caller, host_and_port};
use tacho_core::{EventSink, RunEvent, Work, command::ChildGroup};

use super::archive::{Host, Tools};
use super::args::option;
use super::error::{Error, Failure};
use super::process::{Output, Supervised};

/// Interval between two polls of a server that is not ready.
const PATIENCE: Duration = Duration::from_millis(250);

/// When a wait is mentioned first; then again whenever it has doubled.
const FIRST_REMINDER: Duration = Duration::from_secs(5);

const CALL: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
}

impl Address {
    pub fn of(command: &[String]) -> Result<Self, Failure> {
        let host = option(command, "--host").unwrap_or("localhost").to_owned();
        let text = option(command, "-p").or_else(|| option(command, "--port")).unwrap_or("8000");
        let port = text.trim().parse().map_err(|_| {
            let text = tacho_core::json::quoted(text);
            Failure::new("ValueError", format!("invalid literal for int() with base 10: {text}"))
        })?;
        Ok(Address { host, port })
    }

    pub fn url(&self) -> String {
        format!("http://{}", host_and_port(&self.host, self.port))
    }
}

/// How a server's caches are reset between runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetKind {
    Call,
    Nothing,
}

impl ResetKind {
    /// The kind of reset for the server of a command.
    pub fn of(command: &[String]) -> Result<Self, Error> {
        let program = served(command);
        let disk_cache = command.iter().any(|word| word == "--vector-disk-cache");
        if program.ends_with("vllm") {
            Ok(ResetKind::Call)
        } else if program.ends_with("infinity_emb") && !disk_cache {
            Ok(ResetKind::Nothing)
        } else {
            Err(Error::NoReset { program: program.clone() })
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AfterBench {
    Command(Vec<String>),
    Reset(ResetKind),
}

impl AfterBench {
    /// Performs the action, on the server at this address if there is one.
    pub fn act(&self, supervised: &Supervised, address: Option<&str>, sink: &dyn EventSink) -> Result<(), Failure> {
        match (self, address) {
            (AfterBench::Command(command), _) => supervised.run(command),
            (AfterBench::Reset(ResetKind::Call), Some(address)) => {
                sink.event(RunEvent::status(format!("Resetting caches at {address}")));
                reset_caches(address)
            }
            (AfterBench::Reset(_), _) => Ok(()),
        }
    }
}

/// The serving program, which may follow the command of a profiler.
fn served(command: &[String]) -> &String {
    let wrapped = Path::new(&command[0]).file_name().is_some_and(|name| name == "nsys");
    let server = command.iter().find(|word| Path::new(word).file_name().is_some_and(|name| name == "vllm"));
    server.filter(|_| wrapped).unwrap_or(&command[0])
}

fn caller(address: &str, timeout: Duration) -> Result<Caller, Failure> {
    let failed = |error: tacho_client::Error| Failure::new("RequestException", error.to_string());
    let url = Url::parse(&format!("{address}/v1/completions")).map_err(failed)?;
    let endpoint = EndpointSpec { connect_timeout: timeout, timeout, ..EndpointSpec::new(url, BackendKind::OpenAi) };
    Caller::new(&endpoint, "", timeout).map_err(failed)
}

fn reset_caches(address: &str) -> Result<(), Failure> {
    let caller = caller(address, CALL)?;
    for path in ["/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache"] {
        let response = caller
            .post(path, caller.user_headers(), b"")
            .map_err(|error| Failure::new("RequestException", error.to_string()))?;
        if response.status >= 400 {
            let kind = if response.status >= 500 { "Server Error" } else { "Client Error" };
            let text = format!("{} {kind}: {} for url: {}", response.status, response.reason, caller.url(path));
            return Err(Failure::new("HTTPError", text));
        }
    }
    Ok(())
}

/// Whether a server answers anything over plain HTTP. With TLS it may need credentials that only its clients have.
pub fn answers(url: &str) -> bool {
    match caller(url, Duration::from_secs(5)) {
        Ok(caller) if url.starts_with("http:") || url.starts_with("http+unix:") => {
            caller.get("/health", caller.user_headers()).is_ok()
        }
        // The run itself reports an address that is none.
        _ => true,
    }
}

/// Whether a server answers; one without a health check lists its models.
fn is_ready(address: &str) -> bool {
    let Ok(caller) = caller(address, Duration::from_secs(5)) else { return false };
    let status = |path| caller.get(path, caller.user_headers()).map_or(0, |response| response.status);
    match status("/health") {
        404 | 405 => status("/v1/models") == 200,
        other => other == 200,
    }
}

#[derive(Debug, Clone)]
pub struct ProcessHost {
    pub supervised: Supervised,
    pub ready_timeout: Duration,
}

impl Host for ProcessHost {
    fn start(
        &self,
        command: &[String],
        variables: &[(String, String)],
        log: &Path,
        sink: &dyn EventSink,
    ) -> Result<Running, Failure> {
        let address = Address::of(command)?.url();
        if is_ready(&address) {
            // Its responses would be taken for those of the server that is about to fail on the busy port.
            let text = format!("another server already answers at {address}: stop it, or choose another --port");
            return Err(Failure::new("RuntimeError", text));
        }
        // vLLM has the endpoints for cache resets only in this mode.
        let mut all = vec![("VLLM_SERVER_DEV_MODE".to_owned(), "1".to_owned())];
        all.extend_from_slice(variables);
        let process = self.supervised.start(command, &Output::Log(log), &all)?;
        let mut server = Running { address, process: Some(process), inside: None };
        sink.event(RunEvent::Waiting { work: Work::WaitingForServer, seconds: self.ready_timeout.as_secs() });
        let ready = self.wait(&mut server, log, sink);
        sink.event(RunEvent::Finished);
        ready.map(|()| server)
    }
}

impl ProcessHost {
    fn wait(&self, server: &mut Running, log: &Path, sink: &dyn EventSink) -> Result<(), Failure> {
        let (began, max) = (Instant::now(), self.ready_timeout.as_secs());
        let mut reminder = FIRST_REMINDER;
        loop {
            if let Some(failure) = server.lost() {
                return Err(failure);
            }
            if is_ready(&server.address) {
                return Ok(());
            }
            let waited = began.elapsed();
            if waited > self.ready_timeout {
                let text = format!("Server failed to become ready within {max} seconds.");
                return Err(Failure::new("TimeoutError", text));
            }
            if waited > reminder {
                let (address, waited, log) = (&server.address, waited.as_secs(), log.display());
                sink.event(RunEvent::warning(format!(
                    "waiting for {address}/health ({waited}s of {max}s)…; what the server says is in {log}"
                )));
                reminder *= 2;
            }
            std::thread::sleep(PATIENCE);
        }
    }
}

/// A server that runs until it is dropped.
pub struct Running {
    /// Its URL, as `http://host:port`.
    pub address: String,
    process: Option<ChildGroup>,
    /// A server inside this program, which cannot be lost.
    #[expect(dead_code, reason = "it runs until it is dropped")]
    inside: Option<Box<dyn Any>>,
}

impl Running {
    pub fn inside(server: impl Any, address: String) -> Self {
        Running { address, process: None, inside: Some(Box::new(server)) }
    }

    /// Why it no longer runs, if it does not.
    pub fn lost(&mut self) -> Option<Failure> {
        let code = self.process.as_mut()?.exit_within(Duration::ZERO)?.code().unwrap_or(-1);
        Some(Failure::new("RuntimeError", format!("Server process crashed with return code {code}")))
    }
}

/// A server that is started when first needed and ends when this is dropped.
#[derive(Default)]
pub struct Slot {
    /// Empty for a server that runs already.
    command: Vec<String>,
    variables: Vec<(String, String)>,
    log: PathBuf,
    running: Option<Running>,
    /// Why it could not be started, so that it is not tried again.
    failed: Option<Failure>,
}

impl Slot {
    /// A server for this command, with these additional environment variables.
    pub fn new(command: Vec<String>, variables: Vec<(String, String)>, log: PathBuf) -> Self {
        Slot { command, variables, log, running: None, failed: None }
    }

    pub fn running() -> Self {
        Slot::default()
    }

    /// Starts the server unless it runs; returns true if it was just started. A failed server is not started again.
    pub(crate) fn ensure(&mut self, tools: Tools<'_>) -> Result<bool, Failure> {
        if let Some(failure) = self.failed.clone().or_else(|| self.lost()) {
            return Err(failure);
        }
        let missing = self.running.is_none() && !self.command.is_empty();
        if missing {
            let started = tools.host.start(&self.command, &self.variables, &self.log, tools.sink);
            self.running = Some(started.inspect_err(|failure| self.failed = Some(failure.clone()))?);
        }
        Ok(missing)
    }

    /// Why the server no longer runs, if it was started and does not.
    pub fn lost(&mut self) -> Option<Failure> {
        self.running.as_mut()?.lost()
    }

    pub fn address(&self) -> Option<String> {
        self.running.as_ref().map(|server| server.address.clone())
    }

    pub fn log(&self) -> &Path {
        &self.log
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::split;

    fn args(text: &str) -> Vec<String> {
        split("--serve-cmd", text).unwrap()
    }

    #[test]
    fn address_is_read_from_the_command() {
        let url = |text: &str| Address::of(&args(text)).unwrap().url();
        assert_eq!(url("vllm serve m"), "http://localhost:8000");
        assert_eq!(url("vllm serve m --host h --port 1"), "http://h:1");
        assert_eq!(url("vllm serve m --host=h --port=1"), "http://h:1");
        assert_eq!(url("vllm serve m --host ::1"), "http://[::1]:8000");
        assert_eq!(url("vllm serve m --port 1 -p 2"), "http://localhost:2");
        let failure = Address::of(&args("vllm serve --port x")).unwrap_err();
        assert_eq!(failure.to_string(), "ValueError: invalid literal for int() with base 10: 'x'");
    }

    #[test]
    fn only_known_servers_are_reset() {
        assert_eq!(ResetKind::of(&args("/usr/bin/vllm serve")).unwrap(), ResetKind::Call);
        assert_eq!(ResetKind::of(&args("infinity_emb v2")).unwrap(), ResetKind::Nothing);
        assert!(ResetKind::of(&args("infinity_emb v2 --vector-disk-cache")).is_err());
        assert!(ResetKind::of(&args("./server")).is_err());
    }
}
