"""Famous bugs, each one step of the decoder replaced. The comment on the line says what would be right."""

import torch
from torch.nn import functional as F

from mha.conformance.broken.decoder import Alibi, Decoder
from mha.nn import alibi_slopes, attention


class InvertedMask(Decoder):
    """The mask says what to hide."""

    @staticmethod
    def attend(q, k, v, *, mask=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask, -1e9)  # ~mask
        return scores.softmax(-1) @ v


class NextTokenVisible(Decoder):
    """The triangle has one diagonal too many."""

    @staticmethod
    def visible(new, past):
        return torch.ones(new, past + new, dtype=torch.bool).tril(past + 1)  # tril(past)


class SecondLayerUnmasked(Decoder):
    """Only the first layer is masked."""

    @staticmethod
    def of_layer(number, mask):
        return mask if number == 0 else torch.ones_like(mask)  # mask


class MaskAdded(Decoder):
    """The mask, ones and zeros, is added to the scores."""

    @staticmethod
    def attend(q, k, v, *, mask=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores + mask.to(scores.dtype)  # masked_fill(~mask, -torch.inf)
        return scores.softmax(-1) @ v


class MaskAfterSoftmax(Decoder):
    """Hidden keys are removed when they have already had their share."""

    @staticmethod
    def attend(q, k, v, *, mask=None):
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        weights = weights if mask is None else weights * mask  # mask the scores
        return weights @ v


class SoftmaxOverQueries(Decoder):
    """The queries compete for a key."""

    @staticmethod
    def attend(q, k, v, *, mask=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        return scores.softmax(-2) @ v  # softmax(-1)


class JoinedWithoutTranspose(Decoder):
    """The heads are joined in the order of memory."""

    @staticmethod
    def join(x):
        b, _, n, _ = x.shape
        return x.reshape(b, n, -1)  # x.transpose(1, 2).reshape(b, n, -1)


class SplitWithoutTranspose(JoinedWithoutTranspose):
    """The heads are cut in the order of memory, and joined the same way."""

    @staticmethod
    def split(x, num_heads):
        b, n, _ = x.shape
        return x.view(b, num_heads, n, -1)  # x.view(b, n, num_heads, -1).transpose(1, 2)


class NoScale(Decoder):
    """Scores are as large as the width makes them."""

    @staticmethod
    def attend(q, k, v, *, mask=None):
        return attention(q, k, v, mask=mask, scale=1.0)  # 1 / √d, the default


class NormedResidual(Decoder):
    """What the heads add is added to the norm of the stream."""

    @staticmethod
    def normed(x, norm):
        x = norm(x)
        return x, x  # x, norm(x)


class NoLastNorm(Decoder):
    """The stream is read as it is."""

    def last(self, x):
        return x  # self.norm(x)


class DropoutAlways(Decoder):
    """Weights drop out in evaluation too: this function knows of no training."""

    @staticmethod
    def attend(q, k, v, *, mask=None):
        dropout_p = 0.2  # 0.2 if training else 0.0
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout_p)


class AlibiTurned(Alibi):
    """The farther, the better."""

    @staticmethod
    def bias(q_positions, k_positions, num_heads):
        distances = q_positions[:, None] - k_positions  # k_positions - q_positions[:, None]
        return alibi_slopes(num_heads)[:, None, None] * distances


class RotaryNeighbours(Decoder):
    """Component 2c turns together with component 2c + 1."""

    @staticmethod
    def rotate(x, positions):
        half = x.shape[-1] // 2
        angles = positions[:, None] * 10_000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
        a, b = x[..., ::2], x[..., 1::2]  # x.chunk(2, -1)
        turned = a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()
        return torch.stack(turned, -1).flatten(-2)  # torch.cat(turned, -1)


class PositionsRestart(Decoder):
    """Each call counts from 0, whatever the cache holds."""

    @staticmethod
    def positions(new, past):
        return torch.arange(new)  # past + torch.arange(new)


class MaskFromUpperLeft(Decoder):
    """The first new query stands at the first key of all."""

    @staticmethod
    def visible(new, past):
        return torch.ones(new, past + new, dtype=torch.bool).tril()  # tril(past)


class HeadsTakeTurns(Decoder):
    """Query heads 0 and 2 share key head 0."""

    @staticmethod
    def shared(x, num_heads):
        times = num_heads // x.shape[1]
        return x.repeat(1, times, 1, 1)  # x.repeat_interleave(times, 1)


class NanCoveredUp(Decoder):
    """A row that sees nothing is NaN, and then 0."""

    @staticmethod
    def attend(q, k, v, *, mask=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores + torch.where(mask, 0.0, -torch.inf)
        return scores.softmax(-1).nan_to_num() @ v  # set empty rows apart first


class LowestNumber(Decoder):
    """The lowest number of the type stands for −∞."""

    @staticmethod
    def attend(q, k, v, *, mask=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            lowest = torch.finfo(scores.dtype).min  # -torch.inf, empty rows set apart
            scores = scores + torch.zeros_like(scores).masked_fill(~mask, lowest)
        return scores.softmax(-1) @ v


class ScaledTooLate(Decoder):
    """The product may overflow before it is scaled."""

    @staticmethod
    def attend(q, k, v, *, mask=None):
        scores = (q @ k.mT) / q.shape[-1] ** 0.5  # (q / √d) @ k.mT
        if mask is None:
            return scores.softmax(-1) @ v
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
        return weights.masked_fill(~mask, 0.0) @ v


class PaddingOnQueries(Decoder):
    """Padding is hidden as a query, and visible as a key."""

    @staticmethod
    def padded(mask, keep):
        return mask & keep[:, None, :, None]  # keep[:, None, None, :]


class PaddingInMean(Decoder):
    """The mean runs over padding, too."""

    @staticmethod
    def pooled(x, keep):
        return x.mean(1)  # the mean over the tokens that are kept
