import { FAINT, canvas, fill, label, mount, number, range, slider, softmax, stops, sum, tag, toggle } from "./common.js";

const COUNTS = [8, 16, 32, 64, 128, 256];
const [WIDTH, HEIGHT, MARGIN] = [430, 432, 34];
const [MAP, MAP_TOP, GAP] = [168, 30, 26];
const CHART = { left: 58, right: 412, top: 236, bottom: 388 };
const [LOWEST, HIGHEST] = [0.01, 2]; // errors that the chart shows
const KINDS = ["independent", "orthogonal"];

const dot = (x, y) => sum(x.map((value, c) => value * y[c]));
const squares = (rows) => sum(rows.flat().map((x) => x ** 2));
const kindOf = ({ orthogonal }) => KINDS[Number(orthogonal)];
const otherOf = ({ orthogonal }) => KINDS[Number(!orthogonal)];

function atLength(rows, norm) {
  return rows.map((row) => {
    const length = Math.sqrt(dot(row, row));
    return row.map((x) => (norm * x) / length);
  });
}

// e^(w·x − |x|²/2) for each direction w; the root of their number cancels in the weights.
const positiveFeatures = (rows, directions) => rows.map((x) => directions.map((w) => Math.exp(dot(w, x) - dot(x, x) / 2)));

function weightsOf(qFeatures, kFeatures) {
  return qFeatures.map((query) => {
    const products = kFeatures.map((key) => dot(query, key));
    const total = sum(products);
    return products.map((x) => x / total);
  });
}

// The root mean square over all draws of so many features, relative to the exact weights.
function errorsOf(exact, qFeatures, kFeatures) {
  return COUNTS.map((count) => {
    const draws = range(COUNTS.at(-1) / count).map((draw) => {
      const part = (rows) => rows.map((row) => row.slice(draw * count, (draw + 1) * count));
      const found = weightsOf(part(qFeatures), part(kFeatures));
      return squares(found.map((row, i) => row.map((x, j) => x - exact[i][j])));
    });
    return Math.sqrt(sum(draws) / draws.length / squares(exact));
  });
}

export function compute(state) {
  const [q, k] = [state.q, state.k].map((rows) => atLength(rows, state.norm_tenths / 10));
  const exact = q.map((query) => softmax(k.map((key) => dot(query, key))));
  const drawn = { independent: state.independent, orthogonal: state.blocks };
  const featuresOf = (kind) => [q, k].map((rows) => positiveFeatures(rows, drawn[kind]));
  const errors = Object.fromEntries(KINDS.map((kind) => [kind, errorsOf(exact, ...featuresOf(kind))]));
  const first = featuresOf(kindOf(state)).map((rows) => rows.map((row) => row.slice(0, state.features)));
  const at = COUNTS.indexOf(state.features);
  const [error, other] = [errors[kindOf(state)][at], errors[otherOf(state)][at]];
  return { exact, estimated: weightsOf(...first), ...errors, error, other };
}

const written = (share) => (100 * share).toFixed(share >= 0.0995 ? 0 : 1);

export function sentence(state) {
  const { error, other } = compute(state);
  const { features, words } = state;
  return fill(words.sentence, {
    features,
    norm: number(state.norm_tenths / 10),
    kind: words[kindOf(state)],
    other_kind: words[otherOf(state)],
    error: written(error),
    other: written(other),
    draws: COUNTS.at(-1) / features,
  });
}

export function alt(state) {
  const told = fill(state.words.settings, { n: state.q.length, d: state.q[0].length, directions: COUNTS.at(-1) });
  return `${told} ${sentence(state)}`;
}

function height(error) {
  const share = Math.log(Math.min(Math.max(error, LOWEST), HIGHEST) / LOWEST) / Math.log(HIGHEST / LOWEST);
  return CHART.bottom - share * (CHART.bottom - CHART.top);
}

const across = (count) => CHART.left + (COUNTS.indexOf(count) / (COUNTS.length - 1)) * (CHART.right - CHART.left);

function map(weights, words, at) {
  const left = MARGIN + at * (MAP + GAP);
  const cell = MAP / weights.length;
  const cells = weights.flatMap((row, i) =>
    row.map((weight, j) => {
      const box = { x: left + j * cell + 0.5, y: MAP_TOP + i * cell + 0.5, width: cell - 1, height: cell - 1 };
      return tag("rect", { ...box, class: "w", "fill-opacity": FAINT + (1 - FAINT) * weight });
    }),
  );
  return label(left, MAP_TOP - 10, words, { class: "muted" }) + cells.join("");
}

function curve(errors, kind, chosen) {
  const points = COUNTS.map((count, i) => `${number(across(count))},${number(height(errors[i]))}`).join(" ");
  const look = { fill: "none", stroke: "currentColor", "stroke-width": chosen ? 2.4 : 1.2 };
  return tag("polyline", { points, ...look, "stroke-dasharray": kind === "orthogonal" ? "none" : "5 3" });
}

function chart(state, found) {
  const { words, features } = state;
  const parts = [label(CHART.left, CHART.top - 10, words.error_axis, { class: "muted" })];
  for (const error of [0.01, 0.1, 1]) {
    const y = height(error);
    const line = { d: `M${CHART.left} ${number(y)}H${CHART.right}`, stroke: "currentColor", "stroke-opacity": 0.15 };
    parts.push(tag("path", line), label(CHART.left - 6, y + 4, `${written(error)} %`, { "text-anchor": "end" }));
  }
  for (const count of COUNTS) parts.push(label(across(count), CHART.bottom + 18, `${count}`, { "text-anchor": "middle" }));
  const middle = { "text-anchor": "middle", class: "muted" };
  parts.push(label((CHART.left + CHART.right) / 2, CHART.bottom + 38, words.axis, middle));
  parts.push(...KINDS.map((kind) => curve(found[kind], kind, kind === kindOf(state))));
  parts.push(tag("circle", { cx: across(features), cy: height(found.error), r: 6, class: "w" }));
  const step = (CHART.right - CHART.left) / (COUNTS.length - 1);
  for (const count of COUNTS) {
    const box = { x: across(count) - step / 2, y: CHART.top, width: step, height: CHART.bottom - CHART.top + 24 };
    parts.push(tag("rect", { ...box, "fill-opacity": 0, class: "pick", "data-set": "features", "data-value": `${count}` }));
  }
  return parts.join("");
}

export function picture(state) {
  const found = compute(state);
  const maps = ["exact", "estimated"].map((name, at) => map(found[name], state.words[name], at));
  return canvas(WIDTH, HEIGHT, maps.join("") + chart(state, found));
}

function render({ model, el }) {
  const words = model.get("words");
  return mount(
    { model, el },
    {
      settings: ["features", "norm_tenths", "orthogonal"],
      data: ["q", "k", "independent", "blocks"],
      controls: [
        stops(model, "features", {
          text: words.features_control,
          options: () => COUNTS,
          now: ({ features }) => features,
          value: ({ features }) => `${features}`,
        }),
        slider(model, "norm_tenths", {
          text: words.norm_control,
          min: 2,
          max: 30,
          value: ({ norm_tenths }) => number(norm_tenths / 10),
        }),
        toggle(model, "orthogonal", { text: words.orthogonal_control }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
