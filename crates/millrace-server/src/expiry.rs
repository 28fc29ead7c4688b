//! When a certificate ends.

use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use x509_cert::{Certificate, der::Decode};

/// With less time left, a certificate should have been renewed.
const LATE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The notAfter of a chain's first certificate, that of the server, in seconds since 1970; none if
/// there is none to be read, which is no reason not to serve the certificate.
pub(crate) fn not_after_s(chain: &[CertificateDer<'_>]) -> Option<u64> {
    let certificate = Certificate::from_der(chain.first()?).ok()?;
    Some(certificate.tbs_certificate().validity().not_after.to_unix_duration().as_secs())
}

/// Whether clients refuse a certificate that ends then, or soon will.
pub(crate) fn is_late(not_after_s: u64, now: SystemTime) -> bool {
    let end = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(not_after_s));
    end.is_some_and(|end| end.duration_since(now).map_or(true, |left| left < LATE))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    const END_S: u64 = 2_145_916_800; // 2038-01-01

    #[test]
    fn end_is_that_of_the_first_certificate() {
        let [own, authority] = [2038, 2090].map(|year| {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_after = date_time_ymd(year, 1, 1);
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
        });

        assert_eq!(not_after_s(&[own, authority]), Some(END_S));
        assert_eq!(not_after_s(&[CertificateDer::from_slice(b"0")]), None);
        assert_eq!(not_after_s(&[]), None);
    }

    #[test]
    fn a_week_before_its_end_it_is_late() {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(END_S);
        let (second, year) = (Duration::from_secs(1), Duration::from_secs(365 * 24 * 3600));

        assert!(!is_late(END_S, end - year));
        assert!(!is_late(END_S, end - LATE));
        assert!(is_late(END_S, end - LATE + second));
        assert!(is_late(END_S, end + year));
    }
}
