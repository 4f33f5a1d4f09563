"use strict";
// A small drawing library: axes, layers, legends that toggle, hover, zoom by dragging. Plots of one group share their
// horizontal view. Everything is painted on canvases in the colours of the page's theme.
const Draw = (() => {
  const NARROW = 560;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const node = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const fmt = (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const size = Math.abs(value);
    if (size >= 1e5) return value.toLocaleString("en", { maximumFractionDigits: 0 });
    if (size >= 1000) return value.toLocaleString("en", { maximumFractionDigits: 1 });
    if (size >= 100) return String(+value.toFixed(1));
    if (size >= 1 || size === 0) return String(+value.toFixed(2));
    return String(+value.toPrecision(3));
  };
  // A tick's text has the digits that tell it from its neighbours, no more.
  const tickText = (value, step) => {
    if (value === 0) return "0";
    let digits = 0;
    while (digits < 6 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) digits++;
    const size = Math.abs(value);
    if (size >= 1e6) return +(value / 1e6).toFixed(3) + "M";
    if (size >= 1e4) return +(value / 1e3).toFixed(2) + "k";
    return value.toFixed(digits);
  };
  const nice = (rough, whole) => {
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((d) => d * power).find((s) => s >= rough * 0.999);
    return whole ? Math.max(1, Math.ceil(step)) : step;
  };
  const linearTicks = (low, high, count, whole) => {
    const step = nice((high - low) / Math.max(1, count) || 1, whole), found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
    return { at: found, text: (value) => tickText(value, step) };
  };
  const logTicks = (low, high, count) => {
    const found = [], from = Math.floor(low), to = Math.ceil(high);
    const fine = (to - from) * 3 <= count * 1.5 ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil((to - from) / Math.max(1, count)));
    for (let power = from; power <= to; power += every) {
      for (const digit of fine) {
        const at = power + Math.log10(digit);
        if (at >= low - 1e-9 && at <= high + 1e-9) found.push(at);
      }
    }
    const text = (at) => { const v = 10 ** at; return v >= 1e4 ? +(v / 1e3).toPrecision(3) + "k" : String(+v.toPrecision(2)); };
    return { at: found, text };
  };

  class Axis {
    constructor(options) {
      Object.assign(this, { label: "", log: false, zero: false, whole: false }, options);
    }
    to(value) { return this.log ? Math.log10(value) : value; }
    from(place) { return this.log ? 10 ** place : place; }
    fits(value) { return Number.isFinite(value) && (!this.log || value > 0); }
    // The extent of what is shown, with room at its ends.
    fit(values) {
      let low = Infinity, high = -Infinity;
      for (const list of values) for (const value of list) {
        if (!this.fits(value)) continue;
        const at = this.to(value);
        if (at < low) low = at;
        if (at > high) high = at;
      }
      if (low > high) [low, high] = this.log ? [0, 1] : [0, 1];
      if (this.zero && !this.log) low = Math.min(0, low);
      if (low === high) { low -= this.zero ? 0 : this.log ? 0.3 : 0.5; high += this.log ? 0.3 : Math.abs(high) * 0.1 || 1; }
      const room = (high - low) * 0.04;
      return [this.zero && low === 0 ? 0 : this.tight ? low : low - room, this.tight ? high : high + room];
    }
    ticks([low, high], count) {
      return this.log ? logTicks(low, high, count) : linearTicks(low, high, count, this.whole);
    }
  }

  const groups = new Map();
  const all = [];

  class Plot {
    constructor(host, options) {
      this.options = options;
      this.x = new Axis(options.x);
      this.y = new Axis(options.y);
      this.right = options.right ? new Axis(options.right) : null;
      this.layers = options.layers.map((layer) => ({ shown: true, axis: "y", ...layer }));
      this.view = null;
      this.figure = node("figure", undefined, "plot");
      this.figure.append(node("figcaption", options.title));
      if (options.note) this.figure.append(node("p", options.note, "note"));
      this.legend();
      this.stage = node("div", undefined, "stage");
      this.stage.style.height = (options.height || 230) + "px";
      this.canvas = node("canvas");
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "img");
      this.canvas.setAttribute("aria-label", options.title);
      this.tip = node("div", undefined, "tip");
      this.tip.hidden = true;
      this.stage.append(this.canvas, this.tip);
      this.figure.append(this.stage);
      host.append(this.figure);
      this.pen = this.canvas.getContext("2d");
      this.group = options.group ? groups.get(options.group) || groups.set(options.group, []).get(options.group) : [];
      this.group.push(this);
      all.push(this);
      this.listen();
      new ResizeObserver(() => this.redraw()).observe(this.stage);
    }

    legend() {
      const named = this.layers.filter((layer) => layer.name);
      if (named.length < 2) return;
      const list = node("div", undefined, "legend");
      for (const layer of named) {
        const button = node("button"), field = node("i", undefined, layer.kind === "points" || layer.kind === "cross" ? "dot" : "");
        field.style.background = `var(--c${layer.color})`;
        button.append(field, layer.name);
        button.title = "show or hide";
        button.setAttribute("aria-pressed", "true");
        button.onclick = () => {
          layer.shown = !layer.shown;
          button.setAttribute("aria-pressed", String(layer.shown));
          this.redraw();
        };
        list.append(button);
      }
      this.figure.append(list);
    }

    shown(axis) { return this.layers.filter((layer) => layer.shown && (!axis || layer.axis === axis)); }

    area() {
      const w = this.canvas.clientWidth, h = this.canvas.clientHeight;
      const left = w < NARROW ? 48 : 60, right = this.right ? (w < NARROW ? 40 : 52) : 14;
      return { left, top: 10, w: Math.max(10, w - left - right), h: Math.max(10, h - 10 - 40) };
    }

    extents() {
      const whole = this.fullX();
      const x = this.view || whole;
      const inside = (layer) => {
        if (layer.kind === "rule") return [];
        const found = [];
        for (let i = 0; i < layer.x.length; i++) {
          const at = this.x.to(layer.x[i]);
          if (at >= x[0] && at <= x[1]) found.push(layer.y[i]);
          // A line or a step enters the view from outside.
          else if (layer.kind !== "points" && layer.kind !== "cross" && at < x[0] && i + 1 < layer.x.length && this.x.to(layer.x[i + 1]) > x[0]) found.push(layer.y[i]);
        }
        return found;
      };
      const fit = (axis, name) => axis.range ? axis.range.map((v) => axis.to(v)) : axis.fit(this.shown(name).map(inside));
      return { x, y: fit(this.y, "y"), right: this.right ? fit(this.right, "right") : null };
    }

    fullX() {
      if (this.group.length > 1) {
        const lists = this.group.flatMap((plot) => plot.layers.filter((l) => l.kind !== "rule").map((l) => l.x));
        return this.x.fit(lists);
      }
      return this.x.fit(this.layers.filter((layer) => layer.kind !== "rule").map((layer) => layer.x));
    }

    redraw() {
      if (this.waiting) return;
      this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.paint(); });
    }

    paint() {
      const { pen, canvas } = this, ratio = Math.max(1, window.devicePixelRatio || 1);
      const w = canvas.clientWidth, h = canvas.clientHeight;
      if (!w || !h) return;
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.clearRect(0, 0, w, h);
      const area = this.area(), extents = this.extents();
      this.last = { area, extents };
      this.px = (value) => area.left + (this.x.to(value) - extents.x[0]) / (extents.x[1] - extents.x[0]) * area.w;
      this.py = (value, name = "y") => {
        const [low, high] = extents[name];
        return area.top + area.h - ((name === "right" ? this.right : this.y).to(value) - low) / (high - low) * area.h;
      };
      this.frame(area, extents);
      pen.save();
      pen.beginPath();
      pen.rect(area.left, area.top - 1, area.w, area.h + 2);
      pen.clip();
      for (const layer of this.shown()) this[layer.kind](layer, area);
      pen.restore();
      this.rules(area);
      if (this.pointer) this.cross_hair(area);
    }

    frame(area, extents) {
      const { pen } = this, ink = css("--soft"), line = css("--line");
      pen.font = "11px system-ui, sans-serif";
      pen.lineWidth = 1;
      pen.fillStyle = ink;
      const xs = this.x.ticks(extents.x, area.w / 80), ys = this.y.ticks(extents.y, area.h / 42);
      pen.strokeStyle = line;
      pen.beginPath();
      const bottom = area.top + area.h;
      for (const at of ys.at) {
        const y = Math.round(bottom - (at - extents.y[0]) / (extents.y[1] - extents.y[0]) * area.h) + 0.5;
        pen.moveTo(area.left, y);
        pen.lineTo(area.left + area.w, y);
      }
      pen.stroke();
      pen.textBaseline = "middle";
      pen.textAlign = "right";
      for (const at of ys.at) pen.fillText(ys.text(at), area.left - 6, bottom - (at - extents.y[0]) / (extents.y[1] - extents.y[0]) * area.h);
      if (this.right) {
        const rights = this.right.ticks(extents.right, area.h / 42);
        pen.textAlign = "left";
        for (const at of rights.at) pen.fillText(rights.text(at), area.left + area.w + 6, bottom - (at - extents.right[0]) / (extents.right[1] - extents.right[0]) * area.h);
      }
      pen.textBaseline = "top";
      pen.textAlign = "center";
      let end = -Infinity;
      for (const at of xs.at) {
        const x = area.left + (at - extents.x[0]) / (extents.x[1] - extents.x[0]) * area.w, text = xs.text(at), half = pen.measureText(text).width / 2;
        if (x - half < end + 6) continue;
        end = x + half;
        pen.fillText(text, x, bottom + 6);
      }
      pen.fillText(this.x.label, area.left + area.w / 2, bottom + 22);
      pen.strokeStyle = css("--soft");
      pen.beginPath();
      pen.moveTo(area.left, bottom + 0.5);
      pen.lineTo(area.left + area.w, bottom + 0.5);
      pen.stroke();
      pen.save();
      pen.translate(11, area.top + area.h / 2);
      pen.rotate(-Math.PI / 2);
      pen.textBaseline = "middle";
      pen.fillText(this.y.label, 0, 0);
      pen.restore();
      if (this.right) {
        pen.save();
        pen.translate(area.left + area.w + (this.canvas.clientWidth - area.left - area.w) - 7, area.top + area.h / 2);
        pen.rotate(Math.PI / 2);
        pen.textBaseline = "middle";
        pen.fillText(this.right.label, 0, 0);
        pen.restore();
      }
    }

    color(layer) { return css(`--c${layer.color}`); }

    path(layer, step) {
      const { pen } = this, { x, y } = layer;
      let open = false, before = 0;
      pen.beginPath();
      for (let i = 0; i < x.length; i++) {
        if (!Number.isFinite(y[i])) { open = false; continue; }
        const px = this.px(x[i]), py = this.py(y[i], layer.axis);
        if (!open) pen.moveTo(px, py);
        else { if (step) pen.lineTo(px, before); pen.lineTo(px, py); }
        open = true;
        before = py;
      }
    }

    line(layer) {
      this.path(layer, layer.step);
      this.pen.strokeStyle = this.color(layer);
      this.pen.lineWidth = 1.6;
      this.pen.lineJoin = "round";
      this.pen.setLineDash(layer.dash || []);
      this.pen.stroke();
      this.pen.setLineDash([]);
    }

    area_under(layer, area) {
      const { pen } = this;
      this.path(layer, layer.step);
      pen.strokeStyle = pen.fillStyle = this.color(layer);
      pen.lineWidth = 1.4;
      pen.stroke();
      if (layer.x.length) {
        pen.lineTo(this.px(layer.x[layer.x.length - 1]), area.top + area.h);
        pen.lineTo(this.px(layer.x[0]), area.top + area.h);
        pen.globalAlpha = 0.14;
        pen.fill();
        pen.globalAlpha = 1;
      }
    }

    // Bars from x[i] to ends[i].
    bars(layer, area) {
      const { pen } = this, bottom = area.top + area.h;
      pen.fillStyle = this.color(layer);
      pen.globalAlpha = 0.55;
      for (let i = 0; i < layer.x.length; i++) {
        if (!layer.y[i]) continue;
        const left = this.px(layer.x[i]), right = this.px(layer.ends[i]), top = this.py(layer.y[i], layer.axis);
        pen.fillRect(left, top, Math.max(1, right - left - (right - left > 4 ? 1 : 0)), bottom - top);
      }
      pen.globalAlpha = 1;
    }

    points(layer) {
      const { pen } = this, many = layer.x.length > 2000, size = many ? 2 : 3;
      pen.fillStyle = this.color(layer);
      pen.globalAlpha = many ? 0.35 : 0.65;
      for (let i = 0; i < layer.x.length; i++) {
        if (!this.x.fits(layer.x[i]) || !this.y.fits(layer.y[i])) continue;
        pen.beginPath();
        pen.arc(this.px(layer.x[i]), this.py(layer.y[i], layer.axis), size, 0, 7);
        pen.fill();
      }
      pen.globalAlpha = 1;
    }

    cross(layer) {
      const { pen } = this;
      pen.strokeStyle = this.color(layer);
      pen.lineWidth = 1.6;
      pen.beginPath();
      for (let i = 0; i < layer.x.length; i++) {
        const x = this.px(layer.x[i]), y = this.py(layer.y[i], layer.axis);
        pen.moveTo(x - 4, y - 4); pen.lineTo(x + 4, y + 4);
        pen.moveTo(x - 4, y + 4); pen.lineTo(x + 4, y - 4);
      }
      pen.stroke();
    }

    rule() {}

    // Marks on the axis, with their names above the plot where they do not lie on each other.
    rules(area) {
      const { pen } = this;
      pen.font = "10px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "top";
      let end = -Infinity;
      for (const layer of this.shown().filter((layer) => layer.kind === "rule")) {
        const x = this.px(layer.at);
        if (!(x >= area.left && x <= area.left + area.w)) continue;
        pen.strokeStyle = pen.fillStyle = css("--soft");
        pen.setLineDash([3, 3]);
        pen.beginPath();
        pen.moveTo(x, area.top);
        pen.lineTo(x, area.top + area.h);
        pen.stroke();
        pen.setLineDash([]);
        const half = pen.measureText(layer.text).width / 2;
        if (x - half > end + 4) { pen.fillText(layer.text, x, area.top - 10); end = x + half; }
      }
    }

    cross_hair(area) {
      const { pen } = this, x = this.pointer.drag ?? this.pointer.x;
      pen.strokeStyle = css("--soft");
      pen.setLineDash([2, 3]);
      pen.beginPath();
      pen.moveTo(this.pointer.x + 0.5, area.top);
      pen.lineTo(this.pointer.x + 0.5, area.top + area.h);
      pen.stroke();
      pen.setLineDash([]);
      if (this.pointer.drag !== undefined) {
        pen.fillStyle = css("--c0");
        pen.globalAlpha = 0.15;
        pen.fillRect(Math.min(x, this.pointer.x), area.top, Math.abs(x - this.pointer.x), area.h);
        pen.globalAlpha = 1;
      }
    }

    listen() {
      const canvas = this.canvas;
      const place = (event) => {
        const edge = canvas.getBoundingClientRect(), area = this.area();
        const x = Math.min(Math.max(event.clientX - edge.left, area.left), area.left + area.w);
        return { x, y: event.clientY - edge.top };
      };
      let from = null;
      canvas.addEventListener("pointerdown", (event) => {
        if (event.pointerType === "touch") return;
        from = place(event).x;
        canvas.setPointerCapture(event.pointerId);
      });
      canvas.addEventListener("pointermove", (event) => {
        const at = place(event);
        for (const plot of this.group) {
          plot.pointer = { ...at, drag: from !== null && Math.abs(at.x - from) > 4 ? from : undefined };
          plot.redraw();
        }
        this.hover(at);
      });
      canvas.addEventListener("pointerup", (event) => {
        const to = place(event).x;
        if (from !== null && Math.abs(to - from) > 4) this.zoom(Math.min(from, to), Math.max(from, to));
        from = null;
        this.leave();
      });
      canvas.addEventListener("pointerleave", () => { if (from === null) this.leave(); });
      canvas.addEventListener("dblclick", () => this.look(null));
      canvas.addEventListener("keydown", (event) => {
        const full = this.fullX(), [low, high] = this.view || full, width = high - low;
        const moves = { "+": [0.25, -0.25], "-": [-0.5, 0.5], ArrowLeft: [-0.2, -0.2], ArrowRight: [0.2, 0.2] };
        if (event.key === "0" || event.key === "Escape") this.look(null);
        else if (moves[event.key]) {
          const [a, b] = moves[event.key].map((share) => share * width);
          const next = [Math.max(full[0], low + a), Math.min(full[1], high + b)];
          if (next[1] - next[0] > (full[1] - full[0]) * 1e-6) this.look(next);
          event.preventDefault();
        }
      });
    }

    leave() {
      for (const plot of this.group) { plot.pointer = null; plot.tip.hidden = true; plot.redraw(); }
    }

    zoom(from, to) {
      const { area, extents } = this.last;
      const at = (x) => extents.x[0] + (x - area.left) / area.w * (extents.x[1] - extents.x[0]);
      this.look([at(from), at(to)]);
    }

    look(view) {
      for (const plot of this.group) { plot.view = view; plot.redraw(); }
    }

    // What is nearest to the pointer, in words.
    hover(at) {
      const { area } = this.last || {};
      this.tip.hidden = true;
      if (!area) return;
      const lines = [];
      let nearest = null;
      for (const layer of this.shown()) {
        if (layer.kind === "rule") continue;
        if (layer.kind === "points" || layer.kind === "cross") {
          for (let i = 0; i < layer.x.length; i++) {
            const dx = this.px(layer.x[i]) - at.x, dy = this.py(layer.y[i], layer.axis) - at.y, far = dx * dx + dy * dy;
            if (far < (nearest ? nearest.far : 400)) nearest = { far, layer, i };
          }
          continue;
        }
        const value = this.x.from(this.last.extents.x[0] + (at.x - area.left) / area.w * (this.last.extents.x[1] - this.last.extents.x[0]));
        let low = 0, high = layer.x.length - 1;
        while (low < high) { const mid = (low + high + 1) >> 1; if (layer.x[mid] <= value) low = mid; else high = mid - 1; }
        if (layer.x.length && layer.x[low] <= value) lines.push(layer.tip ? layer.tip(low) : [[layer.name || this.options.title, fmt(layer.y[low])]]);
        if (!lines.head && layer.head) lines.head = layer.head(low);
      }
      if (nearest) { lines.length = 0; lines.push(nearest.layer.tip(nearest.i)); }
      const flat = lines.flat();
      if (!flat.length) return;
      const table = node("table");
      for (const [name, value] of flat) {
        const row = node("tr");
        row.append(node("td", name), node("td", value));
        table.append(row);
      }
      this.tip.replaceChildren(...(lines.head ? [node("b", lines.head)] : []), table);
      this.tip.hidden = false;
      const w = this.stage.clientWidth, left = at.x + 14 + this.tip.offsetWidth > w ? at.x - 14 - this.tip.offsetWidth : at.x + 14;
      this.tip.style.left = Math.max(0, left) + "px";
      this.tip.style.top = Math.max(0, Math.min(at.y + 10, this.stage.clientHeight - this.tip.offsetHeight)) + "px";
    }
  }

  const repaint = () => all.forEach((plot) => plot.paint());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  // Paper is light: the canvases are painted once more in the colours that the print style sets.
  const print = (on) => { document.documentElement.classList.toggle("paper", on); repaint(); };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));

  return { Plot, node, fmt, css, plots: all };
})();
