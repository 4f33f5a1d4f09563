//! Blazedit: code and a change to it, within a range of edit distances.

use tacho_core::Request;

use super::Context;
use crate::Error;
use crate::sources::table::Row;

/// The request of a row, if its distance is in range.
pub(super) fn request(context: &Context<'_>, row: &Row) -> Result<Option<Request>, Error> {
    let distance = row.number("norm_distance")?;
    let (least, greatest) = context.spec.blazedit_distance;
    if !(least <= distance && distance <= greatest) {
        return Ok(None);
    }
    let (code, change) = (row.text("code")?, row.text("change_request")?);
    let prompt = format!(
        "Given a code file, please apply the change requests and generate the new file.\n\nOriginal file:\n\
         ```python\n{code}\n```\n\nChange request:\n{change}\n\nPlease generate the new code file in the \"New file\" \
         section below."
    );
    context.text(prompt, context.output_len(4000)).map(Some)
}
