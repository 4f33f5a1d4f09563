//! Messages of a running phase, for `--verbose` and `--print-content`.

use tacho_core::event::{Response, TalkNote};
use tacho_core::{Observation, RunEvent};

use super::client::Attempt;
use super::clients::{Clients, reason};

impl Clients<'_> {
    fn note(&self, note: TalkNote) {
        self.sink.event(RunEvent::status(note));
    }

    fn name(&self, conversation: usize) -> String {
        self.conversations[conversation].id.clone()
    }

    /// The conversations that a client has started beyond those that it had.
    pub(super) fn report_start(&self, client: usize, held: usize) {
        if !self.plan.verbose {
            return;
        }
        for (at, &taken) in self.clients[client].active().iter().enumerate().skip(held) {
            self.note(TalkNote::ConversationAssigned { client, conversation: self.name(taken), active: at + 1 });
        }
    }

    pub(super) fn report_request(&mut self, client: usize) {
        if !self.plan.verbose {
            return;
        }
        let (conversation, messages) = self.sent[client];
        let now = self.now();
        let since = self.asked.insert(conversation, now).map(|last| now.secs_since(last));
        self.note(TalkNote::TurnSent { client, conversation: self.name(conversation), messages, since });
    }

    pub(super) fn report_messages(&self, client: usize) {
        if !self.plan.print_content {
            return;
        }
        let (conversation, messages) = self.sent[client];
        let messages = self.conversations[conversation].messages[..messages].to_vec();
        self.note(TalkNote::Messages { conversation: self.name(conversation), messages });
    }

    /// The result of a request.
    pub(super) fn report_response(&self, client: usize, row: &Observation, attempt: Attempt) {
        let (conversation, messages) = self.sent[client];
        if attempt != Attempt::Good {
            if self.plan.verbose {
                let (rejected, reason) = (attempt == Attempt::Rejected, reason(row));
                let conversation = self.name(conversation);
                self.note(TalkNote::Failed { client, conversation, messages, rejected, reason });
            }
            return;
        }
        let Some(sample) = self.result.samples.last().filter(|_| self.plan.print_content) else { return };
        self.note(TalkNote::Response(Box::new(Response {
            text: String::from_utf8_lossy(&row.text).into_owned(),
            ttft_ms: sample.ttft_ms,
            tpot_ms: sample.tpot_ms,
            latency_ms: sample.latency_ms,
            input_tokens: sample.input_num_tokens,
            output_tokens: sample.output_num_tokens,
            chunks: sample.output_num_chunks,
            first_chunk_tokens: sample.output_num_first_chunk_tokens,
            cached_percent: sample.approx_cached_percent,
        })));
    }

    pub(super) fn report_complete(&self, client: usize, conversation: usize) {
        if self.plan.verbose {
            self.note(TalkNote::ConversationFinished { client, conversation: self.name(conversation) });
        }
    }

    pub(super) fn report_end(&self, client: usize, why: Option<&'static str>) {
        if self.plan.verbose {
            let (successes, failures) = (self.clients[client].successes, self.clients[client].failures);
            self.note(TalkNote::Ends { client, why, successes, failures });
        }
    }
}
