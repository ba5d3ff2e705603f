"use strict";
// The map of heads, and the panel of the head that is chosen. All words go in through textContent.
(() => {
  const data = JSON.parse(document.getElementById("probe").textContent);
  const byPlace = new Map(data.heads.map((head) => [`${head.layer}.${head.head}`, head]));
  const layers = Math.max(...data.heads.map((head) => head.layer)) + 1;
  const width = Math.max(...data.heads.map((head) => head.head)) + 1;
  const classes = { sharp: 1, dispersing: 2, local: 3, sink: 5 };
  const map = document.getElementById("map");
  const panel = document.getElementById("head");
  const metric = document.getElementById("metric");
  const cells = new Map();

  const element = (tag, attributes, ...children) => {
    const svg = ["svg", "g", "path", "line", "text", "circle", "title"].includes(tag);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  // blue → pale → vermilion, so that both ends stand out and the middle does not
  const mixed = (share) => `color-mix(in oklab, var(--${share < 0.5 ? "series-1" : "series-2"}) ${(200 * Math.abs(share - 0.5)).toFixed(1)}%, var(--line))`;
  const rampOf = { slope: [0, -0.6], horizon: [9, 2], top_weight: [1, 0], entropy: [0, null], spread: [null, 0], first_weight: [0, 1], recent_weight: [0, 1] };

  // [value painted blue, value painted vermilion]: blunt is vermilion wherever a metric has a blunt end
  const ends = (name) => {
    const known = data.heads.map((head) => head.value[name]).filter((value) => typeof value === "number");
    return rampOf[name].map((end) => (end === null ? Math.max(...known) : end));
  };
  const paint = (name, value) => {
    if (name === "class") return `var(--series-${classes[value]})`;
    if (typeof value !== "number") return "var(--line)";
    const [blue, red] = ends(name);
    return mixed(Math.min(1, Math.max(0, (value - blue) / (red - blue || 1))));
  };

  const legend = () => {
    const box = document.getElementById("legend");
    box.replaceChildren();
    if (metric.value === "class") {
      for (const name of Object.keys(classes)) {
        const swatch = element("span", { class: "swatch" });
        swatch.style.background = `var(--series-${classes[name]})`;
        box.append(element("span", {}, swatch, name));
      }
      return;
    }
    const written = (value) => (metric.value === "horizon" ? `10^${value.toFixed(0)}` : String(Number(value.toPrecision(2))).replace("-", "−"));
    const [blue, red] = ends(metric.value);
    const ramp = element("span", { class: "ramp" });
    ramp.style.background = "linear-gradient(in oklab to right, var(--series-1), var(--line), var(--series-2))";
    box.append(element("span", {}, written(blue)), ramp, element("span", {}, written(red) + (metric.value === "slope" ? " or steeper" : "")));
  };

  const colour = () => {
    for (const [place, cell] of cells) {
      const head = byPlace.get(place);
      cell.style.background = paint(metric.value, head.value[metric.value]);
      const words = `layer ${head.layer} head ${head.head}: ${head.text.class}, ${metric.selectedOptions[0].textContent} ${head.text[metric.value]}`;
      cell.title = words;
      cell.setAttribute("aria-label", words);
    }
    legend();
  };

  const draw = () => {
    map.style.gridTemplateColumns = `auto repeat(${width}, minmax(1.05rem, 1fr))`;
    map.append(element("span", { class: "name" }, "layer"));
    for (let head = 0; head < width; head++) map.append(element("span", { class: "top" }, String(head)));
    for (let layer = 0; layer < layers; layer++) {
      map.append(element("span", { class: "name" }, String(layer)));
      for (let head = 0; head < width; head++) {
        const place = `${layer}.${head}`;
        if (!byPlace.has(place)) {
          map.append(element("span"));
          continue;
        }
        const cell = element("button", { type: "button", "data-place": place, tabindex: "-1" });
        cell.addEventListener("click", () => choose(place));
        cells.set(place, cell);
        map.append(cell);
      }
    }
    map.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      if (!step || !event.target.dataset.place) return;
      event.preventDefault();
      const [layer, head] = event.target.dataset.place.split(".").map(Number);
      const next = `${layer + step[0]}.${head + step[1]}`;
      if (cells.has(next)) choose(next, true);
    });
  };

  // One small plot: curves is [{points: [[x, y]…], colour, dashed, name}], x on a log scale
  const plot = ({ title, curves, area, log, low, high, ticks }) => {
    const [w, h, left, right, top, bottom] = [300, 190, 34, 12, 22, 24];
    const every = curves.flatMap((curve) => curve.points.map((point) => point[0]));
    const [first, last] = [Math.min(...every), Math.max(...every)];
    const across = (x) => left + ((w - left - right) * Math.log(x / first)) / (Math.log(last / first) || 1);
    const scale = (y) => (log ? Math.log(y / low) / Math.log(high / low) : (y - low) / (high - low));
    const up = (y) => h - bottom - (h - top - bottom) * Math.min(1, Math.max(0, scale(y)));
    const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${across(x).toFixed(1)} ${up(y).toFixed(1)}`).join("");
    const svg = element("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": title });
    svg.append(element("text", { x: 0, y: 11, class: "title" }, title));
    for (const tick of ticks) {
      svg.append(element("line", { class: "grid", x1: left, x2: w - right, y1: up(tick), y2: up(tick) }));
      svg.append(element("text", { x: left - 5, y: up(tick) + 3, "text-anchor": "end" }, tick >= 0.01 || tick === 0 ? String(tick) : `1e−${Math.round(-Math.log10(tick))}`));
    }
    let free = -Infinity; // the next label must begin right of this
    for (const x of [...new Set(every)].sort((a, b) => a - b)) {
      if (across(x) - 18 < free && x !== last) continue;
      if (x !== last && across(last) - across(x) < 36) continue;
      svg.append(element("text", { x: across(x), y: h - 8, "text-anchor": "middle" }, x.toLocaleString("en-GB")));
      free = across(x) + 18;
    }
    if (area) svg.append(element("path", { class: "envelope", d: `${path(area)}Z` }));
    for (const curve of curves) {
      const line = element("path", { class: curve.dashed ? "curve dashed" : "curve", d: path(curve.points), stroke: curve.colour });
      line.append(element("title", {}, curve.name));
      svg.append(line);
      if (curve.dashed) continue;
      for (const [x, y] of curve.points) {
        const dot = element("circle", { cx: across(x), cy: up(y), r: 3, fill: curve.colour });
        dot.append(element("title", {}, `${curve.name} at ${x.toLocaleString("en-GB")}: ${Number(y.toPrecision(3))}`));
        svg.append(dot);
      }
    }
    return svg;
  };

  const best = (n, spread) => 1 / (1 + (n - 1) * Math.exp(-spread));
  const plots = (curve) => {
    const n = curve.n;
    const along = (name) => n.map((x, i) => [x, curve[name][i]]).filter((point) => typeof point[1] === "number");
    const beyond = [1, 2, 4, 8].map((factor) => factor * n[n.length - 1]);
    const ceiling = n.map((x, i) => [x, best(curve.n_keys[i], curve.spread[i])]);
    const ahead = beyond.map((x) => [x, best(x, curve.spread[n.length - 1])]);
    const floor = n.map((x, i) => [x, 1 / curve.n_keys[i]]).concat(beyond.slice(1).map((x) => [x, 1 / x]));
    const tops = along("top_weight");
    const smallest = Math.min(...floor.map((point) => point[1]), ...tops.map((point) => point[1]));
    const low = 10 ** Math.floor(Math.log10(smallest));
    const ticks = [];
    for (let tick = 1; tick >= low * 0.99; tick /= 10) ticks.push(Number(tick.toPrecision(1)));
    const entropy = along("entropy");
    const most = n.map((x, i) => [x, Math.log(curve.n_keys[i])]);
    const topTick = Math.ceil(Math.max(...most.map((point) => point[1])));
    const weights = [["first_weight", "first token", "var(--series-5)"], ["recent_weight", "last 16 tokens", "var(--series-4)"], ["top_weight", "top weight", "var(--series-1)"]];
    return [
      plot({ title: "top weight, and what its spread allows", log: true, low, high: 1, ticks, area: [...ceiling, ...ahead, ...floor.slice().reverse()],
        curves: [
          { points: tops, colour: "var(--series-1)", name: "top weight" },
          { points: [...ceiling, ...ahead], colour: "var(--series-3)", dashed: true, name: "most that the spread allows" },
          { points: floor, colour: "var(--muted)", dashed: true, name: "a plain average, 1/n" },
        ] }),
      plot({ title: "entropy, nats (dashed: log n)", log: false, low: 0, high: topTick, ticks: [0, topTick / 2, topTick],
        curves: [
          { points: entropy, colour: "var(--series-2)", name: "entropy" },
          { points: most, colour: "var(--muted)", dashed: true, name: "log n, a plain average" },
        ] }),
      plot({ title: "where the weight lies", log: false, low: 0, high: 1, ticks: [0, 0.5, 1],
        curves: weights.map(([name, words, colour]) => ({ points: along(name), colour, name: words })).filter((curve) => curve.points.length) }),
    ];
  };

  const told = [["class", "class"], ["slope", "slope"], ["top_weight", "top weight"], ["effective_keys", "effective keys"], ["spread", "spread δ"], ["horizon", "horizon, tokens"],
    ["horizon_best", "horizon, widest row"], ["spread_bound", "δ bound from weights"], ["position", "of theory's best"], ["first_weight", "on the first token"], ["recent_weight", "on the last 16"], ["blunt_from", "below ½ from n"]];
  const choose = (place, focus = false) => {
    for (const [other, cell] of cells) {
      cell.setAttribute("aria-pressed", String(other === place));
      cell.tabIndex = other === place ? 0 : -1;
    }
    if (focus) cells.get(place).focus();
    const head = byPlace.get(place);
    const key = element("p", { class: "where" }, `${head.name}. Blue: measured; green band: what Lemma 2.1 allows at its spread; ochre: first token, rose: last 16.`);
    const list = element("dl");
    for (const [name, words] of told) list.append(element("div", {}, element("dt", {}, words), element("dd", {}, head.text[name])));
    panel.replaceChildren(element("h3", {}, `Layer ${head.layer}, head ${head.head}`), key, element("div", { class: "plots" }, ...plots(data.curves[place])), list);
  };

  draw();
  metric.addEventListener("change", colour);
  colour();
  const steepest = data.heads.reduce((a, b) => ((b.value.slope ?? 0) < (a.value.slope ?? 0) ? b : a));
  choose(`${steepest.layer}.${steepest.head}`);
  document.querySelector("#every-head table").addEventListener("click", (event) => {
    const row = event.target.closest("tbody tr");
    const place = row && row.cells[0].textContent.match(/^L(\d+) H(\d+)$/);
    if (!place) return;
    choose(`${place[1]}.${place[2]}`);
    panel.scrollIntoView({ block: "center" });
  });
})();
