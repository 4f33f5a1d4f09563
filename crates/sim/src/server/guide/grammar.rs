//! Context-free grammars as rules that refer to each other, and sentences drawn from them.

use super::{dice::Dice, pattern::Pattern};

/// Beyond this depth the shallowest alternative is taken.
const SHALLOW_DEPTH: usize = 12;
/// A rule without finite sentences.
const INFINITE: usize = usize::MAX;

/// One side of a rule.
#[derive(Debug)]
pub(crate) enum Node {
    Text(String),
    Pattern(Pattern),
    Rule(usize),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Times(Box<Node>, usize, Option<usize>),
}

/// The rules; sentences derive from `root`.
#[derive(Debug)]
pub(crate) struct Grammar {
    rules: Vec<Node>,
    /// Per rule, the depth of its shallowest sentence.
    heights: Vec<usize>,
    root: usize,
}

/// Collects rules under their names.
#[derive(Debug, Default)]
pub(super) struct Rules {
    names: Vec<String>,
    nodes: Vec<Option<Node>>,
}

impl Rules {
    /// The number of a name, defined or not yet.
    pub(super) fn number(&mut self, name: &str) -> usize {
        if let Some(at) = self.names.iter().position(|known| known == name) {
            return at;
        }
        self.names.push(name.to_owned());
        self.nodes.push(None);
        self.names.len() - 1
    }

    pub(super) fn define(&mut self, name: &str, node: Node) -> Result<(), String> {
        let at = self.number(name);
        if self.nodes[at].is_some() {
            return Err(format!("rule {name:?} is defined twice"));
        }
        self.nodes[at] = Some(node);
        Ok(())
    }

    /// All rules together, beginning with `root`.
    pub(super) fn finish(mut self, root: &str) -> Result<Grammar, String> {
        let root = self.number(root);
        let mut rules = Vec::with_capacity(self.nodes.len());
        for (name, node) in self.names.iter().zip(self.nodes) {
            rules.push(node.ok_or_else(|| format!("rule {name:?} is not defined"))?);
        }
        let heights = heights(&rules);
        if heights[root] == INFINITE {
            return Err("no sentence of the grammar ends".to_owned());
        }
        Ok(Grammar { rules, heights, root })
    }
}

/// The depth of each rule's shallowest sentence, by fixpoint iteration.
fn heights(rules: &[Node]) -> Vec<usize> {
    let mut known = vec![INFINITE; rules.len()];
    loop {
        let next: Vec<usize> = rules.iter().map(|rule| height(rule, &known).saturating_add(1)).collect();
        if next == known {
            return known;
        }
        known = next;
    }
}

fn height(node: &Node, known: &[usize]) -> usize {
    match node {
        Node::Text(_) | Node::Pattern(_) => 0,
        Node::Rule(at) => known[*at],
        Node::Sequence(parts) => parts.iter().map(|part| height(part, known)).max().unwrap_or(0),
        Node::Choice(parts) => parts.iter().map(|part| height(part, known)).min().unwrap_or(0),
        Node::Times(_, 0, _) => 0,
        Node::Times(part, ..) => height(part, known),
    }
}

impl Grammar {
    pub(super) fn text(&self, dice: &mut Dice) -> String {
        let mut out = String::new();
        self.write(&self.rules[self.root], 0, dice, &mut out);
        out
    }

    fn write(&self, node: &Node, depth: usize, dice: &mut Dice, out: &mut String) {
        if !dice.spend(1) {
            return;
        }
        match node {
            Node::Text(text) => {
                dice.spend(text.len());
                out.push_str(text);
            }
            Node::Pattern(pattern) => out.push_str(&pattern.text(dice)),
            Node::Rule(at) => self.write(&self.rules[*at], depth + 1, dice, out),
            Node::Sequence(parts) => parts.iter().for_each(|part| self.write(part, depth, dice, out)),
            Node::Choice(parts) => {
                if let Some(part) = self.choose(parts, depth, dice) {
                    self.write(part, depth, dice, out);
                }
            }
            Node::Times(part, min, max) => {
                let times = if depth > SHALLOW_DEPTH { (*min).min(dice.left()) } else { dice.times(*min, *max) };
                // Parts without a finite sentence are dropped.
                let times = if height(part, &self.heights) == INFINITE { 0 } else { times };
                for _ in 0..times {
                    self.write(part, depth, dice, out);
                }
            }
        }
    }

    fn choose<'a>(&self, parts: &'a [Node], depth: usize, dice: &mut Dice) -> Option<&'a Node> {
        let min = parts.iter().map(|part| height(part, &self.heights)).min()?;
        let limit = if depth > SHALLOW_DEPTH || dice.size == 0 { min } else { INFINITE - 1 };
        let open: Vec<&Node> = parts.iter().filter(|part| height(part, &self.heights) <= limit).collect();
        dice.pick(&open).copied()
    }
}
