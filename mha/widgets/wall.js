import { canvas, choices, digits, fill, label, mount, number, quantity, range, select, stops, tag } from "./common.js";

const [WIDTH, HEIGHT] = [430, 424];
const [EDGE, BREADTH, LINE] = [23, 384, 19];
const ROWS = ["weights", "cache", "working", "prompt_seconds", "core_share", "token_seconds", "reach"];
const [LEFT, TOP, BOTTOM] = [EDGE + 38, 184, 364];
const [LOW, HIGH] = [8, 16]; // powers of ten of the bytes that are drawn
const TICKS = { 8: "100 MB", 10: "10 GB", 12: "1 TB", 14: "100 TB", 16: "10 PB" };
const REMEDIES = ["stored", "fused", "window", "linear"];
const FARTHEST = 2 ** 40;
const ITEMSIZE = 2;
const muted = { class: "muted" };

const seen = ({ window }, remedy, n) => (remedy === "window" ? Math.min(n, window) : n);

function held(state, remedy, n) {
  const { parameters, num_layers, num_heads, num_kv_heads, d_head } = state.models[state.model];
  const cache =
    remedy === "linear"
      ? 4 * num_layers * num_heads * d_head * (d_head + 1)
      : 2 * ITEMSIZE * num_layers * num_kv_heads * d_head * seen(state, remedy, n);
  const working =
    remedy === "stored" ? ITEMSIZE * num_heads * n * (n + Math.max(n, d_head)) : num_heads * n * (ITEMSIZE * d_head + 4);
  return { weights: ITEMSIZE * parameters, cache, working, total: ITEMSIZE * parameters + cache + working };
}

function pairs({ window }, remedy, n) {
  if (remedy === "stored") return n * n;
  const full = remedy === "window" ? Math.min(n, window) : n;
  return (full * (full + 1)) / 2 + (n - full) * full;
}

function reach(state, remedy) {
  const { memory } = state.machines[state.machine];
  let [fits, fails] = [0, FARTHEST];
  while (fails - fits > 1) {
    const middle = Math.floor((fits + fails) / 2);
    if (held(state, remedy, middle).total <= memory) fits = middle;
    else fails = middle;
  }
  return fits;
}

export function compute(state) {
  const { parameters, num_layers, num_heads, num_kv_heads, d_head } = state.models[state.model];
  const { peak, bandwidth } = state.machines[state.machine];
  const [n, remedy] = [state.length, REMEDIES[state.remedy]];
  const { weights, cache, working, total } = held(state, remedy, n);
  const linear = (m) => 4 * m * num_heads * d_head * (d_head + 1);
  const exact = (count) => 4 * count * num_heads * d_head;
  const core = num_layers * (remedy === "linear" ? linear(n) : exact(pairs(state, remedy, n)));
  const step = num_layers * (remedy === "linear" ? linear(1) : exact(seen(state, remedy, n)));
  const prompt_flops = 2 * n * parameters + core;
  const squares = remedy === "stored" ? 4 * num_heads * n * n : 0;
  const moved = weights + num_layers * ITEMSIZE * (2 * n * d_head * (num_heads + num_kv_heads) + squares);
  return {
    weights,
    cache,
    working,
    total,
    prompt_flops,
    prompt_seconds: Math.max(prompt_flops / peak, moved / bandwidth),
    core_share: core / prompt_flops,
    token_seconds: Math.max((2 * parameters + step) / peak, (weights + cache) / bandwidth),
    reach: reach(state, remedy),
    totals: REMEDIES.map((other) => state.lengths.map((m) => held(state, other, m).total)),
  };
}

function about(state, found) {
  const { words, machine, machines, models, model } = state;
  const written = (keys, unit) => Object.fromEntries(keys.map((key) => [key, quantity(found[key], unit)]));
  return {
    ...written(["weights", "cache", "working", "total"], "B"),
    ...written(["prompt_seconds", "token_seconds"], "s"),
    core_share: `${digits(100 * found.core_share)} %`,
    reach: found.reach ? quantity(found.reach, "") : words.nowhere,
    fit: words[found.total <= machines[machine].memory ? "fits" : "fails"],
    model: models[model].name,
    machine: machines[machine].name,
    memory: quantity(machines[machine].memory, "B"),
    remedy: words[REMEDIES[state.remedy]],
    length: state.length,
  };
}

export const sentence = (state) => fill(state.words.sentence, about(state, compute(state)));
export const alt = (state) => `${sentence(state)} ${fill(state.words.settings, about(state, compute(state)))}`;

function rows(state, found) {
  const written = about(state, found);
  const end = { "text-anchor": "end", "font-weight": "700" };
  return ROWS.map((key, line) => {
    const y = 14 + LINE * line;
    return label(EDGE, y, state.words[key]) + label(EDGE + BREADTH, y, written[key], end);
  }).join("");
}

function chart(state, found) {
  const { words, lengths, machines, machine } = state;
  const right = EDGE + BREADTH;
  const [first, last] = [lengths[0], lengths.at(-1)].map(Math.log2);
  const across = (n) => LEFT + ((right - LEFT) * (Math.log2(n) - first)) / (last - first);
  const up = (nbytes) => {
    const power = Math.min(Math.max(Math.log10(nbytes), LOW), HIGH);
    return BOTTOM - ((BOTTOM - TOP) * (power - LOW)) / (HIGH - LOW);
  };
  const parts = [label(EDGE, TOP - 18, words.chart, muted)];
  for (const [power, text] of Object.entries(TICKS)) {
    const y = up(10 ** power);
    parts.push(label(LEFT - 6, y + 4, text, { "text-anchor": "end", "font-size": "10", ...muted }));
    parts.push(tag("path", { d: `M${LEFT} ${number(y)}H${right}`, stroke: "currentColor", "stroke-opacity": 0.12 }));
  }
  const memory = up(machines[machine].memory);
  parts.push(tag("path", { d: `M${LEFT} ${number(memory)}H${right}`, stroke: "currentColor", "stroke-dasharray": "5 4" }));
  parts.push(label(LEFT + 6, memory - 6, about(state, found).memory, muted));
  found.totals.forEach((totals, other) => {
    const corners = totals.map((x, i) => `${number(across(lengths[i]))} ${number(up(x))}`);
    const chosen = other === state.remedy;
    const look = chosen ? { stroke: "#2f8097", "stroke-width": "3" } : { stroke: "currentColor", "stroke-opacity": 0.45 };
    parts.push(tag("path", { d: `M${corners.join("L")}`, fill: "none", ...look }));
  });
  parts.push(tag("circle", { cx: across(state.length), cy: up(found.total), r: 6, class: "w" }));
  for (const i of range(Math.ceil(lengths.length / 3))) {
    const n = lengths[3 * i];
    parts.push(label(across(n), BOTTOM + 18, quantity(n, ""), { "text-anchor": "middle", ...muted }));
  }
  parts.push(label(EDGE, BOTTOM + 42, words.axis, muted));
  return parts.join("");
}

export function picture(state) {
  const found = compute(state);
  return canvas(WIDTH, HEIGHT, rows(state, found) + chart(state, found));
}

function render({ model, el }) {
  const [models, machines, words] = ["models", "machines", "words"].map((name) => model.get(name));
  return mount(
    { model, el },
    {
      settings: ["model", "machine", "length", "remedy"],
      data: ["models", "machines", "lengths", "window"],
      controls: [
        select(model, "model", { text: words.model_control, options: models.map(({ name }, i) => [i, name]) }),
        choices(model, "machine", { text: words.machine_control, options: machines.map(({ name }, i) => [i, name]) }),
        stops(model, "length", {
          text: words.length_control,
          options: (state) => state.lengths,
          now: (state) => state.length,
          value: (state) => String(state.length),
        }),
        choices(model, "remedy", { text: words.remedy_control, options: REMEDIES.map((key, i) => [i, words[key]]) }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
