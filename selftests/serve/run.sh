#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs one of the tests of rlxd in the Python environment that venv.sh made.
set -eu

BUILD=${BUILD:-build}
here=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$here"
exec "$BUILD/serve-venv/bin/python" "$here/$1.py"
