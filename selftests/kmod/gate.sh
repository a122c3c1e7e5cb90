#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests the rig itself: what a guest does wrong must be a failure, and named.
#
#   selftests/kmod/gate.sh KERNEL
#
# Boots KERNEL with a module that does wrong on purpose (bad/) and programs that
# crash, hang or stop short, next to ones that behave, and judges run-qemu.sh's
# verdict on each. Prints TAP.
cd "$(dirname "$0")/../.." || exit 1
# shellcheck disable=SC1091 # it sets BUILD, CC, tmp, n, rc
. selftests/lib/tap.sh
kernel=$1
dir=$BUILD/kmod/gate-$kernel

need "$BUILD/kernels/$kernel/vmlinuz" gate "no kernel $kernel"
rm -rf "$dir/t"
mkdir -p "$dir/t"
selftests/kmod/build-module.sh -d selftests/kmod/bad -o "$dir" "$kernel" || exit 1

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

# Of memory, what a kernel that poisons all it has at its boot is done with soon.
boot()
{
	# shellcheck disable=SC2086 # file names without spaces
	selftests/kmod/run-qemu.sh -k "$kernel" -o "$dir/rlx_bad.ko" -t 600 -m 768 \
		-S "${silent:-240}" -n "gate-$kernel-$1" $list >"$dir/$1.tap" 2>&1 </dev/null
	echo "status $?" >>"$dir/$1.tap"
	out=$dir/$1.tap
	list=''
}

# says 'VERDICT' ['TEXT']: the line is there, after a note with TEXT
says()
{
	awk -v want="$1" -v text="${2-}" '
		/^#/ { note = note $0 "\n"; next }
		{
			line = $0
			sub(/ok [0-9]+ /, "ok ", line)
			if (line == want && (text == "" || note ~ text))
				hit = 1
			note = ""
		}
		END { exit !hit }' "$out" ||
		fail "wanted: $1 ${2:+with $2}; see $out"
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
[ "$kernel" != kcsan ] || bad race
# Last, for what these do stays done.
[ "$kernel" = kcsan ] || bad uaf
bad reference
boot soft

check good says 'ok good/y'
check good-is-clean says 'ok good/clean'
check failure says 'not ok fails/y'
check failure-is-clean says 'ok fails/clean'
check crash says 'not ok crash/clean' 'status 139'
check short-plan says 'not ok short/clean' 'planned 2 tests, ran 1'
check status-alone says 'not ok status/clean' 'status 3'
check hang says 'not ok hang/clean' 'timeout hang'
check user-ids says 'ok user/x' '# 1000\n.*1000 105'
check warning says 'not ok warn/clean' 'WARNING:'
check refcount says 'not ok refcount/clean' 'refcount_t'
check counter says 'not ok counter/clean' 'nr_things is 1'
check child-is-killed says 'ok child/clean'
check held-module says 'not ok reference/clean' 'rmmod'
check guest-ended says 'ok guest/end'
check exit-status says 'status 1'
if [ "$kernel" = debug ]; then
	check page-leak says 'not ok pages/clean' 'pages: .*bad_pages'
	check use-after-free says 'not ok uaf/clean' KASAN
	check lock-order says 'not ok order/clean' 'possible circular'
	check sleeping says 'not ok sleep/clean' 'sleeping function'
	check slab-leak says 'not ok guest/kmemleak' 'unreferenced object'
elif [ "$kernel" = kcsan ]; then
	check data-race says 'not ok race/clean' 'BUG: KCSAN: data-race'
else
	check page-leak says 'not ok pages/clean' 'KiB of pages did not come back'
	check use-after-free says 'not ok uaf/clean' 'BUG kmalloc'
fi

case $kernel in
debug|kcsan)	finish ;;
esac

list=''
program good "$fine"
bad oops
program after "$fine"
boot oops
check before-oops says 'ok good/clean'
check oops says 'not ok oops/clean' 'NULL pointer|null-ptr'
check after-oops says 'not ok after/clean' 'never ran'
check no-end says 'not ok guest/end'
check oops-status says 'status 1'

# A guest that stops altogether: its first process does not run.
list='' group=/sys/fs/cgroup/still
program still "mkdir $group; echo 1 >$group/cgroup.procs; echo 1 >$group/cgroup.freeze; $fine"
silent=30
boot still
check still-in-time says 'not ok still/clean' 'the guest stopped'
check still-no-end says 'not ok guest/end' 'silent'

finish
