/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arenas: pinned pages with rights. The pages never change from publication to
 * the end; fds, mappings, exports and attachments keep the arena, not a name.
 */
#ifndef RLX_ARENA_H
#define RLX_ARENA_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rlx.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "account.h"
#include "table.h"

struct file;
struct inode;
struct rlx_arena;
struct rlx_call;
struct rlx_session;
struct vm_area_struct;

/**
 * struct rlx_arena_ops - where the pages came from.
 * @foreign: from nowhere that is ours to look at: the table is empty, and nothing is
 *           charged
 * @release: gives back what a->table has from a->let_go on (it may be less than
 *           a->size, if making failed) and a->source; process context, may sleep;
 *           the table itself stays. False: by rlx_arena_stop() it stopped before
 *           that, with a->let_go at the rest, and is called again
 * @mmap:    maps an arena fd, called with the range checked and VM_DONTEXPAND
 *           and VM_DONTDUMP set; NULL: mmap is -ENODEV
 * @area:    get_unmapped_area of an arena fd; NULL: aligned for huge pages
 * @seal:    before NO_WRITE is set, with writers kept out: 0 or -EBUSY while
 *           somebody beyond our sight may write; may sleep; NULL: nobody
 * @write_sealed: whether what the pages are of is sealed against writing; any
 *           context; NULL: never
 */
struct rlx_arena_ops {
	bool	foreign;
	bool	(*release)(struct rlx_arena *a);
	int	(*mmap)(struct rlx_arena *a, struct vm_area_struct *vma);
	unsigned long (*area)(struct rlx_arena *a, struct file *file,
			      unsigned long addr, unsigned long len,
			      unsigned long pgoff, unsigned long flags);
	int	(*seal)(struct rlx_arena *a);
	bool	(*write_sealed)(const struct rlx_arena *a);
};

/**
 * struct rlx_arena_ending - an arena whose end is put off.
 * @node: in rlx_dev.ending
 * @seq:  its sequence number
 */
struct rlx_arena_ending {
	struct list_head	node;
	u64			seq;
};

/**
 * struct rlx_arena - see above.
 * @ref:       every fd, export and attachment has one
 * @ops:       of the source
 * @source:    of the source
 * @id:        in INFO, in traces
 * @size:      bytes
 * @cookie:    as given
 * @kind:      enum rlx_kind
 * @flags:     RLX_AF_*, as given
 * @table:     the pages, none of them if foreign; constant once published
 * @let_go:    of these the end has given back; with the last reference
 * @nr_huge:   huge pages among them; constant once published
 * @nr_chunks: contiguous pieces; constant once published
 * @charge:    who pays
 * @session:   it was made through; for its count
 * @inode:     all its fds are of this one: huge, so that the kernel maps
 *             PMDs, and without writeback, so that mappings can be pinned
 * @writers:   writable mappings, exports, buffers and attachments; below 0 once
 *             NO_WRITE or FUTURE_WRITE is set: this word alone decides who was
 *             first
 * @leases:    attachments, the same with NO_ATTACH
 * @exports:   live dma-bufs, the same with NO_EXPORT
 * @buffers:   fixed buffers of io_uring rings
 * @seal_lock: one SEAL at a time
 * @seals:     RLX_KSEAL_*; written under @seal_lock, read anywhere
 * @node:      in rlx_dev.arenas once published, protected by rlx_dev.lock
 * @put_work:  the end, where putting must not sleep or a task dies
 * @ending:    then among those that end; protected by rlx_dev.end_lock
 *
 * @export_lock: protects @export_list
 * @export_list:   devices that use an export; dmabuf.c
 */
struct rlx_arena {
	struct kref			ref;
	const struct rlx_arena_ops	*ops;
	void				*source;

	u64				id;
	u64				size;
	u64				cookie;
	u32				kind;
	u32				flags;
	struct rlx_table		table;
	unsigned long			let_go;
	unsigned long			nr_huge;
	unsigned long			nr_chunks;
	struct rlx_charge		charge;
	struct rlx_session		*session;
	struct inode			*inode;

	atomic_long_t			writers;
	atomic_long_t			leases;
	atomic_long_t			exports;
	atomic_long_t			buffers;
	struct mutex			seal_lock;
	u32				seals;

	struct list_head		node;
	struct work_struct		put_work;
	struct rlx_arena_ending		ending;

	struct mutex			export_lock;
	struct list_head		export_list;
};

/* ---- making one: for the sources (alloc.c, pin.c) ---------------------- */

/**
 * rlx_arena_new - an arena without pages, charged and counted.
 * @session: who makes it
 * @ops:     of the source
 * @c:       what was asked for, checked
 *
 * The source then appends all pages to ->table (rlx_table_append), sets
 * ->nr_huge and ->source, and calls rlx_arena_publish(). On failure it calls
 * rlx_arena_put(), which calls ops->release.
 *
 * Return: arena, or -ENOMEM, -EPERM (memlock), -ENOSPC (arenas of the session).
 */
struct rlx_arena *rlx_arena_new(struct rlx_session *session,
				const struct rlx_arena_ops *ops,
				const struct rlx_ioc_arena_create *c);

/* For the source, before publication: nobody writes the pages any more. */
void rlx_arena_born_sealed(struct rlx_arena *a);

/* For ops->release, between steps of a length of ours: whether to leave the rest. May sleep. */
bool rlx_arena_stop(void);

/* Completes it: from here on nothing but counts changes. No fd is made. */
void rlx_arena_publish(struct rlx_arena *a);

/* KERNEL arenas: alloc.c. Published, or an error. */
struct rlx_arena *rlx_alloc_arena(struct rlx_session *session,
				  const struct rlx_ioc_arena_create *c);

/* ---- having one -------------------------------------------------------- */

struct rlx_arena *rlx_arena_get(struct rlx_arena *a);
/* Any context: the end itself is a work item. */
void rlx_arena_put(struct rlx_arena *a);
/*
 * Process context: with the last reference the memory is back on return, but for a task
 * that was killed or exits: to it the end is a work item, too.
 */
void rlx_arena_put_now(struct rlx_arena *a);

/* Sequence number of the first whose end is put off and goes on, or of the next there will be. */
u64 rlx_arena_end_seq(void);

/**
 * rlx_arena_wait_ended - what those have that died is as good as free: wait for it.
 * @first: rlx_arena_end_seq() from before the try that was refused
 *
 * For who was refused for want of memory or room; at most some seconds. Process context,
 * no lock held.
 *
 * Return: whether to try once more: not if none was ending then nor has begun to since,
 * nor if the task was killed.
 */
bool rlx_arena_wait_ended(u64 first);

/**
 * rlx_arena_get_fd - the arena behind an fd of the caller's.
 * @fd:     any number
 * @access: out, if not NULL: RLX_R, RLX_W: what the fd may
 *
 * Return: a reference, or -EBADF (not open), -EINVAL (not an arena).
 */
struct rlx_arena *rlx_arena_get_fd(int fd, u32 *access);

/**
 * rlx_arena_file_new - another file of @a.
 * @a:      published; the file takes a reference of its own
 * @access: RLX_R or RLX_R | RLX_W
 */
struct file *rlx_arena_file_new(struct rlx_arena *a, u32 access);

static inline u32 rlx_arena_seals(const struct rlx_arena *a)
{
	return READ_ONCE(a->seals);
}

/* Whether it is sealed against new writers, itself or what it was made of. */
bool rlx_arena_write_sealed(const struct rlx_arena *a);

/* ---- using it: any context, no locks ----------------------------------- */

/* NULL behind the end. The page lives as long as the caller's reference. */
static inline struct page *rlx_arena_page(const struct rlx_arena *a,
					  unsigned long pgoff)
{
	return rlx_table_page(&a->table, pgoff);
}

/* Contiguous pages from @pgoff, at most @max; 0 behind the end. */
static inline unsigned long rlx_arena_run(const struct rlx_arena *a,
					  unsigned long pgoff,
					  unsigned long max, struct page **page)
{
	return rlx_table_run(&a->table, pgoff, max, page);
}

/* Attachments, dma-bufs and fixed buffers there are, sealed or not. */
long rlx_arena_nr_leases(const struct rlx_arena *a);
long rlx_arena_nr_exports(const struct rlx_arena *a);
long rlx_arena_nr_buffers(const struct rlx_arena *a);

/* -EOVERFLOW if the sum wraps, -EINVAL if the range leaves the arena or is 0. */
int rlx_arena_check_range(const struct rlx_arena *a, u64 offset, u64 length);

/* Copies from the pages; the range is the caller's to check. Does not sleep. */
int rlx_arena_read(const struct rlx_arena *a, u64 offset, void *dst, size_t n);

/**
 * rlx_arena_writer_get - be somebody who can write.
 *
 * Return: 0, or -EPERM if the arena is sealed against it.
 */
int rlx_arena_writer_get(struct rlx_arena *a);
/* One more where there is one: what fork() does with a mapping, seal or not. */
void rlx_arena_writer_copy(struct rlx_arena *a);
void rlx_arena_writer_put(struct rlx_arena *a);

/**
 * rlx_arena_lease - an attachment: counted, and a writer if @access says so.
 * @a:      the caller has a reference
 * @access: RLX_R, RLX_W
 *
 * Takes a reference. Callable under spinlocks.
 *
 * Return: 0, or -EPERM (sealed against attaching, or against writing).
 */
int rlx_arena_lease(struct rlx_arena *a, u32 access);
void rlx_arena_unlease(struct rlx_arena *a, u32 access);

/**
 * rlx_arena_attach_get - lease the arena behind an fd.
 * @fd:     of the caller
 * @access: RLX_R, RLX_W: within what the fd may, else -EACCES
 *
 * Return: the arena, or as rlx_arena_get_fd(), -EPERM (sealed).
 */
struct rlx_arena *rlx_arena_attach_get(int fd, u32 access);
static inline void rlx_arena_attach_put(struct rlx_arena *a, u32 access)
{
	rlx_arena_unlease(a, access);
}

/**
 * rlx_arena_export_get - a dma-buf: counted, and a writer if @access says so.
 *
 * Takes a reference. Return: 0, or -EPERM (sealed against it).
 */
int rlx_arena_export_get(struct rlx_arena *a, u32 access);
void rlx_arena_export_put(struct rlx_arena *a, u32 access);

/**
 * rlx_arena_buffer_get - a fixed buffer: counted, and a writer if @access says so.
 *
 * Takes a reference. Return: 0, or -EPERM (sealed against writing).
 */
int rlx_arena_buffer_get(struct rlx_arena *a, u32 access);
/* Any context. */
void rlx_arena_buffer_put(struct rlx_arena *a, u32 access);

/* ---- ioctls and file operations ---------------------------------------- */

long rlx_arena_ioctl_create(struct rlx_call *call);	/* on a session */
int rlx_arena_mmap(struct file *file, struct vm_area_struct *vma);
/* The mapping of pages of ours: the ops->mmap of KERNEL arenas. */
int rlx_arena_mmap_pages(struct rlx_arena *a, struct vm_area_struct *vma);

#endif
