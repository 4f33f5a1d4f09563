//! The first host of a Slurm host list.

/// The first host: `gpu001` of `gpu[001-003,010],login`.
pub(crate) fn first(list: &str) -> String {
    let mut host = String::new();
    let mut rest = list.trim().chars();
    while let Some(letter) = rest.next() {
        match letter {
            ',' => break,
            '[' => {
                let inside: String = rest.by_ref().take_while(|&letter| letter != ']').collect();
                host.extend(inside.chars().take_while(|letter| !matches!(letter, ',' | '-')));
            }
            letter => host.push(letter),
        }
    }
    host
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_host_is_found_in_every_form() {
        for (list, host) in [
            ("node[1-2]", "node1"),
            ("node[1,3]", "node1"),
            ("gpu[001-003,010]", "gpu001"),
            ("x[1-2]y[0-1]", "x1y0"),
            ("a,b[1-2]", "a"),
            ("node7", "node7"),
            ("n[3", "n3"),
            ("", ""),
        ] {
            assert_eq!(first(list), host, "{list}");
        }
    }
}
