import { canvas, fill, label, mount, number, range, select, shorten, tag } from "./common.js";

const [WIDTH, ROW, TOP] = [430, 26, 52];
const [LEFT, PANEL, GAP] = [84, 160, 18];
const METHODS = [
  "last_layer",
  "mean_map",
  "value_norms",
  "rollout",
  "flow",
  "gradient_weights",
  "gradient_input",
  "integrated_gradients",
  "leave_one_out",
];
const MODELS = ["trained", "shuffled"];
const RED = "#c8553d";

export function compute(state) {
  const [trained, shuffled] = range(MODELS.length).map((model) => state.scores[METHODS.indexOf(state.method)][model][state.sentence_number]);
  const first = [trained, shuffled].map((row) => {
    const sizes = row.slice(1).map(Math.abs); // not of the start token
    return 1 + sizes.indexOf(Math.max(...sizes));
  });
  return { trained, shuffled, first };
}

export function sentence(state) {
  const [trained, shuffled] = compute(state).first.map((place) => state.tokens[state.sentence_number][place]);
  const text = state.sentences[state.sentence_number];
  return fill(state.words.sentence, { text, method: state.words[state.method], trained, shuffled });
}

export function alt(state) {
  const found = compute(state);
  const told = MODELS.map((model) => {
    const scores = state.tokens[state.sentence_number].map((token, n) => `${token} ${found[model][n].toFixed(2)}`).join(", ");
    return fill(state.words.told, { model: state.words[model], scores });
  });
  return `${sentence(state)} ${told.join(" ")}`;
}

export function picture(state) {
  const found = compute(state);
  const tokens = state.tokens[state.sentence_number];
  const names = tokens.map((token, n) => label(LEFT - 8, TOP + ROW * n + 15, token, { "text-anchor": "end" }));
  const panels = MODELS.map((model, side) => {
    const x = LEFT + side * (PANEL + GAP);
    const title = label(x + PANEL / 2, 20, state.words[model], { "text-anchor": "middle", "font-weight": "700" });
    return title + bars(x, found[model], found.first[side]);
  });
  return canvas(WIDTH, TOP + ROW * tokens.length, [...names, ...panels].join(""));
}

// Signed bars from the middle of a panel, or from its left edge if none is negative.
function bars(x, shares, first) {
  const signed = Math.min(...shares) < 0;
  const [zero, full] = signed ? [x + PANEL / 2, PANEL / 2 - 34] : [x, PANEL - 34];
  const bottom = TOP + ROW * shares.length;
  const axis = tag("path", { d: `M${number(zero)} ${TOP - 4}V${bottom - 4}`, stroke: "currentColor", "stroke-opacity": 0.4 });
  const rows = shares.map((share, n) => {
    const [y, width] = [TOP + ROW * n, Math.abs(share) * full];
    const box = { x: share < 0 ? zero - width : zero, y: y + 3, width, height: ROW - 12 };
    const paint = share < 0 ? { fill: RED } : { class: "w" };
    const end = share < 0 ? { "text-anchor": "end" } : {};
    const bold = n === first ? { "font-weight": "700" } : { class: "muted" };
    const place = share < 0 ? zero - width - 5 : zero + width + 5;
    return tag("rect", { ...box, ...paint }) + label(place, y + 14, share.toFixed(2), { ...end, ...bold });
  });
  return [axis, ...rows].join("");
}

function render({ model, el }) {
  const words = model.get("words");
  const texts = model.get("sentences").map((text, n) => [n, shorten(text, 40)]);
  return mount(
    { model, el },
    {
      settings: ["sentence_number", "method"],
      data: ["sentences", "tokens", "scores"],
      first: [select(model, "sentence_number", { text: words.sentence_control, options: texts })],
      controls: [select(model, "method", { text: words.method_control, options: METHODS.map((method) => [method, words[method]]) })],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
