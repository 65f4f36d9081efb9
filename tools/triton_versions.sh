#!/bin/sh
# Pass the tests of the kernels with other versions of Triton, each in an environment of its own:
#   sh tools/triton_versions.sh VERSION ...        a version, or "newest"
# torch asks for one exact Triton, so the other one is put in its place.
set -eu
export OMP_NUM_THREADS=1

for version; do
    venv=.venv-triton-$version
    sh tools/environment.sh triton "$venv"
    pip="$venv/bin/python -m pip install -qq --disable-pip-version-check"
    $pip -c requirements.lock beartype hypothesis jaxtyping matplotlib pytest pytest-xdist
    case $version in
        newest) $pip --no-deps --upgrade triton ;;
        *) $pip --no-deps "triton==$version" ;;
    esac
    "$venv/bin/python" -c 'import triton; print(f"\nTriton {triton.__version__}")'
    pytest="$venv/bin/python -m pytest -q -p no:cacheprovider -n ${WORKERS:-logical}"
    TRITON_INTERPRET=1 $pytest --dist worksteal tests/kernels
    $pytest --dist loadfile tests/compiled
done
