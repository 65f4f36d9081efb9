"""The NumPy floor of this package."""

from mha import reference
from mha.conformance.adapter import FEATURES, Adapter
from mha.conformance.adapters.values import parts, with_masks


def functions(name):
    """Return the adapter of the functions of `mha.reference`."""
    return Adapter(
        name=name,
        attend=with_masks(reference.attention),
        as_given=reference.attention,
        weights=with_masks(lambda q, k, v, **options: reference.attention_weights(q, k, **options)),
        both=with_masks(lambda q, k, v, **options: reference.attention_stats(q, k, v, **options)[0]),
        stats=with_masks(lambda q, k, v, **options: reference.attention_stats(q, k, v, **options)[1]._asdict()),
        rotate=reference.rotate,
        parts=parts(reference),
        backward=with_masks(lambda *inputs, **options: _by_name(reference.attention_backward(*inputs, **options))),
        supports=FEATURES - {"second-derivative", "forward-derivative"},
        packages=("numpy",),
    )


def _by_name(gradients):
    return {name: x for name, x in gradients._asdict().items() if x is not None}
