// SPDX-License-Identifier: MIT
/* Cells of a power of two each, cut into 1024: the middle of one is its value. */
#include "tools/rlx/hist.h"

static unsigned int cell_of(uint64_t ns)
{
	unsigned int top, k;

	if (ns < 2u << HIST_SUB)
		return (unsigned int)ns;
	top = 63 - (unsigned int)__builtin_clzll(ns);
	k = ((top - HIST_SUB) << HIST_SUB) + (unsigned int)(ns >> (top - HIST_SUB));
	return k < HIST_CELLS ? k : HIST_CELLS - 1;
}

/* The middle of what falls into a cell. */
static double value_of(unsigned int k)
{
	unsigned int shift;
	uint64_t base;

	if (k < 2u << HIST_SUB)
		return k;
	shift = (k >> HIST_SUB) - 1;
	base = (uint64_t)((k & ((1u << HIST_SUB) - 1)) + (1u << HIST_SUB)) << shift;
	return (double)base + (double)(1ull << shift) / 2;
}

void hist_add(struct hist *h, uint64_t ns)
{
	h->cell[cell_of(ns)]++;
	h->n++;
	h->sum += (double)ns;
	if (ns > h->max)
		h->max = ns;
}

double hist_quantile(const struct hist *h, double q)
{
	uint64_t want = (uint64_t)(q * (double)h->n), seen = 0;
	unsigned int k;

	if (!h->n)
		return 0;
	if (want >= h->n)
		return (double)h->max;
	for (k = 0; k < HIST_CELLS; k++) {
		seen += h->cell[k];
		if (seen > want)
			return value_of(k) < (double)h->max ? value_of(k) : (double)h->max;
	}
	return (double)h->max;
}
