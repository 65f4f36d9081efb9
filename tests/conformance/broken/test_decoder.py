"""The decoder that bugs are planted in is right: its steps are the package's, and a cache changes nothing."""

import pytest
import torch

from compare import assert_equal
from mha import nn
from mha.conformance import verify
from mha.conformance.broken import Alibi, Decoder, adapter

TOKENS = torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(5))


def drawn(decoder, **sizes):
    torch.manual_seed(7)
    model = decoder(11, **sizes).double().eval()
    for weights in model.parameters():
        torch.nn.init.normal_(weights, std=0.3)
    return model


def test_every_case_of_the_kit_holds():
    report = verify(adapter(Decoder))
    assert report.passed, str(report)
    assert report.counts["holds"] > 100


def test_steps_are_those_of_the_package():
    x = torch.randn(2, 5, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    heads = Decoder.split(x, 3)
    assert_equal(heads, nn.split_heads(x, 3), rtol=0)
    assert_equal(Decoder.join(heads), x, rtol=0)
    places = torch.tensor([0, 3, 4, 9, 13])
    assert_equal(Decoder.rotate(heads, places), nn.rotate(heads, places), rtol=1e-6)  # angles in float32 there
    assert_equal(Alibi.bias(places, places, 3), -nn.alibi_slopes(3)[:, None, None] * (places[:, None] - places), rtol=0)


def test_a_layer_is_the_layer_of_the_package():
    model = drawn(Decoder, d_model=24, num_heads=6, num_kv_heads=3, num_layers=1)
    layer = model.layers[0]
    ours = nn.MultiHeadAttention(24, 6, num_kv_heads=3, position=nn.Rotary(), dtype=torch.float64)
    own = {name: x for name, x in layer.state_dict().items() if "_proj" in name}
    ours.load_state_dict(own)
    x = model.embed(TOKENS)
    x = x + ours(layer.norm(x), mask=torch.ones(7, 7).tril().bool())
    x = x + layer.feed(layer.feed_norm(x))
    assert_equal(model.stream(TOKENS)[0].detach(), x.detach(), rtol=1e-6)


@pytest.mark.parametrize("decoder", [Decoder, Alibi])
def test_chunks_with_a_cache_are_the_whole(decoder):
    model = drawn(decoder)
    whole, first = model(TOKENS)[0], model(TOKENS[:, :3])
    second = model(TOKENS[:, 3:], first[1])
    assert_equal(torch.cat([first[0], second[0]], 1).detach(), whole.detach(), rtol=1e-9)
    assert [rows.shape[-2] for rows in second[1][0]] == [7, 7]


def test_the_mean_leaves_padding_out():
    x = torch.tensor([[[1.0], [3.0], [100.0]]])
    assert_equal(Decoder.pooled(x, torch.tensor([[True, True, False]])), torch.tensor([[2.0]]), rtol=0)
