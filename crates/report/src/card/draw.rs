//! The layout of a card. Every text is measured and truncated to its space.

use crate::html::Tone;
use crate::plots::{Anchor, Color, Scene, Shape, Stroke, fit_text, text_width};
use crate::style::{harmless_line, short, short_tick};

/// The usual size of link previews.
pub(super) const SIZE: (f64, f64) = (1200.0, 630.0);
const MARGIN: f64 = 48.0;
const WIDTH: f64 = SIZE.0 - 2.0 * MARGIN;
const GAP: f64 = 18.0;

const INK: Color = Color::hex(0x1c_20_24);
const SOFT: Color = Color::hex(0x5f_67_70);
const TILE: Color = Color::hex(0xf3_f5_f7);
const LINE: Color = Color::hex(0xd5_da_df);
const CURVE: Color = Color::hex(0x00_72_b2);
const GOOD: Color = Color::hex(0x1d_7f_4e);
const WARNING: Color = Color::hex(0xa8_5b_00);
const BAD: Color = Color::hex(0xc0_26_26);

/// Font sizes of the command with the distance of their lines: a long one gets a smaller font.
const COMMAND: [(f64, f64); 4] = [(15.0, 22.0), (13.0, 18.0), (11.0, 15.0), (9.0, 12.0)];
const COMMAND_HEIGHT: f64 = 82.0;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tile {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) unit: &'static str,
    pub(super) interval: String,
    pub(super) below: String,
}

/// Values in equal steps from 0 to `end` seconds; NaN for a missing value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
    pub(super) end: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Card {
    pub(super) title: String,
    pub(super) server: String,
    pub(super) load: String,
    pub(super) tone: Tone,
    pub(super) verdict: String,
    pub(super) tiles: Vec<Tile>,
    pub(super) curves: Vec<Curve>,
    pub(super) command: Vec<String>,
    pub(super) foot: String,
}

impl Card {
    pub(super) fn scene(&self) -> Scene {
        let mut scene = Scene::new(SIZE.0, SIZE.1);
        let tone = match self.tone {
            Tone::Good => GOOD,
            Tone::Warning => WARNING,
            Tone::Bad => BAD,
        };
        scene.rect((0.0, 0.0), SIZE, Some(Color::WHITE), None);
        scene.rect((0.0, 0.0), (SIZE.0, 10.0), Some(tone), None);
        // A long name gets a smaller font before it is truncated.
        let size = [40.0, 34.0, 28.0].into_iter().find(|size| text_width(&self.title, *size) <= WIDTH);
        text(&mut scene, (MARGIN, 72.0), &self.title, size.unwrap_or(28.0), INK, WIDTH);
        text(&mut scene, (MARGIN, 106.0), &self.server, 19.0, SOFT, WIDTH);
        text(&mut scene, (MARGIN, 133.0), &self.load, 19.0, SOFT, WIDTH);
        let dot = (MARGIN + 7.0, 166.5);
        scene.shapes.push(Shape::Disc { center: dot, radius: 7.0, fill: tone, hint: None });
        text(&mut scene, (MARGIN + 24.0, 173.0), clauses(&self.verdict, 19.0, WIDTH - 24.0), 19.0, tone, WIDTH - 24.0);
        let count = self.tiles.len().max(1) as f64;
        let wide = (WIDTH - (count - 1.0) * GAP) / count;
        for (at, tile) in self.tiles.iter().enumerate() {
            tile.draw(&mut scene, MARGIN + at as f64 * (wide + GAP), wide);
        }
        self.draw_curves(&mut scene);
        self.draw_command(&mut scene);
        text(&mut scene, (MARGIN, 613.0), &self.foot, 15.0, SOFT, WIDTH);
        scene
    }

    fn draw_curves(&self, scene: &mut Scene) {
        if self.curves.is_empty() {
            let note = "This result holds no values over time.";
            return text(scene, (MARGIN, 440.0), note, 16.0, SOFT, WIDTH);
        }
        let wide = (WIDTH - GAP * (self.curves.len() - 1) as f64) / self.curves.len() as f64;
        for (at, curve) in self.curves.iter().enumerate() {
            curve.draw(scene, MARGIN + at as f64 * (wide + GAP), wide);
        }
    }

    fn draw_command(&self, scene: &mut Scene) {
        if self.command.is_empty() {
            return;
        }
        let (top, width) = (502.0, WIDTH - 32.0);
        scene.rect((MARGIN, top), (MARGIN + WIDTH, top + COMMAND_HEIGHT), Some(TILE), None);
        let fits = |&(size, step): &(f64, f64)| {
            let lines = wrapped(&self.command, size, width);
            let is_whole = lines.iter().all(|line| text_width(line, size) <= width);
            (is_whole && lines.len() as f64 * step <= COMMAND_HEIGHT - 10.0).then_some((lines, size, step))
        };
        // Half a command repeats nothing.
        let long = || (vec!["The command is too long for this card: the result file has it.".to_owned()], 15.0, 22.0);
        let (lines, size, step) = COMMAND.iter().find_map(fits).unwrap_or_else(long);
        let first = top + COMMAND_HEIGHT / 2.0 - (lines.len() as f64 - 1.0) * step / 2.0 + size * 0.36;
        for (at, line) in lines.iter().enumerate() {
            text(scene, (MARGIN + 16.0, first + at as f64 * step), line, size, INK, WIDTH - 32.0);
        }
    }
}

impl Tile {
    fn draw(&self, scene: &mut Scene, x: f64, wide: f64) {
        let (top, left, available) = (196.0, x + 16.0, wide - 32.0);
        scene.rect((x, top), (x + wide, top + 142.0), Some(TILE), None);
        text(scene, (left, top + 29.0), &self.name, 16.0, SOFT, available);
        let unit = text_width(self.unit, 18.0) + 8.0;
        let value = fit_text(&self.value, 38.0, available - unit);
        text(scene, (left, top + 75.0), &value, 38.0, INK, available - unit);
        text(scene, (left + text_width(&value, 38.0) + 8.0, top + 75.0), self.unit, 18.0, SOFT, unit);
        text(scene, (left, top + 102.0), &self.interval, 15.0, SOFT, available);
        text(scene, (left, top + 127.0), &self.below, 15.0, INK, available);
    }
}

impl Curve {
    /// The curve as an area from 0, with its name, its end time and its maximum.
    fn draw(&self, scene: &mut Scene, x: f64, wide: f64) {
        let (top, bottom) = (382.0, 468.0);
        let max = self.values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
        let ceiling = if max > 0.0 { max } else { 1.0 };
        text(scene, (x, 368.0), &format!("{} over time, up to {}", self.name, short(max)), 15.0, SOFT, wide);
        let step = wide / self.values.len() as f64;
        let position =
            |at: usize, value: f64| (x + (at as f64 + 0.5) * step, bottom - value / ceiling * (bottom - top));
        let mut rest: &[f64] = &self.values;
        // A step without a value is a gap in the curve.
        while let Some(start) = rest.iter().position(|value| value.is_finite()) {
            let first = self.values.len() - rest.len() + start;
            let known: Vec<f64> = rest[start..].iter().copied().take_while(|value| value.is_finite()).collect();
            let points: Vec<(f64, f64)> =
                known.iter().enumerate().map(|(at, value)| position(first + at, value.max(0.0))).collect();
            draw_piece(scene, &points, bottom);
            rest = &rest[start + known.len()..];
        }
        scene.line((x, bottom), (x + wide, bottom), Stroke::solid(LINE, 1.0));
        text(scene, (x, 484.0), "0 s", 13.0, SOFT, wide);
        let end = format!("{} s", short_tick(self.end));
        text(scene, (x + wide - text_width(&end, 13.0), 484.0), &end, 13.0, SOFT, wide);
    }
}

fn draw_piece(scene: &mut Scene, points: &[(f64, f64)], bottom: f64) {
    let [first, .., last] = points else {
        let lone = points.iter().map(|center| Shape::Disc { center: *center, radius: 2.0, fill: CURVE, hint: None });
        return scene.shapes.extend(lone);
    };
    let mut area = points.to_vec();
    area.extend([(last.0, bottom), (first.0, bottom)]);
    scene.path(area, true, Some(CURVE.with_alpha(0.15)), None, None);
    scene.path(points.to_vec(), false, None, Some(Stroke::solid(CURVE, 2.0)), None);
}

fn wrapped(words: &[String], size: f64, width: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.iter().map(|word| harmless_line(word)) {
        let last = lines.last_mut().expect("never empty");
        let longer = if last.is_empty() { word.clone() } else { format!("{last} {word}") };
        if last.is_empty() || text_width(&longer, size) <= width {
            *lines.last_mut().expect("never empty") = longer;
        } else {
            lines.push(word);
        }
    }
    lines
}

/// As many whole clauses of a sentence as fit, and at least one.
fn clauses(sentence: &str, size: f64, width: f64) -> &str {
    let ends = sentence.match_indices([':', ';', ',', '(']).map(|(at, _)| at).chain([sentence.len()]);
    let parts: Vec<&str> = ends.map(|at| sentence[..at].trim_end()).collect();
    let fits = |part: &&&str| text_width(part, size) <= width;
    parts.iter().rev().find(fits).or(parts.get(1)).or(parts.first()).copied().unwrap_or(sentence)
}

fn text(scene: &mut Scene, at: (f64, f64), text: &str, size: f64, color: Color, width: f64) {
    let text = fit_text(text, size, width);
    if !text.is_empty() {
        scene.shapes.push(Shape::Text { at, text, size, anchor: Anchor::Start, upwards: false, color });
    }
}
