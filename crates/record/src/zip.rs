//! ZIP archives: a writer for workbooks and bundles, and a reader for bundles, which come from others and are refused
//! unless every size, name and offset is plain.

use std::collections::BTreeSet;
use std::io::{Read, Write};

use flate2::{Compression, Crc, read::DeflateDecoder, write::DeflateEncoder};

/// January 1, 1980: a constant date makes the output reproducible.
const DATE: u16 = 0x21;
/// Most members of an archive that is read.
const MAX_MEMBERS: usize = 256;
/// Most unpacked bytes of all members of an archive that is read.
const MAX_UNPACKED: u64 = 2 << 30;
/// Longest name of a member.
const MAX_NAME: usize = 200;

const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
/// Bytes of the three headers without names.
const LOCAL_BYTES: usize = 30;
const CENTRAL_BYTES: usize = 46;
const END_BYTES: usize = 22;

/// An archive that is being written: deflated members, at most four gigabytes.
#[derive(Default)]
pub struct Zip {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    members: u16,
}

impl Zip {
    /// Adds a member.
    pub fn add(&mut self, name: &str, content: &[u8]) {
        let mut crc = Crc::new();
        crc.update(content);
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::default());
        let packed = deflate.write_all(content).and_then(|()| deflate.finish());
        let packed = packed.expect("writing to memory does not fail");
        let offset = self.bytes.len() as u32;
        let mut common = Vec::new();
        // Version needed, flags (names are UTF-8), deflate, time, date.
        for half in [20_u16, 1 << 11, 8, 0, DATE] {
            common.extend(half.to_le_bytes());
        }
        for word in [crc.sum(), packed.len() as u32, content.len() as u32] {
            common.extend(word.to_le_bytes());
        }
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        self.bytes.extend(LOCAL);
        self.bytes.extend(&common);
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(&packed);
        self.directory.extend(CENTRAL);
        self.directory.extend(b"\x14\x00");
        self.directory.extend(&common);
        // No comment, first disk, no attributes.
        self.directory.extend([0; 10]);
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.members += 1;
    }

    /// The archive.
    pub fn finish(mut self) -> Vec<u8> {
        let offset = self.bytes.len() as u32;
        self.bytes.extend(&self.directory);
        self.bytes.extend(END);
        self.bytes.extend([0; 4]);
        self.bytes.extend(self.members.to_le_bytes());
        self.bytes.extend(self.members.to_le_bytes());
        self.bytes.extend((self.directory.len() as u32).to_le_bytes());
        self.bytes.extend(offset.to_le_bytes());
        self.bytes.extend([0, 0]);
        self.bytes
    }
}

/// Why an archive is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message says it")]
pub enum ZipError {
    #[error("it is not a ZIP archive, or is cut off or followed by other bytes: pass a file of tacho bundle")]
    NotAnArchive,
    #[error("it has {found} members where at most {MAX_MEMBERS} are read")]
    Members { found: usize },
    #[error("its directory is damaged")]
    Directory,
    #[error("the name {name:?} of a member is not a plain relative path")]
    Name { name: String },
    #[error("it has two members {name}")]
    Twice { name: String },
    #[error("its members unpack to more than {} MiB", MAX_UNPACKED >> 20)]
    TooLarge,
    #[error("{name} is encrypted, or packed by a method other than deflate")]
    Method { name: String },
    #[error("{name} overlaps another member or lies outside of the archive")]
    Misplaced { name: String },
    #[error("{name} is damaged: its length or checksum is wrong")]
    Damaged { name: String },
}

/// A member of an archive that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its path: relative, without `..`, with `/` between its parts.
    pub name: String,
    /// Its unpacked content.
    pub content: Vec<u8>,
}

/// The members of an archive, in the order of its directory. Fails if anything in it is not plain: an archive is read
/// whole or not at all.
pub fn unzip(bytes: &[u8]) -> Result<Vec<Member>, ZipError> {
    let entries = directory(bytes)?;
    check_places(&entries)?;
    let total = entries.iter().try_fold(0_u64, |sum, entry| sum.checked_add(entry.unpacked));
    if total.is_none_or(|total| total > MAX_UNPACKED) {
        return Err(ZipError::TooLarge);
    }
    entries.iter().map(|entry| Ok(Member { name: entry.name.clone(), content: entry.unpack(bytes)? })).collect()
}

struct Entry {
    name: String,
    method: u16,
    crc: u32,
    unpacked: u64,
    /// Where its local header begins, and its packed content ends.
    range: std::ops::Range<usize>,
    /// Where its packed content begins.
    start: usize,
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The entries of the directory, which ends the archive.
fn directory(bytes: &[u8]) -> Result<Vec<Entry>, ZipError> {
    let start = bytes.len().checked_sub(END_BYTES).ok_or(ZipError::NotAnArchive)?;
    let end = &bytes[start..];
    if !end.starts_with(END) || half(end, 20) != 0 {
        return Err(ZipError::NotAnArchive);
    }
    let count = usize::from(half(end, 10));
    let (size, offset) = (word(end, 12) as usize, word(end, 16) as usize);
    if count > MAX_MEMBERS {
        return Err(ZipError::Members { found: count });
    }
    if offset.checked_add(size) != Some(start) {
        return Err(ZipError::Directory);
    }
    let mut rest = &bytes[offset..start];
    let mut entries = Vec::new();
    let mut names = BTreeSet::new();
    for _ in 0..count {
        let (entry, length) = entry(rest, &bytes[..offset])?;
        if !names.insert(entry.name.to_lowercase()) {
            return Err(ZipError::Twice { name: entry.name });
        }
        entries.push(entry);
        rest = &rest[length..];
    }
    if rest.is_empty() { Ok(entries) } else { Err(ZipError::Directory) }
}

/// An entry of the directory, and its length there. `members` is what precedes the directory.
fn entry(bytes: &[u8], members: &[u8]) -> Result<(Entry, usize), ZipError> {
    if bytes.len() < CENTRAL_BYTES || !bytes.starts_with(CENTRAL) {
        return Err(ZipError::Directory);
    }
    let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(half(bytes, at)));
    let length = CENTRAL_BYTES + name + extra + comment;
    let named = bytes.get(CENTRAL_BYTES..CENTRAL_BYTES + name).filter(|_| bytes.len() >= length);
    let name = String::from_utf8_lossy(named.ok_or(ZipError::Directory)?).into_owned();
    if !is_plain(&name) {
        return Err(ZipError::Name { name: name.chars().take(MAX_NAME).collect() });
    }
    let (flags, method) = (half(bytes, 8), half(bytes, 10));
    if flags & 1 != 0 || ![0, 8].contains(&method) {
        return Err(ZipError::Method { name });
    }
    let [packed, unpacked, offset] = [20, 24, 42].map(|at| word(bytes, at) as usize);
    let Some(start) = content_start(members, offset, &name) else { return Err(ZipError::Misplaced { name }) };
    let end = start.checked_add(packed).filter(|end| *end <= members.len());
    let Some(end) = end else { return Err(ZipError::Misplaced { name }) };
    let (crc, unpacked) = (word(bytes, 16), unpacked as u64);
    Ok((Entry { name, method, crc, unpacked, range: offset..end, start }, length))
}

/// Where the content of a member begins, whose local header is at `offset`: it has the name again.
fn content_start(members: &[u8], offset: usize, name: &str) -> Option<usize> {
    let local = members.get(offset..).filter(|local| local.len() >= LOCAL_BYTES && local.starts_with(LOCAL))?;
    let named = LOCAL_BYTES + usize::from(half(local, 26));
    let is_same = local.get(LOCAL_BYTES..named)? == name.as_bytes();
    is_same.then(|| offset + named + usize::from(half(local, 28)))
}

/// Whether a name stays below the directory that it is unpacked into, on every system.
fn is_plain(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-+ ".contains(c);
    let part = |part: &str| !part.is_empty() && part.chars().all(plain) && !part.starts_with('.');
    name.len() <= MAX_NAME && name.split('/').all(part)
}

/// Refuses members that share bytes: a small archive could unpack to a large one many times.
fn check_places(entries: &[Entry]) -> Result<(), ZipError> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|entry| entry.range.start);
    match sorted.windows(2).find(|pair| pair[0].range.end > pair[1].range.start) {
        Some(pair) => Err(ZipError::Misplaced { name: pair[1].name.clone() }),
        None => Ok(()),
    }
}

impl Entry {
    fn unpack(&self, bytes: &[u8]) -> Result<Vec<u8>, ZipError> {
        let packed = &bytes[self.start..self.range.end];
        let mut content = Vec::new();
        let read = match self.method {
            0 => packed.take(self.unpacked + 1).read_to_end(&mut content),
            _ => DeflateDecoder::new(packed).take(self.unpacked + 1).read_to_end(&mut content),
        };
        let mut crc = Crc::new();
        crc.update(&content);
        let is_whole = read.is_ok() && content.len() as u64 == self.unpacked && crc.sum() == self.crc;
        if is_whole { Ok(content) } else { Err(ZipError::Damaged { name: self.name.clone() }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut zip = Zip::default();
        members.iter().for_each(|(name, content)| zip.add(name, content));
        zip.finish()
    }

    #[test]
    fn members_come_back() {
        let long = "x".repeat(100_000);
        let bytes = archive(&[("a.txt", b"hello"), ("b/c.xml", long.as_bytes()), ("empty", b"")]);
        let members = unzip(&bytes).unwrap();
        let found: Vec<_> = members.iter().map(|member| (member.name.as_str(), member.content.len())).collect();
        assert_eq!(found, [("a.txt", 5), ("b/c.xml", 100_000), ("empty", 0)]);
        assert_eq!(word(&bytes, 14), 0x3610_A686, "the checksum of hello");
        assert_eq!(unzip(&archive(&[])).unwrap(), []);
    }

    /// An archive of one stored member, by hand: as others write it, with extra fields and comments.
    fn by_hand(name: &str, content: &[u8], extra: [usize; 2], comment: usize) -> Vec<u8> {
        let mut crc = Crc::new();
        crc.update(content);
        let sizes = [crc.sum(), content.len() as u32, content.len() as u32].map(u32::to_le_bytes).concat();
        let halves =
            |halves: &[usize]| halves.iter().flat_map(|half| (*half as u16).to_le_bytes()).collect::<Vec<u8>>();
        let common = [halves(&[20, 1 << 11, 0, 0, 0x21]), sizes].concat();
        let local = [b"PK\x03\x04", &common[..], &halves(&[name.len(), extra[0]]), name.as_bytes()].concat();
        let member = [&local[..], &vec![9; extra[0]], content].concat();
        let lengths = halves(&[name.len(), extra[1], comment, 0, 0, 0, 0]);
        let entry = [b"PK\x01\x02\x14\x00", &common[..], &lengths, &[0; 4], name.as_bytes()].concat();
        let entry = [&entry[..], &vec![8; extra[1] + comment]].concat();
        let places = [entry.len() as u32, member.len() as u32].map(u32::to_le_bytes).concat();
        [&member[..], &entry, b"PK\x05\x06", &halves(&[0, 0, 1, 1]), &places, &[0, 0]].concat()
    }

    #[test]
    fn archives_have_the_fields_of_the_format() {
        let member = |name: &str, content: &[u8]| Member { name: name.to_owned(), content: content.to_vec() };
        for (extra, comment) in [([0, 0], 0), ([5, 0], 0), ([0, 7], 0), ([3, 4], 6)] {
            assert_eq!(unzip(&by_hand("a/b.txt", b"hello", extra, comment)), Ok(vec![member("a/b.txt", b"hello")]));
        }
        // Ours differ from it by the method, 8, the packed content, and its length.
        let (ours, theirs) = (archive(&[("a/b.txt", b"hello")]), by_hand("a/b.txt", b"hello", [0, 0], 0));
        let packed = ours.len() - theirs.len() + 5;
        let headers = |bytes: &[u8], packed: usize| {
            let mut bytes = bytes.to_vec();
            bytes.drain(37..37 + packed);
            let entry = 37;
            for at in [8, 18, entry + 10, entry + 20] {
                bytes[at] = 0;
            }
            let end = bytes.len() - 6;
            bytes[end] -= packed as u8;
            bytes
        };
        assert_eq!(headers(&ours, packed), headers(&theirs, 5));
        assert_eq!((ours[8], ours[37 + packed + 10]), (8, 8));
        let long = ["n".repeat(MAX_NAME), "n".repeat(MAX_NAME + 1)];
        let [fits, longer] = long.each_ref().map(|name| unzip(&archive(&[(name, b"x")])));
        assert_eq!(fits, Ok(vec![member(&long[0], b"x")]));
        assert_eq!(longer, Err(ZipError::Name { name: long[0].clone() }));
        let names: Vec<String> = (0..MAX_MEMBERS).map(|number| format!("m{number}")).collect();
        let most: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"x"[..])).collect();
        assert_eq!(unzip(&archive(&most)).map(|members| members.len()), Ok(MAX_MEMBERS));
    }

    #[test]
    fn names_that_leave_their_directory_are_refused() {
        let names =
            ["../a", "/etc/passwd", "a/../b", "a//b", "a\\b", "C:a", ".hidden", "a/.git", "", "a\0b", "b/", "ä"];
        for name in names {
            assert!(matches!(unzip(&archive(&[(name, b"x")])), Err(ZipError::Name { .. })), "{name:?}");
        }
        assert!(matches!(unzip(&archive(&[("a", b"1"), ("A", b"2")])), Err(ZipError::Twice { .. })));
        let many: Vec<String> = (0..=MAX_MEMBERS).map(|number| format!("m{number}")).collect();
        let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), &b""[..])).collect();
        assert_eq!(unzip(&archive(&many)), Err(ZipError::Members { found: MAX_MEMBERS + 1 }));
    }

    /// The archive of one member with another value in a field of its directory entry.
    fn with(at: usize, value: &[u8]) -> Result<Vec<Member>, ZipError> {
        let mut bytes = archive(&[("a.txt", &[7; 5000])]);
        let start = word(&bytes, bytes.len() - 6) as usize;
        bytes[start + at..start + at + value.len()].copy_from_slice(value);
        unzip(&bytes)
    }

    #[test]
    fn hostile_entries_are_refused() {
        assert!(matches!(with(8, &[1]), Err(ZipError::Method { .. })), "encrypted");
        assert!(matches!(with(10, &[99]), Err(ZipError::Method { .. })), "another method");
        assert!(matches!(with(16, &[0]), Err(ZipError::Damaged { .. })), "another checksum");
        assert!(matches!(with(20, &[255; 4]), Err(ZipError::Misplaced { .. })), "a packed size beyond the archive");
        assert!(matches!(with(24, &[255; 4]), Err(ZipError::TooLarge)), "a declared size beyond the limit");
        let limit = u32::try_from(MAX_UNPACKED).unwrap().to_le_bytes();
        assert!(matches!(with(24, &limit), Err(ZipError::Damaged { .. })), "a declared size at the limit");
        assert!(matches!(with(24, &[1, 0, 0, 0]), Err(ZipError::Damaged { .. })), "more content than declared");
        assert!(matches!(with(42, &[1]), Err(ZipError::Misplaced { .. })), "no local header there");
        assert!(matches!(with(28, &[255, 255]), Err(ZipError::Directory)), "a name beyond the directory");
        // Two entries of one member.
        let mut twice = archive(&[("a", b"hello"), ("b", b"hello")]);
        let start = word(&twice, twice.len() - 6) as usize;
        let second = start + CENTRAL_BYTES + 1;
        twice[second + 42..second + 46].fill(0);
        assert!(matches!(unzip(&twice), Err(ZipError::Misplaced { .. })));
    }

    #[test]
    fn damaged_archives_are_refused_and_never_panic() {
        let whole = archive(&[("log/rows-0.arrows", &[1; 300]), ("manifest.json", b"{}")]);
        for length in 0..whole.len() {
            assert!(unzip(&whole[..length]).is_err(), "{length}");
        }
        for at in 0..whole.len() {
            for bit in [1, 0x80] {
                let mut bytes = whole.clone();
                bytes[at] ^= bit;
                // Dates, versions and attributes do not matter; content that is read is the same.
                if let Ok(members) = unzip(&bytes) {
                    assert!(members.iter().all(|member| [300, 2].contains(&member.content.len())), "{at}");
                }
            }
        }
        let more = [&whole[..], b"x"].concat();
        assert_eq!(unzip(&more), Err(ZipError::NotAnArchive));
    }
}
