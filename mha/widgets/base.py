"""What every widget is: settings, a picture, a sentence, and an ES module that says the same in the browser.

A new widget `stem` is a class in `stem.py`, a module `stem.js` that exports `compute`, `sentence`, `alt` and `picture`
of the state and a default `{ render }`, and a table `[stem]` of words in `mha/text/en/widgets.toml`. Its tests run both
on the same random states, so neither can drift from the other.
"""

import html
import json
import re
import sys
from pathlib import Path
from urllib.parse import quote

import anywidget
import numpy as np
import traitlets

from mha.text import template
from mha.widgets.svg import STYLE

HERE = Path(__file__).parent
LARGEST = 1_000_000
IMPORT = re.compile(r'^import \{[^}]*\} from "\./common\.js";\n', re.M)


def module_source(kind):
    """Return the ES module of a widget as one text, with `common.js` put in place of the import."""
    common = (HERE / "common.js").read_text(encoding="utf-8")
    own = (HERE / f"{kind}.js").read_text(encoding="utf-8")
    return common + IMPORT.sub("", own, count=1)


def setting(trait):
    """Mark a trait as part of the state that the page needs."""
    return trait.tag(sync=True, setting=True)


def data(trait):
    """Mark a trait as state that is given once: the other settings were checked against it."""
    trait.read_only = True
    return setting(trait).tag(data=True)


def stored(x, name, shape):
    """Return array `x` as nested lists rounded to three decimals, after checking its rank, lengths and numbers."""
    x = np.asarray(x)
    if x.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {x.dtype}, expected real numbers")
    x = x.astype(float)
    if x.ndim != len(shape) or any(
        isinstance(want, int) and got != want for got, want in zip(x.shape, shape, strict=True)
    ):
        raise ValueError(f"{name} has shape {x.shape}, expected ({', '.join(map(str, shape))})")
    if not np.isfinite(x).all():
        raise ValueError(f"{name} holds NaN or infinity; a widget shows finite numbers only")
    if np.abs(x).max(initial=0) > LARGEST:
        raise ValueError(
            f"{name} holds {np.abs(x).max():g}, expected numbers up to {LARGEST:,}: scores must not overflow"
        )
    return np.round(x, 3).tolist()


def checked_tokens(tokens, least):
    """Return the tokens as a list, or raise if there are fewer than `least`."""
    if len(tokens) < least:
        raise ValueError(f"tokens has {len(tokens)} entries, expected at least {least}")
    return [str(token) for token in tokens]


class Widget(anywidget.AnyWidget):
    """A subclass has its module's name and gives settings, their limits, `picture()`, `sentence()` and `alt()`.

    Displayed, it is live where a kernel runs; elsewhere it is a still picture that the page brings to life.
    """

    _css = (HERE / "widget.css").read_text(encoding="utf-8")
    words = setting(traitlets.Dict())

    def __init__(self, *, name="", caption=None, **settings):
        own = template(f"widgets.{self.kind()}")
        self.name, self.caption = name, own["caption"] if caption is None else caption
        words = {**template("widgets.common"), **own}
        del words["caption"]
        try:
            for key in self.trait_names(data=True):
                self.set_trait(key, settings.pop(key))
            super().__init__(words=words, **settings)
        except traitlets.TraitError as problem:
            raise ValueError(str(problem)) from None

    @classmethod
    def kind(cls):
        """Return the name that the Python module, the ES module and the page share."""
        return cls.__module__.rpartition(".")[2]

    def limits(self):
        """Return the lowest and highest value of each bounded setting."""
        return {}

    def within_limits(self, proposal):
        """Return the proposed value of a setting, or raise if it lies outside its limits."""
        key, value = proposal.trait.name, proposal.value
        low, high = self.limits()[key]
        if not low <= value <= high:
            raise ValueError(f"{key} is {value}, expected a value from {low} to {high}")
        return value

    def __repr__(self):
        return f"{type(self).__name__}: {self.alt()}"

    def to_html(self):
        """Return the widget as plain HTML: a still picture, and the state from which the page makes it live."""
        state = {key: getattr(self, key) for key in self.trait_names(setting=True)}
        state = html.escape(json.dumps(state, separators=(",", ":"), sort_keys=True, ensure_ascii=False))
        still = quote(self.picture().replace(">", ">" + STYLE, 1), safe=" =:/;,.-()!*'")
        name = html.escape(self.name)
        return (
            f'<figure class="mha-widget" data-name="{name}" data-widget="{self.kind()}" data-state="{state}">'
            f'<img alt="{html.escape(self.alt())}" src="data:image/svg+xml,{still}">'
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )

    def _repr_mimebundle_(self, **kwargs):
        data, metadata = super()._repr_mimebundle_(**kwargs)
        if "google.colab" in sys.modules:  # Colab would show the still picture in place of the live widget
            return data, metadata
        return {**data, "text/html": self.to_html()}, metadata
