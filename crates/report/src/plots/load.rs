//! Latency against load: the prediction with its 95% range, the SLO, and measured runs.

use crate::tables::markdown::Table;

use super::{AxisSpec, Chart, Color, Grid, LegendEntry, Marker, Panel, ScaleKind, Series, Stroke, category};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadCurve {
    pub label: String,
    /// SLOs on it, each with its text.
    pub limits: Vec<(f64, String)>,
    /// Rate, and value between the ends of its 95% range; in ascending rates.
    pub predicted: Vec<(f64, [f64; 3])>,
    /// Rate, value and name of measured runs.
    pub measured: Vec<(f64, f64, String)>,
}

fn limit_stroke() -> Stroke {
    Stroke::dashed(Color::hex(0xD6_27_28), 1.2, &[5.0, 3.0])
}

fn band_color() -> Color {
    category(0).with_alpha(0.25)
}

const PREDICTED: &str = "predicted";
const MEASURED: &str = "measured";

/// A panel per curve; `None` without curves.
pub fn chart(curves: &[LoadCurve]) -> Option<Chart> {
    let mut legend = vec![LegendEntry::Line(Stroke::solid(category(0), 1.6), Marker::Disc, PREDICTED.into())];
    if curves.iter().any(|curve| !curve.measured.is_empty()) {
        legend.push(LegendEntry::Point(category(1), MEASURED.into()));
    }
    legend.push(LegendEntry::Field(band_color(), "95% range".into()));
    legend.push(LegendEntry::Line(limit_stroke(), Marker::None, "SLO".into()));
    (!curves.is_empty()).then(|| Chart {
        title: "Latency against load".into(),
        note:
            "Band: 95% range of the prediction; the table is in ms. A value beyond four times the SLO is drawn at the top, with its number."
                .into(),
        panels: curves.iter().map(panel).collect(),
        columns: 1,
        size: (430.0, 300.0),
        legend,
        table: Table::default(),
    })
}

fn panel(curve: &LoadCurve) -> Panel {
    let rates = curve.predicted.iter().map(|(rate, _)| *rate).chain(curve.measured.iter().map(|(rate, ..)| *rate));
    let highest = curve.predicted.iter().map(|(_, values)| values[2]).chain(curve.measured.iter().map(|one| one.1));
    let limit = curve.limits.iter().map(|(limit, _)| *limit).fold(0.0, f64::max);
    let highest = highest.filter(|value| value.is_finite()).fold(limit * 1.2, f64::max);
    // Beyond saturation latency is unbounded, which would compress everything else.
    let top = if limit > 0.0 { highest.min(limit * 4.0) } else { highest };
    let low = |value: f64| value.min(top);
    let hint = |(rate, [min, middle, max]): &(f64, [f64; 3])| {
        format!("{rate:.2} requests/s: {middle:.2} ({min:.2} to {max:.2})")
    };
    let line = Series::Line {
        name: PREDICTED.into(),
        points: curve.predicted.iter().map(|(rate, values)| (*rate, low(values[1]))).collect(),
        stroke: Stroke::solid(category(0), 1.6),
        marker: Marker::Disc,
        hints: curve.predicted.iter().map(hint).collect(),
    };
    let band = Series::Band {
        name: PREDICTED.into(),
        edges: curve.predicted.iter().map(|(rate, values)| (*rate, low(values[0]), low(values[2]))).collect(),
        fill: band_color(),
    };
    let limits =
        curve.limits.iter().map(|(y, name)| Series::Level { y: *y, stroke: limit_stroke(), name: name.clone() });
    let points = Series::Points {
        name: MEASURED.into(),
        points: curve.measured.iter().map(|(rate, value, _)| (*rate, low(*value))).collect(),
        fill: category(1),
        hints: curve.measured.iter().map(|(rate, value, name)| format!("{name}: {value:.2} at {rate:.2}/s")).collect(),
    };
    let middles = curve.predicted.iter().map(|(rate, values)| (*rate, values[1]));
    let beyond = middles.chain(curve.measured.iter().map(|(rate, value, _)| (*rate, *value)));
    let clipped = beyond.filter(|(_, value)| *value > top);
    let notes: Vec<Series> = clipped
        .map(|(rate, value)| {
            let value = if value.is_finite() { crate::style::short(value) } else { "∞".to_owned() };
            Series::Note { at: (rate, top), lines: vec![format!("↑ {value}")] }
        })
        .collect();
    Panel {
        title: vec![format!("{} of one replica by load", curve.label)],
        x: AxisSpec::over("requests per second", ScaleKind::Linear, rates),
        y: AxisSpec::linear(curve.label.as_str(), 0.0, (top * 1.08).max(f64::MIN_POSITIVE)),
        grid: Grid::Both,
        series: [band].into_iter().chain(limits).chain([line, points]).chain(notes).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::svg;

    #[test]
    fn predictions_limits_and_measurements_stand_in_one_panel() {
        let curve = LoadCurve {
            label: "P99 TTFT (ms)".into(),
            limits: vec![(100.0, "p99_ttft_ms<=100".into())],
            predicted: vec![(1.0, [10.0, 11.0, 12.0]), (2.0, [20.0, 22.0, 25.0]), (3.0, [1e3, 2e3, f64::INFINITY])],
            measured: vec![(2.0, 23.5, "run <b>".into())],
        };
        let page = svg(&chart(&[curve]).unwrap().scene());
        for text in ["P99 TTFT (ms) of one replica by load", "p99_ttft_ms&lt;=100", "run &lt;b&gt;: 23.50 at 2.00/s"] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(page.contains("↑ 2,000"), "a clipped value shows its number: {page}");
        assert!(!page.contains("\"inf") && !page.contains("NaN"), "{page}");
        assert!(chart(&[]).is_none());
    }
}
