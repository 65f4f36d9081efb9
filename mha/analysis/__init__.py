"""Measurements on attention: what heads do, found by numbers and not by eye."""

from mha.analysis import patterns

__all__ = ["patterns"]
