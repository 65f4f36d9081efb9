"""A decoder of the GPT family (Radford et al. 2019): pre-norm blocks, each token seeing itself and those before it."""

import re
from dataclasses import dataclass

from torch import nn

from mha.models.decoder import Decoder
from mha.models.naming import check_tied, renamed
from mha.models.start import check_counts, draw_weights
from mha.nn.block import EncoderBlock, stream_norm
from mha.nn.position import LearnedPositions, SinusoidalPositions
from mha.nn.relative import Alibi
from mha.nn.rotary import Rotary

__all__ = ["GPT", "GPTConfig", "from_hub_names"]

IN_ATTENTION = {"rotary": lambda config: Rotary(), "alibi": lambda config: Alibi(config.num_heads)}
ADDED = {
    "learned": lambda config: LearnedPositions(config.max_length, config.d_model),
    "sinusoidal": lambda config: SinusoidalPositions(config.d_model),
}


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a model, in the form of GPT-2; `position` is "learned", "sinusoidal", "rotary", "alibi" or "none"."""

    vocab_size: int
    max_length: int = 256
    num_layers: int = 4
    d_model: int = 128
    num_heads: int = 4
    d_mlp: int = 512
    num_kv_heads: int | None = None
    position: str = "learned"
    norm_first: bool = True
    norm: str = "layer"
    norm_eps: float = 1e-5
    activation: str = "gelu_tanh"
    bias: bool = True
    dropout: float = 0.1
    attention_dropout: float = 0.0


class GPT(Decoder):
    """Tokens (batch, length) to the logits of the next token (batch, length, vocabulary), the embeddings themselves."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        known = [*ADDED, *IN_ATTENTION, "none"]
        if config.position not in known:
            raise ValueError(f"position is {config.position!r}: expected one of {', '.join(map(repr, known))}")
        check_counts(config, "vocab_size", "max_length", "num_layers")
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = ADDED[config.position](config) if config.position in ADDED else None
        self.embed_dropout = nn.Dropout(config.dropout)
        names = "norm_first", "norm", "norm_eps", "activation", "bias", "dropout", "attention_dropout", "num_kv_heads"
        options = {name: getattr(config, name) for name in names}
        options["position"] = IN_ATTENTION[config.position](config) if config.position in IN_ATTENTION else None
        sizes = config.d_model, config.num_heads, config.d_mlp
        self.blocks = nn.ModuleList(EncoderBlock(*sizes, **options) for _ in range(config.num_layers))
        norm = stream_norm(config.norm, config.d_model, config.norm_eps, bias=config.bias)
        self.norm = norm if config.norm_first else nn.Identity()  # a post-norm block ends with its own
        self.reset_parameters()

    def reset_parameters(self):
        """Draw weights as GPT-2 does: with standard deviation 0.02, less where a layer adds to the stream."""
        draw_weights(self)
        for block in self.blocks:
            for part in (block.attention.out_proj, block.feed_forward.down):
                nn.init.normal_(part.weight, std=0.02 / (2 * len(self.blocks)) ** 0.5)

    def embedded(self, tokens, positions):
        """Return what the first block reads: (batch, length, d_model)."""
        x = self.embed(tokens)
        if self.positions is not None:
            x = self.positions(x, positions.clamp(min=0))  # padding in front stands before 0
        return self.embed_dropout(x)


_HUB_NAMES = (
    (r"^transformer\.", ""),
    (r"^wte\.", "embed."),
    (r"^wpe\.", "positions."),
    (r"^h\.", "blocks."),
    (r"^ln_f\.", "norm."),
    (r"\.ln_1\.", ".attention_norm."),
    (r"\.ln_2\.", ".feed_forward_norm."),
    (r"\.attn\.c_proj\.", ".attention.out_proj."),
    (r"\.mlp\.c_fc\.", ".feed_forward.up."),
    (r"\.mlp\.c_proj\.", ".feed_forward.down."),
)


def from_hub_names(state):
    """Return the weights of a `GPT2LMHeadModel` of transformers under our names, which stores them (d_in, d_out)."""
    check_tied(state, "lm_head.weight", "transformer.wte.weight")
    ours = {}
    for name, tensor in renamed(state, _HUB_NAMES, without=r"^lm_head\.|\.attn\.(masked_)?bias$").items():
        stored = tensor.T if re.search(r"c_attn\.weight|(out_proj|up|down)\.weight", name) else tensor
        if ".attn.c_attn." in name:
            parts = (name.replace("attn.c_attn", f"attention.{letter}_proj") for letter in "qkv")
            ours |= zip(parts, stored.chunk(3), strict=True)
        else:
            ours[name] = stored
    return ours
