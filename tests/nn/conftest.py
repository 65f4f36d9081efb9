"""What the tests of this floor share."""

import sys

import pytest


@pytest.fixture(autouse=True)
def own_graphs():
    """Forget compiled graphs: a function has few, and a test that meets another's fails by the order of the tests."""
    if "torch._dynamo" in sys.modules:
        sys.modules["torch._dynamo"].reset()
