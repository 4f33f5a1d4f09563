//! Messages of a running phase, for `--verbose` and `--print-content`.

use tacho_core::{Observation, RunEvent, event::Note, json::quoted};

use super::client::Attempt;
use super::clients::{Clients, reason};

/// A line between requests.
const SEPARATOR: &str = "----------------------------------------------------------------------";

impl Clients<'_> {
    fn say(&self, client: usize, text: &str) {
        self.sink.event(RunEvent::status(Note::Client(format!("Client {client} {text}"))));
    }

    fn name(&self, conversation: usize) -> &str {
        &self.conversations[conversation].id
    }

    /// The conversations that a client has started beyond those that it had.
    pub(super) fn report_start(&self, client: usize, held: usize) {
        if !self.plan.verbose {
            return;
        }
        for (at, &taken) in self.clients[client].active().iter().enumerate().skip(held) {
            let (name, active) = (self.name(taken), at + 1);
            self.say(client, &format!("will use conversation ID {name} (active conversations {active})"));
        }
    }

    pub(super) fn report_request(&mut self, client: usize) {
        if !self.plan.verbose {
            return;
        }
        let (conversation, messages) = self.sent[client];
        let now = self.now();
        let since = self.requested.insert(conversation, now).map(|last| now.secs_since(last));
        let since = since.map_or_else(|| "N/A".to_owned(), |seconds| format!("{seconds:.3}"));
        let name = self.name(conversation);
        let turn = format!("(turn: {messages}, time since last turn [sec]: {since})");
        self.say(client, &format!("using conversation ID {name} {turn}"));
    }

    pub(super) fn report_messages(&self, client: usize) {
        if !self.plan.print_content {
            return;
        }
        let (conversation, messages) = self.sent[client];
        let message = |(at, text): (usize, &String)| {
            let role = if at % 2 == 0 { "user" } else { "assistant" };
            format!("{{'role': '{role}', 'content': {}}}", quoted(text))
        };
        let list = self.conversations[conversation].messages[..messages].iter().enumerate().map(message);
        let (name, list) = (self.name(conversation), list.collect::<Vec<_>>().join(", "));
        let text = format!("Messages (conversation ID {name}, {messages} turns): [{list}]");
        self.sink.event(RunEvent::status(text));
    }

    pub(super) fn report_response(&self, client: usize, row: &Observation, attempt: Attempt) {
        let (conversation, messages) = self.sent[client];
        if attempt != Attempt::Good {
            if self.plan.verbose {
                // A rejected request does not end its client.
                let what = if attempt == Attempt::Rejected { "Request rejected" } else { "Exception" };
                let (name, reason) = (self.name(conversation), reason(row));
                self.say(client, &format!("- {what} during conversation ID {name} (turn: {messages}): {reason}"));
            }
            return;
        }
        let Some(sample) = self.result.samples.last().filter(|_| self.plan.print_content) else { return };
        self.sink.event(RunEvent::status(format!(
            "\nResponse ({output} tokens): {}\nResponse metrics: ttft_ms {:.2}, tpot_ms {:.2}, latency_ms {:.2}, \
             input_num_tokens {}, output_num_tokens {output} ({} chunks, {} tokens in first chunk), approx_cached_percent \
             {:.2}%\n{SEPARATOR}",
            String::from_utf8_lossy(&row.text),
            sample.ttft_ms,
            sample.tpot_ms,
            sample.latency_ms,
            sample.input_num_tokens,
            sample.output_num_chunks,
            sample.output_num_first_chunk_tokens,
            sample.approx_cached_percent,
            output = sample.output_num_tokens,
        )));
    }

    pub(super) fn report_complete(&self, client: usize, conversation: usize) {
        if self.plan.verbose {
            self.say(client, &format!("finished conversation ID {}", self.name(conversation)));
        }
    }

    pub(super) fn report_end(&self, client: usize, why: Option<&str>) {
        if self.plan.verbose {
            let (successes, failures) = (self.clients[client].successes, self.clients[client].failures);
            if let Some(why) = why {
                self.say(client, why);
            }
            self.say(client, &format!("is done (num_successes={successes}, num_failures={failures})"));
        }
    }
}
