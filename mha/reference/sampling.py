"""From logits to the next token: temperature, what is left out, and the draw.

`next_token_probabilities` applies them in this order: temperature, top-k, top-p, min-p.
"""

import math

import numpy as np

from mha import shapes
from mha.integers import count
from mha.reference.dot_product import softmax


def next_token_probabilities(
    logits: "Float[Array, '*b vocabulary']", *, temperature=1.0, top_k=None, top_p=None, min_p=None
) -> "Float[Array, '*b vocabulary']":
    """Return with which probability each token comes next: a softmax of logits / temperature, cut by what is given.

    Book: {eq}`next-token`.

    What is left out has probability 0, and the others keep their proportions. At temperature 0 the token of the largest
    logit has it all, the first one of equals; at a high temperature all tokens become alike (Ackley et al. 1985).
    """
    check_sampling(temperature, top_k, top_p, min_p)
    logits = shapes.float64("logits", logits)
    largest = _largest(logits)
    if temperature == 0:
        return (np.arange(logits.shape[-1]) == logits.argmax(-1)[..., None]).astype(float)
    with np.errstate(over="ignore"):  # at a low temperature the others fall to −inf
        logits = (logits - largest) / temperature
    for cut, value in ((keep_top_k, top_k), (keep_top_p, top_p), (keep_min_p, min_p)):
        logits = logits if value is None else cut(logits, value)
    return softmax(logits)


def _largest(logits):
    """Return the largest logit of each row, or raise if a row gives no token to draw."""
    shapes.check_rank("logits", logits, ("vocabulary",))
    largest = logits.max(-1, keepdims=True, initial=-np.inf)
    if not np.isfinite(largest).all():
        worst = largest[~np.isfinite(largest)][0]
        raise ValueError(f"logits has a row whose largest is {worst}: expected a finite number, for a token to draw")
    return largest


def keep_top_k(logits: "Float[Array, '*b vocabulary']", top_k) -> "Float[Array, '*b vocabulary']":
    """Put −inf in the place of all logits below the k-th largest (Fan et al. 2018); what equals that one stays."""
    k = min(top_k, logits.shape[-1])
    smallest_kept = np.partition(logits, -k, -1)[..., -k, None]
    return np.where(logits < smallest_kept, -np.inf, logits)


def keep_top_p(logits: "Float[Array, '*b vocabulary']", top_p) -> "Float[Array, '*b vocabulary']":
    """Keep the fewest tokens whose probabilities reach `top_p`, the nucleus (Holtzman et al. 2020); −inf for the rest.

    From the most probable one on, the first of equals first, the last token kept is the one that reaches `top_p`.
    Book: {eq}`nucleus`.
    """
    if top_p == 1:
        return logits
    order = np.argsort(-logits, -1, kind="stable")
    probabilities = np.take_along_axis(softmax(logits), order, -1)
    before = probabilities.cumsum(-1) - probabilities
    dropped = np.empty(logits.shape, bool)
    np.put_along_axis(dropped, order, before >= top_p, -1)
    return np.where(dropped, -np.inf, logits)


def keep_min_p(logits: "Float[Array, '*b vocabulary']", min_p) -> "Float[Array, '*b vocabulary']":
    """Keep the tokens that have at least `min_p` times the probability of the first one (Nguyen et al. 2024)."""
    probabilities = softmax(logits)
    return np.where(probabilities < min_p * probabilities.max(-1, keepdims=True), -np.inf, logits)


def draw_tokens(probabilities: "Float[Array, '*b vocabulary']", uniform: "Float[Array, '*b']") -> "Int[Array, '*b']":
    """Return the token of each row at which the probabilities so far exceed the part `uniform` of all, in [0, 1)."""
    sums = probabilities.cumsum(-1)
    return (sums <= np.asarray(uniform)[..., None] * sums[..., -1:]).sum(-1)


def check_sampling(temperature, top_k, top_p, min_p):
    """Raise unless these are options of `next_token_probabilities`."""
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature is {temperature}: expected 0 or more; 0 is the most probable token")
    if top_k is not None:
        count("top_k", top_k, 1)
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p is {top_p}: expected 0 < top_p ≤ 1, a probability to be reached; 1 keeps all")
    if min_p is not None and not 0 <= min_p <= 1:
        raise ValueError(f"min_p is {min_p}: expected 0 ≤ min_p ≤ 1, a part of the largest probability; 0 keeps all")
