"""Whole models on `mha.nn`, a file each with its frozen configuration, and what trains them and lets them write.

Every name is loaded when it is first used.
"""

from importlib import import_module

_CLASSES = {
    "Bert": "bert",
    "BertConfig": "bert",
    "BertForPreTraining": "bert",
    "GPT": "gpt",
    "GPTConfig": "gpt",
    "Hybrid": "hybrid",
    "HybridConfig": "hybrid",
    "InductionModel": "handmade",
    "Llama": "llama",
    "LlamaConfig": "llama",
    "Recurrent": "recurrent",
    "RecurrentConfig": "recurrent",
    "Seq2Seq": "seq2seq",
    "Seq2SeqConfig": "seq2seq",
}
_MODULES = (
    "bert",
    "decoding",
    "gpt",
    "handmade",
    "huggingface",
    "hybrid",
    "ibm1",
    "llama",
    "masking",
    "probe",
    "recurrent",
    "seq2seq",
    "train",
    "translation",
)

__all__ = [*_CLASSES, *_MODULES]


def __getattr__(name):
    if name in _CLASSES:
        return getattr(import_module(f"mha.models.{_CLASSES[name]}"), name)
    if name in _MODULES:
        return import_module(f"mha.models.{name}")
    raise AttributeError(f"module 'mha.models' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
