//! A bundle: all that supports a result, as one archive. It is a ZIP file of the request log, the result and the
//! requests in their own formats, with a manifest of their digests and, optionally, a signature of the manifest.

use std::path::Path;

use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use tacho_core::base64;
use tacho_core::json::{FieldError, Json, Value, dumps_indented, parse};

use crate::zip::{Member, Zip, ZipError, unzip};

/// The version of the format that this tacho writes.
pub const FORMAT: i64 = 1;

/// The members of a bundle and what they hold, as the documentation lists them. Names that end in `/` are directories.
pub const MEMBERS: [(&str, &str); 6] = [
    (MANIFEST, "format, version of tacho, time, and length and SHA-256 of every other member but the signature"),
    (SIGNATURE, "optional: the Ed25519 signature of manifest.json, and the public key"),
    (RESULT, "the result file: settings, metrics, intervals, warnings, client verdict, provenance"),
    (LOG, "the request log: its manifest.json, rows-N.arrows and summary.json"),
    (WORKLOAD, "the requests and their times, as --save-workload writes them"),
    (SELFCHECK, "optional: what tacho selfcheck --json measured on the client machine"),
];
/// Lists the other members.
pub const MANIFEST: &str = "manifest.json";
/// Signs the manifest.
pub const SIGNATURE: &str = "signature.json";
/// The result file.
pub const RESULT: &str = "result.json";
/// The directory of the request log.
pub const LOG: &str = "log/";
/// The requests.
pub const WORKLOAD: &str = "workload.jsonl";
/// The self-check of the client machine.
pub const SELFCHECK: &str = "selfcheck.json";

tacho_core::record! {
    /// A member of a bundle, as the manifest lists it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Listed {
        /// Its name.
        pub name: String,
        /// Its length.
        pub bytes: u64,
        /// SHA-256 of its content, in hexadecimal.
        pub sha256: String,
    }
}

impl Listed {
    fn of(member: &Member) -> Self {
        let content = &member.content;
        Listed { name: member.name.clone(), bytes: content.len() as u64, sha256: sha256(content) }
    }
}

tacho_core::record! {
    /// The manifest of a bundle.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BundleManifest {
        /// Version of the format.
        pub format: i64,
        /// The tacho that made the bundle.
        pub tacho: String,
        /// When it was made, in UTC.
        pub created: String,
        /// All members but the manifest and the signature.
        pub members: Vec<Listed>,
    }
}

tacho_core::record! {
    /// The signature of a manifest.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Signature {
        /// Always `ed25519`.
        algorithm: String,
        /// 32 bytes in Base64.
        public_key: String,
        /// 64 bytes in Base64.
        signature: String,
    }
}

/// Why a bundle or a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says it")]
pub enum BundleError {
    #[error(transparent)]
    Zip(#[from] ZipError),
    #[error("it is not a bundle: {name} {problem}")]
    Member { name: &'static str, problem: String },
    #[error("it has bundle format {found}, and this tacho reads {FORMAT}: use a newer tacho")]
    Newer { found: i64 },
    #[error("it is not an Ed25519 {kind} key in PEM form: make one with {make}")]
    Key { kind: &'static str, make: &'static str },
}

/// The SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A private key that signs bundles.
pub struct Signer(Ed25519KeyPair);

impl Signer {
    /// Reads a PKCS#8 key in PEM form. Fails if it is another key.
    pub fn from_pem(text: &str) -> Result<Self, BundleError> {
        let wrong = || BundleError::Key { kind: "private", make: "openssl genpkey -algorithm ed25519 -out key.pem" };
        let bytes = pem(text, "PRIVATE KEY").ok_or_else(wrong)?;
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&bytes).map(Signer).map_err(|_| wrong())
    }

    fn sign(&self, manifest: &[u8]) -> Signature {
        Signature {
            algorithm: "ed25519".to_owned(),
            public_key: base64::encode(self.0.public_key().as_ref()),
            signature: base64::encode(self.0.sign(manifest).as_ref()),
        }
    }
}

/// A public key that a signature is checked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// What precedes the key in its DER form (RFC 8410).
    const PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

    /// Reads a key in PEM form. Fails if it is another key.
    pub fn from_pem(text: &str) -> Result<Self, BundleError> {
        let bytes = pem(text, "PUBLIC KEY");
        let key = bytes.as_ref().and_then(|bytes| bytes.strip_prefix(&Self::PREFIX)?.try_into().ok());
        key.map(PublicKey)
            .ok_or(BundleError::Key { kind: "public", make: "openssl pkey -in key.pem -pubout -out public.pem" })
    }

    /// The key in Base64.
    pub fn text(&self) -> String {
        base64::encode(&self.0)
    }
}

/// The bytes between the lines of a PEM file.
fn pem(text: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {label}-----"))?;
    let (body, _) = rest.split_once("-----END")?;
    let digits: Vec<u8> = body.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let mut bytes = Vec::new();
    base64::decode(&digits, &mut bytes)?;
    Some(bytes)
}

/// Packs the members of a bundle with their manifest, and signs it if there is a key.
pub fn pack(members: &[Member], tacho: &str, created: &str, signer: Option<&Signer>) -> Vec<u8> {
    let listed = members.iter().map(Listed::of).collect();
    let manifest =
        BundleManifest { format: FORMAT, tacho: tacho.to_owned(), created: created.to_owned(), members: listed };
    let manifest = dumps_indented(&manifest.to_json(), 2) + "\n";
    let mut zip = Zip::default();
    zip.add(MANIFEST, manifest.as_bytes());
    if let Some(signer) = signer {
        let signature = dumps_indented(&signer.sign(manifest.as_bytes()).to_json(), 2) + "\n";
        zip.add(SIGNATURE, signature.as_bytes());
    }
    members.iter().for_each(|member| zip.add(&member.name, &member.content));
    zip.finish()
}

/// A bundle that was read.
#[derive(Debug)]
pub struct Bundle {
    /// Its manifest.
    pub manifest: BundleManifest,
    /// Members that are not as the manifest lists them, or that it does not list.
    pub altered: Vec<String>,
    /// The key that signed the manifest as it is; `None` without a signature.
    pub signed_by: Option<Result<PublicKey, &'static str>>,
    members: Vec<Member>,
}

impl Bundle {
    /// Reads a bundle. Members that were altered are noted, not refused. Fails if the archive is refused or has no
    /// manifest.
    pub fn read(bytes: &[u8]) -> Result<Self, BundleError> {
        let mut members = unzip(bytes)?;
        let wrong = |problem: String| BundleError::Member { name: MANIFEST, problem };
        let mut take = |name: &str| {
            let at = members.iter().position(|member| member.name == name)?;
            Some(members.remove(at).content)
        };
        let manifest = take(MANIFEST).ok_or_else(|| wrong("is missing".to_owned()))?;
        let signature = take(SIGNATURE);
        let stated = json(&manifest).map_err(|error| wrong(format!("is not readable: {error}")))?;
        let format = stated.get("format").and_then(Value::as_i64).unwrap_or(0);
        if format > FORMAT {
            return Err(BundleError::Newer { found: format });
        }
        let parsed = BundleManifest::from_json(&stated).map_err(|error| wrong(error.to_string()))?;
        let signed_by = signature.map(|signature| signed(&manifest, &signature));
        let altered = altered(&parsed.members, &members);
        Ok(Bundle { manifest: parsed, altered, signed_by, members })
    }

    /// The content of a member.
    pub fn member(&self, name: &str) -> Option<&[u8]> {
        self.members.iter().find(|member| member.name == name).map(|member| member.content.as_slice())
    }

    /// Whether it holds the log of the run.
    pub fn has_log(&self) -> bool {
        self.members.iter().any(|member| member.name.starts_with(LOG))
    }

    /// Writes its members below a directory. Fails if that fails.
    pub fn unpack(&self, directory: &Path) -> std::io::Result<()> {
        for member in &self.members {
            let path = directory.join(&member.name);
            std::fs::create_dir_all(path.parent().unwrap_or(directory))?;
            std::fs::write(path, &member.content)?;
        }
        Ok(())
    }
}

fn json(bytes: &[u8]) -> Result<Value, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    parse(text).map_err(|error| error.to_string())
}

/// The key that signed a manifest, or why the signature does not hold.
fn signed(manifest: &[u8], signature: &[u8]) -> Result<PublicKey, &'static str> {
    let unreadable = |_| "signature.json is not readable";
    let stated = json(signature).map_err(unreadable)?;
    let stated = Signature::from_json(&stated).map_err(|_: FieldError| "signature.json is not readable")?;
    let bytes = |text: &str| {
        let mut bytes = Vec::new();
        base64::decode(text.as_bytes(), &mut bytes).map(|()| bytes)
    };
    let key = bytes(&stated.public_key).and_then(|key| <[u8; 32]>::try_from(key).ok());
    let (Some(key), Some(signature), "ed25519") = (key, bytes(&stated.signature), stated.algorithm.as_str()) else {
        return Err("signature.json is not an Ed25519 signature");
    };
    let public = UnparsedPublicKey::new(&ED25519, key);
    public.verify(manifest, &signature).map_err(|_| "the signature is not of this manifest.json")?;
    Ok(PublicKey(key))
}

fn altered(listed: &[Listed], members: &[Member]) -> Vec<String> {
    let missing = listed.iter().filter(|one| !members.iter().any(|member| member.name == one.name));
    let missing = missing.map(|one| format!("{} is missing", one.name));
    let changed = members.iter().filter_map(|member| {
        let Some(one) = listed.iter().find(|one| one.name == member.name) else {
            return Some(format!("{} is not in the manifest", member.name));
        };
        (Listed::of(member) != *one).then(|| format!("{} has another SHA-256 than the manifest", member.name))
    });
    missing.chain(changed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout`.
    const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIKCoTFiDJu4I6BVT5SyPETEeP2siDMDmUux3GYZXhNXW\n-----END PRIVATE KEY-----\n";
    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA5yz8G1hqYu5cWQ5c5RVVfmfD+3+wmRcPqC5uSkS1R40=\n-----END PUBLIC KEY-----\n";

    fn member(name: &str, text: &str) -> Member {
        Member { name: name.to_owned(), content: text.as_bytes().to_vec() }
    }

    fn members() -> Vec<Member> {
        vec![member(RESULT, "{}"), member("log/manifest.json", "{\"a\": 1}")]
    }

    #[test]
    fn a_bundle_is_read_back_and_its_signer_is_known() {
        let signer = Signer::from_pem(PRIVATE).unwrap();
        let bundle = Bundle::read(&pack(&members(), "0.1.0", "2026-01-02T03:04:05Z", Some(&signer))).unwrap();
        assert_eq!((bundle.manifest.format, bundle.manifest.tacho.as_str()), (FORMAT, "0.1.0"));
        assert_eq!((bundle.member(RESULT), bundle.has_log()), (Some(&b"{}"[..]), true));
        assert_eq!(
            (bundle.altered, bundle.signed_by),
            (Vec::<String>::new(), Some(Ok(PublicKey::from_pem(PUBLIC).unwrap())))
        );
        let unsigned = Bundle::read(&pack(&members(), "0.1.0", "", None)).unwrap();
        assert_eq!(unsigned.signed_by, None);
        let place = tempfile::tempdir().unwrap();
        unsigned.unpack(place.path()).unwrap();
        assert_eq!(std::fs::read(place.path().join("log/manifest.json")).unwrap(), b"{\"a\": 1}");
    }

    /// A bundle whose members are replaced, as `unzip` and `zip` would do.
    fn repacked(change: impl Fn(&mut Vec<Member>)) -> Bundle {
        let signer = Signer::from_pem(PRIVATE).unwrap();
        let mut all = unzip(&pack(&members(), "0.1.0", "", Some(&signer))).unwrap();
        change(&mut all);
        let mut zip = Zip::default();
        all.iter().for_each(|member| zip.add(&member.name, &member.content));
        Bundle::read(&zip.finish()).unwrap()
    }

    #[test]
    fn changes_are_named() {
        let find = |all: &mut Vec<Member>, name: &str| all.iter().position(|member| member.name == name).unwrap();
        let edited = repacked(|all| {
            let at = find(all, RESULT);
            all[at].content = b"[]".to_vec();
        });
        assert_eq!(edited.altered, ["result.json has another SHA-256 than the manifest"]);
        let removed = repacked(|all| all.retain(|member| member.name != RESULT));
        assert_eq!(removed.altered, ["result.json is missing"]);
        let added = repacked(|all| all.push(member("more", "")));
        assert_eq!(added.altered, ["more is not in the manifest"]);
        let resigned = repacked(|all| {
            let at = find(all, MANIFEST);
            all[at].content.push(b' ');
        });
        assert_eq!(resigned.signed_by, Some(Err("the signature is not of this manifest.json")));
    }

    #[test]
    fn other_files_and_other_keys_are_refused_in_one_line() {
        let of = |members: &[Member]| {
            let mut zip = Zip::default();
            members.iter().for_each(|member| zip.add(&member.name, &member.content));
            Bundle::read(&zip.finish()).unwrap_err().to_string()
        };
        assert_eq!(of(&members()), "it is not a bundle: manifest.json is missing");
        let newer = of(&[member(MANIFEST, "{\"format\": 9}")]);
        assert_eq!(newer, "it has bundle format 9, and this tacho reads 1: use a newer tacho");
        assert!(of(&[member(MANIFEST, "{\"format\": 1}")]).contains("manifest.json"), "its fields are missing");
        assert!(Signer::from_pem(PUBLIC).is_err() && PublicKey::from_pem(PRIVATE).is_err());
        assert!(Signer::from_pem("-----BEGIN PRIVATE KEY-----\n*\n-----END PRIVATE KEY-----").is_err());
    }
}
