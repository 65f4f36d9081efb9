"""What every notebook must be. Each rule takes a notebook and yields its faults as sentences."""

import ast
import functools
import re
from html.parser import HTMLParser

import first_cell
import notebook_form

MAX_CELLS = 60
MAX_VISIBLE_LINES = 250
MAX_CELL_LINES = 25
MAX_BYTES = 1_000_000
PASTED_LINES = 3

TYPED_NUMBER = re.compile(r"\b(Figure|Fig\.|Equation|Eq\.|Section|Chapter|Table)\s+\d")
UNROUNDED = re.compile(r"\d\.\d{7,}|\d\.\d+e-1\d")  # more digits, or smaller numbers, than two processors share
PATH = re.compile(r"\.(png|svg|jpe?g|gif|webp)\b|^\S*[/\\]\S*$", re.IGNORECASE)
TORCH_DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "rand_like", "randn_like"}
TORCH_DRAWS |= {"Linear", "Embedding", "Dropout", "MultiheadAttention", "MultiHeadAttention"}


def is_executed(notebook):
    """Every code cell ran, in order, from 1 to n: nbval compares nothing where the count is missing."""
    counts = [cell.execution_count for cell in code_cells(notebook)]
    if counts != list(range(1, len(counts) + 1)):
        yield f"execution counts are {counts}, expected 1 … {len(counts)}"


def has_readable_size(notebook):
    if len(notebook.cells) > MAX_CELLS:
        yield f"{len(notebook.cells)} cells, at most {MAX_CELLS}"
    visible = sum(len(cell.source.splitlines()) for cell in code_cells(notebook) if _is_visible(cell))
    if visible > MAX_VISIBLE_LINES:
        yield f"{visible} visible lines of code, at most {MAX_VISIBLE_LINES}"
    for cell in code_cells(notebook):
        if (lines := len(cell.source.splitlines())) > MAX_CELL_LINES:
            yield f"{lines} lines in one cell, at most {MAX_CELL_LINES}: {_opening(cell)}"
    if (size := len(notebook_form.dumps(notebook).encode())) > MAX_BYTES:
        yield f"{size} bytes, at most {MAX_BYTES}"


def ran_quietly(notebook):
    """Nothing failed, warned or showed an address, which another run would not repeat."""
    for cell, output in outputs(notebook):
        if output.output_type == "error" and "raises-exception" not in cell.metadata.get("tags", []):
            yield f"an error is stored: {output.ename} in {_opening(cell)}"
        if output.get("name") == "stderr":
            yield f"a warning is stored: {output.text[:80]!r}"
        if re.search(r"\b0x[0-9a-f]{6,}", str(output.get("text", "")) + str(output.get("data", {}).get("text/plain"))):
            yield f"an address is stored, give it a repr: {_opening(cell)}"


def prints_rounded_numbers(notebook):
    """Another processor must print the same digits."""
    for cell, output in outputs(notebook):
        text = str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", ""))
        if unrounded := UNROUNDED.search(text):
            yield f"{unrounded.group()} is not rounded: {_opening(cell)}"


def shows_pictures_with_words(notebook):
    """Pictures come from `mha.book.show` or a widget, each with an alt text that is a sentence."""
    for cell, output in outputs(notebook):
        for mime, content in output.get("data", {}).items():
            if mime.startswith("image/"):
                yield f"{mime} bypasses mha.book.show: {_opening(cell)}"
            if mime == "text/html":
                for alt in alt_texts(content):
                    if alt is None or PATH.search(alt.strip()) or len(alt.split()) < 4:
                        yield f"alt must be a sentence, got {alt!r}: {_opening(cell)}"


def pastes_no_package_code(notebook):
    """Package code is imported and shown by `mha.book.source`, never copied."""
    package = _package_lines()
    for cell in code_cells(notebook):
        lines = _code_lines(_without_magics(cell.source))
        for start in range(len(lines) - PASTED_LINES + 1):
            run = tuple(lines[start : start + PASTED_LINES])
            if run in package:
                yield f"{package[run]} is pasted, show it by mha.book.source: {run[0]!r}"
                break


def seeds_its_randomness(notebook):
    """Draws come from `np.random.default_rng(seed)`, or from torch after `torch.manual_seed`."""
    seeded = False
    for cell in code_cells(notebook):
        for node in _in_order(ast.parse(_without_magics(cell.source))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", None)]
                if "random" in names or "numpy.random" in names:
                    yield f"draw from np.random.default_rng(seed), not from a module: {ast.unparse(node)}"
            if not isinstance(node, ast.Call):
                continue
            function = ast.unparse(node.func)
            seeded |= function == "torch.manual_seed"
            if function.startswith(("np.random.", "numpy.random.")) and not function.endswith(".default_rng"):
                yield f"draw from np.random.default_rng(seed), not from {function}"
            if function.endswith("random.default_rng") and not (node.args or node.keywords):
                yield "default_rng() has no seed"
            by_generator = any(keyword.arg == "generator" for keyword in node.keywords)
            root, _, name = function.rpartition(".")
            is_torch = root.split(".")[0] in {"torch", "nn", "mha", "F"} or name == "MultiHeadAttention"
            if is_torch and name in TORCH_DRAWS and not (seeded or by_generator):
                yield f"{function} draws before torch.manual_seed"


def types_no_numbers_of_figures(notebook):
    """Numbers of figures and equations come from labels; a number in a cited paper stands beside its citation."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for paragraph in re.split(r"\n\s*\n", cell.source):
                if (typed := TYPED_NUMBER.search(paragraph)) and "{cite" not in paragraph:
                    yield f"{typed.group()!r} is typed, refer to its label"


def begins_as_all_do(notebook):
    """The first code cell is the one that makes `mha` importable, and it found the version of this package."""
    repository, version = first_cell.settings()
    cell = next(iter(code_cells(notebook)), None)
    if cell is None or cell.source != first_cell.source(repository, version):
        yield "the first code cell is not the common one; run make notebooks"
    elif [output.get("text") for output in cell.outputs] != [f"mha {version}\n"]:
        yield f"the first code cell does not show version {version}; run make notebooks"


def installs_nothing_by_bare_name(notebook):
    """The name `mha` on the package index is not known to be ours: only a repository may follow it."""
    for cell in notebook.cells:
        if re.search(r"pip3? install [^\n]*\bmha\b(\[[\w,]*\])?+(?! ?@)", cell.source):
            yield f"pip install mha by its bare name: {_opening(cell)}"


def is_canonical(notebook, text):
    if notebook_form.dumps(notebook) != text:
        yield "not in canonical form; run make notebooks"


RULES = (
    is_executed,
    has_readable_size,
    ran_quietly,
    prints_rounded_numbers,
    shows_pictures_with_words,
    pastes_no_package_code,
    seeds_its_randomness,
    types_no_numbers_of_figures,
    begins_as_all_do,
    installs_nothing_by_bare_name,
)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook):
    return [(cell, output) for cell in code_cells(notebook) for output in cell.outputs]


def _is_visible(cell):
    return not {"hide-cell", "hide-input", "remove-cell", "remove-input"} & set(cell.metadata.get("tags", []))


def _opening(cell):
    return repr(cell.source.partition("\n")[0])


def alt_texts(html):
    found = []

    class Images(HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag == "img":
                found.append(dict(attrs).get("alt"))

    Images().feed(html)
    return found


def _without_magics(source):
    return "\n".join("" if re.match(r"\s*[%!]", line) else line for line in source.splitlines())


def _in_order(tree):
    nodes = [node for node in ast.walk(tree) if hasattr(node, "lineno")]
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


def _code_lines(source):
    """Return the statements as unparsed lines: no comments, docstrings, blank lines or indents."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_bare_string(line)] or [ast.Pass()]
    return [line.strip() for line in ast.unparse(tree).splitlines() if line.strip()]


def _is_bare_string(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@functools.cache
def _package_lines():
    """Return {consecutive lines: function} for the body of every function of the package."""
    found = {}
    for path in sorted((notebook_form.ROOT / "mha").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                lines = _code_lines(ast.unparse(node.body))
                for start in range(len(lines) - PASTED_LINES + 1):
                    found.setdefault(tuple(lines[start : start + PASTED_LINES]), f"mha.{path.stem}.{node.name}")
    return found
