//! The figures of a sweep: the assignment of records to panels, and the chart of each.

use tacho_core::json::{Dict, Value};
use tacho_metrics::statistics::mean;

use super::curves::{CurveStyles, Points, WARNED, number, warned_color};
use super::data::{Combination, keys, natural, python_text};
use super::{Curves, SweepPlotSpec, swept};
use crate::distinct::{by_key, distinct};
use crate::plots::{AxisSpec, Chart, Grid, LegendEntry, Panel, Series, bare, key_label, value_text};
use crate::{Error, tables::markdown::Table};

type Group = Vec<(String, String)>;

#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    pub group: Group,
    /// The values of the rows; a single entry if there is one row.
    rows: Vec<Group>,
    columns: Vec<Group>,
    pub name: String,
    records: Vec<Dict>,
    swept: Vec<String>,
}

pub fn figures(combinations: &[Combination], spec: &SweepPlotSpec) -> Result<Vec<Figure>, Error> {
    let records: Vec<&Dict> = combinations.iter().flat_map(|combination| &combination.runs).collect();
    let groups = panels_by(&records, &spec.fig_by)?;
    let swept = swept(combinations);
    let figure = |group: Group| {
        let members: Vec<&Dict> = records.iter().copied().filter(|record| belongs(record, &group)).collect();
        let mut name = spec.name.clone();
        group.iter().for_each(|(key, value)| name += &format!("-{key}={value}"));
        Ok(Figure {
            rows: panels_by(&members, &spec.row_by)?,
            columns: panels_by(&members, &spec.col_by)?,
            name: clean(&name),
            records: members.into_iter().cloned().collect(),
            swept: swept.clone(),
            group,
        })
    };
    groups.into_iter().map(figure).collect()
}

/// Every combination of values of `variables`, in order.
fn panels_by(records: &[&Dict], variables: &[String]) -> Result<Vec<Group>, Error> {
    let missing = |key: &String, record: &Dict| Error::PlotRule {
        problem: format!("Cannot find metric '{key}' in a result that has {}", keys(record)),
    };
    let group = |record: &&Dict| {
        let value = |key: &String| record.get(key).map(python_text).ok_or_else(|| missing(key, record));
        variables.iter().map(|key| Ok((key.clone(), value(key)?))).collect()
    };
    let mut groups: Vec<Group> = distinct(records.iter().map(group).collect::<Result<Vec<_>, Error>>()?);
    let order = |group: &Group| group.iter().map(|(_, value)| natural(value)).collect::<Vec<_>>();
    groups.sort_by_key(order);
    Ok(groups)
}

fn belongs(record: &Dict, group: &Group) -> bool {
    group.iter().all(|(key, value)| record.get(key).is_some_and(|found| python_text(found) == *value))
}

/// File names cleaned as in vLLM.
fn clean(name: &str) -> String {
    name.replace('/', "_").replace("..", "__").trim_matches('\'').trim_matches('"').to_owned()
}

impl Figure {
    /// Number of rows and columns of panels.
    pub fn grid(&self) -> (usize, usize) {
        (self.rows.len().max(1), self.columns.len().max(1))
    }

    /// The chart; `None` if the filters leave no record.
    pub fn chart(&self, spec: &SweepPlotSpec) -> Result<Option<Chart>, Error> {
        let records = self.kept(spec)?;
        if records.is_empty() {
            return Ok(None);
        }
        let curves = Curves::of(spec, &self.swept, &records.iter().collect::<Vec<_>>());
        let styles = CurveStyles::new(&curves.by, &records);
        let points = Points { x: &spec.x, y: &spec.y, swept: &self.swept, along: curves.along.as_deref() };
        let mut panels = Vec::new();
        for row in &self.rows {
            for column in &self.columns {
                let members: Vec<&Dict> =
                    records.iter().filter(|record| belongs(record, row) && belongs(record, column)).collect();
                let series = styles.series(&members, &points, spec.error_bars);
                let title =
                    [row, column].into_iter().flatten().map(|(key, value)| format!("{} {value}", bare(key))).collect();
                panels.push((title, series));
            }
        }
        let mut legend = styles.legend();
        let is_warned = |series: &Series| matches!(series, Series::Points { name, .. } if name == WARNED);
        if panels.iter().any(|(_, series)| series.iter().any(is_warned)) {
            legend.push(LegendEntry::Point(warned_color(), WARNED.to_owned()));
        }
        let (x, y) = axes(spec, &records);
        let panel = |(title, series)| Panel { title, x: x.clone(), y: y.clone(), grid: Grid::Both, series };
        let side = spec.panel * 72.0;
        Ok(Some(Chart {
            title: self.title(spec),
            note: self.note(spec, &curves),
            panels: panels.into_iter().map(panel).collect(),
            columns: self.grid().1,
            size: (side, side),
            legend,
            table: self.table(spec, &records),
        }))
    }

    /// The swept settings and the means over their runs, one row per setting.
    fn table(&self, spec: &SweepPlotSpec, records: &[Dict]) -> Table {
        let axes = [&spec.x, &spec.y];
        let keys: Vec<&String> = self.swept.iter().filter(|key| !axes.contains(key)).collect();
        let setting = |record: &'_ Dict| self.swept.iter().map(|key| record.get(key).cloned()).collect::<Vec<_>>();
        let groups = by_key(records.iter().map(|record| (setting(record), record)));
        let average = |group: &[&Dict], key: &str| {
            let values: Vec<f64> = group.iter().filter_map(|record| number(record, key)).collect();
            if values.is_empty() {
                group[0].get(key).cloned().unwrap_or(Value::Null)
            } else {
                Value::Float(mean(&values))
            }
        };
        let cell = |group: &[&Dict], key: &str| {
            if self.swept.iter().any(|swept| swept == key) {
                return group[0].get(key).map_or(Value::Null, |value| Value::from(value_text(value)));
            }
            average(group, key)
        };
        let row = |(_, group): &(Vec<Option<Value>>, Vec<&Dict>)| {
            let settings = keys.iter().map(|key| cell(group, key));
            let values = axes.iter().map(|key| cell(group, key));
            settings.chain(values).chain([Value::from(group.len())]).collect()
        };
        let headings = keys.iter().map(|key| bare(key)).chain(axes.iter().map(|key| key_label(key)));
        let headings = headings.chain(["runs".to_owned()]).collect();
        Table { headings, rows: groups.iter().map(row).collect() }
    }

    /// Its title: the metrics, and the values that distinguish it.
    fn title(&self, spec: &SweepPlotSpec) -> String {
        let mut title = format!("{} against {}", bare(&spec.y), bare(&spec.x));
        let values = self.group.iter().map(|(key, value)| format!("{} {value}", bare(key)));
        values.for_each(|value| title += &format!(", {value}"));
        title
    }

    fn note(&self, spec: &SweepPlotSpec, curves: &Curves) -> String {
        let mut parts = Vec::new();
        if let Some(along) = curves.along.as_ref().filter(|along| **along != spec.x) {
            parts.push(format!("Curves run along {}.", bare(along)));
        }
        if spec.error_bars && self.records.iter().any(|record| number(record, "run_number").is_some_and(|n| n > 0.0)) {
            let text =
                "Lines join means of repeats, which are the small points; bands are 95% CIs of means of three or more.";
            parts.push(text.to_owned());
        }
        parts.join(" ")
    }

    fn kept(&self, spec: &SweepPlotSpec) -> Result<Vec<Dict>, Error> {
        let mut kept = Vec::new();
        for record in &self.records {
            let holds: Vec<bool> = spec.filters.iter().map(|filter| filter.holds(record)).collect::<Result<_, _>>()?;
            if !holds.contains(&false) {
                let mut record = record.clone();
                for binner in &spec.binners {
                    binner.apply(&mut record)?;
                }
                kept.push(record);
            }
        }
        let known =
            |key: &String| self.records.iter().any(|record| record.get(key).is_some() || number(record, key).is_some());
        let wanted = [("var_x", &spec.x), ("var_y", &spec.y)];
        let curves = spec.curve_by.iter().flatten().map(|key| ("curve_by", key));
        for (flag, key) in wanted.into_iter().chain(curves) {
            if !known(key) {
                let available = self.records.first().map_or_else(String::new, keys);
                return Err(Error::PlotRule {
                    problem: format!(
                        "Cannot find {flag}='{key}' in parameter sweep results. Available variables: {available}"
                    ),
                });
            }
        }
        Ok(kept)
    }
}

/// The axes over all runs. Means are within them; intervals are clipped.
fn axes(spec: &SweepPlotSpec, records: &[Dict]) -> (AxisSpec, AxisSpec) {
    let axis =
        |key: &str, scale| AxisSpec::over(key_label(key), scale, records.iter().filter_map(|one| number(one, key)));
    (axis(&spec.x, spec.scale_x), axis(&spec.y, spec.scale_y))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::{ScaleKind, png, svg};
    use tacho_core::json::parse;

    fn sweep() -> Vec<Combination> {
        let text = r#"[{"n": 1, "m": "a/b", "x": 1.0, "y": 2.0}, {"n": 1, "m": "a/b", "x": 1.0, "y": 4.0},
            {"n": 10, "m": "a/b", "x": 2.0, "y": NaN}, {"n": 10, "m": "c", "x": Infinity, "y": 3.0},
            {"n": 2, "m": "c", "x": 0.0, "y": null}]"#;
        let Value::List(items) = parse(text).unwrap() else { panic!() };
        let runs = items.iter().map(|item| item.as_dict().unwrap().clone()).collect();
        vec![Combination { path: "summary.json".into(), runs }]
    }

    fn spec() -> SweepPlotSpec {
        SweepPlotSpec {
            fig_by: Vec::new(),
            row_by: Vec::new(),
            col_by: Vec::new(),
            curve_by: Some(Vec::new()),
            x: "x".into(),
            y: "y".into(),
            filters: Vec::new(),
            binners: Vec::new(),
            scale_x: ScaleKind::Linear,
            scale_y: ScaleKind::Linear,
            name: "FIGURE".into(),
            error_bars: true,
            panel: 4.0,
        }
    }

    #[test]
    fn figures_are_named_and_ordered_by_their_values() {
        let spec = SweepPlotSpec { fig_by: vec!["n".into(), "m".into()], ..spec() };
        let names: Vec<String> = figures(&sweep(), &spec).unwrap().into_iter().map(|figure| figure.name).collect();
        assert_eq!(names, ["FIGURE-n=1-m=a_b", "FIGURE-n=2-m=c", "FIGURE-n=10-m=a_b", "FIGURE-n=10-m=c"]);
    }

    #[test]
    fn missing_and_infinite_values_do_not_break_a_figure() {
        for scale in ScaleKind::NAMES {
            let scale = ScaleKind::from_name(scale).unwrap();
            for curve_by in [
                vec![],
                vec!["n".into()],
                vec!["n".into(), "m".into()],
                vec!["n".into(), "m".into(), "x".into(), "y".into()],
            ] {
                let curve_by = Some(curve_by);
                let spec =
                    SweepPlotSpec { curve_by, scale_x: scale, scale_y: scale, col_by: vec!["m".into()], ..spec() };
                let figure = &figures(&sweep(), &spec).unwrap()[0];
                assert_eq!(figure.grid(), (1, 2));
                let scene = figure.chart(&spec).unwrap().unwrap().scene();
                assert!(!png(&scene, 40.0).unwrap().is_empty());
                let text = svg(&scene);
                assert!(["NaN", "Minf", "Linf", "\"inf"].iter().all(|word| !text.contains(word)));
            }
        }
    }

    #[test]
    fn the_axis_follows_the_data_and_not_the_interval() {
        let text = r#"[{"x": 1.0, "y": 10.0}, {"x": 1.0, "y": 11.0}, {"x": 1.0, "y": 12.0}, {"x": 2.0, "y": 20.0}]"#;
        let Value::List(items) = parse(text).unwrap() else { panic!() };
        let runs = items.iter().map(|item| item.as_dict().unwrap().clone()).collect();
        let sweep = vec![Combination { path: "summary.json".into(), runs }];
        let chart = figures(&sweep, &spec()).unwrap()[0].chart(&spec()).unwrap().unwrap();
        let y = &chart.panels[0].y;
        assert!(y.low >= 9.0 && y.high <= 21.0, "{y:?}");
    }

    #[test]
    fn unknown_variables_are_named() {
        let spec = SweepPlotSpec { x: "zzz".into(), ..spec() };
        let error = figures(&sweep(), &spec).unwrap()[0].chart(&spec).unwrap_err().to_string();
        assert!(
            error.starts_with("Cannot find var_x='zzz' in parameter sweep results. Available variables: ['n', 'm'")
        );
        let spec = SweepPlotSpec { fig_by: vec!["zzz".into()], ..self::spec() };
        assert!(figures(&sweep(), &spec).unwrap_err().to_string().starts_with("Cannot find metric 'zzz'"));
    }
}
