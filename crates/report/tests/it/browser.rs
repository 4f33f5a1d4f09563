//! Tests of pages in a browser, if one is installed; otherwise they report that they were skipped.

use std::path::{Path, PathBuf};
use std::{io::Write, process::Command};

/// The common prologue of user scripts. They write their result to the page's body: `fine`, or the problem.
pub(crate) const STEPS: &str = r##"
addEventListener("error", (event) => { document.body.dataset.fault = String(event.message); });
const wait = (ms) => new Promise((go) => setTimeout(go, ms));
const check = (what, holds) => { if (!holds) throw new Error(what); };
const fire = (plot, name, x, y) => {
  const edge = plot.canvas.getBoundingClientRect();
  plot.canvas.dispatchEvent(new PointerEvent(name, { clientX: edge.left + x, clientY: edge.top + y, pointerId: 1, bubbles: true }));
};
const drawn = async () => {
  for (let tries = 0; !document.documentElement.dataset.ready && tries < 100; tries++) await wait(20);
  check("drawn", document.documentElement.dataset.ready === "yes");
  // A loaded machine may take a while to paint.
  const unpainted = () => typeof Draw !== "undefined" && Draw.plots.some((plot) => plot.canvas && !plot.last);
  for (let tries = 0; unpainted() && tries < 200; tries++) await wait(20);
  await wait(100);
};
const clean = () => {
  check("no script error: " + document.body.dataset.fault, !document.body.dataset.fault);
  check("nothing fetched", performance.getEntriesByType("resource").length === 0);
  check("hostile texts", !document.querySelector("img") && document.title !== "owned");
};
"##;

/// Asserts that a script found no problem.
pub(crate) fn fine(text: &str) {
    let at = text.find("data-use=\"").map_or("no answer", |at| &text[at..text.len().min(at + 200)]);
    assert!(at.starts_with("data-use=\"fine\""), "{at}");
}

/// Opens a page and asserts that it is drawn without a fault.
pub(crate) fn opens(page: &str) {
    let script = r#"drawn().then(clean).then(() => { document.body.dataset.use = "fine"; })
        .catch((problem) => { document.body.dataset.use = String(problem); });"#;
    if let Some(text) = used(page, &format!("{STEPS}{script}")) {
        fine(&text);
    }
}

/// The page after `script` ran in it; `None` without a browser.
pub(crate) fn used(page: &str, script: &str) -> Option<String> {
    let Some(browser) = browser() else {
        let _ = writeln!(std::io::stderr(), "skipped: no Chromium is installed");
        return None;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("page.html");
    std::fs::write(&path, page.replace("</body>", &format!("<script>{script}</script></body>"))).unwrap();
    // In virtual time a busy machine may not have painted yet: a real fault persists in every attempt.
    let mut text = String::new();
    for number in 0..6 {
        text = look(&browser, &directory.path().join(format!("profile{number}")), &path);
        if text.contains("data-use=\"fine\"") {
            break;
        }
    }
    Some(text)
}

fn look(browser: &Path, profile: &Path, path: &Path) -> String {
    let profile = format!("--user-data-dir={}", profile.display());
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,900", "--virtual-time-budget=20000"])
        .args([&profile, "--dump-dom"])
        .arg(format!("file://{}", path.display()))
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let directories = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&directories).flat_map(|directory| names.map(|name| directory.join(name)));
    places.find(|place| Path::is_file(place))
}
