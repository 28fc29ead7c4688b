//! Base64 in both directions.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes standard base64, padded or not.
pub(crate) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    LENIENT.decode(text).ok()
}

/// Appends standard base64, padded.
pub(crate) fn append(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    let encoded_bytes = bytes.len().div_ceil(3) * 4;
    out.resize(start + encoded_bytes, 0);
    let room = out.get_mut(start..).unwrap_or_default();
    let written = STANDARD.encode_slice(bytes, room).unwrap_or(0);
    assert_eq!(written, encoded_bytes, "base64 of {} bytes", bytes.len());
}
