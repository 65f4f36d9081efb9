import { FAINT, canvas, choices, entropy, fill, label, mount, percent, range, shorten, slider, sum, tag } from "./common.js";

const [WIDTH, LEFT, SIZE] = [430, 74, 342];
const [GRID, GRID_SIZE] = [44, 126];
const TOP = GRID + GRID_SIZE + 46;
const TALL = 60;
const BASE = TOP + SIZE + 20 + TALL;
const HEIGHT = BASE + 58;
const MEASURES = ["previous", "sink", "entropy"];
const LEVELS = 255;
const SAME = 1e-9; // values closer than this share a rank, so that Python and JavaScript agree on it

const end = { "text-anchor": "end" };
const muted = { class: "muted" };
const weight = (chosen) => ({ "font-weight": chosen ? "700" : "400" });
const highest = (xs, most = Math.max(...xs)) => xs.findIndex((x) => x >= most - SAME);
const mean = (xs) => sum(xs) / xs.length;

// One byte a visible pair, row after row, holds the square root of a weight; each row is made to add up to 1.
export function unpack(maps, count, n) {
  const bytes = Uint8Array.from(atob(maps), (c) => c.charCodeAt(0));
  const pairs = (n * (n + 1)) / 2;
  return range(count).map((map) =>
    range(n).map((i) => {
      const row = range(n).map((j) => (j <= i ? (bytes[map * pairs + (i * (i + 1)) / 2 + j] / LEVELS) ** 2 : 0));
      const total = sum(row);
      return row.map((w) => w / total);
    }),
  );
}

// The weights of a sentence do not change while a reader looks at them, so they are unpacked and measured once.
const known = new Map();
function measured(maps, count, n) {
  if (!known.has(maps)) {
    const weights = unpack(maps, count, n);
    known.set(maps, {
      weights,
      previous: weights.map((map) => mean(map.slice(1).map((row, i) => row[i]))),
      sink: weights.map((map) => mean(map.slice(1).map((row) => row[0]))),
      entropy: weights.map((map) => mean(map.map(entropy))),
    });
  }
  return known.get(maps);
}

export function compute({ tokens, maps, num_layers, num_heads, measure, layer, head, query }) {
  const n = tokens.length;
  const all = measured(maps, num_layers * num_heads, n);
  const chosen = layer * num_heads + head;
  const shown = all[measure];
  const top = highest(shown);
  const byLayer = (xs) => range(num_layers).map((l) => xs.slice(l * num_heads, (l + 1) * num_heads));
  return {
    ...Object.fromEntries(MEASURES.map((key) => [key, byLayer(all[key])])),
    limit: mean(range(n).map((i) => Math.log(i + 1))),
    rank: 1 + shown.filter((x) => x > shown[chosen] + SAME).length,
    top: [Math.floor(top / num_heads), top % num_heads],
    weights: all.weights[chosen],
    best: highest(all.weights[chosen][query]),
  };
}

export function sentence(state) {
  const { words, tokens, num_layers, num_heads, measure, layer, head, query } = state;
  const found = compute(state);
  return fill(words.sentence, {
    layer,
    head,
    rank: found.rank,
    count: num_layers * num_heads,
    measure: words[`name_${measure}`],
    limit: found.limit.toFixed(2),
    i: query,
    j: found.best,
    query: tokens[query],
    key: tokens[found.best],
    share: percent(found.weights[query][found.best]),
    ...Object.fromEntries(MEASURES.map((key) => [key, found[key][layer][head].toFixed(2)])),
  });
}

export function alt(state) {
  const { words, tokens, num_layers, num_heads, measure } = state;
  const found = compute(state);
  const [layer, head] = found.top;
  const overview = fill(words.overview, {
    count: num_layers * num_heads,
    layers: num_layers,
    heads: num_heads,
    n: tokens.length,
    measure: words[`name_${measure}`],
    layer,
    head,
    value: found[measure][layer][head].toFixed(2),
  });
  return `${overview} ${sentence(state)}`;
}

// The words of an axis: each number, or where one needs more room each fifth, and always the chosen one.
function ticks(count, chosen, pitch, room) {
  const every = pitch >= room ? 1 : 5;
  const shown = (i) => i === chosen || (i % every === 0 && Math.abs(i - chosen) * pitch >= room);
  return range(count).map((i) => (shown(i) ? String(i) : ""));
}

function grid(state, found) {
  const { words, num_layers, num_heads, measure } = state;
  const [wide, high] = [SIZE / num_layers, GRID_SIZE / num_heads];
  const small = { "font-size": 10 };
  const limit = measure === "entropy" ? found.limit : 1;
  const highest = measure === "entropy" ? limit.toFixed(2) : "1";
  const scale = LEFT + SIZE - 8 * highest.length - 43;
  const parts = [
    label(LEFT, 14, fill(words.all_heads, { count: num_layers * num_heads }), { "font-weight": "700" }),
    label(LEFT, 32, words[`shade_${measure}`], muted),
    label(scale - 5, 32, "0", { ...end, ...muted }),
    label(LEFT + SIZE, 32, highest, { ...end, ...muted }),
  ];
  for (const step of range(5)) {
    const box = { x: scale + 8 * step, y: 23, width: 8, height: 9, class: "w" };
    parts.push(tag("rect", { ...box, "fill-opacity": FAINT + ((1 - FAINT) * step) / 4 }));
  }
  for (const layer of range(num_layers))
    for (const head of range(num_heads)) {
      const box = { x: LEFT + layer * wide + 0.5, y: GRID + head * high + 0.5, width: wide - 1, height: high - 1 };
      const faint = { "fill-opacity": FAINT + ((1 - FAINT) * found[measure][layer][head]) / limit };
      const choose = { "data-layer": String(layer), "data-head": String(head) };
      parts.push(tag("rect", { ...box, class: "w pick", ...faint, ...choose }));
    }
  ticks(num_layers, state.layer, wide, 14).forEach((words, layer) => {
    const middle = { "text-anchor": "middle", ...small, ...weight(layer === state.layer) };
    parts.push(label(LEFT + (layer + 0.5) * wide, GRID + GRID_SIZE + 13, words, middle));
  });
  ticks(num_heads, state.head, high, 11).forEach((words, head) => {
    const beside = { ...end, ...small, ...weight(head === state.head) };
    parts.push(label(LEFT - 8, GRID + (head + 0.5) * high + 3.5, words, beside));
  });
  const frame = { x: LEFT - 2, y: GRID - 2, width: SIZE + 4, height: GRID_SIZE + 4, rx: 3, class: "all" };
  const ring = { x: LEFT + state.layer * wide - 1, y: GRID + state.head * high - 1, width: wide + 2, height: high + 2 };
  const line = { fill: "none", stroke: "currentColor" };
  parts.push(
    label(LEFT - 8, GRID - 12, `${words.head_axis} ↓`, { ...end, ...muted }),
    label(LEFT - 8, GRID + GRID_SIZE + 13, `${words.layer_axis} →`, { ...end, ...muted }),
    tag("rect", { ...frame, ...line, "stroke-opacity": 0.3 }),
    tag("rect", { ...ring, ...line, "stroke-width": 2, rx: 2 }),
  );
  return parts.join("");
}

function chosenMap({ words, tokens, measure, layer, head, query }, found) {
  const cell = SIZE / tokens.length;
  const [size, gap] = [Math.min(12, 0.85 * cell), Math.min(1, 0.1 * cell)];
  const parts = [];
  found.weights.forEach((row, i) => {
    for (const j of range(i + 1)) {
      const box = { x: LEFT + j * cell + gap / 2, y: TOP + i * cell + gap / 2, width: cell - gap, height: cell - gap };
      parts.push(tag("rect", { ...box, class: "w", "fill-opacity": FAINT + (1 - FAINT) * row[j] }));
    }
  });
  tokens.forEach((token, i) => {
    const chosen = { "font-size": size, ...weight(i === query) };
    parts.push(label(LEFT - 8, TOP + (i + 0.5) * cell + 0.35 * size, shorten(token), { ...end, ...chosen }));
  });
  const row = { x: LEFT - 1, y: TOP + query * cell - 1, width: (query + 1) * cell + 2, height: cell + 2 };
  parts.push(tag("rect", { ...row, fill: "none", stroke: "currentColor", "stroke-width": 2, rx: 2 }));
  for (const i of range(tokens.length)) {
    const box = { x: 0, y: TOP + i * cell, width: LEFT + SIZE, height: cell, "fill-opacity": 0 };
    parts.push(tag("rect", { ...box, class: "pick", "data-set": "query", "data-value": String(i) }));
  }
  parts.push(
    label(LEFT - 8, TOP - 10, `${words.query} ↓`, { ...end, ...muted }),
    label(LEFT + SIZE, TOP + 8, fill(words.chosen, { layer, head }), { ...end, "font-weight": "700" }),
  );
  MEASURES.forEach((key, line) => {
    const strong = { ...end, ...weight(key === measure) };
    parts.push(label(LEFT + SIZE - 34, TOP + 26 + 16 * line, words[`name_${key}`], strong));
    parts.push(label(LEFT + SIZE, TOP + 26 + 16 * line, found[key][layer][head].toFixed(2), strong));
  });
  return parts.join("");
}

function chosenRow({ words, tokens, query }, found) {
  const row = found.weights[query];
  const cell = SIZE / tokens.length;
  const size = Math.min(10, 0.58 * cell);
  const parts = [
    label(LEFT - 8, BASE - TALL + 12, words.weight, { ...end, ...muted }),
    label(LEFT - 8, BASE - TALL + 27, words.percent, { ...end, ...muted }),
    label(LEFT - 8, BASE + 16, `${words.key} →`, { ...end, ...muted }),
  ];
  tokens.forEach((token, j) => {
    const [seen, x, tall] = [j <= query, LEFT + (j + 0.5) * cell, TALL * row[j]];
    const share = seen ? String(percent(row[j])) : "";
    const strong = weight(j === found.best);
    const bar = { x: x - 0.4 * cell, y: BASE - tall, width: 0.8 * cell, height: tall, class: "w" };
    const turned = { ...end, transform: `rotate(-45 ${(x + 4).toFixed(1)} ${BASE + 12})` };
    const ink = { "font-size": Math.min(12, 0.85 * cell), "fill-opacity": seen ? 1 : 0.4, ...strong };
    parts.push(
      tag("rect", bar),
      label(x, BASE - tall - 4, share, { "text-anchor": "middle", "font-size": size, ...strong }),
      label(x + 4, BASE + 12, shorten(token), { ...turned, ...ink }),
    );
  });
  parts.push(tag("path", { d: `M${LEFT} ${BASE}h${SIZE}`, stroke: "currentColor", "stroke-opacity": 0.5 }));
  return parts.join("");
}

export function picture(state) {
  const found = compute(state);
  return canvas(WIDTH, HEIGHT, [grid, chosenMap, chosenRow].map((draw) => draw(state, found)).join(""));
}

// The head that an arrow key leads to: layers lie across, heads down.
export function step(key, { layer, head, num_layers, num_heads }) {
  const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  if (!move) return null;
  const within = (place, count) => Math.max(0, Math.min(count - 1, place));
  return { layer: within(layer + move[0], num_layers), head: within(head + move[1], num_heads) };
}

function render({ model, el }) {
  const [words, tokens, num_layers, num_heads] = ["words", "tokens", "num_layers", "num_heads"].map((key) => model.get(key));
  const unmount = mount(
    { model, el },
    {
      settings: ["measure", "layer", "head", "query"],
      data: ["tokens", "maps", "num_layers", "num_heads"],
      first: [
        choices(model, "measure", {
          text: words.measure_control,
          options: MEASURES.map((measure) => [measure, words[`measure_${measure}`]]),
        }),
      ],
      controls: [
        slider(model, "layer", { text: words.layer_control, min: 0, max: num_layers - 1, value: (state) => String(state.layer) }),
        slider(model, "head", { text: words.head_control, min: 0, max: num_heads - 1, value: (state) => String(state.head) }),
        slider(model, "query", {
          text: words.query_control,
          min: 0,
          max: tokens.length - 1,
          value: (state) => shorten(tokens[state.query]),
        }),
      ],
      picture,
      sentence,
      alt,
    },
  );

  function choose({ layer, head }) {
    model.set("layer", layer);
    model.set("head", head);
    model.save_changes();
  }
  const figure = el.querySelector(".mha-picture");
  Object.assign(figure, { tabIndex: 0, role: "group", ariaLabel: words.keys });
  figure.dataset.lmSuppressShortcuts = "";
  figure.addEventListener("click", ({ target }) => {
    const { layer, head } = target.dataset;
    if (layer) choose({ layer: Number(layer), head: Number(head) });
  });
  figure.addEventListener("keydown", (event) => {
    const next = step(event.key, { layer: model.get("layer"), head: model.get("head"), num_layers, num_heads });
    if (!next) return;
    event.preventDefault();
    choose(next);
  });
  return unmount;
}

export default { render };
