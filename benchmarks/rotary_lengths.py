"""What becomes of a rotary model behind the length of its training, and what do slower pairs change?

    python benchmarks/rotary_lengths.py [METHOD ...]

The context of SmolLM2 is 8,192 tokens. It reads a longer passage of Moby Dick from one end to the other,
with the frequencies of its training and with those of each method for twice the length. Nothing is trained. Methods
can be measured one by one: what the result file knows of the others stays.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F
from provenance import RESULTS, save

from mha import nn
from mha.data import load, pretrained

TRAINED, TOKENS, CHUNK, FACTOR = 8192, 12288, 1024, 2.0
NOTE = "one passage, nothing trained; each method may come from a run of its own"


def schemes(base, width):
    """Return the position scheme of each method."""
    plain = nn.rotary_frequencies(width, base)
    slowed = {
        "as trained": plain,
        "interpolated": nn.interpolated_frequencies(plain, FACTOR),
        "NTK": nn.ntk_frequencies(plain, FACTOR),
        "Llama 3": nn.llama3_frequencies(plain, FACTOR, TRAINED),
        "YaRN": nn.yarn_frequencies(plain, FACTOR, TRAINED),
    }
    gain = {"YaRN": nn.yarn_gain(FACTOR)}
    return {name: nn.RotaryFrequencies(table, gain=gain.get(name, 1.0)) for name, table in slowed.items()}


@torch.inference_mode()
def losses(model, tokens):
    """Return the mean loss in nats of each chunk, behind all that came before."""
    caches, found = model.caches(), []
    for start in range(0, len(tokens) - 1, CHUNK):
        chunk = tokens[start : start + CHUNK + 1]
        logits, caches = model.step(chunk[None, :-1], caches)
        found.append(round(float(F.cross_entropy(logits[0].float(), chunk[1:])), 4))
    return found


def main():
    torch.set_num_threads(1)
    known = pretrained("smollm2")
    model = known.model.eval().to(torch.bfloat16)
    text = "\n".join(row["text"] for row in load("moby_dick"))
    tokens = known.encode(text[200_000:280_000])[0, : TOKENS + 1]
    assert len(tokens) == TOKENS + 1
    setting = {"model": "smollm2", "text": "moby_dick", "trained": TRAINED, "tokens": TOKENS, "chunk": CHUNK}
    setting |= {"factor": FACTOR, "dtype": "bfloat16, rotation in float32"}
    attention = model.blocks[0].attention
    methods = schemes(attention.position.base, attention.d_head)
    for name in sys.argv[1:] or methods:
        for block in model.blocks:
            block.attention.position = methods[name]
        start = time.process_time()
        found = losses(model, tokens)
        print(f"{name}: {found} ({time.process_time() - start:.0f} s)", flush=True)
        path = RESULTS / "rotary_lengths.json"
        known_losses = json.loads(path.read_text())["loss_in_nats"] if path.exists() else {}
        by_method = {each: x for each in methods if (x := (known_losses | {name: found}).get(each))}
        save("rotary_lengths", {"setting": setting, "loss_in_nats": by_method}, note=NOTE)


if __name__ == "__main__":
    main()
