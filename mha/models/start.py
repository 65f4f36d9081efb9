"""What a model starts with: sizes that make sense, and weights."""

from torch import nn

from mha.integers import count

__all__ = ["check_counts", "draw_weights"]


def check_counts(config, *names):
    """Raise unless these entries of a model's config are integers of at least 1."""
    for name in names:
        count(name, getattr(config, name), 1)


def draw_weights(model, std=0.02):
    """Draw the weights of all linear layers and embeddings from a normal distribution, and set biases to zero."""
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
