//! Where a test runs its commands.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tacho_testkit::golden_path;

const TACHO: &str = env!("CARGO_BIN_EXE_tacho");

/// A folder with stand-ins for servers and clients, and a free port.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    pub(crate) port: u16,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let place = Place { folder, port };
        // A server that ignores all flags but its port.
        let server = format!(
            "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = --port ] && port=$2; shift; done\n\
             exec {TACHO} sim --port $port\n"
        );
        place.script("fakevllm", &server);
        for name in ["stub-bench", "stub-startup"] {
            place.script(name, &fs::read_to_string(golden_path(&format!("server/{name}.py"))).unwrap());
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn script(&self, name: &str, text: &str) {
        self.write(name, text);
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(TACHO);
        command.current_dir(self.folder.path()).args(args).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// All files below a folder with their contents, logs left out.
    pub(crate) fn tree(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        walk(&self.path(name), &self.path(name), &mut files);
        files.sort();
        files
    }
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            walk(root, &path, files);
        } else if !path.to_string_lossy().ends_with("-server.log") {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            files.push((name, fs::read(&path).unwrap()));
        }
    }
}

pub(crate) fn has_python() -> bool {
    Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success())
}

pub(crate) fn wait_for(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}
