/* SPDX-License-Identifier: MIT */
/*
 * Arenas: memory that host code, devices, files, sockets and other processes
 * use in place; and buffers, which are slices of arenas.
 */
#ifndef RLX_ARENA_H
#define RLX_ARENA_H

#include <stdint.h>

#include <rlx/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct rlx_arena - one contiguous mapping of memory with a reference count.
 *
 * Where memory comes from is the provider's matter. "kmod" is the kernel module
 * (/dev/rlx): memory pinned from the start, of huge pages where there are any,
 * that devices can import. "memfd" is a file without a name, for which nothing
 * need be installed. The descriptor of both can be passed to another process
 * (SCM_RIGHTS), which then sees the same bytes. "user" is memory the caller owns.
 */
struct rlx_arena;

/**
 * enum rlx_pages - which pages an arena asks for.
 *
 * @RLX_PAGES_AUTO:    the largest there are: hugetlb pages when the pool has
 *                     enough and at least one is filled, else transparent huge
 *                     pages, else 4 KiB
 * @RLX_PAGES_SMALL:   4 KiB
 * @RLX_PAGES_HUGE:    as AUTO; with RLX_ARENA_EXACT, 4 KiB is a failure
 * @RLX_PAGES_HUGETLB: from the hugetlb pool only
 */
enum rlx_pages {
	RLX_PAGES_AUTO,
	RLX_PAGES_SMALL,
	RLX_PAGES_HUGE,
	RLX_PAGES_HUGETLB,
};

/**
 * enum rlx_arena_flags - asked for in options, or reported by an arena.
 *
 * @RLX_ARENA_LAZY:     do not take the memory now. Without it every page is
 *                      there before the call returns, and too little memory is
 *                      RLX_ENOMEM; with it, too little memory later is SIGBUS
 *                      or the OOM killer
 * @RLX_ARENA_NOLOCK:   do not mlock
 * @RLX_ARENA_EXACT:    fail where the pages (HUGE, HUGETLB), the nodes or the
 *                      whole lock cannot be had, instead of telling so in the
 *                      info
 * @RLX_ARENA_RDONLY:   mapped read-only: asked for at open or wrap, or forced
 *                      by the descriptor
 * @RLX_ARENA_UNSEALED: at open, accept a file that its owner may shrink. Using
 *                      it after that is SIGBUS: only for a trusted peer
 * @RLX_ARENA_SHARED:   (reported) has a descriptor other processes can map
 */
enum rlx_arena_flags {
	RLX_ARENA_LAZY		= 1 << 0,
	RLX_ARENA_NOLOCK	= 1 << 1,
	RLX_ARENA_EXACT		= 1 << 2,
	RLX_ARENA_RDONLY	= 1 << 3,
	RLX_ARENA_UNSEALED	= 1 << 4,
	RLX_ARENA_SHARED	= 1 << 8,
};

/**
 * struct rlx_arena_opts - what rlx_arena_new() shall make.
 * @size:     bytes; rounded up to a whole page of the kind got, and unless EXACT to a whole huge
 *            one where at least a quarter of it is asked for
 * @name:     shown in /proc/PID/maps as memfd:rlx-NAME; NULL for none
 * @provider: "kmod" or "memfd"; NULL takes what RLX_ARENA_PROVIDER in the
 *            environment names, else kmod where it can give the memory (but not
 *            for LAZY, NOLOCK or hugetlb, which it has no equal of), else memfd;
 *            why_provider of the info tells why it was not kmod
 * @flags:    LAZY, NOLOCK, EXACT
 * @pages:    enum rlx_pages
 * @nodes:    NUMA nodes as a bit mask: 0 no wish, one bit prefers that node,
 *            several interleave pages over them
 * @reserved: must be 0
 */
struct rlx_arena_opts {
	uint64_t	 size;
	const char	*name;
	const char	*provider;
	uint32_t	 flags;
	uint32_t	 pages;
	uint64_t	 nodes;
	uint64_t	 reserved[4];
};

/**
 * rlx_arena_new - take memory.
 * @opts: what; not kept
 * @out:  the arena, with one reference; NULL on failure
 * @err:  the message of a failure, may be NULL
 *
 * The memory reads as zero. The file is sealed against shrinking and growing,
 * so that no process it is shared with can make another one fault.
 *
 * Context: any thread; sleeps, allocates; time grows with the size (pages are
 * zeroed here). Ownership: rlx_arena_put() by the caller.
 * Return: RLX_EINVAL for size 0, unknown flags or pages, a name over 200
 * bytes; RLX_ERANGE for a size no address space holds; RLX_ENOMEM if the
 * machine or the cgroup has too little; RLX_ENOENT for an unknown provider;
 * RLX_EACCES or RLX_ENOSUP if EXACT and something cannot be had. With "kmod"
 * named also RLX_ENODEV without the module, RLX_EACCES without the right to use
 * it, RLX_ENOSUP if it is of another version, RLX_ENOMEM for RLIMIT_MEMLOCK.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_arena_new(const struct rlx_arena_opts *opts, struct rlx_arena **out,
	      struct rlx_error *err);

/**
 * rlx_arena_open_fd - map an arena that another process made.
 * @fd:    an arena of the module, a memfd, or a file on tmpfs or hugetlbfs; the
 *         caller keeps it, the arena holds a duplicate
 * @flags: RDONLY, LAZY, NOLOCK, UNSEALED
 *
 * A descriptor opened read-only, or a file sealed against writing, gives an
 * arena with RLX_ARENA_RDONLY set. If the file can still shrink, it is sealed
 * against that here; where that is not possible (tmpfs and hugetlbfs files,
 * read-only descriptors) the call is refused unless UNSEALED is given.
 * A seal does not stop a writer from punching holes: the bytes are then zero
 * again. Holes found are filled unless LAZY.
 *
 * Context: any thread; sleeps, allocates. Ownership: rlx_arena_put().
 * Return: RLX_EBADFD if @fd is closed or not such a file; RLX_ERANGE if it is
 * empty; RLX_EACCES if it is write-only, or may shrink; RLX_ENOMEM.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_arena_open_fd(int fd, uint32_t flags, struct rlx_arena **out,
		  struct rlx_error *err);

/**
 * struct rlx_arena_user - memory of the caller for rlx_arena_wrap().
 * @base:    start; 64-byte alignment is best, none is required
 * @size:    bytes
 * @release: called once when the last reference goes, in the thread that put
 *           it; may be NULL
 * @ctx:     for @release
 * @flags:   RLX_ARENA_RDONLY if writing must be refused
 */
struct rlx_arena_user {
	void		*base;
	uint64_t	 size;
	void		 (*release)(void *ctx, void *base, uint64_t size);
	void		*ctx;
	uint32_t	 flags;
};

/**
 * rlx_arena_wrap - make an arena of memory that exists already.
 *
 * Nothing is copied, locked or moved. Such an arena has no descriptor.
 *
 * Context: any thread; allocates. Ownership: the memory stays the caller's and
 * must live until @release is called; on failure @release is not called.
 * Return: RLX_EINVAL for NULL, size 0 or an unknown flag; RLX_ERANGE if the
 * range wraps round the address space; RLX_ENOMEM.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_arena_wrap(const struct rlx_arena_user *user, struct rlx_arena **out,
	       struct rlx_error *err);

/** rlx_arena_get - one more reference. Context: any. Return: @arena. */
RLX_EXPORT struct rlx_arena *rlx_arena_get(struct rlx_arena *arena);

/**
 * rlx_arena_put - give a reference back; the last one unmaps the memory.
 * @arena: may be NULL
 * Context: any thread; the last put sleeps and calls the release function.
 */
RLX_EXPORT void rlx_arena_put(struct rlx_arena *arena);

/** rlx_arena_base - address of the first byte. Context: any. */
RLX_EXPORT void *rlx_arena_base(const struct rlx_arena *arena);
/** rlx_arena_size - bytes that may be used. Context: any. */
RLX_EXPORT uint64_t rlx_arena_size(const struct rlx_arena *arena);
/** rlx_arena_flags - enum rlx_arena_flags as they hold now. Context: any. */
RLX_EXPORT uint32_t rlx_arena_flags(const struct rlx_arena *arena);
/**
 * rlx_arena_fd - the descriptor, to be sent with SCM_RIGHTS; -1 if none.
 * Context: any. Ownership: the arena's; whoever wants to keep it dups it.
 * Whoever gets it may write, unless the arena is sealed or read-only: see
 * rlx_arena_dup_readonly().
 */
RLX_EXPORT int rlx_arena_fd(const struct rlx_arena *arena);

/**
 * rlx_arena_dup_readonly - a descriptor that maps only for reading.
 * @out_fd: closed by the caller
 *
 * The descriptor itself refuses writing and writable mappings. With kmod that is
 * all there is to it. A memfd binds only a receiver who plays by it: a process
 * of the same user can open the file again through /proc/self/fd for writing.
 * Against that stands the seal RLX_SEAL_FUTURE_WRITE (rlx_arena_seal()), which
 * holds for every descriptor of the file, while mappings that exist, ours among
 * them, keep writing.
 *
 * Context: any thread; sleeps. Return: RLX_ENOSUP for an arena without a
 * descriptor; RLX_EACCES if /proc is not mounted or forbids it; RLX_ENOMEM if
 * descriptors ran out.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_arena_dup_readonly(struct rlx_arena *arena, int *out_fd,
		       struct rlx_error *err);

/**
 * enum rlx_seal - what can be forbidden for good. Shrinking and growing are
 * forbidden from the start.
 *
 * @RLX_SEAL_FUTURE_WRITE: no new writable mapping and no write(), by anyone;
 *                         present mappings keep writing
 * @RLX_SEAL_WRITE:        nobody writes any more. Our mapping becomes
 *                         read-only; the content is fixed for all who map it
 * @RLX_SEAL_SEAL:         no further seal
 */
enum rlx_seal {
	RLX_SEAL_FUTURE_WRITE	= 1 << 0,
	RLX_SEAL_WRITE		= 1 << 1,
	RLX_SEAL_SEAL		= 1 << 2,
};

/**
 * rlx_arena_seal - forbid for good, in every process.
 * @seals: enum rlx_seal, or-ed
 *
 * Context: any thread; sleeps. With RLX_SEAL_WRITE no thread may be writing to
 * the arena: one that does gets SIGSEGV.
 * Return: RLX_EBUSY if WRITE is asked for while another process, or a device
 * that pinned the pages, can still write; RLX_EACCES if sealed before or the
 * descriptor is read-only; RLX_ENOSUP without a descriptor or where the file
 * takes no seals; RLX_EINVAL for an unknown seal. The arena is unchanged then,
 * but for one: if FUTURE_WRITE held before and WRITE fails, our mapping is
 * read-only afterwards, as it could not be made writable again.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_arena_seal(struct rlx_arena *arena, uint32_t seals, struct rlx_error *err);

/**
 * struct rlx_arena_info - what an arena got, and why not more.
 * @provider:    "kmod", "memfd" or "user"
 * @bytes:       size
 * @page_bytes:  size of the pages the file is made of: 4096 (also when huge
 *               pages were put together from them) or a hugetlb size
 * @bytes_huge:  mapped with huge pages now, counted in /proc/self/smaps
 * @bytes_there: in memory and mapped now, by the same count
 * @bytes_locked: cannot be swapped out: the module's, mlocked, or hugetlb
 * @node:        NUMA node of most pages looked at; -1 unknown
 * @flags:       enum rlx_arena_flags
 * @seals:       enum rlx_seal that hold
 * @buffers:     live buffers of rlx_buf_new()
 * @bytes_used:  taken by them
 * @why_pages:   why pages are no larger; empty if they are as large as asked
 * @why_lock:    why not all is locked; empty if it is
 * @why_node:    why the nodes asked for were not got; empty if they were
 * @why_provider: why it was not the module, though it would have been preferred;
 *               empty if it was, or a provider was named
 */
struct rlx_arena_info {
	const char	*provider;
	uint64_t	 bytes, page_bytes, bytes_huge, bytes_there;
	uint64_t	 bytes_locked;
	int32_t		 node;
	uint32_t	 flags, seals;
	uint64_t	 buffers, bytes_used;
	char		 why_pages[224], why_lock[224], why_node[224];
	char		 why_provider[224];
};

/**
 * rlx_arena_info - tell what an arena got.
 * Context: any thread; sleeps (reads /proc, milliseconds); no allocation.
 */
RLX_EXPORT void rlx_arena_info(struct rlx_arena *arena,
			       struct rlx_arena_info *out);

/**
 * struct rlx_buf - a slice of an arena; a value, copied freely.
 *
 * A buffer holds no reference: whoever keeps one keeps its arena.
 */
struct rlx_buf {
	struct rlx_arena	*arena;
	uint64_t		 offset, bytes;
};

/**
 * rlx_buf_new - take a slice of an arena that no other buffer overlaps.
 * @bytes: 0 gives an empty buffer that takes nothing
 * @align: power of two, at most 2 MiB, of the address; 0 means 64
 *
 * Slices are handed out in steps of 64 bytes, so that no two share a cache
 * line. Nothing is written into the arena. Using an arena through fixed
 * offsets and through this call at once is for the caller to keep apart.
 *
 * Context: any thread; takes the arena's lock, may allocate.
 * Ownership: rlx_buf_free(), or all at once with the arena.
 * Return: RLX_ENOMEM if no gap is large enough; RLX_EINVAL for a bad @align.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_buf_new(struct rlx_arena *arena, uint64_t bytes, uint64_t align,
	    struct rlx_buf *out, struct rlx_error *err);

/**
 * rlx_buf_free - give a slice back.
 * @buf: exactly as rlx_buf_new() gave it; not a slice of it
 * Context: any thread; takes the arena's lock; does not allocate.
 * Return: RLX_ENOENT if no such buffer is live (freed twice, or a slice).
 */
RLX_EXPORT enum rlx_status rlx_buf_free(struct rlx_buf buf,
					struct rlx_error *err);

/**
 * rlx_buf_whole - the whole arena as a buffer. Context: any.
 */
RLX_EXPORT struct rlx_buf rlx_buf_whole(struct rlx_arena *arena);

/**
 * rlx_buf_slice - a part of a buffer, checked.
 * @offset: from the start of @buf
 * Context: any; neither sleeps nor allocates. Ownership: owns nothing.
 * Return: RLX_ERANGE if the part is not inside @buf or @buf not inside its
 * arena; RLX_EINVAL if @buf has no arena.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_buf_slice(struct rlx_buf buf, uint64_t offset, uint64_t bytes,
	      struct rlx_buf *out, struct rlx_error *err);

/**
 * rlx_buf_ptr - the address of a buffer's first byte, NULL if the buffer is
 * not inside its arena. Context: any.
 */
RLX_EXPORT void *rlx_buf_ptr(struct rlx_buf buf);

/**
 * rlx_arena_export - a range of an arena as a dma-buf, for a device to import.
 * @range:  whole pages, less than 4 GiB (importers keep the size in 32 bits)
 * @flags:  RLX_ARENA_RDONLY if importers may only read
 * @out_fd: closed by the caller; -1 on failure
 *
 * The pages stay while a dma-buf of them lives, also when the arena is put. The
 * module exports any of its arenas. For a memfd this goes through /dev/udmabuf,
 * where the machine has it and lets the caller open it; that exports for writing
 * only, and limits the size (size_limit_mb of the module udmabuf).
 *
 * Context: any thread; sleeps. Return: RLX_EINVAL if the range is empty or not of
 * whole pages, or for an unknown flag; RLX_ERANGE if it leaves the arena or is too
 * long; RLX_EACCES if the arena is read-only or sealed and RDONLY is not given;
 * RLX_ENOSUP for memory of the caller, or a memfd without udmabuf; RLX_ENOMEM if
 * descriptors ran out.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_arena_export(struct rlx_buf range, uint32_t flags, int *out_fd,
		 struct rlx_error *err);

/**
 * struct rlx_stats - counts of the whole process since it started.
 * @bytes_copied: by convenience calls that copy in or out; 0 is the aim
 * @copies:       such calls
 * @arenas:       alive now
 * @bytes_mapped: in arenas alive now that we mapped (not wrapped)
 * @bytes_pinned: of these, locked or hugetlb
 * @arenas_made:  ever
 */
struct rlx_stats {
	uint64_t bytes_copied, copies;
	uint64_t arenas, bytes_mapped, bytes_pinned;
	uint64_t arenas_made;
	uint64_t reserved[10];
};

/** rlx_stats_read - the counts now, each by itself exact. Context: any. */
RLX_EXPORT void rlx_stats_read(struct rlx_stats *out);

#ifdef __cplusplus
}
#endif
#endif
