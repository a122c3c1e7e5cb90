#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs benchmarks one after another, prints their tables, and ends with the plain
# line "N passed, N failed, N skipped": a benchmark passes if it ran to its end.
set -u

passed=0 failed=0
for cmd; do
	printf '== %s\n' "$cmd"
	# shellcheck disable=SC2086 # a command line
	if $cmd; then
		passed=$((passed + 1))
	else
		echo "FAIL  $cmd: status $?"
		failed=$((failed + 1))
	fi
done
printf '%s passed, %s failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
