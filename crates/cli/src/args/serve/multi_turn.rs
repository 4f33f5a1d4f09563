//! Flags of `tacho serve` for conversations generated from a dataset, with the names of vLLM's Rust client.

use tacho_args::declare::*;

use super::DatasetFlags;
use crate::{args::error::ArgumentError, args::shared::tags::SETS_LOAD};

pub(super) static MULTI_TURN: Group = group(
    "multi-turn options",
    "options",
    "Conversations made of --dataset-name random, sharegpt or generated-shared-prefix; names of vLLM's Rust client, then SGLang's.",
);

flags! {
    TurnFlags {
        FLAGS [
            multi_turn: bool = switch(&["--multi-turn"], &MULTI_TURN,
                "Run conversations, with the server's responses as history. --num-prompts is the number of conversations.").tagged(SETS_LOAD);
            multi_turn_num_turns: i64 = tacho(&["--multi-turn-num-turns", "--num-rounds"], Int, "N", DefaultValue::Int(3), &MULTI_TURN, "Turns per conversation.");
            multi_turn_min_turns: i64 = tacho(&["--multi-turn-min-turns", "--min-rounds"], Int, "N", DefaultValue::Int(0), &MULTI_TURN,
                "Minimum turns; their number is then random. 0 is --multi-turn-num-turns.");
            multi_turn_max_turns: i64 = tacho(&["--multi-turn-max-turns", "--max-rounds"], Int, "N", DefaultValue::Int(0), &MULTI_TURN,
                "Maximum turns. 0 is --multi-turn-num-turns, and no limit for sharegpt.");
            multi_turn_concurrency: Option<usize> = tacho(&["--multi-turn-concurrency", "--max-parallel"], Int, "N", Unset, &MULTI_TURN,
                "Maximum requests in flight (default: --max-concurrency, else all conversations).").at_least(1);
            multi_turn_delay_ms: f64 = tacho(&["--multi-turn-delay-ms"], Float, "MS", DefaultValue::Float(0.0), &MULTI_TURN, "Pause before each further turn.")
                .between(0.0, MAX_SECONDS * 1e3);
            per_turn_input_len: i64 = tacho(&["--per-turn-input-len", "--sub-question-input-length"], Int, "TOKENS", DefaultValue::Int(0), &MULTI_TURN,
                "Tokens of each further question of random. 0 is --random-input-len.").at_least(0);
            multi_turn_prefix_global_ratio: f64 = tacho(&["--multi-turn-prefix-global-ratio"], Float, "FRACTION", DefaultValue::Float(0.0), &MULTI_TURN,
                "Fraction of a random question that all questions share. Above 0 no history is sent.");
            multi_turn_prefix_conversation_ratio: f64 = tacho(&["--multi-turn-prefix-conversation-ratio"], Float, "FRACTION", DefaultValue::Float(0.0), &MULTI_TURN,
                "Fraction of a random question that the questions of a conversation share. Above 0 no history is sent.");
        ]
    }
}

/// The dataset that defines its own number of turns.
const SHARED_PREFIX: &str = "generated-shared-prefix";

/// Conversations generated from a dataset.
#[derive(Debug, Clone)]
pub(crate) struct MultiTurnFlags {
    pub(crate) turns: (i64, i64),
    /// Whether the maximum was given explicitly.
    pub(crate) capped: bool,
    pub(crate) concurrency: Option<usize>,
    pub(crate) delay_ms: f64,
    pub(crate) later_len: i64,
    pub(crate) shared: (f64, f64),
    /// Questions per conversation after a shared system prompt.
    shared_turns: i64,
    dataset: String,
    clash: Option<&'static str>,
}

impl MultiTurnFlags {
    /// The requested conversations, by `--multi-turn` or by the number of questions.
    pub(super) fn read(v: &Values, dataset: &DatasetFlags) -> Option<MultiTurnFlags> {
        let flags = TurnFlags::from(v);
        let follows = dataset.dataset_name == SHARED_PREFIX && dataset.gsp_num_turns > 1;
        if !(flags.multi_turn || follows) {
            return None;
        }
        let (turns, min, max) = (flags.multi_turn_num_turns, flags.multi_turn_min_turns, flags.multi_turn_max_turns);
        let or_turns = |value: i64| if value == 0 { turns } else { value };
        let clashes = ["--request-rate", "--ramp-up-strategy", "--workload", "--num-sessions", "--until"];
        Some(MultiTurnFlags {
            turns: (or_turns(min), or_turns(max).max(if max == 0 { or_turns(min) } else { 0 })),
            capped: max != 0,
            concurrency: flags.multi_turn_concurrency,
            delay_ms: flags.multi_turn_delay_ms,
            later_len: flags.per_turn_input_len,
            shared: (flags.multi_turn_prefix_global_ratio, flags.multi_turn_prefix_conversation_ratio),
            shared_turns: dataset.gsp_num_turns,
            dataset: dataset.dataset_name.clone(),
            clash: v.set_of(clashes).next(),
        })
    }

    /// Whether conversations are SGLang's with shared system prompts.
    pub(crate) fn is_shared_prefix(&self) -> bool {
        self.dataset == SHARED_PREFIX
    }

    pub(crate) fn is_sharegpt(&self) -> bool {
        self.dataset == "sharegpt"
    }

    pub(super) fn check(&self) -> Result<(), ArgumentError> {
        let invalid = |flag, value: String, allowed: &str| Err(ArgumentError::range(flag, value, allowed));
        if let Some(other) = self.clash {
            let flag = if self.is_shared_prefix() { "--gsp-num-turns" } else { "--multi-turn" };
            return Err(ArgumentError::Together { flag, other });
        }
        if !matches!(self.dataset.as_str(), "random" | "sharegpt" | SHARED_PREFIX) {
            let other = "--dataset-name random, sharegpt or generated-shared-prefix";
            return Err(ArgumentError::Alone { flag: "--multi-turn", other });
        }
        if self.is_shared_prefix() && self.shared_turns < 2 {
            return invalid("--gsp-num-turns", self.shared_turns.to_string(), "2 or more with --multi-turn");
        }
        let (min, max) = self.turns;
        if min < 1 || (max < min && (self.capped || !self.is_sharegpt())) {
            return invalid("--multi-turn-min-turns", min.to_string(), "1 or more, and at most --multi-turn-max-turns");
        }
        if self.is_sharegpt() && self.capped && max == 1 {
            return invalid("--multi-turn-max-turns", max.to_string(), "2 or more, or 0 for no limit, with sharegpt");
        }
        let (all, own) = self.shared;
        if !((0.0..1.0).contains(&all) && (0.0..1.0).contains(&own) && all + own < 1.0) {
            let value = format!("{all} and {own} for the conversation");
            return invalid("--multi-turn-prefix-global-ratio", value, "0 to 1 each, and less than 1 together");
        }
        if (self.is_sharegpt() || self.is_shared_prefix()) && all + own > 0.0 {
            return Err(ArgumentError::Alone {
                flag: "--multi-turn-prefix-global-ratio",
                other: "--dataset-name random, of which parts can be shared",
            });
        }
        Ok(())
    }
}
