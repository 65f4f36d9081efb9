import { canvas, choices, fill, label, mount, range, slider, tag } from "./common.js";

const [WIDTH, HEIGHT] = [430, 338];
const [EDGE, BREADTH] = [23, 384];
const [BITS, LINE, TABLE, ROW] = [44, 138, 210, 22];
const COLUMNS = { becomes: 262, off: 407 };

const end = { "text-anchor": "end" };
const middle = { "text-anchor": "middle" };

const bias = (format) => 2 ** (format.exponent_bits - 1) - 1;
const smallestNormal = (format) => 2 ** (1 - bias(format));

function largest(format) {
  const last = 2 ** -format.fraction_bits;
  return format.has_infinity ? (2 - last) * 2 ** bias(format) : (2 - 2 * last) * 2 ** (bias(format) + 1);
}

// The power of two at or below x is known here: x is given by its exponent.
const spacing = (exponent, format) => 2 ** (Math.max(exponent, 1 - bias(format)) - format.fraction_bits);

function roundTo(x, exponent, format) {
  const step = spacing(exponent, format);
  const low = Math.floor(x / step);
  const rest = x / step - low;
  const rounded = step * (low + (rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? 1 : 0));
  return rounded > largest(format) ? null : rounded;
}

function bits(x, exponent, format) {
  let [field, fraction] = [2 ** format.exponent_bits - 1, format.has_infinity ? 0 : 2 ** format.fraction_bits - 1];
  if (x !== null && x < smallestNormal(format)) {
    [field, fraction] = [0, x / (smallestNormal(format) * 2 ** -format.fraction_bits)];
  } else if (x !== null) {
    const own = x >= 2 ** (exponent + 1) ? exponent + 1 : exponent;
    [field, fraction] = [own + bias(format), (x / 2 ** own - 1) * 2 ** format.fraction_bits];
  }
  return "0" + field.toString(2).padStart(format.exponent_bits, "0") + fraction.toString(2).padStart(format.fraction_bits, "0");
}

function significand(thousandths) {
  return `1.${String(thousandths).padStart(3, "0")}`.replace(/\.?0+$/, "");
}

const raised = (exponent) => String(exponent).replace(/[-\d]/g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);

// Five digits of a number that is not negative.
export function decimal(x) {
  if (x === 0) return "0";
  let power = Math.max(...range(100).map((k) => k - 50).filter((k) => Number(`1e${k}`) <= x));
  let digits = Math.floor((x / Number(`1e${power}`)) * 10000 + 0.5);
  if (digits === 100000) [digits, power] = [10000, power + 1];
  const written = String(digits).replace(/0+$/, "");
  if (power < -4 || power > 6) {
    const point = written.length > 1 ? "." : "";
    return `${written[0]}${point}${written.slice(1)} · 10${raised(power)}`;
  }
  if (power < 0) return `0.${"0".repeat(-power - 1)}${written}`;
  const [whole, rest] = [written.slice(0, power + 1).padEnd(power + 1, "0"), written.slice(power + 1)];
  return rest ? `${whole}.${rest}` : whole;
}

export function compute({ formats, exponent, thousandths, format }) {
  const value = (1 + thousandths / 1000) * 2 ** exponent;
  const chosen = formats[format];
  const rounded = formats.map((one) => roundTo(value, exponent, one));
  const step = spacing(exponent, chosen);
  const low = Math.floor(value / step) * step;
  return {
    value,
    rounded,
    off: rounded.map((x) => (x === null ? null : (100 * Math.abs(x - value)) / value)),
    bits: bits(rounded[format], exponent, chosen),
    low: low <= largest(chosen) ? low : null,
    high: low + step <= largest(chosen) ? low + step : null,
    place: (value - low) / step,
  };
}

function becomes(formats, found, format) {
  const rounded = found.rounded[format];
  if (rounded === null) return formats[format].has_infinity ? "∞" : "NaN";
  return decimal(rounded);
}

export function sentence(state) {
  const { words, formats, format } = state;
  const found = compute(state);
  const told = { value: decimal(found.value), format: formats[format].name, rounded: becomes(formats, found, format) };
  const off = found.off[format];
  if (off === null) return fill(words.sentence_beyond, { ...told, largest: decimal(largest(formats[format])) });
  return fill(words.sentence, { ...told, off: decimal(off) });
}

export function alt(state) {
  const { words, exponent, thousandths } = state;
  const settings = { bits: compute(state).bits, significand: significand(thousandths), exponent: raised(exponent) };
  return `${sentence(state)} ${fill(words.settings, settings)}`;
}

function pattern({ words, formats, format, exponent, thousandths }, found) {
  const chosen = formats[format];
  const first = { significand: significand(thousandths), exponent: raised(exponent), value: decimal(found.value) };
  const parts = [label(EDGE, 20, fill(words.value, first))];
  const size = Math.min(24, BREADTH / found.bits.length);
  const groups = { sign: 1, exponent: chosen.exponent_bits, fraction: chosen.fraction_bits };
  const looks = {
    sign: { "fill-opacity": 0.15 },
    exponent: { fill: "#c8553d", "fill-opacity": 0.35 },
    fraction: { class: "w", "fill-opacity": 0.35 },
  };
  let drawn = 0;
  for (const [name, count] of Object.entries(groups)) {
    const start = EDGE + size * drawn;
    for (const bit of range(count)) {
      const x = start + size * bit;
      parts.push(tag("rect", { x: x + 0.5, y: BITS, width: size - 1, height: 26, ...looks[name] }));
      parts.push(label(x + size / 2, BITS + 18, found.bits[drawn + bit], { ...middle, "font-size": size > 14 ? 13 : 10 }));
    }
    if (name !== "sign") {
      const text = fill(words.group, { name: words[`${name}_bits`], count });
      parts.push(label(start + (size * count) / 2, BITS + 42, text, { ...middle, class: "muted" }));
    }
    drawn += count;
  }
  return parts.join("");
}

function between({ words }, found) {
  const [left, right] = [EDGE + 60, EDGE + BREADTH - 60];
  const line = { stroke: "currentColor", "stroke-opacity": 0.6 };
  const parts = [tag("path", { d: `M${EDGE} ${LINE}h${BREADTH}M${left} ${LINE - 7}v14M${right} ${LINE - 7}v14`, ...line })];
  for (const [x, end] of [[left, found.low], [right, found.high]])
    parts.push(label(x, LINE + 24, end === null ? words.beyond : decimal(end), middle));
  parts.push(tag("circle", { cx: left + (right - left) * found.place, cy: LINE, r: 5, class: "w" }));
  return parts.join("");
}

function table({ words, formats, format }, found) {
  const parts = Object.entries(COLUMNS).map(([name, right]) => label(right, TABLE, words[name], { ...end, class: "muted" }));
  formats.forEach(({ name }, row) => {
    const y = TABLE + (row + 1) * ROW;
    const bold = row === format ? { "font-weight": "700" } : {};
    const off = found.off[row];
    const box = { x: EDGE - 6, y: y - 15, width: BREADTH + 12, height: ROW, "fill-opacity": 0 };
    parts.push(
      label(EDGE, y, name, bold),
      label(COLUMNS.becomes, y, becomes(formats, found, row), { ...end, ...bold }),
      label(COLUMNS.off, y, off === null ? "—" : `${decimal(off)} %`, { ...end, ...bold }),
      tag("rect", { ...box, class: "pick", "data-set": "format", "data-value": String(row) }),
    );
  });
  return parts.join("");
}

export function picture(state) {
  const found = compute(state);
  return canvas(WIDTH, HEIGHT, [pattern, between, table].map((draw) => draw(state, found)).join(""));
}

function render({ model, el }) {
  const words = model.get("words");
  return mount(
    { model, el },
    {
      settings: ["exponent", "thousandths", "format"],
      data: ["formats"],
      controls: [
        slider(model, "exponent", { text: words.exponent_control, min: -30, max: 20, value: ({ exponent }) => String(exponent).replace("-", "−") }),
        slider(model, "thousandths", {
          text: words.significand_control,
          min: 0,
          max: 999,
          value: ({ thousandths }) => significand(thousandths),
        }),
        choices(model, "format", { text: words.format_control, options: model.get("formats").map(({ name }, i) => [i, name]) }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
