#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes $BUILD/serve-venv with the packages of requirements.txt, and the small model
# that the tests serve beside MiniLM. With both there it does nothing.
set -eu

BUILD=${BUILD:-build}
here=$(dirname "$0")
venv=$BUILD/serve-venv

die()
{
	printf 'venv: %s\n' "$1" >&2
	exit 1
}

# Groups of tests that run at once take turns.
mkdir -p "$BUILD"
exec 9>"$venv.lock"
flock 9
if ! cmp -s "$here/requirements.txt" "$venv/made-of"; then
	printf '  VENV    %s\n' "$venv"
	rm -rf "$venv"
	python3 -m venv "$venv" ||
		die "python3 -m venv failed; 'tools/setup.sh serve' installs what it needs"
	"$venv/bin/python" -m pip -q --disable-pip-version-check --no-input install \
		-r "$here/requirements.txt" >"$BUILD/serve-venv.log" 2>&1 || {
		tail -n 3 "$BUILD/serve-venv.log" | cut -c 1-300 >&2
		die "the packages of $here/requirements.txt could not be installed; connect
     once and run this again (the log is $BUILD/serve-venv.log)"
	}
	cp "$here/requirements.txt" "$venv/made-of"
fi
if [ ! -f "$BUILD/serve/relu.onnx" ] || [ "$here/vision.py" -nt "$BUILD/serve/relu.onnx" ]
then
	"$venv/bin/python" "$here/vision.py" "$BUILD/serve"
fi
