"use strict";
// A small drawing library: axes, layers, legends that toggle, hover, zoom by dragging. Plots of one group share their
// horizontal view. Everything is painted on canvases in the colors of the page's theme.
const Draw = (() => {
  const NARROW = 560;
  const FONT = "11px system-ui, sans-serif";
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
  // A tick's text has the digits that tell it from its neighbors, no more.
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
    // People count whole things in ones, twos, fives and tens.
    const digits = whole && power < 10 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10], step = digits.map((d) => d * power).find((s) => s >= rough * 0.999);
    return whole ? Math.max(1, step) : step;
  };
  const linearTicks = (low, high, count, whole) => {
    const step = nice((high - low) / Math.max(1, count) || 1, whole), found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k * step);
    return { at: found, text: (value) => tickText(value, step) };
  };
  const logTicks = (low, high, count) => {
    const from = Math.floor(low), to = Math.ceil(high), every = Math.max(1, Math.ceil((to - from) / Math.max(1, count)));
    const with_digits = (digits) => {
      const found = [];
      for (let power = from; power <= to; power += every) for (const digit of digits) {
        const at = power + Math.log10(digit);
        if (at >= low - 1e-9 && at <= high + 1e-9) found.push(at);
      }
      return found;
    };
    let found = with_digits((to - from) * 3 <= count * 1.5 ? [1, 2, 5] : [1]);
    if (found.length < 3) found = with_digits([1, 2, 5]);
    // A narrow stretch has round values, but no round powers.
    if (found.length < 3) {
      const even = linearTicks(10 ** low, 10 ** high, count);
      return { at: even.at.filter((value) => value > 0).map((value) => Math.log10(value)), text: (at) => even.text(+(10 ** at).toPrecision(9)) };
    }
    const text = (at) => { const v = 10 ** at; return v >= 1e4 ? +(v / 1e3).toPrecision(3) + "k" : String(+v.toPrecision(2)); };
    return { at: found, text };
  };

  // Scales: from a value to its place, and back.
  const SCALES = {
    linear: [(v) => v, (p) => p],
    log: [(v) => Math.log10(v), (p) => 10 ** p],
    sqrt: [(v) => Math.sign(v) * Math.sqrt(Math.abs(v)), (p) => Math.sign(p) * p * p],
    asinh: [Math.asinh, Math.sinh],
    symlog: [(v) => Math.abs(v) <= 2 ? v / 2 : Math.sign(v) * (1 + 0.9 * Math.log10(Math.abs(v) / 2)), (p) => Math.abs(p) <= 1 ? p * 2 : Math.sign(p) * 2 * 10 ** ((Math.abs(p) - 1) / 0.9)],
    logit: [(v) => Math.log10(v / (1 - v)), (p) => 1 / (1 + 10 ** -p)],
  };
  const otherTicks = (axis, low, high, count) => {
    const found = [], steps = Math.max(2, Math.floor(count));
    for (let k = 0; k <= steps; k++) {
      const at = axis.to(+axis.from(low + (high - low) * k / steps).toPrecision(2));
      if (at >= low - 1e-9 && at <= high + 1e-9 && !found.some((other) => Math.abs(other - at) < (high - low) / steps / 2)) found.push(at);
    }
    return { at: found, text: (at) => fmt(+axis.from(at).toPrecision(3)) };
  };

  class Axis {
    constructor(options) {
      Object.assign(this, { label: "", log: false, zero: false, whole: false, scale: options.log ? "log" : "linear" }, options);
      this.log = this.scale === "log";
      [this.to, this.from] = SCALES[this.scale];
    }
    fits(value) { return Number.isFinite(value) && Number.isFinite(this.to(value)); }
    // The extent of what is shown, with room at its ends.
    fit(values) {
      let low = Infinity, high = -Infinity;
      for (const list of values) for (const value of list) {
        if (!this.fits(value)) continue;
        const at = this.to(value);
        if (at < low) low = at;
        if (at > high) high = at;
      }
      if (low > high) [low, high] = [0, 1];
      if (this.zero && !this.log) low = Math.min(0, low);
      if (low === high) { low -= this.zero ? 0 : this.log ? 0.3 : 0.5; high += this.log ? 0.3 : Math.abs(high) * 0.1 || 1; }
      const room = (high - low) * 0.04;
      // What is never negative has no axis below zero.
      const below = !this.log && low >= 0 ? Math.max(0, low - room) : low - room;
      return [this.zero && low === 0 ? 0 : this.tight ? low : below, this.tight ? high : high + room];
    }
    ticks([low, high], count) {
      if (this.log) return logTicks(low, high, count);
      return this.scale === "linear" ? linearTicks(low, high, count, this.whole) : otherTicks(this, low, high, count);
    }
  }

  // A color of a picture that was made for paper, light enough to be seen on a dark page.
  const toned = (hex) => {
    const dark = css("--dark") === "1", [r, g, b] = [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
    const light = (0.3 * r + 0.59 * g + 0.11 * b) / 255, wanted = dark ? Math.max(light, 0.55) : Math.min(light, 0.62);
    if (Math.abs(light - wanted) < 1e-6) return hex;
    const mix = (v) => Math.round(wanted > light ? v + (255 - v) * (wanted - light) / (1 - light) : v * wanted / light);
    return `rgb(${mix(r)}, ${mix(g)}, ${mix(b)})`;
  };
  const paint = (color) => typeof color === "number" ? css(`--c${color}`) : toned(color);
  // Kinds that have no points of their own to fit or to point at, and kinds whose points are pointed at one by one.
  const ALOFT = ["rule", "level", "span"], SINGLE = (layer) => layer.kind === "points" || layer.kind === "cross" || layer.marks;

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
      this.fields = [];
      this.figure = node("figure", undefined, "plot");
      if (options.title) this.figure.append(node("figcaption", options.title));
      if (options.note) this.figure.append(node("p", options.note, "note"));
      this.legend();
      this.stage = node("div", undefined, "stage");
      this.stage.style.height = (options.height || 230) + "px";
      this.canvas = node("canvas");
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "img");
      this.canvas.setAttribute("aria-label", options.title || `${this.y.label} against ${this.x.label}`);
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
      const names = [...new Set(this.layers.map((layer) => layer.name).filter(Boolean))];
      if (names.length < 2) return;
      const list = node("div", undefined, "legend");
      for (const name of names) {
        // A line and the band around it go by one name.
        const layers = this.layers.filter((layer) => layer.name === name), first = layers.find((layer) => layer.kind !== "band") || layers[0];
        const button = node("button"), field = node("i", undefined, SINGLE(first) ? "dot" : "");
        this.fields.push([field, first.color]);
        button.append(field, name);
        button.title = "show or hide";
        button.setAttribute("aria-pressed", "true");
        button.onclick = () => {
          const shown = !first.shown;
          layers.forEach((layer) => { layer.shown = shown; });
          button.setAttribute("aria-pressed", String(shown));
          this.redraw();
        };
        list.append(button);
      }
      this.figure.append(list);
    }

    shown(axis) { return this.layers.filter((layer) => layer.shown && (!axis || layer.axis === axis)); }

    area(extents) {
      const w = this.canvas.clientWidth, height = Math.max(10, this.canvas.clientHeight - 10 - 40);
      this.pen.font = FONT;
      const ys = this.y.ticks(extents.y, height / 42), widest = Math.max(0, ...ys.at.map((at) => this.pen.measureText(ys.text(at)).width));
      const left = Math.max(w < NARROW ? 56 : 60, Math.ceil(widest) + 27), right = this.right ? (w < NARROW ? 40 : 52) : 14;
      return { left, top: 10, w: Math.max(10, w - left - right), h: height };
    }

    extents() {
      const whole = this.fullX();
      const x = this.view || whole;
      const inside = (layer) => {
        // Bands are clipped: a wide interval must not press the data flat.
        if (ALOFT.includes(layer.kind) || layer.kind === "band") return [];
        const found = [];
        for (let i = 0; i < layer.x.length; i++) {
          const at = this.x.to(layer.x[i]);
          if (at >= x[0] && at <= x[1]) found.push(layer.y[i]);
          // A line or a step enters the view from outside.
          else if (layer.y && !SINGLE(layer) && at < x[0] && i + 1 < layer.x.length && this.x.to(layer.x[i + 1]) > x[0]) found.push(layer.y[i]);
        }
        return found;
      };
      const fit = (axis, name) => {
        if (axis.range) return axis.range.map((v) => axis.to(v));
        const lists = this.shown(name).map(inside), most = lists.flat().filter(Number.isFinite).reduce((a, b) => Math.max(a, b), 0);
        // A limit far above everything would flatten the curves.
        for (const layer of this.shown(name)) if (layer.kind === "level" && layer.at <= most * 3) lists.push([layer.at]);
        const [low, high] = axis.fit(lists);
        // Names of stages are above the curves.
        return [low, high + (high - low) * (this.shown().some((layer) => layer.stage) ? 0.18 : 0)];
      };
      return { x, y: fit(this.y, "y"), right: this.right ? fit(this.right, "right") : null };
    }

    fullX() {
      if (this.group.length > 1) {
        const lists = this.group.flatMap((plot) => plot.layers.filter((l) => !ALOFT.includes(l.kind)).map((l) => l.x));
        return this.x.fit(lists);
      }
      const lists = this.layers.filter((layer) => !ALOFT.includes(layer.kind)).map((layer) => layer.x), most = Math.max(...lists.flat());
      return this.x.fit([...lists, this.layers.filter((layer) => layer.slo && layer.at <= most * 3).map((layer) => layer.at)]);
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
      const extents = this.extents(), area = this.area(extents);
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
      this.taken = [];
      for (const layer of this.shown()) this[layer.kind](layer, area);
      pen.restore();
      for (const layer of this.shown()) if (layer.notes) this.noted(layer, area);
      for (const [field, color] of this.fields) field.style.background = paint(color);
      this.rules(area);
      if (this.pointer) this.cross_hair(area);
    }

    frame(area, extents) {
      const { pen } = this, ink = css("--soft"), line = css("--line");
      pen.font = FONT;
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

    color(layer) { return paint(layer.color); }

    path(layer, step) {
      const { pen } = this, { x, y } = layer;
      let open = false, before = 0;
      pen.beginPath();
      for (let i = 0; i < x.length; i++) {
        if (!Number.isFinite(y[i])) { if (open && step) pen.lineTo(this.px(x[i]), before); open = false; continue; }
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
      this.keep_off(layer);
      if (layer.marks) this.points(layer);
    }

    // The area between two lines; for a single point a stroke from one to the other.
    band(layer) {
      const { pen } = this, { x, low, high } = layer;
      pen.strokeStyle = pen.fillStyle = this.color(layer);
      // Around a curve that turns back a band would cover what is not meant.
      if (x.every((at, i) => i === 0 || at > x[i - 1])) {
        pen.globalAlpha = 0.18;
        pen.beginPath();
        for (let i = 0; i < x.length; i++) pen.lineTo(this.px(x[i]), this.py(high[i], layer.axis));
        for (let i = x.length - 1; i >= 0; i--) pen.lineTo(this.px(x[i]), this.py(low[i], layer.axis));
        pen.fill();
      }
      pen.globalAlpha = 0.7;
      pen.lineWidth = 1.2;
      pen.beginPath();
      for (let i = 0; i < x.length; i++) {
        const at = this.px(x[i]), ends = [this.py(low[i], layer.axis), this.py(high[i], layer.axis)];
        if (Math.abs(ends[0] - ends[1]) < 1) continue;
        pen.moveTo(at, ends[0]); pen.lineTo(at, ends[1]);
        for (const end of ends) { pen.moveTo(at - 3, end); pen.lineTo(at + 3, end); }
      }
      pen.stroke();
      pen.globalAlpha = 1;
    }

    // A horizontal line with its name.
    level(layer, area) {
      const { pen } = this, y = this.py(layer.at, layer.axis);
      pen.strokeStyle = pen.fillStyle = this.color(layer);
      pen.lineWidth = 1.2;
      pen.setLineDash([5, 3]);
      pen.beginPath();
      pen.moveTo(area.left, y);
      pen.lineTo(area.left + area.w, y);
      pen.stroke();
      pen.setLineDash([]);
      pen.font = FONT;
      pen.textAlign = "left";
      pen.textBaseline = "top";
      // The end of the line where no point is, above it or else below.
      const w = pen.measureText(layer.text).width, right = area.left + area.w - 4 - w, left = area.left + 4;
      const near = (x, y) => (one) => one.x && one.y && one.x.some((at, i) => {
        const to = [this.px(at), this.py(one.y[i], one.axis)], from = one.kind === "line" && i ? [this.px(one.x[i - 1]), this.py(one.y[i - 1], one.axis)] : to;
        return [0, 0.2, 0.4, 0.6, 0.8, 1].some((s) => { const a = from[0] + (to[0] - from[0]) * s, b = from[1] + (to[1] - from[1]) * s; return a > x - 5 && a < x + w + 5 && b > y - 4 && b < y + 17; });
      });
      const spots = [[right, y - 15], [left, y - 15], [right, y + 3], [left, y + 3]].filter(([, top]) => top >= area.top && top + 13 <= area.top + area.h);
      const [x, top] = spots.find(([x, top]) => !this.layers.some(near(x, top))) || spots[0] || [right, y + 3];
      this.words(layer.text, x, top);
      this.taken.push([x, top, w, 13]);
    }

    // Words that stay readable on lines and bars.
    words(text, x, y) {
      const { pen } = this;
      pen.lineJoin = "round";
      pen.lineWidth = 3;
      pen.strokeStyle = css("--paper");
      pen.strokeText(text, x, y);
      pen.lineWidth = 1;
      pen.fillText(text, x, y);
    }

    // Where words must not lie: on points, and along a line.
    keep_off({ x, y, axis }) {
      if (!this.layers.some((layer) => layer.notes)) return;
      let before = null;
      for (let i = 0; i < Math.min(x.length, 400); i++) {
        const to = [this.px(x[i]), this.py(y[i], axis)], far = before ? Math.hypot(to[0] - before[0], to[1] - before[1]) : 0;
        for (let d = 0; d <= far; d += 5) { const s = far ? d / far : 1, from = before || to; this.taken.push([from[0] + (to[0] - from[0]) * s - 3, from[1] + (to[1] - from[1]) * s - 3, 6, 6]); }
        this.taken.push([to[0] - 5, to[1] - 5, 10, 10]);
        before = to;
      }
    }

    // Words beside points, where they lie on nothing; where there is no room they are left to the pointer.
    noted(layer, area) {
      const { pen } = this;
      pen.font = FONT;
      pen.textAlign = "left";
      pen.textBaseline = "top";
      const free = (box) => box[0] >= area.left && box[1] >= area.top && box[0] + box[2] <= area.left + area.w && box[1] + box[3] <= area.top + area.h
        && !this.taken.some((t) => box[0] < t[0] + t[2] && t[0] < box[0] + box[2] && box[1] < t[1] + t[3] && t[1] < box[1] + box[3]);
      layer.notes.forEach((text, i) => {
        if (!text) return;
        const lines = text.split("\n"), w = Math.max(...lines.map((line) => pen.measureText(line).width)), h = lines.length * 13;
        const x = this.px(layer.x[i]), y = this.py(layer.y[i], layer.axis);
        // Above and below it stands as near to the middle as the edges let it.
        const middle = Math.min(Math.max(x - w / 2, area.left), area.left + area.w - w);
        for (const away of [8, 18, 32, 50, 75]) {
          const places = [[x + away, y - away * 0.4 - h], [x + away, y + away * 0.4], [x - away - w, y - away * 0.4 - h], [x - away - w, y + away * 0.4], [middle, y - away - h], [middle, y + away]];
          const place = places.find(([a, b]) => free([a, b, w, h]));
          if (!place) continue;
          pen.fillStyle = css("--ink");
          lines.forEach((line, k) => this.words(line, place[0], place[1] + k * 13));
          this.taken.push([...place, w, h]);
          if (away > 8) {
            pen.strokeStyle = css("--line");
            pen.beginPath();
            pen.moveTo(x, y);
            pen.lineTo(place[0] > x ? place[0] - 2 : place[0] + w < x ? place[0] + w + 2 : x, place[1] > y ? place[1] : place[1] + h);
            pen.stroke();
          }
          return;
        }
      });
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
      const { pen } = this, many = layer.x.length > 2000, size = many ? 2 : layer.marks ? 4 : 3.5;
      pen.fillStyle = this.color(layer);
      pen.globalAlpha = layer.marks || layer.x.length <= 40 ? 1 : many ? 0.35 : 0.8;
      for (let i = 0; i < layer.x.length; i++) {
        if (!this.x.fits(layer.x[i]) || !this.y.fits(layer.y[i])) continue;
        pen.beginPath();
        pen.arc(this.px(layer.x[i]), this.py(layer.y[i], layer.axis), layer.size || size, 0, 7);
        pen.fill();
      }
      pen.globalAlpha = 1;
      if (!many && layer.kind === "points") for (let i = 0; i < layer.x.length; i++) this.taken.push([this.px(layer.x[i]) - 5, this.py(layer.y[i], layer.axis) - 5, 10, 10]);
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

    // A stretch of the x axis in another shade.
    span(layer, area) {
      const left = Math.max(area.left, this.px(layer.from)), right = Math.min(area.left + area.w, this.px(layer.to));
      if (right <= left) return;
      this.pen.fillStyle = this.color(layer);
      this.pen.globalAlpha = 0.1;
      this.pen.fillRect(left, area.top, right - left, area.h);
      this.pen.globalAlpha = 1;
    }

    // Marks on the axis with their names: percentiles above the plot, where they do not lie on each other; SLOs inside it.
    rules(area) {
      const { pen } = this;
      pen.font = "10px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "top";
      let start = Infinity;
      const rows = [], rules = this.shown().filter((layer) => layer.kind === "rule").sort((a, b) => a.at - b.at);
      // Percentiles get their names from the highest down: close ones move to the left.
      for (const layer of [...rules.filter((layer) => layer.slo || layer.stage), ...rules.filter((layer) => !layer.slo && !layer.stage).reverse()]) {
        const x = this.px(layer.at);
        if (!(x >= area.left && x <= area.left + area.w)) continue;
        pen.strokeStyle = pen.fillStyle = css(layer.slo ? "--bad" : "--soft");
        pen.setLineDash([3, 3]);
        pen.beginPath();
        pen.moveTo(x, area.top);
        pen.lineTo(x, area.top + area.h);
        pen.stroke();
        pen.setLineDash([]);
        const half = pen.measureText(layer.text).width / 2;
        if (layer.slo || layer.stage) {
          // In the first of three rows where it covers no other name.
          const middle = x + 2 * half + 6 < area.left + area.w ? x + 4 + half : x - 4 - half, row = [0, 1, 2].find((k) => middle - half > (rows[k] ?? -Infinity) + 4);
          if (row !== undefined) { this.words(layer.text, middle, area.top + 4 + 12 * row); rows[row] = middle + half; }
        } else { const middle = Math.min(x, start - half - 4); pen.fillText(layer.text, middle, area.top - 10); start = middle - half; }
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
        const edge = canvas.getBoundingClientRect(), { area } = this.last;
        const x = Math.min(Math.max(event.clientX - edge.left, area.left), area.left + area.w);
        return { x, y: event.clientY - edge.top };
      };
      let from = null;
      canvas.addEventListener("pointerdown", (event) => {
        // A finger scrolls the page; where it rests it asks for the value.
        if (event.pointerType === "touch") { this.hover(place(event)); return; }
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
        if (ALOFT.includes(layer.kind) || layer.kind === "band") continue;
        if (SINGLE(layer)) {
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
  // Paper is light: the canvases are painted once more in the colors that the print style sets.
  const print = (on) => { document.documentElement.classList.toggle("paper", on); repaint(); };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));

  return { Plot, node, fmt, css, paint, plots: all };
})();
