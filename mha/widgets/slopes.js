import { canvas, fill, label, mount, number, range, slider, softmax, sum, tag } from "./common.js";

const PLACES = 64; // keys of the query: itself and what is before it
const [WIDTH, HEIGHT] = [430, 262];
const CHART = { left: 23, right: 407, top: 44, bottom: 210 };

// The slopes of a power of two of heads, then every second one of the doubled power.
function slopesOf(heads) {
  const power = 2 ** Math.floor(Math.log2(heads));
  const exponents = range(power).map((h) => (8 * (h + 1)) / power);
  const between = range(heads - power).map((h) => (4 * (2 * h + 1)) / power);
  return [...exponents, ...between].map((x) => 2 ** -x);
}

export function compute({ num_heads, head: wanted, back, content }) {
  const slopes = slopesOf(num_heads);
  const head = Math.min(wanted, num_heads - 1);
  const scores = range(PLACES).map((place) => -slopes[head] * place);
  const lost = slopes[head] * back;
  const others = sum(scores.map((score, place) => (place === back ? 0 : Math.exp(score))));
  const weights = softmax(scores.map((score, place) => score + (place === back ? content : 0)));
  return { slopes, head, weights, lost, half: lost + Math.log(others) };
}

const which = (state, { slopes, head }) => ({ head, heads: state.num_heads, part: number(1 / slopes[head]) });
const shareOf = (share) => (100 * share).toFixed(share >= 0.0995 ? 0 : 1);

export function sentence(state) {
  const found = compute(state);
  const { weights, lost, half } = found;
  return fill(state.words.sentence, {
    ...which(state, found),
    back: state.back,
    lost: number(Math.floor(100 * lost + 0.5) / 100),
    content: state.content,
    share: shareOf(weights[state.back]),
    half: half.toFixed(1),
  });
}

export const alt = (state) => fill(state.words.alt, { places: PLACES, sentence: sentence(state) });

export function picture(state) {
  const found = compute(state);
  const { weights } = found;
  const top = Math.max(...weights);
  const step = (CHART.right - CHART.left) / PLACES;
  const about = fill(state.words.top, { ...which(state, found), share: shareOf(top) });
  const parts = [label(CHART.left, 18, about, { class: "muted" })];
  weights.forEach((weight, back) => {
    const left = CHART.right - (back + 1) * step;
    const tall = ((CHART.bottom - CHART.top) * weight) / top;
    const bar = { x: left + 0.5, y: CHART.bottom - tall, width: step - 1, height: tall };
    parts.push(tag("rect", { ...bar, class: "w", "fill-opacity": back === state.back ? 1 : 0.4 }));
    const column = { x: left, y: CHART.top, width: step, height: CHART.bottom - CHART.top + 24 };
    parts.push(tag("rect", { ...column, "fill-opacity": 0, class: "pick", "data-set": "back", "data-value": `${back}` }));
  });
  const line = { d: `M${CHART.left} ${CHART.bottom + 1}H${CHART.right}`, stroke: "currentColor", "stroke-opacity": 0.4 };
  parts.push(tag("path", line));
  for (const back of [0, 16, 32, 48, 63]) {
    parts.push(label(CHART.right - (back + 0.5) * step, CHART.bottom + 18, `${back}`, { "text-anchor": "middle" }));
  }
  const middle = { "text-anchor": "middle", class: "muted" };
  parts.push(label((CHART.left + CHART.right) / 2, CHART.bottom + 40, state.words.axis, middle));
  return canvas(WIDTH, HEIGHT, parts.join(""));
}

function render({ model, el }) {
  const words = model.get("words");
  return mount(
    { model, el },
    {
      settings: ["num_heads", "head", "back", "content"],
      data: [],
      controls: [
        slider(model, "back", { text: words.back_control, min: 0, max: PLACES - 1, value: ({ back }) => `${back}` }),
        slider(model, "content", { text: words.content_control, min: 0, max: 20, value: ({ content }) => `${content}` }),
        slider(model, "num_heads", { text: words.heads_control, min: 1, max: 16, value: ({ num_heads }) => `${num_heads}` }),
        slider(model, "head", {
          text: words.head_control,
          min: 0,
          max: ({ num_heads }) => num_heads - 1,
          value: (state) => `${compute(state).head}`,
        }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
