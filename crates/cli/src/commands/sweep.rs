//! `tacho sweep …`: one file per subcommand.

pub(crate) mod plot;
pub(crate) mod plot_pareto;
