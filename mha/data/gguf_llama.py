"""A Llama in llama.cpp's file format, GGUF: its weights under the hub's names and its tokenizer."""

import re

import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

__all__ = ["read"]

_NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL_TOKEN = 3  # in tokenizer.ggml.token_type


def read(path):
    """Return the weights of the file as float32 tensors, exactly its quantised values, and its tokenizer."""
    reader = GGUFReader(path)
    heads = {
        "attn_q": reader.fields["llama.attention.head_count"].contents(),
        "attn_k": reader.fields["llama.attention.head_count_kv"].contents(),
    }
    state = {}
    for tensor in reader.tensors:
        block, part = re.fullmatch(r"(blk\.\d+\.)?(\w+)\.weight", tensor.name).groups()
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        if part in heads:
            weight = _halves(weight, heads[part])
        state[f"model.{(block or '').replace('blk', 'layers')}{_NAMES[part]}.weight"] = weight
    return state, _tokenizer(reader)


def _halves(weight, num_heads):
    """Undo llama.cpp's reordering of rows, which lays the rotary pair (c, c + d/2) at (2c, 2c + 1)."""
    rows, columns = weight.shape
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.transpose(1, 2).reshape(rows, columns).contiguous()


def _tokenizer(reader):
    tokens, kinds, merges = (
        reader.fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "token_type", "merges")
    )
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, [tuple(merge.split(" ")) for merge in merges]))
    # "smollm" in the file's tokenizer.ggml.pre: GPT-2's rule, with digits one by one
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer
