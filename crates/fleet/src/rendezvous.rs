//! Rank 0's listener, for one run or for all runs of a sweep, whose commands it distributes to the other ranks.

mod server;
mod visitors;

use std::net::{TcpListener, ToSocketAddrs};
use std::sync::Arc;

use crate::{Error, Membership, connection, coordinator::Shared};
pub(crate) use server::Server;

/// Rank 0's open listener. The other ranks stay until it is closed.
#[derive(Debug)]
pub struct Rendezvous {
    server: Arc<Server>,
}

impl Rendezvous {
    /// Listens on the address of the membership.
    pub fn open(member: &Membership) -> Result<Rendezvous, Error> {
        let tls = member.certificate.as_ref().map(connection::server).transpose()?;
        let address = format!("{}:{}", member.host, member.port);
        let failed = |source| Error::Listen { address: address.clone(), source };
        let resolved: Vec<_> = (member.host.as_str(), member.port).to_socket_addrs().map_err(failed)?.collect();
        if member.token.is_empty() && !resolved.iter().all(|address| address.ip().is_loopback()) {
            return Err(Error::NoToken);
        }
        // The name may be that of a service in front of this machine; then listen on all addresses.
        let listener = TcpListener::bind(&resolved[..])
            .or_else(|error| match member.token.is_empty() {
                true => Err(error),
                false => TcpListener::bind(("0.0.0.0", member.port)),
            })
            .map_err(failed)?;
        let server = Arc::new(Server::new(member, tls));
        server::start(listener, server.clone()).map_err(failed)?;
        Ok(Rendezvous { server })
    }

    /// Gives the other ranks the command of the next run; returns its index.
    pub fn assign(&self, command: &[String]) -> u64 {
        self.server.assign(command)
    }

    pub(crate) fn set_run(&self, run: Arc<Shared>) {
        *self.server.run.lock() = Some(run);
    }

    pub(crate) fn clear_run(&self) {
        self.server.run.lock().take();
    }

    /// Messages about connections that were rejected since the last call.
    pub(crate) fn rejections(&self) -> Vec<String> {
        std::mem::take(&mut self.server.rejected.lock().fresh)
    }

    /// A message with the number of rejected connections and the last reason.
    pub(crate) fn rejected(&self) -> Option<String> {
        let rejected = self.server.rejected.lock();
        let plural = if rejected.count == 1 { " was" } else { "s were" };
        (rejected.count > 0).then(|| format!("{} connection{plural} rejected: {}", rejected.count, rejected.last))
    }

    /// Allows the other ranks to exit, and waits briefly until they have received it.
    pub fn close(&self) {
        self.server.dismiss();
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        self.server.shut();
    }
}
