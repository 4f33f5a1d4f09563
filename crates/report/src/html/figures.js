// Draws the figures that a page describes, each where the page has its place.
(() => {
  const { Plot, fmt } = Draw;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  // A hint is lines of "name: value".
  const rows = (hint) => hint.split("\n").map((line) => { const at = line.indexOf(": "); return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 2)]; });
  const layer = (given) => {
    const { hints, ...made } = given;
    if (hints && hints.length) made.tip = (k) => rows(hints[k]);
    else if (given.y) made.tip = (k) => [[given.name, fmt(given.y[k]) + (given.unit || "")]];
    if (given.heads) made.head = (k) => given.heads[k];
    return made;
  };
  for (const place of document.querySelectorAll("[data-figure]")) {
    const { layers, ...options } = figures[Number(place.dataset.figure)];
    new Plot(place, { ...options, layers: layers.map(layer) });
  }
  document.documentElement.dataset.ready = "yes";
})();
