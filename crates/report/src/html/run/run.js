(async () => {
  const { Plot, node, fmt } = Draw;
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const inflate = async (id) => {
    const element = document.getElementById(id), text = atob(element.textContent);
    element.remove();
    const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };
  // Columns of 32-bit floats, stored as planes of bytes: all lowest ones first.
  const unpack = (planes, count) => {
    const bytes = new Uint8Array(planes.length), total = planes.length / 4;
    for (let at = 0; at < total; at++) for (let p = 0; p < 4; p++) bytes[at * 4 + p] = planes[p * total + at];
    const all = new Float32Array(bytes.buffer), columns = {};
    facts.columns.forEach((name, k) => { columns[name] = all.subarray(k * count, (k + 1) * count); });
    return columns;
  };
  const count = facts.count, columns = count ? unpack(await inflate("rows"), count) : {};
  const GOOD = 0;
  const good = [], bad = [];
  for (let i = 0; i < count; i++) (columns.outcome[i] === GOOD ? good : bad).push(i);
  const pick = (name, from = good) => from.map((i) => columns[name][i]);
  const finite = (list) => list.filter((v) => Number.isFinite(v));
  const section = (title, note) => {
    const made = node("section");
    made.append(node("h2", title));
    if (note) made.append(node("p", note, "note"));
    document.querySelector("main").append(made);
    return made;
  };
  const grid = (host, name = "grid") => { const made = node("div", undefined, name); host.append(made); return made; };

  // Distributions: bars with equal widths on a logarithmic axis, and the share of requests up to each time.
  const quantile = (sorted, q) => {
    const at = (sorted.length - 1) * q, low = Math.floor(at);
    return sorted[low] + (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]) * (at - low);
  };
  const BINS = 48;
  const histogram = (sorted) => {
    const low = Math.log10(sorted[0]), high = Math.log10(sorted[sorted.length - 1]), pad = high - low < 1e-6 ? 0.02 : 0;
    const from = low - pad, width = (high - low + 2 * pad) / BINS, counts = new Array(BINS).fill(0);
    for (const v of sorted) counts[Math.min(BINS - 1, Math.floor((Math.log10(v) - from) / width))]++;
    return { x: counts.map((_, k) => 10 ** (from + k * width)), ends: counts.map((_, k) => 10 ** (from + (k + 1) * width)), counts };
  };
  const thin = (sorted) => {
    const most = 600, step = Math.max(1, sorted.length / most), x = [], y = [];
    for (let at = 0; at < sorted.length; at += step) { x.push(sorted[Math.floor(at)]); y.push((Math.floor(at) + 1) / sorted.length * 100); }
    x.push(sorted[sorted.length - 1]); y.push(100);
    return { x, y };
  };
  const RULES = [[0.5, "p50"], [0.9, "p90"], [0.99, "p99"]];
  const SLO = facts.slo || {};
  const distribution = (host, title, hist, ecdf, marks, total, what, slo) => {
    const share = (k) => `${fmt(hist.x[k])} – ${fmt(hist.ends[k])} ms`;
    new Plot(host, {
      title, x: { label: "ms (log scale)", log: true }, y: { label: what, zero: true, whole: true }, right: { label: "cumulative %", range: [0, 100], zero: true },
      layers: [
        { name: what, kind: "bars", color: 0, x: hist.x, ends: hist.ends, y: hist.counts, head: share, tip: (k) => [[what, fmt(hist.counts[k])], ["fraction", fmt(hist.counts[k] / total * 100) + "%"]] },
        { name: "cumulative %", kind: "line", color: 1, axis: "right", x: ecdf.x, y: ecdf.y, tip: (k) => [["up to " + fmt(ecdf.x[k]) + " ms", fmt(ecdf.y[k]) + "%"]] },
        ...(slo ? [["SLO", slo, true]] : []).concat(marks).map(([text, at, slo]) => ({ kind: "rule", at, text, slo, x: [], y: [] })),
      ],
    });
  };
  const ofRequests = (host, name, title) => {
    const sorted = finite(pick(name)).filter((v) => v > 0).sort((a, b) => a - b);
    if (sorted.length < 2) return;
    distribution(host, title, histogram(sorted), thin(sorted), RULES.map(([q, text]) => [text, quantile(sorted, q)]), sorted.length, "requests", SLO[name]);
  };
  const ofGaps = (host) => {
    const { edges, counts, marks } = facts.itl, total = counts.reduce((a, b) => a + b, 0);
    if (total < 2) return;
    let sum = 0;
    const ecdf = { x: [edges[0], ...edges.slice(1)], y: [0, ...counts.map((n) => (sum += n) / total * 100)] };
    distribution(host, "Inter-token latency (ITL)", { x: edges.slice(0, -1), ends: edges.slice(1), counts }, ecdf, marks, total, "gaps");
  };
  if (good.length > 1) {
    const place = grid(section("Latency distributions", "Bars: histogram. Line: cumulative distribution. Drag to zoom, double-click to reset."));
    ofRequests(place, "ttft", "Time to first token (TTFT)");
    ofRequests(place, "tpot", "Time per output token (TPOT)");
    if (facts.itl) ofGaps(place);
    ofRequests(place, "e2el", "End-to-end latency (E2EL)");
    if (facts.limited) ofRequests(place, "queue", "Wait for a concurrency slot");
  }

  // Over time, all on one axis.
  const over = facts.over;
  if (over) {
    const host = section("Over time", "Drag to zoom all charts, double-click to reset; keys on a focused chart: + − ← → 0." + (facts.steady ? " The steady state is shaded." : "")), place = grid(host, "stack");
    // The last step reaches to the run's end.
    const edges = [...over.times, over.end], step = (k) => Math.min(k, over.times.length - 1), head = (k) => `${fmt(edges[step(k)])} – ${fmt(edges[step(k) + 1])} s`;
    const x = { label: "seconds since the start", tight: true, zero: true };
    const steady = facts.steady ? [{ kind: "span", color: 2, from: facts.steady[0], to: facts.steady[1], x: [], y: [] }] : [];
    const series = (name, key, color, more = {}) => ({ name, kind: "line", step: true, color, x: edges, y: edges.map((_, k) => over[key][step(k)]), head, tip: (k) => [[name, fmt(over[key][step(k)])]], ...more });
    new Plot(place, { title: "Output throughput", group: "time", x, y: { label: "tok/s", zero: true }, layers: [...steady, series("output tok/s", "tokens", 0, { kind: "area_under" })] });
    new Plot(place, { title: "Requests per second", group: "time", x, y: { label: "requests/s", zero: true }, layers: [...steady, series("sent/s", "sent", 2), series("completed/s", "finished", 0), ...(bad.length ? [series("failed/s", "failed", 3)] : [])] });
    const waits = over.waiting.some((v) => v >= 0.05);
    new Plot(place, { title: "Requests in flight" + (waits ? " and waiting for a slot" : ""), group: "time", x, y: { label: "requests", zero: true }, layers: [...steady, series("in flight", "running", 0), ...(waits ? [series("waiting for a slot", "waiting", 1)] : [])] });
    for (const latency of over.latencies) {
      const line = (name, values, color) => ({ name, kind: "line", step: true, color, x: edges, y: edges.map((_, k) => values[step(k)] ?? NaN), head, tip: (k) => [[name, fmt(values[step(k)] ?? NaN) + " ms"]] });
      const limit = SLO[latency.name.toLowerCase()], level = limit ? [{ kind: "level", color: 3, at: limit, text: `SLO ${fmt(limit)} ms`, x: [], y: [] }] : [];
      new Plot(place, { title: `${latency.name} by time sent`, group: "time", x, y: { label: "ms", zero: true }, layers: [...steady, line("median", latency.median, 0), line(over.upper, latency.upper, 1), ...level] });
    }
    const request = (i) => [["request", String(columns.index[i])], ["sent", fmt(columns.sent[i]) + " s"], ["TTFT", fmt(columns.ttft[i]) + " ms"], ["E2EL", fmt(columns.e2el[i]) + " ms"],
      ["prompt", fmt(columns.prompt[i]) + " tokens"], ["output", fmt(columns.output[i]) + " tokens"], ["wait for a slot", fmt(columns.queue[i]) + " ms"]];
    const failure = (i) => [["request", String(columns.index[i])], ["sent", fmt(columns.sent[i]) + " s"], ["failed", facts.outcomes[columns.outcome[i]]]];
    const timed = good.filter((i) => columns.ttft[i] > 0);
    const least = timed.reduce((low, i) => Math.min(low, columns.ttft[i]), timed.length ? Infinity : 1);
    if (timed.length || bad.length) {
      new Plot(place, { title: "TTFT of each request" + (bad.length ? ", failures marked ✕" : ""), group: "time", height: 260, x, y: { label: "ms (log scale)", log: true }, layers: [
        { name: "TTFT", kind: "points", color: 0, x: timed.map((i) => columns.sent[i]), y: timed.map((i) => columns.ttft[i]), tip: (k) => request(timed[k]) },
        ...(bad.length ? [{ name: "failed", kind: "cross", color: 3, x: pick("sent", bad), y: bad.map(() => least), tip: (k) => failure(bad[k]) }] : []),
      ] });
    }
    for (const set of facts.series || []) {
      const layers = set.lines.map((line, k) => ({ name: line.name, kind: "line", color: k % 8, x: line.x, y: line.y, head: (at) => fmt(line.x[at]) + " s", tip: (at) => [[line.name, fmt(line.y[at]) + (set.unit ? " " + set.unit : "")]] }));
      new Plot(place, { title: set.title, group: "time", x, y: { label: set.unit || "", zero: true }, layers });
    }

    const pair = node("div", undefined, "grid");
    const scatter = (title, xname, xlabel, yname, ylabel) => {
      const some = good.filter((i) => columns[yname][i] > 0 && Number.isFinite(columns[xname][i]));
      const varied = new Set(some.slice(0, 5000).map((i) => columns[xname][i])).size > 1;
      if (some.length < 2 || !varied) return false;
      new Plot(pair, { title, x: { label: xlabel, whole: true }, y: { label: ylabel, zero: true }, layers: [{ name: "requests", kind: "points", color: 0, x: some.map((i) => columns[xname][i]), y: some.map((i) => columns[yname][i]), tip: (k) => request(some[k]) }] });
      return true;
    };
    [scatter("TTFT against prompt length", "prompt", "prompt tokens", "ttft", "TTFT, ms"), scatter("E2EL against output length", "output", "output tokens", "e2el", "E2EL, ms")];
    if (pair.children.length) section("Latency against length", "Each point is a request.").append(pair);
  }

  // The slowest requests, each as a bar of its own time.
  if (facts.slowest && facts.slowest.length) {
    const host = section("Slowest requests", "Each bar is one request: wait for a slot, time to first token, then the gaps between tokens. A stall shows as a wide segment.");
    const table = node("table", undefined, "slow"), headings = node("tr");
    for (const text of ["request", "sent, s", "prompt", "output", "TTFT, ms", "E2EL, ms", "longest gap, ms", ""]) headings.append(node("th", text));
    table.append(headings);
    const longest = Math.max(...facts.slowest.map((one) => one.queue + one.e2el));
    for (const one of facts.slowest) {
      const row = node("tr");
      for (const value of [String(one.index), fmt(one.sent), fmt(one.prompt), fmt(one.output), fmt(one.ttft), fmt(one.e2el), fmt(one.longest)]) row.append(node("td", value, "n"));
      const cell = node("td", undefined, "bar"), canvas = node("canvas");
      cell.append(canvas);
      row.append(cell);
      table.append(row);
      const paint = () => {
        const ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight, pen = canvas.getContext("2d");
        if (!w) return;
        canvas.width = w * ratio; canvas.height = h * ratio; pen.setTransform(ratio, 0, 0, ratio, 0, 0);
        let x = 0;
        const piece = (ms, color, alpha) => { const wide = ms / longest * w; pen.globalAlpha = alpha; pen.fillStyle = Draw.css(color); pen.fillRect(x, 2, wide, h - 4); x += wide; };
        piece(one.queue, "--c1", 0.9);
        piece(one.ttft, "--c2", 0.9);
        one.gaps.forEach((ms, k) => piece(ms, "--c0", k % 2 ? 0.55 : 0.9));
      };
      Draw.plots.push({ paint });
      new ResizeObserver(paint).observe(cell);
    }
    const wrap = node("div", undefined, "wide");
    wrap.append(table);
    const key = node("p", undefined, "legend");
    for (const [color, text] of [[1, "wait for a slot"], [2, "to the first token"], [0, "gaps between tokens"]]) {
      const item = node("span"), field = node("i");
      field.style.background = `var(--c${color})`;
      item.append(field, text);
      key.append(item);
    }
    host.append(key, wrap);
  }
  document.documentElement.dataset.ready = "yes";
})().catch((problem) => {
  document.querySelector("main").prepend(Draw.node("p", "This page could not be drawn: " + problem, "problem"));
});
