"""A decoder in which some layers attend and the others keep a state: as Jamba (Lieber et al. 2024) and its kin.

A pattern says which: "MMAM" has four blocks, the third of which attends. Waleffe et al. (2024) measure at 8 billion
parameters what a few layers of attention give to Mamba-2. Without any it is Mamba-2 itself (Dao and Gu 2024).
"""

from dataclasses import dataclass

from torch import nn

from mha import masks
from mha.integers import count
from mha.models.decoder import Decoder
from mha.models.naming import check_tied, renamed
from mha.models.start import check_counts, draw_weights
from mha.models.tokens import check_caches, check_tokens
from mha.nn import checks
from mha.nn.block import EncoderBlock
from mha.nn.cache import Cache
from mha.nn.linear.recurrent import linear_attention
from mha.nn.mlp import FeedForward
from mha.nn.relative import Alibi
from mha.nn.rotary import Rotary
from mha.nn.ssm import Mamba2, StateCache

__all__ = ["Hybrid", "HybridConfig", "StateSpaceBlock", "from_hub_names"]

POSITIONS = {"none": lambda heads: None, "rotary": lambda heads: Rotary(), "alibi": Alibi}


@dataclass(frozen=True)
class HybridConfig:
    """Sizes of a model. `pattern` has a letter for each block: "A" attends, "M" keeps the state of a Mamba-2.

    `d_mlp` is the hidden width of the feed-forward layer of every block; None leaves it out, in a model of "M" alone.
    `position` is what the attention knows of places: "none", for the states know the order, "rotary" or "alibi".
    """

    vocab_size: int
    pattern: str | tuple[str, ...] = "MMAM"
    d_model: int = 128
    num_heads: int = 4
    num_kv_heads: int | None = None
    d_mlp: int | None = 256
    position: str = "none"
    num_state_heads: int = 4
    d_state: int = 32
    d_state_head: int | None = None
    num_groups: int = 1
    conv_width: int = 4
    norm_eps: float = 1e-5


class StateSpaceBlock(nn.Module):
    """A layer of Mamba-2, then a feed-forward layer if there is one, each added to the stream behind a norm."""

    def __init__(self, config: HybridConfig, core=linear_attention):
        super().__init__()
        sizes = {name: getattr(config, name) for name in ("num_groups", "conv_width", "norm_eps")}
        self.state_space_norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
        self.state_space = Mamba2(
            config.d_model, config.num_state_heads, config.d_state, d_head=config.d_state_head, core=core, **sizes
        )
        self.feed_forward_norm = self.feed_forward = None
        if config.d_mlp is not None:
            self.feed_forward_norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
            self.feed_forward = FeedForward(config.d_model, config.d_mlp, activation="gelu", bias=False)

    def forward(self, x, *, keep=None):
        """Return (batch, length, d_model); `keep` (batch, length) is True at real tokens."""
        return self._fed_forward(x + self.state_space(self.state_space_norm(x), keep=keep))

    def step(self, x, cache):
        """Return the output of the next tokens of each sequence and the cache with them."""
        found, cache = self.state_space.step(self.state_space_norm(x), cache)
        return self._fed_forward(x + found), cache

    def _fed_forward(self, x):
        return x if self.feed_forward is None else x + self.feed_forward(self.feed_forward_norm(x))


class Hybrid(Decoder):
    """Tokens (batch, length) to the logits of the next token (batch, length, vocabulary), the embeddings themselves."""

    def __init__(self, config: HybridConfig):
        super().__init__()
        check_counts(config, "vocab_size", "d_model")
        check_pattern(config)
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(map(self._block, config.pattern))
        self.norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
        self.reset_parameters()

    def _block(self, letter):
        config = self.config
        if letter == "M":
            return StateSpaceBlock(config)
        sizes = config.d_model, config.num_heads, config.d_mlp
        options = {"num_kv_heads": config.num_kv_heads, "position": POSITIONS[config.position](config.num_heads)}
        return EncoderBlock(*sizes, norm="rms", norm_eps=config.norm_eps, bias=False, **options)

    def reset_parameters(self):
        """Draw weights as GPT-2 does; steps, decays and convolutions stay as `Mamba2` has drawn them."""
        draw_weights(self)
        for name, part in self.named_modules():
            if name.endswith((".out_proj", ".down")):
                nn.init.normal_(part.weight, std=0.02 / (2 * len(self.blocks)) ** 0.5)

    def forward(self, tokens, *, keep=None):
        """Return the logits; `keep` (batch, length) is True at the real tokens of sequences with padding."""
        check_tokens("tokens", tokens, self.config.vocab_size)
        if keep is not None:
            checks.keep("keep", keep, tokens.shape)
        x, visible = self.embed(tokens), masks.causal if keep is None else masks.causal & masks.key_padding(keep)
        for block in self.blocks:
            x = block(x, keep=keep) if isinstance(block, StateSpaceBlock) else block(x, mask=visible)
        return self.logits(x)

    def step(self, tokens, caches, *, last=False):
        """Return the logits of the next tokens of each sequence, or of the last one alone, and the longer caches.

        There is a cache for each block: start with `model.caches()`. Those of attention grow, those of states do not.
        """
        check_caches(caches, self.blocks)
        check_tokens("tokens", tokens, self.config.vocab_size)
        x, longer = self.embed(tokens), []
        for block, cache in zip(self.blocks, caches, strict=True):
            options = {} if isinstance(block, StateSpaceBlock) else {"mask": masks.causal}
            x, cache = block.step(x, cache, **options)
            longer.append(cache)
        return self.logits(x[:, -1:] if last else x), longer

    def caches(self, padding=0):
        """Return an empty cache a block, for sequences with so many tokens of padding in front: one number, or (b,)."""
        return [(StateCache if letter == "M" else Cache)(-padding) for letter in self.config.pattern]


def check_pattern(config):
    """Raise unless a model can be built from the pattern of its blocks."""
    if not isinstance(config.pattern, str | list | tuple):
        raise TypeError(f"pattern is {config.pattern!r}: expected a string such as 'MMAM', or its letters")
    count("length of pattern", len(config.pattern), least=1)
    for letter in config.pattern:
        if letter not in ("A", "M"):
            raise ValueError(
                f"pattern has {letter!r}: expected letters A, a block that attends, and M, one with a state"
            )
    if config.position not in tuple(POSITIONS):
        raise ValueError(f"position is {config.position!r}: expected one of {', '.join(map(repr, POSITIONS))}")
    if config.d_mlp is None and "A" in config.pattern:
        raise ValueError(
            f"d_mlp is None and pattern is {config.pattern!r}: a block that attends has a feed-forward layer"
        )


_HUB_NAMES = (
    (r"^backbone\.", ""),
    (r"^embeddings\.", "embed."),
    (r"^norm_f\.", "norm."),
    (r"^layers\.", "blocks."),
    (r"\.norm\.", ".state_space_norm."),
    (r"\.mixer\.", ".state_space."),
    (r"\.state_space\.state_space_norm\.weight", ".state_space.norm_gain"),
    (r"\.conv1d\.(weight|bias)", r".conv_\1"),
)


def from_hub_names(state):
    """Return the weights of a `Mamba2ForCausalLM` of transformers under the names of a `Hybrid` of "M" alone."""
    check_tied(state, "lm_head.weight", "backbone.embeddings.weight")
    ours = renamed(state, _HUB_NAMES, without=r"^lm_head\.")
    return {name: x.squeeze(1) if name.endswith("conv_weight") else x for name, x in ours.items()}
