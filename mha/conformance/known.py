"""Run cases on a known adapter: its packages may be missing, and a foreign one may end the process."""

from importlib import metadata

from mha.conformance.adapters import KNOWN, find, is_installed
from mha.conformance.isolation import examine_apart
from mha.conformance.report import Report, Result
from mha.conformance.runner import examine


def examine_known(name, cases) -> Report:
    """Return the report of a known adapter, with the versions of its packages."""
    if name not in KNOWN:
        raise ValueError(f"no adapter {name!r}: expected all, or one of {', '.join(KNOWN)}")
    if not is_installed(name):
        return Report(name, [Result(case, "not installed") for case in cases])
    adapter = find(name)
    apart = [case for case in cases if _runs_apart(case, adapter)]
    elsewhere = examine_apart(name, apart, adapter.environment) if apart else []
    found = {result.case.name: result for result in elsewhere}
    results = [found.get(case.name) or examine(adapter, case) for case in cases]
    return Report(name, results, {package: metadata.version(package) for package in adapter.packages})


def _runs_apart(case, adapter):
    return case.needs <= adapter.supports and bool(adapter.environment or (case.dangerous and adapter.isolated))
