//! AWS Signature Version 4: a request carries a proof that its sender knows the secret, and never the secret itself.
//!
//! signature = HMAC(key, time + scope + SHA-256(request in canonical form)), where the key is
//! HMAC(HMAC(HMAC(HMAC("AWS4" + secret, day), region), service), "aws4_request"). A path is encoded once more than it is sent.
//!
//! Does not sign queries, nor bodies that come in pieces: no request here has them. Knows nothing of clocks.

use super::key::{Key, KeyError};
use hone_trace::Time;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use sha2::{Digest, Sha256};

/// The service of Bedrock's models.
const SERVICE: &str = "bedrock";
/// The longest name of a region.
const REGION_LEN_MAX: usize = 32;

/// A region of AWS, such as `us-east-1`. It becomes part of a host's name and can lead nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region(String);

/// The text is no region.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a region such as us-east-1")]
pub struct RegionError(String);

impl Region {
    /// Lower-case letters, digits and hyphens.
    pub fn new(text: &str) -> Result<Self, RegionError> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_region = (1..=REGION_LEN_MAX).contains(&text.len()) && text.bytes().all(is_plain);
        if is_region { Ok(Self(text.into())) } else { Err(RegionError(super::reply::shortened(text))) }
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What signs requests to AWS: there is none without a secret and a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsKey {
    id: Key,
    secret: Key,
    /// Comes with keys that were lent for a while.
    session: Option<Key>,
    region: Region,
}

/// What a signature is about.
struct Request<'a> {
    method: &'a str,
    /// As it is sent.
    path: &'a str,
    /// Names in lower case and in order, `host` and `x-amz-date` among them.
    headers: &'a [(&'a str, &'a str)],
    body: &'a [u8],
}

impl AwsKey {
    /// An access key with its secret, the session token that belongs to it where there is one, and the region it is used in.
    pub fn new(id: Key, secret: Key, session: Option<Key>, region: Region) -> Self {
        Self { id, secret, session, region }
    }

    /// The headers that prove who sends this body as JSON to this address, now.
    pub(super) fn headers(&self, url: &Url, body: &[u8], now: Time) -> Result<HeaderMap, KeyError> {
        let stamp = stamp(now);
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let mut signed = vec![("content-type", "application/json"), ("host", host.as_str()), ("x-amz-date", stamp.as_str())];
        signed.extend(self.session.as_ref().map(|session| ("x-amz-security-token", session.text())));
        let request = Request { method: "POST", path: url.path(), headers: &signed, body };
        let mut headers = HeaderMap::new();
        let mut proof = HeaderValue::try_from(self.authorization(SERVICE, &stamp, &request)).map_err(|_| KeyError)?;
        proof.set_sensitive(true);
        headers.insert(AUTHORIZATION, proof);
        headers.insert("x-amz-date", HeaderValue::try_from(stamp.as_str()).map_err(|_| KeyError)?);
        if let Some(session) = &self.session {
            headers.insert("x-amz-security-token", session.header("")?);
        }
        Ok(headers)
    }

    fn authorization(&self, service: &str, stamp: &str, request: &Request<'_>) -> String {
        let (day, region) = (stamp.split('T').next().unwrap_or_default(), self.region.as_str());
        let scope = format!("{day}/{region}/{service}/aws4_request");
        let names: Vec<&str> = request.headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let lines: String = request.headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let body = hex(&Sha256::digest(request.body));
        let canonical = format!("{}\n{}\n\n{lines}\n{names}\n{body}", request.method, encoded(request.path, b"/"));
        let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        let mut key = hmac(format!("AWS4{}", self.secret.text()).as_bytes(), day.as_bytes());
        for part in [region, service, "aws4_request"] {
            key = hmac(&key, part.as_bytes());
        }
        let signature = hex(&hmac(&key, text.as_bytes()));
        let id = self.id.text();
        format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}")
    }

    /// Takes all of it out of a text that came from outside: a wrong signature is explained with what was signed.
    pub(super) fn redact(&self, text: &str) -> String {
        let parts = [Some(&self.secret), self.session.as_ref(), Some(&self.id)];
        parts.into_iter().flatten().fold(text.to_owned(), |text, key| key.redact(&text))
    }
}

/// A time as `20150830T123600Z`.
fn stamp(now: Time) -> String {
    let text = now.to_string();
    let seconds = text.split(['.', 'Z']).next().unwrap_or_default();
    format!("{}Z", seconds.replace(['-', ':'], ""))
}

/// Encodes all but letters, digits, `-._~` and what is to be kept.
pub(super) fn encoded(text: &str, kept: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() || kept.contains(&byte) => out.push(byte.into()),
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

fn hmac(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
    const TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";

    fn key(session: Option<&str>) -> AwsKey {
        let key = |text: &str| Key::new(text).unwrap();
        AwsKey::new(key("AKIDEXAMPLE"), key(SECRET), session.map(key), Region::new("us-east-1").unwrap())
    }

    /// Cases of the test suite that AWS publishes: service `service`, 30 August 2015, 12:36:00.
    fn check(method: &str, path: &str, more: &[(&str, &str)], body: &str, expected: &str) {
        let mut headers = vec![("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];
        headers.extend(more);
        headers.sort_unstable();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let request = Request { method, path, headers: &headers, body: body.as_bytes() };
        let found = key(None).authorization("service", "20150830T123600Z", &request);
        let scope = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request";
        let names = names.join(";");
        assert_eq!(
            found,
            format!("AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={names}, Signature={expected}"),
            "{method} {path}"
        );
    }

    #[test]
    fn the_cases_that_aws_publishes() {
        // get-vanilla, post-vanilla, get-unreserved, get-utf8.
        check("GET", "/", &[], "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
        check("POST", "/", &[], "", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
        let unreserved = "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        check("GET", unreserved, &[], "", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f");
        check("GET", "/\u{1234}", &[], "", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85");
        // post-header-key-sort, post-header-value-case, post-sts-header-before, post-x-www-form-urlencoded.
        let sorted = [("my-header1", "value1")];
        check("POST", "/", &sorted, "", "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c");
        let cased = [("my-header1", "VALUE1")];
        check("POST", "/", &cased, "", "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d");
        let session = [("x-amz-security-token", TOKEN)];
        check("POST", "/", &session, "", "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead");
        let form = [("content-type", "application/x-www-form-urlencoded")];
        check("POST", "/", &form, "Param1=value1", "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a");
    }

    #[test]
    fn the_same_signature_as_botocore_makes() {
        // Version 1.43.11, asked to sign this very request.
        let region = Region::new("eu-west-1").unwrap();
        let key = AwsKey { region, ..key(Some("lent")) };
        let host = "https://bedrock-runtime.eu-west-1.amazonaws.com";
        let url = Url::parse(&format!("{host}/model/eu.anthropic.claude-sonnet-4-6-v1%3A0/converse")).unwrap();
        let headers = key.headers(&url, br#"{"messages":[]}"#, Time::from_unix_nanos(1_440_938_160_000_000_000)).unwrap();
        let proof = headers["authorization"].to_str().unwrap();
        assert!(proof.ends_with("Signature=7931d387bc4b267adac962b08b27b5b0b97c54d29d7ef1c4191689ce8bea5ad3"), "{proof}");
    }

    #[test]
    fn a_request_is_signed_as_it_is_sent() {
        let url = Url::parse("http://127.0.0.1:81/model/a%3A0/converse").unwrap();
        let now = Time::from_unix_nanos(1_440_938_160_250_000_000);
        let headers = key(Some("lent")).headers(&url, b"{}", now).unwrap();
        assert_eq!(
            (&headers["x-amz-date"], &headers["x-amz-security-token"]),
            (&"20150830T123600Z".parse().unwrap(), &"lent".parse().unwrap())
        );
        let proof = headers["authorization"].to_str().unwrap();
        assert!(proof.contains("Credential=AKIDEXAMPLE/20150830/us-east-1/bedrock/aws4_request, "), "{proof}");
        assert!(proof.contains("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token, "), "{proof}");
        assert_eq!(encoded(url.path(), b"/"), "/model/a%253A0/converse");
        // Any change of what is signed changes the signature.
        let other = |url: &str, body: &[u8]| key(Some("lent")).headers(&Url::parse(url).unwrap(), body, now).unwrap();
        assert_ne!(other(url.as_str(), b"{ }")["authorization"], headers["authorization"]);
        assert_ne!(other("http://127.0.0.1:82/model/a%3A0/converse", b"{}")["authorization"], headers["authorization"]);
    }

    #[test]
    fn nothing_prints_a_secret() {
        let key = key(Some(TOKEN));
        assert_eq!(format!("{key:?}"), r#"AwsKey { id: …, secret: …, session: Some(…), region: Region("us-east-1") }"#);
        let headers = key.headers(&Url::parse("https://h/").unwrap(), b"", Time::from_unix_nanos(0)).unwrap();
        let shown = format!("{headers:?}");
        assert!(!shown.contains("AKID") && !shown.contains(TOKEN), "{shown}");
        assert_eq!(key.redact(&format!("host:h\nx-amz-security-token:{TOKEN}\n{SECRET}")), "host:h\nx-amz-security-token:…\n…");
    }

    #[test]
    fn a_region_leads_nowhere_else() {
        assert!(Region::new("eu-central-1").is_ok());
        for wrong in ["", "us east", "x.evil.example/", "US-EAST-1", "a@b", &"a".repeat(33)] {
            assert!(Region::new(wrong).is_err(), "{wrong}");
        }
    }
}
