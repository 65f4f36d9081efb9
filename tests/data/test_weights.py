"""The real models, when they are fetched, are what transformers makes of the same files."""

import numpy as np
import pytest

from compare import assert_equal
from exact import assert_same_function
from mha.data import DataUnavailable, capture, pretrained
from mha.data.weights import WEIGHTS, cache_of

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SENTENCES = {
    "smollm2": "When Mary and John went to the store, John gave a drink to",
    "minilm": "He was full of the fire of the hunt.",
}


@pytest.fixture(scope="module")
def fetched():
    loaded = {}

    def model(name):
        if not cache_of(name).is_dir():
            pytest.skip(f"the weights of {name} are not here: python -m mha.data fetch {name}")
        return loaded.setdefault(name, pretrained(name))

    return model


@pytest.mark.slow
@pytest.mark.pretrained
def test_smollm2_is_what_transformers_reads_from_the_same_file(fetched):
    ours = fetched("smollm2")
    (file,) = (path.name for path in cache_of("smollm2").glob("*.gguf"))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        cache_of("smollm2"), gguf_file=file, attn_implementation="eager", dtype=torch.float32
    )
    numbers = ours.encode(SENTENCES["smollm2"])
    with torch.no_grad():
        output = theirs(numbers, output_attentions=True)
    compare(ours, numbers, output.logits, output.attentions)


@pytest.mark.pretrained
def test_smollm2_reads_and_writes(fetched):
    ours = fetched("smollm2")
    numbers = ours.encode(SENTENCES["smollm2"])
    assert ours.tokens(numbers[0])[:4] == ["<start>", "When", "Mary", "and"]
    with torch.no_grad():
        assert ours.tokenizer.decode([int(ours.model(numbers)[0, -1].argmax())]) == " Mary"
    for text in ("Call me Ishmael — 1851!", "日本語 and naïve  spaces\n", ""):
        assert ours.tokenizer.decode(ours.encode(text)[0, 1:].tolist()) == text


@pytest.mark.pretrained
def test_minilm_is_what_transformers_reads_from_the_same_file(fetched):
    from safetensors.torch import load_file

    ours = fetched("minilm")
    sizes = ours.config
    theirs = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=sizes.vocab_size,
            hidden_size=sizes.d_model,
            num_hidden_layers=sizes.num_layers,
            num_attention_heads=sizes.num_heads,
            intermediate_size=sizes.d_mlp,
            layer_norm_eps=sizes.norm_eps,
            attn_implementation="eager",
        )
    ).eval()
    lacking = theirs.load_state_dict(load_file(cache_of("minilm") / "model.safetensors"), strict=False)
    assert not lacking.missing_keys
    numbers = ours.encode(SENTENCES["minilm"])
    with torch.no_grad():
        output = theirs(numbers, output_attentions=True)
    compare(ours, numbers, output.last_hidden_state, output.attentions)


def compare(ours, numbers, output, attentions):
    with torch.no_grad():
        single, maps = ours.model(numbers), ours.model.attention_maps(numbers)
        double = ours.model.double()(numbers), ours.model.attention_maps(numbers)
    ours.model.float()
    assert_same_function(output, single, double[0], label="output")
    assert_same_function(torch.stack(attentions), maps, double[1], label="attention")


@pytest.mark.pretrained
def test_minilm_finds_like_sentences_alike(fetched):
    ours = fetched("minilm")

    def direction(text):
        with torch.no_grad():
            return torch.nn.functional.normalize(ours.model(ours.encode(text)).mean(dim=1), dim=-1)[0]

    food, meal, ship = map(direction, ("They are eating food.", "They are having a meal.", "The ship lost its mast."))
    assert food @ meal > 0.6
    assert food @ ship < 0.3


@pytest.mark.slow
@pytest.mark.pretrained
@pytest.mark.parametrize("name", ["smollm2_sentence", "smollm2_repeat", "minilm_sentence"])
def test_captures_can_be_made_again(fetched, name):
    """Another machine may sum in another order: 1e-5 in a number of size one, and half the last digit kept."""
    import capture as tool

    fetched(name.split("_")[0])
    tokens, arrays, about = getattr(tool, name)()
    stored = capture(name)
    assert tuple(tokens) == stored.tokens
    assert about["sentence"] == stored.about["sentence"]
    digit = {"patterns": 2.0**-10, "q": 1e-3, "k": 1e-3, "v": 1e-3}
    if "patterns_packed" in arrays:
        from mha.data.captures import unpack_causal

        arrays["patterns"] = unpack_causal(arrays.pop("patterns_packed"), len(tokens))
    assert arrays.keys() == stored.arrays.keys()
    for key, array in arrays.items():
        assert_equal(array.astype(np.float64), stored[key], rtol=1e-5, atol=1e-5 + digit.get(key, 0), label=key)


@pytest.mark.parametrize("name", WEIGHTS)
def test_absent_weights_say_what_to_run(name, monkeypatch, tmp_path):
    monkeypatch.setenv("MHA_CACHE", str(tmp_path))
    with pytest.raises(DataUnavailable, match=rf"not on this machine; run: python -m mha\.data fetch {name}\n"):
        pretrained(name)


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("gpt2", "auto", r"name is 'gpt2': expected one of minilm, smollm2"),
        ("minilm", "web", r"source is 'web': expected one of 'auto', 'package', 'hub'"),
    ],
)
def test_wrong_arguments(name, source, message):
    with pytest.raises(ValueError, match=message):
        pretrained(name, source=source)


def test_offline_hub_says_so():
    with pytest.raises(DataUnavailable, match=r"all-MiniLM-L6-v2 could not be read from the hub \(offline\?\)"):
        pretrained("minilm", source="hub")


def test_the_hub_is_read_by_its_own_names(monkeypatch, tmp_path):
    """Half-precision weights under the hub's names become our model in float32."""
    import huggingface_hub
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models

    from mha.data import weights as room
    from mha.models.bert import BertConfig

    sizes = BertConfig(
        vocab_size=5, num_segments=2, max_length=7, num_layers=1, d_model=6, num_heads=2, d_mlp=11, norm_eps=1e-12
    )
    theirs = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=5,
            max_position_embeddings=7,
            num_hidden_layers=1,
            hidden_size=6,
            num_attention_heads=2,
            intermediate_size=11,
        )
    ).half()
    save_file({key: x.contiguous() for key, x in theirs.state_dict().items()}, tmp_path / "model.safetensors")
    vocabulary = {token: number for number, token in enumerate(["[UNK]", "[CLS]", "[SEP]", "sea", "ship"])}
    Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]")).save(str(tmp_path / "tokenizer.json"))
    asked = []
    monkeypatch.setattr(
        huggingface_hub, "hf_hub_download", lambda repository, file: asked.append(repository) or tmp_path / file
    )
    monkeypatch.setattr(room, "_config", lambda name, family: sizes)
    model = pretrained("minilm", source="hub")
    assert set(asked) == {"sentence-transformers/all-MiniLM-L6-v2"}
    assert model.describe() == "all-MiniLM-L6-v2, from the hub: sentence-transformers/all-MiniLM-L6-v2"
    assert model.encode("ship").tolist() == [[1, 4, 2]]
    weight = model.model.blocks[0].attention.k_proj.weight
    assert_equal(weight, theirs.encoder.layer[0].attention.self.key.weight.float(), label="k_proj")
