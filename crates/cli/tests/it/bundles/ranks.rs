//! Bundles of runs of several ranks: the log of rank 0 has all rows.

use tacho_core::Timestamp;

use super::forgeries::with_rows;
use super::{GRID, forged, members, verified};
use crate::ranks::{Run, server};
use crate::tacho::{stderr, stdout};

#[test]
fn the_bundle_of_two_ranks_is_checked_like_that_of_one() {
    for gather in ["stream", "files"] {
        let server = server();
        let run = Run::new(&server, 2, &["--num-prompts", "30", "--request-rate", "60", "--gather", gather]);
        let output = run.finish();
        assert!(output.status.success(), "{}", stderr(&output));
        let place = &run.place;
        let output = place.run(&["bundle", "r.json", "-o", "a.tacho.zip"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let (_, checks) = verified(place, "a.tacho.zip");
        assert!(checks.iter().all(|check| check == "client_unreliable"), "{gather}: {checks:?}");
        // Rank 1 sends every second request.
        let mut forgery = members(place);
        let later = |time: Timestamp| Timestamp(time.0 + 50_000 * GRID);
        with_rows(place, &mut forgery, true, |rows| rows[17].observation.shift(later), false);
        let (verdict, checks) = forged(place, &forgery);
        assert_eq!(verdict, "INVALID", "{checks:?}");
        let said = stdout(&place.run(&["verify", "forged.tacho.zip"]));
        assert!(said.contains("invalid[plan_differs]: request 17 was due at"), "{said}");
        let output = place.run(&["bundle", "r.rank1.rows"]);
        let said = "r.rank1.rows: it has the rows of rank 1 of 2 only: use the log of rank 0, which has all";
        assert!(output.status.code() == Some(1) && stderr(&output).contains(said), "{}", stderr(&output));
    }
}
