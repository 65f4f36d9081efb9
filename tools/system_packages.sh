#!/bin/sh
# See that the system packages named are there: install them where that is allowed, else name them and stop.
#   sh tools/system_packages.sh g++ chromium
set -eu

have() {
    command -v "$1" >/dev/null 2>&1
}

present() {
    case $1 in
        chromium) [ -n "${CHROMIUM:-}" ] || have chromium || have chromium-browser || have google-chrome ;;
        g++) have "${CXX:-g++}" || have clang++ ;;
        python3-dev) headers="$("${PYTHON:-python3}" -c 'import sysconfig; print(sysconfig.get_path("include"))')" && [ -f "$headers/Python.h" ] ;;
        python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
        fonts-noto-cjk) have fc-list && fc-list :lang=ja | grep -q . ;;
        *) have "$1" ;;
    esac
}

missing=
for package in "$@"; do
    present "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && have apt-get; then
    echo "Installing$missing ..."
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086  # one word a package
    apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "Missing:$missing" >&2
    echo "Install it with your package manager (Debian or Ubuntu: sudo apt-get install$missing)." >&2
    case $missing in
        *chromium*) echo "A Chromium or Chrome elsewhere: CHROMIUM=/path/to/it; without one: make test BROWSER=0" >&2 ;;
    esac
    exit 1
fi
