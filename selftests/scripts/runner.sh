#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests selftests/run.sh itself: what it must count as passed, failed or skipped; and
# selftests/check.sh, which runs groups of tests at once.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
mkdir -p "$tmp/self/expect" "$tmp/self/lib" "$tmp/build/test/t"
cp selftests/run.sh selftests/tap.awk "$tmp/self/"
cp selftests/lib/cpu.sh selftests/lib/limit.sh "$tmp/self/lib/"
cat >"$tmp/self/expect/t.txt" <<'EOF'
skip t/*:away no such thing*
broken t/x:bad-* known
unsupported t/x:never never will
EOF

# sum_is "SUM LINE" <program text: the run's last line must be the sum
sum_is()
{
	{ echo '#!/bin/sh'; cat; } >"$tmp/build/test/t/x"
	chmod +x "$tmp/build/test/t/x"
	got=$(BUILD=$tmp/build RLX_TOTALS='' "$tmp/self/run.sh" -t 5 \
		"$tmp/build/test/t/x" | tail -n 1)
	[ "$got" = "$1" ] || fail "got '$got', not '$1'"
}

check pass sum_is "2 passed, 0 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo "ok 2 b"; echo 1..2
EOF
check failure sum_is "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo "not ok 2 b"; echo 1..2; exit 1
EOF
check listed-skip sum_is "1 passed, 0 failed, 1 skipped" <<'EOF'
echo "ok 1 a"; echo "# SKIP no such thing here"; echo "ok 2 away # SKIP"; echo 1..2
EOF
check nothing-but-skips sum_is "0 passed, 0 failed, 1 skipped" <<'EOF'
echo "# SKIP no such thing here"; echo "ok 1 away # SKIP"; echo 1..1
EOF
check unlisted-reason sum_is "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo "# SKIP too lazy"; echo "ok 2 away # SKIP"; echo 1..2
EOF
check unlisted-skip sum_is "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo "ok 2 other # SKIP no such thing"; echo 1..2
EOF
check known-failures sum_is "1 passed, 0 failed, 2 skipped" <<'EOF'
echo "ok 1 a"; echo "not ok 2 bad-1"; echo "not ok 3 never"; echo 1..3; exit 1
EOF
check mended-but-listed sum_is "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo "ok 2 bad-1"; echo 1..2
EOF
check crash sum_is "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; kill -SEGV $$
EOF
check short-plan sum_is "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo 1..2
EOF
check status-alone sum_is "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo 1..1; exit 3
EOF
check no-tests sum_is "0 passed, 1 failed, 0 skipped" <<'EOF'
echo 1..0
EOF
check too-slow sum_is "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; sleep 20
EOF

# One that writes to its file goes on, one that does not is ended.
silence_ends()
{
	limit="selftests/lib/limit.sh -q 3 $tmp/grows"
	# shellcheck disable=SC2086 # words
	$limit 60 sh -c "for i in 1 2 3 4 5 6; do echo >>$tmp/grows; sleep 1; done" || return 1
	# shellcheck disable=SC2086 # words
	$limit 60 sh -c "echo >>$tmp/grows; sleep 50"
	[ $? = 124 ]
}
check silence silence_ends

# How slow the machine is now need not be measured where somebody just did.
measured_once()
{
	mkdir -p "$tmp/bin" "$tmp/once/test-log"
	printf '#!/bin/sh\necho >>"%s/measured"\nexec "%s" "$@"\n' "$tmp" "$(command -v awk)" \
		>"$tmp/bin/awk"
	chmod +x "$tmp/bin/awk"
	: >"$tmp/measured"
	echo "$(sed 's/\.//; s/ .*//' /proc/uptime) 100" >"$tmp/once/test-log/slowness"
	BUILD=$tmp/once PATH=$tmp/bin:$PATH selftests/lib/limit.sh 600 sleep 18
	[ ! -s "$tmp/measured" ] || fail "measured again" || return
	# Nor is an old value taken for one of now.
	echo "1 100" >"$tmp/once/test-log/slowness"
	BUILD=$tmp/once PATH=$tmp/bin:$PATH selftests/lib/limit.sh 600 sleep 18
	[ -s "$tmp/measured" ] || fail "not measured"
}
check measured-once measured_once

# What is "make" for groups: "meet" and "wait" end only once both have begun, "broken"
# before it can count.
cat >"$tmp/make" <<'EOF'
#!/bin/sh
: >"$dir/$1"
i=0
case $1 in
meet)	other=wait ;;
wait)	other=meet ;;
broken)	echo "no rule"; exit 2 ;;
stuck)	echo "fetching"; sleep 60 & echo $! >"$dir/sleeper"; wait ;;
*)	other=$1 ;;
esac
until [ -f "$dir/$other" ]; do
	i=$((i + 1))
	[ $i -lt 200 ] || { echo "alone"; exit 1; }
	sleep 0.1
done
echo "begin of $1"
sleep 0.1
awk 'BEGIN { while (i < 10000000) i++ }'
echo "end of $1"
echo "$1 3 0 1" >>"$RLX_TOTALS"
EOF
chmod +x "$tmp/make"

# groups_end STATUS LAST GROUP ...: check.sh's status and last line for them
groups_end()
{
	want=$1 last=$2
	shift 2
	rm -rf "$tmp/ran" && mkdir "$tmp/ran"
	BUILD=$tmp/build dir=$tmp/ran selftests/check.sh -j "$jobs" -t "${limit:-300}" \
		"$tmp/make" "$@" \
		>"$tmp/said" 2>&1
	got=$?
	cat "$tmp/said"
	[ $got = "$want" ] && [ "$(tail -n 1 "$tmp/said")" = "$last" ]
}

# Each group's lines stand together, after its name.
in_turn()
{
	for g in meet wait; do
		grep -A 2 "^== $g " "$tmp/said" | tail -n 2
	done >"$tmp/turn"
	cat "$tmp/said"
	printf '%s\n' 'begin of meet' 'end of meet' 'begin of wait' 'end of wait' |
		cmp - "$tmp/turn"
}

# The sums are in the order that the groups were named in.
in_order()
{
	sed -n '/^==$/,$s/^\([a-z]*\)  .*/\1/p' "$tmp/said" >"$tmp/order"
	cat "$tmp/said"
	printf '%s\n' wait first meet | cmp - "$tmp/order"
}

# What each took is told, and what all did of the processors: each computes for a while.
times_are_told()
{
	cat "$tmp/said"
	grep '^time: ' "$tmp/said" | awk '
		$2 == "all" { all = $8 + 0; next }
		{ n++; cpu += $6 }
		END { exit !(n == 3 && cpu > 0.1 && all > cpu - 0.1 && all < cpu + 0.1) }'
}

jobs=2
check groups-at-once groups_end 0 "9 passed, 0 failed, 3 skipped" wait first meet
check groups-in-turn in_turn
check groups-in-order in_order
check groups-and-times times_are_told
check broken-group groups_end 1 "3 passed, 1 failed, 1 skipped" broken first

# What never ends is told by name, and nothing of it is left.
ended_in_time()
{
	limit=4 groups_end 1 "3 passed, 1 failed, 1 skipped" stuck first &&
		grep -q '^FAIL  not done in 4 s: stuck: fetching$' "$tmp/said" &&
		! grep -q '^State:.[^ZX]' "/proc/$(cat "$tmp/ran/sleeper")/status" 2>/dev/null
}

check stuck-group ended_in_time
jobs=1
check one-by-one groups_end 1 "3 passed, 1 failed, 1 skipped" broken first
finish
