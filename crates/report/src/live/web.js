(() => {
  const { Plot, node, fmt } = Draw;
  const place = node("div", undefined, "stack"), main = document.querySelector("main");
  main.append(place);
  const clock = (s) => { const t = Math.round(s), two = (n) => String(n).padStart(2, "0"); return (t >= 3600 ? Math.floor(t / 3600) + ":" : "") + two(Math.floor(t / 60) % 60) + ":" + two(t % 60); };
  const x = { label: "seconds since it began", tight: true, zero: true };
  const plot = (title, unit, key, color) => {
    const layer = { name: unit, kind: "area_under", color, x: [], y: [], head: (k) => fmt(layer.x[k]) + " s", tip: (k) => [[unit, fmt(layer.y[k])]] };
    const made = new Plot(place, { title, group: "time", height: 190, x, y: { label: unit, zero: true }, layers: [layer] });
    return (state) => { made.layers[0].x = layer.x = state.times; made.layers[0].y = layer.y = state[key]; made.redraw(); };
  };
  const updates = [plot("Output: token events per second", "tokens/s", "tokens_per_s", 0), plot("Requests finished per second", "requests/s", "requests_per_s", 2), plot("Requests under way", "requests", "running", 4)];
  const told = node("pre", undefined, "note");
  main.append(node("h2", "What was said"), told);
  const card = (name, value, more) => { const made = node("div", undefined, "card"); made.append(node("span", name), node("b", value)); if (more) made.append(node("small", more)); return made; };
  const times = (name, values) => values ? [card(`${name} p50`, fmt(values[0]) + " ms", `p90 ${fmt(values[1])}, p99 ${fmt(values[2])} ms`)] : [];
  const show = (state) => {
    const share = state.total ? state.finished / state.total * 100 : 0, last = (list) => list.length ? list[list.length - 1] : 0;
    document.title = `${fmt(share)} % · tacho`;
    document.getElementById("title").textContent = [...state.outer, state.title || "tacho"].join(" › ");
    document.getElementById("sub").textContent = state.over ? `over after ${clock(state.elapsed)}` : `${clock(state.elapsed)} elapsed${state.left === null ? "" : `, about ${clock(state.left)} left`}`;
    const kinds = Object.entries(state.failures).map(([kind, count]) => `${kind} ${count}`).join(", ");
    document.getElementById("cards").replaceChildren(
      card("finished", `${fmt(state.finished)} of ${fmt(state.total)}`, fmt(share) + " %"), card("under way", fmt(state.in_flight), state.waiting === null ? "" : `${fmt(state.waiting)} waiting for a slot`),
      card("tokens per second", fmt(last(state.tokens_per_s))), card("requests per second", fmt(last(state.requests_per_s))),
      ...times("TTFT", state.ttft), ...times("ITL", state.itl), ...times("E2EL", state.e2el), card("failed", fmt(state.failed), kinds),
      ...Object.entries(state.server).map(([name, value]) => card(`server: ${name}`, fmt(value))), ...(state.verdict ? [card("client", state.verdict.split(": ")[0].replace("client ", ""), state.verdict.split(": ")[1])] : []));
    told.textContent = state.lines.slice(-12).join("\n");
    updates.forEach((update) => update(state));
    document.documentElement.dataset.ready = "yes";
  };
  const source = new EventSource("events" + location.search);
  source.onmessage = (event) => { const state = JSON.parse(event.data); show(state); if (state.over) document.getElementById("sub").textContent += " (live until the program ends)"; };
  source.onerror = () => { document.getElementById("sub").textContent = "the run has ended, or cannot be reached"; };
})();
