//! Who asks: region, account and sender, from the signature or the configuration.

/// The identity behind a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub region: &'a str,
    /// A signature, or the console, names the region: what a queue's URL says does not count.
    pub is_region_given: bool,
    pub account: &'a str,
    /// What messages show as their SenderId.
    pub sender_id: &'a str,
    /// Whether a signature vouches for it; otherwise nobody is refused anything.
    pub is_authenticated: bool,
}
