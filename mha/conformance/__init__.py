"""Does an attention function mean what attention means? Cases with numbers for any function, and for known libraries.

from mha.conformance import verify
print(verify(my_attention))
"""

from mha.conformance.adapter import CONVENTIONS, FEATURES, Adapter, adapt
from mha.conformance.arrays import Jax, NumPy, Torch
from mha.conformance.case import Call, Case, Finding, Gradient, Part, Refusal, Relation, Value
from mha.conformance.cases import ALL as CASES
from mha.conformance.cases import GROUPS
from mha.conformance.report import Report, Result, matrix
from mha.conformance.runner import verify

__all__ = [
    "CASES",
    "CONVENTIONS",
    "FEATURES",
    "GROUPS",
    "Adapter",
    "Call",
    "Case",
    "Finding",
    "Gradient",
    "Jax",
    "NumPy",
    "Part",
    "Refusal",
    "Relation",
    "Report",
    "Result",
    "Torch",
    "Value",
    "adapt",
    "matrix",
    "verify",
]
