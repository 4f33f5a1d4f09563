//! A step of a session, as planned.

use tacho_core::json::{Codec, Dict, FieldError, Json, Value, typed};

tacho_core::record! {
    /// One step of a session, as planned and as it went.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct SessionStep {
        /// The session tree it belongs to.
        pub session: usize,
        /// Its position in its thread of turns, from 0.
        pub turn: usize,
        /// Whether it belongs to a sub-agent rather than to the session's main thread.
        pub child: bool = false,
        /// Its time in the file, in seconds from the session's start.
        pub at: Option<f64> = None,
        /// Steps that must end first, and the pause after each in seconds.
        pub parents: Vec<(usize, f64)>,
        /// Whether it sends a request.
        pub sends: bool,
        /// Whether its prompt was sent before the run, without its last segment: its response.
        pub warmed: bool = false,
        /// The segments of its own part of the prompt: hashes and tokens. Empty where unknown.
        pub own: Vec<(u64, u64)> = Vec::new(),
        /// Steps whose own parts and responses precede it, and the choice of each; 0 is the first.
        pub before: Vec<(usize, usize)> => References = Vec::new(),
    }
}

impl SessionStep {
    /// Returns whether all steps that they refer to exist and no step depends on itself.
    pub fn have_order(steps: &[SessionStep]) -> bool {
        let count = steps.len();
        let exists = |step: &SessionStep| {
            let before = step.before.iter().map(|(before, _)| *before);
            let mut indices =
                step.parents.iter().map(|(parent, _)| *parent).chain(before).chain([step.session, step.turn]);
            indices.all(|index| index < count)
        };
        steps.iter().all(exists) && !has_cycle(steps)
    }
}

/// Returns whether the dependencies have a cycle.
fn has_cycle(steps: &[SessionStep]) -> bool {
    let mut children = vec![Vec::new(); steps.len()];
    let mut waits: Vec<usize> = steps.iter().map(|step| step.parents.len()).collect();
    for (index, step) in steps.iter().enumerate() {
        step.parents.iter().for_each(|(parent, _)| children[*parent].push(index));
    }
    let mut ready: Vec<usize> = (0..steps.len()).filter(|&index| waits[index] == 0).collect();
    let mut passed = 0;
    while let Some(index) = ready.pop() {
        passed += 1;
        for &child in &children[index] {
            waits[child] -= 1;
            if waits[child] == 0 {
                ready.push(child);
            }
        }
    }
    passed < steps.len()
}

/// References to earlier steps: the index, with the choice if it is not the first.
struct References;

impl Codec<Vec<(usize, usize)>> for References {
    fn write(steps: &Vec<(usize, usize)>) -> Value {
        let reference = |step: &(usize, usize)| if step.1 == 0 { step.0.into() } else { step.to_json() };
        Value::List(steps.iter().map(reference).collect())
    }

    fn read(value: &Value) -> Result<Vec<(usize, usize)>, FieldError> {
        let reference = |value: &Value| {
            usize::from_json(value).map(|step| (step, 0)).or_else(|_| <(usize, usize)>::from_json(value))
        };
        value.as_list().ok_or(FieldError::new("a list"))?.iter().map(reference).collect()
    }

    fn schema(_: bool) -> Dict {
        typed("array")
    }
}
