//! Where ranks meet: rank 0 listens, for one run or for all runs of a sweep, whose commands it gives to the others.

mod room;

use std::net::{TcpListener, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crate::host::Shared;
use crate::line;
use crate::{Error, Place};
pub(crate) use room::Room;

/// Rank 0 is there to be met.
#[derive(Debug)]
pub struct Meeting {
    room: Arc<Room>,
}

impl Meeting {
    /// Listens where the ranks are to meet.
    pub fn open(place: &Place) -> Result<Meeting, Error> {
        let tls = place.certificate.as_ref().map(line::server).transpose()?;
        let address = format!("{}:{}", place.host, place.port);
        let failed = |source| Error::Listen { address: address.clone(), source };
        let resolved: Vec<_> = (place.host.as_str(), place.port).to_socket_addrs().map_err(failed)?.collect();
        // The name may be one of a service in front of this machine: then all its addresses are listened on.
        let listener = TcpListener::bind(&resolved[..])
            .or_else(|error| match place.token.is_empty() {
                true => Err(error),
                false => TcpListener::bind(("0.0.0.0", place.port)),
            })
            .map_err(failed)?;
        let room = Arc::new(Room::new(place, tls));
        room::start(listener, room.clone()).map_err(failed)?;
        Ok(Meeting { room })
    }

    /// Gives the others a command to run with; its number.
    pub fn order(&self, words: &[String]) -> u64 {
        let mut orders = self.room.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.number += 1;
        orders.words = words.to_vec();
        orders.number
    }

    /// Lets ranks join a run.
    pub(crate) fn host(&self, run: Arc<Shared>) {
        *self.room.run() = Some(run);
    }

    /// Lets none join any more.
    pub(crate) fn clear(&self) {
        self.room.run().take();
    }

    /// Waits, for a while, until those that follow have heard that there is nothing more to do.
    pub fn close(&self) {
        self.room.dismiss();
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.room.over.store(true, Ordering::Release);
    }
}
