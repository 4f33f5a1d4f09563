//! One client of the multi-turn benchmark: which conversation is next, when it pauses and why it ends. Decides and
//! draws as vLLM's script does; sends nothing itself.

use std::collections::VecDeque;

use tacho_pyrand::{Random, RandomState};

#[derive(Debug, Clone, PartialEq)]
pub struct ClientSpec {
    pub max_active: usize,
    /// Number of exchanges after which it ends.
    pub max_requests: Option<usize>,
    /// Whether the first exchanges were made already.
    pub skip_first: bool,
    pub max_turns: Option<usize>,
    /// Whether the next conversation is random; otherwise the one that waited longest.
    pub random: bool,
    /// Mean exchanges per second; 0 for no pauses.
    pub request_rate: f64,
    pub max_retries: u32,
}

impl ClientSpec {
    /// Number of exchanges of a conversation with this many messages.
    pub(crate) fn exchanges(&self, messages: usize) -> usize {
        let max = self.max_turns.unwrap_or(usize::MAX).min(messages);
        (max / 2).max(1).saturating_sub(usize::from(self.skip_first))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// Send the first messages of a conversation.
    Send {
        conversation: usize,
        messages: usize,
    },
    End(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    Good,
    /// An error status, or no text.
    Rejected,
    Broken,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Then {
    /// Retry after a pause in seconds.
    Again(f64),
    Next {
        pause: f64,
        /// The conversation, if it is complete.
        published: Option<usize>,
    },
    /// End the client, because its responses are invalid.
    Leave,
}

#[derive(Debug)]
pub(crate) struct Client<'s> {
    spec: &'s ClientSpec,
    py: Random,
    np: RandomState,
    /// Active conversations in the order in which they started.
    active: Vec<usize>,
    /// Active conversations in round-robin order: the last one is next.
    turns: VecDeque<usize>,
    /// Messages used of each conversation so far.
    used: std::collections::HashMap<usize, usize>,
    current: Option<usize>,
    attempts: u32,
    pub(crate) successes: usize,
    pub(crate) failures: usize,
}

impl<'s> Client<'s> {
    pub(crate) fn new(spec: &'s ClientSpec, seed: u32, id: usize) -> Self {
        let seed = seed.wrapping_add(id as u32).wrapping_add(1);
        Client {
            spec,
            py: Random::new(u64::from(seed)),
            np: RandomState::new(seed),
            active: Vec::new(),
            turns: VecDeque::new(),
            used: std::collections::HashMap::new(),
            current: None,
            attempts: 0,
            successes: 0,
            failures: 0,
        }
    }

    /// The next action. `tasks` are conversations that no client has taken yet, with `length` messages each.
    pub(crate) fn next(&mut self, tasks: &mut VecDeque<usize>, length: &dyn Fn(usize) -> usize, stop: bool) -> Step {
        if self.spec.max_requests.is_some_and(|max| self.successes + self.failures >= max) {
            return Step::End("reached request limit");
        }
        if stop {
            return Step::End("received a termination signal");
        }
        let mut tasks_over = false;
        while self.active.len() < self.spec.max_active {
            let Some(conversation) = tasks.pop_front() else {
                tasks_over = true;
                break;
            };
            let used = self.used.entry(conversation).or_insert(0);
            *used += if self.spec.skip_first { 2 } else { 0 };
            if *used < length(conversation) {
                self.active.push(conversation);
                self.turns.push_back(conversation);
            }
        }
        // vLLM's script ends as soon as it cannot fill its conversations, and abandons those in progress.
        if self.active.is_empty() || tasks_over {
            return Step::End("has no more work");
        }
        let conversation = if self.spec.random {
            self.active[self.py.choice_index(self.active.len()).unwrap_or(0)]
        } else {
            self.turns.pop_back().expect("an active conversation takes turns")
        };
        let used = self.used.entry(conversation).or_insert(0);
        *used += 1;
        self.current = Some(conversation);
        self.attempts = 0;
        Step::Send { conversation, messages: *used }
    }

    /// The consequence of an attempt; `length` is that of the conversation.
    pub(crate) fn came_out(&mut self, attempt: Attempt, length: usize) -> Then {
        let conversation = self.current.expect("an attempt was made");
        if attempt != Attempt::Good && self.attempts < self.spec.max_retries {
            let pause = 2f64.powi(self.attempts as i32) * (1.0 + self.np.uniform(-0.1, 0.1));
            self.attempts += 1;
            return Then::Again(pause);
        }
        let mut published = None;
        match attempt {
            Attempt::Good => {
                self.successes += 1;
                let used = self.used.entry(conversation).or_insert(0);
                *used += 1;
                if *used >= self.spec.max_turns.unwrap_or(usize::MAX).min(length) {
                    published = Some(conversation);
                    self.drop_active(conversation);
                } else if !self.spec.random {
                    self.turns.push_front(conversation);
                }
            }
            Attempt::Rejected | Attempt::Broken => {
                self.failures += 1;
                self.drop_active(conversation);
            }
        }
        if attempt == Attempt::Broken {
            return Then::Leave;
        }
        let rate = self.spec.request_rate;
        let pause = if rate > 0.0 { self.np.standard_exponential() * (1.0 / rate) } else { 0.0 };
        Then::Next { pause, published }
    }

    fn drop_active(&mut self, conversation: usize) {
        self.active.retain(|&other| other != conversation);
        self.turns.retain(|&other| other != conversation);
    }

    pub(crate) fn spec(&self) -> &ClientSpec {
        self.spec
    }

    /// Active conversations, in the order in which it started them.
    pub(crate) fn active(&self) -> &[usize] {
        &self.active
    }

    pub(crate) fn abandoned(&self) -> usize {
        self.active.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tacho_testkit::golden_json;

    use super::*;

    /// Runs a recorded case and returns its events in the format of the recording.
    fn replay(case: &Value) -> (Vec<Value>, usize, usize, usize) {
        let tasks: Vec<(String, usize)> = case["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| (task[0].as_str().unwrap().to_owned(), task[1].as_u64().unwrap() as usize))
            .collect();
        let count = |name: &str| case[name].as_u64().map(|count| count as usize);
        let spec = ClientSpec {
            max_active: count("max_active_conversations").unwrap(),
            max_requests: count("max_num_requests"),
            skip_first: case["skip_first_turn"].as_bool().unwrap(),
            max_turns: count("max_turns"),
            random: case["conversation_sampling"] == "random",
            request_rate: case["request_rate"].as_f64().unwrap(),
            max_retries: count("max_retries").unwrap() as u32,
        };
        let seed = case["seed"].as_u64().unwrap() as u32;
        let mut client = Client::new(&spec, seed, count("client_id").unwrap());
        let mut queue: VecDeque<usize> = (0..tasks.len()).collect();
        let mut events = Vec::new();
        let mut checks = 0;
        'all: loop {
            let stop = count("stop_after_checks").is_some_and(|after| checks >= after);
            checks += 1;
            let (conversation, messages) = match client.next(&mut queue, &|at| tasks[at].1, stop) {
                Step::End(_) => break,
                Step::Send { conversation, messages } => (conversation, messages),
            };
            let id = &tasks[conversation].0;
            let mut attempts = 0;
            loop {
                let outcome = case["outcomes"][format!("{id}:{messages}")][attempts].as_str().unwrap_or("ok");
                events.push(json!({"send": id, "messages": messages, "attempt": attempts, "outcome": outcome}));
                attempts += 1;
                let attempt = match outcome {
                    "ok" => Attempt::Good,
                    "reject" => Attempt::Rejected,
                    _ => Attempt::Broken,
                };
                let sleep = |seconds: f64| json!({"sleep": format!("{:016x}", seconds.to_bits())});
                match client.came_out(attempt, tasks[conversation].1) {
                    Then::Again(pause) => events.push(sleep(pause)),
                    Then::Leave => break 'all,
                    Then::Next { pause, published } => {
                        if published.is_some() {
                            events.push(json!({"publish": id, "messages": tasks[conversation].1}));
                        }
                        if pause > 0.0 {
                            events.push(sleep(pause));
                        }
                        break;
                    }
                }
            }
        }
        events.push(json!({"end": true}));
        (events, client.successes, client.failures, queue.len())
    }

    #[test]
    fn a_client_follows_the_recorded_script() {
        let cases = golden_json("scenarios/multi-turn/client.json");
        for case in cases.as_array().unwrap().iter().filter(|case| case["exit"] != "died") {
            let name = case["name"].as_str().unwrap();
            let expected: Vec<Value> = case["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| match &event["sleep"] {
                    Value::Null => event.clone(),
                    sleep => json!({"sleep": sleep["bits"]}),
                })
                .collect();
            let (events, successes, failures, left) = replay(case);
            assert_eq!(events, expected, "{name}");
            assert_eq!(successes as u64, case["num_successes"].as_u64().unwrap(), "{name}");
            assert_eq!(failures as u64, case["num_failures"].as_u64().unwrap(), "{name}");
            assert_eq!(left as u64, case["tasks_left"].as_u64().unwrap(), "{name}");
        }
    }
}
