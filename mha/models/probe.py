"""What the attention layers of a model saw in one pass: the model runs as always, and its inputs are remembered."""

from contextlib import contextmanager

import torch

from mha.nn.heads import MultiHeadAttention

__all__ = ["attention_maps", "layer_heads", "recorded"]


@contextmanager
def recorded(model):
    """Yield a list that fills, layer after layer, with (layer, arguments, options) of each attention call."""
    calls = []

    def remember(layer, arguments, options):
        calls.append((layer, arguments, options))

    layers = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    hooks = [layer.register_forward_pre_hook(remember, with_kwargs=True) for layer in layers]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def attention_maps(model, tokens, **options):
    """Return the weights of every head in the pass `model(tokens, **options)`: (layers, *batch, heads, i, j)."""
    with recorded(model) as calls:
        model(tokens, **options)
    return torch.stack([layer.weights(*arguments, **given) for layer, arguments, given in calls])


@torch.no_grad()
def layer_heads(model, tokens, layer, **options):
    """Return q, k, v of one layer as attention saw them, positions applied, and what each head found in them.

    Each is (*batch, heads, length, d_head); k and v have the key/value heads.
    """
    with recorded(model) as calls:
        model(tokens, **options)
    module, arguments, given = calls[layer]
    places = {name: given[name] for name in ("mask", "positions", "context_positions") if name in given}
    return *module.project(*arguments, **places), module.per_head(*arguments, **given)
