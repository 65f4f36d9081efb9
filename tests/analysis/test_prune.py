"""Heads that are taken out: the numbers of a layer with zeros in their columns, fewer parameters, and a way back."""

import copy
import io
import pickle
from functools import partial
from itertools import pairwise

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.prune import l1_unstructured

from compare import assert_equal
from exact import redraw
from mha import masks
from mha.analysis import capture, merge_heads, permute_heads, remove_heads, split_layer, without_heads
from mha.models.bert import Bert, BertConfig, from_hub_names
from mha.models.gpt import GPT, GPTConfig
from mha.models.llama import Llama, LlamaConfig
from mha.models.seq2seq import Seq2Seq, Seq2SeqConfig
from mha.nn import (
    Alibi,
    BlockSelection,
    Cache,
    DisentangledBias,
    FeatureAttention,
    Linformer,
    MultiHeadAttention,
    Performer,
    RelativeBias,
    Rotary,
    Routing,
    TalkingHeads,
    to_onnx,
    with_pooled_heads,
)
from nn.layers import draw, in_reference, layer
from nn.relative.cases import D_HEAD, NUM_HEADS, SCHEMES, by_reference

LLAMA = LlamaConfig(
    vocab_size=41, num_layers=3, d_model=60, num_heads=6, num_kv_heads=2, d_mlp=31, rope_base=100.0, norm_eps=1e-6
)
BERT = BertConfig(
    vocab_size=41, num_segments=2, max_length=11, num_layers=2, d_model=15, num_heads=3, d_mlp=31, norm_eps=1e-12
)
TOKENS = torch.randint(41, (2, 11), generator=torch.Generator().manual_seed(2))
HEADS = {(0, 2), (1, 0), (1, 1), (1, 2), (2, 5)}
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
ODD = {"d_head": 5, "bias": True}


@pytest.fixture
def llama():
    return redraw(Llama(LLAMA), seed=13).double()


def zeroed(module, heads):
    """A copy whose output projection has zeros where these heads of the layer as built are read."""
    other = copy.deepcopy(module)
    with torch.no_grad():
        for head in heads:
            other.out_proj.weight[:, head * other.d_head : (head + 1) * other.d_head] = 0
    return other


def numel(module):
    return sum(parameter.numel() for parameter in module.parameters())


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_removed_again_and_again_is_zeroed(data):
    groups, size = data.draw(st.sampled_from([(1, 5), (3, 2), (2, 3), (5, 1), (3, 3)]))
    extra = {name: data.draw(st.booleans(), label=name) for name in ("sinks", "gate")}
    extra |= data.draw(
        st.sampled_from([{}, {"qk_norm": partial(nn.RMSNorm, eps=1e-6)}, {"position": Rotary()}, {"softcap": 3.0}])
    )
    number = groups * size
    whole = layer(11, number, num_kv_heads=groups, d_head=4, **extra)
    cut = copy.deepcopy(whole)
    order = data.draw(st.permutations(range(number)))
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, number - 1), max_size=3)))]
    surgeries = [remove_heads(cut, order[start:end]) for start, end in pairwise(cuts)]
    gone = set(order[: cuts[-1]])
    assert cut.head_ids == tuple(head for head in range(number) if head not in gone)
    x, context = draw(2, data.draw(st.integers(0, 5)), 11), draw(2, 7, 11, seed=3)
    for given_context in (None, context):
        expected = in_reference(zeroed(whole, gone), x, given_context)
        assert_equal(cut(x, given_context), expected, **CLOSE)
    for surgery in reversed(surgeries):
        surgery.undo()
    assert_equal(cut(x), whole(x), label="the same bits")


def test_the_second_call_means_the_heads_of_the_first_count():
    whole = layer(11, 5, **ODD)
    cut, wrong = copy.deepcopy(whole), copy.deepcopy(whole)
    x = draw(2, 7, 11)
    remove_heads(cut, {1})
    remove_heads(cut, {2})
    assert cut.head_ids == (0, 3, 4)
    assert_equal(cut(x), zeroed(whole, {1, 2})(x), **CLOSE)
    remove_heads(wrong, {1, 3})  # the head that is third once the first is gone
    assert (wrong(x) - zeroed(whole, {1, 2})(x)).abs().max() > 1e-2, "numbers that move would show"
    with pytest.raises(ValueError, match=r"names head 2, which is gone: expected one of \(0, 3, 4\)"):
        remove_heads(cut, {2})
    with pytest.raises(ValueError, match=r"names head 5: expected 0 … 4"):
        remove_heads(cut, {5})


def test_what_belongs_to_a_head_goes_with_it():
    whole = layer(11, 6, num_kv_heads=3, d_head=5, sinks=True, gate=True)
    cut = copy.deepcopy(whole)
    remove_heads(cut, {0, 1, 5})
    assert (cut.num_heads, cut.num_kv_heads, cut.d_head, cut.key_heads) == (3, 2, 5, (0, 0, 1))
    shapes = {name: tuple(parameter.shape) for name, parameter in cut.named_parameters()}
    assert shapes == {
        "sinks": (3,),
        "q_proj.weight": (15, 11),
        "q_proj.bias": (15,),
        "k_proj.weight": (10, 11),
        "k_proj.bias": (10,),
        "v_proj.weight": (10, 11),
        "v_proj.bias": (10,),
        "out_proj.weight": (11, 15),
        "out_proj.bias": (11,),
        "gate_proj.weight": (15, 11),
        "gate_proj.bias": (15,),
    }
    assert_equal(cut.sinks, whole.sinks[2:5])
    assert_equal(cut.q_proj.weight, whole.q_proj.weight[10:25])
    assert_equal(cut.k_proj.weight, whole.k_proj.weight[5:])
    assert "num_heads=3, num_kv_heads=2" in repr(cut)
    assert "head_ids=(2, 3, 4), key_heads=(0, 0, 1)" in repr(cut)
    assert (cut.q_proj.out_features, cut.k_proj.out_features, cut.out_proj.in_features) == (15, 10, 15)
    assert "head_ids" not in repr(whole)


@pytest.mark.parametrize("name", SCHEMES)
def test_tables_of_positions_follow(name):
    torch.manual_seed(7)
    scheme = SCHEMES[name]()
    options = {"scale": scheme.scale} if isinstance(scheme, DisentangledBias) else {}
    whole = layer(10, NUM_HEADS, num_kv_heads=3, d_head=D_HEAD, position=scheme, **options)
    cut, x = copy.deepcopy(whole), draw(2, 11, 10)
    expected = in_reference(zeroed(whole, {1, 2, 4}), x, position=by_reference(whole.position))
    remove_heads(cut, {2})
    remove_heads(cut, {1, 4})
    assert_equal(cut(x), expected, rtol=1e-11, atol=1e-11)
    steps, cache, parts = (slice(0, 5), slice(5, 6), slice(6, 11)), Cache(), []
    for rows in steps:
        part, cache = cut.step(x[:, rows], cache, mask=masks.causal)
        parts.append(part)
    assert_equal(torch.cat(parts, 1), cut(x, mask=masks.causal), rtol=1e-11, atol=1e-11)
    assert cache.rows[0].shape[1] == 3, "the cache holds the key heads, not what each query head reads"
    if hasattr(scheme, "weight") and scheme.weight.shape[-1] == NUM_HEADS:
        assert_equal(cut.position.weight, whole.position.weight[:, [0, 3, 5]])


def test_slopes_that_do_not_follow_would_show():
    whole, x = layer(11, 6, d_head=4, position=Alibi(6)), draw(2, 7, 11)
    cut = copy.deepcopy(whole)
    remove_heads(cut, {0, 1})
    expected = zeroed(whole, {0, 1})(x)
    assert_equal(cut(x), expected, **CLOSE)
    cut.position = Alibi(4)
    assert (cut(x) - expected).abs().max() > 1e-2


def shared(scheme, num_layers=3):
    """A stack of layers around one position scheme."""
    layers = [layer(13, 6, num_kv_heads=3, d_head=4, position=scheme, seed=n) for n in range(num_layers)]
    return redraw(nn.Sequential(*layers), seed=4).double()


@pytest.mark.parametrize("name", ["t5", "transformer-xl", "deberta"])
def test_a_scheme_that_layers_share_stays_one(name):
    whole, x = shared(SCHEMES[name]()), draw(2, 7, 13)
    model, loaded, heads = copy.deepcopy(whole), copy.deepcopy(whole), {(0, 1), (0, 2), (2, 5)}
    with without_heads(whole, heads):
        expected = whole(x)
    expected.sum().backward()
    surgery = remove_heads(model, heads)
    assert model[0].position is model[1].position is model[2].position
    model(x).sum().backward()
    assert_equal(model(x), expected, **CLOSE)
    for table, other in zip(model[0].position.parameters(), whole[0].position.parameters(), strict=True):
        assert_equal(table.grad, other.grad, rtol=1e-10, atol=1e-12, label="gradients of all layers meet in one table")
    loaded.load_state_dict(model.state_dict())
    assert loaded[0].position is loaded[1].position
    assert_equal(loaded(x), expected, **CLOSE)
    surgery.undo()
    assert_equal(model(x), whole(x), label="the same bits")


def test_gradients_are_those_of_the_heads_that_are_left(llama):
    cut = copy.deepcopy(llama)
    with without_heads(llama, HEADS):
        llama(TOKENS).square().mean().backward()
    remove_heads(cut, HEADS)
    cut(TOKENS).square().mean().backward()
    whole, part = llama.blocks[1].attention, cut.blocks[1].attention
    assert_equal(part.q_proj.weight.grad, whole.q_proj.weight.grad[30:], rtol=1e-10, atol=1e-14)
    assert_equal(part.out_proj.weight.grad, whole.out_proj.weight.grad[:, 30:], rtol=1e-10, atol=1e-14)
    assert_equal(part.v_proj.weight.grad, whole.v_proj.weight.grad[10:], rtol=1e-10, atol=1e-14)
    assert_equal(cut.embed.weight.grad, llama.embed.weight.grad, rtol=1e-10, atol=1e-14)


def test_a_model_is_cut_as_it_was_masked(llama):
    with without_heads(llama, HEADS):
        expected = llama(TOKENS)
    whole, before = numel(llama), dict(llama.named_parameters())
    bits = {name: parameter.clone() for name, parameter in before.items()}
    first = remove_heads(llama, {(0, 2), ("blocks.1.attention", 0), (1, 1)})
    second = remove_heads(llama, {(1, 2), (2, 5)})
    assert [block.attention.num_heads for block in llama.blocks] == [5, 3, 5]
    assert whole - numel(llama) == 5 * 2 * 10 * 60 + 2 * 10 * 60, "five heads, and one key head that nobody reads"
    assert_equal(llama(TOKENS), expected, **CLOSE)
    caches, parts = llama.caches(), []
    for rows in (slice(0, 4), slice(4, 5), slice(5, 11)):
        part, caches = llama.step(TOKENS[:, rows], caches)
        parts.append(part)
    assert_equal(torch.cat(parts, 1), expected, **CLOSE)
    assert [cache.rows[0].shape[1] for cache in caches] == [2, 1, 2]
    with pytest.raises(ValueError, match="weight of a Linear was replaced or converted after this surgery: undo the"):
        first.undo()
    second.undo()
    first.undo()
    with pytest.raises(ValueError, match="undone already"):
        first.undo()
    for name, parameter in llama.named_parameters():
        assert parameter is before[name]
        assert_equal(parameter, bits[name], label=name)


def test_masks_name_heads_as_removal_does(llama):
    with without_heads(llama, HEADS):
        expected = llama(TOKENS)
    remove_heads(llama, {(1, 0), (1, 2)})
    with without_heads(llama, HEADS - {(1, 0), (1, 2)}):
        assert_equal(llama(TOKENS), expected, **CLOSE)
        remove_heads(llama, {(1, 3)})
        with without_heads(llama, {(1, 4)}):
            llama(TOKENS)
    with pytest.raises(ValueError, match=r"names head 2 of 'blocks.1.attention', which is gone"):
        without_heads(llama, {(1, 2)}).__enter__()


def test_a_capture_sees_what_is_left(llama):
    with capture(llama) as before:
        llama(TOKENS)
    remove_heads(llama, HEADS)
    with capture(llama) as seen:
        llama(TOKENS)
    assert_equal(seen.calls[0].weights, before.calls[0].weights[:, [0, 1, 3, 4, 5]], **CLOSE)
    assert_equal(llama.blocks[0].attention.weights(*[draw(1, 3, 60)]).sum(-1), torch.ones(1, 5, 3), atol=1e-12)


def test_a_whole_model_loads_a_cut_one(llama, tmp_path):
    from safetensors.torch import load_file, save_file

    remove_heads(llama, HEADS)
    state = llama.state_dict()
    assert_equal(state["blocks.1.attention.heads"], [[3, 4, 5], [0, 0, 0]])
    assert "blocks.1.attention.heads" not in Llama(LLAMA).state_dict()
    save_file(state, tmp_path / "cut.safetensors")
    with torch.device("meta"):
        abstract = Llama(LLAMA)
    for made, options in ((Llama(LLAMA).double(), {}), (abstract, {"assign": True}), (copy.deepcopy(llama), {})):
        for source in (state, load_file(tmp_path / "cut.safetensors")):
            made.load_state_dict(source, strict=True, **options)
            assert made.blocks[1].attention.head_ids == (3, 4, 5)
            assert_equal(made(TOKENS), llama(TOKENS), label="the same bits")
    again = io.BytesIO()
    torch.save(state, again)
    again.seek(0)
    assert_equal(torch.load(again, weights_only=True)["blocks.0.attention.heads"], [[0, 1, 3, 4, 5], [0, 0, 1, 1, 1]])


def test_states_that_do_not_fit_are_refused(llama):
    whole = copy.deepcopy(llama).state_dict()
    remove_heads(llama, {(0, 1)})
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "blocks.0.attention.heads"'):
        llama.load_state_dict(whole)
    other = redraw(Llama(LLAMA), seed=13).double()
    remove_heads(other, {(0, 2)})
    with pytest.raises(RuntimeError, match=r"heads: the state has heads \(0, 1, 3, 4, 5\) over 2 key heads and the"):
        llama.load_state_dict(other.state_dict())


def test_a_state_of_other_key_heads_leaves_the_layer_as_it_was():
    plain, grouped, x = layer(11, 6, d_head=4), layer(11, 6, num_kv_heads=3, d_head=4), draw(2, 7, 11)
    remove_heads(plain, {2, 3, 4, 5})
    with pytest.raises(RuntimeError, match=r"heads \(0, 1\) over 2 key heads and the layer has"):
        grouped.load_state_dict(plain.state_dict())
    assert grouped(x).shape == x.shape


@pytest.mark.parametrize("name", SCHEMES)
def test_a_table_in_another_order_is_loaded_as_it_stands(name):
    """It has the shape of the whole one, which layers that share it read in part."""
    torch.manual_seed(7)
    scheme = SCHEMES[name]()
    options = {"scale": scheme.scale} if isinstance(scheme, DisentangledBias) else {}
    whole, x = layer(10, NUM_HEADS, d_head=D_HEAD, position=scheme, **options), draw(2, 11, 10)
    fresh, cut = copy.deepcopy(whole), copy.deepcopy(whole)
    permute_heads(cut, [4, 0, 5, 2, 1, 3])
    fresh.load_state_dict(cut.state_dict())
    assert_equal(fresh(x), whole(x), rtol=1e-11, atol=1e-11)


def test_a_shared_table_is_loaded_by_a_layer_in_another_order():
    whole, x = shared(SCHEMES["t5"]()), draw(2, 7, 13)
    model, other = copy.deepcopy(whole), copy.deepcopy(whole)
    remove_heads(model, {(0, 1)})
    permute_heads(other[0], [4, 0, 5, 2, 1, 3])
    other.load_state_dict(model.state_dict())
    assert_equal(other(x), model(x), **CLOSE)


def test_a_state_is_one_that_functions_of_a_model_take(llama):
    for heads in (set(), HEADS):
        remove_heads(llama, heads)
        found = torch.func.functional_call(llama, llama.state_dict(), (TOKENS,))
        assert_equal(found, llama(TOKENS), label="the same bits")


def test_a_state_made_among_shapes_alone_has_its_heads():
    cut = layer(11, 6, d_head=4)
    remove_heads(cut, {1})
    with torch.device("meta"):
        state = cut.state_dict()
    assert_equal(state["heads"][0], [0, 2, 3, 4, 5])


def test_the_last_heads_are_told_from_a_layer_built_without_them():
    cut, fresh, x = layer(11, 5, **ODD), layer(11, 5, seed=9, **ODD), draw(2, 7, 11)
    remove_heads(cut, {3, 4})
    fresh.load_state_dict(cut.state_dict())
    assert_equal(fresh(x), cut(x))


def test_what_was_merged_first_is_undone_last():
    """Both leave groups of one size and touch other parameters; undone in the wrong order, keys would be too many."""
    made, x = layer(11, 6, d_head=4), draw(2, 7, 11)
    expected = made(x)
    merged = merge_heads(made, 3)
    removed = remove_heads(made, {0, 2, 4})
    with pytest.raises(ValueError, match="head_ids of a MultiHeadAttention was replaced"):
        merged.undo()
    removed.undo()
    merged.undo()
    assert_equal(made(x), expected)


def test_pooled_copies_are_layers_as_built():
    pooled = with_pooled_heads(layer(11, 6, d_head=4), 3)
    built = layer(11, 6, num_kv_heads=3, d_head=4, seed=8)
    built.load_state_dict(pooled.state_dict())
    pooled.load_state_dict(built.state_dict())
    uneven = layer(11, 6, num_kv_heads=3, d_head=4)
    remove_heads(uneven, {0})
    assert with_pooled_heads(uneven, 1).key_heads == (0,) * 5


def test_the_projections_of_deberta_are_the_layers_own():
    scheme = DisentangledBias(10, 6, span=3, d_head=4, dtype=torch.float64)
    whole, x = layer(10, 6, d_head=4, position=scheme, scale=scheme.scale), draw(2, 7, 10)
    scheme.q_proj, scheme.k_proj = whole.q_proj, whole.k_proj
    cut, fresh = copy.deepcopy(whole), copy.deepcopy(whole)
    surgery = remove_heads(cut, {1, 4})
    assert cut.position.q_proj is cut.q_proj
    assert_equal(cut(x), zeroed(whole, {1, 4})(x), **CLOSE)
    fresh.load_state_dict(cut.state_dict())
    assert_equal(fresh(x), cut(x))
    surgery.undo()
    assert_equal(cut(x), whole(x))


def test_a_conversion_stands_in_the_way_of_undoing():
    made = layer(11, 5, **ODD)
    surgery = remove_heads(made, {1})
    made.float()
    with pytest.raises(ValueError, match="replaced or converted after this surgery"):
        surgery.undo()
    made.double()
    surgery.undo()
    assert made.num_heads == 5


def test_a_graph_of_onnx_has_groups_of_one_size():
    made = layer(11, 6, num_kv_heads=3, d_head=4, dtype=torch.float32)
    remove_heads(made, {0})
    with pytest.raises(ValueError, match=r"reads is \(0, 1, 1, 2, 2\): the ONNX graph has no counterpart"):
        to_onnx(made)


@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*should not be instantiated:DeprecationWarning")
def test_copies_pickles_and_graphs(llama):
    remove_heads(llama, HEADS)
    expected = llama(TOKENS)
    assert_equal(copy.deepcopy(llama)(TOKENS), expected)
    assert_equal(pickle.loads(pickle.dumps(llama))(TOKENS), expected)
    compiled = torch.compile(llama, backend="eager", fullgraph=True)
    assert_equal(compiled(TOKENS), expected, **CLOSE)
    remove_heads(llama, {(0, 1)})
    assert_equal(compiled(TOKENS), llama(TOKENS), **CLOSE, label="cut after it was compiled")
    expected = llama(TOKENS)
    assert tuple(llama.to("meta")(TOKENS.to("meta")).shape) == tuple(expected.shape)


def test_a_translator_keeps_what_it_remembers():
    model = redraw(Seq2Seq(Seq2SeqConfig(41, 43, d_model=12, num_heads=3, num_layers=2, d_mlp=31)), seed=13).double()
    source, target = TOKENS[:, :7], TOKENS[:, 7:]
    names = [name for name, part in model.named_modules() if isinstance(part, MultiHeadAttention)]
    heads = {(name, number % 3) for number, name in enumerate(names)}
    with without_heads(model, heads):
        expected = model(source, target)
    remove_heads(model, heads)
    assert_equal(model(source, target), expected, **CLOSE)
    given = model.given(source)
    assert_equal(given.step(target, given.caches())[0], expected, **CLOSE)


def test_what_is_remembered_is_read_in_unequal_groups():
    whole = layer(11, 6, num_kv_heads=3, d_head=5)
    cut, x, context = copy.deepcopy(whole), draw(2, 7, 11), draw(2, 5, 11, seed=3)
    remove_heads(cut, {2})
    cache = cut.remember(context)
    assert cache.rows[0].shape[1] == 3
    assert_equal(cut.recall(x, cache), zeroed(whole, {2})(x, context), **CLOSE)


@pytest.mark.parametrize("order", [range(6), [5, 0, 3, 2, 4, 1]])
@pytest.mark.parametrize("gone", [{0}, {4, 5}, {0, 1, 3}, {1, 2, 5}])
def test_single_steps_repeat_queries_and_not_keys(order, gone):
    whole, x = layer(11, 6, num_kv_heads=2, d_head=4, position=Rotary(), softcap=3.0), draw(2, 7, 11)
    cut, cache = copy.deepcopy(whole), Cache()
    permute_heads(cut, order)
    remove_heads(cut, gone)
    for place, rows in enumerate(x.split(1, 1)):
        step, cache = cut.step(rows, cache, mask=masks.causal)
        expected = zeroed(whole, gone)(x[:, : place + 1], mask=masks.causal)[:, -1:]
        assert_equal(step, expected, **CLOSE)
    assert cache.rows[0].shape[1] == cut.num_kv_heads
    with capture(cut) as seen:
        again, _ = cut.step(rows, cache.crop(6), mask=masks.causal)
    assert_equal(again, step, **CLOSE)
    assert seen[cut].heads.shape[1] == 6 - len(gone)


def test_bert_of_transformers_with_zeroed_heads():
    sizes = {"hidden_size": 15, "num_attention_heads": 3, "intermediate_size": 31, "vocab_size": 41}
    config = transformers.BertConfig(**sizes, num_hidden_layers=2, max_position_embeddings=11)
    theirs = redraw(transformers.BertModel(config, add_pooling_layer=False), seed=3).double()
    ours = Bert(BERT).double().eval()
    ours.load_state_dict(from_hub_names(theirs.state_dict()))
    remove_heads(ours, {(0, 1), (1, 0)})
    remove_heads(ours, {(1, 2)})
    with torch.no_grad():
        for number, head in ((0, 1), (1, 0), (1, 2)):
            theirs.encoder.layer[number].attention.output.dense.weight[:, head * 5 : head * 5 + 5] = 0
        assert_equal(ours(TOKENS), theirs(TOKENS)[0], rtol=1e-11, atol=1e-11)


def test_all_heads_are_refused_and_nothing_is_changed(llama):
    before = copy.deepcopy(llama.state_dict())
    with pytest.raises(ValueError, match=r"heads holds all 6 heads of 'blocks.1.attention': expected one to be left"):
        remove_heads(llama, {(0, 0)} | {(1, head) for head in range(6)})
    remove_heads(llama, set()).undo()
    assert llama.blocks[0].attention.num_heads == 6
    for name, tensor in llama.state_dict().items():
        assert_equal(tensor, before[name])


CORES = {
    "performer": lambda: Performer(7, 4),
    "features": lambda: FeatureAttention(),
    "linformer": lambda: Linformer(11, 3, dtype=torch.float64),
}


@pytest.mark.parametrize("name", CORES)
def test_cores_whose_heads_are_alike(name):
    whole, x = layer(11, 6, d_head=4, core=CORES[name]()), draw(2, 7, 11)
    cut = copy.deepcopy(whole)
    remove_heads(cut, {0, 4})
    assert_equal(cut(x), zeroed(whole, {0, 4})(x), **CLOSE)


def test_centroids_follow():
    whole, x = (
        layer(11, 6, d_head=4, core=Routing(6, 4, num_clusters=2, cluster_size=3).double()).eval(),
        draw(2, 7, 11),
    )
    cut = copy.deepcopy(whole)
    remove_heads(cut, {0, 4})
    assert_equal(cut(x), zeroed(whole, {0, 4})(x), **CLOSE)


@pytest.mark.parametrize("core", [TalkingHeads(6), BlockSelection(6, 4, block_size=2, num_blocks=1)])
def test_cores_that_mix_heads_are_refused(core):
    made = layer(11, 6, d_head=4, core=core)
    with pytest.raises(TypeError, match=f"core is a {type(core).__name__}, which may hold something of each head"):
        remove_heads(made, {1})
    assert made.num_heads == 6


def test_projections_that_are_something_else_are_refused():
    made = layer(11, 6, d_head=4)
    made.q_proj = nn.utils.parametrizations.weight_norm(made.q_proj)
    with pytest.raises(TypeError, match=r"q_proj is a ParametrizedLinear: expected a torch.nn.Linear"):
        remove_heads(made, {1})


def test_projections_whose_weights_are_made_by_a_hook_are_refused():
    made = layer(11, 6, d_head=4)
    l1_unstructured(made.q_proj, "weight", 0.5)
    expected = made(draw(2, 7, 11))
    with pytest.raises(TypeError, match=r"q_proj is a Linear that makes its weights from others: expected a torch.nn"):
        remove_heads(made, {1})
    assert_equal(made(draw(2, 7, 11)), expected)


@pytest.mark.parametrize("block", [capture, lambda model: without_heads(model, {(0, 2)})])
def test_centroids_are_not_cut_behind_a_wrapper(block):
    made = layer(11, 6, d_head=4, core=Routing(6, 4, num_clusters=2, cluster_size=3).double())
    with block(made), pytest.raises(ValueError, match="core is a Routing behind a wrapper: expected no block of capt"):
        remove_heads(made, {1})
    remove_heads(made, {1}).undo()
    assert made.num_heads == 6


def test_a_projection_that_an_uncut_layer_shares_is_refused():
    model, x = nn.Sequential(layer(11, 3, d_head=4), layer(11, 3, d_head=4)), draw(2, 7, 11)
    model[1].q_proj = model[0].q_proj
    expected = model(x)
    with pytest.raises(ValueError, match="two layers share a Linear whose weight would change"):
        remove_heads(model, {(0, 1)})
    assert_equal(model(x), expected)


def test_projections_that_two_layers_share_are_refused():
    model = nn.Sequential(layer(11, 3, d_head=4), layer(11, 3, d_head=4))
    model[1].q_proj = model[0].q_proj
    with pytest.raises(ValueError, match="two layers share a Linear whose weight would change"):
        remove_heads(model, {(0, 1), (1, 2)})
    assert [part.num_heads for part in model] == [3, 3]


def test_masks_and_biases_of_each_head_are_those_of_the_heads_left():
    whole, x, bias = layer(11, 3, d_head=4), draw(2, 7, 11), draw(3, 7, 7, seed=5)
    cut = copy.deepcopy(whole)
    remove_heads(cut, {1})
    assert_equal(cut(x, bias=bias[[0, 2]]), zeroed(whole, {1})(x, bias=bias), **CLOSE)
    with pytest.raises(ValueError, match="bias"):
        cut(x, bias=bias)
    with pytest.raises(ValueError, match="mask"):
        cut(x, mask=bias > 0)


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_permuted_heads_are_the_same_function(groups):
    whole, x = layer(11, 6, num_kv_heads=groups, d_head=4, sinks=True, gate=True, position=Alibi(6)), draw(2, 7, 11)
    cut = copy.deepcopy(whole)
    surgery = permute_heads(cut, [4, 0, 5, 2, 1, 3])
    assert cut.head_ids == (4, 0, 5, 2, 1, 3)
    assert_equal(cut(x), whole(x), **CLOSE)
    assert_equal(cut.per_head(x)[:, 0], whole.per_head(x)[:, 4], **CLOSE)
    fresh = layer(11, 6, num_kv_heads=groups, d_head=4, sinks=True, gate=True, position=Alibi(6), seed=8)
    fresh.load_state_dict(cut.state_dict())
    assert_equal(fresh(x), cut(x))
    removed = remove_heads(cut, {0})
    assert_equal(cut(x), zeroed(whole, {0})(x), **CLOSE)
    removed.undo()
    surgery.undo()
    assert_equal(cut(x), whole(x), label="the same bits")
    with pytest.raises(ValueError, match=r"order is \[0, 1\]: expected each of \(0, 1, 2, 3, 4, 5\) once"):
        permute_heads(cut, [0, 1])


def test_merged_heads_are_means_and_exact_where_they_were_equal():
    whole, x = layer(11, 6, d_head=4), draw(2, 7, 11)
    merged = copy.deepcopy(whole)
    surgery = merge_heads(merged, 3)
    strips = whole.k_proj.weight.unflatten(0, (3, 2, 4))
    assert_equal(merged.k_proj.weight, strips.mean(1).flatten(0, 1), atol=1e-15)
    assert numel(whole) - numel(merged) == 2 * 3 * 4 * 12
    assert (merged(x) - whole(x)).abs().max() > 1e-2, "another function"
    fresh = layer(11, 6, d_head=4, seed=8)
    fresh.load_state_dict(merged.state_dict())
    assert_equal(fresh(x), merged(x))
    remove_heads(merged, {0, 1, 5}).undo()
    surgery.undo()
    assert_equal(merged(x), whole(x), label="the same bits")
    equal = copy.deepcopy(whole)
    with torch.no_grad():
        for linear in (equal.k_proj, equal.v_proj):
            for part in (linear.weight, linear.bias):
                part.copy_(part.unflatten(0, (3, 2, 4))[:, :1].expand(3, 2, 4, *part.shape[1:]).flatten(0, 2))
    expected = equal(x)
    merge_heads(equal, 3)
    assert (equal.num_kv_heads, equal.key_heads) == (3, (0, 0, 1, 1, 2, 2))
    assert_equal(equal(x), expected, **CLOSE)
    with pytest.raises(ValueError, match="num_kv_heads is 2 and the module has 3"):
        merge_heads(equal, 2)


def test_merged_after_removal_and_all_layers_of_a_model():
    gpt = redraw(GPT(GPTConfig(41, 11, num_layers=2, d_model=20, num_heads=5, d_mlp=31)), seed=3).double()
    remove_heads(gpt, {(0, 1), (1, 4)})
    surgery = merge_heads(gpt, 2)
    assert [block.attention.num_kv_heads for block in gpt.blocks] == [2, 2]
    assert gpt.blocks[0].attention.head_ids == (0, 2, 3, 4)
    surgery.undo()
    assert [block.attention.num_kv_heads for block in gpt.blocks] == [4, 4]


def test_a_layer_is_the_sum_of_its_parts():
    whole, x = layer(11, 6, num_kv_heads=3, d_head=4, position=RelativeBias(6, dtype=torch.float64)), draw(2, 7, 11)
    parts = split_layer(whole, [{0, 3, 5}, {4}, {1, 2}])
    assert [part.head_ids for part in parts] == [(0, 3, 5), (4,), (1, 2)]
    assert_equal(sum(part(x) for part in parts), whole(x), **CLOSE)
    assert numel(whole) == 6 * 2 * 4 * 11 + 6 * 4 + 11 + 2 * 3 * 4 * 12 + 32 * 6
    with pytest.raises(ValueError, match=r"groups hold \[0, 1, 1\]: expected each of \(0, 1, 2, 3, 4, 5\) once"):
        split_layer(whole, [{0, 1}, {1}])


def test_half_a_head_is_half_of_its_values():
    """Σⱼ p v W = Σⱼ p v₁ W₁ + Σⱼ p v₂ W₂ with one p: halves of q and k would have a softmax each, another function."""
    whole, x = layer(11, 1, d_head=4), draw(2, 7, 11)
    q, k, v = whole.project(x)
    p, w = whole.weights(x), whole.out_proj.weight
    halves = sum((p @ v[..., part])[:, 0] @ w[:, part].T for part in (slice(0, 2), slice(2, 4)))
    assert_equal(halves + whole.out_proj.bias, whole(x), **CLOSE)
    own = [(q[..., part] @ k[..., part].mT / 2).softmax(-1) for part in (slice(0, 2), slice(2, 4))]
    apart = sum(
        (p @ v[..., part])[:, 0] @ w[:, part].T for p, part in zip(own, (slice(0, 2), slice(2, 4)), strict=True)
    )
    assert (apart + whole.out_proj.bias - whole(x)).abs().max() > 1e-2


def test_what_is_no_layer_is_named():
    with pytest.raises(TypeError, match="layer is a Linear: expected a MultiHeadAttention"):
        permute_heads(nn.Linear(2, 3), [0])
    with pytest.raises(ValueError, match="model is a Linear without a MultiHeadAttention"):
        remove_heads(nn.Linear(2, 3), {(0, 0)})


def test_heads_and_groups_that_are_no_lists_are_named():
    made = layer(11, 6, d_head=4)
    for heads in (3, None, {0: [1, 2]}, "12"):
        with pytest.raises(TypeError, match=r"heads is .*: expected pairs \(layer, head\), as in"):
            remove_heads(made, heads)
    for groups in (3, [0, 1]):
        with pytest.raises(TypeError, match=r"groups is .*: expected groups of numbers of heads, as in"):
            split_layer(made, groups)
    with pytest.raises(TypeError, match=r"groups has dtype .*: expected numbers of heads"):
        split_layer(made, [{0, 1}, {2, "a"}])


def test_a_head_that_finds_nan_is_silenced_as_it_is_removed():
    made, x = layer(11, 6, **ODD), draw(2, 7, 11)
    with torch.no_grad():
        made.v_proj.weight[5:10] = torch.nan
    with without_heads(made, {(0, 1)}):
        silent = made(x)
    remove_heads(made, {1})
    assert_equal(made(x), silent, **CLOSE)
    assert made(x).isfinite().all()
