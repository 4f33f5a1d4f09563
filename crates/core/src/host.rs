//! The client machine, as logs and results describe it.

crate::record! {
    /// A machine.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Host {
        /// Its host name.
        pub name: String,
        /// Operating system and release.
        pub system: String,
        /// Available processors.
        pub cpus: u64,
        /// The processor model; empty if unknown.
        pub cpu: String,
    }
}
