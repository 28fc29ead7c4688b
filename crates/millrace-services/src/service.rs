//! One service as dispatch sees it: what it is called, its actions, its codec, its handler.
//!
//! A new service is a folder with a type that implements [`AwsService`], and a line where the table's
//! rows are made, in `Services::with`.

use std::pin::Pin;

use millrace_otel::RequestSpan;
use millrace_wire::protocol::{Protocol, ServiceMetadata, Target};
use millrace_wire::query::Parameters;
use millrace_wire::{ApiError, Request, Response};

use crate::authorize::{Permission, Resource};
use crate::principal::Caller;

/// A future whose type is erased.
pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A service: the columns of its row, and the steps of a request. Dispatch calls `decode`, `find`,
/// then `authorize`, then `act` and `encode`.
pub(crate) trait AwsService: Send + Sync + Sized + 'static {
    const METADATA: &'static ServiceMetadata;

    /// One row for each action that is answered.
    const ACTIONS: &'static [Action<Self>];

    /// Bytes of a request's body, its content encoding undone; without, the server's bound counts.
    const BODY_BYTES_MAX: Option<usize> = None;

    /// A request, the same for all protocols.
    type Input<'a>: Send + Sync;

    /// An answer, the same for all protocols.
    type Answer: Send;

    /// Ways in which a request names what it is about: a column of the actions.
    type Names: Copy + Send + Sync + 'static;

    /// A resource that may belong to another account.
    type Resource: Resource;

    /// The codec's first half. The input may borrow from request and parameters; if it does not, the parameters
    /// can be dropped at once: they may take ten times what they are written in.
    fn decode<'a>(
        &self,
        call: &Call<'a>,
        parameters: &'a mut Parameters<'_>,
    ) -> Result<Self::Input<'a>, ApiError>;

    /// The resource that the input names in that way; `None` if it is about the caller's own
    /// account.
    fn find(
        &self,
        names: Self::Names,
        call: &Call<'_>,
        input: &Self::Input<'_>,
    ) -> Result<Option<Self::Resource>, ApiError>;

    /// The handler, for a caller who may ask for that.
    fn act<'a>(
        &self,
        call: &Call<'a>,
        input: &Self::Input<'a>,
        resource: Option<Self::Resource>,
    ) -> impl Future<Output = Result<Self::Answer, ApiError>> + Send;

    /// The codec's second half.
    fn encode(&self, call: &Call<'_>, answer: Self::Answer) -> Response;

    /// The error for an action that is not in the table.
    fn unknown_action(target: &Target<'_>, _parameters: &Parameters<'_>) -> ApiError {
        unknown_action(target)
    }

    /// The error for a caller who may not act.
    fn denied(_action: &Action<Self>, error: ApiError) -> ApiError {
        error
    }
}

/// An action: its name, its name in policies, and how it names its resource.
pub(crate) struct Action<S: AwsService> {
    pub name: &'static str,
    pub permission: Permission,
    pub names: S::Names,
    /// Requests without a signature are answered as well: what they carry is proof enough.
    pub is_unsigned_allowed: bool,
}

/// A request whose caller is known.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    /// Its body is inflated.
    pub request: &'a Request<'a>,
    /// Its parameters are apart, so that they can be dropped.
    pub target: &'a Target<'a>,
    pub caller: &'a Caller<'a>,
    pub request_id: &'a str,
    pub span: &'a RequestSpan,
}

impl<S: AwsService> Action<S> {
    /// An action that policies may allow to other accounts.
    pub(crate) const fn new(name: &'static str, names: S::Names) -> Action<S> {
        let permission =
            Permission { service: S::METADATA.name, action: name, is_owner_only: false };
        Action { name, permission, names, is_unsigned_allowed: false }
    }

    /// An action that links ask for, which carry no signature.
    pub(crate) const fn without_signature(self) -> Action<S> {
        Action { is_unsigned_allowed: true, ..self }
    }

    /// An action on several entries, which is permitted as that on one is.
    pub(crate) const fn permitted_as(self, action: &'static str) -> Action<S> {
        let permission = Permission { action, ..self.permission };
        Action { permission, ..self }
    }

    /// An action for owners only: no policy can allow it to another account.
    pub(crate) const fn of_owners(self) -> Action<S> {
        let permission = Permission { is_owner_only: true, ..self.permission };
        Action { permission, ..self }
    }
}

/// The error for an action that the service does not have.
pub(crate) fn unknown_action(target: &Target<'_>) -> ApiError {
    match target.protocol {
        Protocol::Json | Protocol::Cbor => ApiError::unknown_operation(),
        Protocol::Query | Protocol::QueryAsJson => ApiError::invalid_action(&target.action),
    }
}
