"use strict";
(async () => {
  // By kind: the first token, three classes of gaps, the wait before sending, failures, and answers that were cut off.
  const COLORS = ["#636EFA", "#109618", "#FF7F0E", "#D62728", "#A9ADB5", "#C4209F", "#14A0B4"], WAIT = 4;
  // Where several share a pixel, the higher one is seen.
  const RANK = [2, 3, 4, 5, 1, 7, 6];
  const LEFT = 104, TOP = 10, BOTTOM = 46, BUDGET = 1500000;
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const rows = facts.counts.length, unit = facts.unit;

  const inflate = async (id) => {
    const element = document.getElementById(id);
    const text = atob(element.textContent);
    element.remove();
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  };
  const [starts, planes, packed, before, after] = await Promise.all(["starts", "ends", "classes", "waits", "tails"].map(inflate));
  const start = new Float64Array(starts.buffer), wait = new Float32Array(before.buffer), tail = new Float32Array(after.buffer);
  const ended = (r) => (facts.failed[r] ? facts.failed[r][0] : -1);

  // Ends of all segments in units after the start of their request; first[r] is where row r begins.
  const total = facts.total, ends = new Uint32Array(total), first = new Uint32Array(rows + 1);
  const kinds = new Uint8Array(total), present = COLORS.map(() => false);
  let span = 0;
  for (let r = 0, at = 0; r < rows; r++) {
    first[r] = at;
    let sum = 0;
    for (const stop = at + facts.counts[r]; at < stop; at++) {
      sum += planes[at] + planes[total + at] * 256 + planes[2 * total + at] * 65536 + planes[3 * total + at] * 16777216;
      ends[at] = sum;
      kinds[at] = (packed[at >> 2] >> ((at & 3) * 2)) & 3;
    }
    first[r + 1] = at;
    span = Math.max(span, start[r] + sum * unit + tail[r]);
    if (wait[r] > 1e-4) present[WAIT] = true;
    if (ended(r) >= 0) present[ended(r)] = true;
  }
  for (let at = 0; at < total; at++) present[kinds[at]] = true;
  span = span || 1;

  const main = document.querySelector("main"), canvas = document.getElementById("plot");
  const tip = document.getElementById("tip"), box = document.getElementById("box");
  const pen = canvas.getContext("2d");
  const everything = () => ({ x0: -span * 0.01, x1: span * 1.01, y0: 0, y1: rows });
  let view = everything();
  const shown = COLORS.map(() => true);

  const legend = document.getElementById("legend");
  const heading = document.createElement("b");
  heading.textContent = "type";
  legend.append(heading);
  facts.names.forEach((name, kind) => {
    if (!present[kind]) return;
    const button = document.createElement("button"), field = document.createElement("i");
    field.style.background = COLORS[kind];
    button.append(field, name);
    button.title = "show or hide";
    button.onclick = () => { shown[kind] = !shown[kind]; button.classList.toggle("off", !shown[kind]); redraw(); };
    legend.append(button);
  });

  const pad = (value, width) => String(value).padStart(width, "0");
  const clock = (seconds) => {
    const ms = Math.round(Math.abs(seconds) * 1000), sign = seconds < 0 && ms > 0 ? "-" : "";
    return sign + pad(Math.floor(ms / 3600000), 2) + ":" + pad(Math.floor(ms / 60000) % 60, 2) + ":" +
      pad(Math.floor(ms / 1000) % 60, 2) + "." + pad(ms % 1000, 3);
  };
  // The legend has the right margin to itself, so that it never lies on requests, unless there is no room for that.
  const right = () => (canvas.clientWidth > 640 ? legend.offsetWidth + 24 : 44);
  const area = () => ({ w: Math.max(1, canvas.clientWidth - LEFT - right()), h: Math.max(1, canvas.clientHeight - TOP - BOTTOM) });
  const byRank = [0];
  COLORS.forEach((c, kind) => { byRank[RANK[kind]] = 0xff000000 | (parseInt(c.slice(5, 7), 16) << 16) | (parseInt(c.slice(3, 5), 16) << 8) | parseInt(c.slice(1, 3), 16); });

  // The first segment of row r that ends after a number of units.
  const search = (r, units) => {
    let low = first[r], high = first[r + 1];
    while (low < high) { const mid = (low + high) >> 1; if (ends[mid] <= units) low = mid + 1; else high = mid; }
    return low;
  };

  // Rows share a line of pixels when there are too many; in each pixel the slowest class wins, so that nothing hides it.
  const paint = (quick) => {
    const ratio = window.devicePixelRatio || 1, { w, h } = area();
    const W = Math.max(1, Math.round(w * ratio)), H = Math.max(1, Math.round(h * ratio));
    const image = pen.createImageData(W, H), pixels = new Uint32Array(image.data.buffer);
    const line = new Uint8Array(W), perRow = H / (view.y1 - view.y0), scale = W / (view.x1 - view.x0);
    const from = Math.max(0, Math.floor(view.y0)), to = Math.min(rows, Math.ceil(view.y1));
    const stride = quick ? Math.max(1, Math.ceil((first[to] - first[from]) / BUDGET)) : 1;
    let top = -1, bottom = -1;
    const flush = () => {
      if (top < 0) return;
      const one = new Uint32Array(W);
      for (let x = 0; x < W; x++) { if (line[x]) { one[x] = byRank[line[x]]; line[x] = 0; } }
      for (let y = Math.max(0, top); y < Math.min(H, bottom); y++) pixels.set(one, y * W);
    };
    for (let r = from; r < to; r += stride) {
      const y = (r - view.y0) * perRow, gap = perRow >= 4 ? Math.min(perRow * 0.2, 6) : 0;
      const t = Math.floor(y + gap / 2), b = Math.max(t + 1, Math.floor(y + perRow * (perRow < 1 ? 1 : stride) - gap / 2));
      if (t !== top) { flush(); top = t; bottom = b; } else bottom = Math.max(bottom, b);
      const base = start[r], last = first[r + 1];
      const fill = (from, to, kind, least) => {
        if (!shown[kind]) return;
        const a = Math.max(0, Math.floor((from - view.x0) * scale)), b = Math.min(W, Math.max(Math.floor((to - view.x0) * scale), a + least));
        for (let px = a; px < b; px++) if (line[px] < RANK[kind]) line[px] = RANK[kind];
      };
      if (wait[r] > 1e-4) fill(base - wait[r], base, WAIT, 0);
      // A failure is seen however soon it came.
      if (ended(r) >= 0) { const end = base + (last > first[r] ? ends[last - 1] * unit : 0); if (end + tail[r] >= view.x0) fill(end, end + tail[r], ended(r), Math.ceil(4 * ratio)); }
      let at = search(r, (view.x0 - base) / unit);
      let x = ((at > first[r] ? ends[at - 1] * unit : 0) + base - view.x0) * scale;
      for (; at < last; at++) {
        const end = (ends[at] * unit + base - view.x0) * scale, kind = kinds[at];
        if (x >= W) break;
        if (shown[kind]) {
          // Segments wide enough to be seen each are set apart by a pixel.
          const stop = Math.min(W, Math.max(Math.floor(end) - (end - x >= 5 ? 1 : 0), Math.floor(x) + 1));
          for (let px = Math.max(0, Math.floor(x)); px < stop; px++) if (line[px] < RANK[kind]) line[px] = RANK[kind];
        }
        x = end;
      }
    }
    flush();
    return { image, ratio, stride };
  };

  const niceTime = (rough) => {
    const steps = [1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
    return steps.find((step) => step >= rough) || Math.ceil(rough / 86400) * 86400;
  };
  const niceCount = (rough) => {
    const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
    return Math.max(1, [1, 2, 5, 10].map((d) => d * power).find((step) => step >= rough));
  };

  const draw = (quick) => {
    const css = getComputedStyle(document.documentElement);
    const ink = css.getPropertyValue("--ink"), faint = css.getPropertyValue("--faint");
    const { image, ratio, stride } = paint(quick), { w, h } = area();
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    pen.font = "12px system-ui, sans-serif";
    pen.strokeStyle = faint;
    pen.fillStyle = ink;
    pen.lineWidth = 1;
    const xs = [], ys = [];
    const step = niceTime((view.x1 - view.x0) / Math.max(2, w / 120));
    for (let k = Math.ceil(Math.max(0, view.x0) / step); k * step <= view.x1; k++) xs.push(k * step);
    const count = niceCount((view.y1 - view.y0) / Math.max(2, h / 26));
    for (let r = Math.ceil(Math.max(0, view.y0 - 0.5) / count) * count; r < Math.min(rows, view.y1); r += count) ys.push(r);
    const px = (time) => LEFT + (time - view.x0) / (view.x1 - view.x0) * w;
    const py = (row) => TOP + (row - view.y0) / (view.y1 - view.y0) * h;
    pen.beginPath();
    for (const time of xs) { const x = Math.round(px(time)) + 0.5; pen.moveTo(x, TOP); pen.lineTo(x, TOP + h + 4); }
    pen.stroke();
    const layer = document.createElement("canvas");
    layer.width = image.width;
    layer.height = image.height;
    layer.getContext("2d").putImageData(image, 0, 0);
    pen.drawImage(layer, LEFT, TOP, w, h);
    pen.strokeStyle = ink;
    pen.strokeRect(LEFT + 0.5, TOP + 0.5, w, h);
    pen.textAlign = "center";
    // Below a millisecond the clock has no digits left to tell ticks apart.
    for (const time of xs) pen.fillText(step < 0.001 ? (time * 1000).toFixed(2) + " ms" : clock(time), px(time), TOP + h + 18);
    pen.fillText("Time", LEFT + w / 2, TOP + h + 38);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const row of ys) { const y = py(row + 0.5); if (y > TOP && y < TOP + h) pen.fillText("Req " + row, LEFT - 7, y); }
    pen.save();
    pen.translate(14, TOP + h / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText("Request ID", 0, 0);
    pen.restore();
    pen.textBaseline = "alphabetic";
    return stride > 1;
  };

  let waiting = 0, settled = 0;
  // A moving view of very many segments is drawn with some rows left out, then completed.
  const redraw = () => {
    if (waiting) return;
    waiting = requestAnimationFrame(() => {
      waiting = 0;
      clearTimeout(settled);
      if (draw(true)) settled = setTimeout(() => draw(false), 150);
    });
  };
  const bound = (low, high, from, to, least) => {
    const size = Math.min(Math.max(high - low, least), to - from);
    const start = Math.min(Math.max(low, from), to - size);
    return [start, start + size];
  };
  const look = (x0, x1, y0, y1) => {
    const all = everything();
    const [a, b] = bound(x0, x1, all.x0, all.x1, 1e-4), [c, d] = bound(y0, y1, all.y0, all.y1, Math.min(1, rows));
    view = { x0: a, x1: b, y0: c, y1: d };
    tip.hidden = true;
    redraw();
  };
  const point = (event) => {
    const edge = canvas.getBoundingClientRect(), { w, h } = area();
    const x = event.clientX - edge.left, y = event.clientY - edge.top;
    return { x, y, time: view.x0 + (x - LEFT) / w * (view.x1 - view.x0), row: view.y0 + (y - TOP) / h * (view.y1 - view.y0) };
  };

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const { x, y, time, row } = point(event), { h } = area();
    const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300)));
    const fx = x < LEFT ? 1 : factor, fy = y > TOP + h ? 1 : factor;
    look(time + (view.x0 - time) * fx, time + (view.x1 - time) * fx, row + (view.y0 - row) * fy, row + (view.y1 - row) * fy);
  }, { passive: false });

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = { ...point(event), view, boxed: event.shiftKey };
    canvas.classList.toggle("moving", !drag.boxed);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) { hover(event); return; }
    const now = point(event), { w, h } = area();
    if (drag.boxed) {
      Object.assign(box.style, { left: Math.min(now.x, drag.x) + "px", top: Math.min(now.y, drag.y) + "px", width: Math.abs(now.x - drag.x) + "px", height: Math.abs(now.y - drag.y) + "px" });
      box.hidden = false;
      return;
    }
    const dx = (now.x - drag.x) / w * (drag.view.x1 - drag.view.x0), dy = (now.y - drag.y) / h * (drag.view.y1 - drag.view.y0);
    look(drag.view.x0 - dx, drag.view.x1 - dx, drag.view.y0 - dy, drag.view.y1 - dy);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && drag.boxed) {
      const now = point(event);
      box.hidden = true;
      if (Math.abs(now.x - drag.x) > 4 && Math.abs(now.y - drag.y) > 4) {
        look(Math.min(now.time, drag.time), Math.max(now.time, drag.time), Math.min(now.row, drag.row), Math.max(now.row, drag.row));
      }
    }
    drag = null;
    canvas.classList.remove("moving");
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", () => { view = everything(); redraw(); });
  canvas.addEventListener("keydown", (event) => {
    const w = view.x1 - view.x0, moves = { "+": [0.25, -0.25], "-": [-0.5, 0.5], ArrowLeft: [-0.2, -0.2], ArrowRight: [0.2, 0.2] };
    if (event.key === "0" || event.key === "Escape") { view = everything(); redraw(); }
    else if (moves[event.key]) { look(view.x0 + w * moves[event.key][0], view.x1 + w * moves[event.key][1], view.y0, view.y1); event.preventDefault(); }
  });

  const hover = (event) => {
    const { x, y, time, row } = point(event), { w, h } = area(), r = Math.floor(row);
    tip.hidden = true;
    if (r < 0 || r >= rows || x < LEFT || x > LEFT + w || y < TOP || y > TOP + h) return;
    const units = (time - start[r]) / unit, at = search(r, units), whole = ends[first[r + 1] - 1] * unit, slack = 6 * (view.x1 - view.x0) / w;
    let from, to, kind;
    if (units < 0) { if (time < start[r] - wait[r]) return; [from, to, kind] = [-wait[r], 0, WAIT]; }
    else if (at < first[r + 1]) [from, to, kind] = [at > first[r] ? ends[at - 1] * unit : 0, ends[at] * unit, kinds[at]];
    else if (ended(r) >= 0 && time < start[r] + whole + tail[r] + slack) [from, to, kind] = [whole, whole + tail[r], ended(r)];
    else return;
    const lines = ["Type: " + facts.names[kind], "Start: " + clock(start[r] + from), "End: " + clock(start[r] + to),
      "Duration: " + (to - from).toFixed(3) + "s", "Prompt Tokens: " + facts.prompt[r], "Output Tokens: " + facts.output[r],
      "Request Start Time: " + clock(start[r]), "Request End Time: " + clock(start[r] + whole + tail[r])];
    if (wait[r] > 1e-4) lines.push("Wait for a slot: " + wait[r].toFixed(3) + "s");
    if (facts.failed[r]) lines.push("Failed: " + facts.failed[r][1]);
    if (facts.errors[r] !== undefined) lines.push("Error: " + facts.error_texts[facts.errors[r]]);
    const name = document.createElement("b");
    name.textContent = facts.places ? facts.places[r] : "Req " + r;
    tip.replaceChildren(name, "\n" + lines.join("\n"));
    tip.style.borderLeftColor = COLORS[kind];
    tip.hidden = false;
    const left = x + 16 + tip.offsetWidth > main.clientWidth ? x - 16 - tip.offsetWidth : x + 16;
    tip.style.left = Math.max(0, left) + "px";
    tip.style.top = Math.max(0, Math.min(y + 12, main.clientHeight - tip.offsetHeight - 4)) + "px";
  };

  addEventListener("beforeprint", () => { document.documentElement.classList.add("paper"); draw(false); });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("paper"); draw(false); });
  document.documentElement.dataset.ready = "yes";
  new ResizeObserver(redraw).observe(main);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
})().catch((problem) => { document.getElementById("help").textContent = "cannot draw: " + problem; });
