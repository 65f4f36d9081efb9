"""The weights that a model starts with."""

from torch import nn

__all__ = ["draw_weights"]


def draw_weights(model, std=0.02):
    """Draw the weights of all linear layers and embeddings from a normal distribution, and set biases to zero."""
    for part in model.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
