(() => {
  const { Plot, node, fmt } = Draw;
  const $ = (id) => document.getElementById(id), main = document.querySelector("main");
  const clock = (s) => { const t = Math.round(s), two = (n) => String(n).padStart(2, "0"); return (t >= 3600 ? Math.floor(t / 3600) + ":" : "") + two(Math.floor(t / 60) % 60) + ":" + two(t % 60); };
  const known = (v, unit = "") => v === null || v === undefined ? "–" : fmt(v) + unit;
  const x = { label: "seconds since the start", tight: true, zero: true };
  // Each layer is [name, key of the series, color, kind].
  const plot = (host, title, unit, layers) => {
    const made = new Plot(host, { title, group: "time", height: 190, x, y: { label: unit, zero: true }, layers: layers.map(([name, key, color, kind]) => ({ name, key, kind, color, x: [], y: [] })) });
    for (const layer of made.layers) { layer.head = (k) => clock(layer.x[k]); layer.tip = (k) => [[layer.name, fmt(layer.y[k]) + " " + unit]]; }
    const curves = made.layers;
    return ({ series, stages }) => {
      for (const layer of curves) { const at = series.time.map((_, k) => k).filter((k) => (series[layer.key]?.[k] ?? null) !== null); layer.x = at.map((k) => series.time[k]); layer.y = at.map((k) => series[layer.key][k]); }
      made.layers = [...curves, ...stages.map(([text, at]) => ({ kind: "rule", at, text, stage: true, shown: true, axis: "y", x: [], y: [] }))];
      made.fields.forEach(([field], k) => { field.parentElement.style.display = curves[k].x.length ? "" : "none"; });
      made.figure.hidden = !curves.some((layer) => layer.x.length);
      made.redraw();
    };
  };
  const section = (title) => { const place = node("div", undefined, "grid"); main.append(node("h2", title), place); return place; };
  const table = node("table", undefined, "facts"); table.hidden = true;
  const latency = section("Latency"); latency.before(table);
  const updates = ["TTFT", "TTFP", "TPOT", "ITL", "E2EL"].map((name) => plot(latency, name, "ms", [["p50", name + " p50", 0, "line"], ["p99", name + " p99", 1, "line"]]));
  const load = section("Load");
  updates.push(plot(load, "Requests per second", "req/s", [["achieved", "requests", 2, "line"], ["target", "target", 1, "line"]]),
    plot(load, "Output throughput", "tok/s", [["output", "tokens", 0, "area_under"]]),
    plot(load, "Concurrency", "requests", [["in flight", "in_flight", 2, "line"], ["queued", "queued", 3, "line"]]));
  const messages = node("pre", undefined, "note");
  main.append(node("h2", "Messages"), messages);
  const card = (name, value, more, bad) => { const made = node("div", undefined, "card"); made.append(node("span", name), node("b", value, bad ? "problem" : undefined)); if (more) made.append(node("small", more)); return made; };
  const row = (cells, kind) => { const made = node("tr"); cells.forEach((text, k) => made.append(node(k ? kind : "th", text, k ? "n" : undefined))); return made; };
  const status = (text, kind) => { $("status").className = "verdict" + kind; $("status").firstChild.textContent = text; };
  let last = null;
  const show = (state) => {
    last = state;
    const share = state.total ? Math.min(100, state.finished / state.total * 100) : 0;
    document.title = `${Math.floor(share)}% · ${state.model || "tacho"}`;
    $("title").textContent = state.model || "tacho";
    $("sub").textContent = [state.load, state.server].filter(Boolean).join(" · ");
    const left = state.left === null || state.over ? "" : `, about ${clock(state.left)} left`;
    status(`${[...state.outer, state.over ? state.phase + " ended" : state.phase].join(" › ")}: ${fmt(state.finished)}${state.total ? ` of ${fmt(state.total)} (${Math.floor(share)}%)` : ""} in ${clock(state.elapsed)}${left}`, state.failed ? " warn" : "");
    $("progress").value = share;
    const kinds = Object.entries(state.failures).map(([kind, count]) => `${kind} ${count}`).join(", ");
    // After the run, totals say more than its last seconds.
    const per_s = (amount) => fmt(amount / Math.max(state.elapsed, 1e-9));
    $("cards").replaceChildren(
      ...(state.over ? [card("finished", fmt(state.finished), `${per_s(state.finished)} req/s in ${clock(state.elapsed)}`), ...(state.output === undefined ? [] : [card("output", fmt(state.tokens) + " tokens", per_s(state.tokens) + " tok/s")])]
        : [card("achieved", known(state.achieved, " req/s"), state.target === null ? "mean of 10 s" : `target ${fmt(state.target)}, mean of 10 s`),
          ...(state.output === undefined ? [] : [card("output", known(state.output, " tok/s"), "mean of 10 s")])]),
      card("in flight", fmt(state.in_flight), state.waiting === null ? "" : `${fmt(state.waiting)} queued`), card("failed", fmt(state.failed), kinds, state.failed > 0),
      ...(state.late_ms === null ? [] : [card("client", state.is_late ? "LATE" : "ok", `sent p99 ${fmt(state.late_ms)} ms behind schedule`, state.is_late)]),
      ...Object.entries(state.gauges).map(([name, value]) => card(`server: ${name}`, fmt(value), state.over ? "last sample" : "")));
    const count = $("cards").childElementCount;
    $("cards").style.setProperty("--columns", [4, 5, 3].reduce((best, n) => (n - count % n) % n < (best - count % best) % best ? n : best));
    const rows = Object.entries(state.latency).filter(([, values]) => values);
    table.hidden = !rows.length;
    table.replaceChildren(row(["ms", "p50", "p90", "p99"], "th"), ...rows.map(([name, values]) => row([name, ...values.map(fmt)], "td")));
    messages.textContent = state.lines.slice(-12).join("\n") || "none";
    updates.forEach((update) => update(state));
    document.documentElement.dataset.ready = "yes";
  };
  const source = new EventSource("events" + location.search);
  source.onmessage = (event) => show(JSON.parse(event.data));
  // The page keeps what it has when the program ends.
  const report = node("a", "Open the report");
  source.addEventListener("report", (event) => { report.href = URL.createObjectURL(new Blob([JSON.parse(event.data)], { type: "text/html" })); report.target = "_blank"; });
  source.addEventListener("end", (event) => { source.close(); show(JSON.parse(event.data)); status(`Run ended after ${clock(last.elapsed)}: ${fmt(last.finished)} finished, ${fmt(last.failed)} failed. The report has the verdict; this page keeps the last state. `, " warn"); if (report.href) $("status").firstChild.append(report); });
  source.onerror = () => status(last ? "Connection lost: the program ended or cannot be reached. This page keeps the last state." : "The program cannot be reached.", " bad");
})();
