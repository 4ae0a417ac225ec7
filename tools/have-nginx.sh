#!/usr/bin/env bash
# Make sure that nginx is there: the tests put one of their own before the dashboard.
set -euo pipefail

# Debian has it in a folder that only root has in PATH.
export PATH="$PATH:/usr/sbin"

if ! command -v nginx >/dev/null && [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends nginx >/dev/null
fi
if ! command -v nginx >/dev/null; then
    cat >&2 <<EOF
The tests need nginx in PATH or /usr/sbin; they start their own and leave any other alone.
  Debian, Ubuntu   sudo apt-get update && sudo apt-get install nginx
  Fedora           sudo dnf install nginx
  macOS            brew install nginx
Trying Kue needs none: make demo
EOF
    exit 1
fi
