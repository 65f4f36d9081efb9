"""A sink is one more logit a head, inside the stable maximum, with nothing to give."""

import numpy as np

from mha.conformance.cases.build import LN3, TWO_KEYS, mixed, scored, sloped

T, F = True, False

CASES = [
    scored("a-sink-takes-its-share", [0, 0], [1 / 3, 1 / 3], report="huggingface/transformers#41026", sinks=[0.0]),
    scored("each-head-has-its-sink", [[0, 0], [0, 0]], [[1 / 3, 1 / 3], [0.25, 0.25]], sinks=[0.0, float(np.log(2))]),
    scored("a-sink-joins-the-maximum", [0, 0], [0, 0], report="pytorch/torchtitan#2211", sinks=[1000.0]),
    scored("scores-outweigh-the-sink", [1000, 1000], [0.5, 0.5], sinks=[0.0]),
    scored("a-sink-far-below-is-no-sink", [0, LN3], TWO_KEYS, sinks=[-1000.0]),
    scored("a-sink-alone-gives-zero", [0, 0], [0, 0], mask=[[F, F]], sinks=[0.5]),
    scored("a-sink-counts-in-the-mass", [0, 0], [1000.0], of="lse", sinks=[1000.0]),
    scored("a-sink-alone-is-the-mass", [0, 0], [0.5], of="lse", mask=[[F, F]], sinks=[0.5]),
    scored("a-sink-is-not-scaled", [0, 0], [0.25, 0.25], scale=0.5, sinks=[float(np.log(2))]),
    scored("a-sink-is-not-capped", [0, 0], [0.05, 0.05], softcap=1.0, sinks=[float(np.log(18))]),
    mixed("a-sink-beside-a-mask", [[0.5, 0], [1 / 3, 1 / 3]], mask=[[T, F], [T, T]], sinks=[0.0]),
    sloped(
        "a-sink-has-a-gradient",
        # weights 1, 3, 4 of 8: output 3/8, its slope by the sink −½ · 3/8
        lambda gradients: gradients["sinks"],
        [-3 / 16],
        sinks=[float(np.log(4))],
    ),
    sloped(
        "a-large-sink-has-a-finite-gradient",
        lambda gradients: np.concatenate([np.ravel(gradients[name]) for name in ("q", "k", "v", "sinks")]),
        [0] * 6,
        report="pytorch/torchtitan#2211",
        sinks=[1000.0],
    ),
]
