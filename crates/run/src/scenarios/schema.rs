//! Validates a JSON document against a JSON Schema (drafts 4 to 2020-12): the assertions that constrain generated
//! text. `format` is an annotation, as in the later drafts. A schema with a reference to another document, an invalid
//! pattern or a reference cycle is not judged.

use std::{cell::Cell, collections::HashMap};

use regex::Regex;
use tacho_core::json::{Dict, Value};

use crate::experiment::same_by;

/// Nesting of schema applications beyond which a document is not judged.
const MAX_DEPTH: usize = 256;

/// A compiled schema: the document and the patterns in it.
pub struct Schema {
    root: Value,
    patterns: HashMap<String, Regex>,
}

impl Schema {
    /// `None` if the schema cannot be evaluated.
    pub fn compile(root: Value) -> Option<Self> {
        let mut patterns = HashMap::new();
        collect(&root, &root, &mut patterns, 0)?;
        Some(Schema { root, patterns })
    }

    /// Returns whether the document is valid; `None` if evaluation goes deeper than `MAX_DEPTH`.
    pub fn accepts(&self, document: &Value) -> Option<bool> {
        let check = Check { schema: self, depth: Cell::new(0), too_deep: Cell::new(false) };
        let valid = check.holds(&self.root, document);
        (!check.too_deep.get()).then_some(valid)
    }
}

/// Compiles every pattern and resolves every reference once, so that evaluation cannot fail on them.
fn collect(root: &Value, node: &Value, patterns: &mut HashMap<String, Regex>, depth: usize) -> Option<()> {
    if depth > MAX_DEPTH {
        return None;
    }
    match node {
        Value::Dict(dict) => {
            if let Some(reference) = dict.text("$ref") {
                resolve(root, reference)?;
            }
            if dict.get("$dynamicRef").or_else(|| dict.get("$recursiveRef")).is_some() {
                return None;
            }
            let keys = dict.get("patternProperties").and_then(Value::as_dict);
            let keys = keys.into_iter().flat_map(Dict::iter).map(|(key, _)| key);
            for pattern in dict.text("pattern").into_iter().chain(keys) {
                patterns.insert(pattern.to_owned(), Regex::new(pattern).ok()?);
            }
            let literal = |key: &str| matches!(key, "enum" | "const" | "default" | "examples");
            let inner = dict.iter().filter(|(key, _)| !literal(key));
            inner.map(|(_, value)| value).try_for_each(|value| collect(root, value, patterns, depth + 1))
        }
        Value::List(items) => items.iter().try_for_each(|value| collect(root, value, patterns, depth + 1)),
        _ => Some(()),
    }
}

/// The target of a reference inside the document: `#` or a JSON Pointer (RFC 6901) after it.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    if pointer.is_empty() {
        return Some(root);
    }
    pointer.strip_prefix('/')?.split('/').try_fold(root, |node, step| {
        let step = step.replace("%25", "%").replace("~1", "/").replace("~0", "~");
        match node {
            Value::Dict(dict) => dict.get(&step),
            Value::List(items) => items.get(step.parse::<usize>().ok()?),
            _ => None,
        }
    })
}

struct Check<'a> {
    schema: &'a Schema,
    depth: Cell<usize>,
    too_deep: Cell<bool>,
}

impl Check<'_> {
    fn holds(&self, schema: &Value, document: &Value) -> bool {
        let dict = match schema {
            Value::Bool(allowed) => return *allowed,
            Value::Dict(dict) => dict,
            _ => return true,
        };
        if self.depth.get() >= MAX_DEPTH {
            self.too_deep.set(true);
            return false;
        }
        self.depth.set(self.depth.get() + 1);
        let valid = self.combined(dict, document) && plain(dict, document) && self.shaped(dict, document);
        self.depth.set(self.depth.get() - 1);
        valid
    }

    /// References and the keywords that combine other schemas.
    fn combined(&self, dict: &Dict, document: &Value) -> bool {
        let target = dict.text("$ref").and_then(|to| resolve(&self.schema.root, to));
        let each = |key: &str| dict.get(key).and_then(Value::as_list);
        let holds = |schema: &Value| self.holds(schema, document);
        target.is_none_or(holds)
            && each("allOf").is_none_or(|all| all.iter().all(holds))
            && each("anyOf").is_none_or(|any| any.iter().any(holds))
            && each("oneOf").is_none_or(|one| one.iter().filter(|schema| holds(schema)).count() == 1)
            && dict.get("not").is_none_or(|not| !holds(not))
            && dict.get("if").is_none_or(|test| {
                let branch = if holds(test) { "then" } else { "else" };
                dict.get(branch).is_none_or(holds)
            })
    }

    /// Keywords for one type of value; they accept all other types.
    fn shaped(&self, dict: &Dict, document: &Value) -> bool {
        match document {
            Value::Dict(object) => self.object(dict, object),
            Value::List(items) => self.array(dict, items),
            Value::Str(text) => self.text(dict, text),
            Value::Int(_) | Value::BigInt(_) | Value::Float(_) => number(dict, document),
            Value::Null | Value::Bool(_) => true,
        }
    }

    fn text(&self, dict: &Dict, text: &str) -> bool {
        let pattern = dict.text("pattern");
        counted(dict, "minLength", "maxLength", || text.chars().count())
            && pattern.is_none_or(|pattern| self.matches(pattern, text))
    }

    fn matches(&self, pattern: &str, text: &str) -> bool {
        self.schema.patterns.get(pattern).is_some_and(|compiled| compiled.is_match(text))
    }

    fn array(&self, dict: &Dict, items: &[Value]) -> bool {
        // Before 2020-12 a list under `items` is today's `prefixItems`, and `additionalItems` is today's `items`.
        let (prefix, rest) = match dict.get("items") {
            Some(Value::List(prefix)) => (prefix.as_slice(), dict.get("additionalItems")),
            rest => (dict.get("prefixItems").and_then(Value::as_list).unwrap_or_default(), rest),
        };
        let contained = |schema| items.iter().filter(|item| self.holds(schema, item)).count();
        counted(dict, "minItems", "maxItems", || items.len())
            && prefix.iter().zip(items).all(|(schema, item)| self.holds(schema, item))
            && rest.is_none_or(|schema| items.iter().skip(prefix.len()).all(|item| self.holds(schema, item)))
            && (dict.get("uniqueItems") != Some(&Value::Bool(true)) || unique(items))
            && dict.get("contains").is_none_or(|schema| {
                let count = contained(schema);
                count >= limit(dict, "minContains").unwrap_or(1)
                    && limit(dict, "maxContains").is_none_or(|max| count <= max)
            })
    }

    fn object(&self, dict: &Dict, object: &Dict) -> bool {
        let within = |key: &str| dict.get(key).and_then(Value::as_dict);
        let required = |names: &Value| names.as_list().unwrap_or_default().iter().all(|name| has(object, name));
        let dependent = |key: &str| {
            within(key).into_iter().flat_map(Dict::iter).all(|(name, rule)| {
                object.get(name).is_none()
                    || if rule.as_list().is_some() {
                        required(rule)
                    } else {
                        self.holds(rule, &Value::Dict(object.clone()))
                    }
            })
        };
        counted(dict, "minProperties", "maxProperties", || object.len())
            && dict.get("required").is_none_or(required)
            && object.iter().all(|(name, value)| self.member(dict, name, value))
            && dict
                .get("propertyNames")
                .is_none_or(|schema| object.iter().all(|(name, _)| self.holds(schema, &Value::from(name))))
            && ["dependencies", "dependentRequired", "dependentSchemas"].into_iter().all(dependent)
    }

    /// One member of an object: its own schema, those of matching patterns, or the schema of all others.
    fn member(&self, dict: &Dict, name: &str, value: &Value) -> bool {
        let within = |key: &str| dict.get(key).and_then(Value::as_dict);
        let own = within("properties").and_then(|properties| properties.get(name));
        let matching = within("patternProperties").into_iter().flat_map(Dict::iter);
        let matching: Vec<&Value> =
            matching.filter(|(pattern, _)| self.matches(pattern, name)).map(|(_, schema)| schema).collect();
        let named = own.is_some() || !matching.is_empty();
        let other = if named { None } else { dict.get("additionalProperties") };
        own.into_iter().chain(matching).chain(other).all(|schema| self.holds(schema, value))
    }
}

/// The keywords for values of every type.
fn plain(dict: &Dict, document: &Value) -> bool {
    let typed = match dict.get("type") {
        Some(Value::Str(name)) => is_of(name, document),
        Some(Value::List(names)) => names.iter().filter_map(Value::as_str).any(|name| is_of(name, document)),
        _ => true,
    };
    let listed = dict.get("enum").and_then(Value::as_list);
    typed
        && listed.is_none_or(|values| values.iter().any(|value| equal(value, document)))
        && dict.get("const").is_none_or(|value| equal(value, document))
}

fn is_of(name: &str, document: &Value) -> bool {
    match (name, document) {
        ("integer", Value::Float(number)) => number.fract() == 0.0 && number.is_finite(),
        ("integer" | "number", Value::Int(_) | Value::BigInt(_)) | ("number", Value::Float(_)) => true,
        ("string", Value::Str(_)) | ("array", Value::List(_)) | ("object", Value::Dict(_)) => true,
        ("boolean", Value::Bool(_)) | ("null", Value::Null) => true,
        _ => false,
    }
}

fn number(dict: &Dict, document: &Value) -> bool {
    let Some(value) = document.as_f64() else { return true };
    let bound = |key: &str| dict.get(key).and_then(Value::as_f64);
    // In draft 4 the exclusive bound is a flag.
    let strict = |key: &str| dict.get(key) == Some(&Value::Bool(true));
    bound("minimum").is_none_or(|min| value > min || (value == min && !strict("exclusiveMinimum")))
        && bound("maximum").is_none_or(|max| value < max || (value == max && !strict("exclusiveMaximum")))
        && bound("exclusiveMinimum").is_none_or(|min| value > min)
        && bound("exclusiveMaximum").is_none_or(|max| value < max)
        && bound("multipleOf").is_none_or(|step| is_multiple(value, step))
}

/// Decimal steps such as 0.01 have no exact binary value: the quotient may be off by its rounding.
fn is_multiple(value: f64, step: f64) -> bool {
    let quotient = value / step;
    (quotient - quotient.round()).abs() <= 1e-9 * quotient.abs().max(1.0)
}

fn limit(dict: &Dict, key: &str) -> Option<usize> {
    dict.get(key).and_then(Value::as_f64).map(|number| number as usize)
}

fn counted(dict: &Dict, min: &str, max: &str, count: impl Fn() -> usize) -> bool {
    limit(dict, min).is_none_or(|min| count() >= min) && limit(dict, max).is_none_or(|max| count() <= max)
}

fn has(object: &Dict, name: &Value) -> bool {
    name.as_str().is_some_and(|name| object.get(name).is_some())
}

fn unique(items: &[Value]) -> bool {
    items.iter().enumerate().all(|(at, item)| items[..at].iter().all(|earlier| !equal(earlier, item)))
}

/// Equality of JSON Schema: 1 and 1.0 are equal, and the order of members does not matter.
fn equal(one: &Value, other: &Value) -> bool {
    same_by(one, other, Value::as_f64)
}

#[cfg(test)]
mod tests {
    use tacho_core::json::parse;

    use super::*;

    fn verdict(schema: &str, document: &str) -> Option<bool> {
        Schema::compile(parse(schema).unwrap())?.accepts(&parse(document).unwrap())
    }

    #[test]
    fn each_keyword_accepts_and_rejects() {
        let cases = [
            (r#"{"type":"integer"}"#, "3.0", "3.5"),
            (r#"{"type":["string","null"]}"#, "null", "1"),
            (r#"{"enum":[1,{"a":[2]}]}"#, r#"{"a":[2.0]}"#, r#"{"a":[3]}"#),
            (r#"{"const":false}"#, "false", "0"),
            (r#"{"required":["a"]}"#, r#"{"a":null}"#, r#"{"b":1}"#),
            (r#"{"properties":{"a":{"type":"string"}},"additionalProperties":false}"#, r#"{"a":"x"}"#, r#"{"b":1}"#),
            (
                r#"{"patternProperties":{"^n":{"type":"number"}},"additionalProperties":{"type":"null"}}"#,
                r#"{"n1":1,"x":null}"#,
                r#"{"x":1}"#,
            ),
            (r#"{"propertyNames":{"maxLength":2}}"#, r#"{"ab":1}"#, r#"{"abc":1}"#),
            (r#"{"minProperties":1,"maxProperties":1}"#, r#"{"a":1}"#, r#"{"a":1,"b":2}"#),
            (r#"{"dependentRequired":{"a":["b"]}}"#, r#"{"b":1}"#, r#"{"a":1}"#),
            (r#"{"items":{"type":"number"},"minItems":1}"#, "[1,2]", "[]"),
            (r#"{"prefixItems":[{"type":"string"}],"items":false}"#, r#"["a"]"#, r#"["a",1]"#),
            (r#"{"items":[{"type":"string"}],"additionalItems":{"type":"null"}}"#, r#"["a",null]"#, r#"["a",1]"#),
            (r#"{"uniqueItems":true}"#, "[1,true]", "[1,1.0]"),
            (r#"{"contains":{"const":1},"maxContains":1}"#, "[1,2]", "[1,1]"),
            (r#"{"minLength":2,"maxLength":2}"#, r#""üü""#, r#""ü""#),
            (r#"{"pattern":"^a+$"}"#, r#""aa""#, r#""ab""#),
            (r#"{"minimum":1,"exclusiveMaximum":3}"#, "1", "3"),
            (r#"{"maximum":3,"exclusiveMaximum":true}"#, "2", "3"),
            (r#"{"multipleOf":0.01}"#, "19.99", "0.015"),
            (r#"{"allOf":[{"minimum":1},{"maximum":2}]}"#, "2", "3"),
            (r#"{"anyOf":[{"type":"null"},{"minimum":5}]}"#, "5", "4"),
            (r#"{"oneOf":[{"minimum":1},{"maximum":3}]}"#, "4", "2"),
            (r#"{"not":{"type":"string"}}"#, "1", r#""a""#),
            (r#"{"if":{"minimum":10},"then":{"multipleOf":10},"else":{"maximum":5}}"#, "20", "7"),
            (
                r##"{"$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}},"additionalProperties":false}},"$ref":"#/$defs/n"}"##,
                r#"{"next":{"next":{}}}"#,
                r#"{"next":{"x":1}}"#,
            ),
            ("false", "", "1"),
        ];
        for (schema, good, bad) in cases {
            if !good.is_empty() {
                assert_eq!(verdict(schema, good), Some(true), "{schema} {good}");
            }
            assert_eq!(verdict(schema, bad), Some(false), "{schema} {bad}");
        }
    }

    #[test]
    fn schemas_without_an_evaluation_are_not_judged() {
        assert_eq!(verdict(r#"{"$ref":"https://example.com/other"}"#, "1"), None);
        assert_eq!(verdict(r#"{"pattern":"(?=a)"}"#, r#""a""#), None);
        assert_eq!(verdict(r##"{"$ref":"#"}"##, "1"), None);
    }
}
