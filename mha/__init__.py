"""Exact multi-head attention, and the textbook that explains it."""
