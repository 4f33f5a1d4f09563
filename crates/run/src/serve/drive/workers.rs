//! The default number of client threads.

use std::{collections::HashSet, num::NonZero};

/// All physical cores available to this process except one, which is left to the rest of the machine.
pub fn default_workers() -> usize {
    let usable = std::thread::available_parallelism().map_or(1, NonZero::get);
    let described = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = physical_cores(&described).unwrap_or(usable).min(usable);
    cores.saturating_sub(1).max(1)
}

/// Number of distinct cores in the text of `/proc/cpuinfo`; `None` if it does not list them.
fn physical_cores(described: &str) -> Option<usize> {
    let cores: HashSet<(String, String)> = described
        .split("\n\n")
        .filter_map(|processor| {
            let field = |name: &str| {
                let line = processor.lines().find(|line| line.starts_with(name))?;
                Some(line.split_once(':')?.1.trim().to_owned())
            };
            Some((field("physical id")?, field("core id")?))
        })
        .collect();
    (!cores.is_empty()).then_some(cores.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_core_count_once() {
        let processor = |package, core| format!("processor : x\nphysical id\t: {package}\ncore id\t: {core}\n");
        let text = [processor(0, 0), processor(0, 1), processor(0, 0), processor(1, 0)].join("\n");
        assert_eq!(physical_cores(&text), Some(3));
        assert_eq!(physical_cores("processor : 0\nmodel : y\n"), None);
    }
}
