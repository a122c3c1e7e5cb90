// SPDX-License-Identifier: GPL-2.0-only
/* Memory that user space maps, and rings in it. */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "arena.h"
#include "compat.h"
#include "device.h"
#include "ring.h"

#define RLX_RING_BYTES	64	/* of the header: entries follow */

static_assert(sizeof(struct rlx_ring) <= RLX_RING_BYTES);
static_assert(sizeof(struct rlx_ring_user) <= PAGE_SIZE);

/* ---- areas ---- */

/* Pages that are given back at once. */
#define RLX_AREA_BATCH	512UL

/* Many at a time: each alone would be uncharged alone, and who is killed waits for all. */
static void rlx_area_free_pages(struct rlx_area *area)
{
	unsigned long n;

	for (; area->nr; area->nr -= n) {
		n = min(area->nr, RLX_AREA_BATCH);
		release_pages(area->pages + area->nr - n, n);
		cond_resched();
	}
	kvfree(area->pages);
	area->pages = NULL;
}

/* What arenas of the dead still have is charged to the same account. */
static int rlx_area_charge(struct rlx_area *area, struct rlx_session *session,
			   unsigned long nr)
{
	u64 first = rlx_arena_end_seq();
	int err = rlx_account_charge(&area->charge, session, nr);

	if (err == -ENOMEM && rlx_arena_wait_ended(first))
		err = rlx_account_charge(&area->charge, session, nr);
	return err;
}

int rlx_area_init(struct rlx_area *area, struct rlx_session *session, size_t bytes)
{
	unsigned long nr = DIV_ROUND_UP(bytes, PAGE_SIZE);
	int err = rlx_area_charge(area, session, nr);

	if (err)
		return err;
	err = -ENOMEM;
	area->nr = 0;
	area->pages = kvcalloc(nr, sizeof(*area->pages), GFP_KERNEL_ACCOUNT);
	if (!area->pages)
		goto out_uncharge;
	while (area->nr < nr) {
		struct page *page = rlx_killed() ? NULL :
				    alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);

		if (!page)
			goto out_free_pages;
		area->pages[area->nr++] = page;
	}
	/* What vmalloc keeps of it no cgroup pays: pages of the user's caps bound that. */
	area->addr = vmap(area->pages, nr, VM_MAP, PAGE_KERNEL);
	if (!area->addr)
		goto out_free_pages;
	return 0;

out_free_pages:
	rlx_area_free_pages(area);
out_uncharge:
	rlx_account_uncharge(&area->charge);
	return err;
}

void rlx_area_fini(struct rlx_area *area)
{
	if (!area->addr)
		return;
	vunmap(area->addr);
	area->addr = NULL;
	rlx_area_free_pages(area);
	rlx_account_uncharge(&area->charge);
}

int rlx_area_map(const struct rlx_area *area, struct vm_area_struct *vma, bool write)
{
	unsigned long nr = vma_pages(vma), left = nr;

	if (nr > area->nr || rlx_vma_is_cow(vma))
		return -EINVAL;
	if (!write && (vma->vm_flags & VM_WRITE))
		return -EACCES;
	/* A child must not keep its parent's executor or channel alive. */
	rlx_vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY);
	if (!write)
		rlx_vm_flags_clear(vma, VM_MAYWRITE);
	return vm_insert_pages(vma, vma->vm_start, area->pages, &left);
}

/* ---- rings ---- */

int rlx_ringbuf_init(struct rlx_ringbuf *r, struct rlx_session *session, u32 entries,
		     u32 entry_bytes)
{
	int err = rlx_area_init(&r->ro, session,
				RLX_RING_BYTES + (size_t)entries * entry_bytes);

	if (err)
		return err;
	err = rlx_area_init(&r->rw, session, sizeof(struct rlx_ring_user));
	if (err) {
		rlx_area_fini(&r->ro);
		return err;
	}
	r->tail = 0;
	r->mask = entries - 1;
	r->error = 0;
	r->head = r->ro.addr;
	r->entry = r->ro.addr + RLX_RING_BYTES;
	r->user = r->rw.addr;
	r->head->mask = r->mask;
	r->head->entry_bytes = entry_bytes;
	return 0;
}

void rlx_ringbuf_fini(struct rlx_ringbuf *r)
{
	rlx_area_fini(&r->rw);
	rlx_area_fini(&r->ro);
}

int rlx_ringbuf_used(struct rlx_ringbuf *r)
{
	u32 used = r->tail - READ_ONCE(r->user->head);

	if (unlikely(used > r->mask + 1 || r->error)) {
		WRITE_ONCE(r->error, -EPROTO);
		WRITE_ONCE(r->head->error, -EPROTO);
		return -EPROTO;
	}
	return (int)used;
}
