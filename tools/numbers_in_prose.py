"""Keep the numbers in prose equal to what the notebooks print.

A cell prints `share on the previous token = 71 %` and the prose says `71 %<!--=share on the previous token-->`;
another notebook or page says `71 %<!--=heads: share on the previous token-->`, with the printing notebook's name.
Readers never see the comment.
"""

import argparse
import re
import sys

from notebook_form import ROOT, read, write

NUMBER = r"[-−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+−]?\d+)?"
PRINTED = re.compile(rf"^(?P<label>\S.*) = (?P<number>{NUMBER})(?P<unit>[^\d\n].*|)$", re.MULTILINE)
MARK = re.compile(r"<!--=(?:(?P<stem>\w+): )?(?P<label>.+?)-->")


def printed(notebook):
    """Return what each label was printed with: {label: {(number, unit), …}}."""
    values = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "stream":
                for label, number, unit in PRINTED.findall(output.text):
                    values.setdefault(label, set()).add((number, unit.rstrip()))
    return values


def rewrite(text, stem, values):
    """Return `text` with each tied number as printed, and what cannot be tied.

    `values` maps the stem of a notebook to its `printed` values; `stem` is the notebook that `text` stands in.
    """
    pieces, faults, done = [], [], 0
    for mark in MARK.finditer(text):
        before = text[done : mark.start()]
        try:
            before = _tie(before, *_find(mark["label"], mark["stem"] or stem, values))
        except LookupError as fault:
            faults.append(f"{mark.group()}: {fault.args[0]}")
        pieces += [before, mark.group()]
        done = mark.end()
    return "".join([*pieces, text[done:]]), faults


def _find(label, stem, values):
    if stem not in values:
        raise LookupError(f"there is no notebook {stem!r}" if stem else "a page must name the notebook that prints it")
    found = values[stem].get(label, set())
    if len(found) != 1:
        raise LookupError(f"{stem} prints {label!r} with {len(found)} different numbers, expected 1")
    return next(iter(found))


def _tie(before, number, unit):
    # Any space may stand before the unit, and emphasis may close before the mark.
    old_unit = r"\s*".join(map(re.escape, unit.split()))
    old = re.search(rf"(?<![\w.,])(?P<value>{NUMBER}\s*{old_unit})(?P<closing>[*_`]*)$", before)
    if not old:
        raise LookupError(f"expected a number such as {number + unit!r} right before it, got {before[-20:]!r}")
    if _bare(old["value"]) == _bare(number + unit):
        return before
    return before[: old.start()] + number.replace("-", "−", number.startswith("-")) + unit + old["closing"]


def _bare(value):
    return re.sub(r"\s", "", value).replace("−", "-")


def refresh(root=ROOT, *, check=False):
    """Rewrite every tied number below `root`, or with `check` only look; return the faults, each with its file."""
    notebooks = {path: read(path) for path in sorted((root / "notebooks").glob("*.ipynb"))}
    values = {path.stem: printed(notebook) for path, notebook in notebooks.items()}
    faults = []

    def renew(path, text, stem=None):
        new, problems = rewrite(text, stem, values)
        if check and new != text:
            problems.append("a number in prose is not the printed one; run make notebooks")
        faults.extend(f"{path.relative_to(root)}: {problem}" for problem in problems)
        return new

    for path, notebook in notebooks.items():
        prose = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
        new = [renew(path, cell.source, path.stem) for cell in prose]
        if not check and new != [cell.source for cell in prose]:
            for cell, source in zip(prose, new, strict=True):
                cell.source = source
            write(path, notebook)
    for path in sorted((root / "book").glob("*.md")):
        old = path.read_text(encoding="utf-8")
        new = renew(path, old)
        if not check and new != old:
            path.write_text(new, encoding="utf-8")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, only report")
    sys.exit("\n".join(refresh(check=parser.parse_args().check)) or 0)


if __name__ == "__main__":
    main()
