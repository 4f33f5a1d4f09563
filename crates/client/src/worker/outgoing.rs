//! The bytes of a request as they are sent.

use std::{borrow::Cow, sync::Arc};

use crate::sign_in::Signer;

/// An encoded request. If requests sign in, its head is shared or signed, and written when it is sent.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) head: Option<Arc<[u8]>>,
    pub(super) rest: Arc<[u8]>,
    /// Number of the credential in the head.
    pub(super) version: u64,
}

impl Outgoing {
    /// A request without a separate head.
    pub(super) fn whole(rest: Arc<[u8]>) -> Self {
        Outgoing { head: None, rest, version: 0 }
    }

    /// A request with the current credential, if it is to sign in.
    pub(super) fn signed(rest: Arc<[u8]>, signer: Option<&mut Signer>) -> Self {
        let mut request = Outgoing::whole(rest);
        if let Some(signer) = signer {
            request.head = Some(signer.head(&request.rest));
            request.version = signer.version();
        }
        request
    }

    pub(super) fn len(&self) -> usize {
        self.head.as_ref().map_or(0, |head| head.len()) + self.rest.len()
    }

    /// What is left of head and rest after `written` bytes.
    pub(super) fn unsent(&self, written: usize) -> [&[u8]; 2] {
        match &self.head {
            None => [&[], &self.rest[written..]],
            Some(head) if written < head.len() => [&head[written..], &self.rest],
            Some(head) => [&[], &self.rest[written - head.len()..]],
        }
    }

    pub(super) fn bytes(&self) -> Cow<'_, [u8]> {
        match &self.head {
            None => Cow::Borrowed(&self.rest),
            Some(head) => Cow::Owned([&head[..], &self.rest].concat()),
        }
    }
}
