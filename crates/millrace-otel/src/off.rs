//! What remains without the feature `otel`: nothing, by the same names.

use crate::{Operation, Options, Processed, SpanTexts, StartError};

/// Makes no spans.
#[derive(Clone, Debug, Default)]
pub struct Tracer(());

/// Keeps nothing.
#[derive(Debug, Default)]
pub struct RequestSpan(());

/// Keeps nothing.
#[derive(Debug, Default)]
pub struct ProcessSpan(());

impl Tracer {
    /// # Errors
    ///
    /// [`StartError::NotBuilt`] if a collector is configured. OpenTelemetry's variables are passed
    /// over: they are often set for all programs of a machine.
    pub fn start(options: &Options, _service: &'static str) -> Result<Tracer, StartError> {
        match options.endpoint {
            Some(_) => Err(StartError::NotBuilt),
            None => Ok(Tracer(())),
        }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        false
    }

    #[inline]
    pub fn request<'h>(
        &self,
        _name: &'static str,
        _header: impl Fn(&str) -> Option<&'h str>,
    ) -> RequestSpan {
        RequestSpan(())
    }

    #[inline]
    pub fn process(&self, _queue: &str, _processed: Processed<'_>) -> ProcessSpan {
        ProcessSpan(())
    }

    pub fn close(&self) {}
}

impl ProcessSpan {
    #[inline]
    pub fn texts(&self) -> Option<SpanTexts> {
        None
    }

    #[inline]
    pub fn end(self) {}

    #[inline]
    pub fn fail(self, _error_type: &'static str, _reason: String) {}
}

impl RequestSpan {
    pub fn none() -> &'static RequestSpan {
        &RequestSpan(())
    }

    #[inline]
    pub fn is_recording(&self) -> bool {
        false
    }

    #[inline]
    pub fn rpc(&self, _service: &'static str) {}

    #[inline]
    pub fn operation(&self, _operation: Operation) {}

    #[inline]
    pub fn destination(&self, _queue: &str) {}

    #[inline]
    pub fn message_count(&self, _messages: usize) {}

    #[inline]
    pub fn message_id(&self, _id: &str) {}

    #[inline]
    pub fn link(&self, _trace_header: &str, _traceparent: Option<&str>) {}

    #[inline]
    pub fn trace_header(&self) -> Option<String> {
        None
    }

    #[inline]
    pub fn refused(&self, _code: &'static str) {}

    #[inline]
    pub fn answered(&self, _status: u16, _request_id: &str) {}
}

#[cfg(test)]
mod tests {
    use millrace_core::Url;

    use super::*;

    #[test]
    fn nothing_is_kept_and_a_collector_is_refused() {
        let wanted =
            Options { endpoint: Url::parse("http://127.0.0.1:4318").ok(), ..Options::default() };

        let sizes = size_of::<RequestSpan>() + size_of::<ProcessSpan>() + size_of::<Tracer>();
        assert_eq!(sizes, 0);
        assert!(Tracer::start(&Options::default(), "millrace").is_ok());
        assert!(matches!(Tracer::start(&wanted, "millrace"), Err(StartError::NotBuilt)));
    }
}
