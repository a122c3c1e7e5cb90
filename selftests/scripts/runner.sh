#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests selftests/run.sh itself: what it must count as passed, failed or skipped.
set -u

here=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/self/expect" "$tmp/build/test/t"
cp "$here/run.sh" "$here/tap.awk" "$tmp/self/"
cat >"$tmp/self/expect/t.txt" <<'EOF'
skip t/*:away no such thing*
broken t/x:bad-* known
unsupported t/x:never never will
EOF
n=0 rc=0

# expect NAME "SUM LINE" <program text: the run's last line must be the sum
expect()
{
	n=$((n + 1))
	{ echo '#!/bin/sh'; cat; } >"$tmp/build/test/t/x"
	chmod +x "$tmp/build/test/t/x"
	got=$(BUILD=$tmp/build RLX_TOTALS='' "$tmp/self/run.sh" -t 2 \
		"$tmp/build/test/t/x" | tail -n 1)
	if [ "$got" = "$2" ]; then
		echo "ok $n $1"
	else
		echo "# got '$got', not '$2'"
		echo "not ok $n $1"
		rc=1
	fi
}

expect pass "2 passed, 0 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo "ok 2 b"; echo 1..2
EOF
expect failure "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo "not ok 2 b"; echo 1..2; exit 1
EOF
expect listed-skip "1 passed, 0 failed, 1 skipped" <<'EOF'
echo "ok 1 a"; echo "# SKIP no such thing here"; echo "ok 2 away # SKIP"; echo 1..2
EOF
expect unlisted-reason "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo "# SKIP too lazy"; echo "ok 2 away # SKIP"; echo 1..2
EOF
expect unlisted-skip "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo "ok 2 other # SKIP no such thing"; echo 1..2
EOF
expect known-failures "1 passed, 0 failed, 2 skipped" <<'EOF'
echo "ok 1 a"; echo "not ok 2 bad-1"; echo "not ok 3 never"; echo 1..3; exit 1
EOF
expect mended-but-listed "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo "ok 2 bad-1"; echo 1..2
EOF
expect crash "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; kill -SEGV $$
EOF
expect short-plan "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo 1..2
EOF
expect status-alone "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; echo 1..1; exit 3
EOF
expect no-tests "0 passed, 1 failed, 0 skipped" <<'EOF'
echo 1..0
EOF
expect too-slow "1 passed, 1 failed, 0 skipped" <<'EOF'
echo "ok 1 a"; sleep 20
EOF
echo "1..$n"
exit $rc
