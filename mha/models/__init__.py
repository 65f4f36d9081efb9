"""Whole models on `mha.nn`, a file each, with the frozen configuration of the pretrained one beside it."""
