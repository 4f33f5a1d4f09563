//! JSON that satisfies a JSON schema.

mod check;
mod string;

use tacho_core::json::{Dict, Value, dumps};

use super::{dice::Dice, pattern::Pattern};

/// Beyond this depth only required parts are drawn.
const OPTIONAL_DEPTH: usize = 6;
/// Beyond this depth a recursive schema is cut off.
const RECURSION_LIMIT: usize = 60;

#[derive(Debug)]
pub(crate) struct Schema {
    root: Value,
}

impl Schema {
    pub(crate) fn new(root: &Value) -> Result<Self, String> {
        let schema = Schema { root: root.clone() };
        schema.check(&schema.root, 0)?;
        Ok(schema)
    }

    pub(crate) fn any_object() -> Self {
        let root = [("type".to_owned(), Value::from("object"))].into_iter().collect();
        Schema { root: Value::Dict(root) }
    }

    /// Draws a value and writes it as Python does.
    pub(crate) fn text(&self, dice: &mut Dice) -> String {
        dumps(&self.value(&self.root, 0, dice))
    }

    fn value(&self, schema: &Value, depth: usize, dice: &mut Dice) -> Value {
        let Value::Dict(schema) = schema else { return any(dice) };
        if depth > RECURSION_LIMIT || !dice.spend(1) {
            return Value::Null;
        }
        if let Some(value) = schema.get("const") {
            return given(value, dice);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_list) {
            return dice.pick(values).map_or(Value::Null, |value| given(value, dice));
        }
        if let Some(whole) = self.composed(schema, depth, dice) {
            return self.value(&Value::Dict(whole), depth + 1, dice);
        }
        match kind(schema, depth, dice) {
            Some("object") => Value::Dict(self.object(schema, depth, dice)),
            Some("array") => Value::List(self.array(schema, depth, dice)),
            Some("string") => Value::Str(string::draw(schema, dice)),
            Some("integer") => Value::Int(integer(schema, dice)),
            Some("number") => Value::Float(number(schema, dice)),
            Some("boolean") => Value::Bool(dice.below(2) == 0),
            Some("null") => Value::Null,
            _ => any(dice),
        }
    }

    /// A composed schema as one: `$ref` resolved, `allOf` merged, one of several chosen.
    fn composed(&self, schema: &Dict, depth: usize, dice: &mut Dice) -> Option<Dict> {
        if !["$ref", "allOf", "anyOf", "oneOf"].iter().any(|name| schema.get(name).is_some()) {
            return None;
        }
        // Schemas are copied here: a recursive one must not be copied too often.
        let joined = |whole: Dict, part: &Value, dice: &mut Dice| match dice.spend(weight(part)) {
            true => joined(whole, part),
            false => whole,
        };
        if !dice.spend(schema.iter().map(|(_, part)| weight(part)).sum()) {
            return Some(Dict::new());
        }
        let mut rest = schema.clone();
        if let Some(reference) = rest.remove("$ref") {
            let target = reference.as_str().and_then(|path| self.resolve(path));
            return Some(joined(rest, target.unwrap_or(&Value::Null), dice));
        }
        if let Some(Value::List(all)) = rest.remove("allOf") {
            let mut one = |whole: Dict, part: &Value| match self.flat(part) {
                Some(part) => joined(whole, part, dice),
                None => whole,
            };
            return Some(all.iter().fold(rest, &mut one));
        }
        for name in ["anyOf", "oneOf"] {
            if let Some(Value::List(some)) = rest.remove(name) {
                let shallow: Vec<&Value> = some.iter().filter(|part| !self.is_deep(part)).collect();
                let part = match depth > OPTIONAL_DEPTH || dice.size == 0 {
                    true if !shallow.is_empty() => dice.pick(&shallow).copied(),
                    _ => dice.pick(&some),
                };
                return Some(match part {
                    Some(part) => joined(rest, part, dice),
                    None => rest,
                });
            }
        }
        None
    }

    /// A part with its reference resolved.
    fn flat<'a>(&'a self, part: &'a Value) -> Option<&'a Value> {
        match part.text("$ref") {
            Some(path) => self.resolve(path),
            None => Some(part),
        }
    }

    /// Returns whether a part may contain others.
    fn is_deep(&self, part: &Value) -> bool {
        let names = ["$ref", "properties", "items", "anyOf", "oneOf", "allOf"];
        part.as_dict().is_some_and(|part| names.iter().any(|name| part.get(name).is_some()))
    }

    /// The target of `#/a/b`.
    fn resolve(&self, path: &str) -> Option<&Value> {
        let mut at = &self.root;
        for name in path.strip_prefix('#')?.split('/').skip(1) {
            let name = name.replace("~1", "/").replace("~0", "~");
            at = match at {
                Value::List(items) => items.get(name.parse::<usize>().ok()?)?,
                other => other.get(&name)?,
            };
        }
        Some(at)
    }

    fn object(&self, schema: &Dict, depth: usize, dice: &mut Dice) -> Dict {
        let required: Vec<&str> = texts(schema.get("required"));
        dice.spend(required.len());
        let mut out = Dict::new();
        let properties = schema.get("properties").and_then(Value::as_dict);
        for (name, member) in properties.into_iter().flat_map(Dict::iter) {
            if required.contains(&name) || (depth <= OPTIONAL_DEPTH && dice.includes()) {
                out.set(name, self.value(member, depth + 1, dice));
            }
        }
        let other = schema.get("additionalProperties").filter(|other| other.as_dict().is_some());
        for name in required {
            if out.get(name).is_none() {
                let member = other.cloned().unwrap_or(Value::Bool(true));
                out.set(name, self.value(&member, depth + 1, dice));
            }
        }
        self.add_more(schema, depth, dice, &mut out);
        out
    }

    /// Additional properties: as many as required, and a few where the schema does not restrict them.
    fn add_more(&self, schema: &Dict, depth: usize, dice: &mut Dice, out: &mut Dict) {
        let bound = |name: &str| schema.get(name).and_then(Value::as_i64).and_then(|count| usize::try_from(count).ok());
        let (min, max) = (bound("minProperties").unwrap_or(0), bound("maxProperties").unwrap_or(usize::MAX));
        let by_pattern = schema.get("patternProperties").and_then(Value::as_dict).and_then(|dict| dict.iter().next());
        let other = schema.get("additionalProperties").filter(|other| other.as_dict().is_some());
        let free =
            schema.get("properties").is_none() && schema.get("additionalProperties") != Some(&Value::Bool(false));
        let wanted = match by_pattern.is_some() || other.is_some() || free {
            true if depth <= OPTIONAL_DEPTH => min.max(dice.times(0, Some(2)).min(max)),
            _ => min,
        };
        for at in 0..64 {
            if out.len() >= wanted {
                return;
            }
            let (name, member) = match by_pattern {
                Some((pattern, member)) => (named_by(pattern, dice), member.clone()),
                None => (format!("key_{}", at + 1), other.cloned().unwrap_or(Value::Bool(true))),
            };
            if out.get(&name).is_none() {
                out.set(name, self.value(&member, depth + 1, dice));
            }
        }
    }

    fn array(&self, schema: &Dict, depth: usize, dice: &mut Dice) -> Vec<Value> {
        let bound = |name: &str| schema.get(name).and_then(Value::as_i64).and_then(|count| usize::try_from(count).ok());
        let prefix = schema.get("prefixItems").or_else(|| schema.get("items")).and_then(Value::as_list).unwrap_or(&[]);
        let rest = schema.get("items").filter(|items| items.as_list().is_none());
        let min = bound("minItems").unwrap_or(0);
        let closed = rest == Some(&Value::Bool(false)) || (rest.is_none() && !prefix.is_empty());
        let max = bound("maxItems").unwrap_or(usize::MAX).min(if closed { prefix.len() } else { usize::MAX });
        let extra = if depth > OPTIONAL_DEPTH { 0 } else { dice.times(0, Some(dice.size)) };
        let count = prefix.len().max(min.saturating_add(extra)).min(max).clamp(min.min(max), 4096.max(min));
        let any = Value::Bool(true);
        (0..count.min(1 << 16)).map(|at| self.value(prefix.get(at).or(rest).unwrap_or(&any), depth + 1, dice)).collect()
    }
}

/// The cost of a copy, in parts of a text.
fn weight(value: &Value) -> usize {
    match value {
        Value::Str(text) => 1 + text.len() / 16,
        Value::List(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Value::Dict(dict) => 1 + dict.iter().map(|(_, item)| weight(item)).sum::<usize>(),
        _ => 1,
    }
}

/// A literal value of the schema (`const`, `enum`).
fn given(value: &Value, dice: &mut Dice) -> Value {
    dice.spend(dumps(value).len());
    value.clone()
}

/// A property name that matches a pattern.
fn named_by(pattern: &str, dice: &mut Dice) -> String {
    Pattern::parse(pattern).map_or_else(|_| "key".to_owned(), |pattern| pattern.text(dice))
}

fn texts(value: Option<&Value>) -> Vec<&str> {
    value.and_then(Value::as_list).unwrap_or(&[]).iter().filter_map(Value::as_str).collect()
}

/// Merges two schemas: objects member by member, required names united, others replaced.
fn joined(mut whole: Dict, part: &Value) -> Dict {
    let Value::Dict(part) = part else { return whole };
    for (name, value) in part.iter() {
        let both = match (whole.get(name), value) {
            (Some(Value::Dict(one)), Value::Dict(_)) => Value::Dict(joined(one.clone(), value)),
            (Some(Value::List(one)), Value::List(other)) if name == "required" => {
                Value::List(one.iter().chain(other).cloned().collect())
            }
            _ => value.clone(),
        };
        whole.set(name, both);
    }
    whole
}

/// The type of the output; null only where nothing else is allowed.
fn kind<'a>(schema: &'a Dict, depth: usize, dice: &mut Dice) -> Option<&'a str> {
    match schema.get("type") {
        Some(Value::Str(name)) => Some(name),
        Some(Value::List(names)) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            let deep = |name: &&str| matches!(*name, "object" | "array" | "null");
            let flat: Vec<&str> = names.iter().copied().filter(|name| !deep(name)).collect();
            let open = if depth > OPTIONAL_DEPTH && !flat.is_empty() { &flat } else { &names };
            dice.pick(open).copied()
        }
        _ => inferred(schema),
    }
}

fn inferred(schema: &Dict) -> Option<&'static str> {
    const SIGNS: [(&str, &str); 12] = [
        ("properties", "object"),
        ("required", "object"),
        ("additionalProperties", "object"),
        ("patternProperties", "object"),
        ("items", "array"),
        ("prefixItems", "array"),
        ("pattern", "string"),
        ("format", "string"),
        ("minLength", "string"),
        ("maxLength", "string"),
        ("minimum", "number"),
        ("maximum", "number"),
    ];
    SIGNS.iter().find(|(name, _)| schema.get(name).is_some()).map(|(_, kind)| *kind)
}

fn any(dice: &mut Dice) -> Value {
    match dice.below(3) {
        0 => Value::Int(dice.between(0, 99)),
        1 => Value::Bool(dice.below(2) == 0),
        _ => Value::Str(string::words(1, dice)),
    }
}

/// The bounds of a number, where the schema sets them.
fn bounds(schema: &Dict, step: f64) -> (Option<f64>, Option<f64>) {
    let number = |name: &str| schema.get(name).filter(|value| !matches!(value, Value::Bool(_))).and_then(Value::as_f64);
    let low = number("minimum").into_iter().chain(number("exclusiveMinimum").map(|low| low + step));
    let high = number("maximum").into_iter().chain(number("exclusiveMaximum").map(|high| high - step));
    (low.reduce(f64::max), high.reduce(f64::min))
}

fn integer(schema: &Dict, dice: &mut Dice) -> i64 {
    let (low, high) = match bounds(schema, 1.0) {
        (Some(low), Some(high)) => (low.ceil(), high.floor()),
        (Some(low), None) => (low.ceil(), low.ceil() + 99.0),
        (None, Some(high)) => (high.floor() - 99.0, high.floor()),
        (None, None) => (0.0, 99.0),
    };
    let value = dice.between(low as i64, high as i64);
    match schema.get("multipleOf").and_then(Value::as_f64) {
        Some(step) if step >= 1.0 => {
            let step = step as i64;
            let (first, last) = ((low as i64).div_euclid(step) + i64::from(low as i64 % step != 0), high as i64 / step);
            dice.between(first, last.max(first)).saturating_mul(step)
        }
        _ => value,
    }
}

fn number(schema: &Dict, dice: &mut Dice) -> f64 {
    if schema.get("multipleOf").and_then(Value::as_f64).is_some_and(|step| step.fract() == 0.0 && step >= 1.0) {
        return integer(schema, dice) as f64;
    }
    let step = schema.get("multipleOf").and_then(Value::as_f64).filter(|step| *step > 0.0).unwrap_or(0.5);
    let (low, high) = match bounds(schema, step) {
        (Some(low), Some(high)) => (low, high),
        (Some(low), None) => (low, low + 99.0),
        (None, Some(high)) => (high - 99.0, high),
        (None, None) => (0.0, 99.0),
    };
    let steps = ((high - low) / step).floor().clamp(0.0, 1e6) as i64;
    let first = if schema.get("multipleOf").is_some() { (low / step).ceil() * step } else { low };
    (first + dice.between(0, steps) as f64 * step).clamp(low.min(high), high.max(low))
}

#[cfg(test)]
mod tests;
