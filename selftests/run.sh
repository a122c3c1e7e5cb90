#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs test programs that print TAP, and ends with "N passed, N failed, N skipped".
#
#   selftests/run.sh [-g GROUP] [-j JOBS] [-t SECONDS] 'PROGRAM [ARG ...]' ...
#
# SECONDS are those of a machine with nothing else to do, as lib/limit.sh counts them.
# A test is known as PROGRAM:TEST, PROGRAM being the path below $BUILD/test. The
# files of selftests/expect/ say what need not pass, with reasons; see README
# there. Output is kept in $BUILD/test-log/GROUP/, for groups that run at once have
# programs in common. The exit status is 1 if one failed.
set -u

BUILD=${BUILD:-build}
here=$(dirname "$0")
jobs=1 limit=1200 group=

# Runs one program; leaves NAME.tap and NAME.sum, prints its line and failures.
run_one()
{
	cmd=$1
	name=$(printf '%s' "${cmd#"$BUILD"/test/}" | tr ' ' '+')
	tap=$log/$name.tap
	mkdir -p "$(dirname "$tap")"
	start=$(date +%s.%N)
	# shellcheck disable=SC2086 # a command line
	"$here/lib/limit.sh" "$limit" $cmd >"$tap" 2>&1 </dev/null
	rc=$?
	times >"$tap.times"
	# shellcheck disable=SC2086 # file names without spaces
	awk -v prog="$name" -v rc="$rc" -v start="$start" \
	    -v cpu="$("$here/lib/cpu.sh" "$tap.times")" \
	    -v now="$(date +%s.%N)" -v sum="$log/$name.sum" \
	    -f "$here/tap.awk" "$here"/expect/*.txt "$tap"
}

if [ "${1-}" = --one ]; then
	limit=$2 log=$3
	run_one "$4"
	exit 0
fi

while getopts g:j:t: o; do
	case $o in
	g)	group=$OPTARG ;;
	j)	jobs=$OPTARG ;;
	t)	limit=$OPTARG ;;
	*)	exit 2 ;;
	esac
done
shift $((OPTIND - 1))

log=$BUILD/test-log${group:+/$group}
mkdir -p "$log"
for cmd; do
	rm -f "$log/$(printf '%s' "${cmd#"$BUILD"/test/}" | tr ' ' '+').sum"
done
export BUILD
[ $# = 0 ] || printf '%s\n' "$@" |
	xargs -d '\n' -P "$jobs" -I '{}' "$0" --one "$limit" "$log" '{}'

# A program whose .sum is missing could not even be reported on: a failure.
passed=0 failed=0 skipped=0
for cmd; do
	f=$log/$(printf '%s' "${cmd#"$BUILD"/test/}" | tr ' ' '+').sum
	if [ -f "$f" ] && read -r p b s <"$f"; then
		passed=$((passed + p)) failed=$((failed + b))
		skipped=$((skipped + s))
	else
		printf 'FAIL  %s: no result\n' "$cmd"
		failed=$((failed + 1))
	fi
done
# What a machine lacks may be all that a group needs: each reason is listed.
if [ $((passed + failed + skipped)) = 0 ]; then
	printf 'FAIL  %s: nothing ran\n' "${group:-run.sh}"
	failed=1
fi
[ -z "${RLX_TOTALS-}" ] || printf '%s %s %s %s\n' "${group:-other}" \
	"$passed" "$failed" "$skipped" >>"$RLX_TOTALS"
printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
