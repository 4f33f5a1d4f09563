//! `tacho ab-test`: blocks of two servers with the same requests, in pairs that are judged as soon as they are measured.

use tacho_decide::compare::Confidence;
use tacho_decide::gate::{Decision, FailureRule, Failures, Judgment, Rule, judge_pairs};
use tacho_metrics::Share;
use tacho_pyrand::Generator;
use tacho_record::{Error, StoredRun};

#[derive(Debug, Clone)]
pub struct AbTestPlan {
    pub rules: Vec<Rule>,
    pub failures: FailureRule,
    pub confidence: Confidence,
    /// Seconds after which no pair is started that would end later.
    pub budget: f64,
    /// Determines which side of each pair is first.
    pub seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    A,
    B,
}

#[derive(Debug, Clone)]
pub struct Block {
    pub run: StoredRun,
    /// Digests of its outputs by request, if they are compared.
    pub outputs: Outputs,
    /// Those of A for the same requests a second time.
    pub again: Outputs,
}

/// Digests of outputs; `None` where a request failed.
pub type Outputs = Vec<Option<u64>>;

impl Block {
    /// Stores how many outputs of both sides differ from those of A. What A itself does not repeat is the baseline.
    fn compare_outputs(base: &mut Block, new: &mut Block) {
        let differing = |others: &Outputs| {
            let both: Vec<bool> =
                base.outputs.iter().zip(others).filter_map(|(a, b)| Some(a.as_ref()? != b.as_ref()?)).collect();
            Share::of(both.iter().filter(|differs| **differs).count() as u64, both.len() as u64)
        };
        if let Some((own, share)) = differing(&base.again).zip(differing(&new.outputs)) {
            base.run.set_share(DIVERGENCE, own);
            new.run.set_share(DIVERGENCE, share);
        }
    }
}

/// The metric of compared outputs.
const DIVERGENCE: &str = "output_divergence";

/// The source of blocks and of time.
pub trait Blocks {
    type Error;
    /// Measures a block with the requests of this pair; `None` if it was interrupted. Pair 0 is not judged: it warms up both
    /// servers.
    fn measure(&mut self, arm: Arm, pair: u64) -> Result<Option<Block>, Self::Error>;
    /// Seconds since the test began.
    fn elapsed(&self) -> f64;
    /// Receives the state after each pair.
    fn judged(&mut self, outcome: &Outcome<Self::Error>);
}

#[derive(Debug)]
pub enum End<E> {
    Decided,
    Budget,
    Interrupted,
    Failed(Arm, E),
    /// The servers received different requests in this pair.
    OtherRequests(u64),
}

/// What was measured, and what it means. Only complete pairs count.
#[derive(Debug)]
pub struct Outcome<E> {
    pub base: Vec<StoredRun>,
    pub new: Vec<StoredRun>,
    pub failures: Failures,
    pub decisions: Vec<Decision>,
    pub seconds: f64,
    pub end: End<E>,
}

impl<E> Outcome<E> {
    pub fn judgment(&self) -> Judgment {
        Judgment::overall(&self.failures, &self.decisions)
    }

    /// Whether more pairs would not change the verdict.
    fn is_decided(&self) -> bool {
        let open = self.decisions.iter().any(|decision| decision.judgment == Judgment::Inconclusive);
        self.failures.judgment == Judgment::Beyond || !open
    }
}

/// Measures pairs until every rule is decided, the budget is spent, or a block fails.
pub fn ab_test<B: Blocks>(plan: &AbTestPlan, blocks: &mut B) -> Result<Outcome<B::Error>, Error> {
    let mut random = Generator::new(plan.seed);
    let judge =
        |base: &[StoredRun], new: &[StoredRun]| judge_pairs(&plan.rules, &plan.failures, base, new, plan.confidence);
    let (failures, decisions) = judge(&[], &[])?;
    let (base, new) = (Vec::new(), Vec::new());
    let mut outcome = Outcome { base, new, failures, decisions, seconds: 0.0, end: End::Budget };
    for pair in 0.. {
        let began = blocks.elapsed();
        let first = if random.random() < 0.5 { Arm::A } else { Arm::B };
        outcome.end = match measure_pair(blocks, pair, first) {
            Ok(sides) => {
                if pair > 0 {
                    let [mut base, mut new] = sides;
                    Block::compare_outputs(&mut base, &mut new);
                    outcome.base.push(base.run);
                    outcome.new.push(new.run);
                    (outcome.failures, outcome.decisions) = judge(&outcome.base, &outcome.new)?;
                }
                outcome.seconds = blocks.elapsed();
                blocks.judged(&outcome);
                match outcome.seconds + (outcome.seconds - began) > plan.budget {
                    _ if !outcome.base.is_empty() && outcome.is_decided() => End::Decided,
                    true => End::Budget,
                    false => continue,
                }
            }
            Err(end) => end,
        };
        break;
    }
    outcome.seconds = blocks.elapsed();
    Ok(outcome)
}

/// The blocks of the baseline and of the candidate.
fn measure_pair<B: Blocks>(blocks: &mut B, pair: u64, first: Arm) -> Result<[Block; 2], End<B::Error>> {
    let mut measure = |arm| blocks.measure(arm, pair).map_err(|error| End::Failed(arm, error))?.ok_or(End::Interrupted);
    let (base, new) = match first {
        Arm::A => {
            let base = measure(Arm::A)?;
            (base, measure(Arm::B)?)
        }
        Arm::B => {
            let new = measure(Arm::B)?;
            (measure(Arm::A)?, new)
        }
    };
    if base.run.workload() != new.run.workload() { Err(End::OtherRequests(pair)) } else { Ok([base, new]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::dict;

    /// Blocks of ten seconds; the candidate takes `factor` times as long, and both get slower.
    struct Known {
        factor: f64,
        elapsed: f64,
        order: Vec<Arm>,
        fails_in: u64,
        same: u64,
    }

    impl Blocks for Known {
        type Error = &'static str;

        fn measure(&mut self, arm: Arm, pair: u64) -> Result<Option<Block>, Self::Error> {
            if pair == self.fails_in {
                return Err("refused");
            }
            self.elapsed += 10.0;
            self.order.push(arm);
            let noise = 1.0 + 0.004 * (self.elapsed * 1.7).sin();
            // Every fifth pair is disturbed, and it shows.
            let is_disturbed = pair % 5 == 2;
            let warm = if pair == 0 || is_disturbed && arm == Arm::A { 3.0 } else { 1.0 };
            let value =
                20.0 * warm * noise * (1.0 + self.elapsed / 500.0) * if arm == Arm::B { self.factor } else { 1.0 };
            let word = if is_disturbed { "STARVED" } else { "ok" };
            let own = dict! { "workload": format!("v2:{pair}"), "client": dict! { "word": word } };
            let result = dict! { "mean_tpot_ms": value, "completed": 50_u64, "failed": 0_u64, "tacho": own };
            // A repeats all but one output; B repeats `same` of 100.
            let outputs = |same: u64| (0..100).map(|at| (at > 0).then_some(at / 50 + u64::from(at > same))).collect();
            let outputs = |same| if self.same == 0 { Vec::new() } else { outputs(same) };
            let (outputs, again) = (outputs(if arm == Arm::A { 99 } else { self.same }), outputs(98));
            Ok(Some(Block { run: StoredRun::from_dict(&result).unwrap(), outputs, again }))
        }

        fn elapsed(&self) -> f64 {
            self.elapsed
        }

        fn judged(&mut self, _: &Outcome<Self::Error>) {}
    }

    fn tested(factor: f64, budget: f64, fails_in: u64) -> (Outcome<&'static str>, Vec<Arm>) {
        let plan = AbTestPlan {
            rules: vec![Rule::parse("mean_tpot_ms:3%").unwrap()],
            failures: FailureRule::default(),
            confidence: Confidence::USUAL,
            budget,
            seed: 3,
        };
        let mut blocks = Known { factor, elapsed: 0.0, order: Vec::new(), fails_in, same: 0 };
        let outcome = ab_test(&plan, &mut blocks).unwrap();
        (outcome, blocks.order)
    }

    #[test]
    fn faster_but_different_fails() {
        let judged = |same: u64, rules: &[&str]| {
            let plan = AbTestPlan {
                rules: rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect(),
                failures: FailureRule::default(),
                confidence: Confidence::USUAL,
                budget: 2000.0,
                seed: 3,
            };
            let mut blocks = Known { factor: 0.9, elapsed: 0.0, order: Vec::new(), fails_in: 999, same };
            let outcome = ab_test(&plan, &mut blocks).unwrap();
            let effect = outcome.decisions.iter().find(|decision| decision.rule.key == DIVERGENCE).unwrap();
            (outcome.judgment(), (effect.effect.change * 99.0).round())
        };
        let speed = "mean_tpot_ms:3%";
        assert_eq!(judged(70, &[speed]), (Judgment::Beyond, 28.0), "29 of 99 differ, and 1 of A itself");
        assert_eq!(judged(98, &[speed]), (Judgment::Within, 0.0));
        assert_eq!(judged(98, &[speed, "output_divergence:2pp"]), (Judgment::Within, 0.0));
        assert_eq!(judged(60, &[speed, "output_divergence:50pp"]), (Judgment::Within, 38.0));
    }

    #[test]
    fn a_test_ends_when_it_is_decided() {
        for (factor, wanted) in [(1.0, Judgment::Within), (1.1, Judgment::Beyond)] {
            let (outcome, order) = tested(factor, 600.0, 99);
            assert_eq!(outcome.judgment(), wanted, "{outcome:?}");
            assert!(matches!(outcome.end, End::Decided) && outcome.seconds < 300.0, "{outcome:?}");
            // The first pair, three times as slow, only warms up.
            assert_eq!(order.len(), 2 * outcome.base.len() + 2);
            assert!(outcome.decisions[0].left_out(outcome.base.len()) > 0);
            assert!(order.chunks(2).all(|pair| pair[0] != pair[1]) && order.chunks(2).any(|pair| pair != &order[..2]));
        }
    }

    #[test]
    fn a_spent_budget_or_a_failure_keeps_the_complete_pairs() {
        let (outcome, _) = tested(1.0, 60.0, 99);
        assert!(matches!(outcome.end, End::Budget) && outcome.base.len() == 2 && outcome.seconds == 60.0);
        assert_eq!(outcome.judgment(), Judgment::Inconclusive);
        let (outcome, _) = tested(1.1, 600.0, 3);
        assert!(matches!(outcome.end, End::Failed(_, "refused")) && outcome.base.len() == 2, "{outcome:?}");
    }
}
