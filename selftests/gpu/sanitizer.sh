#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a test program on a real device under a tool of NVIDIA's compute-sanitizer:
# memcheck (accesses), leaks (memcheck, and memory not freed), racecheck (shared memory),
# initcheck, synccheck.
#
#   selftests/gpu/sanitizer.sh TOOL NAME [TEST ...]
set -u

BUILD=${BUILD:-build}
tool=$1
name=$2
shift 2
sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
log=$BUILD/test-log/sanitizer+$tool+$name.txt
if [ ! -x "$sanitizer" ]; then
	echo "# no compute-sanitizer here: it comes with the CUDA toolkit"
	echo "not ok 1 $tool"
	echo "1..1"
	exit 1
fi
mkdir -p "$BUILD/test-log"
case $tool in
leaks)	options='memcheck --leak-check full' ;;
*)	options=$tool ;;
esac
# shellcheck disable=SC2086 # a tool and its option
RLX_TEST_TIMEOUT=900 "$sanitizer" --tool $options --target-processes all --error-exitcode 9 \
	"$BUILD/test/gpu/$name" "$@" >"$log" 2>&1
rc=$?
not=
if [ $rc != 0 ] || ! grep -q '^1\.\.' "$log" ||
   grep -q 'ERROR SUMMARY: [1-9]\|RACECHECK SUMMARY: [1-9]' "$log"; then
	not='not '
	grep -v '^ok ' "$log" | sed -n 's/^/# /; 1,60p'
fi
echo "${not}ok 1 $tool"
echo "1..1"
[ -z "$not" ]
