//! The figures of a sweep: which records go where, and the picture of each.

use tacho_core::json::Dict;
use tacho_metrics::number::{Known, Unit};

use super::SweepPlotSpec;
use super::curves::{Looks, number};
use super::data::{Combination, keys, natural, python_text};
use crate::Error;
use crate::plots::{AxisSpec, Grid, Panel, Rect, Scene, Series, draw_legend, legend_width};

/// Variables and their values.
type Group = Vec<(String, String)>;

/// One figure: a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The values that set it apart.
    pub group: Group,
    /// The values of the rows, one entry where there is one row.
    rows: Vec<Group>,
    /// The values of the columns.
    columns: Vec<Group>,
    /// Its file name without ending.
    pub name: String,
    records: Vec<Dict>,
}

/// The figures of a sweep.
pub fn figures(combinations: &[Combination], spec: &SweepPlotSpec) -> Result<Vec<Figure>, Error> {
    let records: Vec<&Dict> = combinations.iter().flat_map(|combination| &combination.runs).collect();
    let groups = distinct(&records, &spec.fig_by)?;
    let figure = |group: Group| {
        let members: Vec<&Dict> = records.iter().copied().filter(|record| belongs(record, &group)).collect();
        let mut name = spec.name.clone();
        group.iter().for_each(|(key, value)| name += &format!("-{key}={value}"));
        Ok(Figure {
            rows: distinct(&members, &spec.row_by)?,
            columns: distinct(&members, &spec.col_by)?,
            name: clean(&name),
            records: members.into_iter().cloned().collect(),
            group,
        })
    };
    groups.into_iter().map(figure).collect()
}

/// Every combination of values of `variables`, in order.
fn distinct(records: &[&Dict], variables: &[String]) -> Result<Vec<Group>, Error> {
    let mut groups: Vec<Group> = Vec::new();
    for record in records {
        let mut group = Group::new();
        for key in variables {
            let value = record.get(key).ok_or_else(|| Error::PlotRule {
                problem: format!("Cannot find metric '{key}' in a result that has {}", keys(record)),
            })?;
            group.push((key.clone(), python_text(value)));
        }
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    let order = |group: &Group| group.iter().map(|(_, value)| natural(value)).collect::<Vec<_>>();
    groups.sort_by_key(order);
    Ok(groups)
}

fn belongs(record: &Dict, group: &Group) -> bool {
    group.iter().all(|(key, value)| record.get(key).is_some_and(|found| python_text(found) == *value))
}

/// vLLM's cleaning of file names.
fn clean(name: &str) -> String {
    name.replace('/', "_").replace("..", "__").trim_matches('\'').trim_matches('"').to_owned()
}

impl Figure {
    /// How many rows and columns of panels it has.
    pub fn grid(&self) -> (usize, usize) {
        (self.rows.len().max(1), self.columns.len().max(1))
    }

    /// The picture; nothing where the filters leave no record.
    pub fn scene(&self, spec: &SweepPlotSpec) -> Result<Option<Scene>, Error> {
        let records = self.kept(spec)?;
        if records.is_empty() {
            return Ok(None);
        }
        let looks = Looks::new(&spec.curve_by, &records);
        let values = |key: &str| records.iter().filter_map(|record| number(record, key)).collect::<Vec<_>>();
        let mut panels = Vec::new();
        for row in &self.rows {
            for column in &self.columns {
                let members: Vec<&Dict> =
                    records.iter().filter(|record| belongs(record, row) && belongs(record, column)).collect();
                let series = looks.series(&members, &spec.x, &spec.y, spec.error_bars);
                let title = [row, column].into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
                panels.push((title, series));
            }
        }
        // Bands may reach beyond the points.
        let mut ys = values(&spec.y);
        for series in panels.iter().flat_map(|(_, series)| series) {
            if let Series::Band { edges, .. } = series {
                ys.extend(edges.iter().flat_map(|edge| [edge.1, edge.2]));
            }
        }
        let x = AxisSpec::over(with_unit(&spec.x), spec.scale_x, values(&spec.x).into_iter());
        let y = AxisSpec::over(with_unit(&spec.y), spec.scale_y, ys.into_iter());
        Ok(Some(self.drawn(spec, &looks, panels, &x, &y)))
    }

    fn drawn(
        &self,
        spec: &SweepPlotSpec,
        looks: &Looks,
        panels: Vec<(Vec<String>, Vec<Series>)>,
        x: &AxisSpec,
        y: &AxisSpec,
    ) -> Scene {
        let entries = looks.legend();
        let legend = legend_width(&entries);
        let (rows, columns) = self.grid();
        let side = spec.panel * 72.0;
        let lines = panels.iter().map(|(title, _)| title.len()).max().unwrap_or(0) as f64;
        let (left, top) = (72.0, 14.0 + 15.0 * lines);
        let tall = (rows as f64 * side).max(entries.len() as f64 * 15.0 + 40.0);
        let mut scene = Scene::new(columns as f64 * side + legend + 14.0, tall);
        for (at, (title, series)) in panels.into_iter().enumerate() {
            let (row, column) = ((at / columns) as f64, (at % columns) as f64);
            let rect = Rect {
                x: column * side + left,
                y: row * side + top,
                width: (side - left - 16.0).max(20.0),
                height: (side - top - 44.0).max(20.0),
            };
            Panel { title, x: x.clone(), y: y.clone(), grid: Grid::Both, series }.draw(&mut scene, rect);
        }
        if !entries.is_empty() {
            draw_legend(&mut scene, (columns as f64 * side, top), &entries);
        }
        scene
    }

    /// The records that the filters leave, rounded.
    fn kept(&self, spec: &SweepPlotSpec) -> Result<Vec<Dict>, Error> {
        let mut kept = Vec::new();
        for record in &self.records {
            let mut holds = true;
            for filter in &spec.filters {
                holds &= filter.holds(record)?;
            }
            if holds {
                let mut record = record.clone();
                for binner in &spec.binners {
                    binner.apply(&mut record)?;
                }
                kept.push(record);
            }
        }
        let known = |key: &String| self.records.iter().any(|record| record.get(key).is_some());
        let wanted = [("var_x", &spec.x), ("var_y", &spec.y)];
        let curves = spec.curve_by.iter().map(|key| ("curve_by", key));
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

/// The variable with its unit, where the name does not say it.
fn with_unit(key: &str) -> String {
    let unit = match key {
        "request_rate" => Unit::RequestsPerSecond.text(),
        _ => Known::find(key).map_or("", |number| number.unit().text()),
    };
    if unit.is_empty() || key.ends_with("_ms") { key.to_owned() } else { format!("{key} ({unit})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::{ScaleKind, png, svg};
    use tacho_core::json::{Value, parse};

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
            curve_by: Vec::new(),
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
                let spec =
                    SweepPlotSpec { curve_by, scale_x: scale, scale_y: scale, col_by: vec!["m".into()], ..spec() };
                let figure = &figures(&sweep(), &spec).unwrap()[0];
                assert_eq!(figure.grid(), (1, 2));
                let scene = figure.scene(&spec).unwrap().unwrap();
                assert!(!png(&scene, 40.0).unwrap().is_empty());
                let text = svg(&scene);
                assert!(["NaN", "Minf", "Linf", "\"inf"].iter().all(|word| !text.contains(word)));
            }
        }
    }

    #[test]
    fn unknown_variables_are_named() {
        let spec = SweepPlotSpec { x: "zzz".into(), ..spec() };
        let error = figures(&sweep(), &spec).unwrap()[0].scene(&spec).unwrap_err().to_string();
        assert!(
            error.starts_with("Cannot find var_x='zzz' in parameter sweep results. Available variables: ['n', 'm'")
        );
        let spec = SweepPlotSpec { fig_by: vec!["zzz".into()], ..self::spec() };
        assert!(figures(&sweep(), &spec).unwrap_err().to_string().starts_with("Cannot find metric 'zzz'"));
    }
}
