//! The rule about addresses, which sees what a name leads to.

use super::*;

fn options(is_allowed: fn(IpAddr) -> bool) -> TransportOptions {
    let address_check = Some(AddressCheck::new(is_allowed));
    TransportOptions { address_check, ..TransportOptions::default() }
}

#[tokio::test]
async fn an_address_that_is_not_allowed_is_never_dialled_whatever_it_is_called() {
    let server = server().await;
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    for host in ["127.0.0.1", "localhost"] {
        let endpoint = Endpoint::parse(&format!("http://{host}:{port}")).unwrap();
        let transport = Transport::new(endpoint, &options(|_| false)).unwrap();

        let error = ask(&transport).await.unwrap_err();

        assert!(
            matches!(&error, TransportError::AddressRefused { address } if address.is_loopback()),
            "{error}"
        );
        assert!(!error.is_ambiguous());
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn of_several_addresses_those_that_are_allowed_are_dialled() {
    let server = server().await;
    let endpoint = server.url().replace("127.0.0.1", "localhost");
    let endpoint = Endpoint::parse(&endpoint).unwrap();
    let transport = Transport::new(endpoint, &options(|address| address.is_ipv4())).unwrap();

    assert_eq!(ask(&transport).await.unwrap().status, 200);
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_cut_and_its_connection_is_not_used_again() {
    let server = FaultServer::start(async |_| Reply::json(500, vec![b'x'; 8 << 20])).await.unwrap();
    let answer_limit = AnswerLimit::Cut { bytes: 1000 };
    let options = TransportOptions { answer_limit, ..TransportOptions::default() };
    let transport = transport(&server, &options);

    for _ in 0..2 {
        let answer = ask(&transport).await.unwrap();
        assert_eq!((answer.status, answer.body.len() <= 1000), (500, true));
    }

    assert_eq!(server.connections(), 2);
}
