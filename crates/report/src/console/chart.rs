//! Two charts for a terminal: what happened in each second of a run.

use tacho_metrics::RunRecord;
use tacho_metrics::concurrency::PerSecond;

/// Lines of a chart without its axis.
const ROWS: usize = 10;
/// A column is filled in eighths of a line.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The charts of a generation with at least one success, `width` columns wide; nothing for other runs, or where there
/// is no room.
pub fn charts(record: &RunRecord, width: usize) -> String {
    if record.summary.generation().is_none() || record.summary.completed == 0 || width < 30 {
        return String::new();
    }
    let buckets = PerSecond::of(&record.measured.samples);
    let tokens = chart("Output tokens per second", &buckets.events, width);
    let requests = chart("Concurrent requests per second", &buckets.requests, width);
    format!("{tokens}\n{requests}\n")
}

fn chart(title: &str, counts: &[u64], width: usize) -> String {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let margin = most.to_string().len().max(4);
    let room = width - margin - 3;
    // A short run gets several columns per second, a long one several seconds per column with the largest of them.
    let stretch = (room / counts.len().max(1)).clamp(1, 8);
    let merge = counts.len().div_ceil(room).max(1);
    let columns: Vec<u64> = counts
        .chunks(merge)
        .flat_map(|group| std::iter::repeat_n(group.iter().copied().max().unwrap_or(0), stretch))
        .collect();
    let mut out = format!("{:margin$}   {title}\n", "");
    for row in (0..ROWS).rev() {
        let label = match row {
            row if row + 1 == ROWS => most.to_string(),
            row if row == ROWS / 2 - 1 && most > 1 => (most / 2).to_string(),
            _ => String::new(),
        };
        let line: String = columns.iter().map(|&count| block(count, most, row)).collect();
        out += &format!("{label:>margin$} ┤ {}\n", line.trim_end());
    }
    out += &format!("{:>margin$} └{}\n", 0, "─".repeat(columns.len() + 1));
    out + &format!("{:margin$}   {}\n", "", scale(counts.len(), columns.len()))
}

/// The character of a column in a line counted from the bottom.
fn block(count: u64, most: u64, row: usize) -> char {
    let eighths = (count * (ROWS * 8) as u64).div_ceil(most) as usize;
    BLOCKS[eighths.saturating_sub(row * 8).min(8)]
}

/// The seconds under the chart: the first on the left, the last on the right.
fn scale(seconds: usize, columns: usize) -> String {
    let last = format!("{} s", seconds.saturating_sub(1));
    let width = columns.saturating_sub(1).max(last.len() + 1);
    format!("0{last:>width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_high_as_their_counts() {
        let text = chart("Title", &[10, 5, 0, 1], 40);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].trim(), "Title");
        assert_eq!(lines[1], format!("  10 ┤ {}", "█".repeat(8)));
        assert_eq!(lines[6], format!("   5 ┤ {}", "█".repeat(16)));
        assert_eq!(lines[10], format!("     ┤ {}{}{}", "█".repeat(16), " ".repeat(8), "█".repeat(8)));
        assert!(lines[12].ends_with("3 s"), "{}", lines[12]);
    }

    #[test]
    fn long_runs_fit_and_keep_their_peak() {
        let mut counts = vec![1; 5000];
        counts[777] = 99;
        let text = chart("Title", &counts, 60);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.lines().nth(1).unwrap().contains('█') && text.contains("  99 ┤"));
    }
}
