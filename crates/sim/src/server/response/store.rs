//! Stored responses that later requests may continue from; the oldest are evicted first.

use std::collections::{HashMap, VecDeque};
use tacho_core::Mutex;

use tacho_core::json::{Value, dumps};

const MAX_BYTES: usize = 64 << 20;

#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) messages: Vec<Value>,
    pub(crate) body: String,
}

#[derive(Debug, Default)]
pub(crate) struct Store(Mutex<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    by_id: HashMap<String, (Kept, usize)>,
    order: VecDeque<String>,
    bytes: usize,
}

impl Store {
    pub(crate) fn get(&self, id: &str) -> Option<Kept> {
        self.0.lock().by_id.get(id).map(|(kept, _)| kept.clone())
    }

    pub(crate) fn keep(&self, id: &str, kept: Kept) {
        let bytes =
            id.len() + kept.body.len() + kept.messages.iter().map(|message| dumps(message).len()).sum::<usize>();
        let mut shelf = self.0.lock();
        shelf.bytes += bytes;
        shelf.order.push_back(id.to_owned());
        shelf.by_id.insert(id.to_owned(), (kept, bytes));
        while shelf.bytes > MAX_BYTES {
            let Some(oldest) = shelf.order.pop_front() else { return };
            if let Some((_, bytes)) = shelf.by_id.remove(&oldest) {
                shelf.bytes -= bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_evicted_first() {
        let store = Store::default();
        let kept = || Kept { messages: Vec::new(), body: "x".repeat(MAX_BYTES / 4) };
        (0..6).for_each(|at| store.keep(&format!("r{at}"), kept()));
        assert!(store.get("r0").is_none() && store.get("r5").is_some());
        assert!(store.0.lock().bytes <= MAX_BYTES);
    }
}
