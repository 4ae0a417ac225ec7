#!/usr/bin/env bash
# Make sure that Chromium and npm are in PATH, and the npm packages that tests use in
# .venv/npm: a check of accessibility, and a client of Kue's old API.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=tests/browser/package.json

# Without a user interface it is the same browser, in half of the time.
browser=chromium-headless-shell

is_fit() {
    [[ $(command -v $browser chromium) ]] && command -v npm >/dev/null
}

if ! is_fit && [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    apt-get update -qq
    # Older releases have only the whole browser.
    apt-cache show $browser >/dev/null 2>&1 || browser=chromium
    wanted=($browser)
    command -v npm >/dev/null || wanted+=(npm)
    DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
fi
if ! is_fit; then
    cat >&2 <<EOF
The tests of the dashboard need chromium and npm in PATH.
  Debian           sudo apt-get update && sudo apt-get install chromium-headless-shell npm
  Ubuntu           sudo apt-get update && sudo apt-get install chromium npm
  Fedora           sudo dnf install chromium nodejs-npm
  macOS            brew install node, and Chromium as "chromium" in PATH
Trying Kue needs neither: make demo
EOF
    exit 1
fi
if ! cmp -s "$packages" .venv/npm/installed.json; then
    rm -rf .venv/npm
    mkdir -p .venv/npm
    cp "$packages" .venv/npm/package.json
    # Scripts of packages are not run: these are files to be read by a browser.
    npm install --prefix .venv/npm --ignore-scripts --no-audit --no-fund \
        --no-package-lock --silent
    cp "$packages" .venv/npm/installed.json
fi
