import { FAINT, canvas, choices, digits, fill, label, mount, number, quantity, range, select, stops, tag } from "./common.js";

const [WIDTH, HEIGHT] = [430, 384];
const [EDGE, BREADTH, LINE] = [23, 384, 19];
const UNITS = {
  parameters: "",
  prompt_flops: "FLOP",
  score_bytes: "B",
  cache_bytes: "B",
  step_flops: "FLOP",
  step_bytes: "B",
  step_seconds: "s",
};
const [BAR, AXIS, ROOF] = [180, 334, 240];
const POINTS = ["step", "composed", "fused"];
const [LOW, HIGH] = [-1, 5]; // powers of ten of the intensities that are drawn
const TICKS = { "-1": "0.1", 0: "1", 1: "10", 2: "100", 3: "10³", 4: "10⁴", 5: "10⁵" };
const end = { "text-anchor": "end" };
const muted = { class: "muted" };
const bold = { "font-weight": "700" };

const largest = (options, limit) => options.findLast((option) => option <= limit) ?? options[0];
const divisors = (heads) => range(heads).map((i) => i + 1).filter((g) => heads % g === 0);
const split = ({ models, model, num_heads, num_kv_heads }) => {
  const heads = largest(models[model].head_options, num_heads);
  return { heads, groups: largest(divisors(heads), num_kv_heads), d_head: models[model].width / heads };
};

// Counts go beyond 2^53, so they are BigInt until they are written.
export function compute(state) {
  const { models, model, machine } = state;
  const { heads, groups, d_head } = split(state);
  const [layers, d_model, h, g, d] = [models[model].num_layers, models[model].d_model, heads, groups, d_head].map(BigInt);
  const [n, batch, size] = [state.length, state.batch, state.itemsize].map(BigInt);

  const parameters = layers * (2n * d_model * h * d + 2n * d_model * g * d);
  const pairs = (n * (n + 1n)) / 2n;
  const core = 4n * pairs * h * d;
  const prompt_flops = batch * (2n * n * parameters + layers * core);
  const step_flops = batch * (2n * parameters + layers * 4n * n * h * d);
  const cache_bytes = 2n * n * g * d * layers * batch * size;
  const step_bytes = parameters * size + cache_bytes;
  const passed_once = size * (2n * n * h * d + 2n * n * g * d);
  const counts = { parameters, prompt_flops, score_bytes: batch * h * n * n * size, cache_bytes, step_flops, step_bytes };
  return {
    heads,
    groups,
    d_head,
    ...Object.fromEntries(Object.entries(counts).map(([key, value]) => [key, String(value)])),
    step_seconds: Math.max(Number(step_flops) / machine.peak, Number(step_bytes) / machine.bandwidth),
    held: Number(step_bytes) / machine.memory,
    ridge: machine.peak / machine.bandwidth,
    step: Number(step_flops) / Number(step_bytes),
    composed: Number(core) / Number(passed_once + 4n * h * n * n * size),
    fused: Number(core) / Number(passed_once),
  };
}

function about(state, found) {
  const { words, machine, length, batch, itemsize } = state;
  const { name, d_model, num_layers } = state.models[state.model];
  return {
    ...found,
    ...Object.fromEntries(Object.entries(UNITS).map(([key, unit]) => [key, quantity(found[key], unit)])),
    model: name,
    layers: num_layers,
    d_model,
    length,
    batch,
    machine: machine.name,
    step: digits(found.step),
    ridge: digits(found.ridge),
    bound: found.step >= found.ridge ? words.arithmetic : words.bandwidth,
    dtype: words[`itemsize_${itemsize}`],
  };
}

export const sentence = (state) => fill(state.words.sentence, about(state, compute(state)));
export const alt = (state) => `${sentence(state)} ${fill(state.words.settings, about(state, compute(state)))}`;

function counts(state, found) {
  const written = about(state, found);
  const parts = [label(EDGE, 14, fill(state.words.split, written), muted)];
  Object.keys(UNITS).forEach((key, line) => {
    const y = 38 + LINE * line;
    parts.push(label(EDGE, y, state.words[key]), label(EDGE + BREADTH, y, written[key], { ...end, ...bold }));
  });
  return parts.join("");
}

function filled({ words, machine }, found) {
  const box = { x: EDGE, y: BAR + 8, height: 8, class: "w" };
  const taken = { share: digits(100 * found.held), memory: quantity(machine.memory, "B"), machine: machine.name };
  return (
    tag("rect", { ...box, width: BREADTH, "fill-opacity": FAINT }) +
    tag("rect", { ...box, width: BREADTH * Math.min(found.held, 1) }) +
    label(EDGE, BAR, fill(words.held, taken), muted)
  );
}

function roof(state, found) {
  const { words } = state;
  const [left, right] = [EDGE + 140, EDGE + BREADTH - 60];
  const place = (intensity) => left + ((right - left) * (Math.min(Math.max(Math.log10(intensity), LOW), HIGH) - LOW)) / (HIGH - LOW);
  const ridge = place(found.ridge);
  const band = { y: ROOF + 8, height: AXIS - ROOF - 8, class: "w", "fill-opacity": FAINT };
  const parts = [
    tag("rect", { x: left, width: ridge - left, ...band }),
    tag("path", { d: `M${number(ridge)} ${ROOF + 8}V${AXIS}`, stroke: "currentColor" }),
    label(EDGE, ROOF - 16, words.intensity, muted),
    label(ridge - 6, ROOF + 1, words.bandwidth_side, { ...end, ...muted }),
    label(ridge + 6, ROOF + 1, words.arithmetic_side, muted),
  ];
  POINTS.forEach((key, line) => {
    const [y, x] = [ROOF + 28 + 24 * line, place(found[key])];
    parts.push(
      label(EDGE, y + 4, words[`${key}_point`]),
      tag("path", { d: `M${number(left)} ${y}H${number(x)}`, stroke: "currentColor", "stroke-opacity": 0.35 }),
      tag("circle", { cx: x, cy: y, r: 5, class: "w" }),
      label(EDGE + BREADTH, y + 4, digits(found[key]), { ...end, ...bold }),
    );
  });
  for (const power of range(HIGH - LOW + 1).map((i) => LOW + i)) {
    const x = place(10 ** power);
    parts.push(tag("path", { d: `M${number(x)} ${AXIS}v4`, stroke: "currentColor" }));
    parts.push(label(x, AXIS + 17, TICKS[power], { "text-anchor": "middle", ...muted }));
  }
  parts.push(tag("path", { d: `M${left} ${AXIS}H${right}`, stroke: "currentColor" }));
  parts.push(label(EDGE, AXIS + 40, fill(words.ridge, { machine: state.machine.name, ridge: digits(found.ridge) }), muted));
  return parts.join("");
}

export function picture(state) {
  const found = compute(state);
  return canvas(WIDTH, HEIGHT, [counts, filled, roof].map((draw) => draw(state, found)).join(""));
}

function render({ model, el }) {
  const [models, words] = ["models", "words"].map((name) => model.get(name));
  const published = (chosen) => {
    const { num_heads, num_kv_heads } = models[chosen];
    return { model: chosen, num_heads, num_kv_heads };
  };
  // Heads with keys of their own keep them when their number changes.
  const recut = (heads) => {
    const before = split(Object.fromEntries(["models", "model", "num_heads", "num_kv_heads"].map((name) => [name, model.get(name)])));
    return { num_heads: heads, ...(before.groups === before.heads ? { num_kv_heads: heads } : {}) };
  };
  const listed = (name, options) => ({
    text: words[`${name}_control`],
    options: (state) => state[options],
    now: (state) => state[name],
    value: (state) => String(state[name]),
  });
  return mount(
    { model, el },
    {
      settings: ["model", "num_heads", "num_kv_heads", "length", "batch", "itemsize"],
      data: ["models", "machine", "lengths", "batches", "itemsizes"],
      controls: [
        select(model, "model", {
          text: words.model_control,
          options: models.map(({ name }, i) => [i, name]),
          values: published,
        }),
        stops(model, "num_heads", {
          text: words.heads_control,
          options: (state) => state.models[state.model].head_options,
          now: (state) => split(state).heads,
          value: (state) => String(split(state).heads),
          values: recut,
        }),
        stops(model, "num_kv_heads", {
          text: words.groups_control,
          options: (state) => divisors(split(state).heads),
          now: (state) => split(state).groups,
          value: (state) => String(split(state).groups),
        }),
        stops(model, "length", listed("length", "lengths")),
        stops(model, "batch", listed("batch", "batches")),
        choices(model, "itemsize", {
          text: words.itemsize_control,
          options: model.get("itemsizes").map((size) => [size, words[`itemsize_${size}`]]),
        }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
