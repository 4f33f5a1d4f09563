//! Values in the order of their first appearance.

/// Each value once.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    values.into_iter().for_each(|value| {
        if !found.contains(&value) {
            found.push(value)
        }
    });
    found
}

/// The items of each key.
pub(crate) fn by_key<K: PartialEq, T>(items: impl IntoIterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, item) in items {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, members)) => members.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

/// The names with how many there are of each, as in `8× NVIDIA H200`.
pub(crate) fn counted(names: &[String]) -> String {
    let kinds = by_key(names.iter().map(|name| (name, ())));
    kinds.iter().map(|(name, all)| format!("{}× {name}", all.len())).collect::<Vec<_>>().join(", ")
}
