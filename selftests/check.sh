#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs groups of tests, all of them whatever fails, and ends with their sum.
#
#   selftests/check.sh [-j JOBS] [-s] [-t SECONDS] MAKE GROUP ...
#
# With -j so many run at a time (1), since most keep one processor busy, or wait; they
# begin in the order they are named. What such a group says is kept in
# $BUILD/test-log/GROUP.log and printed when the group has ended. Before the sum stands how
# long each took, and how long processors did: their sum by the number of processors is the
# least that all can take, however they are put beside each other. With -s the rows of
# docs/surface.md are counted as well, by what the groups left: see tools/surface.
#
# Every ten minutes it says what runs. After SECONDS what still runs is ended, and is a
# failure of its group: whoever gives the whole a time limit learns what took it.
set -u

BUILD=${BUILD:-build}
log=$BUILD/test-log

# What a group that ended took: seconds, and seconds of processors.
note_times()
{
	times >"$log/$1.times"
	printf '%s %d %.1f\n' "$1" "$(($(date +%s) - $2))" \
		"$("$(dirname "$0")/lib/cpu.sh" "$log/$1.times")" >"$log/$1.took"
}

# What runs, a line for each group: its programs, or the last that its build said.
tell_running()
{
	for group; do
		[ -f "$log/$group.begun" ] && [ ! -f "$log/$group.took" ] || continue
		doing=
		for tap in $(find "$log/$group" -name '*.tap' -newer "$log/$group.begun"); do
			[ ! -f "${tap%.tap}.sum" ] || continue
			name=${tap#"$log/$group/"}
			quiet=$(($(date +%s) - $(stat -c %Y "$tap")))
			doing="$doing${doing:+, }${name%.tap} (silent for $quiet s)"
		done
		[ -n "$doing" ] || doing=$(tail -n 1 "$log/$group.log" 2>/dev/null)
		printf '%s: %s\n' "$group" "${doing:-nothing said}"
	done
}

# Says what runs, and ends it when the time is over.
watch()
{
	gone=0 step=600
	trap 'kill $asleep; exit' TERM
	while :; do
		[ "$limit" = 0 ] || [ $((limit - gone)) -gt $step ] || step=$((limit - gone))
		sleep $step >/dev/null &
		asleep=$!
		wait $asleep
		gone=$((gone + step))
		if [ "$gone" = "$limit" ]; then
			tell_running "$@" | sed "s/^/FAIL  not done in $limit s: /"
			kill -TERM "-$running"
			sleep 5
			kill -KILL "-$running"
			return
		fi
		tell_running "$@" | sed "s/^/-- after $gone s, /"
	done 2>/dev/null
}

run_group()
{
	group=$1
	start=$(date +%s)
	: >"$log/$group.begun"
	if [ "$jobs" = 1 ]; then
		printf '== %s\n' "$group"
		eval "$make $group"
		note_times "$group" "$start"
		return
	fi
	printf -- '-- %s begins\n' "$group"
	eval "$make $group" >"$log/$group.log" 2>&1
	note_times "$group" "$start"
	exec 9>>"$RLX_TOTALS"
	flock 9				# not into what the other one prints
	awk '{ printf "== %s (%d s, cpu %.1f s)\n", $1, $2, $3 }' "$log/$group.took"
	cat "$log/$group.log"
}

if [ "$1" = --one ]; then
	jobs=$2 make=$3
	run_group "$4"
	exit 0
fi

jobs=1 surface= limit=0
while getopts j:st: o; do
	case $o in
	j)	jobs=$OPTARG ;;
	t)	limit=$OPTARG ;;
	s)	surface=surface ;;
	*)	exit 2 ;;
	esac
done
shift $((OPTIND - 1))
make=$1
shift
mkdir -p "$log"
RLX_TOTALS=$(mktemp) || exit 1
export RLX_TOTALS
trap 'rm -f "$RLX_TOTALS" "$RLX_TOTALS.groups"' EXIT
for group; do
	rm -f "$log/$group.took" "$log/$group.begun"
done
begin=$(date +%s)
printf '%s\n' "$@" >"$RLX_TOTALS.groups"

# Of a process group of their own, so that they can be ended together.
setsid xargs -a "$RLX_TOTALS.groups" -P "$jobs" -I '{}' "$0" --one "$jobs" "$make" '{}' &
running=$!
watch "$@" &
watcher=$!
trap 'kill -TERM "-$running" $watcher; exit 143' TERM INT HUP
wait $running
kill $watcher 2>/dev/null
wait $watcher

for group; do
	[ ! -f "$log/$group.took" ] || cat "$log/$group.took"
done | awk -v wall="$(($(date +%s) - begin))" -v n="$(nproc)" '{
	printf "time: %-16s %6d s, cpu %7.1f s\n", $1, $2, $3
	cpu += $3
}
END {
	printf "time: all of it %d s, cpu %.1f s, by %d processors %d s\n", wall, cpu, n, cpu / n
}'
if [ -n "$surface" ]; then
	tools/surface "$BUILD" >"$BUILD/surface.md"
	tail -n 1 "$BUILD/surface.md" | awk '{ print "surface", $1 + 0, $3 + 0, $5 + 0 }' \
		>>"$RLX_TOTALS"
fi
printf '==\n'
# A group without a sum stopped before it could count, in its build for one.
for group in "$@" $surface; do
	grep "^$group " "$RLX_TOTALS" || printf '%s 0 1 0\n' "$group"
done | awk '{
	printf "%-16s %6d passed %5d failed %5d skipped\n", $1, $2, $3, $4
	p += $2; f += $3; s += $4
}
END {
	printf "%d passed, %d failed, %d skipped\n", p, f, s
	exit f > 0
}'
