import { canvas, fill, label, mount, number, shorten, slider, tag } from "./common.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TALL] = [430, 390, 10, 420, 96];
const BASES = { encoder: 140, decoder: 328 };
const FULL = 150; // percent; a higher bar is cut
const OWN = "#c8553d";

const rounded = (share) => (0 < share && share < 0.5 ? "<1" : String(Math.floor(share + 0.5)));

export function compute({ encoder, decoder, depth, word }) {
  const rows = { encoder: encoder[depth][word], decoder: decoder[depth][word] };
  const moved = (row) => row.filter((x) => x > 0).length;
  return { ...rows, encoder_moved: moved(rows.encoder), decoder_moved: moved(rows.decoder) };
}

export function sentence(state) {
  const { words, tokens, others, depth, word } = state;
  const found = compute(state);
  return fill(words.sentence, {
    old: tokens[word],
    new: others[word],
    encoder_layers: state.encoder_layers[depth],
    decoder_layers: state.decoder_layers[depth],
    encoder: found.encoder_moved,
    decoder: found.decoder_moved,
    encoder_all: tokens.length + 2,
    decoder_all: tokens.length + 1,
  });
}

export const alt = (state) => `${fill(state.words.settings, { sentence: state.tokens.join(" ") })} ${sentence(state)}`;

export function picture(state) {
  const found = compute(state);
  return canvas(WIDTH, HEIGHT, ["encoder", "decoder"].map((key) => bars(key, state, found)).join(""));
}

function bars(key, state, found) {
  const { words, tokens, others, word } = state;
  const [base, cell] = [BASES[key], (RIGHT - LEFT) / (tokens.length + 2)];
  const title = fill(words[key], { layers: state[`${key}_layers`][state.depth] });
  const shown = [words.first, ...tokens, words.last];
  shown[word + 1] = others[word];
  const parts = [label(LEFT, base - TALL - 26, title, { "font-weight": "700" })];
  found[key].forEach((moved, place) => {
    const [x, own] = [LEFT + (place + 0.5) * cell, place === word + 1];
    const [tall, middle] = [TALL * Math.min(1, moved / FULL), { "text-anchor": "middle" }];
    const bar = { x: x - 0.36 * cell, y: base - tall, width: 0.72 * cell, height: tall };
    const strong = { "font-weight": own ? "700" : "400" };
    const turned = { "text-anchor": "end", transform: `rotate(-45 ${(x + 4).toFixed(1)} ${base + 14})` };
    parts.push(tag("rect", { ...bar, ...(own ? { fill: OWN } : { class: "w" }) }));
    parts.push(label(x, base - tall - 4, rounded(moved), { ...middle, ...strong }));
    parts.push(label(x + 4, base + 14, shorten(shown[place]), { ...turned, ...strong }));
    if (0 < place && place <= tokens.length) {
      const hit = { x: x - cell / 2, y: base - TALL - 16, width: cell, height: TALL + 62, "fill-opacity": 0 };
      parts.push(tag("rect", { ...hit, class: "pick", "data-set": "word", "data-value": String(place - 1) }));
    }
  });
  const d = `M${LEFT} ${base}H${number(LEFT + found[key].length * cell)}`;
  parts.push(tag("path", { d, stroke: "currentColor", "stroke-opacity": 0.4 }));
  return parts.join("");
}

function render({ model, el }) {
  const [words, tokens, layers] = ["words", "tokens", "encoder_layers"].map((key) => model.get(key));
  return mount(
    { model, el },
    {
      settings: ["depth", "word"],
      data: ["tokens", "others", "encoder", "decoder", "encoder_layers", "decoder_layers"],
      controls: [
        slider(model, "word", {
          text: words.word_control,
          min: 0,
          max: tokens.length - 1,
          value: (state) => shorten(state.tokens[state.word]),
        }),
        slider(model, "depth", {
          text: words.depth_control,
          min: 0,
          max: layers.length - 1,
          value: (state) => `${state.encoder_layers[state.depth]} / ${state.decoder_layers[state.depth]}`,
        }),
      ],
      picture,
      sentence,
      alt,
    },
  );
}

export default { render };
