// SPDX-License-Identifier: GPL-2.0-only
/* The two-level page table of an arena. */
#include <linux/mm.h>
#include <linux/nospec.h>
#include <linux/slab.h>

#include "compat.h"
#include "table.h"

#define RLX_TABLE_RUN	1UL	/* bit 0 of a word: contiguous, no leaf */

/* A memory cgroup that is full refuses them, and kills nobody. */
#define RLX_TABLE_GFP	(GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)

int rlx_table_init(struct rlx_table *t, unsigned long nr)
{
	t->filled = 0;
	t->nr = nr;
	t->top = kvcalloc(DIV_ROUND_UP(nr, RLX_HUGE_PAGES), sizeof(*t->top), RLX_TABLE_GFP);
	return t->top ? 0 : -ENOMEM;
}

void rlx_table_fini(struct rlx_table *t)
{
	unsigned long i;

	if (!t->top)
		return;
	for (i = 0; i < DIV_ROUND_UP(t->nr, RLX_HUGE_PAGES); i++) {
		if (!(t->top[i] & RLX_TABLE_RUN))
			kfree((void *)t->top[i]);
		cond_resched();
	}
	kvfree(t->top);
	*t = (struct rlx_table){};
}

static int rlx_table_append_small(struct rlx_table *t, struct page *page,
				  unsigned long n)
{
	unsigned long *word = &t->top[t->filled >> RLX_HUGE_ORDER];
	struct page **leaf = (struct page **)*word;
	unsigned long i, at = t->filled & (RLX_HUGE_PAGES - 1);

	if (!leaf) {
		leaf = kcalloc(RLX_HUGE_PAGES, sizeof(*leaf), RLX_TABLE_GFP);
		if (!leaf)
			return -ENOMEM;
		*word = (unsigned long)leaf;
	}
	for (i = 0; i < n; i++)
		leaf[at + i] = rlx_page_after(page, i);
	t->filled += n;
	return 0;
}

int rlx_table_append(struct rlx_table *t, struct page *page, unsigned long n)
{
	unsigned long at, take;
	int ret;

	if (WARN_ON_ONCE(n > t->nr - t->filled))
		return -ENOMEM;
	while (n) {
		at = t->filled & (RLX_HUGE_PAGES - 1);
		take = min(n, RLX_HUGE_PAGES - at);
		if (take == RLX_HUGE_PAGES) {
			t->top[t->filled >> RLX_HUGE_ORDER] =
				(unsigned long)page | RLX_TABLE_RUN;
			t->filled += take;
		} else {
			ret = rlx_table_append_small(t, page, take);
			if (ret)
				return ret;
		}
		page = rlx_page_after(page, take);
		n -= take;
	}
	return 0;
}

struct page *rlx_table_page(const struct rlx_table *t, unsigned long index)
{
	unsigned long word, at;

	if (index >= t->filled)
		return NULL;
	/* It is an offset of user space, and its check may be mispredicted. */
	index = array_index_nospec(index, t->filled);
	at = index & (RLX_HUGE_PAGES - 1);
	word = t->top[index >> RLX_HUGE_ORDER];
	if (word & RLX_TABLE_RUN)
		return rlx_page_after((struct page *)(word & ~RLX_TABLE_RUN), at);
	return ((struct page **)word)[at];
}

/* How many pages from @index on are known to be contiguous without looking. */
static unsigned long rlx_table_step(const struct rlx_table *t,
				    unsigned long index)
{
	if (t->top[index >> RLX_HUGE_ORDER] & RLX_TABLE_RUN)
		return RLX_HUGE_PAGES - (index & (RLX_HUGE_PAGES - 1));
	return 1;
}

unsigned long rlx_table_run(const struct rlx_table *t, unsigned long index,
			    unsigned long max, struct page **page)
{
	unsigned long n = 0;
	struct page *next;

	*page = rlx_table_page(t, index);
	if (!*page)
		return 0;
	max = min(max, t->filled - index);
	do {
		n += rlx_table_step(t, index + n);
		if (n >= max)
			return max;
		next = rlx_table_page(t, index + n);
	} while (page_to_pfn(next) == page_to_pfn(*page) + n);
	return n;
}
