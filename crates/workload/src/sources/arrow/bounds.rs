//! Checks the sizes that an Arrow file claims: its reader allocates before it reads.

use std::io::{self, Read, Seek, SeekFrom};

use arrow_ipc::{Message, root_as_footer, root_as_message};

use super::MAGIC;
use crate::limits::MAX_GROUP_BYTES;

/// Marks a message in the current format; in the older one, the length came first.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Size of what follows the footer: its length, and the magic again.
const TAIL: u64 = 4 + MAGIC.len() as u64;

/// Whether all messages of a stream or file lie within it, and their decompressed size is acceptable.
pub(super) fn within(file: &mut (impl Read + Seek), len: u64, has_footer: bool) -> io::Result<bool> {
    if has_footer { file_within(file, len) } else { stream_within(file, len) }
}

fn stream_within(file: &mut (impl Read + Seek), len: u64) -> io::Result<bool> {
    let mut at = 0;
    while at < len {
        match message(file, at, len)? {
            Found::Next(next) => at = next,
            // The reader reports truncated data, with its row.
            Found::End | Found::Cut => return Ok(true),
            Found::Wrong => return Ok(false),
        }
    }
    Ok(true)
}

fn file_within(file: &mut (impl Read + Seek), len: u64) -> io::Result<bool> {
    let Some(tail) = len.checked_sub(TAIL) else { return Ok(false) };
    file.seek(SeekFrom::Start(tail))?;
    let mut length = [0; 4];
    file.read_exact(&mut length)?;
    let Some(begins) = u64::try_from(i32::from_le_bytes(length)).ok().and_then(|length| tail.checked_sub(length))
    else {
        return Ok(false);
    };
    file.seek(SeekFrom::Start(begins))?;
    let mut footer = vec![0; (tail - begins) as usize];
    file.read_exact(&mut footer)?;
    let Ok(footer) = root_as_footer(&footer) else { return Ok(false) };
    let blocks = footer.recordBatches().into_iter().chain(footer.dictionaries()).flatten();
    let mut positions = Vec::new();
    for block in blocks {
        let (at, head, body) = (block.offset(), i64::from(block.metaDataLength()), block.bodyLength());
        let end = at.checked_add(head).and_then(|end| end.checked_add(body));
        if at < 0 || head < 0 || body < 0 || end.is_none_or(|end| end as u64 > len) {
            return Ok(false);
        }
        positions.push(at as u64);
    }
    for at in positions {
        if !matches!(message(file, at, len)?, Found::Next(_)) {
            return Ok(false);
        }
    }
    Ok(true)
}

enum Found {
    /// The start of the next message.
    Next(u64),
    End,
    /// It extends beyond the file, or is not a message.
    Cut,
    /// Its decompressed size is too large.
    Wrong,
}

fn message(file: &mut (impl Read + Seek), at: u64, len: u64) -> io::Result<Found> {
    let mut word = [0; 4];
    file.seek(SeekFrom::Start(at))?;
    let mut body = at + 4;
    if !filled(file, &mut word)? {
        return Ok(Found::End);
    }
    if word == CONTINUATION {
        body += 4;
        if !filled(file, &mut word)? {
            return Ok(Found::End);
        }
    }
    let length = match u64::try_from(i32::from_le_bytes(word)) {
        Ok(0) => return Ok(Found::End),
        Ok(length) if body + length <= len => length,
        _ => return Ok(Found::Cut),
    };
    body += length;
    let mut head = vec![0; length as usize];
    file.read_exact(&mut head)?;
    let Ok(message) = root_as_message(&head) else { return Ok(Found::Cut) };
    match u64::try_from(message.bodyLength()).ok().and_then(|length| body.checked_add(length)) {
        Some(end) if end <= len && unpacked(file, &message, body, end)? <= MAX_GROUP_BYTES => Ok(Found::Next(end)),
        Some(end) if end <= len => Ok(Found::Wrong),
        _ => Ok(Found::Cut),
    }
}

/// The claimed decompressed size of a message's buffers: each starts with that length.
fn unpacked(file: &mut (impl Read + Seek), message: &Message<'_>, body: u64, end: u64) -> io::Result<u64> {
    let inner = message.header_as_dictionary_batch().and_then(|batch| batch.data());
    let Some(batch) = message.header_as_record_batch().or(inner).filter(|batch| batch.compression().is_some()) else {
        return Ok(0);
    };
    let mut sum = 0_u64;
    for buffer in batch.buffers().into_iter().flatten().filter(|buffer| buffer.length() > 0) {
        let at = u64::try_from(buffer.offset()).ok().and_then(|offset| body.checked_add(offset));
        let Some(at) = at.filter(|at| at.checked_add(8).is_some_and(|past| past <= end)) else { return Ok(u64::MAX) };
        file.seek(SeekFrom::Start(at))?;
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        // -1 means that the buffer is not compressed.
        sum = sum.saturating_add(u64::try_from(i64::from_le_bytes(length).max(0)).unwrap_or(u64::MAX));
    }
    Ok(sum)
}

/// Reads a word; returns `false` at the end of the file.
fn filled(file: &mut impl Read, word: &mut [u8; 4]) -> io::Result<bool> {
    match file.read_exact(word) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| true),
    }
}
