#!/usr/bin/env bash
# Compile requirements/*.txt from pyproject.toml: exact versions and hashes of everything,
# for every platform and Python we support.  Give --upgrade to move to newer versions.
# Needs uv (`pip install uv`).
set -euo pipefail
cd "$(dirname "$0")/.."

compile() {
    uv pip compile pyproject.toml "$@" --quiet --universal --python-version 3.11 \
        --generate-hashes --annotation-style line \
        --custom-compile-command tools/lock.sh
}

compile --group dev --output-file requirements/dev.txt "$@"
# The versions of run.txt are those of dev.txt: what the tests saw is what the demo runs.
compile --group build --constraint requirements/dev.txt \
    --output-file requirements/run.txt
