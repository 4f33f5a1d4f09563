//! Workloads of vLLM's scenario scripts: structured output, repeated prompts, long documents, priorities.

mod constraint;
mod long_document;
mod pairs;
mod prefix_caching;
mod prioritization;
mod schema_filter;
mod structured;

pub use constraint::{ConstraintField, ConstraintKind};
pub use long_document::{LongDocumentSpec, RepeatMode};
pub use prefix_caching::{PrefixCachingSpec, PrefixLengths};
pub use prioritization::{PrioritizationSpec, PrioritySource, priority_of};
pub use structured::{Constraint, StructuredDataset, StructuredSpec};

pub(crate) use long_document::sample as sample_long_document;
pub(crate) use prefix_caching::sample as sample_prefix_caching;
pub(crate) use prioritization::{sample as sample_prioritization, with_priority};
pub(crate) use structured::sample as sample_structured;

#[cfg(test)]
mod tests {
    use tacho_core::json;
    use tacho_testkit::golden_json;

    use super::schema_filter::is_unsupported;

    #[test]
    fn schemas_are_sorted_out_as_upstream_does() {
        for case in golden_json("scenarios/structured-output/schema-filter.json").as_array().unwrap() {
            let schema = json::parse(&case["schema"].to_string()).unwrap();
            assert_eq!(is_unsupported(schema.as_dict().unwrap()), case["unsupported"].as_bool().unwrap(), "{case}");
        }
    }
}
