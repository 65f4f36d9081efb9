import { canvas, fill, label, mount, number, percent, range, slider, softmax, sum, tag } from "./common.js";

const [WIDTH, HEIGHT] = [430, 408];
const [CENTRE_X, CENTRE_Y, RADIUS] = [215, 122, 82];
const [LEFT, RIGHT, TOP, BASE] = [46, 414, 262, 372];
const [EDGE, POINTS] = [8, 96];
const [LEAST, MOST] = [0.02, 4];

const onCircle = (place, period) => [Math.sin((2 * Math.PI * place) / period), Math.cos((2 * Math.PI * place) / period)];

export function compute({ places, values, period, query, temperature }) {
  const keys = places.map((place) => onCircle(place, period));
  const weigh = (place) => {
    const [x, y] = onCircle(place, period);
    return softmax(keys.map(([a, b]) => (x * a + y * b) / temperature));
  };
  const mix = (weights) => sum(weights.map((weight, j) => weight * values[j]));
  const weights = weigh(query);
  return { weights, answer: mix(weights), curve: range(POINTS + 1).map((n) => mix(weigh((period * n) / POINTS))) };
}

export function sentence(state) {
  const { weights, answer } = compute(state);
  const best = weights.indexOf(Math.max(...weights));
  return fill(state.words.sentence, {
    query: number(state.query),
    temperature: state.temperature.toFixed(2),
    answer: answer.toFixed(1),
    place: number(state.places[best]),
    share: percent(weights[best]),
  });
}

export function alt(state) {
  const [low, high] = [Math.min(...state.values), Math.max(...state.values)].map((value) => value.toFixed(1));
  return `${fill(state.words.settings, { count: state.places.length, low, high })} ${sentence(state)}`;
}

export function picture(state) {
  const found = compute(state);
  return canvas(WIDTH, HEIGHT, circle(state, found) + chart(state, found));
}

function circle({ places, period, query, words }, { weights }) {
  const middle = { "text-anchor": "middle" };
  const ring = { fill: "none", stroke: "currentColor", "stroke-opacity": 0.3 };
  const parts = [tag("circle", { cx: CENTRE_X, cy: CENTRE_Y, r: RADIUS, ...ring })];
  places.forEach((place, j) => {
    const [x, y] = onCircle(place, period);
    const at = { cx: CENTRE_X + RADIUS * x, cy: CENTRE_Y - RADIUS * y };
    const chooses = { class: "w pick", "data-set": "query", "data-value": number(place) };
    parts.push(tag("circle", { ...at, r: 4 + 18 * Math.sqrt(weights[j]), "fill-opacity": 0.75, ...chooses }));
    parts.push(label(CENTRE_X + (RADIUS + 32) * x, CENTRE_Y - (RADIUS + 30) * y + 4, number(place), middle));
  });
  const [x, y] = onCircle(query, period);
  const hand = `M${CENTRE_X} ${CENTRE_Y}L${number(CENTRE_X + RADIUS * x)} ${number(CENTRE_Y - RADIUS * y)}`;
  parts.push(tag("path", { d: hand, stroke: "#c8553d", "stroke-width": 3, "stroke-linecap": "round" }));
  parts.push(label(EDGE, 16, words.picture, { class: "muted" }));
  return parts.join("");
}

function chart({ places, values, period, query, words }, { answer, curve }) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const rise = high - low || 1;
  const x = (place) => LEFT + ((RIGHT - LEFT) * place) / period;
  const y = (value) => BASE - ((BASE - TOP) * (value - low)) / rise;
  const [end, middle] = [{ "text-anchor": "end" }, { "text-anchor": "middle" }];
  const path = curve.map((value, n) => `${number(x((period * n) / POINTS))} ${number(y(value))}`).join("L");
  const asked = `M${number(x(query))} ${BASE}V${number(y(answer))}H${LEFT}`;
  const parts = [
    tag("path", { d: `M${LEFT} ${BASE}H${RIGHT}`, stroke: "currentColor", "stroke-opacity": 0.3 }),
    tag("path", { d: `M${path}`, fill: "none", stroke: "#2f8097", "stroke-width": 2 }),
    tag("path", { d: asked, fill: "none", stroke: "#c8553d", "stroke-dasharray": "4 3" }),
    label(LEFT - 8, BASE + 4, low.toFixed(1), end),
    label(LEFT - 8, TOP + 4, high.toFixed(1), end),
    label(RIGHT, BASE + 34, words.query_axis, { ...end, class: "muted" }),
    label(EDGE, TOP - 16, words.answer_axis, { class: "muted" }),
  ];
  places.forEach((place, j) => {
    parts.push(tag("circle", { cx: x(place), cy: y(values[j]), r: 3.5 }));
    parts.push(label(x(place), BASE + 18, number(place), middle));
  });
  parts.push(tag("circle", { cx: x(query), cy: y(answer), r: 5, fill: "#c8553d" }));
  return parts.join("");
}

function render({ model, el }) {
  const [period, words] = ["period", "words"].map((name) => model.get(name));
  return mount(
    { model, el },
    {
      settings: ["query", "temperature"],
      data: ["places", "values", "period"],
      controls: [
        slider(model, "query", { text: words.query_control, min: 0, max: period, step: period / 48, value: (state) => number(state.query) }),
        slider(model, "temperature", {
          text: words.temperature_control,
          min: LEAST,
          max: MOST,
          step: 0.02,
          value: (state) => state.temperature.toFixed(2),
        }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
