//! What one implementation signs, another verifies: ring what rsa signed and the other way round.

use ring::signature::{
    RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey,
};
use rsa::pkcs1v15::VerifyingKey;
use rsa::pkcs8::DecodePublicKey;
use rsa::signature::Verifier;
use std::sync::LazyLock;

use super::*;

/// 2026-01-01T00:00:00Z.
const NOW: Timestamp = Timestamp(1_767_225_600_000);

static SIGNER: LazyLock<Signer> = LazyLock::new(|| Signer::generate(NOW).unwrap());

/// The certificate as a receiver reads it.
fn received() -> Certificate {
    Certificate::from_pem(SIGNER.certificate_pem()).unwrap()
}

fn signature(version: SignatureVersion, text: &str) -> Vec<u8> {
    BASE64.decode(SIGNER.sign(version, text.as_bytes()).unwrap()).unwrap()
}

#[test]
fn signatures_of_version_1_are_rsa_with_sha_1() {
    let certificate = received();
    let key = certificate.tbs_certificate().subject_public_key_info();
    let key = key.subject_public_key.as_bytes().unwrap();
    let key = UnparsedPublicKey::new(&RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY, key);
    let signature = signature(SignatureVersion::V1, "a text");

    key.verify(b"a text", &signature).unwrap();
    key.verify(b"another", &signature).unwrap_err();
}

#[test]
fn signatures_of_version_2_are_rsa_with_sha_256() {
    let certificate = received();
    let spki = certificate.tbs_certificate().subject_public_key_info();
    let key = UnparsedPublicKey::new(
        &RSA_PKCS1_2048_8192_SHA256,
        spki.subject_public_key.as_bytes().unwrap(),
    );
    let signature = signature(SignatureVersion::V2, "a text");

    key.verify(b"a text", &signature).unwrap();
    let key = rsa::PublicKey::from_public_key_der(&spki.to_der().unwrap()).unwrap();
    let key = VerifyingKey::<Sha256>::new(key);
    let signature = pkcs1v15::Signature::try_from(signature.as_slice()).unwrap();
    key.verify(b"a text", &signature).unwrap();
    key.verify(b"another", &signature).unwrap_err();
}

#[test]
fn the_certificate_is_signed_by_its_own_key_and_valid_for_years() {
    let certificate = received();
    let tbs = certificate.tbs_certificate();
    let key = UnparsedPublicKey::new(
        &RSA_PKCS1_2048_8192_SHA256,
        tbs.subject_public_key_info().subject_public_key.as_bytes().unwrap(),
    );

    key.verify(&tbs.to_der().unwrap(), certificate.signature().as_bytes().unwrap()).unwrap();
    assert_eq!(tbs.issuer(), tbs.subject());
    let now = Duration::from_millis(NOW.0);
    assert_eq!(tbs.validity().not_before.to_unix_duration(), now - VALID_BEFORE);
    assert_eq!(tbs.validity().not_after.to_unix_duration(), now + VALID_FOR);
    assert_eq!(SIGNER.certificate_id().len(), 32);
}

#[test]
fn a_certificate_that_ends_after_2050_can_be_made() {
    let key = SigningKey::new(PrivateKey::from_pkcs8_pem(&SIGNER.key_pem).unwrap());
    // 2040-01-01.
    let certificate = certificate(&key, Timestamp(2_208_988_800_000)).unwrap();
    let pem = certificate.to_pem(LineEnding::LF).unwrap();
    assert_eq!(Certificate::from_pem(pem).unwrap(), certificate);
}

#[test]
fn a_signer_is_the_same_after_it_was_kept() {
    let kept = SIGNER.to_bytes();
    let again = Signer::from_bytes(&kept).unwrap();

    assert_eq!(again.to_bytes(), kept);
    assert_eq!(again.certificate_id(), SIGNER.certificate_id());
    for version in [SignatureVersion::V1, SignatureVersion::V2] {
        assert_eq!(again.sign(version, b"x").unwrap(), SIGNER.sign(version, b"x").unwrap());
    }
    assert_eq!(format!("{again:?}").matches("PRIVATE").count(), 0);
}

#[test]
fn other_bytes_are_no_signer() {
    let kept = String::from_utf8(SIGNER.to_bytes()).unwrap();
    let (key, certificate) = kept.split_at(kept.find("-----BEGIN CERT").unwrap());
    let other = PrivateKey::new(&mut SysRng, KEY_BITS).unwrap();
    let other = other.to_pkcs8_pem(LineEnding::LF).unwrap();

    for bytes in ["", key, certificate, &kept.replace("MI", "ZZ"), &[&other, certificate].concat()]
    {
        let error = Signer::from_bytes(bytes.as_bytes()).unwrap_err();
        assert!(!error.to_string().contains("BEGIN"), "{error}");
    }
    Signer::from_bytes(&[0xff, 0xfe]).unwrap_err();
}

#[tokio::test]
async fn a_key_is_made_aside_while_others_go_on() {
    let signer = Signer::generate_aside(NOW).await.unwrap();
    assert_ne!(signer.certificate_id(), SIGNER.certificate_id());
}

#[test]
fn texts_to_sign_have_their_members_in_order() {
    let notification = |subject| {
        Signed::Notification {
            message: "line 1\nline 2",
            message_id: "id",
            subject,
            timestamp: "2026-01-02T03:04:05.678Z",
            topic_arn: "arn",
        }
        .string_to_sign()
    };
    assert_eq!(
        notification(Some("s")),
        "Message\nline 1\nline 2\nMessageId\nid\nSubject\ns\n\
         Timestamp\n2026-01-02T03:04:05.678Z\nTopicArn\narn\nType\nNotification\n"
    );
    assert!(!notification(None).contains("Subject"));

    let confirmation = Confirmation {
        message: "m",
        message_id: "id",
        subscribe_url: "u",
        timestamp: "t",
        token: "k",
        topic_arn: "arn",
    };
    assert_eq!(
        Signed::SubscriptionConfirmation(confirmation).string_to_sign(),
        "Message\nm\nMessageId\nid\nSubscribeURL\nu\nTimestamp\nt\nToken\nk\nTopicArn\narn\n\
         Type\nSubscriptionConfirmation\n"
    );
    let unsubscribed = Signed::UnsubscribeConfirmation(confirmation).string_to_sign();
    assert!(unsubscribed.ends_with("Type\nUnsubscribeConfirmation\n"));
}
