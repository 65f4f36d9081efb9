"""A mask in words and as a picture in text."""

from mha.integers import count, integer
from mha.masks.arrays import in_numpy
from mha.masks.evaluate import query_start
from mha.text import say


def explain(mask, i, j, b, h, q_start):
    """Say whether position i may see position j, and which term decides; see `Mask.explain`."""
    start = query_start(mask, 0, 0, q_start)
    b, h = _slots(mask, start, b, h)
    seen, reasons, others = mask.placed(start).on_tables(in_numpy).why(b, h, integer("i", i), count("j", j))
    state = "visible" if seen else "hidden"
    text = say(f"masks.explain.{state}", i=i, j=j, reason=say("masks.explain.and").join(reasons))
    return text + "".join(say(f"masks.explain.also_{state}", term=repr(term)) for term in others)


def draw(mask, n_q, n_k, q_start, b, h):
    """Return the picture of one sample and head; see `Mask.draw`."""
    see, start = mask.dense(n_q, n_k, q_start), query_start(mask, n_q, n_k, q_start)
    b, h = _slots(mask, start, b, h)
    see = see if see.ndim == 2 else see[b if len(see) > 1 else 0, h if see.shape[1] > 1 else 0]
    first = start if isinstance(start, int) else int(start[b if len(start) > 1 else 0])
    cell, edge = len(str(max(n_k - 1, 0))), max(len(str(first)), len(str(first + n_q - 1)), len("i\\j"))
    lines = [["i\\j".rjust(edge), *(str(j).rjust(cell) for j in range(n_k))]]
    for i, row in enumerate(see, start=first):
        lines.append([str(i).rjust(edge), *(("■" if seen else "·").rjust(cell) for seen in row)])
    return "\n".join(" ".join(line) for line in lines)


def _slots(mask, start, b, h):
    """Return sample b and head h as integers, or raise where the mask has fewer."""
    samples, heads = mask._sizes_from(start)
    return _slot("b", b, samples), _slot("h", h, heads)


def _slot(name, value, size):
    value = count(name, value)
    if size != 1 and value >= size:
        raise ValueError(f"{name} is {value}: expected less than {size}, as many as the mask tells apart")
    return value
