import { canvas, fill, label, mount, number, range, slider, tag, toggle } from "./common.js";

const MOST = 20; // the longest text has 2²⁰ keys
const TRAINED = 10; // scores that grow with the logarithm of n are as given at 2¹⁰ keys
const [WIDTH, HEIGHT] = [430, 282];
const CHART = { left: 46, right: 412, top: 34, bottom: 226 };
const COLOURS = { needle: "#2f8097", largest: "#c8553d" };

// The share of a normal distribution below x, by the series of its integral from 0.
function below(x) {
  let [term, total] = [x, x];
  for (let k = 3; Math.abs(term) > 1e-17 * Math.abs(total); k += 2) {
    term *= (x * x) / k;
    total += term;
  }
  return 0.5 + (total * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI);
}

// The x with that share below it, of a share of one half or more.
function quantile(share) {
  let [low, high] = [0, 9];
  for (let round = 0; round < 60; round++) {
    const middle = (low + high) / 2;
    if (below(middle) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

const needleWeight = (n, margin, spread) => 1 / (1 + (n - 1) * Math.exp(spread ** 2 / 2 - margin));

function largestWeight(n, spread) {
  if (n === 1) return 1;
  const top = quantile(0.5 ** (1 / n));
  const one = (Math.exp(spread ** 2 / 2) * below(top - spread)) / below(top);
  return 1 / (1 + (n - 1) * one * Math.exp(-spread * top));
}

export function compute({ exponent, margin, spread, grows }) {
  const lengths = range(MOST).map((e) => 2 ** (e + 1));
  const factors = range(MOST).map((e) => (grows ? (e + 1) / TRAINED : 1));
  return {
    needle: lengths.map((n, e) => needleWeight(n, factors[e] * margin, factors[e] * spread)),
    largest: lengths.map((n, e) => largestWeight(n - 1, factors[e] * spread)),
    factor: factors[exponent - 1],
  };
}

const spaced = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");

function inPercent(share, words) {
  const whole = 100 * share;
  return whole >= 9.95 ? whole.toFixed(0) : whole >= 0.095 ? whole.toFixed(1) : words.less;
}

export function sentence(state) {
  const { needle, largest, factor } = compute(state);
  const { words, exponent, margin, spread, grows } = state;
  const right = needle[exponent - 1];
  return fill(words.sentence, {
    n: spaced(2 ** exponent),
    margin: number(margin),
    spread: number(spread),
    factor: grows ? fill(words.factor, { factor: factor.toFixed(1) }) : "",
    needle: inPercent(right, words),
    largest: inPercent((1 - right) * largest[exponent - 1], words),
  });
}

export const alt = (state) => fill(state.words.alt, { sentence: sentence(state) });

const across = (exponent) => CHART.left + 12 + ((CHART.right - CHART.left - 30) * (exponent - 1)) / (MOST - 1);
const up = (share) => CHART.bottom - (CHART.bottom - CHART.top) * share;

function axes({ words, exponent }) {
  const { left, right, top, bottom } = CHART;
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    const faint = { stroke: "currentColor", "stroke-opacity": share === 0 ? 0.4 : 0.15 };
    parts.push(tag("path", { d: `M${left} ${number(up(share))}H${right}`, ...faint }));
    parts.push(label(left - 8, up(share) + 4, `${Math.round(100 * share)} %`, { "text-anchor": "end" }));
  }
  const middle = { "text-anchor": "middle" };
  for (const e of [1, 5, 10, 15, 20]) parts.push(label(across(e), bottom + 18, spaced(2 ** e), middle));
  const at = `M${number(across(exponent))} ${top}V${bottom}`;
  parts.push(tag("path", { d: at, stroke: "currentColor", "stroke-opacity": 0.3 }));
  parts.push(label((left + right) / 2, bottom + 42, words.axis, { ...middle, class: "muted" }));
  return parts;
}

export function picture(state) {
  const { words, exponent } = state;
  const found = compute(state);
  const shown = { needle: found.needle, largest: found.largest.map((x, e) => (1 - found.needle[e]) * x) };
  const parts = axes(state);
  Object.entries(COLOURS).forEach(([name, colour], line) => {
    const points = shown[name].map((x, e) => `${number(across(e + 1))} ${number(up(x))}`).join("L");
    const stroke = { fill: "none", stroke: colour, "stroke-width": 2 };
    const dashes = line ? { "stroke-dasharray": "6 3" } : {};
    parts.push(tag("path", { d: `M${points}`, ...stroke, ...dashes }));
    parts.push(tag("circle", { cx: across(exponent), cy: up(shown[name][exponent - 1]), r: 4.5, fill: colour }));
    const left = CHART.left + 190 * line;
    parts.push(tag("path", { d: `M${left} 16h22`, ...stroke, ...dashes }));
    parts.push(label(left + 28, 20, words[`legend_${name}`]));
  });
  const step = across(2) - across(1);
  for (const e of range(MOST)) {
    const column = { x: across(e + 1) - step / 2, y: CHART.top, width: step, height: HEIGHT - CHART.top };
    parts.push(tag("rect", { ...column, "fill-opacity": 0, class: "pick", "data-set": "exponent", "data-value": `${e + 1}` }));
  }
  return canvas(WIDTH, HEIGHT, parts.join(""));
}

function render({ model, el }) {
  const words = model.get("words");
  return mount(
    { model, el },
    {
      settings: ["exponent", "margin", "spread", "grows"],
      data: [],
      controls: [
        slider(model, "exponent", { text: words.exponent_control, min: 1, max: MOST, value: ({ exponent }) => spaced(2 ** exponent) }),
        slider(model, "margin", { text: words.margin_control, min: 0, max: 20, step: 0.5, value: ({ margin }) => number(margin) }),
        slider(model, "spread", { text: words.spread_control, min: 0, max: 3, step: 0.25, value: ({ spread }) => number(spread) }),
        toggle(model, "grows", { text: words.grows_control }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
