"""The log of a script that trains: one line a run, so that what has been run is not run again."""

import json

from provenance import commit


def kept(log):
    """Return the lines of the log at this path."""
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def keep(log, line):
    """Add a line to the log, and return it; print it but for its lists."""
    line |= {"commit": commit()}
    print({name: value for name, value in line.items() if not isinstance(value, list)}, flush=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return line


def known(log, **key):
    """Return the line of the log that has these entries, if there is one."""
    return next((line for line in kept(log) if key.items() <= line.items()), None)
