"""Measurements on attention: what heads do, found by numbers and not by eye."""
