//! Hardware and platform of this machine for reports.

use std::fs;

use tacho_core::json::Value;

/// Machine properties of vLLM's reports: name and value.
pub(crate) fn rows() -> Vec<(&'static str, Value)> {
    let mut rows = Vec::new();
    let total = std::thread::available_parallelism().map_or(1, usize::from);
    rows.push(("Physical cores", Value::from(physical_cores().unwrap_or(total))));
    rows.push(("Total cores", Value::from(total)));
    if let Some(bytes) = memory() {
        rows.push(("Total Memory", Value::from(format!("{:.2}GB", bytes / 1024_f64.powi(3)))));
    }
    rows.push(("Total NUMA nodes", Value::from(nodes())));
    rows.push(("CPU Brand", Value::from(processor())));
    rows
}

fn about_processors() -> String {
    fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (key, value) = line.split_once(':')?;
    (key.trim() == name).then(|| value.trim())
}

fn physical_cores() -> Option<usize> {
    let text = about_processors();
    let mut cores: Vec<(&str, &str)> = text
        .split("\n\n")
        .filter_map(|part| {
            let of = |name| part.lines().find_map(|line| field(line, name));
            Some((of("physical id")?, of("core id")?))
        })
        .collect();
    cores.sort_unstable();
    cores.dedup();
    (!cores.is_empty()).then_some(cores.len())
}

fn memory() -> Option<f64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let total = text.lines().find_map(|line| field(line, "MemTotal"))?;
    Some(total.split_whitespace().next()?.parse::<f64>().ok()? * 1024.0)
}

pub(crate) fn processor() -> String {
    let text = about_processors();
    text.lines().find_map(|line| field(line, "model name")).unwrap_or("CPU").to_owned()
}

pub(crate) fn nodes() -> u64 {
    let entries = fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    let is_node = |name: &str| name.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let count = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_node)).count() as u64;
    count.max(1)
}
