//! The history before a step's own messages: earlier questions, the server's completions, and results of its tool
//! calls. A call without a recorded result gets a generic success.

use tacho_core::json::{Value, parse};
use tacho_core::{Content, Request, ToolCall};

use super::{Find, ReceivedResponse, Replay, content_text, request_messages};
use crate::sampling::chat::{message, object};

/// The result of a tool call that was not recorded.
const SIMULATED: &str = r#"{"status": "ok"}"#;

impl Replay {
    /// The request with its full history; `None` if it has none.
    pub fn request(&self, index: usize, find: Find<'_>) -> Option<Request> {
        let before = &self.before[index];
        let own = &self.requests[index];
        let (last, _) = *before.last()?;
        if !self.chat {
            let mut text = String::new();
            for (position, choice) in before {
                text += content_text(&self.requests[*position]);
                text += &find(*position).map(|received| text_of(&received.choice(*choice))).unwrap_or_default();
            }
            text += content_text(own);
            return Some(Request { content: Content::Text(text), ..own.clone() });
        }
        let kept = find(last).and_then(|received| Some((received, received.reply?.id.clone()?)));
        if let Some((received, id)) = kept.filter(|_| self.server_history) {
            let mut transcript = Transcript { messages: Vec::new(), open: calls(&received).to_vec() };
            transcript.push_messages(request_messages(own));
            let mut overrides = own.overrides.as_ref().and_then(Value::as_dict).cloned().unwrap_or_default();
            overrides.set("previous_response_id", id);
            let overrides = Some(overrides.into());
            return Some(Request { chat_messages: Some(Value::List(transcript.messages)), overrides, ..own.clone() });
        }
        let mut transcript = Transcript::default();
        for (position, choice) in before {
            transcript.push_messages(request_messages(&self.requests[*position]));
            if let Some(received) = find(*position) {
                transcript.push_completion(&received.choice(*choice));
            }
        }
        transcript.push_messages(request_messages(own));
        Some(Request { chat_messages: Some(Value::List(transcript.messages)), ..own.clone() })
    }

    /// The step whose completion calls tools for which this one sends unrecorded results, so that the caller has to
    /// wait for them.
    pub fn simulated_tools(&self, index: usize, find: Find<'_>) -> Option<usize> {
        let (caller, choice) = *self.before[index].last()?;
        let called = calls(&find(caller)?.choice(choice)).len();
        let recorded = request_messages(&self.requests[index]).iter().take_while(|own| has_role(own, "tool")).count();
        (called > 0 && recorded < called).then_some(caller)
    }
}

impl<'a> ReceivedResponse<'a> {
    /// One of several choices; the first if the server returned fewer than requested.
    fn choice(self, choice: usize) -> ReceivedResponse<'a> {
        let other = choice.checked_sub(1).and_then(|at| self.reply?.others.get(at));
        other.map_or(self, |text| ReceivedResponse { text: text.as_bytes(), reply: None })
    }
}

#[derive(Default)]
struct Transcript {
    messages: Vec<Value>,
    /// Tool calls of the last completion, which need results.
    open: Vec<ToolCall>,
}

impl Transcript {
    fn push_completion(&mut self, received: &ReceivedResponse<'_>) {
        let calls = calls(received);
        let text = text_of(received);
        let mut message = tacho_core::dict! {
            "role": "assistant",
            "content": if text.is_empty() && !calls.is_empty() { Value::Null } else { text.into() },
        };
        if !calls.is_empty() {
            message.set("tool_calls", calls.iter().map(call_json).collect::<Vec<Value>>());
        }
        self.messages.push(message.into());
        self.open = calls.to_vec();
    }

    /// Appends a step's own messages: first the results of tool calls, then the rest.
    fn push_messages(&mut self, own: Vec<Value>) {
        let described = self.messages.iter().any(|message| has_role(message, "system"));
        let results = own.iter().take_while(|message| has_role(message, "tool")).count();
        let open = std::mem::take(&mut self.open);
        for (position, call) in open.iter().enumerate() {
            let recorded = own[..results].get(position).and_then(|result| result.get("content")).cloned();
            let content = recorded.unwrap_or_else(|| SIMULATED.into());
            let id = call.id.as_str();
            self.messages.push(object([("role", "tool".into()), ("tool_call_id", id.into()), ("content", content)]));
        }
        if open.is_empty() {
            // The file has results, but this time no tool was called, and a server refuses results without a call.
            let content = |message: &Value| message.get("content").cloned().unwrap_or(Value::Null);
            self.messages.extend(own[..results].iter().map(|message| self::message("user", content(message))));
        }
        let rest = own.into_iter().skip(results);
        self.messages.extend(rest.filter(|message| !(described && has_role(message, "system"))));
    }
}

fn calls<'a>(received: &ReceivedResponse<'a>) -> &'a [ToolCall] {
    received.reply.map_or(&[], |reply| &reply.calls)
}

fn text_of(received: &ReceivedResponse<'_>) -> String {
    String::from_utf8_lossy(received.text).into_owned()
}

/// A call in message format. Arguments that are not a JSON object would make the server refuse all later messages.
fn call_json(call: &ToolCall) -> Value {
    let good = matches!(parse(&call.arguments), Ok(Value::Dict(_)));
    let arguments = if good { call.arguments.as_str() } else { "{}" };
    let function = object([("name", call.name.as_str().into()), ("arguments", arguments.into())]);
    object([("id", call.id.as_str().into()), ("type", "function".into()), ("function", function)])
}

fn has_role(message: &Value, role: &str) -> bool {
    message.text("role") == Some(role)
}

#[cfg(test)]
mod tests {
    use tacho_core::{Reply, json::dumps};

    use super::*;

    fn replay(own: &[&str], server_history: bool) -> Replay {
        let request = |text: &&str| Request { chat_messages: Some(parse(text).unwrap()), ..Request::text("", 1, 1) };
        let requests: Vec<Request> = own.iter().map(request).collect();
        let before = (0..own.len()).map(|position| (0..position).map(|before| (before, 0)).collect()).collect();
        let (keeps, pieces) = (vec![true; own.len()], vec![Vec::new(); own.len()]);
        Replay { requests, before, keeps, pieces, chat: true, server_history }
    }

    fn called(arguments: &str) -> Reply {
        let call = ToolCall { id: "c1".into(), name: "look".into(), arguments: arguments.into() };
        Reply { id: Some("resp_1".into()), calls: vec![call], others: Vec::new() }
    }

    const USER: &str = r#"[{"role": "user", "content": "q"}]"#;

    #[test]
    fn recorded_results_go_back_under_the_names_of_live_calls() {
        let own = [USER, r#"[{"role": "tool", "tool_call_id": "old", "content": "42"}]"#];
        let reply = called(r#"{"x": 1}"#);
        let find = |_| Some(ReceivedResponse { text: b"", reply: Some(&reply) });
        let request = replay(&own, false).request(1, &find).unwrap();
        let expected = concat!(
            r#"[{"role": "user", "content": "q"}, {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "#,
            r#""type": "function", "function": {"name": "look", "arguments": "{\"x\": 1}"}}]}, "#,
            r#"{"role": "tool", "tool_call_id": "c1", "content": "42"}]"#
        );
        assert_eq!(dumps(&request.chat_messages.unwrap()), expected);
        assert_eq!(replay(&own, false).simulated_tools(1, &find), None);
    }

    #[test]
    fn calls_without_a_recorded_result_get_one_and_bad_arguments_are_mended() {
        let reply = called("{not json");
        let find = |_| Some(ReceivedResponse { text: b"hm", reply: Some(&reply) });
        let replay = replay(&[USER, USER], false);
        let text = dumps(&replay.request(1, &find).unwrap().chat_messages.unwrap());
        assert!(
            text.contains(r#""tool_call_id": "c1", "content": "{\"status\": \"ok\"}"}, {"role": "user""#),
            "{text}"
        );
        assert!(text.contains(r#""arguments": "{}""#) && replay.simulated_tools(1, &find) == Some(0), "{text}");
    }

    #[test]
    fn a_branch_goes_on_from_its_own_answer() {
        let reply = Reply { others: vec!["second".into()], ..Reply::default() };
        let find = |_| Some(ReceivedResponse { text: b"first", reply: Some(&reply) });
        for (choice, response) in [(0, "first"), (1, "second"), (2, "first")] {
            let replay = Replay { before: vec![Vec::new(), vec![(0, choice)]], ..replay(&[USER, USER], false) };
            let text = dumps(&replay.request(1, &find).unwrap().chat_messages.unwrap());
            assert!(text.contains(&format!(r#""assistant", "content": "{response}""#)), "{text}");
        }
    }

    #[test]
    fn a_result_of_nothing_is_said_by_the_user() {
        let own = [USER, r#"[{"role": "tool", "tool_call_id": "old", "content": "42"}]"#];
        let find = |_| Some(ReceivedResponse { text: b"no call", reply: None });
        let text = dumps(&replay(&own, false).request(1, &find).unwrap().chat_messages.unwrap());
        assert!(text.ends_with(r#"{"role": "assistant", "content": "no call"}, {"role": "user", "content": "42"}]"#));
    }

    #[test]
    fn a_server_that_keeps_history_hears_only_what_is_new() {
        let reply = Reply { id: Some("resp_1".into()), ..Reply::default() };
        let find = |_| Some(ReceivedResponse { text: b"a", reply: Some(&reply) });
        let request = replay(&[USER, USER], true).request(1, &find).unwrap();
        assert_eq!(dumps(&request.chat_messages.unwrap()), USER);
        assert_eq!(dumps(&request.overrides.unwrap()), r#"{"previous_response_id": "resp_1"}"#);
        let lost = replay(&[USER, USER], true).request(1, &|_| None).unwrap();
        assert!(lost.overrides.is_none(), "without a response to name, everything is sent again");
    }
}
