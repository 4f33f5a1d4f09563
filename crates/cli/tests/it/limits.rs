//! Small machines and sandboxes: little memory, one core, no /proc, denied system calls. A run succeeds, or fails
//! with one clear line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::{fs, net::TcpStream, os::unix::process::ExitStatusExt};

use serde_json::json;
use tacho_testkit::place::wait_for;

use crate::scripted::Scripted;
use crate::tacho::{Place, stderr, stdout};

const RUN: [&str; 9] =
    ["serve", "--sim", "--sim-profile", "tiny", "--num-prompts", "20", "--disable-tqdm", "--no-log", "--quiet"];

/// The command, run by a shell after `line`.
pub(crate) fn limited(command: &Command, line: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{line}; exec \"$@\""), "sh"]).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    shell.stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

/// Whether a run succeeded; otherwise it must have failed with one error and no panic.
fn worked(output: &Output, what: &str) -> bool {
    let said = stderr(output);
    assert!(!said.contains("panicked") && !said.contains("internal error"), "{what}: {said}");
    let errors = said.lines().filter(|line| line.starts_with("error: ")).count();
    match output.status.code() {
        Some(0) => true,
        Some(1) if errors == 1 => false,
        _ => panic!("{what}: {:?}: {said}", output.status),
    }
}

#[test]
fn a_limited_address_space_is_enough_or_refused_in_one_line() {
    let place = Place::new();
    for kilobytes in [100_000, 120_000, 140_000, 204_800, 400_000] {
        let output = limited(&place.command(&RUN), &format!("ulimit -v {kilobytes}")).output().unwrap();
        let worked = worked(&output, &format!("{kilobytes} kB"));
        assert!(worked || kilobytes < 204_800, "{kilobytes} kB: {}", stderr(&output));
        assert!(worked || stderr(&output).contains("raise the limit (ulimit -v)"), "{}", stderr(&output));
    }
}

#[test]
fn a_small_stack_is_enough() {
    let place = Place::new();
    let output = limited(&place.command(&RUN), "ulimit -s 256").output().unwrap();
    assert!(worked(&output, "256 kB of stack"), "{}", stderr(&output));
}

#[test]
fn endless_files_are_refused() {
    let place = Place::new();
    for (args, says) in [
        (&["--base-url", "@/dev/zero"][..], "larger than 16 MiB"),
        (
            &["--base-url", "https://127.0.0.1:9", "--client-cert", "/dev/zero", "--client-key", "/dev/zero"],
            "--client-cert",
        ),
    ] {
        let args = [&["serve", "--model", "gpt2", "--tokenizer", "gpt2", "--dataset-name", "random"], args].concat();
        let output = limited(&place.command(&args), "ulimit -v 2000000").output().unwrap();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn one_core_is_enough() {
    let place = Place::new();
    let run = place.command(&RUN);
    let output = Command::new("taskset").args(["-c", "0"]).arg(run.get_program()).args(RUN).output();
    match output {
        Ok(output) => assert!(worked(&output, "one core"), "{}", stderr(&output)),
        Err(_) => eprintln!("skipped: there is no program `taskset`"),
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_home_that_cannot_be_written_is_enough() {
    let place = Place::new();
    // Nobody can create a directory in /proc, root included.
    let variables = ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "HF_HOME", "TMPDIR"].map(|name| (name, "/proc/none"));
    let mut run = place.command(&[&RUN[..], &["--save-result", "--result-filename", "r.json"]].concat());
    let output = run.envs(variables).output().unwrap();
    assert!(worked(&output, "read-only home"), "{}", stderr(&output));
    assert!(place.file("r.json").exists());
}

/// Makes some x86-64 system calls fail with an error number, then runs a command.
const FILTER: &str = r#"
import ctypes, os, struct, sys
calls = [int(number) for number in sys.argv[2].split(',')]
program = struct.pack('HBBI', 0x20, 0, 0, 0)
for call in calls:
    program += struct.pack('HBBI', 0x15, 0, 1, call) + struct.pack('HBBI', 0x06, 0, 0, 0x50000 | int(sys.argv[1]))
program += struct.pack('HBBI', 0x06, 0, 0, 0x7fff0000)
code = ctypes.create_string_buffer(program)
libc = ctypes.CDLL(None)
prog = struct.pack('HxxxxxxQ', len(program) // 8, ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, prog, 0, 0) == 0
os.execv(sys.argv[3], sys.argv[3:])
"#;

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn system_calls_that_a_sandbox_refuses_are_done_without() {
    // io_uring_setup, pidfd_send_signal, pidfd_open, close_range, openat2, faccessat2, epoll_pwait2; memfd_create,
    // getrandom, copy_file_range, statx, membarrier, rseq; sched_getaffinity and sched_setaffinity, prctl.
    const NEWER: &str = "425,424,434,436,437,439,441,319,318,326,332,324,334,204,203,157";
    const CLONE3: &str = "435";
    let place = Place::new();
    for (error, calls, must_work) in
        [("1", NEWER, true), ("38", NEWER, true), ("38", CLONE3, true), ("1", CLONE3, false)]
    {
        let mut filter = Command::new("python3");
        filter.args(["-c", FILTER, error, calls, env!("CARGO_BIN_EXE_tacho")]).args(RUN).current_dir(place.path());
        let Ok(output) = filter.output() else {
            eprintln!("skipped: there is no python3");
            return;
        };
        assert!(!stderr(&output).contains("AssertionError"), "the kernel takes the filter: {}", stderr(&output));
        let worked = worked(&output, calls);
        assert!(worked || !must_work, "{error} {calls}: {}", stderr(&output));
        // The C library cannot start threads then.
        assert!(worked || stderr(&output).contains("cannot start"), "{}", stderr(&output));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_root_directory_without_proc_and_devices_is_enough() {
    let place = Place::new();
    let (root, tacho) = (place.path().join("root"), env!("CARGO_BIN_EXE_tacho"));
    let linked = stdout(&Command::new("ldd").arg(tacho).output().unwrap());
    let libraries = linked.split_whitespace().filter(|word| word.starts_with('/'));
    for file in libraries.map(std::path::Path::new) {
        let to = root.join(file.strip_prefix("/").unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file, to).unwrap();
    }
    fs::create_dir_all(root.join("gpt2")).unwrap();
    fs::copy(tacho, root.join("tacho")).unwrap();
    fs::copy(place.path().join("golden/tokenizers/gpt2/tokenizer.json"), root.join("gpt2/tokenizer.json")).unwrap();
    place.write("root/gpt2/tokenizer_config.json", r#"{"chat_template": "{{ messages[0].content }}"}"#);
    place.write("root/prompts.jsonl", "{\"prompt\": \"one two\"}\n{\"prompt\": \"three\"}\n");
    let mut run = Command::new("chroot");
    run.arg(&root).args(["/tacho", "serve", "--sim", "--sim-profile", "tiny", "--backend", "openai-chat", "--quiet"]);
    run.args([
        "--dataset-name",
        "custom",
        "--dataset-path",
        "/prompts.jsonl",
        "--tokenizer",
        "/gpt2",
        "--num-prompts",
        "2",
    ]);
    let output = run.output().unwrap();
    if stderr(&output).contains("Operation not permitted") {
        eprintln!("skipped: chroot needs root");
        return;
    }
    assert!(worked(&output, "chroot"), "{}", stderr(&output));
    assert!(stdout(&output).contains("Successful requests:                     2"), "{}", stdout(&output));
}

/// Whether a killed run leaves a core file.
fn dumps_core(key: Option<&str>) -> bool {
    let place = Place::new();
    let server = Scripted::start(json!({"routes": {"POST /v1/completions": [{"gen": "completions"}]}}));
    let url = format!("http://{}", server.address);
    let args = ["serve", "--base-url", &url, "--model", "m", "--tokenizer", "gpt2", "--request-rate", "1", "--no-log"];
    let mut command = limited(&place.command(&args), "ulimit -c unlimited");
    command.env_clear().envs(key.map(|key| ("OPENAI_API_KEY", key)));
    let mut child = command.spawn().unwrap();
    wait_for("a request", || server.asked().iter().any(|asked| asked.path == "/v1/completions"));
    let kill = Command::new("kill").args(["-ABRT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success() && child.try_wait().unwrap().is_none_or(|status| status.signal().is_some()));
    child.wait().unwrap().core_dumped()
}

#[test]
#[cfg(target_os = "linux")]
fn a_core_file_never_holds_a_key() {
    if !dumps_core(None) {
        eprintln!("skipped: this machine writes no core files");
        return;
    }
    assert!(!dumps_core(Some("sk-secret-of-a-test")));
}

/// The peak memory of a process in MB.
fn peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1000
}

#[test]
#[cfg(target_os = "linux")]
fn a_prompt_of_a_million_ids_takes_memory_for_the_ids_alone() {
    let place = Place::new();
    let mut sim = place.spawn(&["sim", "--port", "0"]);
    let mut line = String::new();
    BufReader::new(sim.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit("//").next().unwrap().to_owned();
    let before = peak(sim.id());
    for last in ["7", "\"seven\""] {
        let body = format!(r#"{{"model":"tacho-sim","prompt":[{}{last}],"max_tokens":1}}"#, "5,".repeat(1_000_000));
        let head = "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n";
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut status = String::new();
        BufReader::new(stream).read_line(&mut status).unwrap();
        assert!(status.contains(" 400 "), "{status}");
    }
    let taken = peak(sim.id()) - before;
    sim.kill().unwrap();
    sim.wait().unwrap();
    assert!(taken < 120, "{taken} MB");
}

/// A shell with job control in a terminal, in which `tacho serve --live` gets one signal or key. Prints whether the
/// terminal was restored, and whether the view came back after `fg`.
const IN_A_TERMINAL: &str = r#"
import os, pty, select, signal, subprocess, sys, time
program, how = sys.argv[1:]
pid, fd = pty.fork()
if pid == 0:
    os.environ.update(TERM='xterm', PS1='$ ')
    os.execvp('bash', ['bash', '--norc', '-i'])
seen = b''
def until(what, start):
    global seen
    end = time.time() + 60
    while what not in seen[start:]:
        if time.time() > end:
            sys.exit('%r did not come: %r' % (what, seen[start:][-300:]))
        if select.select([fd], [], [], 0.1)[0]:
            seen += os.read(fd, 65536)
    return len(seen)
os.write(fd, b'ulimit -c 0; %s serve --sim --live --num-prompts 4000 --request-rate 20 --no-log\n' % program.encode())
at = until(b'\x1b[?2026l', 0)
tacho = int(subprocess.check_output(['pgrep', '-P', str(pid)]).split()[0])
if how == 'z': os.write(fd, b'\x1a')
elif how == 'quit': os.write(fd, b'\x1c')
else: os.kill(tacho, getattr(signal, how))
at = until(b'\x1b[?1049l', at)
if how in ('z', 'SIGTSTP'):
    at = until(b'Stopped', at - 300)
    os.write(fd, b'fg\n')
    at = until(b'\x1b[?1049h', at)
    at = until(b'\x1b[?2026l', at)
    os.kill(tacho, signal.SIGKILL)
else:
    until(b'Quit', at - 300)
print('ok')
os.kill(pid, signal.SIGKILL)
"#;

#[test]
fn the_terminal_is_given_back_when_the_run_is_suspended_or_quit() {
    for how in ["z", "SIGTSTP", "quit", "SIGQUIT"] {
        let mut python = Command::new("python3");
        python.args(["-c", IN_A_TERMINAL, env!("CARGO_BIN_EXE_tacho"), how]).stdin(Stdio::null());
        let Ok(output) = python.output() else {
            eprintln!("skipped: there is no python3");
            return;
        };
        assert_eq!(stdout(&output), "ok\n", "{how}: {}", stderr(&output));
    }
}
