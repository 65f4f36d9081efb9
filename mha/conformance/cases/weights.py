"""What can be asked beside the output, and that asking changes nothing."""

import numpy as np

from mha.conformance.case import Relation
from mha.conformance.cases.build import LN3, TWO_KEYS, mixed, scored

T, F = True, False


def asked_and_not(subject, **options):
    q, k, v = np.random.default_rng(5).normal(size=(3, 1, 2, 3, 4))
    return subject.attend(q, k, v, **options), subject.attend_beside_weights(q, k, v, **options)


def weights_and_output(subject):
    q, k = np.random.default_rng(7).normal(size=(2, 1, 2, 3, 3))
    v = np.broadcast_to(np.eye(3), (1, 2, 3, 3)).copy()
    see = np.tri(3, dtype=bool)
    return subject.attend(q, k, v, mask=see), subject.weights(q, k, v, mask=see)


CASES = [
    scored("the-weights", [0, LN3], TWO_KEYS, of="weights"),
    mixed(
        "weights-of-each-head",
        [[[[1, 0]], [[0.5, 0.5]]]],
        report="pytorch/pytorch#119811",
        of="weights",
        mask=[[[[T, F]], [[T, T]]]],
    ),
    Relation(
        name="asking-for-weights-changes-nothing",
        report="huggingface/transformers#31990",
        needs=frozenset({"weights"}),
        run=asked_and_not,
    ),
    Relation(
        name="asking-for-weights-keeps-the-mask",
        report="keras-team/keras#23038",
        needs=frozenset({"weights", "mask"}),
        run=lambda subject: asked_and_not(subject, mask=np.tri(3, dtype=bool)),
    ),
    Relation(name="weights-make-the-output", needs=frozenset({"weights", "mask"}), run=weights_and_output),
    scored("the-mass-of-a-row", [0, LN3], [np.log(4)], of="lse"),
    scored("the-mass-of-large-scores", [1000, 1000], [1000 + np.log(2)], of="lse"),
    scored("the-largest-score", [0, LN3], [LN3], of="max-logit"),
    scored("the-largest-visible-score", [0, LN3], [0], of="max-logit", mask=[[T, F]]),
    scored("the-largest-score-is-no-sink", [0, LN3], [LN3], of="max-logit", sinks=[9.0]),
    scored("the-entropy-of-equal-weights", [0, 0], [np.log(2)], of="entropy"),
    scored("the-entropy-of-one-key", [0, LN3], [0], of="entropy", mask=[[T, F]]),
    scored("the-entropy-of-no-key", [0, LN3], [0], of="entropy", mask=[[F, F]]),
    scored("the-entropy-leaves-the-sink-out", [0, 0], [np.log(2)], of="entropy", sinks=[3.0]),
]
