//! Objects of which a decoder needs some members: each is declared once, with its key and the function that reads it.

use tacho_core::Failure;

use super::event::{TextField, read_text};
use super::row::malformed;
use super::scan::{Cursor, Kind, NotJson, whole};

/// An object of which some members are read; the others are skipped.
pub(super) trait Members: Default {
    fn member(&mut self, cursor: &mut Cursor<'_>, key: &[u8]) -> Result<(), NotJson>;

    /// Reads the members at the cursor into this object, if there is one.
    fn update(&mut self, cursor: &mut Cursor<'_>) -> Result<(), NotJson> {
        cursor.members_if_object(|cursor, key| self.member(cursor, key))
    }

    /// Reads a text that is exactly one value; returns also its kind, and whether a count in it is impossible.
    fn read(text: &[u8]) -> Result<(Self, Kind, bool), NotJson> {
        whole(text, |cursor| {
            let (mut read, kind) = (Self::default(), cursor.kind()?);
            read.update(cursor)?;
            Ok((read, kind, cursor.met_impossible))
        })
    }
}

/// The text at the cursor without escapes, such as the type of an event; empty for any other value.
pub(super) fn read_word<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], NotJson> {
    Ok(match read_text(cursor)? {
        TextField::Text(text) => cursor.slice(text.span),
        _ => b"",
    })
}

/// Reads `what`, which must be an object; returns also whether a count in it is impossible.
pub(super) fn object<T: Members>(what: &str, text: &[u8]) -> Result<(T, bool), Failure> {
    match T::read(text) {
        Ok((read, Kind::Object, impossible)) => Ok((read, impossible)),
        Ok(_) => Err(malformed(&format!("{what} is not an object"), text)),
        Err(NotJson) => Err(malformed(&format!("{what} is not JSON"), text)),
    }
}

/// Declares a struct of members. A field without a key is set by the arms after `else`, each of which consumes a value.
macro_rules! members {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $($(#[$doc:meta])* $field_vis:vis $field:ident: $type:ty $(= $($key:literal)|+ => $read:expr)?,)*
        } $(else |$object:ident, $cursor:ident| { $($other:pat $(if $condition:expr)? => $value:expr,)* })?
    ) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        $vis struct $name { $($(#[$doc])* $field_vis $field: $type,)* }

        impl $crate::backends::members::Members for $name {
            fn member(
                &mut self,
                cursor: &mut $crate::backends::scan::Cursor<'_>,
                key: &[u8],
            ) -> Result<(), $crate::backends::scan::NotJson> {
                $(let ($object, $cursor) = (&mut *self, &mut *cursor);)?
                match key {
                    $($($($key)|+ => self.$field = $read(cursor)?,)?)*
                    $($($other $(if $condition)? => $value,)*)?
                    _ => drop(cursor.skip()?),
                }
                Ok(())
            }
        }
    };
}
pub(super) use members;
