// SPDX-License-Identifier: GPL-2.0-only
/* The pages of KERNEL arenas: huge where they can be had, zeroed, charged. */
#include <linux/bitops.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/nospec.h>

#include "arena.h"
#include "compat.h"
#include "device.h"

/*
 * Between a huge page and a small one: contiguity that an IOMMU and a fault can
 * use, and that a machine up for long still has.
 */
#define RLX_ALLOC_ORDER_MID	4

/* Small pages that are let go at a time: a folio_batch of mm's, so as to be one there. */
#define RLX_ALLOC_BATCH		31

/**
 * struct rlx_alloc - where filling an arena stands.
 * @nid:     node to begin with, or NUMA_NO_NODE: by the caller's policy
 * @nodes:   those of BIND and INTERLEAVE, a bit each, or 0
 * @bind:    no others
 * @turns:   each of them in turn, @nid next
 * @order:   largest one still tried: what failed once is not asked for again
 * @require: @order or nothing
 */
struct rlx_alloc {
	int	nid;
	u64	nodes;
	bool	bind;
	bool	turns;
	int	order;
	bool	require;
};

static int rlx_alloc_next_order(int order)
{
	return order > RLX_ALLOC_ORDER_MID ? RLX_ALLOC_ORDER_MID : 0;
}

/*
 * Never the OOM killer: an arena that does not fit is an error of its creator.
 * Never __GFP_MOVABLE: the pages are pinned from birth. Memory of a user's, though:
 * where his cpuset and memory policy let it be.
 */
static gfp_t rlx_alloc_gfp(const struct rlx_alloc *s, int order)
{
	gfp_t gfp = GFP_USER | __GFP_ACCOUNT | __GFP_ZERO | __GFP_COMP | __GFP_NOWARN;

	if (order && !s->require)
		return gfp | __GFP_NORETRY;
	return gfp | __GFP_RETRY_MAYFAIL;
}

/* Which is one that is online, or none: the caller checked. */
static int rlx_alloc_first_node(const struct rlx_ioc_arena_create *c)
{
	if (c->nodes)
		return __ffs64(c->nodes);
	if (c->numa_node == NUMA_NO_NODE)
		return NUMA_NO_NODE;
	return array_index_nospec(c->numa_node, MAX_NUMNODES);
}

/* The node after @nid among @nodes, which are not 0, and after the last the first. */
static int rlx_alloc_next_node(u64 nodes, int nid)
{
	u64 after = nid < 63 ? nodes & ~0ULL << (nid + 1) : 0;

	return __ffs64(after ?: nodes);
}

static struct page *rlx_alloc_pages(struct rlx_alloc *s, int order)
{
	gfp_t gfp = rlx_alloc_gfp(s, order);
	struct page *page = NULL;
	int nid = s->nid;

	if (!s->nodes)
		return nid == NUMA_NO_NODE ? alloc_pages(gfp, order) :
					     alloc_pages_node(nid, gfp, order);
	do {
		page = alloc_pages_node(nid, gfp | __GFP_THISNODE, order);
		if (!page)
			nid = rlx_alloc_next_node(s->nodes, nid);
	} while (!page && nid != s->nid);
	if (!page && !s->bind)
		page = alloc_pages_node(nid, gfp, order);
	if (s->turns)
		s->nid = rlx_alloc_next_node(s->nodes, nid);
	return page;
}

static struct page *rlx_alloc_piece(struct rlx_alloc *s, unsigned long left)
{
	struct page *page;
	int order = s->order;

	for (;;) {
		while (order && left < 1UL << order)
			order = rlx_alloc_next_order(order);
		page = rlx_alloc_pages(s, order);
		if (page || !order || s->require)
			return page;
		order = rlx_alloc_next_order(order);
		s->order = order;
	}
}

/*
 * Who pays for a large page is put aside while it is the arena's. To mm a mapped
 * folio that is no page table or slab is charged as user memory is; where madvise()
 * wants to reclaim a part of one, it looks up its memcg (to split it) before it finds
 * that this one has no mapping and stays whole, and for memory charged as a kernel's
 * that takes a lock it does not hold: lockdep warns. A folio that seems not charged
 * asks for none. The other ways to keep such folios from there cost more: VM_IO and
 * VM_PFNMAP the pins of devices, VM_LOCKED is not for special mappings, and without
 * __GFP_ACCOUNT nobody would pay. ->private is the owner's where PG_private is not
 * set. The charge stays taken, and is given back with the page, by whoever has it last.
 */
static void rlx_alloc_hide_charge(struct page *page)
{
#ifdef CONFIG_MEMCG
	if (!compound_order(page))
		return;
	set_page_private(page, page->memcg_data);
	page->memcg_data = 0;
#endif
}

static void rlx_alloc_show_charge(struct page *page)
{
#ifdef CONFIG_MEMCG
	if (!compound_order(page))
		return;
	page->memcg_data = page_private(page);
	set_page_private(page, 0);
#endif
}

static int rlx_alloc_fill(struct rlx_arena *a, struct rlx_alloc *s)
{
	while (a->table.filled < a->table.nr) {
		unsigned long at = a->table.filled;
		struct page *page;
		int ret;

		if (rlx_killed())
			return -EINTR;
		page = rlx_alloc_piece(s, a->table.nr - at);
		if (!page)
			return -ENOMEM;
		/*
		 * A folio that seems to lie behind the end of the file is mapped
		 * small, and what was here before left anything in the index.
		 */
		page_folio(page)->index = at;
		ret = rlx_table_append(&a->table, page, compound_nr(page));
		if (ret) {
			put_page(page);
			return ret;
		}
		rlx_alloc_hide_charge(page);
		if (compound_order(page) == RLX_HUGE_ORDER)
			a->nr_huge++;
	}
	return 0;
}

/*
 * Whoever pinned a page keeps it, and gives it back to the system with the last
 * reference; ours is only one of them. Small pages go many at a time, as mm gives back
 * those of a process: each alone would be uncharged alone.
 */
static bool rlx_alloc_release(struct rlx_arena *a)
{
	struct page *small[RLX_ALLOC_BATCH];
	int n = 0;

	while (a->let_go < a->table.filled && (n || !rlx_arena_stop())) {
		struct page *page = rlx_arena_page(a, a->let_go);

		a->let_go += compound_nr(page);
		if (compound_order(page)) {
			rlx_alloc_show_charge(page);
			put_page(page);
		} else {
			small[n++] = page;
		}
		if (n == RLX_ALLOC_BATCH || a->let_go >= a->table.filled) {
			release_pages(small, n);
			n = 0;
		}
	}
	return a->let_go >= a->table.filled;
}

/* How often a folio is looked at: 150 ms in all, as memfd waits for its pins. */
#define RLX_ALLOC_SEAL_TRIES	5

/*
 * Has anybody the folio beside the arena? Who reads a mapping comes back by a fault after it is
 * unmapped, and without mappings there is one reference, the arena's: all others may be of who
 * writes, or end in a moment, as those of direct I/O do that has just told its user. The folios
 * behind it are unmapped with it, but no more at a time than a killed task may take.
 */
static int rlx_alloc_wait_alone(struct rlx_arena *a, unsigned long at, struct folio *folio)
{
	int i;

	for (i = 0; folio_ref_count(folio) != 1; i++) {
		if (i == RLX_ALLOC_SEAL_TRIES)
			return -EBUSY;
		if (i)
			schedule_timeout_killable((HZ << i) / 200);
		if (rlx_killed())
			return -EINTR;
		unmap_mapping_range(a->inode->i_mapping, (loff_t)at << PAGE_SHIFT,
				    RLX_HUGE_PAGES << PAGE_SHIFT, 1);
	}
	return 0;
}

/*
 * A device or ring that pinned a writable mapping can write after the mapping is gone,
 * and so can who only has references: direct I/O before 6.3, and in some file systems
 * since. The kernel cannot tell those for writing from others: it errs towards EBUSY.
 */
static int rlx_alloc_seal(struct rlx_arena *a)
{
	unsigned long at = 0;
	int ret;

	while (at < a->table.filled) {
		struct page *page = rlx_arena_page(a, at);

		ret = rlx_alloc_wait_alone(a, at, page_folio(page));
		if (ret)
			return ret;
		if (rlx_killed())
			return -EINTR;
		at += compound_nr(page);
	}
	return 0;
}

static const struct rlx_arena_ops rlx_alloc_ops = {
	.release	= rlx_alloc_release,
	.mmap		= rlx_arena_mmap_pages,
	.seal		= rlx_alloc_seal,
};

struct rlx_arena *rlx_alloc_arena(struct rlx_session *session,
				  const struct rlx_ioc_arena_create *c)
{
	const u32 huge = RLX_AF_HUGE_TRY | RLX_AF_HUGE_REQUIRE;
	/*
	 * A kernel without transparent huge pages must not find large folios in
	 * a mapping: MADV_COLD and MADV_PAGEOUT of a part want it split, are told
	 * by a stub that it was, and look again, for ever and not to be killed.
	 */
	const bool can = IS_ENABLED(CONFIG_TRANSPARENT_HUGEPAGE);
	struct rlx_alloc s = {
		.nid = rlx_alloc_first_node(c),
		.nodes = c->nodes,
		.bind = c->flags & RLX_AF_NUMA_BIND,
		.turns = c->flags & RLX_AF_NUMA_INTERLEAVE,
		.order = can && c->flags & huge ? RLX_HUGE_ORDER : 0,
		.require = c->flags & RLX_AF_HUGE_REQUIRE,
	};
	struct rlx_arena *a;
	int ret;

	/* Without trying: what cannot be would push everybody else out first. */
	if (c->size >> PAGE_SHIFT > totalram_pages())
		return ERR_PTR(-ENOMEM);
	if (!can && s.require)
		return ERR_PTR(-ENOMEM);
	a = rlx_arena_new(session, &rlx_alloc_ops, c);
	if (IS_ERR(a))
		return a;
	ret = rlx_alloc_fill(a, &s);
	if (ret) {
		rlx_arena_put_now(a);
		return ERR_PTR(ret);
	}
	rlx_arena_publish(a);
	return a;
}
