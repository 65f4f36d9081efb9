"""Blocks with weights that show a fault, and the same blocks said by the reference."""

from functools import partial

import torch
from torch import nn

from mha import reference
from nn.layers import in_reference, numbers

__all__ = ["decoder_in_reference", "encoder_in_reference", "feed_in_reference", "spread"]


def spread(module, seed=1):
    """Draw all parameters anew at 0.3, in float64, and leave training mode."""
    make = torch.Generator().manual_seed(seed)
    module = module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.3, generator=make)
    return module


def norm_in_reference(norm):
    gain = numbers(norm.weight)
    if isinstance(norm, nn.RMSNorm):
        return partial(reference.rms_norm, gain=gain, eps=norm.eps)
    return partial(reference.layer_norm, gain=gain, bias=numbers(norm.bias), eps=norm.eps)


def feed_in_reference(feed):
    up, down, gate = (None if linear is None else linear.weight.detach().numpy().T for linear in parts(feed))
    biases = tuple(None if linear is None else numbers(linear.bias) for linear in parts(feed))
    return partial(reference.feed_forward, w_up=up, w_down=down, w_gate=gate, activation=feed.activation, biases=biases)


def parts(feed):
    return feed.up, feed.down, feed.gate


def encoder_in_reference(block, x, mask):
    norms = tuple(map(norm_in_reference, (block.attention_norm, block.feed_forward_norm)))
    attention = attend(block.attention, mask)
    feed = feed_in_reference(block.feed_forward)
    return reference.encoder_block(x.numpy(), attention, feed, norms=norms, norm_first=block.norm_first)


def decoder_in_reference(block, x, memory, mask, memory_mask):
    norms = tuple(map(norm_in_reference, (block.attention_norm, block.cross_norm, block.feed_forward_norm)))
    feed = feed_in_reference(block.feed_forward)
    attention, cross = attend(block.attention, mask), attend(block.cross_attention, memory_mask)
    given = x.numpy(), memory.numpy(), attention, cross, feed
    return reference.decoder_block(*given, norms=norms, norm_first=block.norm_first)


def attend(layer, mask):
    def call(x, context=None):
        context = None if context is None else torch.from_numpy(context)
        return in_reference(layer, torch.from_numpy(x), context, mask=mask)

    return call
