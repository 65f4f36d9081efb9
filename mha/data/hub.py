"""The Hugging Face hub, asked politely: one short question first, and one kind of error."""

from contextlib import contextmanager

from mha.data.unavailable import DataUnavailable, missing_package

__all__ = ["reading"]

SECONDS = 5  # how long to wait for the hub's first word; left alone, its client tries for half a minute


@contextmanager
def reading(repository, *, kind, otherwise):
    """Read from `repository` ("model" or "dataset") in this block; any failure becomes `DataUnavailable`.

    `otherwise` says what to do without the hub.
    """
    try:
        from huggingface_hub import HfApi, constants
    except ImportError as absent:
        raise missing_package(absent) from absent
    try:
        if not constants.HF_HUB_OFFLINE:
            HfApi().repo_info(repository, repo_type=kind, timeout=SECONDS)
        yield
    except Exception as refused:  # which errors these are depends on the client's own HTTP library
        raise DataUnavailable(
            f"{repository} could not be read from the hub (offline?): {refused}\n{otherwise}; "
            "HF_HUB_OFFLINE=1 in the environment reads what the hub's own cache holds"
        ) from refused
