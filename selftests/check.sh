#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs groups of tests, all of them whatever fails, and ends with their sum.
#
#   selftests/check.sh [-j JOBS] MAKE GROUP ...
#
# With -j so many run at a time (1), since most keep one processor busy, or wait; they
# begin in the order they are named. What such a group says is kept in
# $BUILD/test-log/GROUP.log and printed when the group has ended.
set -u

BUILD=${BUILD:-build}
log=$BUILD/test-log

run_group()
{
	group=$1
	if [ "$jobs" = 1 ]; then
		printf '== %s\n' "$group"
		eval "$make $group"
		return
	fi
	printf -- '-- %s begins\n' "$group"
	start=$(date +%s)
	eval "$make $group" >"$log/$group.log" 2>&1
	exec 9>>"$RLX_TOTALS"
	flock 9				# not into what the other one prints
	printf '== %s (%d s)\n' "$group" "$(($(date +%s) - start))"
	cat "$log/$group.log"
}

if [ "$1" = --one ]; then
	jobs=$2 make=$3
	run_group "$4"
	exit 0
fi

jobs=1
while getopts j: o; do
	case $o in
	j)	jobs=$OPTARG ;;
	*)	exit 2 ;;
	esac
done
shift $((OPTIND - 1))
make=$1
shift
mkdir -p "$log"
RLX_TOTALS=$(mktemp) || exit 1
export RLX_TOTALS
trap 'rm -f "$RLX_TOTALS"' EXIT
printf '%s\n' "$@" | xargs -P "$jobs" -I '{}' "$0" --one "$jobs" "$make" '{}'

printf '==\n'
# A group without a sum stopped before it could count, in its build for one.
for group; do
	grep "^$group " "$RLX_TOTALS" || printf '%s 0 1 0\n' "$group"
done | awk '{
	printf "%-16s %6d passed %5d failed %5d skipped\n", $1, $2, $3, $4
	p += $2; f += $3; s += $4
}
END {
	printf "%d passed, %d failed, %d skipped\n", p, f, s
	exit f > 0
}'
