"""Carry what the chapters printed into `book/claims.yml`, or check that it is there.

python tools/claims.py --update    write the `measured:` lines
python tools/claims.py --check     fail where a record and its chapter differ
"""

import argparse
import html
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRINTED = re.compile(r'<aside class="mha-claim" data-claim="([\w-]+)">.*?<b>(.*?)</b>', re.DOTALL)
RECORD = re.compile(r"^- id: (?P<id>[\w-]+)$.*?^  measured: (?P<measured>.*?)$", re.MULTILINE | re.DOTALL)


def printed_claims(notebook: dict) -> dict[str, str]:
    """What the `claim(id, measured)` cells of one executed notebook printed."""
    outputs = (output for cell in notebook["cells"] for output in cell.get("outputs", []))
    texts = ("".join(output.get("data", {}).get("text/html", "")) for output in outputs)
    return {name: html.unescape(measured) for text in texts for name, measured in PRINTED.findall(text)}


def update(ledger: str, measured: dict[str, str]) -> str:
    """The ledger with the `measured:` line of each printed claim replaced; nothing else moves."""

    def rewrite(record: re.Match) -> str:
        if record["id"] not in measured:
            return record[0]
        return record[0][: record.start("measured") - record.start()] + json.dumps(
            measured[record["id"]], ensure_ascii=False
        )

    unknown = measured.keys() - {record["id"] for record in RECORD.finditer(ledger)}
    if unknown:
        raise ValueError(f"claims without a record in book/claims.yml: {', '.join(sorted(unknown))}")
    return RECORD.sub(rewrite, ledger)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--update", action="store_true")
    action.add_argument("--check", action="store_true")
    arguments = parser.parse_args()

    measured: dict[str, str] = {}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        measured |= printed_claims(json.loads(path.read_text(encoding="utf-8")))
    ledger = ROOT / "book/claims.yml"
    before = ledger.read_text(encoding="utf-8")
    after = update(before, measured)
    if arguments.update:
        ledger.write_text(after, encoding="utf-8")
    elif before != after:
        print("book/claims.yml differs from the notebooks: run python tools/claims.py --update", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
