import { FAINT, canvas, choices, fill, label, mount, number, range, shorten, slider, sum, tag, toggle } from "./common.js";

const [LEFT, TOP, SIZE] = [66, 62, 332];
const [TABLE, LINE] = [TOP + SIZE + 36, 20];
const [WIDTH, HEIGHT] = [430, TABLE + 6 * LINE];
const SIDES = [1, 2, 3, 4];
const COLUMNS = { top: 118, factor: 172, total: 226, mixed: 322, output: 418 };

const end = { "text-anchor": "end" };
const muted = { ...end, class: "muted" };

function short(x) {
  const text = x.toFixed(2).replace("-", "−");
  return text === "−0.00" ? "0.00" : text;
}

function tiles({ tokens, side, causal }) {
  const starts = range(Math.ceil(tokens.length / side)).map((tile) => tile * side);
  return starts.flatMap((i) => starts.filter((j) => !causal || j < i + side).map((j) => [i, j]));
}

// What a query keeps: the largest score, the sum of exponentials, the values mixed by them.
const nothing = { top: -Infinity, total: 0, mixed: [0, 0] };

function take(kept, scores, values) {
  const top = Math.max(kept.top, ...scores);
  const factor = Math.exp(kept.top - top);
  const powers = scores.map((score) => Math.exp(score - top));
  return {
    top,
    factor,
    total: kept.total * factor + sum(powers),
    mixed: kept.mixed.map((old, c) => old * factor + sum(powers.map((power, j) => power * values[j][c]))),
  };
}

export function compute(state) {
  const { q, k, v, side, causal } = state;
  const n = q.length;
  const walk = tiles(state);
  const step = Math.min(state.step, walk.length);
  const scores = q.map((query) => k.map((key) => sum(query.map((x, c) => x * key[c])) / Math.sqrt(query.length)));
  const met = scores.map((row) => row.map(() => false));
  const weights = scores.map((row) => row.map(() => 0));
  let rows = [];
  for (const [i, j] of walk.slice(0, step)) {
    rows = range(Math.min(side, n - i)).map((line) => {
      const seen = range(Math.min(side, n - j)).map((c) => j + c).filter((key) => !causal || key <= i + line);
      for (const key of seen) met[i + line][key] = true;
      const kept = j === 0 ? nothing : rows[line];
      const next = take(kept, seen.map((key) => scores[i + line][key]), seen.map((key) => v[key]));
      weights[i + line] = scores[i + line].map((score, key) => (met[i + line][key] ? Math.exp(score - next.top) / next.total : 0));
      return next;
    });
  }
  const [query, key] = walk[step - 1];
  return {
    step,
    count: walk.length,
    skipped: Math.ceil(n / side) ** 2 - walk.length,
    query,
    key,
    ready: step === walk.length || walk[step][0] !== query,
    met,
    weights,
    top: rows.map((row) => row.top),
    factor: rows.map((row) => row.factor),
    total: rows.map((row) => row.total),
    mixed: rows.map((row) => row.mixed),
    output: rows.map((row) => row.mixed.map((x) => x / row.total)),
  };
}

export function sentence(state) {
  const { tokens, side, words } = state;
  const found = compute(state);
  const last = (first) => Math.min(first + side, tokens.length) - 1;
  return fill(words.sentence, {
    step: found.step,
    count: found.count,
    first_query: found.query,
    last_query: last(found.query),
    first_key: found.key,
    last_key: last(found.key),
    i: found.query,
    query: tokens[found.query],
    top: short(found.top[0]),
    factor: short(found.factor[0]),
    total: short(found.total[0]),
    state: words[found.ready ? "told_ready" : "told_going"],
  });
}

export function alt(state) {
  const { tokens, side, causal, words } = state;
  const { skipped, count } = compute(state);
  const mask = words[causal ? "causal" : "no_mask"];
  const settings = fill(words.settings, { tokens: tokens.length, side, mask, skipped, all: count + skipped });
  return `${settings} ${sentence(state)}`;
}

// Where the tile lies whose first query is i and first key j.
function box(n, side, i, j) {
  const cell = SIZE / n;
  const [width, height] = [j, i].map((first) => (Math.min(first + side, n) - first) * cell);
  return { x: LEFT + j * cell, y: TOP + i * cell, width, height };
}

function map({ tokens, side, causal, words }, found) {
  const n = tokens.length;
  const cell = SIZE / n;
  const parts = [label(LEFT - 8, TOP - 24, `${words.key} →`, muted), label(LEFT - 8, TOP - 8, `${words.query} ↓`, muted)];
  tokens.forEach((token, i) => {
    const middle = (i + 0.5) * cell;
    const bold = i >= found.query && i < found.query + side ? { "font-weight": "700" } : {};
    const turned = { transform: `rotate(-45 ${(LEFT + middle).toFixed(1)} ${TOP - 8})` };
    parts.push(label(LEFT + middle, TOP - 8, shorten(token), turned));
    parts.push(label(LEFT - 8, TOP + middle + 4, shorten(token), { ...end, ...bold }));
  });
  for (const i of range(n))
    for (const j of range(n)) {
      const [x, y] = [LEFT + j * cell, TOP + i * cell];
      if (causal && j > i) parts.push(tag("circle", { cx: x + cell / 2, cy: y + cell / 2, r: 1.2, "fill-opacity": 0.5 }));
      else {
        const shade = found.met[i][j] ? FAINT + (1 - FAINT) * found.weights[i][j] : 0;
        const pair = { x: x + 0.5, y: y + 0.5, width: cell - 1, height: cell - 1 };
        parts.push(tag("rect", { ...pair, class: "w", "fill-opacity": shade }));
      }
    }
  const cuts = [...range(Math.ceil(n / side)).map((tile) => tile * side), n];
  const lines = cuts.map((at) => `M${number(LEFT + at * cell)} ${TOP}v${SIZE}M${LEFT} ${number(TOP + at * cell)}h${SIZE}`);
  parts.push(tag("path", { d: lines.join(""), stroke: "currentColor", "stroke-opacity": 0.25 }));
  const frame = { fill: "none", stroke: "currentColor", "stroke-width": 2.5, rx: 2 };
  parts.push(tag("rect", { ...box(n, side, found.query, found.key), ...frame }));
  tiles({ tokens, side, causal }).forEach(([i, j], before) => {
    const chosen = { "data-set": "step", "data-value": String(before + 1) };
    parts.push(tag("rect", { ...box(n, side, i, j), "fill-opacity": 0, class: "pick", ...chosen }));
  });
  return parts.join("");
}

function kept({ tokens, words }, found) {
  const parts = [label(LEFT - 8, TABLE, words.row_column, muted)];
  const columns = Object.entries(COLUMNS);
  for (const [name, right] of columns) parts.push(label(right, TABLE, words[`${name}_column`], muted));
  for (const line of range(found.top.length)) {
    const y = TABLE + (line + 1) * LINE;
    parts.push(label(LEFT - 8, y, shorten(tokens[found.query + line]), { ...end, "font-weight": "700" }));
    for (const [name, right] of columns) {
      const bold = name === "output" && found.ready ? { "font-weight": "700" } : {};
      parts.push(label(right, y, [found[name][line]].flat().map(short).join("  "), { ...end, ...bold }));
    }
  }
  parts.push(label(COLUMNS.output, TABLE + 5 * LINE, words[found.ready ? "ready" : "going"], muted));
  return parts.join("");
}

export function picture(state) {
  const found = compute(state);
  return canvas(WIDTH, HEIGHT, map(state, found) + kept(state, found));
}

function render({ model, el }) {
  const words = model.get("words");
  return mount(
    { model, el },
    {
      settings: ["step", "side", "causal"],
      data: ["tokens", "q", "k", "v"],
      controls: [
        slider(model, "step", {
          text: words.step_control,
          min: 1,
          max: (state) => tiles(state).length,
          value: (state) => {
            const { step, count } = compute(state);
            return fill(words.step_value, { step, count });
          },
        }),
        choices(model, "side", { text: words.tile_control, options: SIDES.map((side) => [side, fill(words.tile_value, { side })]) }),
        toggle(model, "causal", { text: words.causal_control }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
