#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Asks the target kernel what it has, by compiling and by looking at the symbols
# it exports; never by its version: stable trees bring things back.
# usage: conftest.sh OUT MODULE_SYMVERS RELEASE CC FLAGS...
set -u

out=$1 symvers=$2 release=$3
shift 3

tmp=$(mktemp -d "${TMPDIR:-/tmp}/rlx-conf.XXXXXX") || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# compiles NAME FLAGS...: SOURCE (stdin) with the flags of the kernel
compiles()
{
	base=$tmp/$1
	shift
	cat > "$base.c"
	"$@" -fsyntax-only -DKBUILD_MODNAME='"rlx"' -DKBUILD_BASENAME='"conftest"' -DMODULE \
		-Werror=implicit-function-declaration \
		-Werror=incompatible-pointer-types -Wno-missing-prototypes \
		-Wno-missing-declarations -Wno-unused \
		"$base.c" 2> "$base.err"
}

flag()		# NAME YES?
{
	if [ "$2" = 0 ]; then
		echo "#define RLX_HAVE_$1 1"
	else
		echo "/* no RLX_HAVE_$1 */"
	fi > "$tmp/$1.flag"
}

# probe NAME FLAGS...; source on stdin. Four at a time: nothing else can be built
# before there is an answer.
probes=0 symbols=0
probe()
{
	cat > "$tmp/$1.src"
	{
		name=$1
		compiles "$@" < "$tmp/$1.src"
		flag "$name" $?
	} &
	probes=$((probes + 1))
	[ $((probes % 4)) != 0 ] || wait
}

exported()	# NAME SYMBOL
{
	symbols=$((symbols + 1))
	grep -q "^[^	]*	$2	" "$symvers"
	flag "$1" $?
}

# A set of flags that compiles nothing, or everything, would answer nonsense.
if ! compiles all "$@" <<EOF
#include <linux/module.h>
#include <linux/fs.h>
int rlx_probe(void) { return PAGE_SHIFT; }
EOF
then
	echo "rlx: nothing compiles against kernel $release:" >&2
	cat "$tmp/all.err" >&2
	exit 1
fi
if compiles none "$@" <<EOF
#include <linux/module.h>
int rlx_probe(void) { return rlx_there_is_no_such_function(); }
EOF
then
	echo "rlx: probing kernel $release does not work: everything compiles" >&2
	exit 1
fi
if [ ! -s "$symvers" ]; then
	echo "rlx: no $symvers: install the headers package of $release" >&2
	exit 1
fi

# -- memory ----------------------------------------------------------------

probe VM_FLAGS_SET "$@" <<EOF
#include <linux/mm.h>
void rlx_probe(struct vm_area_struct *vma) { vm_flags_set(vma, VM_DONTEXPAND); }
EOF
probe VFS_MMAP "$@" <<EOF
#include <linux/fs.h>
int rlx_probe(struct file *f, struct vm_area_struct *v) { return vfs_mmap(f, v); }
EOF
exported MM_AREA mm_get_unmapped_area
probe MM_AREA_OF_FILE "$@" <<EOF
#include <linux/sched/mm.h>
unsigned long rlx_probe(struct file *f)
{ return mm_get_unmapped_area(f, 0, 0, 0, 0); }
EOF
exported MEMFD_PIN_FOLIOS memfd_pin_folios
exported UNPIN_FOLIOS unpin_folios

# -- io_uring --------------------------------------------------------------

probe IO_URING_CMD_H "$@" <<EOF
#include <linux/io_uring/cmd.h>
EOF
wait
if grep -q "define RLX_HAVE_IO_URING_CMD_H" "$tmp/IO_URING_CMD_H.flag"; then
	uring="linux/io_uring/cmd.h"
else
	uring="linux/io_uring.h"
fi

probe SQE_CMD "$@" <<EOF
#include <linux/fs.h>
#include <$uring>
const void *rlx_probe(const struct io_uring_sqe *s) { return io_uring_sqe_cmd(s); }
EOF
probe SQE_CMD_TYPE "$@" <<EOF
#include <linux/fs.h>
#include <$uring>
struct t { u64 a; };
const struct t *rlx_probe(const struct io_uring_sqe *s)
{ return io_uring_sqe_cmd(s, struct t); }
EOF
probe CMD_DONE_RES2 "$@" <<EOF
#include <linux/fs.h>
#include <$uring>
void rlx_probe(struct io_uring_cmd *c) { io_uring_cmd_done(c, 0, 0, 0); }
EOF
probe CMD_DONE32 "$@" <<EOF
#include <linux/fs.h>
#include <$uring>
void rlx_probe(struct io_uring_cmd *c) { io_uring_cmd_done32(c, 0, 0, 0); }
EOF
probe CMD_TW_REQ "$@" <<EOF
#include <linux/fs.h>
#include <$uring>
struct io_uring_cmd *rlx_probe(struct io_tw_req r)
{ return io_uring_cmd_from_tw(r); }
EOF
probe TASK_DEAD "$@" <<EOF
#include <linux/fs.h>
#include <$uring>
int rlx_probe(void) { return IO_URING_F_TASK_DEAD; }
EOF
probe CMD_TO_PDU "$@" <<EOF
#include <linux/fs.h>
#include <$uring>
u64 *rlx_probe(struct io_uring_cmd *c) { return io_uring_cmd_to_pdu(c, u64); }
EOF
exported CMD_CANCELABLE io_uring_cmd_mark_cancelable
# Before 6.10 task work may run without the ring's lock.
probe TW_UNLOCKED "$@" <<EOF
#include <linux/fs.h>
#include <linux/io_uring_types.h>
bool rlx_probe(struct io_tw_state *ts) { return ts->locked; }
EOF
probe CMD_MSHOT "$@" <<EOF
#include <linux/fs.h>
#include <$uring>
bool rlx_probe(struct io_uring_cmd *c, size_t *n)
{
	struct io_br_sel s = io_uring_cmd_buffer_select(c, 0, n, 0);

	return c->flags & IORING_URING_CMD_MULTISHOT &&
	       io_uring_mshot_cmd_post_cqe(c, &s, 0);
}
EOF
# Of pages; from 6.15 to 7.2 this name is for a request of a block device alone.
probe BUFFER_BVEC "$@" <<EOF
#include <linux/fs.h>
#include <$uring>
static void let_go(void *p) { }
int rlx_probe(struct io_uring_cmd *c, const struct bio_vec *v)
{ return io_buffer_register_bvec(c, v, 1, let_go, 0, IO_BUF_DEST, 0, 0); }
EOF

# -- fences ----------------------------------------------------------------

# Kernels for cloud machines are built without it.
exported SYNC_FILE sync_file_get_fence

# -- the rest --------------------------------------------------------------

probe SETATTR_IDMAP "$@" <<EOF
#include <linux/fs.h>
static int set(struct mnt_idmap *m, struct dentry *d, struct iattr *a)
{ return 0; }
struct inode_operations rlx_probe = { .setattr = set };
EOF
probe HRTIMER_SETUP "$@" <<EOF
#include <linux/hrtimer.h>
void rlx_probe(struct hrtimer *t)
{ hrtimer_setup(t, 0, CLOCK_MONOTONIC, HRTIMER_MODE_ABS); }
EOF
probe EVENTFD_SIGNAL_N "$@" <<EOF
#include <linux/eventfd.h>
void rlx_probe(struct eventfd_ctx *c) { eventfd_signal(c, 1); }
EOF
# A string is an identifier's expansion to older kernels: only this way round.
probe IMPORT_NS_IDENT "$@" <<EOF
#include <linux/module.h>
MODULE_IMPORT_NS(DMA_BUF);
EOF

wait
# None may be missing because a process or a file could not be had.
if [ "$(cat "$tmp"/*.flag | grep -c RLX_HAVE_)" != $((probes + symbols)) ]; then
	echo "rlx: kernel $release was not probed to the end: is the disk full?" >&2
	exit 1
fi
{
	echo "/* Made by conftest.sh for $release: do not edit. */"
	echo "#ifndef RLX_CONF_H"
	echo "#define RLX_CONF_H"
	echo
	cat "$tmp"/*.flag
	echo
	echo "#endif"
} > "$tmp/conf.h"

cp "$tmp/conf.h" "$out"
