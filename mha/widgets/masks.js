import { FAINT, canvas, fill, label, mount, range, select, slider, sum, tag } from "./common.js";

const [LEFT, TOP, SIZE] = [66, 34, 336];
const [WIDTH, HEIGHT] = [LEFT + SIZE + 28, TOP + SIZE + 14];
const [SIDE, BLOCK, D_HEAD] = [4, 4, 64];
const LARGEST = 8;
const OPERATORS = ["none", "&", "|", "& ~", "| ~"];

const apart = (i, j) => ({ late: Math.max(i, j), early: Math.min(i, j) });
const reaches = (i, j, bound) => `${Math.max(i, j)} − ${Math.min(i, j)} = ${Math.abs(i - j)} ${Math.abs(i - j) <= bound ? "≤" : ">"} ${bound}`;
const block = (i, size) => Math.floor(i / size);

// Of each kind: how it is written, which pairs it shows, and the numbers that decide, as in mha.masks.
const KINDS = {
  causal: { text: () => "causal", see: (i, j) => j <= i, numbers: (i, j) => `${j} ${j <= i ? "≤" : ">"} ${i}` },
  log_strided: {
    text: () => "log_strided",
    see: (i, j) => j <= i && ((i - j) & (i - j - 1)) === 0,
    numbers: (i, j, size, { said, seen }) => {
      if (j >= i) return `${j} ${j === i ? "=" : ">"} ${i}`;
      return fill(said[seen ? "power_visible" : "power_hidden"], { i, j, distance: i - j });
    },
  },
  window: {
    text: (size) => `window(${size}, ${size})`,
    see: (i, j, size) => Math.abs(i - j) <= size,
    numbers: (i, j, size) => reaches(i, j, size),
  },
  strided: {
    text: (size) => `strided(${size})`,
    see: (i, j, size) => (i - j) % size === 0,
    numbers: (i, j, size, { said, seen }) =>
      fill(said[seen ? "multiple_visible" : "multiple_hidden"], { ...apart(i, j), distance: Math.abs(i - j), step: size }),
  },
  dilated: {
    text: (size) => `dilated(2, 2, ${size})`,
    see: (i, j, size) => (i - j) % size === 0 && Math.abs(i - j) <= 2 * size,
    numbers: (i, j, size, { said }) => {
      const { late, early } = apart(i, j);
      const steps = (late - early) / size;
      if ((late - early) % size) return fill(said.multiple_hidden, { late, early, distance: late - early, step: size });
      return `${late} − ${early} = ${steps} · ${size}, ${steps} ${steps <= 2 ? "≤" : ">"} 2`;
    },
  },
  fixed: {
    text: (size) => `fixed(${size}, 1)`,
    see: (i, j, size) => block(i, size) === block(j, size) || j % size === size - 1,
    numbers: (i, j, size, { said, seen }) => {
      const [query, key] = [block(i, size), block(j, size)];
      if (!seen) return fill(said.fixed_hidden, { query, key, j, summary: 1 });
      return query === key ? fill(said.fixed_inside, { block: key }) : fill(said.fixed_summary, { j, summary: 1, block: key });
    },
  },
  global_tokens: {
    text: (size) => `global_tokens([${range(size).join(", ")}])`,
    see: (i, j, size) => Math.min(i, j) < size,
    numbers: (i, j, size, { said, seen }) =>
      fill(said[i < size ? "global_query" : seen ? "global_key" : "global_none"], { i, j }),
  },
  random_blocks: {
    text: (size, { n }) => `random_blocks(0, ${n}, block=${BLOCK}, number=${Math.min(size, n / BLOCK)})`,
    see: (i, j, size, { drawn }) => drawn[block(i, BLOCK)].slice(0, size).includes(block(j, BLOCK)),
    numbers: (i, j, size, { said, seen }) =>
      fill(said[seen ? "drawn_visible" : "drawn_hidden"], { query: block(i, BLOCK), key: block(j, BLOCK) }),
  },
  prefix: { text: (size) => `prefix(${size})`, see: (i, j, size) => j < size, numbers: (i, j, size) => `${j} ${j < size ? "<" : "≥"} ${size}` },
};

// A mask is a term { kind, size, negated }, or two masks joined by a sign.
function composed(state) {
  const term = (place, negated = false) => ({ kind: state[`kind_${place}`], size: state[`size_${place}`], negated });
  return [2, 3].reduce((one, place) => {
    const operator = state[`operator_${place}`];
    return operator === "none" ? one : { sign: operator[0], one, two: term(place, operator.endsWith("~")) };
  }, term(1));
}

const terms = (mask) => [mask.one, mask.two].flatMap((part) => (part.sign === mask.sign ? terms(part) : [part]));

function written(mask, state) {
  if (mask.kind) return `${mask.negated ? "~" : ""}${KINDS[mask.kind].text(mask.size, state)}`;
  const grouped = (part) => (part.sign ? `(${written(part, state)})` : written(part, state));
  return terms(mask).map(grouped).join(` ${mask.sign} `);
}

function sees(mask, i, j, state) {
  if (mask.kind) return KINDS[mask.kind].see(i, j, mask.size, state) !== mask.negated;
  const [one, two] = [mask.one, mask.two].map((part) => sees(part, i, j, state));
  return mask.sign === "&" ? one && two : one || two;
}

// Whether the pair is seen, the reasons that decide together, and the other terms each of which decides the same alone.
function why(mask, i, j, state) {
  if (mask.kind) {
    const seen = sees(mask, i, j, state);
    const numbers = KINDS[mask.kind].numbers(i, j, mask.size, { ...state, seen: seen !== mask.negated });
    return { seen, reasons: [`${written(mask, state)} (${numbers})`], others: [] };
  }
  const parts = terms(mask);
  const answers = parts.map((part) => why(part, i, j, state));
  const decisive = mask.sign === "|"; // a single term with this value gives it to the whole
  const deciding = range(parts.length).filter((k) => answers[k].seen === decisive);
  if (!deciding.length) return { seen: !decisive, reasons: answers.flatMap(({ reasons }) => reasons), others: [] };
  const { reasons, others } = answers[deciding[0]];
  return { seen: decisive, reasons, others: [...others, ...deciding.slice(1).map((k) => parts[k])] };
}

function explained(mask, state) {
  const { query: i, key: j, said } = state;
  const { seen, reasons, others } = why(mask, i, j, state);
  const kind = seen ? "visible" : "hidden";
  const also = others.map((term) => fill(said[`also_${kind}`], { term: written(term, state) }));
  return fill(said[kind], { i, j, reason: reasons.join(said.and) }) + also.join("");
}

export function compute(state) {
  const { n } = state;
  const mask = composed(state);
  const see = range(n).map((i) => range(n).map((j) => sees(mask, i, j, state)));
  const kinds = range(n / SIDE).map((row) =>
    range(n / SIDE).map((column) => {
      const lines = see.slice(row * SIDE, (row + 1) * SIDE);
      const pairs = lines.flatMap((line) => line.slice(column * SIDE, (column + 1) * SIDE));
      if (pairs.every((pair) => pair)) return 2;
      return pairs.some((pair) => pair) ? 1 : 0;
    }),
  );
  const pairs = sum(see.flat().map(Number));
  const computed = kinds.flat().filter((kind) => kind).length * SIDE ** 2;
  return {
    mask: written(mask, state),
    see,
    kinds,
    pairs,
    computed,
    flops: 4 * D_HEAD * pairs,
    computed_flops: 4 * D_HEAD * computed,
    empty: see.filter((line) => !line.some((pair) => pair)).length,
    explained: explained(mask, state),
  };
}

const grouped = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");

export function sentence(state) {
  const found = compute(state);
  const all = state.n ** 2;
  const share = (pairs) => Math.floor((100 * pairs) / all + 0.5);
  const counts = Object.fromEntries(["pairs", "computed", "flops", "computed_flops"].map((name) => [name, grouped(found[name])]));
  const shares = { pairs_share: share(found.pairs), computed_share: share(found.computed) };
  const text = fill(state.words.sentence, { explained: found.explained, all, ...counts, ...shares });
  return text + (found.empty ? fill(state.words.empty, found) : "");
}

export const alt = (state) => `${fill(state.words.settings, { n: state.n, mask: compute(state).mask })} ${sentence(state)}`;

// Inside the edge of a visible tile: a full one is solid, a partial one dashed.
function frame({ n }, i, j, kind) {
  const side = (SIDE * SIZE) / n;
  const box = { x: LEFT + j * side + 2, y: TOP + i * side + 2, width: side - 4, height: side - 4 };
  const look = { fill: "none", stroke: "currentColor", "stroke-width": kind === 2 ? 1.4 : 0.8 };
  return { ...box, ...look, "stroke-dasharray": kind === 2 ? "none" : "3 2", "pointer-events": "none" };
}

export function picture(state) {
  const found = compute(state);
  const { n, words, query, key } = state;
  const cell = SIZE / n;
  const end = { "text-anchor": "end", class: "muted" };
  const parts = [
    label(LEFT - 8, TOP - 8, `${words.key} →`, end),
    label(LEFT - 8, TOP + 12, `${words.query} ↓`, end),
    label(LEFT, TOP - 8, found.mask, { "font-size": found.mask.length < 58 ? 11 : 8 }),
  ];
  found.see.forEach((line, i) =>
    line.forEach((pair, j) => {
      const box = { x: LEFT + j * cell + 0.5, y: TOP + i * cell + 0.5, width: cell - 1, height: cell - 1 };
      const place = { class: "w pick", "data-query": String(i), "data-key": String(j) };
      parts.push(tag("rect", { ...box, ...place, "fill-opacity": pair ? 0.8 : FAINT }));
    }),
  );
  found.kinds.forEach((line, i) =>
    line.forEach((kind, j) => {
      if (kind) parts.push(tag("rect", frame(state, i, j, kind)));
    }),
  );
  const chosen = { x: LEFT + key * cell - 1, y: TOP + query * cell - 1, width: cell + 2, height: cell + 2 };
  const ring = { fill: "none", stroke: "#c8553d", "stroke-width": 2.5, "pointer-events": "none" };
  const outline = { x: LEFT - 3, y: TOP - 3, width: SIZE + 6, height: SIZE + 6, fill: "none" };
  parts.push(tag("rect", { ...chosen, ...ring }), tag("rect", { ...outline, stroke: "currentColor", "stroke-opacity": 0, class: "all" }));
  return canvas(WIDTH, HEIGHT, parts.join(""));
}

// Whether a term is there and has a size.
function counts(state, place) {
  const absent = place > 1 && state[`operator_${place}`] === "none";
  return !absent && KINDS[state[`kind_${place}`]].text.length > 0;
}

// The pair that an arrow key leads to.
export function step(key, pair, n) {
  const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[key];
  return move ? pair.map((place, axis) => Math.max(0, Math.min(n - 1, place + move[axis]))) : null;
}

function render({ model, el }) {
  const [words, n] = ["words", "n"].map((key) => model.get(key));
  const kinds = Object.keys(KINDS).map((kind) => [kind, words[kind]]);
  const places = [1, 2, 3];
  const operator = (place) =>
    select(model, `operator_${place}`, { text: words.operator_control, options: OPERATORS.map((sign) => [sign, sign === "none" ? words.none : sign]) });
  const term = (place) => [
    select(model, `kind_${place}`, { text: fill(words.kind_control, { place }), options: kinds }),
    slider(model, `size_${place}`, {
      text: words.size_control,
      min: 1,
      max: (state) => (counts(state, place) ? LARGEST : 1), // else it can not be moved
      value: (state) => (counts(state, place) ? String(state[`size_${place}`]) : ""),
    }),
  ];
  const unmount = mount(
    { model, el },
    {
      settings: [...places.flatMap((place) => [`kind_${place}`, `size_${place}`]), "operator_2", "operator_3", "query", "key"],
      data: ["n", "drawn", "said"],
      controls: [...term(1), operator(2), ...term(2), operator(3), ...term(3)],
      picture,
      sentence,
      alt,
    },
  );

  function choose([query, key]) {
    model.set("query", query);
    model.set("key", key);
    model.save_changes();
  }
  const figure = el.querySelector(".mha-picture");
  Object.assign(figure, { tabIndex: 0, role: "group", ariaLabel: words.keys });
  figure.dataset.lmSuppressShortcuts = "";
  const point = ({ target }) => target.dataset.query && choose([target.dataset.query, target.dataset.key].map(Number));
  figure.addEventListener("click", point);
  figure.addEventListener("pointerover", point);
  figure.addEventListener("keydown", (event) => {
    const next = step(event.key, [model.get("query"), model.get("key")], n);
    if (!next) return;
    event.preventDefault();
    choose(next);
  });
  return unmount;
}

export default { render };
