import { FAINT, attend, canvas, choices, entropy, fill, label, mount, percent, range, shorten, slider, sum, tag, toggle } from "./common.js";

const [LEFT, TOP, SIZE] = [66, 62, 332];
const [BASE, TALL] = [TOP + SIZE + 104, 78];
const [WIDTH, HEIGHT] = [430, BASE + 28];

export function compute({ q, k, d_k, scale, temperature, mask, radius, query }) {
  const cut = (rows) => rows.map((row) => row.slice(0, d_k));
  const rules = { none: () => true, causal: (i, j) => j <= i, window: (i, j) => Math.abs(i - j) <= radius };
  const { scores, weights } = attend(cut(q), cut(k), (scale ? 1 / Math.sqrt(d_k) : 1) / temperature, rules[mask]);
  const visible = scores.map((row, i) => row.map((_, j) => rules[mask](i, j)));
  const seen = scores.flatMap((row, i) => row.filter((_, j) => visible[i][j]));
  const mean = sum(seen) / seen.length;
  return {
    scores,
    visible,
    weights,
    entropy: entropy(weights[query]),
    limit: Math.log(visible[query].filter(Boolean).length),
    variance: sum(seen.map((x) => (x - mean) ** 2)) / seen.length,
  };
}

export function sentence(state) {
  const found = compute(state);
  const row = found.weights[state.query];
  const best = row.indexOf(Math.max(...row));
  return fill(state.words.sentence, {
    i: state.query,
    j: best,
    query: state.tokens[state.query],
    key: state.tokens[best],
    share: percent(row[best]),
    entropy: found.entropy.toFixed(2),
    limit: found.limit.toFixed(2),
    variance: found.variance.toFixed(2),
  });
}

export function alt(state) {
  const { words } = state;
  const settings = fill(words.settings, {
    count: state.tokens.length,
    width: state.d_k,
    scale: words[state.scale ? "scaled" : "unscaled"],
    temperature: state.temperature.toFixed(1),
    mask: fill(words[`setting_${state.mask}`], state),
  });
  return `${settings} ${sentence(state)}`;
}

const chooses = (i) => ({ "data-set": "query", "data-value": String(i) });

export function picture(state) {
  const { tokens, query, words } = state;
  const found = compute(state);
  const all = range(tokens.length);
  const cell = SIZE / tokens.length;
  const end = { "text-anchor": "end" };
  const parts = [
    label(LEFT - 8, TOP - 24, `${words.key} →`, { ...end, class: "muted" }),
    label(LEFT - 8, TOP - 8, `${words.query} ↓`, { ...end, class: "muted" }),
    label(LEFT - 8, BASE - 48, words.weight, { ...end, class: "muted" }),
    label(LEFT - 8, BASE - 33, words.percent, { ...end, class: "muted" }),
    label(LEFT - 8, BASE + 16, words.score, { ...end, class: "muted" }),
  ];
  for (const i of all) {
    const middle = (i + 0.5) * cell;
    const bold = i === query ? { "font-weight": "700" } : {};
    const turned = { transform: `rotate(-45 ${(LEFT + middle).toFixed(1)} ${TOP - 8})` };
    parts.push(label(LEFT + middle, TOP - 8, shorten(tokens[i]), turned));
    parts.push(label(LEFT - 8, TOP + middle + 4, shorten(tokens[i]), { ...end, ...bold, class: "pick", ...chooses(i) }));
  }
  for (const i of all)
    for (const j of all) {
      const [x, y] = [LEFT + j * cell, TOP + i * cell];
      if (found.visible[i][j]) {
        const box = { x: x + 0.5, y: y + 0.5, width: cell - 1, height: cell - 1 };
        parts.push(tag("rect", { ...box, class: "w", "fill-opacity": FAINT + (1 - FAINT) * found.weights[i][j] }));
      } else parts.push(tag("circle", { cx: x + cell / 2, cy: y + cell / 2, r: 1.2, "fill-opacity": 0.5 }));
    }
  const outline = { width: SIZE, fill: "none", stroke: "currentColor" };
  parts.push(tag("rect", { x: LEFT, y: TOP, height: SIZE, ...outline, "stroke-opacity": 0.3 }));
  const chosen = { y: TOP + query * cell, height: cell, "stroke-width": 2, rx: 2 };
  parts.push(tag("rect", { x: LEFT, ...outline, ...chosen }));
  for (const i of all) {
    const box = { x: LEFT, y: TOP + i * cell, width: SIZE, height: cell };
    parts.push(tag("rect", { ...box, "fill-opacity": 0, class: "pick", ...chooses(i) }));
  }
  const middle = { "text-anchor": "middle", "font-size": Math.min(12, 0.4 * cell) };
  for (const j of all) {
    const x = LEFT + (j + 0.5) * cell;
    const weight = found.weights[query][j];
    const [tall, hidden] = [TALL * weight, !found.visible[query][j]];
    const share = hidden ? "–" : String(percent(weight));
    const score = hidden ? "–" : found.scores[query][j].toFixed(1).replace("-", "−");
    const bar = { x: x - cell / 2 + 3, y: BASE - tall, width: cell - 6, height: tall, class: "w" };
    parts.push(tag("rect", bar), label(x, BASE - tall - 4, share, middle), label(x, BASE + 16, score, middle));
  }
  for (const [y, faint] of [[BASE - TALL, 0.15], [BASE, 0.5]])
    parts.push(tag("path", { d: `M${LEFT} ${y}h${SIZE}`, stroke: "currentColor", "stroke-opacity": faint }));
  return canvas(WIDTH, HEIGHT, parts.join(""));
}

function render({ model, el }) {
  const [tokens, q, words] = ["tokens", "q", "words"].map((name) => model.get(name));
  const masks = ["none", "causal", "window"].map((mask) => [mask, words[`mask_${mask}`]]);
  return mount(
    { model, el },
    {
      settings: ["d_k", "scale", "temperature", "mask", "radius", "query"],
      data: ["tokens", "q", "k"],
      first: [choices(model, "query", { text: words.query_control, options: tokens.map((token, i) => [i, token]) })],
      controls: [
        slider(model, "d_k", {
          text: words.width_control,
          min: 1,
          max: q[0].length,
          value: (state) => fill(words.width_value, { width: state.d_k, full: q[0].length }),
        }),
        toggle(model, "scale", { text: words.scale_control }),
        slider(model, "temperature", {
          text: words.temperature_control,
          min: 0.1,
          max: 4,
          step: 0.1,
          value: (state) => state.temperature.toFixed(1),
        }),
        choices(model, "mask", { text: words.mask_control, options: masks }),
        slider(model, "radius", {
          text: words.radius_control,
          min: 0,
          max: (state) => (state.mask === "window" ? tokens.length - 1 : 0),
          value: (state) => (state.mask === "window" ? fill(words.radius_value, state) : "–"),
        }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
