"""Stand between the attention layers of a model and their cores, and step aside again."""

from contextlib import contextmanager

from mha.nn.heads import MultiHeadAttention


def attention_layers(model, otherwise):
    """Return {name: layer} of every `MultiHeadAttention` in `model`; without one, say what cannot be done."""
    layers = {name: part for name, part in model.named_modules() if isinstance(part, MultiHeadAttention)}
    if not layers:
        raise ValueError(f"model is a {type(model).__name__} without a MultiHeadAttention: {otherwise}")
    return layers


@contextmanager
def wrapped_cores(layers, wrap):
    """Let each of the `layers` call `wrap(name, layer)` for its core until the block ends, whatever happens."""
    before = [(layer, layer.__dict__.get("core")) for layer in layers.values()]
    try:
        for name, layer in layers.items():
            layer.__dict__["core"] = wrap(name, layer)  # in front of a core that is a Module
        yield
    finally:
        for layer, core in before:
            if core is None:
                layer.__dict__.pop("core", None)
            else:
                layer.__dict__["core"] = core
