#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes $BUILD/serve-venv with the packages of requirements.txt, and the small model
# that the tests serve beside MiniLM. With both there it does nothing.
set -eu

BUILD=${BUILD:-build}
here=$(dirname "$0")
venv=$BUILD/serve-venv

"$here/../lib/venv.sh" "$venv" "$here/requirements.txt"
exec 9>"$venv.lock"
flock 9
if [ ! -f "$BUILD/serve/relu.onnx" ] || [ "$here/vision.py" -nt "$BUILD/serve/relu.onnx" ]
then
	"$venv/bin/python" "$here/vision.py" "$BUILD/serve"
fi
