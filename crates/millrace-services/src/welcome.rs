//! The page for browsers that open the port of the services: it says what the port is for and
//! where the console is.

use millrace_wire::{Request, Response, xml_text};

/// Clients of AWS never ask for HTML.
pub(crate) fn is_for_browser(request: &Request<'_>) -> bool {
    matches!(request.method, "GET" | "HEAD")
        && request.header("accept").is_some_and(|accept| accept.contains("text/html"))
}

/// The page. It runs no scripts and loads nothing.
pub(crate) fn page(console_url: Option<&str>) -> Response {
    let console = match console_url {
        Some(url) => {
            let mut escaped = Vec::new();
            xml_text(&mut escaped, url.as_bytes());
            let url = String::from_utf8_lossy(&escaped);
            format!(
                "<p>The web console is at <a href=\"{url}\">{url}</a>, an address of the machine \
                 that the server runs on.</p>"
            )
        }
        None => "<p>The web console is off; <code>millrace serve --console-listen 4567</code> \
                 turns it on.</p>"
            .to_owned(),
    };
    let body = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Millrace</title>\n<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:38em;\
         margin:15vh auto;padding:0 1.5em;color-scheme:light dark}}</style>\n</head>\n<body>\n\
         <h1>Millrace</h1>\n<p>This port serves Amazon SQS, CloudWatch and STS to programs, not \
         to browsers. Give its address to an SDK or to the AWS CLI as the endpoint, or to \
         <code>millrace --endpoint</code>.</p>\n{console}\n</body>\n</html>\n"
    );
    let mut response = Response::new(200, "text/html; charset=utf-8", body);
    response.headers.extend([
        ("Cache-Control", "no-store".to_owned()),
        (
            "Content-Security-Policy",
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'".to_owned(),
        ),
        ("X-Content-Type-Options", "nosniff".to_owned()),
    ]);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(console_url: Option<&str>) -> String {
        String::from_utf8(page(console_url).body).unwrap()
    }

    #[test]
    fn page_names_the_console_or_says_how_to_turn_it_on() {
        assert!(text(Some("http://127.0.0.1:4567")).contains("<a href=\"http://127.0.0.1:4567\">"));
        assert!(text(None).contains("--console-listen"));
    }
}
