#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs groups of tests, all of them whatever fails, and ends with their sum.
#
#   selftests/check.sh MAKE GROUP ...
set -u

BUILD=${BUILD:-build}
make=$1
shift
mkdir -p "$BUILD"
RLX_TOTALS=$(mktemp) || exit 1
export RLX_TOTALS
trap 'rm -f "$RLX_TOTALS"' EXIT

for group; do
	printf '== %s\n' "$group"
	eval "$make $group"
	# A group that stopped before it could count, in its build for one.
	grep -q "^$group " "$RLX_TOTALS" ||
		printf '%s 0 1 0\n' "$group" >>"$RLX_TOTALS"
done

printf '==\n'
awk '{
	printf "%-16s %6d passed %5d failed %5d skipped\n", $1, $2, $3, $4
	p += $2; f += $3; s += $4
}
END {
	printf "%d passed, %d failed, %d skipped\n", p, f, s
	exit f > 0
}' "$RLX_TOTALS"
