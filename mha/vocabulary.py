"""The first numbers of every vocabulary."""

__all__ = ["BOS", "EOS", "PAD"]

PAD, BOS, EOS = 0, 1, 2  # padding, beginning of sequence, end of sequence
