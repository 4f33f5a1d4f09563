//! Jinja's `cycler` and `joiner` functions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use minijinja::value::{Object, Rest, Value};
use minijinja::{Error, ErrorKind, State};

/// `cycler(a, b, …)`: its items in turn.
pub(super) fn cycler(items: Rest<Value>) -> Result<Value, Error> {
    if items.is_empty() {
        return Err(Error::new(ErrorKind::MissingArgument, "at least one item has to be provided"));
    }
    Ok(Value::from_object(Cycler { items: items.to_vec(), at: AtomicUsize::new(0) }))
}

/// `joiner(separator)`: empty on the first call, then the separator.
pub(super) fn joiner(separator: Option<String>) -> Value {
    Value::from_object(Joiner { separator: separator.unwrap_or_else(|| ", ".to_owned()), used: AtomicBool::new(false) })
}

#[derive(Debug)]
struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

impl Cycler {
    fn current(&self) -> Value {
        self.items[self.at.load(Ordering::Relaxed) % self.items.len()].clone()
    }
}

impl Object for Cycler {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.current())
    }

    fn call_method(self: &Arc<Self>, _: &mut State<'_, '_>, method: &str, _: &[Value]) -> Result<Value, Error> {
        match method {
            "next" => {
                let item = self.current();
                self.at.fetch_add(1, Ordering::Relaxed);
                Ok(item)
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

#[derive(Debug)]
struct Joiner {
    separator: String,
    used: AtomicBool,
}

impl Object for Joiner {
    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, _: &[Value]) -> Result<Value, Error> {
        let used = self.used.swap(true, Ordering::Relaxed);
        Ok(Value::from(if used { self.separator.as_str() } else { "" }))
    }
}
