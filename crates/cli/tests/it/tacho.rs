//! Runs the binary in a folder of its own.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// A folder with the golden files in it, as the recorded command lines expect.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let golden = tacho_testkit::golden_dir().canonicalize().unwrap();
        std::os::unix::fs::symlink(golden, folder.path().join("golden")).unwrap();
        Place { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tacho"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for name in ["OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "RUST_LOG", "VLLM_LOGGING_LEVEL"] {
            command.env_remove(name);
        }
        // Nothing is asked of machines outside this one.
        command.env("HF_HUB_OFFLINE", "1");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn json(&self, name: &str) -> serde_json::Value {
        let text = std::fs::read_to_string(self.path().join(name)).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
