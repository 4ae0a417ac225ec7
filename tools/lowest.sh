#!/usr/bin/env bash
# lowest.sh: make .venv-lowest, with the lowest versions that pyproject.toml allows.
# Nothing is locked: tools/lowest.py says which versions, pip finds them by name.
set -euo pipefail
cd "$(dirname "$0")/.."

environment=.venv-lowest
[[ -x $environment/bin/python ]] || .venv/bin/python -m venv "$environment"
.venv/bin/python tools/lowest.py >"$environment/constraints.txt"
.venv/bin/python tools/lowest.py --names >"$environment/names.txt"
install() {
    "$environment/bin/python" -m pip install -qq --disable-pip-version-check "$@"
}
# Built packages only: a machine for tests need not have a compiler.
install --only-binary cryptography,hiredis,msgspec,setproctitle,uvloop \
    --constraint "$environment/constraints.txt" --requirement "$environment/names.txt"
install --no-deps --no-build-isolation --editable .
