"use strict";
// The index of a history: filters, a chart per series of the chosen metric, and the Pareto front of the chosen axes.
(() => {
  const { Plot, node, fmt } = Draw;
  const data = JSON.parse(document.getElementById("history").textContent);
  const place = (id) => document.getElementById(id), MOST = 12, MOST_COLORS = 8;
  const byId = new Map(data.entries.map((entry) => [entry.id, entry]));
  const column = new Map(data.metrics.map(({ key }, k) => [key, k]));
  const metric = (key) => data.metrics[column.get(key)], value = (entry, key) => entry.values[column.get(key)];
  for (const entry of data.entries) {
    entry.words = [...Object.entries(entry.about).map(([key, text]) => `${key}=${text}`), entry.id].map((text) => text.toLowerCase());
  }
  const select = (host, name, options, chosen, changed) => {
    const made = host.tagName === "SELECT" ? host : node("select");
    for (const [key, text] of options) { const option = node("option", text); option.value = key; made.append(option); }
    made.value = chosen;
    made.onchange = changed;
    if (made !== host) { const label = node("label", name + " "); label.append(made); host.append(label); }
    return made;
  };
  // All words must be found in a setting, a tag or the id.
  const fits = (entry) => place("filter").value.toLowerCase().split(/\s+/).every((word) => entry.words.some((text) => text.includes(word)));
  const rows = (entry, ...more) => [["entry", entry.name], ["time", entry.time.replace("T", " ").replace("Z", "")], ...more];
  // A click on a point opens the page of its entry.
  const open = (plot, entries, at) => plot.canvas.addEventListener("click", (event) => {
    const edge = plot.canvas.getBoundingClientRect(), [x, y] = [event.clientX - edge.left, event.clientY - edge.top];
    const far = (entry) => Math.hypot(plot.px(at(entry)[0]) - x, plot.py(at(entry)[1]) - y);
    const nearest = entries.reduce((a, b) => a && far(a) <= far(b) ? a : b, null);
    if (nearest && far(nearest) < 12) location.href = `runs/${encodeURIComponent(nearest.id)}.html`;
  });

  const drawTrend = (host, { series, ids, changes }, key) => {
    const entries = ids.map((id) => byId.get(id)), number = new Map(entries.map((entry, k) => [entry, k + 1]));
    const dots = (name, kind, color, shown) => ({ name, kind, color, x: shown.map((entry) => number.get(entry)), y: shown.map((entry) => value(entry, key)), tip: (k) => rows(shown[k], [metric(key).words, fmt(value(shown[k], key))]) });
    const shown = entries.filter(fits), ends = [0, ...changes.map((change) => change.at), entries.length];
    const means = changes.length ? changes.map((change) => change.before).concat(changes[changes.length - 1].after) : [];
    const line = (mean, k) => ({ name: "mean", kind: "line", color: 1, x: [ends[k] + 0.6, ends[k + 1] + 0.4], y: [mean, mean], tip: () => [["mean", fmt(mean)], ...(k ? [["change", changes[k - 1].text]] : [])] });
    const plot = new Plot(host, {
      title: data.series[series], height: 240, x: { label: "entry", whole: true }, y: { label: metric(key).words },
      layers: [
        ...means.map(line),
        dots("entries", "points", 0, shown.filter((entry) => !entry.doubtful)),
        dots("with severe warnings", "cross", 3, shown.filter((entry) => entry.doubtful)),
        ...changes.map((change) => ({ kind: "rule", stage: true, at: change.at + 0.5, text: entries[change.at].name, x: [], y: [] })),
      ].filter((layer) => layer.kind === "rule" || layer.x.length),
    });
    open(plot, shown, (entry) => [number.get(entry), value(entry, key)]);
  };
  const trends = () => {
    const key = place("metric").value, host = place("trends");
    host.replaceChildren();
    const shown = data.trends.filter((trend) => trend.metric === key && trend.ids.some((id) => fits(byId.get(id))));
    shown.sort((a, b) => b.changes.length - a.changes.length || b.ids.length - a.ids.length);
    shown.slice(0, MOST).forEach((trend) => drawTrend(host, trend, key));
    if (shown.length > MOST) host.append(node("p", `${shown.length - MOST} more series: filter to see them.`, "note"));
    if (!shown.length) host.append(node("p", "No series of at least two entries has this metric.", "note"));
  };

  // From the best x on, each entry that is better in y than all before it.
  const front = (entries, x, y) => {
    const sign = (key) => metric(key).more ? 1 : -1, at = (entry, key) => sign(key) * value(entry, key);
    let best = -Infinity;
    return [...entries].sort((a, b) => at(b, x) - at(a, x) || at(b, y) - at(a, y)).filter((entry) => at(entry, y) > best && ((best = at(entry, y)), true));
  };
  let axes = null;
  const pareto = () => {
    const host = place("pareto");
    host.replaceChildren();
    if (!axes) { host.append(node("p", "The entries have no two metrics for axes.", "note")); return; }
    const [x, y] = [axes.x.value, axes.y.value], by = axes.color.value;
    const shown = data.entries.filter((entry) => fits(entry) && value(entry, x) !== null && value(entry, y) !== null);
    const of = (entry) => entry.about[by] ?? "–", groups = [...new Set(shown.map(of))].slice(0, MOST_COLORS), best = front(shown, x, y);
    const tip = (list) => (k) => rows(list[k], ...(by ? [[by, of(list[k])]] : []), ...[x, y].map((key) => [metric(key).words, fmt(value(list[k], key))]));
    const layer = (kind, name, color, list, more) => ({ kind, name, color, x: list.map((entry) => value(entry, x)), y: list.map((entry) => value(entry, y)), tip: tip(list), ...more });
    const colored = by ? groups.map((name, k) => layer("points", name, k, shown.filter((entry) => of(entry) === name))) : [layer("points", "entries", 0, shown)];
    if (!shown.length) { host.append(node("p", "No entry has both metrics.", "note")); return; }
    const plot = new Plot(host, {
      height: 380, x: { label: metric(x).words }, y: { label: metric(y).words },
      layers: [layer("line", "Pareto front", 3, best, { dash: [5, 3] }), ...colored],
    });
    open(plot, shown, (entry) => [value(entry, x), value(entry, y)]);
  };
  if (data.axes.length > 1) {
    const options = data.axes.map((key) => [key, metric(key).words]), host = place("axes");
    const keys = [...new Set(data.entries.flatMap((entry) => Object.keys(entry.about)))].filter((key) => {
      const count = new Set(data.entries.map((entry) => entry.about[key])).size;
      return count > 1 && count <= MOST_COLORS;
    });
    const first = ["label", "branch", "model_id", "server", "backend"].find((key) => keys.includes(key)) ?? "";
    axes = { x: select(host, "x", options, data.axes[0], pareto), y: select(host, "y", options, data.axes[1], pareto), color: select(host, "color", [["", "none"], ...keys.map((key) => [key, key])], first, pareto) };
  }
  const filtered = () => {
    for (const row of document.querySelectorAll("tr[data-id]")) row.hidden = !fits(byId.get(row.dataset.id));
    trends();
    pareto();
  };
  const inTrends = new Set(data.trends.map((trend) => trend.metric)), shown = data.metrics.filter(({ key }) => inTrends.has(key));
  select(place("metric"), "", shown.map(({ key, words }) => [key, words]), shown.length ? shown[0].key : "", trends);
  place("filter").oninput = filtered;
  filtered();
  document.documentElement.dataset.ready = "yes";
})();
