//! The binary, run in a temporary directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt};

use serde_json::Value;
use tempfile::TempDir;

use crate::golden_dir;

/// Environment variables that change the program's behavior; they are unset unless a test sets them.
const VARIABLES: [&str; 5] = ["OPENAI_API_KEY", "HTTP_PROXY", "http_proxy", "RUST_LOG", "VLLM_LOGGING_LEVEL"];

/// A directory that contains the golden files, as recorded command lines expect, and a free port.
pub struct Place {
    directory: TempDir,
    program: &'static str,
    /// A port that was free.
    pub port: u16,
}

impl Place {
    /// A new directory for `program`, which a test finds as `env!("CARGO_BIN_EXE_tacho")`. Panics if it cannot be
    /// created.
    pub fn new(program: &'static str) -> Self {
        let directory = tempfile::tempdir().expect("there is a temporary directory");
        let golden = golden_dir().canonicalize().expect("the checkout has golden files");
        std::os::unix::fs::symlink(golden, directory.path().join("golden")).expect("the directory is empty");
        let listener = TcpListener::bind("127.0.0.1:0").expect("the machine has a free port");
        Place { directory, program, port: listener.local_addr().map_or(0, |address| address.port()) }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file and creates its parent directories. Panics if that fails.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap_or(self.path())).expect("directories can be made");
        fs::write(path, text).expect("files can be written");
    }

    /// Writes an executable script. Panics if that fails.
    pub fn script(&self, name: &str, text: &str) {
        self.write(name, text);
        fs::set_permissions(self.file(name), fs::Permissions::from_mode(0o755)).expect("it is our file");
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for name in VARIABLES {
            command.env_remove(name);
        }
        // Do not contact other machines.
        command.env("HF_HUB_OFFLINE", "1");
        command
    }

    /// Runs it to its end. Panics if it cannot be started.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program can be started")
    }

    /// Starts it. Panics if it cannot be started.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program can be started")
    }

    /// A JSON file that it wrote. Panics if it is missing or not JSON.
    pub fn json(&self, name: &str) -> Value {
        let text = fs::read_to_string(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"))
    }

    /// All files below a directory with their contents, without server logs.
    pub fn tree(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        walk(&self.file(name), &self.file(name), &mut files);
        files.sort();
        files
    }
}

fn walk(root: &Path, directory: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(root, &path, files);
        } else if !path.to_string_lossy().ends_with("-server.log") {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            files.push((name, fs::read(&path).unwrap_or_default()));
        }
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for a condition. Panics if it takes too long.
pub fn wait_for(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}
