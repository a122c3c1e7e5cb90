#!/bin/sh
# SPDX-License-Identifier: MIT
# TAP for tests that are shell scripts. To be sourced in the repository's root:
# sets BUILD and CC, tmp (a folder that goes with the script), n and rc.
set -u

BUILD=${BUILD:-build} CC=${CC:-gcc}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
n=0 rc=0

# check NAME COMMAND ...: passes if the command does; its output is kept on failure
check()
{
	n=$((n + 1)) name=$1
	shift
	if "$@" >"$tmp/out" 2>&1; then
		echo "ok $n $name"
	else
		sed 's/^/# /' "$tmp/out" | tail -n 40
		echo "not ok $n $name"
		rc=1
	fi
}

# skip NAME REASON
skip()
{
	n=$((n + 1))
	echo "ok $n $1 # SKIP $2"
}

# need FILE NAME REASON: without the file all of the script is skipped, as NAME
need()
{
	[ -f "$1" ] && return
	skip "$2" "$3"
	finish
}

# For the end of a command that check runs.
fail() { echo "$*"; return 1; }

finish()
{
	echo "1..$n"
	exit $rc
}

# run_cases SCRIPT FOLDER <LINES: has "SCRIPT --case LINE FOLDER/NNN" run for each
# line, some at a time, and prints what each left in its tap: "ok N NAME" and notes.
run_cases()
{
	mkdir -p "$2"
	cases=$(cd "$2" && pwd)
	cat >"$cases/list"
	i=0
	while read -r line; do
		i=$((i + 1))
		rm -rf "$(printf '%s/%03d' "$cases" $i)"
		printf '%s\0%s/%03d\0' "$line" "$cases" $i
	done <"$cases/list" | xargs -0 -n 2 -P "${JOBS:-2}" "$1" --case
	i=0
	while read -r line; do
		n=$((n + 1)) i=$((i + 1))
		tap=$(printf '%s/%03d/tap' "$cases" $i)
		[ -f "$tap" ] || {
			mkdir -p "${tap%/*}"
			echo "not ok N no verdict on: $line" >"$tap"
		}
		sed "s/^\(ok\|not ok\) N /\1 $n /" "$tap"
		! grep -q '^not ok' "$tap" || rc=1
	done <"$cases/list"
}
