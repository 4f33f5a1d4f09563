//! `--plot-dataset-stats`: the distribution of prompt and output lengths, as four panels.

use std::path::Path;

use tacho_metrics::Samples;
use tacho_record::RunRecord;

use super::{
    Anchor, AxisSpec, Bar, Color, Grid, LegendEntry, Panel, Rect, Scene, Series, draw_legend, legend_width, png,
};
use crate::{Error, json::write_whole};

const STEEL_BLUE: Color = Color::hex(0x46_82_B4);
const CORAL: Color = Color::hex(0xFF_7F_50);
const SEA_GREEN: Color = Color::hex(0x3C_B3_71);
const BINS: usize = 30;
/// Most bars that are visible individually; more are merged with their neighbors, with the maximum of each group.
const MAX_BARS: usize = 2000;
const DPI: f64 = 150.0;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Lengths {
    prompt: f64,
    output: f64,
}

impl Lengths {
    fn total(&self) -> f64 {
        self.prompt + self.output
    }
}

/// Draws the lengths of all requests of `record` into a PNG file, with a line of text below; returns whether there
/// were any.
pub fn save(record: &RunRecord, note: &str, path: &Path) -> Result<bool, Error> {
    let Some(mut scene) = scene(&record.measured.samples) else { return Ok(false) };
    scene.text((7.0 * 72.0, 10.0 * 72.0 - 6.0), note, 10.0, Anchor::Middle);
    let png = png(&scene, DPI)?;
    write_whole(path, |out| std::io::Write::write_all(out, &png))?;
    Ok(true)
}

/// The figure: 14 by 10 inches; `None` without requests.
pub fn scene(samples: &Samples) -> Option<Scene> {
    if samples.is_empty() {
        return None;
    }
    let lengths: Vec<Lengths> = samples
        .iter()
        .map(|sample| Lengths { prompt: sample.prompt_len as f64, output: sample.output_len as f64 })
        .collect();
    let mut scene = Scene::new(14.0 * 72.0, 10.0 * 72.0);
    let position =
        |column: f64, row: f64| Rect { x: 75.0 + column * 495.0, y: 42.0 + row * 355.0, width: 410.0, height: 265.0 };
    type Histogram = (&'static str, &'static str, Color, fn(&Lengths) -> f64, (f64, f64));
    let histograms: [Histogram; 3] = [
        ("Prompt Tokens Distribution", "Prompt Tokens", STEEL_BLUE, |of| of.prompt, (0.0, 0.0)),
        ("Output Tokens Distribution", "Output Tokens", CORAL, |of| of.output, (1.0, 0.0)),
        ("Total Tokens Distribution", "Total Tokens (Prompt + Output)", SEA_GREEN, Lengths::total, (0.0, 1.0)),
    ];
    for (title, label, color, of, (column, row)) in histograms {
        let values: Vec<f64> = lengths.iter().map(of).collect();
        histogram(title, label, color, &values).draw(&mut scene, position(column, row));
    }
    let rect = position(1.0, 1.0);
    stacked(&lengths).draw(&mut scene, rect);
    let entries =
        [LegendEntry::Field(STEEL_BLUE, "Prompt Tokens".into()), LegendEntry::Field(CORAL, "Output Tokens".into())];
    draw_legend(&mut scene, (rect.x + rect.width - legend_width(&entries) - 6.0, rect.y + 6.0), &entries);
    Some(scene)
}

/// Counts in equal bins from the minimum to the maximum; equal values get a range of one around them.
fn bins(values: &[f64]) -> (f64, f64, [u64; BINS]) {
    let (mut low, mut high) =
        values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)));
    if low == high {
        (low, high) = (low - 0.5, high + 0.5);
    }
    let mut counts = [0; BINS];
    for value in values {
        let bin = ((value - low) / (high - low) * BINS as f64) as usize;
        counts[bin.min(BINS - 1)] += 1;
    }
    (low, high, counts)
}

fn histogram(title: &str, label: &str, color: Color, values: &[f64]) -> Panel {
    let (low, high, counts) = bins(values);
    let width = (high - low) / BINS as f64;
    let max = counts.iter().copied().max().unwrap_or(0) as f64;
    let bars = counts.iter().enumerate().map(|(at, &count)| {
        let left = low + at as f64 * width;
        Bar { x: (left, (left + width).min(high)), y: (0.0, count as f64) }
    });
    let margin = (high - low) * 0.05;
    Panel {
        title: vec![title.into()],
        x: AxisSpec::linear(label, low - margin, high + margin).whole(),
        y: AxisSpec::linear("Frequency", 0.0, max * 1.05).whole(),
        grid: Grid::Both,
        series: vec![Series::Bars { bars: bars.collect(), fill: color.with_alpha(0.7), edge: Some(Color::BLACK) }],
    }
}

fn stacked(lengths: &[Lengths]) -> Panel {
    let each = lengths.len().div_ceil(MAX_BARS);
    let mut prompts = Vec::new();
    let mut outputs = Vec::new();
    for (at, group) in lengths.chunks(each).enumerate() {
        let longest = group.iter().copied().max_by(|a, b| a.total().total_cmp(&b.total()));
        let Some(longest) = longest else { continue };
        let first = (at * each) as f64;
        let margin = if lengths.len() <= 100 { 0.1 } else { 0.0 };
        let x = (first - 0.5 + margin, first + group.len() as f64 - 0.5 - margin);
        prompts.push(Bar { x, y: (0.0, longest.prompt) });
        outputs.push(Bar { x, y: (longest.prompt, longest.total()) });
    }
    let max = lengths.iter().map(Lengths::total).fold(0.0, f64::max);
    Panel {
        title: vec!["Tokens per Request (Stacked)".into()],
        x: AxisSpec::linear("Request ID", -0.5, lengths.len() as f64 - 0.5).whole(),
        // Space for the legend.
        y: AxisSpec::linear("Tokens", 0.0, (max * 1.25).max(1.0)).whole(),
        grid: Grid::Horizontal,
        series: vec![
            Series::Bars { bars: prompts, fill: STEEL_BLUE, edge: None },
            Series::Bars { bars: outputs, fill: CORAL, edge: None },
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::svg;
    use tacho_metrics::Sample;

    fn samples(lengths: &[(u64, u64)]) -> Samples {
        lengths.iter().map(|&(prompt_len, output_len)| Sample { prompt_len, output_len, ..Sample::default() }).collect()
    }

    #[test]
    fn every_request_is_in_a_bin() {
        let (low, high, counts) = bins(&[3.0, 9.0, 3.0, 4.0]);
        assert_eq!((low, high, counts.iter().sum::<u64>()), (3.0, 9.0, 4));
        assert_eq!((counts[0], counts[5], counts[29]), (2, 1, 1));
        assert_eq!(bins(&[7.0, 7.0]).2[15], 2);
    }

    #[test]
    fn the_figure_names_its_axes_and_has_its_size() {
        let scene = scene(&samples(&[(10, 3), (20, 0), (15, 9)])).unwrap();
        let text = svg(&scene);
        for label in ["Prompt Tokens Distribution", "Frequency", "Total Tokens (Prompt + Output)", "Request ID"] {
            assert!(text.contains(&format!(">{label}</text>")), "{label}");
        }
        let png = png(&scene, DPI).unwrap();
        assert_eq!(&png[16..24], [0, 0, 0x08, 0x34, 0, 0, 0x05, 0xDC], "2100 by 1500 pixels");
    }

    #[test]
    fn odd_lengths_do_not_break_it() {
        assert_eq!(scene(&Samples::default()), None);
        for lengths in [&[(0, 0)][..], &[(5, 0), (5, 0)], &[(1 << 40, 1)]] {
            assert!(!png(&scene(&samples(lengths)).unwrap(), 50.0).unwrap().is_empty());
        }
        let many: Vec<(u64, u64)> = (0..10_000).map(|at| (at % 977, at % 13)).collect();
        assert!(scene(&samples(&many)).unwrap().shapes.len() < 6000);
    }
}
