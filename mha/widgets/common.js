// Shared by all widgets: a few numbers, the drawing words of svg.py, controls, and `mount`, which ties them to a model.

export const FAINT = 0.07; // the ground that shows where a visible pair is, even where its weight is 0

export const fill = (template, values) => template.replace(/\{(\w+)\}/g, (_, name) => values[name]);
export const percent = (share) => Math.floor(100 * share + 0.5);
export const sum = (xs) => xs.reduce((total, x) => total + x, 0);
export const range = (count) => Array.from({ length: count }, (_, i) => i);

const PREFIXES = [
  [1e-9, "n"],
  [1e-6, "µ"],
  [1e-3, "m"],
  [1, ""],
  [1e3, "k"],
  [1e6, "M"],
  [1e9, "G"],
  [1e12, "T"],
  [1e15, "P"],
  [1e18, "E"],
  [1e21, "Z"],
];

// Three digits, halves rounded upwards.
export function digits(x) {
  const places = x < 10 ? 2 : x < 100 ? 1 : 0;
  return (Math.floor(x * 10 ** places + 0.5) / 10 ** places).toFixed(places);
}

// An amount with three digits and a prefix.
export function quantity(x, unit) {
  const [scale, prefix] = PREFIXES.findLast(([scale]) => Number(x) >= scale) ?? [1, ""];
  return `${digits(Number(x) / scale)}\u202f${prefix}${unit}`.replace(/\u202f$/, "");
}

export function softmax(row) {
  const top = Math.max(...row);
  const powers = row.map((x) => Math.exp(x - top));
  const total = sum(powers);
  return powers.map((x) => x / total);
}

export const entropy = (row) => 0 - sum(row.map((p) => (p > 0 ? p * Math.log(p) : 0)));

// Scores and weights of one head: softmax runs along the keys, over the visible ones only.
export function attend(q, k, scale, visible = () => true) {
  const scores = q.map((query) => k.map((key) => scale * sum(query.map((x, c) => x * key[c]))));
  const weights = scores.map((row, i) =>
    softmax(row.map((score, j) => (visible(i, j) ? score : -Infinity))),
  );
  return { scores, weights };
}

export function number(x) {
  const text = x.toFixed(3).replace(/\.?0+$/, "");
  return text === "-0" ? "0" : text;
}

export const escape = (words) =>
  words.replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;" })[c]);

export function tag(name, attributes, content = "") {
  const written = Object.entries(attributes)
    .map(([key, value]) => ` ${key}='${typeof value === "string" ? value : number(value)}'`)
    .join("");
  return content ? `<${name}${written}>${content}</${name}>` : `<${name}${written}/>`;
}

export const label = (x, y, words, attributes = {}) => tag("text", { x, y, ...attributes }, escape(words));
export const shorten = (token, limit = 9) => (token.length <= limit ? token : token.slice(0, limit - 1) + "…");

export function canvas(width, height, content) {
  const frame = {
    xmlns: "http://www.w3.org/2000/svg",
    class: "mha-svg",
    viewBox: `0 0 ${width} ${height}`,
    "font-family": "system-ui, sans-serif",
    "font-size": 12,
    fill: "currentColor",
  };
  return tag("svg", frame, content);
}

function element(name, properties = {}, children = []) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// Jupyter takes the arrow keys from a focused control unless the control itself says no.
function input(name, properties) {
  const node = element(name, properties);
  node.dataset.lmSuppressShortcuts = "";
  return node;
}

function change(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

// A control is an element and `show(state)`, which brings the element up to date.
export function slider(model, name, { text, min, max, step = 1, value }) {
  const range = input("input", { type: "range", step });
  const readout = element("output");
  range.addEventListener("input", () => change(model, { [name]: Number(range.value) }));
  const show = (state) => {
    const limits = { min: min instanceof Function ? min(state) : min, max: max instanceof Function ? max(state) : max };
    Object.assign(range, limits, { value: state[name], disabled: limits.max <= limits.min });
    range.ariaValueText = readout.textContent = value(state);
  };
  return { element: element("label", { className: "mha-slider" }, [element("span", { textContent: text }), range, readout]), show };
}

// A slider over the numbers that `options(state)` lists; `now(state)` is the one that counts.
export function stops(model, name, { text, options, now, value, values = (option) => ({ [name]: option }) }) {
  let listed = [];
  const range = input("input", { type: "range", min: 0, step: 1 });
  const readout = element("output");
  range.addEventListener("input", () => change(model, values(listed[Number(range.value)])));
  const show = (state) => {
    listed = options(state);
    Object.assign(range, { max: listed.length - 1, value: listed.indexOf(now(state)), disabled: listed.length < 2 });
    range.ariaValueText = readout.textContent = value(state);
  };
  return { element: element("label", { className: "mha-slider" }, [element("span", { textContent: text }), range, readout]), show };
}

export function choices(model, name, { text, options, values = (value) => ({ [name]: value }) }) {
  const radios = options.map(([value]) => {
    const radio = input("input", { type: "radio", name });
    radio.addEventListener("change", () => change(model, values(value)));
    return radio;
  });
  const chips = options.map(([, words], i) =>
    element("label", { className: "mha-chip" }, [radios[i], element("span", { textContent: words })]),
  );
  const show = (state) => radios.forEach((radio, i) => (radio.checked = options[i][0] === state[name]));
  return { element: element("fieldset", {}, [element("legend", { textContent: text }), ...chips]), show };
}

export function toggle(model, name, { text }) {
  const box = input("input", { type: "checkbox" });
  box.addEventListener("change", () => change(model, { [name]: box.checked }));
  const show = (state) => (box.checked = state[name]);
  return { element: element("label", { className: "mha-toggle" }, [box, element("span", { textContent: text })]), show };
}

// Boxes of which any may be ticked: bit k of the setting is box k, called `words(state, k)`.
export function boxes(model, name, { text, options, words }) {
  const ticks = options.map((k) => {
    const box = input("input", { type: "checkbox" });
    box.addEventListener("change", () => change(model, { [name]: model.get(name) ^ (1 << k) }));
    return box;
  });
  const spans = ticks.map(() => element("span"));
  const chips = ticks.map((box, k) => element("label", { className: "mha-chip" }, [box, spans[k]]));
  const show = (state) =>
    ticks.forEach((box, k) => {
      box.checked = ((state[name] >> k) & 1) === 1;
      spans[k].textContent = words(state, k);
    });
  return { element: element("fieldset", {}, [element("legend", { textContent: text }), ...chips]), show };
}

export function select(model, name, { text, options, values = (value) => ({ [name]: value }) }) {
  const list = input("select", {});
  list.append(...options.map(([, words]) => element("option", { textContent: words })));
  list.addEventListener("change", () => change(model, values(options[list.selectedIndex][0])));
  const show = (state) => (list.selectedIndex = options.findIndex(([value]) => value === state[name]));
  return { element: element("label", { className: "mha-select" }, [element("span", { textContent: text }), list]), show };
}

// Change `live` into `next` node by node, so that what stays the same element can glide to its new place.
function patch(live, next) {
  if (live.nodeName !== next.nodeName || live.childNodes.length !== next.childNodes.length) return live.replaceWith(next);
  if (live.nodeType === Node.TEXT_NODE) return (live.data = next.data);
  for (const { name } of [...live.attributes]) if (!next.hasAttribute(name)) live.removeAttribute(name);
  for (const { name, value } of next.attributes) if (live.getAttribute(name) !== value) live.setAttribute(name, value);
  const pairs = [...next.childNodes].map((child, i) => [live.childNodes[i], child]);
  for (const [old, young] of pairs) patch(old, young);
}

// Draw once, then again after every change of a setting; several changes in a row are drawn once.
export function mount({ model, el }, { settings, data, first = [], controls, picture, sentence, alt }) {
  const read = () => Object.fromEntries([...settings, ...data, "words"].map((name) => [name, model.get(name)]));
  const initial = Object.fromEntries(settings.map((name) => [name, model.get(name)]));
  const reset = element("button", { type: "button", textContent: model.get("words").reset });
  reset.addEventListener("click", () => change(model, initial));

  const figure = element("div", { className: "mha-picture" });
  const text = element("p", { className: "mha-sentence", ariaLive: "polite" });
  const above = element("div", { className: "mha-first" }, first.map((control) => control.element));
  const beside = element("div", { className: "mha-controls" }, [...controls.map((control) => control.element), reset]);
  const form = element("form", { className: "mha-widget-grid" }, [...(first.length ? [above] : []), figure, text, beside]);
  form.addEventListener("submit", (event) => event.preventDefault());
  figure.addEventListener("click", ({ target }) => {
    const hit = target.closest("[data-set]");
    if (hit) change(model, { [hit.dataset.set]: Number(hit.dataset.value) });
  });
  el.classList.add("mha-live");
  el.replaceChildren(form);

  function paint() {
    const state = read();
    const next = element("template", { innerHTML: picture(state) }).content.firstChild;
    next.setAttribute("role", "img");
    next.setAttribute("aria-label", alt(state));
    if (figure.firstChild) patch(figure.firstChild, next);
    else figure.append(next);
    text.textContent = sentence(state);
    for (const control of [...first, ...controls]) control.show(state);
  }
  let waiting = false;
  const soon = () => {
    if (waiting) return;
    waiting = true;
    queueMicrotask(() => {
      waiting = false;
      paint();
    });
  };
  for (const name of settings) model.on(`change:${name}`, soon);
  paint();
  return () => settings.forEach((name) => model.off(`change:${name}`, soon));
}
