//! Fields that most values lack, boxed to keep a million values small.

use std::ops::{Deref, DerefMut};

use crate::packed::Pack;

/// A type with a shared value that has none of its fields set.
pub trait Absent: PartialEq + 'static {
    /// The shared value.
    fn absent() -> &'static Self;
}

/// Rarely used fields; one pointer in size if none is set.
#[derive(Debug, Clone)]
pub struct Rare<T>(Option<Box<T>>);

impl<T: Absent> Rare<T> {
    /// Changes the fields that are set, and frees their memory if none is left.
    pub fn change(&mut self, change: impl FnOnce(&mut T)) {
        if let Some(mut fields) = self.0.take() {
            change(&mut fields);
            *self = (*fields).into();
        }
    }

    /// The fields, if any is set.
    pub fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Rare(None)
    }
}

impl<T: Absent> From<T> for Rare<T> {
    fn from(fields: T) -> Self {
        Rare((fields != *T::absent()).then(|| Box::new(fields)))
    }
}

impl<T: Absent> PartialEq for Rare<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Absent> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.get().unwrap_or(T::absent())
    }
}

impl<T: Absent + Default> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Absent + Pack> Pack for Rare<T> {
    fn pack(&self, out: &mut Vec<u8>) {
        self.0.is_some().pack(out);
        if let Some(fields) = &self.0 {
            fields.pack(out);
        }
    }

    fn unpack(from: &mut &[u8]) -> Option<Self> {
        Some(Option::<T>::unpack(from)?.map_or_else(Rare::default, Rare::from))
    }
}
