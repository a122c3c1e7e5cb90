/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pages of an arena by index. Filled once from 0 upwards, then never
 * changed: reading needs no lock and works in any context.
 */
#ifndef RLX_TABLE_H
#define RLX_TABLE_H

#include <linux/types.h>

struct page;

/**
 * struct rlx_table - two levels.
 * @top:    one word for each 2 MiB: 0, the first of as many contiguous pages
 *          with bit 0 set, or a leaf of one pointer a page
 * @nr:     pages it has room for
 * @filled: pages it has
 *
 * 64 GiB of huge pages take 256 KiB, of small ones 128 MiB.
 */
struct rlx_table {
	unsigned long	*top;
	unsigned long	nr;
	unsigned long	filled;
};

/* Room for @nr pages; 0 or -ENOMEM. */
int rlx_table_init(struct rlx_table *t, unsigned long nr);
/* Frees the table, not the pages; nothing for a zeroed one. */
void rlx_table_fini(struct rlx_table *t);

/**
 * rlx_table_append - the next @n pages.
 * @t:    not yet seen by anybody else
 * @page: first of @n physically contiguous pages
 * @n:    no more than there is room for
 *
 * Return: 0, or -ENOMEM: then some of them may have been taken, as @filled says.
 */
int rlx_table_append(struct rlx_table *t, struct page *page, unsigned long n);

/* NULL from @nr on: every caller checks, mmap's check notwithstanding. */
struct page *rlx_table_page(const struct rlx_table *t, unsigned long index);

/* So many pages at most are walked between two looks at whether the task was killed. */
#define RLX_RUN_MAX	32768UL

/**
 * rlx_table_run - physically contiguous pages from @index on.
 * @t:     the table
 * @index: first
 * @max:   no more than this, not 0
 * @page:  the page at @index
 *
 * Return: how many, 0 behind the end.
 */
unsigned long rlx_table_run(const struct rlx_table *t, unsigned long index,
			    unsigned long max, struct page **page);

#endif
