//! SentencePiece's model file: the relevant fields of its protocol buffer.

use crate::sentencepiece::Whitespace;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceKind {
    Normal,
    Unknown,
    /// Never matched in text.
    Control,
    /// Matched as a whole and never merged.
    UserDefined,
    /// Only an intermediate step to longer pieces.
    Unused,
    Byte,
}

impl PieceKind {
    fn of(number: u64) -> PieceKind {
        match number {
            2 => PieceKind::Unknown,
            3 => PieceKind::Control,
            4 => PieceKind::UserDefined,
            5 => PieceKind::Unused,
            6 => PieceKind::Byte,
            _ => PieceKind::Normal,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) score: f32,
    pub(super) kind: PieceKind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    pub(super) pieces: Vec<Piece>,
    /// Whether it is a unigram model rather than BPE.
    pub(super) unigram: bool,
    pub(super) byte_fallback: bool,
    /// Unknown, BOS and EOS: piece and ID; a negative ID means none.
    pub(super) unk: (String, i64),
    pub(super) bos: (String, i64),
    pub(super) eos: (String, i64),
    pub(super) charsmap: Vec<u8>,
    pub(super) whitespace: Whitespace,
}

enum Field<'b> {
    Number(u64),
    Fixed(u32),
    Bytes(&'b [u8]),
}

impl Model {
    /// Parses a model; `None` if the bytes are invalid.
    pub(super) fn parse(bytes: &[u8]) -> Option<Model> {
        let name = |text: &str, id| (text.to_owned(), id);
        let mut model = Model {
            pieces: Vec::new(),
            unigram: true,
            byte_fallback: false,
            unk: name("<unk>", 0),
            bos: name("<s>", 1),
            eos: name("</s>", 2),
            charsmap: Vec::new(),
            whitespace: Whitespace { add_dummy_prefix: true, remove_extra: true, escape: true },
        };
        let mut fields = Fields { bytes };
        while let Some(field) = fields.field()? {
            match field {
                (1, Field::Bytes(piece)) => model.pieces.push(Piece::parse(piece)?),
                (2, Field::Bytes(spec)) => model.read_trainer(spec)?,
                (3, Field::Bytes(spec)) => model.read_normalizer(spec)?,
                _ => {}
            }
        }
        (!model.pieces.is_empty()).then_some(model)
    }

    fn read_trainer(&mut self, bytes: &[u8]) -> Option<()> {
        let mut fields = Fields { bytes };
        while let Some(field) = fields.field()? {
            match field {
                (3, Field::Number(kind)) => self.unigram = kind == 1,
                (35, Field::Number(flag)) => self.byte_fallback = flag != 0,
                (40, Field::Number(id)) => self.unk.1 = signed(id),
                (41, Field::Number(id)) => self.bos.1 = signed(id),
                (42, Field::Number(id)) => self.eos.1 = signed(id),
                (45, Field::Bytes(text)) => self.unk.0 = utf8(text)?,
                (46, Field::Bytes(text)) => self.bos.0 = utf8(text)?,
                (47, Field::Bytes(text)) => self.eos.0 = utf8(text)?,
                _ => {}
            }
        }
        Some(())
    }

    fn read_normalizer(&mut self, bytes: &[u8]) -> Option<()> {
        let mut fields = Fields { bytes };
        while let Some(field) = fields.field()? {
            match field {
                (2, Field::Bytes(map)) => self.charsmap = map.to_vec(),
                (3, Field::Number(flag)) => self.whitespace.add_dummy_prefix = flag != 0,
                (4, Field::Number(flag)) => self.whitespace.remove_extra = flag != 0,
                (5, Field::Number(flag)) => self.whitespace.escape = flag != 0,
                _ => {}
            }
        }
        Some(())
    }
}

impl Piece {
    fn parse(bytes: &[u8]) -> Option<Piece> {
        let mut piece = Piece { text: String::new(), score: 0.0, kind: PieceKind::Normal };
        let mut fields = Fields { bytes };
        while let Some(field) = fields.field()? {
            match field {
                (1, Field::Bytes(text)) => piece.text = utf8(text)?,
                (2, Field::Fixed(bits)) => piece.score = f32::from_bits(bits),
                (3, Field::Number(kind)) => piece.kind = PieceKind::of(kind),
                _ => {}
            }
        }
        Some(piece)
    }
}

fn utf8(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().map(str::to_owned)
}

/// IDs are 32 bits wide and sign-extended.
fn signed(number: u64) -> i64 {
    i64::from(number as u32 as i32)
}

/// Iterates over the fields of a message.
struct Fields<'b> {
    bytes: &'b [u8],
}

impl<'b> Fields<'b> {
    /// The next field; `Some(None)` at the end, `None` if the bytes are not a message.
    fn field(&mut self) -> Option<Option<(u64, Field<'b>)>> {
        if self.bytes.is_empty() {
            return Some(None);
        }
        let key = self.number()?;
        let field = match key & 7 {
            0 => Field::Number(self.number()?),
            1 => {
                self.take(8)?;
                Field::Number(0)
            }
            2 => {
                let len = usize::try_from(self.number()?).ok()?;
                Field::Bytes(self.take(len)?)
            }
            5 => Field::Fixed(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            _ => return None,
        };
        Some(Some((key >> 3, field)))
    }

    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_settings_are_read() {
        let piece = [&[0x0a, 12, 0x0a, 3][..], "▁".as_bytes(), &[0x15], &(-1.5_f32).to_le_bytes(), &[0x18, 4]].concat();
        let trainer = [0x12, 15, 0x18, 2, 0x98, 0x02, 1, 0xc8, 0x02, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xc0, 0x02, 7];
        let model = Model::parse(&[&piece[..], &trainer].concat()).unwrap();
        assert_eq!(model.pieces, [Piece { text: "▁".to_owned(), score: -1.5, kind: PieceKind::UserDefined }]);
        assert!(!model.unigram && model.byte_fallback);
        assert_eq!((model.bos.1, model.unk.1, model.eos.1), (-1, 7, 2));
    }

    #[test]
    fn other_bytes_are_no_model() {
        assert_eq!(Model::parse(b""), None);
        assert_eq!(Model::parse(b"IQ== 0\nIg== 1\n"), None);
        assert_eq!(Model::parse(&[0x0a, 200, 1, 0]), None);
    }
}
