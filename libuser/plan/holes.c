// SPDX-License-Identifier: MIT
/* The two treaps of holes.h. */
#include "base/alloc.h"
#include "plan/holes.h"

static bool less(const struct rlx_hole *a, uint64_t k0, uint64_t k1)
{
	return a->key[0] < k0 || (a->key[0] == k0 && a->key[1] < k1);
}

static uint32_t rotate(struct rlx_holes *h, uint32_t root, int side)
{
	uint32_t up = h->v[root].kid[side];

	h->v[root].kid[side] = h->v[up].kid[!side];
	h->v[up].kid[!side] = root;
	return up;
}

/* Depth is logarithmic, as ranks are random. */
static uint32_t insert(struct rlx_holes *h, uint32_t root, uint32_t n)
{
	uint32_t kid;
	int side;

	if (!root)
		return n;
	side = less(&h->v[root], h->v[n].key[0], h->v[n].key[1]);
	kid = insert(h, h->v[root].kid[side], n);
	h->v[root].kid[side] = kid;
	return h->v[kid].rank > h->v[root].rank ? rotate(h, root, side) : root;
}

static uint32_t merge(struct rlx_holes *h, uint32_t a, uint32_t b)
{
	if (!a || !b)
		return a ? a : b;
	if (h->v[a].rank > h->v[b].rank) {
		h->v[a].kid[1] = merge(h, h->v[a].kid[1], b);
		return a;
	}
	h->v[b].kid[0] = merge(h, a, h->v[b].kid[0]);
	return b;
}

static void drop(struct rlx_holes *h, uint32_t *at, uint64_t k0, uint64_t k1)
{
	uint32_t n = *at;

	while (n && (h->v[n].key[0] != k0 || h->v[n].key[1] != k1)) {
		at = &h->v[n].kid[less(&h->v[n], k0, k1)];
		n = *at;
	}
	if (!n)
		return;
	*at = merge(h, h->v[n].kid[0], h->v[n].kid[1]);
	h->v[n].kid[0] = h->spare;
	h->spare = n;
}

/* Least key that is no less (@above), or greatest that is less; 0: none. */
static uint32_t near(const struct rlx_holes *h, uint32_t n, uint64_t k0, uint64_t k1,
		     bool above)
{
	uint32_t best = 0;

	while (n) {
		bool under = less(&h->v[n], k0, k1);

		if (under != above)
			best = n;
		n = h->v[n].kid[under];
	}
	return best;
}

/* Room for one more hole; [0] stays unused. */
static bool reserve(struct rlx_holes *h)
{
	uint32_t n = h->n ? h->n : 1;

	if (!rlx_grow(&h->v, &h->cap, n + 2, sizeof(*h->v)))
		return false;
	h->n = n;
	return true;
}

static uint32_t node(struct rlx_holes *h, uint64_t k0, uint64_t k1)
{
	uint32_t n = h->spare;

	if (n)
		h->spare = h->v[n].kid[0];
	else
		n = h->n++;
	h->v[n] = (struct rlx_hole){ { k0, k1 }, { 0, 0 }, n * 2654435761u };
	h->v[n].rank ^= h->v[n].rank >> 15;
	h->v[n].rank *= 2246822519u;
	return n;
}

static void put(struct rlx_holes *h, uint64_t off, uint64_t bytes)
{
	h->by_off = insert(h, h->by_off, node(h, off, bytes));
	h->by_bytes = insert(h, h->by_bytes, node(h, bytes, off));
}

static void cut(struct rlx_holes *h, uint64_t off, uint64_t bytes)
{
	drop(h, &h->by_off, off, bytes);
	drop(h, &h->by_bytes, bytes, off);
}

bool rlx_holes_take(struct rlx_holes *h, uint64_t bytes, uint64_t *out_off)
{
	uint32_t n = near(h, h->by_bytes, bytes, 0, true);
	uint64_t off, have;

	if (n) {
		have = h->v[n].key[0];
		off = h->v[n].key[1];
		cut(h, off, have);
		if (have > bytes)	/* into the nodes just given back */
			put(h, off + bytes, have - bytes);
		*out_off = off;
		return true;
	}
	/* grow the end, using a hole that touches it */
	off = h->end;
	n = near(h, h->by_off, UINT64_MAX, UINT64_MAX, false);
	if (n && h->v[n].key[0] + h->v[n].key[1] == h->end) {
		off = h->v[n].key[0];
		cut(h, off, h->v[n].key[1]);
	}
	*out_off = off;
	return !__builtin_add_overflow(off, bytes, &h->end);
}

bool rlx_holes_give(struct rlx_holes *h, uint64_t off, uint64_t bytes)
{
	struct rlx_hole other;
	uint32_t n;

	if (!reserve(h))
		return false;
	/* join with the block before, the block after, or both */
	n = near(h, h->by_off, off, 0, false);
	if (n && h->v[n].key[0] + h->v[n].key[1] == off) {
		other = h->v[n];
		cut(h, other.key[0], other.key[1]);
		off = other.key[0];
		bytes += other.key[1];
	}
	n = near(h, h->by_off, off + bytes, 0, true);
	if (n && h->v[n].key[0] == off + bytes) {
		other = h->v[n];
		cut(h, other.key[0], other.key[1]);
		bytes += other.key[1];
	}
	put(h, off, bytes);
	return true;
}

void rlx_holes_fini(struct rlx_holes *h)
{
	rlx_free(h->v);
	*h = (struct rlx_holes){ 0 };
}
