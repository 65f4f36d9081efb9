"""The documents of the house are true: README, changelog, citation, workflows, Makefile."""

import re
import subprocess
import sys

import pytest
import yaml

from house.repository import PYPROJECT, ROOT

VERSION = PYPROJECT["project"]["version"]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.M))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def validate(schema: str, *paths) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_examples_of_the_readme_run(capsys):
    examples = re.findall(r"```python\n(.*?)```", read("README.md"), re.S)
    assert len(examples) == 6
    names = {}
    for example in examples:
        exec(compile(example, "README.md", "exec"), names)
    shown = capsys.readouterr().out
    assert shown.startswith("(2, 8, 11, 16) ")
    assert "tensor(True)" in shown, "a cached row is the row of the whole"
    assert "9 > 7" in shown, "the mask explains itself by the numbers"
    assert "torch.Size([1, 12, 256]) frozenset" in shown, "an approximation serves as the core of the layer"
    assert re.search(r"^Call me Ishm.{20}$", shown, re.M | re.S), "a model trained for 30 steps writes on"
    assert re.search(r"^attention: \d+ holds, \d+ unsupported$", shown, re.M), "and no case fails"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".ci/run", ".github/workflows/test.yml"])
def test_every_command_named_is_a_target(name):
    named = set(re.findall(r"(?:`|: |^)make ([a-z-]+)", read(name), re.M))
    assert named, f"{name} names no make target: has this pattern gone stale?"
    assert named <= TARGETS


def test_help_lists_every_command():
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    documented = set(re.findall(r"^  make ([a-z-]+)", shown, re.M))
    assert documented == TARGETS - {"system", "weights"}
    assert max(map(len, shown.splitlines())) <= 100


def test_the_lock_is_what_every_environment_is_made_from():
    assert "-c requirements.lock" in read("tools/environment.sh")
    installs = re.findall(r"pip install.*", MAKEFILE)
    assert installs == [], "only tools/environment.sh installs: a second pip install moves pins"


def test_the_workflows_are_valid():
    assert [path.stem for path in WORKFLOWS] == ["publish", "release", "test"]
    for schema in ("vendor.github-workflows", "custom.github-workflows-require-timeout"):
        # A job that calls another workflow can have no timeout of its own.
        paths = [path for path in WORKFLOWS if schema.startswith("vendor") or path.stem != "release"]
        result = validate(schema, *paths)
        assert result.returncode == 0, result.stdout


def test_an_invalid_workflow_is_noticed(tmp_path):
    broken = yaml.safe_load(read(".github/workflows/test.yml"))
    del broken["jobs"]["test"]["runs-on"]
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump(broken), "utf-8")
    assert validate("vendor.github-workflows", path).returncode == 1


def test_the_citation_is_valid_and_current():
    result = validate("vendor.citation-file-format", ROOT / "CITATION.cff")
    assert result.returncode == 0, result.stdout
    citation = yaml.safe_load(read("CITATION.cff"))
    assert citation["version"] == VERSION
    assert citation.get("repository-code", "") == PYPROJECT["tool"]["mha"]["Repository"]


def test_the_changelog_has_this_version():
    assert re.search(rf"^## \[{re.escape(VERSION)}\] - (unreleased|\d{{4}}-\d\d-\d\d)$", read("CHANGELOG.md"), re.M)


def test_links_between_the_documents_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        targets = re.findall(r"\]\((?!https?:)([^)#]+)", read(name))
        assert [target for target in targets if not (ROOT / target).exists()] == [], name
