//! The API for exports of domains: its requests are recognised, and refused in their own form.

use millrace_wire::simpledb::{EXPORTS, export_refusal};
use millrace_wire::{Request, Response};

use crate::service::Boxed;
use crate::table::Branch;

/// Refuses.
pub(crate) struct Exports;

impl Branch for Exports {
    fn takes(&self, request: &Request<'_>) -> bool {
        EXPORTS.contains(&request.path)
    }

    fn answer<'a>(&'a self, _: &'a Request<'a>, request_id: &'a str) -> Boxed<'a, Response> {
        Box::pin(async { export_refusal(request_id) })
    }
}
