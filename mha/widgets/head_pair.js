import { FAINT, canvas, fill, label, mount, range, shorten, slider, sum, tag, toggle } from "./common.js";

const [WIDTH, LEFT, GAP, SIZE, TOP] = [480, 70, 12, 192, 30];
const LINE = TOP + SIZE + 74;
const HEIGHT = LINE + 40;
const SPAN = WIDTH - LEFT - 14;
const LEVELS = 255;
const SAME = 1e-9; // values closer than this share a rank, so that Python and JavaScript agree on it

const mean = (xs) => sum(xs) / xs.length;
const strong = { "font-weight": "700" };

// One byte a visible pair, row after row, holds the square root of a weight; each row is made to add up to 1.
const known = new Map();
function unpack(maps, count, n) {
  if (known.has(maps)) return known.get(maps);
  const bytes = Uint8Array.from(atob(maps), (c) => c.charCodeAt(0));
  const pairs = (n * (n + 1)) / 2;
  const weights = range(count).map((map) =>
    range(n).map((i) => {
      const row = range(n).map((j) => (j <= i ? (bytes[map * pairs + (i * (i + 1)) / 2 + j] / LEVELS) ** 2 : 0));
      const total = sum(row);
      return row.map((w) => w / total);
    }),
  );
  known.set(maps, weights);
  return weights;
}

// Rows that add up to 1, with one more column: nothing, where a row has no weight at all.
function rowsOf(map, start) {
  const rows = start ? map : map.slice(1).map((row) => row.slice(1));
  return rows.slice(1).map((row) => {
    const total = sum(row);
    return [...row.map((w) => w / (total || 1)), total ? 0 : 1];
  });
}

const bits = (row) => -sum(row.map((p) => (p > 0 ? p * Math.log2(p) : 0)));
function distance(a, b) {
  const rows = a.map((p, i) => {
    const middle = p.map((x, j) => (x + b[i][j]) / 2);
    return Math.sqrt(Math.min(1, Math.max(0, bits(middle) - (bits(p) + bits(b[i])) / 2)));
  });
  return mean(rows);
}

function median(xs) {
  const sorted = [...xs].sort((x, y) => x - y);
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

export function compute(state) {
  const { tokens, maps, num_layers, num_heads, chance, start } = state;
  const kept = unpack(maps, num_layers * num_heads, tokens.length);
  const [first, second] = ["a", "b"].map((side) => state[`layer_${side}`] * num_heads + state[`head_${side}`]);
  const rows = kept.map((map) => rowsOf(map, start));
  const toAll = rows.map((map) => distance(map, rows[first]));
  const others = range(kept.length).filter((place) => place !== first);
  const least = Math.min(...others.map((place) => toAll[place]));
  const nearest = others.find((place) => toAll[place] <= least + SAME);
  return {
    weights_a: kept[first],
    weights_b: kept[second],
    distance: toAll[second],
    nearest: [Math.floor(nearest / num_heads), nearest % num_heads],
    nearest_distance: toAll[nearest],
    median: median(others.map((place) => toAll[place])),
    shuffled: chance[Number(start)],
  };
}

export function sentence(state) {
  const { words, layer_a, head_a, layer_b, head_b, start } = state;
  const found = compute(state);
  const numbers = ["distance", "nearest_distance", "median", "shuffled"].map((key) => [key, found[key].toFixed(2)]);
  const [layer, head] = found.nearest;
  const counted = words[start ? "with_start" : "without_start"];
  return fill(words.sentence, { layer_a, head_a, layer_b, head_b, ...Object.fromEntries(numbers), layer, head, counted });
}

export function alt(state) {
  const { words, tokens, num_layers, num_heads } = state;
  return `${fill(words.overview, { count: num_layers * num_heads, n: tokens.length })} ${sentence(state)}`;
}

function oneMap(state, weights, side, left) {
  const { words, tokens, start } = state;
  const cell = SIZE / tokens.length;
  const [size, gap] = [Math.min(11, 0.95 * cell), Math.min(1, 0.1 * cell)];
  const about = { side: side.toUpperCase(), layer: state[`layer_${side}`], head: state[`head_${side}`] };
  const parts = [label(left, TOP - 12, fill(words.title, about), strong)];
  tokens.forEach((token, i) => {
    for (const j of range(i + 1)) {
      const box = { x: left + j * cell, y: TOP + i * cell, width: cell - gap, height: cell - gap };
      const faint = start || (i > 0 && j > 0) ? 1 : 0.35;
      parts.push(tag("rect", { ...box, class: "w", "fill-opacity": faint * (FAINT + (1 - FAINT) * weights[i][j]) }));
    }
    const place = { "text-anchor": "end", "font-size": size };
    if (side === "a") parts.push(label(LEFT - 6, TOP + (i + 0.5) * cell + 0.35 * size, shorten(token), place));
  });
  return parts.join("");
}

function scale({ words }, found) {
  const stroke = { stroke: "currentColor", "stroke-opacity": 0.5 };
  const parts = [
    tag("path", { d: `M${LEFT} ${LINE}h${SPAN}`, ...stroke }),
    label(LEFT - 6, LINE + 4, words.axis, { "text-anchor": "end", class: "muted" }),
    ...[0, 1].map((value) => label(LEFT + value * SPAN, LINE + 18, String(value), { "text-anchor": "middle", class: "muted" })),
  ];
  const marks = [
    ["nearest_distance", "nearest", 12],
    ["median", "median", 26],
    ["shuffled", "shuffled", 40],
  ];
  for (const [key, name, up] of marks) {
    const x = LEFT + found[key] * SPAN;
    const right = found[key] > 0.5;
    const side = { "text-anchor": right ? "end" : "start", "font-size": 11 };
    parts.push(
      tag("path", { d: `M${x.toFixed(2)} ${LINE}v${-up + 3}`, ...stroke }),
      label(x + (right ? -3 : 3), LINE - up + 8, words[name], side),
    );
  }
  const x = LEFT + found.distance * SPAN;
  parts.push(tag("circle", { cx: x, cy: LINE, r: 6, class: "w" }));
  parts.push(label(x, LINE + 32, `${words.pair} ${found.distance.toFixed(2)}`, { "text-anchor": "middle", ...strong }));
  return parts.join("");
}

export function picture(state) {
  const found = compute(state);
  const second = LEFT + SIZE + GAP;
  const maps = oneMap(state, found.weights_a, "a", LEFT) + oneMap(state, found.weights_b, "b", second);
  return canvas(WIDTH, HEIGHT, maps + scale(state, found));
}

function render({ model, el }) {
  const [words, num_layers, num_heads] = ["words", "num_layers", "num_heads"].map((key) => model.get(key));
  const control = (key, side, count) =>
    slider(model, `${key}_${side}`, {
      text: fill(words[`${key}_control`], { side: side.toUpperCase() }),
      min: 0,
      max: count - 1,
      value: (state) => String(state[`${key}_${side}`]),
    });
  const controls = ["a", "b"].flatMap((side) => [control("layer", side, num_layers), control("head", side, num_heads)]);
  return mount(
    { model, el },
    {
      settings: ["layer_a", "head_a", "layer_b", "head_b", "start"],
      data: ["tokens", "maps", "num_layers", "num_heads", "chance"],
      controls: [...controls, toggle(model, "start", { text: words.start_control })],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
