"""Looking into a pass changes nothing in it, and shows what happened."""

import torch

from compare import assert_equal
from exact import redraw
from mha.models.llama import Llama, LlamaConfig
from mha.models.probe import layer_heads, recorded
from mha.nn.dot_product import attention_weights
from mha.nn.heads import join_heads

SIZES = LlamaConfig(
    vocab_size=41, num_layers=3, d_model=60, num_heads=6, num_kv_heads=3, d_mlp=31, rope_base=100.0, norm_eps=1e-6
)
TOKENS = torch.randint(SIZES.vocab_size, (2, 11), generator=torch.Generator().manual_seed(2))
MODEL = redraw(Llama(SIZES), seed=13)


def test_recording_leaves_the_pass_alone_and_then_leaves():
    before = MODEL(TOKENS)
    with recorded(MODEL) as calls:
        during = MODEL(TOKENS)
    assert_equal(during, before, label="recorded pass")
    assert [layer for layer, _, _ in calls] == [block.attention for block in MODEL.blocks]
    MODEL(TOKENS)
    assert len(calls) == 3


def test_queries_and_keys_give_the_maps_and_heads_give_the_output():
    q, k, v, heads = layer_heads(MODEL, TOKENS, 1)
    assert (q.shape, k.shape, v.shape) == ((2, 6, 11, 10), (2, 3, 11, 10), (2, 3, 11, 10))
    maps = MODEL.attention_maps(TOKENS)
    future = torch.ones(11, 11, dtype=torch.bool).tril()
    assert_equal(attention_weights(q, k, mask=future), maps[1], atol=1e-6, label="maps")  # weights ≤ 1, float32
    attention = MODEL.blocks[1].attention
    with recorded(MODEL) as calls:
        MODEL(TOKENS)
    arguments, given = calls[1][1:]
    assert_equal(attention.out_proj(join_heads(heads)), attention(*arguments, **given), label="output")
