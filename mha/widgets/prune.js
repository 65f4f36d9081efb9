import { boxes, canvas, fill, label, mount, range, select, shorten, sum, tag } from "./common.js";

const [WIDTH, ROW, TOP] = [430, 23, 88];
const [LEFT, RIGHT] = [108, 368];
const [CHIP, CHIP_TOP] = [51, 26];
const PALE = { fill: "#c8553d", "fill-opacity": 0.4 };

const inPercent = (share) => (share < 0.0005 ? "<0.1" : (100 * share).toFixed(1));
const withOthers = (named) => [...named, Math.max(0, 1 - sum(named))];
const isOff = (silenced, k) => (silenced >> k) & 1;

export function compute({ prompt, silenced, heads, probabilities }) {
  const shares = (subset) => withOthers(probabilities[prompt][subset]);
  return { before: shares(0), after: shares(silenced), gone: heads[prompt].filter((_, k) => isOff(silenced, k)) };
}

export function sentence(state) {
  const { before, after, gone } = compute(state);
  const named = state.candidates[state.prompt];
  const best = after.indexOf(Math.max(...after.slice(0, -1)));
  return fill(state.words.sentence, {
    prompt: state.prompts[state.prompt].trim(),
    heads: gone.join(", ") || state.words.none,
    token: named[0],
    after: inPercent(after[0]),
    before: inPercent(before[0]),
    best: named[best],
    share: inPercent(after[best]),
  });
}

export const alt = (state) => `${state.words.settings} ${sentence(state)}`;

export function picture(state) {
  const { words, candidates, heads, prompt, silenced } = state;
  const { before, after } = compute(state);
  const names = [...candidates[prompt], words.others];
  const key = [
    label(8, 16, words.heads),
    ...heads[prompt].map((head, k) => chip(silenced, k, head)),
    tag("rect", { x: LEFT, y: 66, width: 14, height: 11, class: "w" }),
    label(LEFT + 20, 76, words.after),
    tag("rect", { x: LEFT + 130, y: 66, width: 14, height: 11, ...PALE }),
    label(LEFT + 150, 76, words.before),
  ];
  const rows = names.map((name, n) => row(n, name, before[n], after[n]));
  return canvas(WIDTH, TOP + ROW * names.length, [...key, ...rows].join(""));
}

// One head: filled while it works, an outline and a stroke through it while it is off.
function chip(silenced, k, head) {
  const [x, off] = [8 + CHIP * k + CHIP / 2, isOff(silenced, k)];
  const turn = { "data-set": "silenced", "data-value": String(silenced ^ (1 << k)), cursor: "pointer" };
  const ground = { "fill-opacity": off ? 0 : 0.25 };
  const box = { x: 8 + CHIP * k + 2, y: CHIP_TOP, width: CHIP - 4, height: 26, rx: 5 };
  const parts = [
    tag("rect", { ...box, class: "w", stroke: "currentColor", "stroke-opacity": 0.5, ...ground, ...turn }),
    label(x, CHIP_TOP + 17, head, { "text-anchor": "middle", "pointer-events": "none" }),
  ];
  const line = { x1: x - 18, y1: CHIP_TOP + 13, x2: x + 18, y2: CHIP_TOP + 13, stroke: "currentColor" };
  return [...parts, ...(off ? [tag("line", { ...line, "stroke-width": 1.5 })] : [])].join("");
}

function row(n, name, before, after) {
  const [y, full] = [TOP + ROW * n, RIGHT - LEFT];
  return [
    label(LEFT - 8, y + 13, name, { "text-anchor": "end" }),
    tag("rect", { x: LEFT, y: y + 1, width: full * before, height: 17, ...PALE }),
    tag("rect", { x: LEFT, y: y + 4, width: full * after, height: 11, class: "w" }),
    label(WIDTH - 8, y + 13, `${inPercent(after)} %`, { "text-anchor": "end" }),
  ].join("");
}

function render({ model, el }) {
  const [words, prompts, heads] = ["words", "prompts", "heads"].map((key) => model.get(key));
  return mount(
    { model, el },
    {
      settings: ["prompt", "silenced"],
      data: ["prompts", "heads", "candidates", "probabilities"],
      first: [
        select(model, "prompt", {
          text: words.prompt_control,
          options: prompts.map((text, i) => [i, shorten(text.trim(), 40)]),
          values: (prompt) => ({ prompt, silenced: 0 }),
        }),
      ],
      controls: [
        boxes(model, "silenced", {
          text: words.silenced_control,
          options: range(heads[0].length),
          words: (state, k) => state.heads[state.prompt][k],
        }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
