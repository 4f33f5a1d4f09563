//! Suggestions for misspelled words.

/// Returns the candidate that is closest to a misspelled or incomplete word, if any is close enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let word = plain(word);
    let allowed = (word.trim_start_matches('-').chars().count() / 3).clamp(1, 3);
    let ranked = candidates.into_iter().filter_map(|candidate| {
        let other = plain(candidate);
        let begun = word.len() >= 5 && other.starts_with(&word);
        let may_be_near = || word.chars().count().abs_diff(other.chars().count()) <= allowed;
        let off = if begun { 1 } else { may_be_near().then(|| strsim::osa_distance(&word, &other))? };
        (off <= allowed).then_some((off, candidate))
    });
    // Ties go to the first candidate: tables list the common ones first.
    ranked.min_by_key(|(off, _)| *off).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_undone_and_strangers_are_not() {
        let words = ["serve", "sweep", "sim", "sharegpt", "random", "--num-prompts", "--sim-profile"];
        for (typed, meant) in [
            ("srve", Some("serve")),
            ("sevre", Some("serve")),
            ("sharegptt", Some("sharegpt")),
            ("SHARE_GPT", Some("sharegpt")),
            ("--num-promts", Some("--num-prompts")),
            ("--num_prompts", Some("--num-prompts")),
            ("--sim-p", Some("--sim-profile")),
            ("nope", None),
            ("--bogus", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, words), meant, "{typed}");
        }
    }
}
