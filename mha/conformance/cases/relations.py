"""What must hold between two calls, whatever the numbers are."""

import numpy as np

from mha.conformance.case import Relation

SEE = np.array([[1, 0, 0, 1, 0], [1, 1, 0, 1, 0], [0, 1, 1, 1, 0]], bool)  # no query sees the last key
TRIANGLE = np.tri(5, dtype=bool)


def draw(n_q=3, n_k=5, batch=2):
    rng = np.random.default_rng(17)
    return tuple(rng.normal(size=(batch, 2, n, 3)) for n in (n_q, n_k, n_k))


def changed(x, rows):
    """The same array with other numbers in these rows."""
    x = x.copy()
    x[..., rows, :] = 3 - 2 * x[..., rows, :]
    return x


def causality(subject):
    """Change the last two tokens and look at the first three rows."""
    q, k, v = draw(5)
    late = slice(3, None)
    after = subject.attend(changed(q, late), changed(k, late), changed(v, late), mask=TRIANGLE)
    return subject.attend(q, k, v, mask=TRIANGLE)[..., :3, :], after[..., :3, :]


def native_causality(subject):
    q, k, v = draw(5)
    late = slice(3, None)
    after = subject.attend(changed(q, late), changed(k, late), changed(v, late), causal=True)
    return subject.attend(q, k, v, causal=True)[..., :3, :], after[..., :3, :]


def gradient_causality(subject):
    """A loss on the first three rows has no gradient in later keys and values."""
    q, k, v = draw(5)
    d_output = np.zeros(q.shape)
    d_output[..., :3, :] = 1 + np.arange(3)
    found = subject.gradients(q, k, v, d_output=d_output, mask=TRIANGLE)
    late = np.stack([found[name][..., 3:, :] for name in "qkv"])
    return np.zeros(late.shape), late


def native_gradient_causality(subject):
    q, k, v = draw(5)
    d_output = np.zeros(q.shape)
    d_output[..., :3, :] = 1 + np.arange(3)
    found = subject.gradients(q, k, v, d_output=d_output, causal=True)
    late = np.stack([found[name][..., 3:, :] for name in "qkv"])
    return np.zeros(late.shape), late


def queries_in_another_order(subject):
    q, k, v = draw()
    order = [2, 0, 1]
    return (
        subject.attend(q, k, v, mask=SEE)[..., order, :],
        subject.attend(q[..., order, :], k, v, mask=SEE[order]),
    )


def keys_in_another_order(subject):
    q, k, v = draw()
    order = [3, 0, 4, 2, 1]
    return (
        subject.attend(q, k, v, mask=SEE),
        subject.attend(q, k[..., order, :], v[..., order, :], mask=SEE[:, order]),
    )


def heads_in_another_order(subject):
    inputs = draw()
    return subject.attend(*inputs)[:, ::-1], subject.attend(*(x[:, ::-1].copy() for x in inputs))


def one_sample_at_a_time(subject):
    inputs = draw(batch=4)
    single = [subject.attend(*(x[b : b + 1] for x in inputs)) for b in range(4)]
    return np.concatenate(single), subject.attend(*inputs)


def one_head_at_a_time(subject):
    inputs = draw()
    single = [subject.attend(*(x[:, h : h + 1] for x in inputs), mask=SEE) for h in range(2)]
    return np.concatenate(single, 1), subject.attend(*inputs, mask=SEE)


def another_sample(subject):
    """Change the second sample and look at the first: as many samples as tokens, so that the axes can be confused."""
    inputs = draw(4, 4, batch=4)
    after = []
    for x in inputs:
        x = x.copy()
        x[1] = -x[1]
        after.append(x)
    return subject.attend(*inputs)[0], subject.attend(*after)[0]


def a_hidden_key_edited(subject):
    q, k, v = draw()
    last = slice(4, None)
    return subject.attend(q, k, v, mask=SEE), subject.attend(q, changed(k, last), changed(v, last), mask=SEE)


def a_hidden_key_removed(subject):
    q, k, v = draw()
    return subject.attend(q, k[..., :4, :], v[..., :4, :], mask=SEE[:, :4]), subject.attend(q, k, v, mask=SEE)


def a_constant_added_to_the_bias(subject):
    bias = np.random.default_rng(19).normal(size=(3, 5))
    return subject.attend(*draw(), bias=bias), subject.attend(*draw(), bias=bias + 7.0)


def values_added(subject):
    q, k, v = draw()
    other = v[..., ::-1].copy()
    return subject.attend(q, k, v) + 2 * subject.attend(q, k, other), subject.attend(q, k, v + 2 * other)


def equal_values(subject):
    q, k, v = draw()
    v = np.full(v.shape, 7.0)
    return np.full(q.shape, 7.0), subject.attend(q, k, v, mask=SEE)


def keys_given_twice(subject):
    q, k, v = draw()
    return subject.attend(q, k, v), subject.attend(q, *(np.concatenate([x, x], -2) for x in (k, v)))


def scale_in_the_query(subject):
    q, k, v = draw()
    return subject.attend(q, k, v, scale=0.3), subject.attend(0.3 * q, k, v, scale=1.0)


def mask_as_bias(subject):
    return subject.attend(*draw(), mask=SEE), subject.attend(*draw(), bias=np.where(SEE, 0.0, -np.inf))


def nothing_is_written(subject):
    """The arrays that went in are as they were."""
    inputs, see = draw(), SEE.copy()
    subject.attend(*inputs, mask=see)
    return np.concatenate([*map(np.ravel, draw()), SEE.ravel()]), np.concatenate([*map(np.ravel, inputs), see.ravel()])


def no_bias_is_written(subject):
    bias = np.random.default_rng(19).normal(size=(3, 5))
    before = bias.copy()
    subject.attend(*draw(), bias=bias)
    return before, bias


def twice_the_same(subject):
    return subject.attend(*draw(), mask=SEE), subject.attend(*draw(), mask=SEE)


def relation(name, run, *needs, report="", exact=False):
    return Relation(name=name, run=run, needs=frozenset(needs), report=report, exact=exact)


CASES = [
    relation("the-future-does-not-act", causality, "mask"),
    relation("the-future-does-not-act-causal", native_causality, "causal"),
    relation("the-future-has-no-gradient", gradient_causality, "mask", "gradient", exact=True),
    relation("the-future-has-no-gradient-causal", native_gradient_causality, "causal", "gradient", exact=True),
    relation("queries-do-not-act-on-each-other", queries_in_another_order, "mask"),
    relation("the-order-of-keys-does-not-matter", keys_in_another_order, "mask"),
    relation("the-order-of-heads-carries-over", heads_in_another_order),
    relation("a-batch-is-its-samples", one_sample_at_a_time),
    relation("the-heads-are-alone", one_head_at_a_time, "mask"),
    relation("samples-do-not-mix", another_sample, report="aipixel/AEMatter#3"),
    relation("editing-a-hidden-key-changes-nothing", a_hidden_key_edited, "mask", exact=True),
    relation("removing-a-hidden-key-changes-nothing", a_hidden_key_removed, "mask"),
    relation("a-constant-bias-changes-nothing", a_constant_added_to_the_bias, "bias"),
    relation("the-output-is-linear-in-the-values", values_added),
    relation("equal-values-come-out", equal_values, "mask"),
    relation("keys-given-twice-change-nothing", keys_given_twice),
    relation("the-scale-belongs-to-the-query", scale_in_the_query, "scale"),
    relation("a-mask-is-a-bias-of-minus-infinity", mask_as_bias, "mask", "bias"),
    relation("inputs-are-not-written-to", nothing_is_written, "mask", exact=True),
    relation("a-bias-is-not-written-to", no_bias_is_written, "bias", exact=True),
    relation("the-same-call-gives-the-same", twice_the_same, "mask", exact=True),
]
