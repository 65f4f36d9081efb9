"""What does a key/value cache buy, and what does ours cost?   python benchmarks/decode.py

SmolLM2 on one thread. First, tokens per second of `mha.models.decoding.generate` and of transformers' `generate`, the
same weights and the same tokens, behind prompts of two lengths; the two take turns. Then the time of one more token
behind n others, read from the caches or with the whole text read again.
"""

import statistics
import time

import torch
from provenance import save
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from mha.data import pretrained
from mha.data.weights import cache_of
from mha.models.decoding import generate

PROMPTS, NEW, ROUNDS = (96, 512), 32, 5
LENGTHS = {16: 9, 32: 9, 64: 7, 128: 5, 256: 3, 512: 3}
TEXT = (
    "Call me Ishmael. Some years ago, never mind how long precisely, having little or no money in my purse, and "
    "nothing particular to interest me on shore, I thought I would sail about a little and see the watery part of "
    "the world. "
)


def same_in_transformers(ours):
    sizes = ours.config
    config = LlamaConfig(
        vocab_size=sizes.vocab_size,
        num_hidden_layers=sizes.num_layers,
        hidden_size=sizes.d_model,
        num_attention_heads=sizes.num_heads,
        num_key_value_heads=sizes.num_kv_heads,
        intermediate_size=sizes.d_mlp,
        rms_norm_eps=sizes.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": sizes.rope_base},
        tie_word_embeddings=True,
        eos_token_id=None,
        pad_token_id=0,
    )
    theirs = LlamaForCausalLM(config)
    theirs.load_state_dict(load_file(cache_of("smollm2") / "model.safetensors"), strict=False)
    return theirs.eval()


def seconds(run):
    """Return the seconds of processor time: on one thread, those of the clock where nothing else runs."""
    start = time.process_time()
    run()
    return time.process_time() - start


def against_transformers(ours, theirs, prompt):
    """Return the tokens per second of both, and the ratio: the median over rounds in which each goes first in turn."""
    keep = torch.ones_like(prompt)
    contenders = {
        "mha": lambda: generate(ours, prompt, NEW),
        "transformers": lambda: theirs.generate(prompt, attention_mask=keep, max_new_tokens=NEW, do_sample=False),
    }
    said = [run() for run in contenders.values()]
    assert (said[0] == said[1]).all(), "not the same tokens"
    taken = {name: [] for name in contenders}
    for round_ in range(ROUNDS):
        for name in sorted(contenders, reverse=bool(round_ % 2)):
            taken[name].append(seconds(contenders[name]))
    ratios = [theirs / ours for ours, theirs in zip(taken["mha"], taken["transformers"], strict=True)]
    speed = {name: round(NEW / statistics.median(samples), 2) for name, samples in taken.items()}
    samples = {name: [round(t, 3) for t in times] for name, times in taken.items()}
    return {"tokens_per_second": speed, "ratio": round(statistics.median(ratios), 3), "seconds": samples}


@torch.inference_mode()
def one_more_token(model, text, n, rounds):
    """Return the milliseconds for token n + 1, from the caches and from the text, each the median."""
    _, caches = model.step(text[:, :n], model.caches(), last=True)
    ways = {
        "with_cache": lambda: model.step(text[:, n : n + 1], caches, last=True),
        "without_cache": lambda: model.step(text[:, : n + 1], model.caches(), last=True),
    }
    said = [run()[0].argmax(-1) for run in ways.values()]
    assert (said[0] == said[1]).all(), "not the same token"
    taken = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            taken[name].append(seconds(run))
    return {name: round(1e3 * statistics.median(times), 2) for name, times in taken.items()}


def main():
    torch.set_num_threads(1)
    known = pretrained("smollm2")
    text = known.encode(TEXT * (max(LENGTHS) // 40))
    theirs, speeds = same_in_transformers(known), {}
    for n in PROMPTS:
        speeds[str(n)] = against_transformers(known.model, theirs, text[:, :n])
        print(n, speeds[str(n)])
    by_length = {}
    for n, rounds in LENGTHS.items():
        by_length[str(n)] = one_more_token(known.model, text, n, rounds)
        print(n, by_length[str(n)])
    setting = {"model": "smollm2", "dtype": "float32", "threads": 1, "new": NEW, "rounds": ROUNDS}
    note = "medians of interleaved runs in one process; processor time, for the machine was shared with other work"
    save("decode", {"setting": setting, "generate_by_prompt": speeds, "milliseconds_by_length": by_length}, note=note)


if __name__ == "__main__":
    main()
