//! Arguments of the command line, parsed so that no error quotes a URL.

use clap::{
    Parser,
    error::{ContextKind, ContextValue},
};

/// Parses the arguments of this process; ends it if they are wrong or ask for help.
pub fn parse_arguments<T: Parser>() -> T {
    T::try_parse().unwrap_or_else(|mut error| {
        hide_urls(&mut error);
        error.exit()
    })
}

/// Replaces URLs in the values that an error quotes: a URL may hold a password.
fn hide_urls(error: &mut clap::Error) {
    let is_url = |value: &ContextValue| value.to_string().contains("://");
    let urls = error.context().filter(|(_, value)| is_url(value)).map(|(kind, _)| kind);
    // The usage line holds no values.
    let urls: Vec<ContextKind> = urls.filter(|kind| *kind != ContextKind::Usage).collect();
    for kind in urls {
        error.insert(kind, ContextValue::String("a URL".to_owned()));
    }
}
