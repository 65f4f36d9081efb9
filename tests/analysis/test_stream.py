"""The stream of a model is what its blocks add up, and its sizes are those of the vectors."""

import numpy as np
import pytest
import torch

from compare import assert_equal
from mha import masks, nn
from mha.analysis.stream import follow_stream, stream_sizes


class Two(torch.nn.Module):
    """Two encoder blocks in a row."""

    def __init__(self, norm_first):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = torch.nn.ModuleList(
            nn.EncoderBlock(10, 2, 13, norm_first=norm_first, dtype=torch.float64) for _ in range(2)
        )
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter, std=0.3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x, mask=masks.causal)
        return x


@pytest.mark.parametrize("norm_first", [True, False])
def test_states_are_what_the_blocks_return_and_additions_what_their_layers_find(norm_first):
    model, x = Two(norm_first), torch.randn(3, 7, 10, dtype=torch.float64)
    stream = follow_stream(model, x)
    assert stream.states.shape == (5, 3, 7, 10)
    assert stream.added.shape == (4, 3, 7, 10)
    assert_equal(stream.states[0], x.numpy(), rtol=0)
    block = model.blocks[0]
    with torch.no_grad():
        middle = block(x, mask=masks.causal)
        read = block.attention_norm(x) if norm_first else x
        found = block.attention(read, mask=masks.causal)
        assert_equal(stream.states[2], middle.numpy(), rtol=0)
        assert_equal(stream.states[4], model(x).numpy(), rtol=0)
    assert_equal(stream.added[0], found.numpy(), rtol=0)
    sums = stream.states[:-1] + stream.added
    if norm_first:
        assert_equal(sums, stream.states[1:], rtol=1e-12)
    else:
        norms = [norm for block in model.blocks for norm in (block.attention_norm, block.feed_forward_norm)]
        normed = [norm(torch.from_numpy(x)).detach().numpy() for norm, x in zip(norms, sums, strict=True)]
        assert_equal(np.array(normed), stream.states[1:], rtol=1e-12)


def test_no_hook_stays():
    model, x = Two(True), torch.randn(1, 3, 10, dtype=torch.float64)
    follow_stream(model, x)
    with pytest.raises(RuntimeError, match="expected input with shape"):
        follow_stream(model, x[..., :9])
    assert not any(part._forward_hooks for part in model.modules())


def test_sizes_of_a_stream_by_hand():
    states = np.array([[[3.0, 4.0]], [[3.0, 0.0]], [[0.0, 0.0]]])
    added = np.array([[[0.0, -4.0]], [[-3.0, 0.0]]])
    norm, added_norm, added_cosine, start_cosine = stream_sizes(states, added)
    assert_equal(norm[:, 0], np.array([5.0, 3.0, 0.0]), rtol=0)
    assert_equal(added_norm[:, 0], np.array([4.0, 3.0]), rtol=0)
    assert_equal(added_cosine[:, 0], np.array([-0.8, -1.0]), rtol=1e-15)
    assert_equal(start_cosine[:, 0], np.array([1.0, 0.6, 0.0]), rtol=1e-15)


def test_what_is_no_stream_is_refused():
    with pytest.raises(ValueError, match=r"states has shape \(2, 3\) and added \(2, 3\)"):
        stream_sizes(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="model is a Linear without an EncoderBlock"):
        follow_stream(torch.nn.Linear(2, 2), torch.ones(1, 2))
