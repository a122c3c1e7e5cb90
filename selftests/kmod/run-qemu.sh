#!/bin/sh
# SPDX-License-Identifier: MIT
# Boots a kernel in QEMU, runs programs there, and prints TAP.
#
#   selftests/kmod/run-qemu.sh [OPTION ...] ['PROGRAM [ARG ...]' ...]
#
#   -k KERNEL    6.1, 6.12 or debug: a folder of $BUILD/kernels (default 6.12)
#   -o FILE      the module; $BUILD/kmod/KERNEL/rlx.ko by default, "none" for none
#   -p PARAMS    parameters of the module, for programs that declare none
#   -t SECONDS   limit of the whole run (default 600)
#   -T SECONDS   least limit of a program (60 for those that declare none)
#   -S SECONDS   what a guest may be silent for, at least 30 (240): its first process says
#                something every 20
#   -m MIB       memory (2048)          -c CPUS      processors (2)
#   -N NODES     NUMA nodes, as many as processors, of as much memory each (1)
#   -u UID       who runs the programs that do not say (0)
#   -a WORDS     more for the kernel's command line; with slub_debug=FZPU it tells who
#                allocated and freed what it finds, which makes it a tenth slower
#   -f SRC:DST   a file or folder for the guest, absolute there; may be repeated
#   -b FILE      a program of this machine, with the libraries it is linked with, where
#                they are here; may be repeated
#   -l NAMES     modules of the kernel to load first (as vgem), by commas
#   -r           this machine's files, to be mounted, read-only, by 9p with the tag "host"
#   -K FILE      a module of KUnit suites; may be repeated
#   -x           without the options that make the kernel slow and strict
#   -n NAME      names the log folder, $BUILD/test-log/kmod/NAME (KERNEL)
#   -i           a shell on the console instead of programs
#
# A program is linked statically. Next to it PROGRAM.rig may say what it needs,
# as the source does in "/* rig: timeout=90 uid=1000 modules=vgem */"; README.md
# lists the words. RLX_QEMU_LOCK names a file that runs take turns by;
# RLX_KMOD_FUZZ_OPS says how much t/random.c does, RLX_TEST_SEED with which seed.
#
# All limits are of a machine with nothing else to do: what others take of it is measured,
# and does not count (lib/limit.sh, init.c).
set -u

BUILD=${BUILD:-build}
here=$(cd "$(dirname "$0")" && pwd)
kernel=6.12 ko='' silent=240 params=- limit=600 each='' mem=2048 cpus=2 nodes=1 uid=0 append=''
files='' binaries='' load='' kunit='' strict=1 name='' shell='' names='' host=''
nl='
'

while getopts k:o:p:t:T:S:m:c:N:u:a:f:b:l:rK:xn:i o; do
	case $o in
	k)	kernel=$OPTARG ;;
	o)	ko=$OPTARG ;;
	p)	params=$OPTARG ;;
	t)	limit=$OPTARG ;;
	T)	each=$OPTARG ;;
	S)	silent=$OPTARG ;;
	m)	mem=$OPTARG ;;
	c)	cpus=$OPTARG ;;
	N)	nodes=$OPTARG ;;
	u)	uid=$OPTARG ;;
	a)	append=$OPTARG ;;
	f)	files=$files$OPTARG$nl ;;
	b)	binaries="$binaries $OPTARG" ;;
	l)	load=$load,$OPTARG ;;
	r)	host=1 load=$load,9p,9pnet_virtio ;;
	K)	kunit=$kunit$OPTARG$nl ;;
	x)	strict='' ;;
	n)	name=$OPTARG ;;
	i)	shell=1 ;;
	*)	exit 2 ;;
	esac
done
shift $((OPTIND - 1))

kdir=$BUILD/kernels/$kernel
log=$BUILD/test-log/kmod/${name:-$kernel}
[ -n "$ko" ] || ko=$BUILD/kmod/$kernel/rlx.ko
case $kernel in
debug|kcsan) slow=4 ;;
*-rt)	slow=3 ;;
*)	slow=1 ;;
esac

die() { printf 'run-qemu: %s\n' "$1" >&2; exit 1; }

[ -f "$kdir/vmlinuz" ] || die "no kernel in $kdir: run 'make kernels'"
[ "$ko" = none ] || [ -f "$ko" ] ||
	die "no module $ko: run 'make kmod-$kernel', or say -o none"
for c in qemu-system-x86_64 busybox cpio; do
	command -v $c >/dev/null || die "no $c: run 'tools/setup.sh kmod'"
done

# What never changes between runs of one kernel. Two runs that begin at once may both
# make it, each in its own log folder; the last to rename it has it.
make_base()
{
	base=$BUILD/kmod/guest/$(basename "$(readlink -f "$kdir")").cpio
	[ -f "$base" ] && [ "$base" -nt "$here/init.c" ] &&
		[ "$base" -nt "$here/run-qemu.sh" ] &&
		[ "$base" -nt "$kdir/release" ] && return
	root=$log/base
	mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/tmp" \
		"$root/rig/modules" "$root/etc" || exit 1
	${CC:-gcc} -static -O2 -s -o "$root/init" "$here/init.c" ||
		die "cannot compile init.c"
	cp "$(command -v busybox)" "$root/bin/busybox"
	busybox --list | while read -r a; do
		[ "$a" = busybox ] || ln -s busybox "$root/bin/$a"
	done
	printf 'root:x:0:0::/tmp:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n%s\n' \
		'other:x:1001:1001::/tmp:/bin/sh' >"$root/etc/passwd"
	printf 'root:x:0:\nrender:x:105:user\nuser:x:1000:\nother:x:1001:\n' \
		>"$root/etc/group"
	cp "$kdir"/modules/*.ko "$root/rig/modules/" 2>/dev/null
	(cd "$root" && find . | cpio -o -H newc --quiet -R 0:0) >"$root.cpio" &&
		mv "$root.cpio" "$base" || exit 1
	rm -rf "$root"
}

# The rate of the time stamp counter, which is this machine's. A guest that measures it
# while others have the processors is off by a factor, and so are its clock and limits.
measure_tsc()
{
	${CC:-gcc} -O2 -o "$log/tsc_khz" "$here/tsc_khz.c" && khz=$("$log/tsc_khz") ||
		die "cannot compile or run tsc_khz.c"
	rm -f "$log/tsc_khz"
}

# A module of the kernel after those it needs, each once.
add_module()
{
	f=$kdir/modules/$1.ko
	[ -f "$f" ] || return 0
	case " $loaded " in *" $1 "*) return 0 ;; esac
	loaded="$loaded $1"
	for d in $(modinfo -F depends "$f" | tr ',' ' '); do
		add_module "$d"
	done
	echo "insmod /rig/modules/$1.ko" >>"$top/rig/list"
}

# word FILE KEY: what a program's declaration says of one word
word()
{
	[ ! -f "$1" ] || tr ' ' '\n' <"$1" | sed -n "s/^$2=//p" | tail -n 1
}

add_program()
{
	cmd=$1
	file=${cmd%% *}
	[ -f "$file" ] || die "no program $file"
	prog=$(basename "$file")
	t=$(word "$file.rig" timeout)
	t=${t:-${each:-60}}
	[ "${each:-0}" -le "$t" ] || t=$each
	u=$(word "$file.rig" uid)
	p=$(word "$file.rig" params)
	m=$(word "$file.rig" memory)
	[ "${m:-0}" -le "$mem" ] || mem=$m
	m=$(word "$file.rig" nodes)
	nodes=${m:-$nodes}
	load=$load,$(word "$file.rig" modules)
	append="$append $(word "$file.rig" append | tr '+' ' ')"
	strip -o "$top/rig/bin/$prog" "$file" 2>/dev/null ||
		cp "$file" "$top/rig/bin/$prog"
	args=''
	[ "$cmd" = "$file" ] || args=" ${cmd#* }"
	unique=$prog$(printf '%s' "$args" | tr ' /' '+_')
	names="$names $unique"
	printf 'run %s %s %s %s /rig/bin/%s%s\n' "$unique" \
		"$((t * slow))" "${u:-$uid}" "${p:-$params}" "$prog" \
		"$args" >>"$top/list"
}

add_files()
{
	printf '%s' "$files" | while IFS=: read -r src dst; do
		mkdir -p "$top$(dirname "$dst")"
		cp -RL "$src" "$top$dst" || exit 1
	done
}

# What -b names, after the links that lead to it.
add_binaries()
{
	for f in $binaries; do
		echo "$f"
		ldd "$f" | sed -n 's,^[^/]*\(/[^ ]*\).*,\1,p'
	done | sort -u | while read -r f; do
		mkdir -p "$top$(dirname "$f")"
		cp -L "$f" "$top$f" || exit 1
	done
}

# The initramfs: the base, and this run's own archive behind it.
make_guest()
{
	top=$log/top
	rm -rf "$log"
	mkdir -p "$top/rig/bin" "$BUILD/kmod/guest"
	: >"$top/list"
	make_base
	add_files && add_binaries || die "could not copy a file for the guest"
	for cmd; do
		add_program "$cmd"
	done
	: >"$top/rig/list"
	loaded=''
	for m in $(printf '%s' "$load" | tr ',' ' '); do
		add_module "$m"
	done
	if [ "$ko" != none ]; then
		cp "$ko" "$top/rig/"
		echo "module /rig/$(basename "$ko")" >>"$top/rig/list"
	fi
	cat "$top/list" >>"$top/rig/list"
	rm "$top/list"
	printf '%s' "$kunit" >"$log/kunit"
	while read -r f; do
		cp "$f" "$top/rig/"
		b=$(basename "$f")
		names="$names ${b%.ko}"
		echo "kunit ${b%.ko} /rig/$b" >>"$top/rig/list"
	done <"$log/kunit"
	cp "$top/rig/list" "$log/list"
	{
		cat "$base"
		(cd "$top" && find . | cpio -o -H newc --quiet -R 0:0)
	} >"$log/initrd" || die "could not write $log/initrd"
	rm -rf "$top" "$log/kunit"
}

# An uncompressed kernel with an entry for QEMU boots a second or two faster.
pick_image()
{
	image=$kdir/vmlinuz
	[ -f "$kdir/vmlinux" ] && readelf -n "$kdir/vmlinux" 2>/dev/null |
		grep -q 'Xen .*(0x00000012)' && image=$kdir/vmlinux
}

# Options for the nodes, one processor each, in a socket of its own.
nodes()
{
	[ "$nodes" -gt 1 ] || return
	i=0
	while [ $i -lt "$nodes" ]; do
		echo "-object memory-backend-ram,id=m$i,size=$((mem / nodes))M"
		echo "-numa node,nodeid=$i,cpus=$i,memdev=m$i"
		i=$((i + 1))
	done
}

boot()
{
	words="console=ttyS0 loglevel=5 panic=-1 oops=panic nokaslr mitigations=off"
	words="$words kasan_multi_shot audit=0"
	# Whether the timer's interrupts come, a kernel finds out by waiting for some: on a
	# busy host it may see none, and stops. As under any hypervisor it knows, it need not.
	words="$words tsc=reliable tsc_early_khz=$khz no_timer_check"
	words="$words rig.slow=$("$here/../lib/limit.sh" --slowness)"
	words="$words ${RLX_KMOD_FUZZ_OPS:+RLX_KMOD_FUZZ_OPS=$RLX_KMOD_FUZZ_OPS}"
	words="$words ${RLX_TEST_SEED:+RLX_TEST_SEED=$RLX_TEST_SEED}"
	case ${strict:+strict}$kernel in
	# KASAN finds what SLUB's red zones and poison would, which are looked at in each
	# allocation: a quarter of the processor time there.
	strictdebug)	words="$words page_owner=on slub_debug=-" ;;
	*kcsan)		words="kcsan.skip_watch=100 kcsan.udelay_task=300 $words" ;;
	strict*)	words="$words slub_debug=FZP page_poison=1"
			words="$words kfence.sample_interval=100" ;;
	esac
	words="$words $append"
	# Told that "rep stosb" is fast, kernels clear pages by it, which is emulated byte by
	# byte: without that they store words, eight in an iteration.
	cpu=max,-erms
	# While Linux counts the bits of addresses it believes for a moment that there are 48, and
	# KASAN takes all that an interrupt touches then for wild: without la57 there are.
	[ "$kernel" != debug ] || cpu=$cpu,-la57
	# shellcheck disable=SC2046 # words
	set -- -accel tcg,thread=multi -cpu "$cpu" -smp "$cpus,sockets=$nodes" -m "$mem" \
		-nodefaults -no-user-config -display none -no-reboot \
		-kernel "$image" -initrd "$log/initrd" $(nodes)
	[ -z "$host" ] || set -- "$@" -virtfs \
		local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap
	if [ -n "$shell" ]; then
		qemu-system-x86_64 "$@" -serial mon:stdio -serial null \
			-append "$words rig.shell"
		return
	fi
	"$here/../lib/limit.sh" -q $((silent * slow)) "$log/results" \
		"$limit" qemu-system-x86_64 "$@" \
		-serial "file:$log/console" -serial "file:$log/results" \
		-append "$words" </dev/null
}

# One processor of QEMU's (before 8.1) may translate what another patches at that moment, and
# keep the breakpoint that stood there meanwhile: an int3 that nobody has set. In the
# kernel's own text, which is read-only to the module, that is not of our making. A line
# of how the kernel is tainted (from 6.11 on) and one of a work queue may stand before RIP.
died_of_emulation()
{
	[ -z "$shell" ] && awk '{ sub(/\r$/, "") }
		/Oops: int3: 0000/ { died = 1 }
		died && /RIP: 0010:/ { kernel = !/ \[[a-z_0-9]+\]$/; exit }
		END { exit !kernel }' "$log/console" 2>/dev/null
}

make_guest "$@"
if [ -n "${RLX_QEMU_LOCK-}" ]; then
	exec 9>"$RLX_QEMU_LOCK"
	flock 9
fi
pick_image
measure_tsc
start=$(date +%s.%N)
boot
ended=$?
if died_of_emulation; then
	echo "# QEMU ran code that the kernel had patched; booted anew"
	boot
	ended=$?
fi
[ -z "$shell" ] || exit 0
touch "$log/console" "$log/results"
printf '# %s, %s s of wall time; the logs are in %s\n' "$(cat "$kdir/release")" \
	"$(echo "$(date +%s.%N) $start" | awk '{ printf "%.1f", $1 - $2 }')" \
	"$log"
awk -v names="$names" -v ended="$ended" -f "$here/rig.awk" "$log/console" \
	"$log/results"
rc=$?
if grep -q '^#rig done' "$log/results"; then
	rm -f "$log/initrd"
else
	tail -n 30 "$log/console" | sed 's/^/# console: /'
fi
exit $rc
