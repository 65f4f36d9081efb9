import { canvas, fill, label, mount, range, select, shorten, slider, stops, sum, tag } from "./common.js";

const [WIDTH, ROW, TOP] = [430, 23, 46];
const [LEFT, RIGHT, SHOWN] = [108, 368, 12];
const PALE = { fill: "#c8553d", "fill-opacity": 0.4 };

const inPercent = (share) => (0 < share && share < 0.0005 ? "<0.1" : (100 * share).toFixed(1));

// Each logit stands for `counts` equal tokens; probabilities are those of one of them.
function weigh(logits, counts, temperature) {
  const top = Math.max(...logits.filter((_, i) => counts[i] > 0));
  const powers = logits.map((x, i) => (counts[i] > 0 ? Math.exp((x - top) / temperature) : 0));
  const total = sum(powers.map((x, i) => x * counts[i]));
  return powers.map((x) => x / total);
}

// Top-k, top-p, min-p, in this order: how many tokens of each kind they leave.
function cut({ top_k, top_p, min_p, temperature }, logits, counts) {
  let left = counts;
  if (top_k > 0) left = left.map((count, i) => (logits[i] >= logits[top_k - 1] ? count : 0));
  if (top_p < 1) {
    let before = 0;
    const p = weigh(logits, left, temperature);
    left = left.map((count, i) => {
      const kept = before < top_p ? Math.min(count, Math.ceil((top_p - before) / p[i])) : 0;
      before += count * p[i];
      return kept;
    });
  }
  const p = weigh(logits, left, temperature);
  const least = min_p * Math.max(...p);
  return left.map((count, i) => (p[i] >= least ? count : 0));
}

export function compute(state) {
  const [counts, logits] = [state.counts, state.logits[state.prompt]];
  const first = counts.map((_, i) => (i === logits.indexOf(Math.max(...logits)) ? 1 : 0));
  const greedy = state.temperature === 0;
  const before = greedy ? first : weigh(logits, counts, state.temperature);
  const left = greedy ? first : cut(state, logits, counts);
  const after = greedy ? first : weigh(logits, left, state.temperature);
  const shown = (p, times) => [...p.slice(0, SHOWN), sum(p.map((x, i) => (i < SHOWN ? 0 : x * times[i])))];
  return {
    before: shown(before, counts),
    after: shown(after, left),
    left: sum(left),
    entropy: 0 - sum(after.map((p, i) => (p > 0 ? left[i] * p * Math.log(p) : 0))),
  };
}

export function sentence(state) {
  const { left, after, entropy } = compute(state);
  return fill(state.words.sentence, {
    prompt: state.prompts[state.prompt],
    temperature: state.temperature.toFixed(1),
    left,
    all: sum(state.counts),
    token: state.candidates[state.prompt][0],
    share: inPercent(after[0]),
    entropy: entropy.toFixed(2),
  });
}

export const alt = (state) => `${state.words.settings} ${sentence(state)}`;

export function picture(state) {
  const { words, candidates, prompt } = state;
  const { before, after } = compute(state);
  const names = [...candidates[prompt].slice(0, SHOWN), words.others];
  const key = [
    tag("rect", { x: LEFT, y: 12, width: 14, height: 11, class: "w" }),
    label(LEFT + 20, 22, words.after),
    tag("rect", { x: LEFT + 130, y: 12, width: 14, height: 11, ...PALE }),
    label(LEFT + 150, 22, words.before),
  ];
  const rows = names.map((name, n) => row(n, name, before[n], after[n]));
  return canvas(WIDTH, TOP + ROW * names.length, [...key, ...rows].join(""));
}

function row(n, name, before, after) {
  const [y, full] = [TOP + ROW * n, RIGHT - LEFT];
  const there = after > 0 ? {} : { "fill-opacity": 0.45 };
  return [
    label(LEFT - 8, y + 13, name, { "text-anchor": "end", ...there }),
    tag("rect", { x: LEFT, y: y + 1, width: full * before, height: 17, ...PALE }),
    tag("rect", { x: LEFT, y: y + 4, width: full * after, height: 11, class: "w" }),
    label(WIDTH - 8, y + 13, `${inPercent(after)} %`, { "text-anchor": "end", ...there }),
  ].join("");
}

function render({ model, el }) {
  const [words, prompts, candidates] = ["words", "prompts", "candidates"].map((key) => model.get(key));
  const kept = [...range(candidates[0].length).map((k) => k + 1), 0];
  const share = (name, min, max, step) =>
    slider(model, name, { text: words[`${name}_control`], min, max, step, value: (state) => state[name].toFixed(2) });
  return mount(
    { model, el },
    {
      settings: ["prompt", "temperature", "top_k", "top_p", "min_p"],
      data: ["prompts", "candidates", "logits", "counts"],
      first: [select(model, "prompt", { text: words.prompt_control, options: prompts.map((text, i) => [i, shorten(text, 34)]) })],
      controls: [
        slider(model, "temperature", { text: words.temperature_control, min: 0, max: 2, step: 0.1, value: (state) => state.temperature.toFixed(1) }),
        stops(model, "top_k", {
          text: words.top_k_control,
          options: () => kept,
          now: (state) => state.top_k,
          value: (state) => (state.top_k > 0 ? String(state.top_k) : words.all),
        }),
        share("top_p", 0.05, 1, 0.05),
        share("min_p", 0, 0.5, 0.01),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
