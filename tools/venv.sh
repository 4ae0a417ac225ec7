#!/usr/bin/env bash
# venv.sh FILE: make .venv if there is none, install the pins of FILE and this package.
# PYTHON=/path/to/python picks another interpreter than the first that is new enough.
set -euo pipefail
cd "$(dirname "$0")/.."

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    cat >&2 <<EOF
Kue needs Python 3.11 or newer, and ${PYTHON:-python3} is older or missing.
  Debian 12, Ubuntu 24.04 or newer   sudo apt-get install python3 python3-venv
  Fedora                             sudo dnf install python3
  macOS                              brew install python
Or name one: make setup PYTHON=/path/to/python3.11
EOF
    return 1
}

# Debian keeps ensurepip, without which there is no venv, in a package of its own.
need_ensurepip() {
    local python=$1 package
    "$python" -c 'import ensurepip' 2>/dev/null && return
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends "$package" >/dev/null
    else
        echo "Python's venv is missing: sudo apt-get install $package" >&2
        return 1
    fi
}

if [[ ! -x .venv/bin/python ]]; then
    python=$(find_python)
    need_ensurepip "$python"
    "$python" -m venv .venv
fi
install() {
    .venv/bin/python -m pip install -qq --disable-pip-version-check "$@"
}
# The pins are complete.  Without --no-deps pip would resolve them again, and fail as soon
# as a package that another one asks for with an extra has a newer release.
install --no-deps --require-hashes --requirement "$1"
# The build tool is among the pins, so that nothing unpinned is fetched to build with.
install --no-deps --no-build-isolation --editable .
# As pip does with what it does not link: else every process that tests start compiles
# it again where Python is not to write bytecode.
.venv/bin/python -m compileall -q src
