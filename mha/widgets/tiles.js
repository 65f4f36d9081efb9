import { FAINT, canvas, choices, fill, label, mount, range, slider, sum, tag, toggle } from "./common.js";

const SIDES = [1, 2, 4, 8];
const [LEFT, TOP, SIZE] = [66, 34, 336];
const [WIDTH, HEIGHT] = [LEFT + SIZE + 28, TOP + SIZE + 14];
const [FULL, PARTIAL, SKIPPED] = [2, 1, 0];

function sees({ reach, seen_by_all, causal }, i, j) {
  if (causal && j > i) return false;
  return Math.abs(i - j) <= reach || Math.min(i, j) < seen_by_all;
}

export function compute(state) {
  const { n, rows, columns } = state;
  const see = range(n).map((i) => range(n).map((j) => sees(state, i, j)));
  const kinds = range(n / rows).map((tile) =>
    range(n / columns).map((other) => {
      const lines = see.slice(tile * rows, (tile + 1) * rows);
      const pairs = lines.flatMap((line) => line.slice(other * columns, (other + 1) * columns));
      if (pairs.every((pair) => pair)) return FULL;
      return pairs.some((pair) => pair) ? PARTIAL : SKIPPED;
    }),
  );
  const count = (kind) => kinds.flat().filter((one) => one === kind).length;
  const [full, partial, skipped] = [FULL, PARTIAL, SKIPPED].map(count);
  return { see, kinds, full, partial, skipped, visible: sum(see.flat().map(Number)), computed: (full + partial) * rows * columns };
}

export function sentence(state) {
  const { full, partial, skipped, visible, computed } = compute(state);
  const share = (pairs) => Math.round((100 * pairs) / state.n ** 2);
  const [visible_share, computed_share] = [visible, computed].map(share);
  const { rows, columns, words } = state;
  return fill(words.sentence, { rows, columns, full, partial, skipped, visible, computed, visible_share, computed_share });
}

export function alt(state) {
  const { n, reach, seen_by_all, causal, words } = state;
  const mask = words[causal ? "told_causal" : "told_both"];
  return `${fill(words.settings, { n, reach, seen_by_all, mask })} ${sentence(state)}`;
}

// Inside the edge of a tile: a full one is solid, a partial one dashed.
function frame({ n, rows, columns }, i, j, kind) {
  const [height, width] = [rows, columns].map((side) => (side * SIZE) / n);
  const box = { x: LEFT + j * width + 2, y: TOP + i * height + 2, width: width - 4, height: height - 4 };
  const look = { fill: "none", stroke: "currentColor", "stroke-width": kind === FULL ? 2 : 1.2 };
  return { ...box, ...look, "stroke-dasharray": kind === FULL ? "none" : "3 2" };
}

export function picture(state) {
  const found = compute(state);
  const { n, words } = state;
  const cell = SIZE / n;
  const end = { "text-anchor": "end", class: "muted" };
  const parts = [label(LEFT - 8, TOP - 8, `${words.key} →`, end), label(LEFT - 8, TOP + 12, `${words.query} ↓`, end)];
  found.see.forEach((line, i) =>
    line.forEach((pair, j) => {
      const box = { x: LEFT + j * cell + 0.5, y: TOP + i * cell + 0.5, width: cell - 1, height: cell - 1 };
      parts.push(tag("rect", { ...box, class: "w", "fill-opacity": pair ? 0.8 : FAINT }));
    }),
  );
  found.kinds.forEach((line, i) =>
    line.forEach((kind, j) => {
      if (kind !== SKIPPED) parts.push(tag("rect", frame(state, i, j, kind)));
    }),
  );
  return canvas(WIDTH, HEIGHT, parts.join(""));
}

function render({ model, el }) {
  const words = model.get("words");
  const sides = (name) => choices(model, name, { text: words[`${name}_control`], options: SIDES.map((side) => [side, `${side}`]) });
  return mount(
    { model, el },
    {
      settings: ["reach", "seen_by_all", "causal", "rows", "columns"],
      data: ["n"],
      controls: [
        slider(model, "reach", {
          text: words.reach_control,
          min: 0,
          max: ({ n }) => n - 1,
          value: ({ reach }) => fill(words.reach_value, { reach }),
        }),
        slider(model, "seen_by_all", { text: words.seen_by_all_control, min: 0, max: 4, value: ({ seen_by_all }) => `${seen_by_all}` }),
        toggle(model, "causal", { text: words.causal_control }),
        sides("rows"),
        sides("columns"),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
