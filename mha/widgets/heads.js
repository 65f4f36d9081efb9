import { FAINT, attend, canvas, choices, entropy, fill, label, mount, number, percent, range, select, shorten, slider, sum, tag } from "./common.js";

const [WIDTH, HEIGHT] = [430, 652];
const [EDGE, BREADTH] = [23, 384];
const [STRIP, MAP, SIZE, LEFT] = [22, 78, 216, 96];
const SMALL = MAP + SIZE + 78;
const COUNTS = SMALL + 158;
const LEVELS = 50;
const COUNTED = ["parameters", "projection", "mixing", "memory"];

const colour = (head, heads) => `hsl(${number(200 + (360 * head) / heads)} 45% 45%)`;
const chooses = (head) => ({ "data-set": "head", "data-value": String(head) });
const end = { "text-anchor": "end" };
const muted = { class: "muted" };

export function amount(x, words) {
  if (x < 1e7) return String(x).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const units = { million: 1e6, billion: 1e9, trillion: 1e12 };
  const [unit, size] = Object.entries(units).find(([name, size]) => x < 1000 * size || name === "trillion");
  const small = x / size;
  return `${small.toFixed(small < 10 ? 2 : small < 100 ? 1 : 0)}\u202f${words[unit]}`;
}

export function compute(state) {
  const { q, k, num_heads, length, counted_width: d } = state;
  const d_head = q[0].length / num_heads;
  const head = Math.min(state.head, num_heads - 1);
  const slice = (rows, h) => rows.slice(0, length).map((row) => row.slice(h * d_head, (h + 1) * d_head));
  const weights = range(num_heads).map((h) => attend(slice(q, h), slice(k, h), 1 / Math.sqrt(d_head)).weights);
  const flat = weights[head].flat();
  const best = flat.indexOf(Math.max(...flat));
  const n = state.counted_length || length;
  return {
    weights,
    head,
    d_head,
    first: head * d_head,
    last: (head + 1) * d_head - 1,
    best: [Math.floor(best / length), best % length],
    entropy: sum(weights[head].map(entropy)) / length,
    limit: Math.log(length),
    n,
    parameters: 4 * d ** 2,
    projection: 8 * n * d ** 2,
    mixing: 4 * n ** 2 * d,
    memory: num_heads * n ** 2,
  };
}

export function sentence(state) {
  const { words, tokens, num_heads, trained_heads } = state;
  const found = compute(state);
  const [i, j] = found.best;
  const origin = num_heads === trained_heads ? words.trained : fill(words.what_if, { trained: trained_heads });
  return fill(words.sentence, {
    ...found,
    heads: num_heads,
    share: percent(found.weights[found.head][i][j]),
    i,
    j,
    query: tokens[i],
    key: tokens[j],
    entropy: found.entropy.toFixed(2),
    limit: found.limit.toFixed(2),
    origin,
  });
}

export function alt(state) {
  const found = compute(state);
  const counts = Object.fromEntries(COUNTED.map((key) => [key, amount(found[key], state.words)]));
  const about = { length: state.length, width: amount(state.counted_width, state.words), counted_length: amount(found.n, state.words), ...counts };
  return `${sentence(state)} ${fill(state.words.settings, about)}`;
}

function cut(state, found) {
  const heads = state.num_heads;
  const step = BREADTH / heads;
  const parts = [label(EDGE, STRIP - 8, fill(state.words.columns, { width: state.q[0].length, heads }), muted)];
  for (const head of range(heads)) {
    const chosen = head === found.head;
    const box = { x: EDGE + head * step + 0.5, y: STRIP, width: step - 1, height: 24, fill: colour(head, heads) };
    parts.push(tag("rect", { ...box, "fill-opacity": chosen ? 1 : 0.3, class: "pick", ...chooses(head) }));
    const ink = chosen ? { fill: "#fff", "font-weight": "700" } : {};
    const middle = { "text-anchor": "middle", "font-size": heads < 24 ? 11 : 9, "pointer-events": "none" };
    parts.push(label(EDGE + (head + 0.5) * step, STRIP + 16, String(head), { ...middle, ...ink }));
  }
  const [left, right] = [EDGE + found.head * step, EDGE + (found.head + 1) * step];
  const funnel = `M${number(left)} ${STRIP + 25}H${number(right)}L${LEFT + SIZE} ${MAP - 4}H${LEFT}z`;
  parts.push(tag("path", { d: funnel, fill: colour(found.head, heads), "fill-opacity": 0.16 }));
  return parts.join("");
}

function shown({ words, tokens, length, num_heads }, found) {
  const { head } = found;
  const cell = SIZE / length;
  const side = LEFT + SIZE + 14;
  const parts = [tag("rect", { x: LEFT, y: MAP - 4, width: SIZE, height: 4, fill: colour(head, num_heads) })];
  for (const i of range(length))
    for (const j of range(length)) {
      const box = { x: LEFT + j * cell + 0.5, y: MAP + i * cell + 0.5, width: cell - 1, height: cell - 1 };
      parts.push(tag("rect", { ...box, class: "w", "fill-opacity": FAINT + (1 - FAINT) * found.weights[head][i][j] }));
    }
  for (const i of range(length)) {
    const middle = (i + 0.5) * cell;
    const turned = { ...end, transform: `rotate(-45 ${(LEFT + middle + 4).toFixed(1)} ${MAP + SIZE + 12})` };
    parts.push(label(LEFT - 8, MAP + middle + 4, shorten(tokens[i]), end));
    parts.push(label(LEFT + middle + 4, MAP + SIZE + 12, shorten(tokens[i]), turned));
  }
  parts.push(
    label(LEFT - 8, MAP - 8, `${words.query} ↓`, { ...end, ...muted }),
    label(side, MAP + SIZE + 14, `${words.key} →`, muted),
    label(side, MAP + 12, fill(words.head, found), { "font-weight": "700" }),
    label(side, MAP + 32, words.slice, muted),
    label(side, MAP + 48, fill(words.slice_value, found)),
    label(side, MAP + 70, fill(words.divisor, { width: found.d_head })),
  );
  return parts.join("");
}

// One path for each of fifty levels: small where most weights are near 0.
function smallMap(weights, x, y, size) {
  const squares = range(LEVELS + 1).map(() => "");
  weights.forEach((row, i) => row.forEach((w, j) => (squares[Math.floor(LEVELS * w + 0.5)] += `M${j} ${i}h1v1h-1z`)));
  const paths = squares.map((d, level) => (level && d ? tag("path", { d, class: "w", "fill-opacity": level / LEVELS }) : ""));
  const place = `translate(${number(x)} ${number(y)}) scale(${number(size / weights.length)})`;
  return tag("g", { transform: place }, paths.join(""));
}

function every({ words, num_heads: heads }, found) {
  const rows = heads <= 6 ? 1 : heads <= 16 ? 2 : 3;
  const columns = Math.ceil(heads / rows);
  const step = BREADTH / Math.max(columns, 6);
  const size = Math.min(step - 7, 146 / rows - 12);
  const parts = [label(EDGE, SMALL - 14, heads > 1 ? fill(words.all_heads, { heads }) : words.one_head, muted)];
  for (const head of range(heads)) {
    const [x, y] = [EDGE + (head % columns) * step + 3, SMALL + Math.floor(head / columns) * (size + 12)];
    const square = { x, y, width: size, height: size };
    parts.push(tag("rect", { ...square, y: y - 4, height: 3, fill: colour(head, heads) }));
    parts.push(tag("rect", { ...square, class: "w", "fill-opacity": FAINT }));
    parts.push(smallMap(found.weights[head], x, y, size));
    const frame = { "fill-opacity": 0, stroke: "currentColor", "stroke-opacity": head === found.head ? 1 : 0 };
    parts.push(tag("rect", { ...square, ...frame, "stroke-width": 1.5, class: "pick", ...chooses(head) }));
  }
  return parts.join("");
}

function cost({ words, num_heads, counted_width }, found) {
  const about = { width: amount(counted_width, words), length: amount(found.n, words), heads: num_heads };
  const parts = [label(EDGE, COUNTS, fill(words.counts, about), muted)];
  COUNTED.forEach((key, line) => {
    const y = COUNTS + 20 + 17 * line;
    parts.push(label(EDGE, y, words[key]));
    parts.push(label(EDGE + 190, y, words[`${key}_formula`], muted));
    parts.push(label(EDGE + BREADTH, y, amount(found[key], words), end));
  });
  const share = found.mixing / (found.mixing + found.projection);
  const bar = { y: COUNTS + 82, height: 8, class: "w" };
  const edge = EDGE + BREADTH * (1 - share);
  parts.push(
    tag("rect", { x: EDGE, width: edge - EDGE, ...bar, "fill-opacity": 0.35 }),
    tag("rect", { x: edge, width: BREADTH * share, ...bar }),
    label(EDGE, COUNTS + 105, fill(words.projection_share, { share: (100 * (1 - share)).toFixed(1) })),
    label(EDGE + BREADTH, COUNTS + 105, fill(words.mixing_share, { share: (100 * share).toFixed(1) }), end),
  );
  return parts.join("");
}

export function picture(state) {
  const found = compute(state);
  return canvas(WIDTH, HEIGHT, [cut, shown, every, cost].map((draw) => draw(state, found)).join(""));
}

function render({ model, el }) {
  const [tokens, words] = ["tokens", "words"].map((name) => model.get(name));
  const numbers = (name) => model.get(name).map((value) => [value, amount(value, words)]);
  // A new number of heads keeps looking at the same columns.
  const recut = (heads) => ({
    head: Math.floor((Math.min(model.get("head"), model.get("num_heads") - 1) * heads) / model.get("num_heads")),
    num_heads: heads,
  });
  const lengths = numbers("length_options").map(([n, text]) => [n, n ? text : words.counted_length_picture]);
  return mount(
    { model, el },
    {
      settings: ["num_heads", "length", "head", "counted_width", "counted_length"],
      data: ["tokens", "q", "k", "trained_heads"],
      controls: [
        choices(model, "num_heads", { text: words.heads_control, options: numbers("head_options"), values: recut }),
        slider(model, "head", {
          text: words.head_control,
          min: 0,
          max: (state) => state.num_heads - 1,
          value: (state) => String(Math.min(state.head, state.num_heads - 1)),
        }),
        slider(model, "length", {
          text: words.length_control,
          min: 2,
          max: tokens.length,
          value: (state) => fill(words.length_value, { length: state.length, full: tokens.length }),
        }),
        select(model, "counted_width", { text: words.width_control, options: numbers("width_options") }),
        select(model, "counted_length", { text: words.counted_length_control, options: lengths }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
