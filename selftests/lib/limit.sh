#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a command for at most so many seconds of a machine that has nothing else to do.
#
#   selftests/lib/limit.sh [-q SECONDS FILE] SECONDS COMMAND [ARG ...]
#   selftests/lib/limit.sh --slowness
#
# With -q also if FILE, to which the command writes, has not grown for so many: as one whose
# guest has stopped.
#
# A second in which others have the processors counts for as much of one as a program
# that only computes gets of it; that is measured anew every half minute, by one for all
# that run in $BUILD. Over the limit all of the command's process group is killed, and the
# status is 124, as timeout(1) has it. --slowness prints how many hundredths of a second one
# takes now, at least 100.
set -u

# Wall time of a computation by its processor time. Both ticks are hundredths of a second.
slowness()
{
	read -r begin _ </proc/uptime
	used=$(sh -c 'awk "BEGIN { while (i < 8000000) i++ }"; times' | tail -n 1)
	read -r end _ </proc/uptime
	echo "$begin $end $used" | awk '{
		gsub(/s/, "")
		for (i = 3; i <= 4; i++) {
			split($i, t, "m")
			cpu += 60 * t[1] + t[2]
		}
		slow = cpu > 0 ? 100 * ($2 - $1) / cpu : 100
		if (slow < 100)
			slow = 100
		printf "%d\n", slow
	}'
}

# What was measured in the last half minute, by whoever did. Who is about to says so first, by
# the value there was: several often begin at once.
recent_slowness()
{
	kept=${BUILD:-build}/test-log/slowness at=0 value=
	read -r now _ </proc/uptime
	now=${now%.*}${now#*.}
	[ ! -f "$kept" ] || read -r at value <"$kept"
	if [ -z "$value" ] || [ "$now" -lt "$at" ] || [ $((now - at)) -ge 3000 ]; then
		[ -z "$value" ] || keep_slowness
		value=$(slowness)
		keep_slowness
	fi
	echo "$value"
}

# Whole, for others read it meanwhile.
keep_slowness()
{
	[ ! -d "${kept%/*}" ] ||
		{ echo "$now $value" >"$kept.$command" && mv "$kept.$command" "$kept"; }
}

if [ "$1" = --slowness ]; then
	slowness
	exit
fi
patience=0 said=
if [ "$1" = -q ]; then
	patience=$2 said=$3
	shift 3
fi
limit=$1
shift

# In hundredths of a second, of which a slow one counts as less. Most commands end before
# it is worth to measure; of the others a few seconds more are nothing.
watch()
{
	left=$((limit * 100)) slow=100 gone=0 measure=1000 silent=0 size=
	while [ "$left" -gt 0 ] && [ "$silent" -le $((patience * 100)) ]; do
		step=100
		[ $gone -lt 1000 ] || step=500
		[ "$left" -ge $step ] || step=$left
		if [ $gone -ge $measure ]; then
			slow=$(recent_slowness)
			measure=$((gone + 3000))
		fi
		gone=$((gone + step))
		sleep "$((step / 100)).$((step % 100 / 10))$((step % 10))"
		step=$(((step * 100 + slow - 1) / slow))
		left=$((left - step))
		[ -n "$said" ] || continue
		silent=$((silent + step))
		now=$(stat -c %s "$said" 2>/dev/null)
		[ "$now" = "$size" ] || silent=0
		size=$now
	done
	: >"$over"
	kill -TERM "-$1" 2>/dev/null
	sleep 10
	kill -KILL "-$1" 2>/dev/null
}

over=$(mktemp -u) || exit 125
end()
{
	kill -KILL $watcher 2>/dev/null
	rm -f "$over"
	exit "$1"
}

# Of a group of its own, so that what it started can be ended with it.
exec 3<&0
setsid "$@" <&3 3<&- &
command=$!
watch $command 3<&- >/dev/null 2>&1 &
watcher=$!
trap 'kill -TERM -$command 2>/dev/null; end 143' TERM INT HUP
wait $command
rc=$?
[ ! -e "$over" ] || rc=124
end $rc
