//! The connections of one endpoint, by the servers that its requests go to: one as a rule.

use std::sync::Arc;
use std::time::Duration;

use millrace_core::Url;
use millrace_http::{
    AnswerLimit, Endpoint as Server, Spares, Transport, TransportError, TransportOptions,
};

use crate::push::Shared;

/// An idle connection is not used after that long: servers close them after half a minute or more.
const IDLE_LIMIT: Duration = Duration::from_secs(20);
/// Of an answer, its status counts; its body is for error texts and for services.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// More would not be found out sooner, and each is a thread.
const LOOK_UPS: usize = 2;
/// Servers at a time; beyond that the connections to all are closed and opened as needed.
const SERVERS_MAX: usize = 16;

/// Connections that were used lately.
#[derive(Default)]
pub(crate) struct Transports(Vec<Arc<Transport>>);

impl Transports {
    /// The connections to the server of a URL.
    pub(crate) fn to(
        &mut self,
        url: &Url,
        timeout: Duration,
        shared: &Shared,
    ) -> Result<Arc<Transport>, TransportError> {
        let server = Server::from(url);
        if let Some(known) = self.0.iter().find(|known| *known.endpoint() == server) {
            return Ok(Arc::clone(known));
        }
        let mut options = TransportOptions::default();
        options.spares = Spares::Never;
        options.lane_connections = shared.options.connections_per_endpoint;
        options.idle_limit = IDLE_LIMIT;
        // The attempt as a whole has this limit, too.
        options.connect_timeout = timeout;
        options.answer_timeout = timeout;
        options.shared_tls = Some(shared.tls()?);
        options.address_check = Some(shared.address_check.clone());
        options.look_ups = LOOK_UPS;
        options.answer_limit = AnswerLimit::Cut { bytes: ANSWER_BYTES_MAX };
        let transport = Arc::new(Transport::new(server, &options)?);
        if self.0.len() >= SERVERS_MAX {
            self.0.clear();
        }
        self.0.push(Arc::clone(&transport));
        Ok(transport)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Closes connections that no attempt uses.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
