"""Which mask has which conversion: asked of the conversions themselves."""

from mha.integers import count

__all__ = ["conversions"]


def conversions(mask, n_q, n_k, q_start=None):
    """Return the arguments that say a mask to each library at these lengths; None where they cannot say it."""
    n_q, n_k = count("n_q", n_q), count("n_k", n_k)
    calls = {
        "torch_mha": lambda: mask.to_torch_mha(n_q, n_k, q_start=q_start),
        "sdpa": lambda: mask.to_sdpa(n_q, n_k, q_start),
        "flex": lambda: {"block_mask": mask.to_flex(n_q, n_k, q_start=q_start)},
        "flash": lambda: mask.to_flash(n_q, n_k, q_start),
        "onnx": lambda: mask.to_onnx(n_q, n_k, q_start),
    }
    return {name: _told(call) for name, call in calls.items()}


def _told(call):
    try:
        return list(call())
    except ValueError:
        return None
