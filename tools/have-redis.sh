#!/usr/bin/env bash
# Make sure that redis-server 7 or newer is in PATH: the tests start one of their own.
set -euo pipefail

wanted=7

is_fit() {
    local version
    version=$(redis-server --version 2>/dev/null | sed -nE 's/.* v=([0-9]+).*/\1/p')
    [[ -n $version && $version -ge $wanted ]]
}

if is_fit; then
    exit 0
fi
if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends redis-server >/dev/null
fi
if ! is_fit; then
    cat >&2 <<EOF
The tests need redis-server $wanted or newer in PATH; they start their own and leave any
other alone.
  Debian, Ubuntu   sudo apt-get update && sudo apt-get install redis-server
  Fedora           sudo dnf install redis      (41 and newer: valkey-compat-redis)
  macOS            brew install redis
Trying Kue needs none: make demo
EOF
    exit 1
fi
