"""`python -m mha.conformance.worker ADAPTER CASE …`: run cases, one line of JSON each, as they are done."""

import json
import sys

from mha.conformance.adapters import find
from mha.conformance.cases import chosen
from mha.conformance.runner import examine


def main(adapter_name, *names):
    """Print the results of these cases."""
    adapter = find(adapter_name)
    for case in chosen(names):
        print(json.dumps(examine(adapter, case).as_dict()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
