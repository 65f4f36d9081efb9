"""Every launch says whether products and sums may join in one instruction: the default differs between Tritons."""

import ast
from pathlib import Path

import pytest

import mha.kernels

FOLDER = Path(mha.kernels.__file__).parent
OPTIONS = "enable_fp_fusion=True", "**size.options", '"enable_fp_fusion": True'


def launches():
    """Yield (file, name of the kernel, source of the function around) of every launch in the package."""
    for path in sorted(FOLDER.rglob("*.py")):
        source = path.read_text("utf-8")
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, ast.FunctionDef):
                yield from (
                    (str(path.relative_to(FOLDER)), call.func.value.id, ast.get_source_segment(source, call), function)
                    for call in ast.walk(function)
                    if isinstance(call, ast.Call)
                    and isinstance(call.func, ast.Subscript)
                    and getattr(call.func.value, "id", "").endswith("_kernel")
                )


LAUNCHES = list(launches())


@pytest.mark.parametrize(("file", "kernel", "call", "function"), LAUNCHES, ids=[x[1] for x in LAUNCHES])
def test_a_launch_names_fusion(file, kernel, call, function):
    said = ast.unparse(function) if "**options" in call and "**size.options" not in call else call
    said = said.replace("'", '"')
    assert any(option in said for option in OPTIONS), f"{file}: the launch of {kernel} leaves fusion to the version"


def test_the_launches_are_found():
    assert len(LAUNCHES) >= 10
