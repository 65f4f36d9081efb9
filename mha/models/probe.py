"""What the attention layers of a model saw in one pass of tokens, stacked."""

import torch

from mha.analysis.recording import capture

__all__ = ["attention_maps", "layer_heads"]


@torch.no_grad()
def attention_maps(model, tokens, **options):
    """Return the weights of every head in the pass `model(tokens, **options)`: (layers, *batch, heads, i, j)."""
    with capture(model) as seen:
        model(tokens, **options)
    return stacked(call.weights for call in seen.calls)


def stacked(weights):
    """Return the weights of layers (*batch, heads, i, j) as one tensor, or raise where some have fewer heads."""
    weights = list(weights)
    heads = [x.shape[-3] for x in weights]
    if len(set(heads)) > 1:
        raise ValueError(f"the layers have {heads} heads: expected as many in each; mha.analysis.capture takes any")
    return torch.stack(weights)


@torch.no_grad()
def layer_heads(model, tokens, layer, **options):
    """Return q, k, v of one layer as attention saw them, positions applied, and what each head found in them.

    Each is (*batch, heads, length, d_head); k and v have the key/value heads.
    """
    with capture(model) as seen:
        model(tokens, **options)
    call = seen.calls[layer]
    return call.q, call.k, call.v, call.heads
