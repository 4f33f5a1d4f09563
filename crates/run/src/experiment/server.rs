//! The life cycle of a server under test: its address, readiness, and cache resets.

use std::path::Path;
use std::time::{Duration, Instant};

use tacho_client::control::Caller;
use tacho_client::{BackendKind, EndpointSpec, Url, host_and_port};
use tacho_core::command::ChildGroup;

use super::archive::{Host, Running};
use super::error::{Error, Failure};
use super::process::{Output, Supervised};
use super::words::option;

/// Interval between two polls of a server that is not ready.
const PATIENCE: Duration = Duration::from_millis(250);

/// Timeout of a health check or a reset.
const CALL: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    host: String,
    port: u16,
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

    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
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

/// Asks a server to reset its caches.
pub(crate) fn reset_caches(address: &str) -> Result<(), Failure> {
    let caller = caller(address, CALL)?;
    for path in ["/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache"] {
        let answer = caller
            .post(path, caller.user_headers(), b"")
            .map_err(|error| Failure::new("RequestException", error.to_string()))?;
        if answer.status >= 400 {
            let kind = if answer.status >= 500 { "Server Error" } else { "Client Error" };
            let text = format!("{} {kind}: {} for url: {}", answer.status, answer.reason, caller.url(path));
            return Err(Failure::new("HTTPError", text));
        }
    }
    Ok(())
}

fn is_healthy(address: &str) -> bool {
    caller(address, Duration::from_secs(5))
        .and_then(|caller| {
            let headers = caller.user_headers();
            caller.get("/health", headers).map_err(|error| Failure::new("RequestException", error.to_string()))
        })
        .is_ok_and(|answer| answer.status == 200)
}

/// Starts servers as processes.
#[derive(Debug, Clone)]
pub struct ProcessHost {
    /// How processes are started.
    pub supervised: Supervised,
    pub ready_timeout: Duration,
}

impl Host for ProcessHost {
    fn start(
        &self,
        command: &[String],
        variables: &[(String, String)],
        log: &Path,
    ) -> Result<Box<dyn Running>, Failure> {
        let address = Address::of(command)?.url();
        if is_healthy(&address) {
            // Its responses would be taken for those of the server that is about to fail on the busy port.
            let text = format!("another server already answers at {address}: stop it, or choose another --port");
            return Err(Failure::new("RuntimeError", text));
        }
        // vLLM has the endpoints for cache resets only in this mode.
        let mut all = vec![("VLLM_SERVER_DEV_MODE".to_owned(), "1".to_owned())];
        all.extend_from_slice(variables);
        let process = self.supervised.start(command, &Output::Log(log), &all)?;
        let mut server = ServerProcess { process, address };
        let began = Instant::now();
        loop {
            if let Some(failure) = server.lost() {
                return Err(failure);
            }
            if is_healthy(&server.address) {
                return Ok(Box::new(server));
            }
            if began.elapsed() > self.ready_timeout {
                let seconds = self.ready_timeout.as_secs();
                let text = format!("Server failed to become ready within {seconds} seconds.");
                return Err(Failure::new("TimeoutError", text));
            }
            std::thread::sleep(PATIENCE);
        }
    }
}

struct ServerProcess {
    process: ChildGroup,
    address: String,
}

impl Running for ServerProcess {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn lost(&mut self) -> Option<Failure> {
        let code = self.process.exit_within(Duration::ZERO)?.code().unwrap_or(-1);
        Some(Failure::new("RuntimeError", format!("Server process crashed with return code {code}")))
    }
}

/// A server inside this program, which cannot be lost.
pub struct Resident<T> {
    pub server: T,
    pub address: String,
}

impl<T> Running for Resident<T> {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn lost(&mut self) -> Option<Failure> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::split;

    fn words(text: &str) -> Vec<String> {
        split("--serve-cmd", text).unwrap()
    }

    #[test]
    fn address_is_read_from_the_command() {
        let url = |text: &str| Address::of(&words(text)).unwrap().url();
        assert_eq!(url("vllm serve m"), "http://localhost:8000");
        assert_eq!(url("vllm serve m --host h --port 1"), "http://h:1");
        assert_eq!(url("vllm serve m --host=h --port=1"), "http://h:1");
        assert_eq!(url("vllm serve m --host ::1"), "http://[::1]:8000");
        assert_eq!(url("vllm serve m --port 1 -p 2"), "http://localhost:2");
        let failure = Address::of(&words("vllm serve --port x")).unwrap_err();
        assert_eq!(failure.to_string(), "ValueError: invalid literal for int() with base 10: 'x'");
    }

    #[test]
    fn only_known_servers_are_reset() {
        assert_eq!(ResetKind::of(&words("/usr/bin/vllm serve")).unwrap(), ResetKind::Call);
        assert_eq!(ResetKind::of(&words("infinity_emb v2")).unwrap(), ResetKind::Nothing);
        assert!(ResetKind::of(&words("infinity_emb v2 --vector-disk-cache")).is_err());
        assert!(ResetKind::of(&words("./server")).is_err());
    }
}
