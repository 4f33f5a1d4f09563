//! Parallel maps. A parallel iterator is compiled again at each of its uses, these functions once per result type.

use tacho_core::Mutex;

use rayon::prelude::*;

/// Chunks per thread, so that long items on one thread do not keep the others waiting.
const PARTS: usize = 32;

pub(crate) fn map<I: Sync, T: Send>(items: &[I], each: impl Fn((usize, &I)) -> T + Sync) -> Vec<T> {
    indexed(items.len(), &|at| each((at, &items[at])))
}

/// Maps every item with its index; returns the error of the first item that fails.
pub(crate) fn try_map<I: Sync, T: Send, E: Send>(
    items: &[I],
    each: impl Fn((usize, &I)) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    map(items, each).into_iter().collect()
}

pub(crate) fn map_owned<I: Send, T: Send>(items: Vec<I>, each: impl Fn((usize, I)) -> T + Sync) -> Vec<T> {
    let items: Vec<Mutex<Option<I>>> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    let taken = |at: usize| items[at].lock().take();
    indexed(items.len(), &|at| each((at, taken(at).expect("every place is visited once"))))
}

/// Maps every index below `count`, in order.
pub(crate) fn indexed<T: Send>(count: usize, each: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    let width = count.div_ceil(rayon::current_num_threads() * PARTS).max(1);
    let parts: Vec<Mutex<Vec<T>>> = (0..count.div_ceil(width)).map(|_| Mutex::default()).collect();
    everywhere(parts.len(), &|part| {
        let made = (part * width..count.min((part + 1) * width)).map(each).collect();
        *parts[part].lock() = made;
    });
    let mut results = Vec::with_capacity(count);
    for part in parts {
        results.append(&mut part.into_inner());
    }
    results
}

fn everywhere(count: usize, each: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(each);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_for_any_number_of_items() {
        for count in [0, 1, 2, 63, 64, 65, 1_000, 10_007] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(map(&items, |(at, item)| (at, item * 2)), items.iter().map(|i| (*i, i * 2)).collect::<Vec<_>>());
            assert_eq!(
                map_owned(items.clone(), |(at, item)| at + item),
                items.iter().map(|i| i * 2).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn the_first_error_counts() {
        let items: Vec<usize> = (0..5_000).collect();
        assert_eq!(try_map(&items, |(_, &item)| if item % 1_000 == 999 { Err(item) } else { Ok(item) }), Err(999));
        assert_eq!(try_map(&items, |(_, &item)| Ok::<_, ()>(item)), Ok(items.clone()));
    }
}
