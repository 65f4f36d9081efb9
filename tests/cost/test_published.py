"""The tables of models and machines: against the defaults of transformers, the bibliography and their own papers."""

import json
import re

import pytest
import transformers

from house.repository import ROOT
from mha import cost

CONFIGS = {  # the class whose defaults are this model's
    "bert-base": "BertConfig",
    "deepseek-v3": "DeepseekV3Config",
    "gemma-7b": "GemmaConfig",
    "gpt-1": "OpenAIGPTConfig",
    "gpt-2-small": "GPT2Config",
    "gpt-oss-120b": "GptOssConfig",
    "llama-2-7b": "LlamaConfig",
    "mistral-7b": "MistralConfig",
    "t5-small": "T5Config",
    "vit-base": "ViTConfig",
    "whisper-tiny": "WhisperConfig",
}
NAMES = {  # of a size, in one configuration or another
    "d_model": ("hidden_size", "d_model", "n_embd"),
    "num_heads": ("num_attention_heads", "n_head", "num_heads", "encoder_attention_heads"),
    "num_kv_heads": ("num_key_value_heads",),
    "d_mlp": ("intermediate_size", "d_ff", "n_inner", "encoder_ffn_dim"),
    "num_layers": ("num_hidden_layers", "n_layer", "num_layers", "encoder_layers"),
    "d_head": ("qk_nope_head_dim", "head_dim", "d_kv"),
}
LATENT = {
    "d_latent": "kv_lora_rank",
    "d_query_latent": "q_lora_rank",
    "d_rope": "qk_rope_head_dim",
    "d_head": "qk_nope_head_dim",
    "d_value": "v_head_dim",
}
MODELS = cost.published_models()


@pytest.mark.parametrize("key", CONFIGS)
def test_defaults_of_transformers(key):
    model, config = MODELS[key], getattr(transformers, CONFIGS[key])().to_dict()
    seen = 0
    for size, names in NAMES.items():
        for name in names:
            if config.get(name) is not None:
                assert getattr(model, size) in (config[name], None), (size, name)
                seen += 1
                break
    assert seen >= 3
    if model.latent is not None:
        assert {size: config[name] for size, name in LATENT.items()} == vars(model.latent)


@pytest.mark.parametrize(("key", "name"), [("smollm2-135m", "smollm2"), ("minilm-l6", "minilm")])
def test_models_that_the_package_loads(key, name):
    config, model = json.loads((ROOT / f"mha/models/{name}.json").read_text("utf-8")), MODELS[key]
    shared = config.keys() & {"d_model", "num_heads", "num_kv_heads", "num_layers", "d_mlp"}
    assert len(shared) >= 3
    assert {size: config[size] for size in shared} == {size: getattr(model, size) for size in shared}


@pytest.mark.parametrize("entry", [*MODELS.values(), *cost.published_machines().values()], ids=lambda entry: entry.name)
def test_sources_are_in_the_bibliography(entry):
    bibliography = (ROOT / "book/references.bib").read_text("utf-8")
    assert re.search(rf"^@\w+{{{entry.source},$", bibliography, re.MULTILINE)


def test_models_are_ordered_and_whole():
    assert [model.year for model in MODELS.values()] == sorted(model.year for model in MODELS.values())
    for model in MODELS.values():
        assert model.kind in ("encoder", "decoder", "encoder-decoder")
        assert model.num_heads % model.num_kv_heads == 0
        assert model.parameters() > 0


def test_parameters_by_hand():
    """BERT base: 12 layers of 4 · 768² weights; T5 11B: 3 · 24 attentions with 128 heads of 128 on a width of 1024."""
    assert MODELS["bert-base"].parameters() == 12 * 4 * 768**2
    assert MODELS["t5-11b"].parameters() == 72 * 4 * 1024 * 128 * 128
    assert MODELS["llama-2-70b"].parameters() == 80 * (2 * 8192**2 + 2 * 8192 * 1024)


def test_feed_forward_parameters_by_hand():
    """With its attention and two embeddings of 128,256 tokens Llama 3 8B has 8.03 · 10⁹ parameters."""
    llama, gpt3 = MODELS["llama-3-8b"], MODELS["gpt-3"]
    assert llama.feed_forward_parameters() == 32 * 3 * 4096 * 14336
    assert llama.parameters() + llama.feed_forward_parameters() + 2 * 128256 * 4096 == pytest.approx(8.03e9, rel=1e-3)
    assert gpt3.parameters() + gpt3.feed_forward_parameters() == pytest.approx(174e9, rel=1e-3)
    assert MODELS["transformer-base"].feed_forward_parameters() == 2 * 6 * 2 * 512 * 2048
    with pytest.raises(ValueError, match="how wide the feed-forward layers of GPT-2 XL are"):
        MODELS["gpt-2-xl"].feed_forward_parameters()


def test_cache_bytes_by_hand():
    """What DeepSeek-V2 keeps of a position is 4.5 · 128 numbers a layer (DeepSeek-AI 2024, Table 1)."""
    assert MODELS["deepseek-v2"].cache_bytes(1, itemsize=2) == 60 * 4.5 * 128 * 2
    assert MODELS["llama-2-7b"].cache_bytes(4096) == 2 * 2**30
    assert MODELS["palm-540b"].cache_bytes(3, batch=2) == 118 * 2 * 3 * 256 * 2 * 2
    assert MODELS["bert-base"].cache_bytes(512) == 0


def test_machines_are_those_of_the_data_sheets():
    machines = cost.published_machines()
    assert [(m.peak / 1e12, m.bandwidth / 1e9, m.memory / 1e9) for m in machines.values()] == [
        (125, 900, 32),
        (312, 2039, 80),
        (989, 3350, 80),
    ]
    assert machines["a100"].ridge == pytest.approx(153.0, abs=0.05)
