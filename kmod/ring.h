/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory that user space maps, and rings in it whose words are not to be trusted. */
#ifndef RLX_RING_H
#define RLX_RING_H

#include <linux/err.h>
#include <linux/types.h>
#include <linux/rlx.h>

#include "account.h"

struct page;
struct rlx_session;
struct vm_area_struct;

/*
 * Zeroed pages at one kernel address. Mappings hold references on the pages, so
 * the end of an area never takes memory away from under a mapping.
 */
struct rlx_area {
	struct page **pages;
	void *addr;
	unsigned long nr;
	struct rlx_charge charge;
};

/* @session is charged; -ENOMEM, or what the account says. May sleep; no lock held. */
int rlx_area_init(struct rlx_area *area, struct rlx_session *session, size_t bytes);
/* An area that is all zero is fine too. */
void rlx_area_fini(struct rlx_area *area);

/*
 * For .mmap: from the beginning of the area, no further than its end. A read-only
 * area can never become writable. -EINVAL, -EACCES.
 */
int rlx_area_map(const struct rlx_area *area, struct vm_area_struct *vma, bool write);

/*
 * A ring with one consumer, in user space, and one producer at a time, under the
 * lock of the queue. Only what lies here is believed; of the shared words the
 * kernel reads two of the consumer's page, each once where it is needed, and what
 * it writes it never reads back.
 */
struct rlx_ringbuf {
	u32 tail;
	u32 mask;
	int error;			/* -EPROTO once broken */
	struct rlx_ring *head;		/* shared; entries follow */
	void *entry;			/* shared */
	struct rlx_ring_user *user;	/* shared, writable by the consumer */
	struct rlx_area ro, rw;
};

/* @entries: a power of two. */
int rlx_ringbuf_init(struct rlx_ringbuf *r, struct rlx_session *session, u32 entries,
		     u32 entry_bytes);
void rlx_ringbuf_fini(struct rlx_ringbuf *r);

/*
 * Entries written and not consumed. -EPROTO, and from then on always, where the
 * consumer's word makes no sense.
 */
int rlx_ringbuf_used(struct rlx_ringbuf *r);

static inline void rlx_ringbuf_put_tag(struct rlx_ringbuf *r, u32 tag)
{
	WRITE_ONCE(((u32 *)r->entry)[r->tail++ & r->mask], tag);
}

/* The next entry to fill, of a ring of completions. */
static inline struct rlx_cqe *rlx_ringbuf_next_cqe(struct rlx_ringbuf *r)
{
	return &((struct rlx_cqe *)r->entry)[r->tail++ & r->mask];
}

/* What was put becomes visible. */
static inline void rlx_ringbuf_publish(struct rlx_ringbuf *r)
{
	smp_store_release(&r->head->tail, r->tail);
}

/*
 * Whether the consumer sleeps or is about to. After rlx_ringbuf_publish(): the
 * barrier pairs with the consumer's between its store of need_wakeup and its load
 * of tail, so that one of the two sees the other's store.
 */
static inline bool rlx_ringbuf_asleep(const struct rlx_ringbuf *r)
{
	smp_mb();
	return READ_ONCE(r->user->need_wakeup) != 0;
}

#endif
