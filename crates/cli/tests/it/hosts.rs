//! Server addresses: IPv4 and IPv6, for every command that connects to a server.

use std::io::{BufRead, BufReader};
use std::{net::TcpListener, process::Child};

use crate::tacho::{Place, stderr, stdout};

/// A simulator on the IPv6 loopback address.
struct Sim {
    child: Child,
    port: String,
}

impl Sim {
    fn start(place: &Place) -> Sim {
        let port = TcpListener::bind("[::1]:0").unwrap().local_addr().unwrap().port().to_string();
        let mut child = place.spawn(&["sim", "--host", "::1", "--port", &port]);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains(&format!("[::1]:{port}"))), "it says where it listens");
        std::thread::spawn(move || lines.count());
        Sim { child, port }
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn every_command_that_asks_a_server_takes_an_address_of_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("not tried: this machine has no IPv6");
        return;
    }
    let place = Place::new();
    let sim = Sim::start(&place);
    let commands: [&str; 6] = [
        "serve --num-prompts 3 --random-input-len 8 --random-output-len 4",
        "throughput --backend openai --num-prompts 3 --input-len 8 --output-len 4",
        "prefix-caching --backend openai --num-prompts 2 --repeat-count 2 --input-length-range 20:30 --output-len 4",
        "long-doc-qa --backend openai --num-documents 2 --document-length 50 --output-len 4 --repeat-count 2",
        "prioritization --backend openai --num-prompts 3 --input-len 8 --output-len 4",
        "structured-output --num-prompts 3 --output-len 8 --dataset regex",
    ];
    for line in commands {
        let args: Vec<&str> = line.split(' ').collect();
        let here = ["--host", "::1", "--port", &sim.port, "--model", "tacho-sim", "--tokenizer", "gpt2"];
        let output = place.run(&[&args[..], &here].concat());
        assert!(output.status.success(), "{line}: {}\n{}", stderr(&output), stdout(&output));
        let url = format!("http://[::1]:{}", sim.port);
        let by_url = ["--base-url", &url, "--model", "tacho-sim", "--tokenizer", "gpt2"];
        let output = place.run(&[&args[..], &by_url].concat());
        assert!(output.status.success(), "{line}: {}", stderr(&output));
    }
}
