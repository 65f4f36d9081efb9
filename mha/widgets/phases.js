import { canvas, choices, fill, label, mount, number, range, slider, stops, sum, tag } from "./common.js";

const [WIDTH, HEIGHT] = [430, 452];
const [EDGE, BREADTH, TOP, TALL] = [15, 400, 32, 200];
const [LEFT, RIGHT, HIGH, LOW] = [46, 414, 278, 412];
const COLUMNS = { 8: 4, 16: 4, 32: 6, 64: 8 };
const [FARTHEST, LAST] = [64, 1000];
const [QUERY, KEY] = ["#2f8097", "#c8553d"];

export const grouped = (x) => x.toFixed(0).replace(/\B(?=(\d{3})+$)/g, "\u202f");

// What the hands of position 0 are, to the right and up: a sinusoid is a rotary vector whose hands all begin at the top.
function contents({ q, k, scheme, width }) {
  const pairs = (x) => range(width / 2).map((c) => [x[x.length / 2 + c], x[c]]);
  if (scheme === "sinusoid") return range(2).map(() => range(width / 2).map(() => [0, 1]));
  return [pairs(q), pairs(scheme === "rotary_same" ? q : k)];
}

export function compute(state) {
  const { width, base, position, distance } = state;
  const [query, key] = contents(state);
  const turn = (hands, p) =>
    hands.map(([right, up], c) => {
      const angle = p * base ** ((-2 * c) / width);
      const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
      return [up * sin + right * cos, up * cos - right * sin];
    });
  const product = (a, b) => sum(a.map(([right, up], c) => right * b[c][0] + up * b[c][1]));
  const size = Math.sqrt(product(query, query)) * Math.sqrt(product(key, key));
  const here = turn(query, position);
  const cosines = range(2 * FARTHEST + 1).map((n) => product(here, turn(key, position + n - FARTHEST)) / (size || 1));
  return {
    query: here,
    key: turn(key, position + distance),
    cosines,
    cosine: cosines[distance + FARTHEST],
    shortest: 2 * Math.PI,
    longest: 2 * Math.PI * base ** ((width - 2) / width),
  };
}

export function sentence(state) {
  const found = compute(state);
  return fill(state.words.sentence, {
    shortest: found.shortest.toFixed(1),
    longest: grouped(found.longest),
    distance: number(state.distance),
    cosine: found.cosine.toFixed(2),
  });
}

export function alt(state) {
  const settings = fill(state.words.settings, {
    scheme: state.words[state.scheme],
    pairs: state.width / 2,
    width: state.width,
    base: grouped(state.base),
    first: state.position,
    second: number(state.position + state.distance),
  });
  return `${settings} ${sentence(state)}`;
}

export function picture(state) {
  const found = compute(state);
  return canvas(WIDTH, HEIGHT, clocks(state, found) + chart(state, found));
}

function clocks({ width, position, distance, words }, found) {
  const [columns, pairs] = [COLUMNS[width], width / 2];
  const rows = Math.ceil(pairs / columns);
  const step = Math.min(BREADTH / columns, TALL / rows);
  const longest = Math.max(...[...found.query, ...found.key].map(([right, up]) => Math.sqrt(right * right + up * up))) || 1;
  const at = (p) => fill(words.at, { position: number(p) });
  const bold = { "font-weight": "700" };
  const parts = [
    label(EDGE, 16, at(position), { fill: QUERY, ...bold }),
    label(EDGE + BREADTH, 16, at(position + distance), { fill: KEY, ...bold, "text-anchor": "end" }),
  ];
  for (const c of range(pairs)) {
    const x = EDGE + (BREADTH - columns * step) / 2 + ((c % columns) + 0.5) * step;
    const y = TOP + (TALL - rows * step) / 2 + (Math.floor(c / columns) + 0.5) * step;
    const ring = { fill: "none", stroke: "currentColor", "stroke-opacity": 0.25 };
    parts.push(tag("circle", { cx: x, cy: y, r: 0.44 * step, ...ring }));
    for (const [name, stroke, thick] of [["key", KEY, 2], ["query", QUERY, 2.5]]) {
      const [right, up] = found[name][c].map((part) => (0.42 * step * part) / longest);
      const d = `M${number(x)} ${number(y)}L${number(x + right)} ${number(y - up)}`;
      parts.push(tag("path", { d, stroke, "stroke-width": thick, "stroke-linecap": "round" }));
    }
  }
  return parts.join("");
}

function chart({ distance, words }, { cosines, cosine }) {
  const [end, middle] = [{ "text-anchor": "end" }, { "text-anchor": "middle" }];
  const x = (distance) => LEFT + ((RIGHT - LEFT) * (distance + FARTHEST)) / (2 * FARTHEST);
  const y = (cosine) => LOW - ((LOW - HIGH) * (cosine + 1)) / 2;
  const path = cosines.map((cosine, n) => `${number(x(n - FARTHEST))} ${number(y(cosine))}`).join("L");
  const chosen = `M${number(x(distance))} ${number(y(0))}V${number(y(cosine))}`;
  return [
    label(EDGE, HIGH - 20, words.cosine_axis, { class: "muted" }),
    label(RIGHT, LOW + 34, words.distance_axis, { ...end, class: "muted" }),
    tag("path", { d: `M${LEFT} ${number(y(0))}H${RIGHT}`, stroke: "currentColor", "stroke-opacity": 0.3 }),
    tag("path", { d: `M${path}`, fill: "none", stroke: QUERY, "stroke-width": 1.6 }),
    tag("path", { d: chosen, fill: "none", stroke: KEY, "stroke-dasharray": "4 3" }),
    tag("circle", { cx: x(distance), cy: y(cosine), r: 5, fill: KEY }),
    ...[-1, 0, 1].map((cosine) => label(LEFT - 8, y(cosine) + 4, number(cosine), end)),
    ...[-FARTHEST, 0, FARTHEST].map((distance) => label(x(distance), LOW + 18, number(distance), middle)),
  ].join("");
}

function render({ model, el }) {
  const words = model.get("words");
  const scheme = (name) => [name, words[name]];
  return mount(
    { model, el },
    {
      settings: ["scheme", "width", "base", "position", "distance"],
      data: ["q", "k", "width_options", "base_options"],
      first: [
        choices(model, "scheme", { text: words.scheme_control, options: ["sinusoid", "rotary_same", "rotary_other"].map(scheme) }),
      ],
      controls: [
        slider(model, "position", { text: words.position_control, min: 0, max: LAST, value: (state) => number(state.position) }),
        slider(model, "distance", { text: words.distance_control, min: -FARTHEST, max: FARTHEST, value: (state) => number(state.distance) }),
        stops(model, "width", {
          text: words.width_control,
          options: (state) => state.width_options,
          now: (state) => state.width,
          value: (state) => number(state.width),
        }),
        stops(model, "base", {
          text: words.base_control,
          options: (state) => state.base_options,
          now: (state) => state.base,
          value: (state) => grouped(state.base),
        }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
