//! Conversion of session steps to JSON and back: session metrics need them in addition to the rows.

use tacho_core::json::{Dict, Value};
use tacho_metrics::sessions::{SessionStep, Steps};

use super::fields::Fields;
use crate::Error;

pub(super) fn write(steps: &Steps) -> Value {
    let all = steps.steps.iter().zip(&steps.places);
    Value::List(all.map(|(step, place)| step_json(step, *place).into()).collect())
}

fn step_json(step: &SessionStep, place: usize) -> Dict {
    let pair = |&(parent, after): &(usize, f64)| Value::List(vec![parent.into(), after.into()]);
    let piece = |&(name, tokens): &(u64, u64)| Value::List(vec![name.into(), tokens.into()]);
    let mut dict = Dict::new();
    dict.set("place", place);
    dict.set("session", step.session);
    dict.set("turn", step.turn);
    if step.child {
        dict.set("child", true);
    }
    if let Some(at) = step.at {
        dict.set("at", at);
    }
    dict.set("parents", step.parents.iter().map(pair).collect::<Vec<_>>());
    dict.set("sends", step.sends);
    if step.warmed {
        dict.set("warmed", true);
    }
    dict.set("own", step.own.iter().map(piece).collect::<Vec<_>>());
    dict.set("before", step.before.iter().map(reference).collect::<Vec<Value>>());
    dict
}

/// Reads steps and checks that their parents and sessions exist, since metrics index by them.
pub(super) fn read(fields: Fields<'_>) -> Result<Steps, Error> {
    let steps = fields.objects("sessions")?;
    let count = steps.len();
    let places = steps.iter().enumerate().map(|(at, step)| match step.maybe("place") {
        None => Ok(at),
        Some(_) => Ok(step.count("place")? as usize),
    });
    let places: Vec<usize> = places.collect::<Result<_, Error>>()?;
    let steps: Vec<SessionStep> = steps.iter().map(|step| read_step(step, count)).collect::<Result<_, _>>()?;
    if has_cycle(&steps) || !places.is_sorted() {
        return Err(fields.wrong("sessions", "a list of steps that have an order"));
    }
    let source = fields.maybe("session_source").and_then(Value::as_dict).cloned().unwrap_or_default();
    Ok(Steps { steps, places, source })
}

/// Returns whether the dependencies have a cycle.
fn has_cycle(steps: &[SessionStep]) -> bool {
    let mut children = vec![Vec::new(); steps.len()];
    let mut waits: Vec<usize> = steps.iter().map(|step| step.parents.len()).collect();
    for (place, step) in steps.iter().enumerate() {
        step.parents.iter().for_each(|(parent, _)| children[*parent].push(place));
    }
    let mut ready: Vec<usize> = (0..steps.len()).filter(|&place| waits[place] == 0).collect();
    let mut passed = 0;
    while let Some(place) = ready.pop() {
        passed += 1;
        for &child in &children[place] {
            waits[child] -= 1;
            if waits[child] == 0 {
                ready.push(child);
            }
        }
    }
    passed < steps.len()
}

fn read_step(fields: &Fields<'_>, count: usize) -> Result<SessionStep, Error> {
    let place = |key: &str| match fields.count(key)? as usize {
        place if place < count => Ok(place),
        _ => Err(fields.wrong(key, "the number of a step")),
    };
    let parent = |value: &Value| {
        let [parent, after] = value.as_list()? else { return None };
        let parent = usize::try_from(parent.as_i64()?).ok().filter(|&parent| parent < count)?;
        Some((parent, after.as_f64()?))
    };
    let parents: Option<_> = fields.list("parents")?.iter().map(parent).collect();
    Ok(SessionStep {
        session: place("session")?,
        turn: place("turn")?,
        child: fields.maybe("child").is_some_and(Value::truthy),
        at: fields.maybe_float("at")?,
        parents: parents.ok_or_else(|| fields.wrong("parents", "a list of steps and pauses"))?,
        sends: fields.flag("sends")?,
        warmed: fields.maybe("warmed").is_some_and(Value::truthy),
        own: maybe_list(fields, "own", &piece)?,
        before: maybe_list(fields, "before", &|value| read_reference(value).filter(|(before, _)| *before < count))?,
    })
}

/// A reference to an earlier step: its index, and the choice if it is not the first.
fn reference(&(step, choice): &(usize, usize)) -> Value {
    if choice == 0 { step.into() } else { Value::List(vec![step.into(), choice.into()]) }
}

fn read_reference(value: &Value) -> Option<(usize, usize)> {
    let number = |value: &Value| usize::try_from(value.as_i64()?).ok();
    match value.as_list() {
        Some([step, choice]) => Some((number(step)?, number(choice)?)),
        Some(_) => None,
        None => Some((number(value)?, 0)),
    }
}

/// A segment of a prompt.
fn piece(value: &Value) -> Option<(u64, u64)> {
    let [name, tokens] = value.as_list()? else { return None };
    Some((u64::try_from(name.as_i64()?).ok()?, u64::try_from(tokens.as_i64()?).ok()?))
}

/// A list that logs of earlier versions lack.
fn maybe_list<T>(fields: &Fields<'_>, key: &str, item: &dyn Fn(&Value) -> Option<T>) -> Result<Vec<T>, Error> {
    if fields.maybe(key).is_none() {
        return Ok(Vec::new());
    }
    let items: Option<Vec<T>> = fields.list(key)?.iter().map(item).collect();
    items.ok_or_else(|| fields.wrong(key, "a list of what a prompt is made of"))
}
