#!/bin/sh
# Make a virtual environment where there is none, and install one extra of this project into it, at the locked versions:
#   sh tools/environment.sh EXTRA [FOLDER, .venv by default]
set -eu
extra=$1
venv=${2:-.venv}

stop() {
    printf '%s\n' "$@" >&2
    exit 1
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for candidate in ${PYTHON:-python3 python python3.13 python3.12 python3.11}; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
        command -v "$candidate" >/dev/null && version=$("$candidate" --version 2>&1) || version="not there"
        found="${found:-}, $candidate ($version)"
    done
    stop "Python 3.11 or newer is needed; tried ${found#, }." \
         "Install one, or name it: make book PYTHON=/path/to/python3.12"
}

if ! "$venv/bin/python" -c '' 2>/dev/null; then
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        stop "$python cannot make a virtual environment: its module ensurepip is missing." \
             "On Debian or Ubuntu: apt-get install python3-venv"
    "$python" -m venv --clear "$venv"
fi

echo "Installing the extra \"$extra\" into $venv (some minutes the first time) ..."
"$venv/bin/python" -m pip install -qq --disable-pip-version-check -c requirements.lock -e ".[$extra]"
