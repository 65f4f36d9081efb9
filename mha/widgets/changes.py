"""Which states of an encoder and of a decoder move when one word of a sentence is exchanged."""

import math

import numpy as np
import traitlets

from mha.text import say
from mha.widgets.base import Widget, checked_tokens, data, module_source, setting, stored
from mha.widgets.svg import canvas, label, number, shorten, tag

WIDTH, HEIGHT, LEFT, RIGHT, TALL = 430, 390, 10, 420, 96
FULL = 150  # percent; a higher bar is cut
BASES = {"encoder": 140, "decoder": 328}
OWN = "#c8553d"


def rounded(share):
    """Write a share in whole percent; what is not zero is not written as 0."""
    return "<1" if 0 < share < 0.5 else str(math.floor(share + 0.5))


class Changes(Widget):
    """A sentence whose words can be exchanged one by one, and how far each state of two real models moves.

    `encoder` is (depths, words, words + 2): the length of the change in percent of that of the state, with a token
    before and one after the sentence; `decoder` is (depths, words, words + 1), with a token before it. `others` are the
    words that come in, `encoder_layers` and `decoder_layers` how many layers lie below each depth.
    """

    _esm = module_source("changes")
    tokens = data(traitlets.List(traitlets.Unicode()))
    others = data(traitlets.List(traitlets.Unicode()))
    encoder = data(traitlets.List(traitlets.List(traitlets.List(traitlets.Float()))))
    decoder = data(traitlets.List(traitlets.List(traitlets.List(traitlets.Float()))))
    encoder_layers = data(traitlets.List(traitlets.Int()))
    decoder_layers = data(traitlets.List(traitlets.Int()))
    depth = setting(traitlets.Int())
    word = setting(traitlets.Int())

    def __init__(
        self, tokens, others, encoder, decoder, *, encoder_layers, decoder_layers, depth=None, word=0, name="",
        caption=None,
    ):  # fmt: skip
        tokens, depths = checked_tokens(tokens, 1), len(encoder_layers)
        if len(others) != len(tokens):
            raise ValueError(f"others has {len(others)} entries, expected {len(tokens)}, one for each token")
        super().__init__(
            tokens=tokens,
            others=[str(other) for other in others],
            encoder=stored(encoder, "encoder", (depths, len(tokens), len(tokens) + 2)),
            decoder=stored(decoder, "decoder", (depths, len(tokens), len(tokens) + 1)),
            encoder_layers=list(encoder_layers),
            decoder_layers=list(decoder_layers),
            depth=depths - 1 if depth is None else depth,
            word=word,
            name=name,
            caption=caption,
        )

    def limits(self):
        return {"depth": (0, len(self.encoder_layers) - 1), "word": (0, len(self.tokens) - 1)}

    @traitlets.validate("depth", "word")
    def _within_limits(self, proposal):
        return self.within_limits(proposal)

    def compute(self):
        """Return the moves at the chosen depth for the chosen word, and how many states have moved."""
        found = {key: np.array(getattr(self, key)) for key in BASES}
        rows = {key: moved[self.depth, self.word] for key, moved in found.items()}
        counts = {f"{key}_moved": int((row > 0).sum()) for key, row in rows.items()}
        return rows | counts

    def sentence(self):
        found = self.compute()
        return say(
            "widgets.changes.sentence",
            old=self.tokens[self.word],
            new=self.others[self.word],
            encoder_layers=self.encoder_layers[self.depth],
            decoder_layers=self.decoder_layers[self.depth],
            encoder=found["encoder_moved"],
            decoder=found["decoder_moved"],
            encoder_all=len(self.tokens) + 2,
            decoder_all=len(self.tokens) + 1,
        )

    def alt(self):
        return f"{say('widgets.changes.settings', sentence=' '.join(self.tokens))} {self.sentence()}"

    def picture(self):
        found = self.compute()
        return canvas(WIDTH, HEIGHT, "".join(self.bars(key, found) for key in BASES))

    def bars(self, key, found):
        """Draw how far each state of one model has moved, in percent of its length."""
        base, cell = BASES[key], (RIGHT - LEFT) / (len(self.tokens) + 2)
        title = say(f"widgets.changes.{key}", layers=getattr(self, f"{key}_layers")[self.depth])
        shown = [self.words["first"], *self.tokens, self.words["last"]]
        shown[self.word + 1] = self.others[self.word]
        parts = [label(LEFT, base - TALL - 26, title, {"font-weight": "700"})]
        for place, moved in enumerate(found[key]):
            x, own = LEFT + (place + 0.5) * cell, place == self.word + 1
            tall, middle = TALL * min(1, moved / FULL), {"text-anchor": "middle"}
            bar = {"x": x - 0.36 * cell, "y": base - tall, "width": 0.72 * cell, "height": tall}
            strong = {"font-weight": "700" if own else "400"}
            turned = {"text-anchor": "end", "transform": f"rotate(-45 {x + 4:.1f} {base + 14})"}
            parts.append(tag("rect", bar | ({"fill": OWN} if own else {"class": "w"})))
            parts.append(label(x, base - tall - 4, rounded(moved), middle | strong))
            parts.append(label(x + 4, base + 14, shorten(shown[place]), turned | strong))
            if 0 < place <= len(self.tokens):
                hit = {"x": x - cell / 2, "y": base - TALL - 16, "width": cell, "height": TALL + 62, "fill-opacity": 0}
                chooses = {"class": "pick", "data-set": "word", "data-value": str(place - 1)}
                parts.append(tag("rect", hit | chooses))
        line = f"M{LEFT} {base}H{number(LEFT + len(found[key]) * cell)}"
        return "".join([*parts, tag("path", {"d": line, "stroke": "currentColor", "stroke-opacity": 0.4})])
