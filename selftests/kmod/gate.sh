#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests the rig itself: what a guest does wrong must be a failure, and named.
#
#   selftests/kmod/gate.sh KERNEL
#
# Boots KERNEL with a module that does wrong on purpose (bad/) and programs that
# crash, hang or stop short, next to ones that behave, and judges run-qemu.sh's
# verdict on each. Prints TAP.
set -u

BUILD=${BUILD:-build}
here=$(cd "$(dirname "$0")" && pwd)
kernel=$1
dir=$BUILD/kmod/gate-$kernel
n=0 rc=0

if [ ! -f "$BUILD/kernels/$kernel/vmlinuz" ]; then
	echo "# SKIP no kernel $kernel"
	echo "ok 1 gate # SKIP"
	echo "1..1"
	exit 0
fi

rm -rf "$dir/t"
mkdir -p "$dir/t"
"$here/build-module.sh" -d selftests/kmod/bad -o "$dir" "$kernel" || exit 1

# program NAME SCRIPT [DECLARATION]
program()
{
	printf '#!/bin/sh\n%s\n' "$2" >"$dir/t/$1"
	chmod +x "$dir/t/$1"
	echo "${3-}" >"$dir/t/$1.rig"
	list="$list $dir/t/$1"
}

fine='echo "ok 1 x"; echo 1..1'

bad() { program "$1" "$fine" "params=how=$1"; }

boot()
{
	# shellcheck disable=SC2086 # file names without spaces
	"$here/run-qemu.sh" -k "$kernel" -o "$dir/rlx_bad.ko" -t 240 \
		-n "gate-$kernel-$1" $list >"$dir/$1.tap" 2>&1 </dev/null
	echo "status $?" >>"$dir/$1.tap"
	out=$dir/$1.tap
	list=''
}

# expect NAME 'VERDICT' ['TEXT']: the line is there, after a note with TEXT
expect()
{
	n=$((n + 1))
	if awk -v want="$2" -v text="${3-}" '
		/^#/ { note = note $0 "\n"; next }
		{
			line = $0
			sub(/ok [0-9]+ /, "ok ", line)
			if (line == want && (text == "" || note ~ text))
				hit = 1
			note = ""
		}
		END { exit !hit }' "$out"
	then
		echo "ok $n $1"
	else
		echo "# wanted: $2 ${3:+with $3}; see $out"
		echo "not ok $n $1"
		rc=1
	fi
}

list=''
program good 'echo "ok 1 x"; echo "ok 2 y"; echo 1..2'
program fails 'echo "ok 1 x"; echo "not ok 2 y"; echo 1..2; exit 1'
program crash 'echo "ok 1 x"; kill -SEGV $$'
program short 'echo "ok 1 x"; echo 1..2'
program status 'echo "ok 1 x"; echo 1..1; exit 3'
program hang 'echo "ok 1 x"; sleep 1000' timeout=1
program user 'id -u; id -G; echo "ok 1 x"; echo 1..1' uid=1000
program child 'echo "ok 1 x"; sleep 500 & echo 1..1'
for how in warn pages refcount counter; do
	bad $how
done
if [ "$kernel" = debug ]; then
	for how in order sleep slab; do
		bad $how
	done
fi
# Last, for what these do stays done.
bad uaf
bad reference
boot soft

expect good 'ok good/y'
expect good-is-clean 'ok good/clean'
expect failure 'not ok fails/y'
expect failure-is-clean 'ok fails/clean'
expect crash 'not ok crash/clean' 'status 139'
expect short-plan 'not ok short/clean' 'planned 2 tests, ran 1'
expect status-alone 'not ok status/clean' 'status 3'
expect hang 'not ok hang/clean' 'timeout hang'
expect user-ids 'ok user/x' '# 1000\n.*1000 105'
expect warning 'not ok warn/clean' 'WARNING:'
expect refcount 'not ok refcount/clean' 'refcount_t'
expect counter 'not ok counter/clean' 'nr_things is 1'
expect child-is-killed 'ok child/clean'
expect held-module 'not ok reference/clean' 'rmmod'
expect guest-ended 'ok guest/end'
expect exit-status 'status 1'
if [ "$kernel" = debug ]; then
	expect page-leak 'not ok pages/clean' 'pages: .*bad_pages'
	expect use-after-free 'not ok uaf/clean' KASAN
	expect lock-order 'not ok order/clean' 'possible circular'
	expect sleeping 'not ok sleep/clean' 'sleeping function'
	expect slab-leak 'not ok guest/kmemleak' 'unreferenced object'
else
	expect page-leak 'not ok pages/clean' 'KiB of pages did not come back'
	expect use-after-free 'not ok uaf/clean' 'BUG kmalloc'
fi

if [ "$kernel" = debug ]; then
	echo "1..$n"
	exit $rc
fi

list=''
program good "$fine"
bad oops
program after "$fine"
boot oops
expect before-oops 'ok good/clean'
expect oops 'not ok oops/clean' 'NULL pointer|null-ptr'
expect after-oops 'not ok after/clean' 'never ran'
expect no-end 'not ok guest/end'
expect oops-status 'status 1'

echo "1..$n"
exit $rc
