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
  const section = (title, note) => {
    const made = node("section");
    made.append(node("h2", title));
    if (note) made.append(node("p", note, "note"));
    document.querySelector("main").append(made);
    return made;
  };
  const grid = (host, name = "grid") => { const made = node("div", undefined, name); host.append(made); return made; };

  // Distributions: bars of equal width on a logarithmic axis, and the cumulative distribution.
  const SLO = facts.slo || {};
  const distribution = (host, { title, counted, slo, zeros, edges, counts, marks }) => {
    const total = counts.reduce((a, b) => a + b, zeros), ends = edges.slice(1);
    let sum = zeros;
    const shares = [zeros / total * 100, ...counts.map((n) => (sum += n) / total * 100)];
    new Plot(host, {
      title, x: { label: "ms (log scale)", log: true }, y: { label: counted, zero: true, whole: true }, right: { label: "cumulative %", range: [0, 100], zero: true },
      layers: [
        { name: counted, kind: "bars", color: 0, x: edges.slice(0, -1), ends, y: counts, head: (k) => `${fmt(edges[k])} – ${fmt(ends[k])} ms`, tip: (k) => [[counted, fmt(counts[k])], ["fraction", fmt(counts[k] / total * 100) + "%"]] },
        { name: "cumulative %", kind: "line", color: 1, axis: "right", x: edges, y: shares, tip: (k) => [["up to " + fmt(edges[k]) + " ms", fmt(shares[k]) + "%"]] },
        ...marks.map(([text, at]) => ({ kind: "rule", at, text, x: [], y: [] })),
        ...(slo ? [{ kind: "rule", at: slo, text: `SLO ${fmt(slo)} ms`, slo: true, x: [], y: [] }] : []),
      ],
    });
  };
  if (facts.distributions.length) {
    const place = grid(section("Latency distributions", "Bars: histogram. Line: cumulative distribution. Drag to zoom, double-click to reset."));
    facts.distributions.forEach((one) => distribution(place, one));
  }

  // Over time, all on one axis.
  const over = facts.over;
  if (over) {
    const host = section("Over time", "Drag to zoom all charts, double-click to reset; keys on a focused chart: + − ← → 0." + (facts.steady ? " The steady state is shaded." : "") + (facts.stages.length ? " Dashed lines mark the start of a stage." : "")), place = grid(host);
    // Charts in which nothing changes are drawn when they are asked for.
    const flat = [], VALUES = ["line", "points", "area_under"];
    const chart = (options) => {
      const values = options.layers.filter((layer) => VALUES.includes(layer.kind)).flatMap((layer) => layer.y).filter(Number.isFinite);
      const [low, high] = values.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
      if (high - low > Math.abs(high) * 0.02) new Plot(place, options);
      else flat.push([options, high]);
    };
    // The last step reaches to the run's end.
    const edges = [...over.times, over.end], step = (k) => Math.min(k, over.times.length - 1), head = (k) => `${fmt(edges[step(k)])} – ${fmt(edges[step(k) + 1])} s`;
    const x = { label: "seconds since the start", tight: true, zero: true };
    const steady = facts.steady ? [{ kind: "span", color: 2, from: facts.steady[0], to: facts.steady[1], x: [], y: [] }] : [];
    // Where stages begin; the last charts have no room for a steady state, but show them too.
    const stages = facts.stages.map(([text, at]) => ({ kind: "rule", at, text, stage: true, x: [], y: [] }));
    steady.push(...stages);
    const series = (name, key, color, more = {}) => ({ name, kind: "line", step: true, color, x: edges, y: edges.map((_, k) => over[key][step(k)]), head, tip: (k) => [[name, fmt(over[key][step(k)])]], ...more });
    if (facts.tokens && good.length) chart({ title: "Output throughput", group: "time", x, y: { label: "tok/s", zero: true }, layers: [...steady, series("output tok/s", "tokens", 0, { kind: "area_under" })] });
    chart({ title: "Requests per second", group: "time", x, y: { label: "requests/s", zero: true }, layers: [...steady, series("sent/s", "sent", 2), series("completed/s", "finished", 0), ...(bad.length ? [series("failed/s", "failed", 3)] : [])] });
    const waits = facts.paced && over.waiting.some((v) => v >= 0.05);
    chart({ title: "Requests in flight" + (waits ? " and waiting for a slot" : ""), group: "time", x, y: { label: "requests", zero: true }, layers: [...steady, series("in flight", "running", 0), ...(waits ? [series("waiting for a slot", "waiting", 1)] : [])] });
    for (const latency of over.latencies) {
      const line = (name, values, color) => ({ name, kind: "line", step: true, color, x: edges, y: edges.map((_, k) => values[step(k)] ?? NaN), head, tip: (k) => [[name, fmt(values[step(k)] ?? NaN) + " ms"]] });
      const limit = SLO[latency.name.toLowerCase()], level = limit ? [{ kind: "level", color: 3, at: limit, text: `SLO ${fmt(limit)} ms`, x: [], y: [] }] : [];
      chart({ title: `${latency.name} by time sent`, group: "time", x, y: { label: "ms", zero: true }, layers: [...steady, line("median", latency.median, 0), line(over.upper, latency.upper, 1), ...level] });
    }
    const request = (i) => [["request", String(columns.index[i])], ["sent", fmt(columns.sent[i]) + " s"], ...(facts.first ? [[facts.first, fmt(columns.ttft[i]) + " ms"]] : []), ["E2EL", fmt(columns.e2el[i]) + " ms"],
      ["prompt", fmt(columns.prompt[i]) + " tokens"], ...(facts.tokens ? [["output", fmt(columns.output[i]) + " tokens"]] : []), ...(facts.paced ? [["wait for a slot", fmt(columns.queue[i]) + " ms"]] : [])];
    const failure = (i) => [["request", String(columns.index[i])], ["sent", fmt(columns.sent[i]) + " s"], ["failed", facts.outcomes[columns.outcome[i]]]];
    const [shown, times] = facts.first ? [facts.first, columns.ttft] : ["E2EL", columns.e2el];
    const timed = good.filter((i) => times[i] > 0);
    const least = timed.reduce((low, i) => Math.min(low, times[i]), Infinity);
    if (timed.length) {
      new Plot(place, { title: (count < facts.total ? `${shown} of ${fmt(count)} of ${fmt(facts.total)} requests` : `${shown} of each request`) + (bad.length ? ", failures marked ✕" : ""), group: "time", height: 260, x, y: { label: "ms (log scale)", log: true }, layers: [...stages,
        ...(facts.groups.length ? facts.groups : [shown]).map((name, color) => {
          const some = facts.groups.length ? timed.filter((i) => columns.group[i] === color) : timed;
          return { name, kind: "points", color: color % 8, x: some.map((i) => columns.sent[i]), y: some.map((i) => times[i]), tip: (k) => request(some[k]) };
        }),
        ...(bad.length ? [{ name: "failed", kind: "cross", color: 3, x: pick("sent", bad), y: bad.map(() => least), tip: (k) => failure(bad[k]) }] : []),
      ] });
    }
    for (const set of facts.series || []) {
      const layers = set.lines.map((line, k) => ({ name: line.name, kind: "line", color: k % 8, x: line.x, y: line.y, head: (at) => fmt(line.x[at]) + " s", tip: (at) => [[line.name, fmt(line.y[at]) + (set.unit ? " " + set.unit : "")]] }));
      chart({ title: set.title, group: "time", x, y: { label: set.unit || "", zero: true }, layers: [...stages, ...layers] });
    }
    if (flat.length) {
      const fold = node("details"), charts = node("div", undefined, "grid");
      fold.append(node("summary", "Without change: " + flat.map(([options, value]) => `${options.title} (${fmt(value)})`).join(", ")), charts);
      fold.addEventListener("toggle", () => flat.splice(0).forEach(([options]) => new Plot(charts, options)));
      host.append(fold);
    }

    const pair = node("div", undefined, "grid");
    const scatter = (title, xname, xlabel, yname, ylabel) => {
      const some = good.filter((i) => columns[yname][i] > 0 && Number.isFinite(columns[xname][i]));
      const varied = new Set(some.slice(0, 5000).map((i) => columns[xname][i])).size > 1;
      if (some.length < 2 || !varied) return;
      new Plot(pair, { title, x: { label: xlabel, whole: true }, y: { label: ylabel, zero: true }, layers: [{ name: "requests", kind: "points", color: 0, x: some.map((i) => columns[xname][i]), y: some.map((i) => columns[yname][i]), tip: (k) => request(some[k]) }] });
    };
    if (facts.first) scatter(`${facts.first} against prompt length`, "prompt", "prompt tokens", "ttft", `${facts.first}, ms`);
    scatter("E2EL against output length", "output", "output tokens", "e2el", "E2EL, ms");
    if (pair.children.length) section("Latency against length", count < facts.total ? `Points are ${fmt(count)} of ${fmt(facts.total)} requests.` : "Each point is a request.").append(pair);
  }

  // The slowest requests, each as a bar of its own time.
  if (facts.slowest && facts.slowest.length) {
    const parts = [[1, "wait for a slot", facts.slowest.some((one) => one.queue > 0)], [2, facts.tokens ? "to the first token" : facts.first ? "to the first audio" : "whole response", true], [0, facts.tokens ? "gaps between tokens" : "gaps between packets", facts.first]].filter(([, , has]) => has);
    const host = section("Slowest requests", "Each bar is one request." + (facts.first ? " A stall shows as a wide segment." : ""));
    const table = node("table", undefined, "slow"), headings = node("tr");
    const cells = [["request", (one) => String(one.index)], ["sent, s", (one) => String(+one.sent.toFixed(3))], ["prompt", (one) => fmt(one.prompt)], ...(facts.tokens ? [["output", (one) => fmt(one.output)]] : []),
      ...(facts.first ? [[facts.first + ", ms", (one) => fmt(one.ttft)]] : []), ["E2EL, ms", (one) => fmt(one.e2el)], ...(facts.first ? [["longest gap, ms", (one) => fmt(one.longest)]] : [])];
    for (const text of [...cells.map(([text]) => text), "time"]) headings.append(node("th", text));
    table.append(headings);
    const longest = Math.max(...facts.slowest.map((one) => one.queue + one.e2el));
    for (const one of facts.slowest) {
      const row = node("tr");
      for (const [, value] of cells) row.append(node("td", value(one), "n"));
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
        piece(facts.first ? one.ttft : one.e2el, "--c2", 0.9);
        if (facts.first) one.gaps.forEach((ms, k) => piece(ms, "--c0", k % 2 ? 0.55 : 0.9));
      };
      Draw.plots.push({ paint });
      new ResizeObserver(paint).observe(cell);
    }
    const wrap = node("div", undefined, "wide");
    wrap.tabIndex = 0;
    wrap.append(table);
    const key = node("p", undefined, "legend");
    for (const [color, text] of parts) {
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
