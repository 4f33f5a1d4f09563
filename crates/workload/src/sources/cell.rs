//! One value of a row of any file format. JSON rows are converted to the uniform shape of a table.

use tacho_core::json::{Dict, Value};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    /// The digits of a whole number that no `i64` holds.
    BigInt(String),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Cell>),
    Struct(Vec<(String, Cell)>),
}

impl Cell {
    pub(crate) fn bytes(&self) -> u64 {
        let own = size_of::<Cell>() as u64;
        own + match self {
            Cell::Text(text) | Cell::BigInt(text) => text.len() as u64,
            Cell::Bytes(bytes) => bytes.len() as u64,
            Cell::List(cells) => cells.iter().map(Cell::bytes).sum(),
            Cell::Struct(members) => members.iter().map(|(name, cell)| name.len() as u64 + cell.bytes()).sum(),
            Cell::Null | Cell::Bool(_) | Cell::Int(_) | Cell::Float(_) => 0,
        }
    }

    /// Bytes of the longest text or byte string in it.
    pub(crate) fn largest(&self) -> u64 {
        match self {
            Cell::Text(text) | Cell::BigInt(text) => text.len() as u64,
            Cell::Bytes(bytes) => bytes.len() as u64,
            Cell::List(cells) => cells.iter().map(Cell::largest).max().unwrap_or(0),
            Cell::Struct(members) => members.iter().map(|(_, cell)| cell.largest()).max().unwrap_or(0),
            Cell::Null | Cell::Bool(_) | Cell::Int(_) | Cell::Float(_) => 0,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Cell> {
        match self {
            Cell::Struct(members) => members.iter().find(|(known, _)| known == name).map(|(_, cell)| cell),
            _ => None,
        }
    }

    pub(crate) fn item(&self, index: usize) -> Option<&Cell> {
        match self {
            Cell::List(items) => items.get(index),
            _ => None,
        }
    }

    /// The value of a column; the steps of a nested one are separated by dots, and items of lists are numbers.
    pub(crate) fn at(&self, column: &str) -> Option<&Cell> {
        self.get(column).or_else(|| {
            column.split('.').try_fold(self, |cell, step| {
                step.parse().ok().and_then(|index| cell.item(index)).or_else(|| cell.get(step))
            })
        })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let members = match self {
            Cell::Struct(members) => members.as_slice(),
            _ => &[],
        };
        members.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Cell::Null => "null",
            Cell::Bool(_) => "bool",
            Cell::Int(_) | Cell::BigInt(_) | Cell::Float(_) => "number",
            Cell::Text(_) => "text",
            Cell::Bytes(_) => "bytes",
            Cell::List(_) => "list",
            Cell::Struct(_) => "object",
        }
    }

    /// Converts to JSON; `None` if it contains bytes.
    pub(crate) fn to_json(&self) -> Option<Value> {
        Some(match self {
            Cell::Null => Value::Null,
            Cell::Bool(flag) => Value::Bool(*flag),
            Cell::Int(number) => Value::Int(*number),
            Cell::BigInt(digits) => Value::BigInt(digits.clone()),
            Cell::Float(number) => Value::Float(*number),
            Cell::Text(text) => Value::from(text.as_str()),
            Cell::Bytes(_) => return None,
            Cell::List(items) => Value::List(items.iter().map(Cell::to_json).collect::<Option<_>>()?),
            Cell::Struct(members) => {
                let member = |(name, cell): &(String, Cell)| Some((name.clone(), cell.to_json()?));
                Value::Dict(members.iter().map(member).collect::<Option<Dict>>()?)
            }
        })
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Cell::Int(number) => Some(*number as f64),
            Cell::BigInt(digits) => digits.parse().ok(),
            Cell::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// Python's `str` of a scalar.
    pub(crate) fn python_str(&self) -> Option<String> {
        Some(match self {
            Cell::Null => "None".to_owned(),
            Cell::Bool(true) => "True".to_owned(),
            Cell::Bool(false) => "False".to_owned(),
            Cell::Int(number) => number.to_string(),
            Cell::Float(number) => tacho_core::json::float_repr(*number),
            Cell::Text(text) | Cell::BigInt(text) => text.clone(),
            _ => return None,
        })
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or_else(|_| Cell::BigInt(number.to_string()), Cell::Int)
    }
}

impl From<Value> for Cell {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Cell::Null,
            Value::Bool(flag) => Cell::Bool(flag),
            Value::Int(number) => Cell::Int(number),
            Value::BigInt(digits) => Cell::BigInt(digits),
            Value::Float(number) => Cell::Float(number),
            Value::Str(text) => Cell::Text(text),
            Value::List(items) => Cell::List(items.into_iter().map(Cell::from).collect()),
            Value::Dict(dict) => {
                Cell::Struct(dict.iter().map(|(key, value)| (key.to_owned(), Cell::from(value.clone()))).collect())
            }
        }
    }
}

/// The common type of a column's values.
#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Leaf,
    List(Box<Shape>),
    Struct(Vec<(String, Shape)>),
}

/// Gives all rows the same members in the same order, null if a row lacks one: a table has one type per column.
pub(crate) fn unify(rows: &mut [Cell]) {
    let shape = rows.iter().fold(Shape::Leaf, |shape, row| shape.joined(row));
    rows.iter_mut().for_each(|row| shape.fill(row));
}

impl Shape {
    fn joined(self, cell: &Cell) -> Shape {
        match (self, cell) {
            (Shape::Leaf, Cell::List(items)) => Shape::List(Box::new(items.iter().fold(Shape::Leaf, Shape::joined))),
            (Shape::List(inner), Cell::List(items)) => Shape::List(Box::new(items.iter().fold(*inner, Shape::joined))),
            (Shape::Leaf, Cell::Struct(_)) => Shape::Struct(Vec::new()).joined(cell),
            (Shape::Struct(mut members), Cell::Struct(cells)) => {
                for (name, cell) in cells {
                    match members.iter_mut().find(|(known, _)| known == name) {
                        Some((_, shape)) => *shape = std::mem::replace(shape, Shape::Leaf).joined(cell),
                        None => members.push((name.clone(), Shape::Leaf.joined(cell))),
                    }
                }
                Shape::Struct(members)
            }
            (shape, _) => shape,
        }
    }

    fn fill(&self, cell: &mut Cell) {
        match (self, cell) {
            (Shape::List(inner), Cell::List(items)) => items.iter_mut().for_each(|item| inner.fill(item)),
            (Shape::Struct(members), Cell::Struct(cells)) => {
                let mut given = std::mem::take(cells);
                for (name, shape) in members {
                    let at = given.iter().position(|(known, _)| known == name);
                    let mut cell = at.map_or(Cell::Null, |at| given.swap_remove(at).1);
                    shape.fill(&mut cell);
                    cells.push((name.clone(), cell));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_of_64_bits_are_exact() {
        let text = "[12345678901234567890, 12345678901234567891, 9223372036854775807]";
        let value = tacho_core::json::parse(text).unwrap();
        let cell = Cell::from(value.clone());
        assert_ne!(cell.item(0), cell.item(1));
        assert_eq!(cell.item(1).and_then(Cell::python_str).as_deref(), Some("12345678901234567891"));
        assert_eq!(cell.to_json(), Some(value));
    }

    #[test]
    fn rows_get_each_others_members() {
        let cell = |text| Cell::from(tacho_core::json::parse(text).unwrap());
        let mut rows = [cell(r#"{"c": {"A": 1}, "l": [{"x": 1}]}"#), cell(r#"{"l": [{"y": 2}], "c": {"B": 2}}"#)];
        unify(&mut rows);
        assert_eq!(rows[0], cell(r#"{"c": {"A": 1, "B": null}, "l": [{"x": 1, "y": null}]}"#));
        assert_eq!(rows[1], cell(r#"{"c": {"A": null, "B": 2}, "l": [{"x": null, "y": 2}]}"#));
    }
}
