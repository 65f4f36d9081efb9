import { FAINT, canvas, choices, fill, label, mount, percent, range, shorten, slider, sum, tag } from "./common.js";

const [WIDTH, LEFT, SIZE] = [430, 74, 342];
const [TOP, TALL] = [44, 60];
const SAME = 1e-9; // weights closer than this share the first place, so that Python and JavaScript agree on it
const end = { "text-anchor": "end" };
const weight = (chosen) => ({ "font-weight": chosen ? "700" : "400" });

export function compute({ weights: all, model }) {
  const weights = all[model];
  const tops = weights.map((row) => Math.max(...row));
  const best = weights.map((row, i) => row.findIndex((share) => share >= tops[i] - SAME));
  return { weights, best, mean: sum(tops) / tops.length };
}

export function sentence(state) {
  const { weights, best, mean } = compute(state);
  const { words, names, model, step: i, written, source } = state;
  const j = best[i];
  return fill(words.sentence, {
    model: names[model],
    i,
    written: written[i],
    j,
    source: source[j],
    share: percent(weights[i][j]),
    mean: percent(mean),
  });
}

export const alt = (state) =>
  fill(state.words.alt, { sentence: sentence(state), steps: state.written.length, places: state.source.length });

function map({ words, names, model, step, written }, { weights }, wide, high, size) {
  const parts = [
    label(LEFT, 16, names[model], { "font-weight": "700" }),
    label(LEFT - 8, TOP - 10, `${words.written} ↓`, { ...end, class: "muted" }),
  ];
  weights.forEach((row, i) => {
    row.forEach((share, j) => {
      const box = { x: LEFT + j * wide + 0.5, y: TOP + i * high + 0.5, width: wide - 1, height: high - 1 };
      parts.push(tag("rect", { ...box, class: "w", "fill-opacity": FAINT + (1 - FAINT) * share }));
    });
    const strong = { ...end, "font-size": size, ...weight(i === step) };
    parts.push(label(LEFT - 8, TOP + (i + 0.5) * high + 0.35 * size, shorten(written[i]), strong));
  });
  const row = { x: LEFT - 1, y: TOP + step * high - 1, width: SIZE + 2, height: high + 2, rx: 2 };
  parts.push(tag("rect", { ...row, fill: "none", stroke: "currentColor", "stroke-width": 2 }));
  for (const i of range(written.length)) {
    const box = { x: 0, y: TOP + i * high, width: LEFT + SIZE, height: high, "fill-opacity": 0 };
    parts.push(tag("rect", { ...box, class: "pick", "data-set": "step", "data-value": String(i) }));
  }
  return parts.join("");
}

function bars({ words, step, source }, { weights, best }, wide, size) {
  const base = TOP + SIZE + 22 + TALL;
  const parts = [
    label(LEFT - 8, base - TALL + 12, words.weight, { ...end, class: "muted" }),
    label(LEFT - 8, base + 16, `${words.source} →`, { ...end, class: "muted" }),
  ];
  weights[step].forEach((share, j) => {
    const [x, tall] = [LEFT + (j + 0.5) * wide, TALL * share];
    const middle = { "text-anchor": "middle", ...weight(j === best[step]) };
    const box = { x: x - 0.4 * wide, y: base - tall, width: 0.8 * wide, height: tall, class: "w" };
    parts.push(
      tag("rect", box),
      label(x, base - tall - 4, String(percent(share)), { ...middle, "font-size": Math.min(10, 0.58 * wide) }),
      label(x, base + 15, shorten(source[j]), { ...middle, "font-size": size }),
    );
  });
  parts.push(tag("path", { d: `M${LEFT} ${base}h${SIZE}`, stroke: "currentColor", "stroke-opacity": 0.5 }));
  return parts.join("");
}

export function picture(state) {
  const found = compute(state);
  const [wide, high] = [SIZE / state.source.length, SIZE / state.written.length];
  const size = Math.min(12, 0.85 * Math.min(wide, high));
  return canvas(WIDTH, TOP + SIZE + TALL + 62, map(state, found, wide, high, size) + bars(state, found, wide, size));
}

function render({ model, el }) {
  const [words, names, written] = ["words", "names", "written"].map((key) => model.get(key));
  return mount(
    { model, el },
    {
      settings: ["model", "step"],
      data: ["source", "written", "names", "weights"],
      first: [choices(model, "model", { text: words.model_control, options: names.map((name, i) => [i, name]) })],
      controls: [
        slider(model, "step", {
          text: words.step_control,
          min: 0,
          max: written.length - 1,
          value: ({ step }) => `${step}: ${written[step]}`,
        }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
