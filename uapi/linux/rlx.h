/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * /dev/rlx: pinned, DMA-shareable arenas, timelines, and request channels
 * between processes. The only header that kernel and user space both see.
 *
 * An fd is the right: there are no names and no ids that mean something outside
 * the object they came from. Rights are given away by passing descriptors.
 *
 *	session  (open("/dev/rlx"))	makes the objects below
 *	arena    memory: mmap, duplicate read-only, seal, export as dma-buf
 *	timeline a 64-bit counter that only grows, with waiters
 *	service  the place clients connect to; outlives its executors
 *	executor the end that fetches requests and commits results
 *	channel  a client's end: attaches arenas, submits, reaps
 *
 * Calling convention. Every ioctl takes a struct whose size is in the command
 * number. A struct that is larger than the kernel's must have zeroes behind
 * what the kernel knows, one that is smaller (but not than its first version)
 * is taken as if it ended in zeroes. Every reserved field and pad is zero going
 * in and comes out zero. Commands that make an object return its fd, always
 * close-on-exec; other commands return 0 or the count they say.
 *
 * io_uring: IORING_OP_URING_CMD with cmd_op set to the same command numbers, on
 * a channel (SUBMIT), executor (FETCH, COMMIT, COMMIT_AND_FETCH), timeline
 * (TIMELINE_WAIT_ONE) or arena (BUFFER_REGISTER, BUFFER_UNREGISTER). The payload is
 * struct rlx_uring_cmd.
 *
 * Errors:
 *	ENOTTY		unknown ioctl, or one that belongs to another kind of fd
 *	EOPNOTSUPP	unknown cmd_op of io_uring; a feature this kernel lacks
 *	EINVAL		struct smaller than its first version; unknown flag; a
 *			reserved field or pad is not zero; size 0, unaligned or
 *			over a limit; NUMA node that is not online; offset or
 *			length that leaves the object; MAP_PRIVATE; RLX_W without
 *			RLX_R of what is given away; an fd that is
 *			not of the kind asked for; a timeline value that is not
 *			larger than the present one; memfd without F_SEAL_SHRINK
 *			or with a write seal and not RDONLY, hugetlb memfd with
 *			holes and RDONLY; SQE128 needed
 *	EOVERFLOW	offset + length, or a count, passes 2^64; the value 2^64 - 1
 *			of a timeline, which is never reached
 *	E2BIG		a larger struct with something behind what we know
 *	EFAULT		a pointer that cannot be read or written; user memory
 *			that cannot be pinned (device memory)
 *	EBADF		a descriptor that is not open
 *	EBADFD		a memfd arena of something else than shmem or hugetlb
 *	ENOMEM		memory, RLIMIT_MEMLOCK or a cap of the module ran out;
 *			HUGE_REQUIRE without huge pages
 *	EPERM		no right to lock memory at all; the object is sealed, or the
 *			memfd of an arena is, against what is asked;
 *			a service of SINGLE_USER and another user
 *	EACCES		writing through what is read-only: mapping, export, fixed
 *			buffer, duplicate, slice, signal; a read-only memfd, not RDONLY
 *	ENOENT		no such arena, channel or request
 *	EBUSY		leased, mapped for writing, not yet acknowledged; a second
 *			executor; a place in a ring's table that is taken
 *	ENOSPC		a table is full, or a user's share of it, or the completions
 *			of a ring
 *	ENODEV		mmap of what has nothing to map, an arena of user memory
 *			too
 *	EMFILE, ENFILE	no descriptor left
 *	EAGAIN		the channel is full, or nothing is there and waiting was
 *			not asked for
 *	ETIME		a deadline or timeout passed
 *	EINTR		a signal was handled first, and nothing had been done; FETCH
 *			and REAP without a timeout, and waits until a point in time,
 *			go on after a handler with SA_RESTART. All three go on after
 *			what no handler is called for (a stop, a debugger, io_uring)
 *	ECANCELED	cancelled, by the client or by the death of its ring
 *	ENOTCONN	no executor has attached yet
 *	EPIPE		the executor is gone
 *	EOWNERDEAD	the executor died with the request, or a timeline's last
 *			signaller went away
 *	ESTALE		a request that is not (or no more) this one
 *	EPROTO		the executor or client wrote nonsense into its ring page
 *	ENOBUFS		a multishot command found no provided buffer
 */
#ifndef _UAPI_LINUX_RLX_H
#define _UAPI_LINUX_RLX_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* Grows when old programs would break. 1 had 'R' for RLX_IOC_MAGIC. */
#define RLX_ABI			2
/*
 * Type 0xEA, numbers 00-5F: free in ioctl-number.rst of Linux 6.1 to 7.3, and in their
 * headers. Its row there would be
 *	0xEA  00-5F  linux/rlx.h	pinned arenas, request channels
 * so that what decodes or filters calls (strace, seccomp) takes them for nothing else.
 */
#define RLX_IOC_MAGIC		0xEA
#define RLX_FS_MAGIC		0x524c5841	/* statfs f_type of arenas */

/* ---- session ---------------------------------------------------------- */

/* rlx_ioc_query.features */
#define RLX_FEAT_HUGE		(1ULL << 0)	/* arenas of huge pages */
#define RLX_FEAT_MEMFD		(1ULL << 1)	/* arenas of a memfd */
#define RLX_FEAT_USER		(1ULL << 2)	/* arenas of user memory */
#define RLX_FEAT_DMABUF		(1ULL << 3)	/* export of dma-bufs */
#define RLX_FEAT_SYNC_FILE	(1ULL << 4)	/* timelines follow fences */
#define RLX_FEAT_URING		(1ULL << 5)	/* io_uring, answered at once */
#define RLX_FEAT_URING_ASYNC	(1ULL << 6)	/* and parked, cancelable */
#define RLX_FEAT_URING_MSHOT	(1ULL << 7)	/* multishot FETCH */
#define RLX_FEAT_URING_BUFFERS	(1ULL << 8)	/* arenas as fixed buffers of rings */
#define RLX_FEAT_DMABUF_ARENA	(1ULL << 9)	/* arenas of a dma-buf */
#define RLX_FEAT_TESTING	(1ULL << 63)	/* built with test hooks */

/* Index into rlx_ioc_query.limits. */
enum rlx_limit {
	RLX_LIMIT_ARENA_BYTES,		/* of one arena */
	RLX_LIMIT_USER_BYTES,		/* of one user, 0: no cap */
	RLX_LIMIT_TOTAL_BYTES,		/* of all, 0: no cap */
	RLX_LIMIT_SESSIONS,		/* per user */
	RLX_LIMIT_ARENAS,		/* per session */
	RLX_LIMIT_CHANNELS,		/* per service */
	RLX_LIMIT_ATTACHMENTS,		/* per channel */
	RLX_LIMIT_QUEUES,		/* per service */
	RLX_LIMIT_QUEUE_DEPTH,		/* slots of one queue */
	RLX_LIMIT_SLICES,		/* per request, indirect ones too */
	RLX_LIMIT_WAITERS,		/* per timeline */
	RLX_LIMIT_HUGE_BYTES,		/* size of a huge page */
	RLX_LIMIT_NR = 16
};

/**
 * struct rlx_ioc_query - what this module can do.
 * @abi:      RLX_ABI of the module
 * @pad:      0
 * @features: RLX_FEAT_*
 * @limits:   by enum rlx_limit; the rest 0
 */
struct rlx_ioc_query {
	__u32	abi;
	__u32	pad;
	__u64	features;
	__u64	limits[RLX_LIMIT_NR];
};

/* ---- arenas ----------------------------------------------------------- */

enum rlx_kind {
	RLX_KIND_KERNEL,	/* pages of the module, zeroed */
	RLX_KIND_MEMFD,	/* pinned pages of a memfd */
	RLX_KIND_USER,		/* pinned pages of the caller */
	RLX_KIND_DMABUF		/* memory of whoever exports a dma-buf */
};

#define RLX_AF_HUGE_TRY	(1U << 0)	/* huge pages where they can be had */
#define RLX_AF_HUGE_REQUIRE	(1U << 1)	/* or fail */
#define RLX_AF_RDONLY	(1U << 2)	/* MEMFD, USER, DMABUF: never written by this */
#define RLX_AF_NOEXPORT	(1U << 3)	/* sealed against export at once */
#define RLX_AF_NUMA_BIND	(1U << 4)	/* KERNEL: from @nodes alone, or fail */
#define RLX_AF_NUMA_INTERLEAVE	(1U << 5)	/* KERNEL: from each of @nodes in turn */

/* Access, of duplicates, attachments and slices. */
#define RLX_R			(1U << 0)
#define RLX_W			(1U << 1)

/**
 * struct rlx_ioc_arena_create - make an arena; returns its fd.
 * @size:      bytes, a multiple of the page size (KERNEL with HUGE_REQUIRE: of
 *             the huge page)
 * @kind:      enum rlx_kind
 * @flags:     RLX_AF_HUGE_TRY and so on
 * @numa_node: taken from first, from others when it is full; -1 where the caller's
 *             memory policy (set_mempolicy(2)) says, by default the nearest; only for
 *             KERNEL. Of any node, only those of the caller's cpuset
 * @memfd:     MEMFD: the memfd; DMABUF: the dma-buf; else -1
 * @addr:      USER: page-aligned address; MEMFD: page-aligned offset; else 0
 * @cookie:    given back by INFO; for the reader of debug output
 * @nodes:     bit n for node n, with RLX_AF_NUMA_BIND or INTERLEAVE, or both, and
 *             @numa_node -1; else 0. INTERLEAVE without BIND takes from others when one
 *             is full. In turn are huge pages where they are asked for, else pages
 * @reserved:  0
 *
 * A DMABUF arena is a whole dma-buf of some other driver (@size is its size, as lseek()
 * to its end tells), be it in a device's memory, so that requests can name it. Of flags it
 * takes RDONLY, without which the dma-buf's fd has to be one for writing too, and NOEXPORT.
 * It keeps the dma-buf, and through it the exporter's module. Nothing is pinned, and
 * nothing charged but one of RLX_LIMIT_ARENAS: the memory is the exporter's, who accounts
 * for it as for any holder of the dma-buf. mmap is the exporter's (ENODEV, EINVAL or what
 * else it says, where the CPU cannot see the memory); SYNC goes to it, for the whole.
 * EXPORT returns the dma-buf itself, to RLX_R | RLX_W and for all of the arena alone
 * (else EACCES, EINVAL), and is not counted. NO_WRITE and FUTURE_WRITE are EBUSY: others
 * have the memory. Indirect slices cannot lie in it (EINVAL), nor fixed buffers of
 * io_uring (ENODEV). INFO says no pages and node -1.
 */
struct rlx_ioc_arena_create {
	__u64	size;
	__u32	kind;
	__u32	flags;
	__s32	numa_node;
	__s32	memfd;
	__u64	addr;
	__u64	cookie;
	__u64	nodes;
	__u64	reserved[2];
};

/* rlx_ioc_arena_info.state and the argument of SEAL */
#define RLX_KSEAL_NO_WRITE	(1U << 0)	/* no writable mapping, export, buffer or lease */
#define RLX_KSEAL_NO_EXPORT	(1U << 1)
#define RLX_KSEAL_NO_ATTACH	(1U << 2)
#define RLX_KSEAL_SEAL		(1U << 3)	/* no further seal */
#define RLX_KSEAL_FUTURE_WRITE	(1U << 4)	/* no new one of those; present ones stay */

/**
 * struct rlx_ioc_arena_info - out: an arena as it is now.
 * @size:       bytes
 * @cookie:     as given at creation
 * @id:         the same for every fd of this arena, for no other arena until
 *              the module is unloaded
 * @kind:       enum rlx_kind
 * @flags:      as given at creation
 * @access:     RLX_R, RLX_W: what this fd may
 * @seals:      RLX_KSEAL_*
 * @nr_huge:    huge pages it is made of
 * @nr_chunks:  physically contiguous pieces
 * @nr_leases:  attachments: channels whose requests may name it
 * @nr_exports: live dma-bufs
 * @numa_node:  of the first page; -1 where the module has none
 * @pad:        0
 * @nr_buffers: fixed buffers of io_uring rings, by RLX_IOC_BUFFER_REGISTER; in older
 *              modules reserved, and 0
 * @reserved:   0
 */
struct rlx_ioc_arena_info {
	__u64	size;
	__u64	cookie;
	__u64	id;
	__u32	kind;
	__u32	flags;
	__u32	access;
	__u32	seals;
	__u64	nr_huge;
	__u64	nr_chunks;
	__u64	nr_leases;
	__u64	nr_exports;
	__s32	numa_node;
	__u32	pad;
	__u64	nr_buffers;
	__u64	reserved[2];
};

/*
 * The importer is known to keep sizes in 64 bits, as DRM's PRIME and what is built on
 * it do. NVIDIA's resource manager keeps them in 32 and would see the size modulo 4 GiB,
 * which nothing in the protocol of dma-bufs tells.
 */
#define RLX_EXPORT_LARGE	(1U << 0)

/**
 * struct rlx_ioc_arena_export - a range as a dma-buf; returns its fd.
 * @offset:   page-aligned
 * @length:   page-aligned, below 4 GiB, or any with RLX_EXPORT_LARGE
 * @access:   RLX_R or RLX_R | RLX_W. Importers that ask for both directions,
 *            as all of DRM does, cannot import what is RLX_R alone
 * @flags:    RLX_EXPORT_LARGE
 * @reserved: 0
 */
struct rlx_ioc_arena_export {
	__u64	offset;
	__u64	length;
	__u32	access;
	__u32	flags;
	__u64	reserved[2];
};

/**
 * struct rlx_ioc_arena_dup - another fd of the same arena; returns it.
 * @access:   RLX_R, or RLX_R | RLX_W from an fd that may write
 * @flags:    0
 * @reserved: 0
 */
struct rlx_ioc_arena_dup {
	__u32	access;
	__u32	flags;
	__u64	reserved[2];
};

/**
 * struct rlx_ioc_arena_seal - forbid for good, for every fd.
 * @seals: RLX_KSEAL_*; NO_WRITE is EBUSY while a mapping that is or may be made
 *         writable, an export, a fixed buffer or an attachment for writing exists, and
 *         while a device or ring has pages pinned, or anything else holds some, as direct
 *         I/O and pipes do (it waits for those for 150 ms; mappings for reading have the
 *         pages again by faults). Of MEMFD arenas that may be written and of USER arenas it
 *         always is: others have those pages. Seal the memfd with F_SEAL_WRITE, which is
 *         EBUSY while such an arena lives, then make a RDONLY arena of it: that has
 *         NO_WRITE from the beginning
 * @pad:   0
 * @reserved: 0
 */
struct rlx_ioc_arena_seal {
	__u32	seals;
	__u32	pad;
	__u64	reserved;
};

#define RLX_SYNC_BEGIN		0U
#define RLX_SYNC_END		1U

/**
 * struct rlx_ioc_arena_sync - CPU access to a range that devices use too.
 * @offset: bytes
 * @length: bytes
 * @access: RLX_R, RLX_W: what the CPU will do (BEGIN) or did (END)
 * @op:     RLX_SYNC_BEGIN or RLX_SYNC_END
 *
 * Does what DMA_BUF_IOCTL_SYNC does, for every device attached to an export of
 * the range; nothing on machines whose DMA is coherent.
 */
struct rlx_ioc_arena_sync {
	__u64	offset;
	__u64	length;
	__u32	access;
	__u32	op;
};

/* ---- timelines -------------------------------------------------------- */

#define RLX_WAIT_ANY		0U
#define RLX_WAIT_ALL		(1U << 0)
#define RLX_WAIT_MAX		16

/**
 * struct rlx_ioc_timeline_create - make a timeline; returns its fd.
 * @initial: first value
 * @flags:   0
 * @pad:     0
 */
struct rlx_ioc_timeline_create {
	__u64	initial;
	__u32	flags;
	__u32	pad;
	__u64	reserved[2];
};

/**
 * struct rlx_timeline_page - what mmap(offset 0, one page, PROT_READ) shows.
 * @value: load with acquire
 * @error: 0, or the negative errno that poisoned the timeline
 * @pad:   0
 */
struct rlx_timeline_page {
	__u64	value;
	__s32	error;
	__u32	pad;
};

/**
 * struct rlx_ioc_timeline_query - out; also rearms poll().
 * @value:   present value
 * @error:   as in the page
 * @waiters: waits under way
 */
struct rlx_ioc_timeline_query {
	__u64	value;
	__s32	error;
	__u32	waiters;
	__u64	reserved[2];
};

/** struct rlx_ioc_timeline_signal - raise to @value, which must be larger. */
struct rlx_ioc_timeline_signal {
	__u64	value;
	__u64	reserved;
};

/** struct rlx_ioc_timeline_dup - an fd that may wait (RLX_R) or signal too (RLX_W). */
struct rlx_ioc_timeline_dup {
	__u32	access;
	__u32	flags;
	__u64	reserved;
};

/** struct rlx_point - a timeline (by fd) and a value. */
struct rlx_point {
	__s32	fd;
	__u32	pad;
	__u64	value;
};

/**
 * struct rlx_ioc_timeline_wait - wait for points, on the session.
 * @points:      user address of struct rlx_point[@nr]
 * @nr:          1 to RLX_WAIT_MAX
 * @flags:       RLX_WAIT_ANY or RLX_WAIT_ALL
 * @deadline_ns: CLOCK_MONOTONIC; 0 asks without waiting (EAGAIN), ~0 waits for
 *               ever
 * @index:       0; out: the point that ended the wait
 * @pad:         0
 *
 * A value that was reached stays reached when the timeline is poisoned later;
 * any other point of it ends the wait with its error, unless ANY finds one that
 * is reached.
 */
struct rlx_ioc_timeline_wait {
	__u64	points;
	__u32	nr;
	__u32	flags;
	__u64	deadline_ns;
	__u32	index;
	__u32	pad;
	__u64	reserved[2];
};

/** struct rlx_ioc_timeline_eventfd - signal @eventfd once when @value is reached. */
struct rlx_ioc_timeline_eventfd {
	__u64	value;
	__s32	eventfd;
	__u32	pad;
};

/**
 * struct rlx_ioc_timeline_import - raise to @value when a sync_file's fence signals.
 * @value:     must be larger than the present one when the fence signals, else
 *             nothing happens; an error of the fence poisons the timeline
 * @sync_file: its fd
 *
 * EOPNOTSUPP without RLX_FEAT_SYNC_FILE: kernels for cloud machines have none.
 */
struct rlx_ioc_timeline_import {
	__u64	value;
	__s32	sync_file;
	__u32	pad;
};

/* ---- requests --------------------------------------------------------- */

#define RLX_RQ_SLICES		6
#define RLX_RQ_INLINE		64
#define RLX_RQ_SLICES_MAX	64	/* indirect */

/**
 * struct rlx_slice - a range of an attached arena.
 * @arena:  handle ATTACH gave
 * @access: RLX_R, RLX_W: within what the attachment has
 * @offset: bytes
 * @length: bytes, not 0
 */
struct rlx_slice {
	__u32	arena;
	__u32	access;
	__u64	offset;
	__u64	length;
};

/*
 * slice[0] names the range that holds a struct rlx_slice[nr_slices]; the kernel
 * copies and checks it at submit, the executor asks for the copy (EXEC_SLICES).
 */
#define RLX_RQ_INDIRECT		(1U << 0)
#define RLX_RQ_WAIT		(1U << 1)	/* not before @wait reaches @wait_value */
#define RLX_RQ_FLAGS		0x3U
#define RLX_RQ_USER_FLAGS	0xffff0000U	/* carried, not looked at */
/*
 * Set by the kernel, in rlx_desc.flags alone: the client wanted the request back,
 * or is gone. The executor may do less, but commits all the same.
 */
#define RLX_RQ_UNWANTED		(1U << 8)

/**
 * struct rlx_rq - a request, as the client submits it; 256 bytes.
 * @opcode:      carried, not looked at
 * @flags:       RLX_RQ_*
 * @user_data:   carried, and given back with the completion
 * @deadline_ns: CLOCK_MONOTONIC; 0 none. What is not fetched by then completes
 *               with -ETIME, at the next tick of the kernel's clock
 * @nr_slices:   up to RLX_RQ_SLICES, or RLX_RQ_SLICES_MAX with INDIRECT
 * @inline_len:  bytes of @inline_data that mean something
 * @wait:        handle of an attached timeline, with RLX_RQ_WAIT
 * @pad:         0
 * @wait_value:  see RLX_RQ_WAIT
 */
struct rlx_rq {
	__u32	opcode;
	__u32	flags;
	__u64	user_data;
	__u64	deadline_ns;
	__u32	nr_slices;
	__u32	inline_len;
	__u32	wait;
	__u32	pad;
	__u64	wait_value;
	struct rlx_slice slice[RLX_RQ_SLICES];
	__u8	inline_data[RLX_RQ_INLINE];
};

/**
 * struct rlx_desc - a request, as the executor sees it; 256 bytes.
 * @seq:  generation of the slot; (tag, seq) names a request for ever
 * @tag:  index of this descriptor in its queue
 * @channel: id of the client's channel; not used again before the executor has read
 *        RLX_EVENT_GONE of it, and then only when all others have been
 *
 * Written by the kernel alone, in an array that the executor maps for reading.
 * The rest as in struct rlx_rq, checked.
 */
struct rlx_desc {
	__u64	seq;
	__u32	channel;
	__u32	tag;
	__u32	opcode;
	__u32	flags;
	__u64	user_data;
	__u64	deadline_ns;
	__u32	nr_slices;
	__u32	inline_len;
	struct rlx_slice slice[RLX_RQ_SLICES];
	__u8	inline_data[RLX_RQ_INLINE];
};

/**
 * struct rlx_cqe - a completion, as the client reaps it.
 * @user_data: of the request
 * @seq:       of the request
 * @aux:       of the executor
 * @tag:       of the request
 * @result:    of the executor, or a negative errno
 */
struct rlx_cqe {
	__u64	user_data;
	__u64	seq;
	__u64	aux;
	__u32	tag;
	__s32	result;
};

/* ---- shared rings ----------------------------------------------------- */

/*
 * Offsets for mmap. Descriptors and request rings are on the executor fd, one of
 * each per queue; the completion ring is on the channel fd, queue 0. A mapping
 * starts at the beginning, is shared, is not inherited by fork, and keeps its
 * executor or channel alive like an fd of it.
 */
#define RLX_MAP_DESC		1	/* read-only: struct rlx_desc[depth] */
#define RLX_MAP_RING		2	/* read-only: struct rlx_ring, entries */
#define RLX_MAP_USER		3	/* read-write: struct rlx_ring_user */
#define RLX_MAP_OFFSET(kind, queue) \
	(((__u64)(kind) << 36) | ((__u64)(queue) << 28))

/**
 * struct rlx_ring - written by the kernel, read by the one consumer.
 * @tail:    entries ever written, modulo 2^32; load with acquire
 * @mask:    number of entries less one; entry n is at n & mask
 * @error:   0, or -EPROTO once the consumer wrote nonsense
 * @entry_bytes: 4 (__u32 tag, queues) or 32 (struct rlx_cqe, channels)
 * @reserved: 0; entries follow at byte 64
 */
struct rlx_ring {
	__u32	tail;
	__u32	mask;
	__s32	error;
	__u32	entry_bytes;
	__u64	reserved[6];
};

/**
 * struct rlx_ring_user - written by the consumer, read by the kernel.
 * @head:        entries consumed, modulo 2^32; store with release. Where tail - head
 *               is more than the ring has entries, it is broken (-EPROTO)
 * @need_wakeup: 1 while the consumer sleeps or is about to. The order is: store
 *               1, full barrier, load tail again, and only then FETCH or REAP.
 */
struct rlx_ring_user {
	__u32	head;
	__u32	need_wakeup;
	__u64	reserved[7];
};

/* ---- services and executors ------------------------------------------- */

#define RLX_SERVICE_REQUEUE	(1U << 0)	/* what a dead executor held goes to the next */
#define RLX_SERVICE_SINGLE_USER	(1U << 1)	/* only the creator's user connects */

/**
 * struct rlx_ioc_service_create - make a service; returns its fd.
 * @queues:     1 to RLX_LIMIT_QUEUES
 * @depth:      slots of each queue, a power of two; shared out to channels
 * @flags:      RLX_SERVICE_*
 * @max_slices: per request, 0: RLX_RQ_SLICES
 * @user_tag:   for the reader of debug output
 * @user_slots: slots of a queue that channels of one user have together, at most, up
 *              to @depth; 0: as many as are left to others then
 * @user_channels: channels of one user at most, up to RLX_LIMIT_CHANNELS; 0 likewise
 * @orphan_ms:  how long an executor may hold requests of a dead client, counted from
 *              the client's death; 0: for ever
 * @pad:        0
 *
 * What a delivered request names stays attached, and charged to its user, until the
 * executor commits it, for the executor may be writing there. One that hangs would
 * keep it for ever. After @orphan_ms it is taken to be dead though it lives: its calls
 * fail with EPIPE, poll says EPOLLERR, its requests end or go to the next executor as
 * RLX_SERVICE_REQUEUE says, and attachments of dead clients are gone. What it has
 * mapped itself, by RLX_IOC_EXEC_ARENA, it still has: memory does not go away under a
 * process that uses it, but with the process, which its supervisor has to end.
 *
 * A user is the one who opened the session that CONNECT is called on. The service's
 * own is not limited by @user_slots and @user_channels, and a user who has nothing
 * yet gets one while there is one. What a dead client had counts until it is given
 * back: its slots when the executor has committed what it holds of it, its channel
 * when the executor has read RLX_EVENT_GONE.
 */
struct rlx_ioc_service_create {
	__u32	queues;
	__u32	depth;
	__u32	flags;
	__u32	max_slices;
	__u64	user_tag;
	__u32	user_slots;
	__u32	user_channels;
	__u32	orphan_ms;
	__u32	pad;
	__u64	reserved[2];
};

/**
 * struct rlx_ioc_service_dup - another fd of the service; returns it.
 * @access: RLX_R: may connect; RLX_R | RLX_W: may become its executor too
 */
struct rlx_ioc_service_dup {
	__u32	access;
	__u32	flags;
	__u64	reserved;
};

#define RLX_EXEC_RING		(1U << 0)	/* requests come by the shared ring */

/**
 * struct rlx_ioc_executor_attach - become the executor; on a service fd that may
 * write; returns the executor's fd. EBUSY while another one lives: until its last
 * fd and mapping are gone (commands parked by it then end with -EPIPE). EPIPE once
 * the service is over: no executor, and no fd left that may make one.
 * @flags:      RLX_EXEC_*
 * @generation: out: 1 for the first executor, and so on
 */
struct rlx_ioc_executor_attach {
	__u32	flags;
	__u32	pad;
	__u64	generation;
	__u64	reserved[2];
};

#define RLX_SERVICE_LIVE	0U
#define RLX_SERVICE_NEW		1U	/* no executor yet */
#define RLX_SERVICE_DEAD	2U	/* the executor is gone */

/** struct rlx_ioc_service_info - out; on service, executor and channel fds. */
struct rlx_ioc_service_info {
	__u32	state;
	__u32	queues;
	__u32	depth;
	__u32	flags;
	__u64	generation;
	__u32	channels;
	__u32	pad;
	__u64	ready;		/* slots, by state */
	__u64	delivered;
	__u64	submitted;	/* requests ever */
	__u64	committed;
	__u64	cancelled;
	__u64	reserved[3];
};

/*
 * A fetched tag with this bit is an event, the other bits are a channel's id:
 * read it with EXEC_EVENTS.
 */
#define RLX_TAG_EVENT		(1U << 31)

#define RLX_FETCH_NOWAIT	(1U << 0)

/**
 * struct rlx_ioc_fetch - take requests; returns how many tags.
 * @tags:       user address of __u32[@max]; with RLX_EXEC_RING 0: only wait
 *              until the ring has entries, and return how many
 * @max:        at most this many; not 0
 * @min:        wait for this many (0 or 1: any), at most @max
 * @timeout_ns: from now; ~0 for ever, the only one over io_uring. With at least
 *              one tag at the timeout, that is success. A signal leaves the time
 *              that was left here, as in select(2)
 * @queue:      which
 * @flags:      RLX_FETCH_*
 */
struct rlx_ioc_fetch {
	__u64	tags;
	__u32	max;
	__u32	min;
	__u64	timeout_ns;
	__u32	queue;
	__u32	flags;
};

/**
 * struct rlx_complete - one result.
 * @seq:    of the request
 * @aux:    carried to the client
 * @tag:    of the request
 * @result: carried to the client
 */
struct rlx_complete {
	__u64	seq;
	__u64	aux;
	__u32	tag;
	__s32	result;
};

/**
 * struct rlx_ioc_commit - give results; returns how many were taken, ESTALE if none
 * was.
 * @entries: user address of struct rlx_complete[@nr]
 * @errors:  user address of __s32[@nr] for the outcome of each (0 or -ESTALE), or 0.
 *           EFAULT here comes after the results were taken
 * @nr:      how many, at most RLX_LIMIT_QUEUE_DEPTH
 * @queue:   which they came from
 *
 * Each element stands for itself: a stale one does not stop the others.
 */
struct rlx_ioc_commit {
	__u64	entries;
	__u64	errors;
	__u32	nr;
	__u32	queue;
};

/**
 * struct rlx_ioc_commit_fetch - both in one; returns how many tags were fetched.
 *
 * Stale elements do not stop it, any other error of the commit does. Where nothing
 * came to fetch (NOWAIT, timeout, signal), 0 is returned.
 */
struct rlx_ioc_commit_fetch {
	struct rlx_ioc_commit commit;
	struct rlx_ioc_fetch  fetch;
};

/**
 * struct rlx_ioc_exec_arena - the fd of an arena a channel attached; returns it.
 * @channel: from the descriptor
 * @arena:   handle, from the slice
 * @id:      out: rlx_ioc_arena_info.id, to find it again under another handle
 * @size:    out: bytes
 * @access:  out: RLX_R, RLX_W
 */
struct rlx_ioc_exec_arena {
	__u32	channel;
	__u32	arena;
	__u64	id;
	__u64	size;
	__u32	access;
	__u32	pad;
	__u64	reserved;
};

/**
 * struct rlx_ioc_exec_slices - the kernel's copy of indirect slices; returns how
 * many.
 */
struct rlx_ioc_exec_slices {
	__u64	seq;
	__u32	tag;
	__u32	queue;
	__u64	slices;		/* user address of struct rlx_slice[@max] */
	__u32	max;
	__u32	pad;
};

#define RLX_EVENT_DETACH	1U	/* @handle is gone: unmap it */
#define RLX_EVENT_GONE		2U	/* the channel is gone, with all its requests */

/** struct rlx_event - something about a channel. */
struct rlx_event {
	__u32	type;
	__u32	handle;
};

/**
 * struct rlx_ioc_exec_events - read and acknowledge; returns how many.
 * @channel: from the tag
 * @max:     size of @events
 * @events:  user address of struct rlx_event[@max]
 */
struct rlx_ioc_exec_events {
	__u32	channel;
	__u32	max;
	__u64	events;
};

/* ---- channels --------------------------------------------------------- */

#define RLX_QUEUE_ANY		0xffffffffU	/* the one with most room */
#define RLX_CHANNEL_RING	(1U << 0)	/* completions come by the shared ring */

/**
 * struct rlx_ioc_connect - make a channel, on a session; returns its fd.
 * @service: fd of a service
 * @queue:   which, or RLX_QUEUE_ANY; out: the one got
 * @depth:   requests under way and results not reaped, at most; a power of two.
 *           ENOSPC if the queue has no such number left, or not for this user
 * @flags:   RLX_CHANNEL_*
 * @user_tag: for the reader of debug output
 * @channel: out: id, as the executor sees it
 */
struct rlx_ioc_connect {
	__s32	service;
	__u32	queue;
	__u32	depth;
	__u32	flags;
	__u64	user_tag;
	__u32	channel;
	__u32	pad;
	__u64	reserved[2];
};

/**
 * struct rlx_ioc_attach - let requests name an arena, or wait for a timeline.
 * @fd:     of the arena or timeline
 * @access: RLX_R, or RLX_R | RLX_W of an fd that may write; of a timeline RLX_R
 * @handle: out: never 0, never used again in this channel
 */
struct rlx_ioc_attach {
	__s32	fd;
	__u32	access;
	__u32	handle;
	__u32	flags;
	__u64	reserved;
};

/**
 * struct rlx_ioc_detach - take it back: EBUSY while a request names it. Its place
 * in the table is free again when the executor has read the event.
 */
struct rlx_ioc_detach {
	__u32	handle;
	__u32	flags;
};

/**
 * struct rlx_ioc_submit - submit requests; returns how many were taken.
 * @entries: user address of struct rlx_rq[@nr]
 * @ids:     user address of struct rlx_rq_id[@nr], or 0
 * @nr:      how many
 * @flags:   0
 *
 * An entry that is refused ends the call; the error is returned if it was the
 * first one. @ids are written before a request becomes visible to the executor.
 */
struct rlx_ioc_submit {
	__u64	entries;
	__u64	ids;
	__u32	nr;
	__u32	flags;
	__u64	reserved;
};

/** struct rlx_rq_id - names a request for CANCEL. */
struct rlx_rq_id {
	__u64	seq;
	__u32	tag;
	__u32	pad;
};

/**
 * struct rlx_ioc_reap - take completions; returns how many.
 * @entries: user address of struct rlx_cqe[@max]; with RLX_CHANNEL_RING 0: only
 *           wait until the ring has @min entries
 * @max, @min, @timeout_ns: as in struct rlx_ioc_fetch; @min 0 does not wait
 * @flags: 0
 *
 * EPIPE if there is nothing to take and, the executor being gone, nothing to come.
 */
struct rlx_ioc_reap {
	__u64	entries;
	__u32	max;
	__u32	min;
	__u64	timeout_ns;
	__u32	flags;
	__u32	pad;
};

/**
 * struct rlx_ioc_cancel - take back what is not delivered yet; it completes with
 * -ECANCELED. EBUSY if the executor has it already, ESTALE if it is done.
 */
struct rlx_ioc_cancel {
	__u64	seq;
	__u32	tag;
	__u32	flags;
};

/* ---- io_uring --------------------------------------------------------- */

/**
 * struct rlx_uring_cmd - payload of every command, 16 bytes.
 * @addr: user address of the command's struct: SUBMIT one struct rlx_rq, else what
 *        the ioctl takes
 * @flags: RLX_URING_*
 * @pad:  0
 *
 * SUBMIT parks: its CQE comes when the request completes, with the result as res
 * and, in rings of 32-byte CQEs, aux in big_cqe[0]; it is then not reaped. With
 * RLX_URING_POST it is answered at once with 0 and reaped as if the ioctl had
 * submitted it. FETCH and COMMIT_AND_FETCH park while nothing is there, TIMELINE_
 * WAIT_ONE until its point; res is what the ioctl would return. Parked commands end
 * with -ECANCELED when their ring is closed or its task calls execve(2); nothing else
 * of io_uring reaches them, as IORING_OP_ASYNC_CANCEL does not (rlx(4)). Without
 * RLX_FEAT_URING_ASYNC nothing parks: EOPNOTSUPP for SUBMIT without POST and for FETCH
 * without NOWAIT.
 */
struct rlx_uring_cmd {
	__u64	addr;
	__u32	flags;
	__u32	pad;
};

/*
 * SUBMIT, in a ring of 128-byte entries: the payload is struct rlx_uring_rq and
 * nothing is read from memory.
 */
#define RLX_URING_EMBEDDED	(1U << 0)
/*
 * FETCH, of an executor without RLX_EXEC_RING: tags as they come. The SQE also has
 * IORING_URING_CMD_MULTISHOT in uring_cmd_flags, IOSQE_BUFFER_SELECT and a buf_group of
 * provided buffers of 4 bytes and more; of struct rlx_ioc_fetch tags is 0, min 0 or 1,
 * timeout_ns ~0, and max what one CQE may bring. Each CQE has IORING_CQE_F_MORE and
 * names the buffer; res is the bytes in it: 4 for each tag, some tags at a time. A tag
 * is delivered when its CQE is posted.
 *
 * The one without IORING_CQE_F_MORE is the last; nothing was taken for it: -ENOBUFS, no
 * buffer was left, or one of less than 4 bytes; -ENOSPC, no CQE was (what was to be told
 * went back to the queue, but the buffer for it is used up); -EFAULT, a buffer that
 * cannot be written; -EPIPE, the executor is over; -ECANCELED, the ring is closed or its
 * task dead. EOPNOTSUPP without RLX_FEAT_URING_MSHOT, before Linux 6.18.
 */
#define RLX_URING_MULTISHOT	(1U << 1)
/* SUBMIT: do not park, see above. */
#define RLX_URING_POST		(1U << 2)

/**
 * struct rlx_uring_rq - a short request inside the SQE, 80 bytes. Its user_data is
 * the SQE's.
 */
struct rlx_uring_rq {
	__u64	zero;		/* the place of rlx_uring_cmd.addr */
	__u32	uflags;		/* RLX_URING_EMBEDDED, RLX_URING_POST */
	__u32	opcode;
	__u32	flags;		/* RLX_RQ_USER_FLAGS alone */
	__u32	nr_slices;	/* up to 2 */
	__u64	deadline_ns;
	struct rlx_slice slice[2];
};

/**
 * struct rlx_ioc_buffer_register - for io_uring, on an arena: a range of it as a fixed
 * buffer of the ring; the CQE says 0.
 * @offset:   bytes, any
 * @length:   bytes, up to 1 GiB
 * @access:   RLX_R for what takes data out of it (WRITE_FIXED, SEND_ZC), RLX_W, within
 *            what the fd may, for what puts data there (READ_FIXED); or both
 * @index:    a free place in the ring's table of buffers, which was made with
 *            IORING_REGISTER_BUFFERS2 (IORING_RSRC_REGISTER_SPARSE)
 * @reserved: 0
 *
 * It takes the arena's own pages: no mapping is needed, nothing is pinned or charged
 * again but 16 bytes for each huge page, or for each page where they are small. The
 * address of a request that uses the buffer counts from 0 at @offset. The arena lives,
 * and where @access has RLX_W is written, until the ring lets the buffer go: when it is
 * unregistered or updated, or the ring closed, and the last request and clone of it have
 * ended; SEAL with NO_WRITE is EBUSY until then.
 *
 * EINVAL where @index is behind the table's end, EBUSY where it is taken, EPERM where
 * the arena is sealed against writing.
 *
 * EOPNOTSUPP without RLX_FEAT_URING_BUFFERS: before Linux 7.3 a ring takes a kernel
 * buffer of a block device's request alone. Map the arena and register the mapping
 * (IORING_REGISTER_BUFFERS, from Linux 6.5): the ring then pins the pages once more, and
 * charges them once more to RLIMIT_MEMLOCK.
 */
struct rlx_ioc_buffer_register {
	__u64	offset;
	__u64	length;
	__u32	access;
	__u32	index;
	__u64	reserved[2];
};

/**
 * struct rlx_ioc_buffer_unregister - for io_uring, on any arena: the ring lets the fixed
 * buffer at @index go. EINVAL where there is none, EBUSY where it is one of user memory.
 *
 * Requests that use it go on. The arena has it no more (rlx_ioc_arena_info.nr_buffers) when the
 * last of them has ended, which may be after its CQE; in a ring with IORING_SETUP_DEFER_TASKRUN
 * it may take another io_uring_enter() with IORING_ENTER_GETEVENTS.
 */
struct rlx_ioc_buffer_unregister {
	__u32	index;
	__u32	pad;
	__u64	reserved;
};

/**
 * struct rlx_ioc_timeline_wait_one - for io_uring: on the timeline's own fd.
 *
 * A wait under way keeps the fd it came by open: wait by a read-only duplicate,
 * or the last signaller never goes away.
 */
struct rlx_ioc_timeline_wait_one {
	__u64	value;
	__u64	deadline_ns;
};

/* ---- commands --------------------------------------------------------- */

#define RLX_IO(nr, type)	_IOWR(RLX_IOC_MAGIC, nr, type)

/* on a session */
#define RLX_IOC_QUERY		RLX_IO(0x00, struct rlx_ioc_query)
#define RLX_IOC_ARENA_CREATE	RLX_IO(0x01, struct rlx_ioc_arena_create)
#define RLX_IOC_TIMELINE_CREATE	RLX_IO(0x02, struct rlx_ioc_timeline_create)
#define RLX_IOC_TIMELINE_WAIT	RLX_IO(0x03, struct rlx_ioc_timeline_wait)
#define RLX_IOC_SERVICE_CREATE	RLX_IO(0x04, struct rlx_ioc_service_create)
#define RLX_IOC_CONNECT		RLX_IO(0x05, struct rlx_ioc_connect)
/* on an arena */
#define RLX_IOC_ARENA_INFO	RLX_IO(0x10, struct rlx_ioc_arena_info)
#define RLX_IOC_ARENA_EXPORT	RLX_IO(0x11, struct rlx_ioc_arena_export)
#define RLX_IOC_ARENA_DUP	RLX_IO(0x12, struct rlx_ioc_arena_dup)
#define RLX_IOC_ARENA_SEAL	RLX_IO(0x13, struct rlx_ioc_arena_seal)
#define RLX_IOC_ARENA_SYNC	RLX_IO(0x14, struct rlx_ioc_arena_sync)
#define RLX_IOC_BUFFER_REGISTER	RLX_IO(0x15, struct rlx_ioc_buffer_register)
#define RLX_IOC_BUFFER_UNREGISTER RLX_IO(0x16, struct rlx_ioc_buffer_unregister)
/* on a timeline */
#define RLX_IOC_TIMELINE_QUERY	RLX_IO(0x20, struct rlx_ioc_timeline_query)
#define RLX_IOC_TIMELINE_SIGNAL	RLX_IO(0x21, struct rlx_ioc_timeline_signal)
#define RLX_IOC_TIMELINE_DUP	RLX_IO(0x22, struct rlx_ioc_timeline_dup)
#define RLX_IOC_TIMELINE_EVENTFD RLX_IO(0x23, struct rlx_ioc_timeline_eventfd)
#define RLX_IOC_TIMELINE_IMPORT	RLX_IO(0x24, struct rlx_ioc_timeline_import)
#define RLX_IOC_TIMELINE_WAIT_ONE RLX_IO(0x25, struct rlx_ioc_timeline_wait_one)
/* on a service; INFO on executors and channels too */
#define RLX_IOC_SERVICE_INFO	RLX_IO(0x30, struct rlx_ioc_service_info)
#define RLX_IOC_SERVICE_DUP	RLX_IO(0x31, struct rlx_ioc_service_dup)
#define RLX_IOC_EXECUTOR_ATTACH	RLX_IO(0x32, struct rlx_ioc_executor_attach)
/* on an executor */
#define RLX_IOC_FETCH		RLX_IO(0x40, struct rlx_ioc_fetch)
#define RLX_IOC_COMMIT		RLX_IO(0x41, struct rlx_ioc_commit)
#define RLX_IOC_COMMIT_AND_FETCH RLX_IO(0x42, struct rlx_ioc_commit_fetch)
#define RLX_IOC_EXEC_ARENA	RLX_IO(0x43, struct rlx_ioc_exec_arena)
#define RLX_IOC_EXEC_SLICES	RLX_IO(0x44, struct rlx_ioc_exec_slices)
#define RLX_IOC_EXEC_EVENTS	RLX_IO(0x45, struct rlx_ioc_exec_events)
/* on a channel */
#define RLX_IOC_ATTACH		RLX_IO(0x50, struct rlx_ioc_attach)
#define RLX_IOC_DETACH		RLX_IO(0x51, struct rlx_ioc_detach)
#define RLX_IOC_SUBMIT		RLX_IO(0x52, struct rlx_ioc_submit)
#define RLX_IOC_REAP		RLX_IO(0x53, struct rlx_ioc_reap)
#define RLX_IOC_CANCEL		RLX_IO(0x54, struct rlx_ioc_cancel)

#endif
