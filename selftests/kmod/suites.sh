#!/bin/sh
# SPDX-License-Identifier: MIT
# Divides the guest programs among boots of one kernel.
#
#   selftests/kmod/suites.sh [-a] KERNEL PROGRAM ...
#
# -a: only those that say "also", and not as 32-bit programs, for kernels beside those
# that run everything.
# Writes $BUILD/test/kmod/guest-KERNEL, which runs in one boot all programs that
# KERNEL suits and that share, and guest-KERNEL-NAME for each that says "own".
# KUnit modules ($BUILD/kmod/KERNEL/kunit/*.ko) go with the first. Prints the names.
set -u

BUILD=${BUILD:-build}
also=
[ "$1" != -a ] || { also=1; shift; }
kernel=$1
shift
dir=$BUILD/test/kmod
first=$dir/guest-$kernel

# has FILE WORD: the declaration holds the word
has() { [ -f "$1" ] && tr ' ' '\n' <"$1" | grep -qxF "$2"; }

# Does the program want this kernel?
suits()
{
	if [ -n "$also" ]; then
		case $1 in *.32) return 1 ;; esac
		has "$1.rig" also || return
	fi
	kernels=$(tr ' ' '\n' <"$1.rig" 2>/dev/null | sed -n 's/^kernels=//p')
	case ",${kernels:-$kernel}," in
	*,"$kernel",*)	return 0 ;;
	esac
	return 1
}

# write FILE OPTIONS PROGRAMS
write()
{
	cat >"$1.new" <<END
#!/bin/sh
. selftests/lib/tap.sh
need $BUILD/kernels/$kernel/vmlinuz boot "no kernel $kernel"
selftests/kmod/run-qemu.sh -k $kernel -n $(basename "$1") $2 $3
END
	chmod +x "$1.new"
	mv "$1.new" "$1"
	echo "$1"
}

mkdir -p "$dir"
shared='' kunit='' seconds=240
for p; do
	suits "$p" || continue
	t=$(tr ' ' '\n' <"$p.rig" 2>/dev/null | sed -n 's/^timeout=//p')
	if has "$p.rig" own; then
		write "$first-$(basename "$p")" "-t $((${t:-60} * 4 + 180))" "$p"
	else
		shared="$shared $p"
		seconds=$((seconds + ${t:-20}))
	fi
done
for k in "$BUILD/kmod/$kernel"/kunit/*.ko; do
	[ -f "$k" ] && kunit="$kunit -K $k"
done
[ -z "$shared$kunit" ] || write "$first" "-t $seconds $kunit" "$shared"
