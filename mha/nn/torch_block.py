"""The weights of `torch.nn.TransformerEncoderLayer` and `TransformerDecoderLayer` as ours, option by option."""

from torch import nn
from torch.nn import functional

from mha.nn.heads import MultiHeadAttention

__all__ = ["convert_from"]

ENCODER = {"attention": "self_attn", "attention_norm": "norm1", "feed_forward_norm": "norm2"}
DECODER = {
    "attention": "self_attn",
    "attention_norm": "norm1",
    "cross_attention": "multihead_attn",
    "cross_norm": "norm2",
    "feed_forward_norm": "norm3",
}


def convert_from(cls, layer, kind):
    """Build `cls` with copies of the weights of a `kind`, one of torch's two layers."""
    if not isinstance(layer, kind):
        raise TypeError(f"layer is a {type(layer).__name__}: expected a torch.nn.{kind.__name__}")
    linear, attention = layer.linear1, layer.self_attn
    ours = cls(
        linear.in_features,
        attention.num_heads,
        linear.out_features,
        norm_first=layer.norm_first,
        norm_eps=layer.norm1.eps,
        activation=_activation(layer.activation),
        bias=linear.bias is not None,
        dropout=layer.dropout1.p,
        attention_dropout=attention.dropout,
        device=linear.weight.device,
        dtype=linear.weight.dtype,
    )
    ours.feed_forward.dropout = layer.dropout.p  # the paper has none there
    for name, theirs in (DECODER if kind is nn.TransformerDecoderLayer else ENCODER).items():
        part = getattr(layer, theirs)
        part = MultiHeadAttention.from_torch(part) if isinstance(part, nn.MultiheadAttention) else part
        getattr(ours, name).load_state_dict(part.state_dict())
    ours.feed_forward.up.load_state_dict(layer.linear1.state_dict())
    ours.feed_forward.down.load_state_dict(layer.linear2.state_dict())
    return ours.train(layer.training)


def _activation(function):
    if function is functional.relu or isinstance(function, nn.ReLU):
        return "relu"
    if function is functional.silu or isinstance(function, nn.SiLU):
        return "silu"
    if function is functional.gelu or (isinstance(function, nn.GELU) and function.approximate == "none"):
        return "gelu"
    if isinstance(function, nn.GELU):
        return "gelu_tanh"
    raise ValueError(f"activation is {function!r}: expected relu, gelu or silu, which both libraries have")
