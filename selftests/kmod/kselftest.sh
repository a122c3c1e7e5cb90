#!/bin/sh
# SPDX-License-Identifier: MIT
# The programs of t/ as a collection of the kernel's selftests.
#
#   selftests/kmod/kselftest.sh install DIR PROGRAM ...   writes DIR/kselftest-list.txt, DIR/rlx/
#   selftests/kmod/kselftest.sh check PROGRAM ...         tries that, and prints TAP
#
# What a guest is arranged for by its rig (kernels, memory, nodes, parameters, users, control
# groups) is left out: such a program would fail elsewhere for want of that.
set -u

# fits PROGRAM: it needs no more of its rig than time and modules
fits()
{
	! grep -qE '(^| )(own|(kernels|memory|nodes|params|append|uid)=)' "$1.rig" &&
	! grep -qE 'k_cgroup|cgroup\.h' "selftests/kmod/t/$(basename "$1" .32).c"
}

# install DIR PROGRAM ...
install_in()
{
	dir=$1 longest=60
	shift
	rm -rf "$dir/rlx" && mkdir -p "$dir/rlx" && : >"$dir/kselftest-list.txt" || return
	for p; do
		fits "$p" || continue
		cp "$p" "$dir/rlx/" || return
		echo "rlx:$(basename "$p")" >>"$dir/kselftest-list.txt"
		t=$(tr ' ' '\n' <"$p.rig" | sed -n 's/^timeout=//p')
		[ "${t:-0}" -le "$longest" ] || longest=$t
	done
	echo "timeout=$longest" >"$dir/rlx/settings"
	cat >"$dir/rlx/config" <<-END
		CONFIG_MODULES=y
		CONFIG_IO_URING=y
		CONFIG_MEMFD_CREATE=y
		CONFIG_HUGETLBFS=y
		CONFIG_DMA_SHARED_BUFFER=y
		CONFIG_SYNC_FILE=y
		CONFIG_DRM_VGEM=m
		CONFIG_BLK_DEV_RAM=m
	END
}

if [ "$1" = install ]; then
	shift
	install_in "$@" || exit
	echo "$1: add its list to kselftest-list.txt where the kernel's selftests are installed"
	echo "and rlx/ beside it, load rlx.ko, and run: ./run_kselftest.sh -c rlx"
	exit
fi
shift

# shellcheck disable=SC1091 # it sets BUILD, tmp, n, rc
. selftests/lib/tap.sh
dir=$tmp/installed

# What its runner reads: COLLECTION:TEST, and the test a program in that folder.
list_is_whole()
{
	install_in "$dir" "$@" && [ -s "$dir/kselftest-list.txt" ] &&
	! grep -vE '^rlx:[A-Za-z0-9_.-]+$' "$dir/kselftest-list.txt" || return
	while IFS=: read -r in prog; do
		[ -x "$dir/$in/$prog" ] || { echo "$in/$prog is no program"; return 1; }
	done <"$dir/kselftest-list.txt"
	[ "$(find "$dir/rlx" -type f | wc -l)" = \
	  $(($(wc -l <"$dir/kselftest-list.txt") + 2)) ] &&
	grep -qE '^timeout=[1-9][0-9]+$' "$dir/rlx/settings"
}

# KTAP of one program: version, plan, as many results, and a status that agrees.
speaks_ktap()
{
	(cd "$dir/rlx" && RLX_TEST_TIMEOUT=30 ./timeline >"$tmp/ktap")
	status=$?
	cat "$tmp/ktap"
	awk -v status=$status '
	NR == 1	{ bad += $0 != "KTAP version 1" }
	NR == 2	{ bad += !/^1\.\.[1-9][0-9]*$/; plan = substr($0, 4) + 0 }
	/^(not )?ok / {
		bad += $($1 == "not" ? 3 : 2) != ++n
		failed += $1 == "not"
		skipped += / # SKIP/
	}
	END {
		want = failed ? 1 : skipped == n ? 4 : 0
		if (bad || n != plan || status != want)
			print "# " bad " bad lines, " n " of " plan ", status " status
		exit bad || n != plan || status != want
	}' "$tmp/ktap"
}

check list-is-whole list_is_whole "$@"
check speaks-ktap speaks_ktap
finish
