#!/usr/bin/env bash
# Install the generators of clients into .venv/clients, apart from what Kue runs with.
set -euo pipefail
cd "$(dirname "$0")/../.."

built=.venv/clients
wanted=openapi-python-client==0.29.1

if ! cmp -s tools/clients/package.json $built/installed.json; then
    rm -rf $built
    mkdir -p $built
    .venv/bin/python -m venv $built/python
    $built/python/bin/pip install -qq --disable-pip-version-check $wanted
    cp tools/clients/package.json $built/package.json
    npm install --prefix $built --ignore-scripts --no-audit --no-fund \
        --no-package-lock --silent
    cp tools/clients/package.json $built/installed.json
fi
