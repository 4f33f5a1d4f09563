//! Enums with names in files and flags. [`named!`](crate::named) declares each variant once, with its name.

/// An enum that [`named!`](crate::named) declares.
pub trait Named: Sized {
    /// The variant with this name.
    fn from_name(name: &str) -> Option<Self>;
}

/// Declares an enum whose variants have names in files. It is `Debug`, `Copy` and `Eq`.
///
/// ```
/// tacho_core::named! {
///     /// A color.
///     pub enum Color, "a color" {
///         /// Like blood.
///         Red = "red",
///         /// Like grass.
///         Green = "green",
///     }
/// }
///
/// assert_eq!((Color::Red.name(), Color::from_name("green")), ("red", Some(Color::Green)));
/// assert_eq!(Color::ALL.len(), 2);
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$about:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$about])* $variant,)*
        }

        #[allow(dead_code)]
        impl $name {
            /// All of them.
            $vis const ALL: [$name; [$($text),*].len()] = [$($name::$variant),*];
            /// Their names, in the same order.
            $vis const NAMES: [&'static str; [$($text),*].len()] = [$($text),*];

            /// Its name in files and flags.
            $vis const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }

            /// The one with this name.
            $vis fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }

        impl $crate::json::Named for $name {
            fn from_name(name: &str) -> Option<Self> {
                $name::from_name(name)
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident, $expected:literal {
            $($(#[$about:meta])* $variant:ident = $text:literal),* $(,)?
        }
    ) => {
        $crate::named! { $(#[$meta])* $vis enum $name { $($(#[$about])* $variant = $text),* } }

        impl $crate::json::Json for $name {
            fn to_json(&self) -> $crate::json::Value {
                self.name().into()
            }

            fn from_json(value: &$crate::json::Value) -> Result<Self, $crate::json::FieldError> {
                value.as_str().and_then(Self::from_name).ok_or($crate::json::FieldError::new($expected))
            }

            fn schema() -> $crate::json::Dict {
                $crate::json::typed("string")
            }
        }
    };
}
