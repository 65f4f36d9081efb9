import { canvas, choices, fill, label, mount, number, percent, range, slider, tag } from "./common.js";

const [WIDTH, HEIGHT] = [430, 508];
const [EDGE, BREADTH] = [12, 406];
const [PANEL, GAP, BASE, RISE] = [195, 16, 150, 96];
const [LEFT, RIGHT, TOP, BOTTOM] = [46, 418, 318, 440];
const KINDS = ["attention", "feed_forward"];
const [RED, BLUE] = ["#c8553d", "#2f8097"];

const end = { "text-anchor": "end" };
const muted = { class: "muted" };
const degrees = (radians) => (180 * radians) / Math.PI;
const whole = (x) => Math.floor(x + 0.5);
const amount = (x) => x.toFixed(x < 10 ? 2 : x < 100 ? 1 : 0);
const superscript = (power) => [...String(power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
const blocksOf = (model) => model.added_norm.length / 2;

export function compute(state) {
  const model = state.models[state.model];
  const block = Math.min(state.block, blocksOf(model) - 1);
  const token = Math.min(state.token, model.tokens.length - 1);
  const column = (rows) => rows.map((row) => row[token]);
  const [norms, additions, cosines, starts] = [model.norm, model.added_norm, model.added_cosine, model.start_cosine].map(column);
  const first = 2 * block;
  const [before, added] = [norms, additions].map((row) => row.slice(first, first + 2));
  const cosine = cosines.slice(first, first + 2).map((x) => Math.min(1, Math.max(-1, x)));
  const along = before.map((x, k) => x + added[k] * cosine[k]);
  const across = added.map((x, k) => x * Math.sqrt(1 - cosine[k] ** 2));
  return {
    block,
    token,
    before,
    added,
    angle: cosine.map((x) => degrees(Math.acos(x))),
    along,
    across,
    sum: along.map((x, k) => Math.hypot(x, across[k])),
    turn: along.map((x, k) => degrees(Math.atan2(across[k], x))),
    after: norms.slice(first + 1, first + 3),
    start: starts[first + 2],
    norms,
    additions,
  };
}

export function sentence(state) {
  const [found, model, words] = [compute(state), state.models[state.model], state.words];
  const steps = KINDS.map((_, k) =>
    fill(words.step, {
      kind: [words.told_attention, words.told_feed_forward][k],
      added: amount(found.added[k]),
      before: amount(found.before[k]),
      turn: whole(found.turn[k]),
    }),
  );
  const place = fill(words.place, { token: model.tokens[found.token], block: found.block, model: model.name });
  const last = fill(words.end, { after: amount(found.after[1]), cosine: found.start.toFixed(2) });
  return [place, ...steps, words[`told_${model.order}`], last].join(" ");
}

export const alt = (state) => `${state.words.settings} ${sentence(state)}`;

export function picture(state) {
  const found = compute(state);
  const panels = KINDS.map((_, k) => panel(state, found, k)).join("");
  return canvas(WIDTH, HEIGHT, head(state, found) + panels + chart(state, found));
}

function head({ models, model, words }, { block }) {
  const title = fill(words.title, { block, last: blocksOf(models[model]) - 1 });
  return label(EDGE, 16, title, { "font-weight": "700" }) + label(EDGE + BREADTH, 16, { pre: words.pre, post: words.post }[models[model].order], { ...end, ...muted });
}

function panel({ models, model, words }, found, k) {
  const x = EDGE + k * (PANEL + GAP);
  const [before, added, along, across] = [found.before, found.added, found.along, found.across].map((values) => values[k]);
  const wide = Math.max(before, along) - Math.min(along, 0);
  const scale = Math.min((PANEL - 12) / wide, RISE / Math.max(across, 1e-9 * wide));
  const origin = x + 6 - Math.min(along, 0) * scale;
  const tip = origin + before * scale;
  const [endX, endY] = [origin + along * scale, BASE - across * scale];
  const rows = [
    [words.stream, amount(before)],
    [words.adds, fill(words.share, { added: amount(added), share: percent(added / before) }), RED],
    [words.angle, fill(words.degrees, { angle: whole(found.angle[k]) })],
    [words.sum, amount(found.sum[k]), BLUE],
    [words[`after_${models[model].order}`], amount(found.after[k])],
  ];
  const lines = rows.map(([name, value, ink], line) => {
    const y = BASE + 28 + 19 * line;
    return label(x, y, name, muted) + label(x + PANEL, y, value, ink ? { ...end, fill: ink } : end);
  });
  return [
    label(x, 40, [words.attention, words.feed_forward][k], { "font-weight": "700" }),
    arrow(origin, BASE, tip, BASE, "currentColor"),
    arrow(tip, BASE, endX, endY, RED),
    arrow(origin, BASE, endX, endY, BLUE),
    ...lines,
  ].join("");
}

function chart({ words }, { norms, additions, block }) {
  const all = [...norms, ...additions];
  const [low, high] = [Math.floor(Math.log10(Math.min(...all))), Math.ceil(Math.log10(Math.max(...all)))];
  const step = (RIGHT - LEFT) / additions.length;
  const y = (length) => BOTTOM - ((BOTTOM - TOP) * (Math.log10(length) - low)) / (high - low);
  const box = { y: TOP, height: BOTTOM - TOP, width: 2 * step, stroke: "none" };
  const parts = [
    label(EDGE, TOP - 18, words.chart, muted),
    tag("rect", { x: LEFT + step * 2 * block, ...box, fill: "currentColor", "fill-opacity": 0.12 }),
  ];
  for (let power = low; power <= high; power++) {
    const height = y(10 ** power);
    const written = power < 4 ? number(10 ** power) : `10${superscript(power)}`;
    parts.push(tag("path", { d: `M${LEFT} ${number(height)}H${RIGHT}`, stroke: "currentColor", "stroke-opacity": 0.25 }));
    parts.push(label(LEFT - 6, height + 4, written, end));
  }
  const path = norms.map((value, n) => `${number(LEFT + n * step)} ${number(y(value))}`).join("L");
  parts.push(tag("path", { d: `M${path}`, fill: "none", stroke: BLUE, "stroke-width": 2 }));
  additions.forEach((value, n) => {
    const look = n % 2 === 0 ? { fill: RED } : { fill: "none", stroke: RED, "stroke-width": 1.2 };
    parts.push(tag("circle", { cx: LEFT + (n + 0.5) * step, cy: y(value), r: 2.6, ...look }));
  });
  const blocks = additions.length / 2;
  const every = blocks <= 12 ? 1 : 5;
  for (const n of range(blocks)) {
    if (n % every === 0) parts.push(label(LEFT + (2 * n + 1) * step, BOTTOM + 18, String(n), { "text-anchor": "middle" }));
    const hit = { x: LEFT + 2 * n * step, ...box, fill: "transparent", class: "pick" };
    parts.push(tag("rect", { ...hit, "data-set": "block", "data-value": String(n) }));
  }
  parts.push(label(RIGHT, BOTTOM + 36, words.blocks_axis, { ...end, ...muted }));
  return parts.join("") + legend(words);
}

function legend(words) {
  const y = BOTTOM + 56;
  return [
    tag("path", { d: `M${EDGE} ${y - 4}h18`, stroke: BLUE, "stroke-width": 2 }),
    label(EDGE + 24, y, words.legend_stream),
    tag("circle", { cx: EDGE + 132, cy: y - 4, r: 2.6, fill: RED }),
    label(EDGE + 140, y, words.legend_attention),
    tag("circle", { cx: EDGE + 262, cy: y - 4, r: 2.6, fill: "none", stroke: RED }),
    label(EDGE + 270, y, words.legend_feed_forward),
  ].join("");
}

// A short arrow has a short head.
function arrow(x1, y1, x2, y2, ink) {
  const length = Math.hypot(x2 - x1, y2 - y1);
  const size = Math.min(8, length);
  const [alongX, alongY] = length > 0 ? [(x2 - x1) / length, (y2 - y1) / length] : [1, 0];
  const [neckX, neckY] = [x2 - size * alongX, y2 - size * alongY];
  const [sideX, sideY] = [(-alongY * size) / 2.5, (alongX * size) / 2.5];
  const tips = [
    [x2, y2],
    [neckX + sideX, neckY + sideY],
    [neckX - sideX, neckY - sideY],
  ];
  const corners = tips.map(([x, y]) => `${number(x)} ${number(y)}`).join("L");
  const shaft = `M${number(x1)} ${number(y1)}L${number(neckX)} ${number(neckY)}`;
  return (
    tag("path", { d: shaft, stroke: ink, "stroke-width": 2.5, fill: "none" }) + tag("path", { d: `M${corners}z`, fill: ink })
  );
}

function render({ model, el }) {
  const [models, words] = ["models", "words"].map((name) => model.get(name));
  const shown = (state) => models[state.model];
  const lastBlock = (state) => blocksOf(shown(state)) - 1;
  const most = (state) => shown(state).tokens.length - 1;
  return mount(
    { model, el },
    {
      settings: ["model", "block", "token"],
      data: ["models"],
      controls: [
        choices(model, "model", { text: words.model_control, options: models.map(({ name }, i) => [i, name]) }),
        slider(model, "token", {
          text: words.token_control,
          min: 0,
          max: most,
          value: (state) => shown(state).tokens[Math.min(state.token, most(state))],
        }),
        slider(model, "block", {
          text: words.block_control,
          min: 0,
          max: lastBlock,
          value: (state) => String(Math.min(state.block, lastBlock(state))),
        }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
