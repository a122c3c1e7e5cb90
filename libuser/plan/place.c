// SPDX-License-Identifier: MIT
/*
 * Offsets in the workspace: walk the steps, take storage when a root is first
 * written and give it back after its last use, best fit over the free blocks.
 * Free blocks live in an array sorted by offset; neighbours are merged, so it
 * stays short.
 */
#include <string.h>

#include "base/alloc.h"
#include "plan/plan.h"

struct hole {
	uint64_t	off, bytes;
};

struct holes {
	struct hole	*v;
	uint32_t	 n, cap;
	uint64_t	 end;	/* the workspace so far */
};

static bool hole_insert(struct holes *h, uint64_t off, uint64_t bytes)
{
	uint32_t lo = 0, hi = h->n;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (h->v[mid].off < off)
			lo = mid + 1;
		else
			hi = mid;
	}
	/* join with the block before, the block after, or both */
	if (lo && h->v[lo - 1].off + h->v[lo - 1].bytes == off) {
		h->v[lo - 1].bytes += bytes;
		if (lo < h->n && off + bytes == h->v[lo].off) {
			h->v[lo - 1].bytes += h->v[lo].bytes;
			memmove(&h->v[lo], &h->v[lo + 1],
				(--h->n - lo) * sizeof(*h->v));
		}
		return true;
	}
	if (lo < h->n && off + bytes == h->v[lo].off) {
		h->v[lo].off = off;
		h->v[lo].bytes += bytes;
		return true;
	}
	if (!rlx_grow(&h->v, &h->cap, h->n + 1, sizeof(*h->v)))
		return false;
	memmove(&h->v[lo + 1], &h->v[lo], (h->n++ - lo) * sizeof(*h->v));
	h->v[lo] = (struct hole){ off, bytes };
	return true;
}

static bool hole_take(struct holes *h, uint64_t bytes, uint64_t *out_off)
{
	uint32_t best = UINT32_MAX, i;

	for (i = 0; i < h->n; i++)
		if (h->v[i].bytes >= bytes &&
		    (best == UINT32_MAX || h->v[i].bytes < h->v[best].bytes))
			best = i;
	if (best == UINT32_MAX) {
		/* grow the end, using a hole that touches it */
		struct hole *last = h->n ? &h->v[h->n - 1] : NULL;

		*out_off = h->end;
		if (last && last->off + last->bytes == h->end) {
			*out_off = last->off;
			h->n--;
		}
		return !__builtin_add_overflow(*out_off, bytes, &h->end);
	}
	*out_off = h->v[best].off;
	h->v[best].off += bytes;
	h->v[best].bytes -= bytes;
	if (!h->v[best].bytes)
		memmove(&h->v[best], &h->v[best + 1],
			(--h->n - best) * sizeof(*h->v));
	return true;
}

static uint64_t padded(const struct rlx_plan *p, uint32_t v)
{
	uint64_t bytes = rlx_plan_bytes(p, v);

	return bytes ? (bytes + RLX_PLAN_ALIGN - 1) & ~(uint64_t)(RLX_PLAN_ALIGN - 1)
		     : RLX_PLAN_ALIGN;
}

/* Roots by their last step, as linked lists: next[v], head[step]. */
static void list_deaths(const struct rlx_plan *p, uint32_t *head, uint32_t *next)
{
	uint32_t v;

	for (v = 1; v < p->n_val; v++)
		if (p->val[v].root == v && p->val[v].place.kind == RLX_PLACE_WORK &&
		    p->val[v].last < p->n_step) {
			next[v] = head[p->val[v].last];
			head[p->val[v].last] = v;
		}
}

static bool place_step(struct rlx_plan *p, uint32_t s, struct holes *h)
{
	struct rlx_plan_step *st = &p->step[s];
	uint32_t i;

	for (i = 0; i < st->n_out; i++) {
		struct rlx_plan_val *v = &p->val[st->out[i]];

		if (v->root != st->out[i] || v->place.kind != RLX_PLACE_WORK)
			continue;
		if (!hole_take(h, padded(p, st->out[i]), &v->place.offset))
			return false;
		p->naive_bytes += padded(p, st->out[i]);
	}
	return true;
}

enum rlx_status rlx_plan_place(struct rlx_plan *p, struct rlx_error *err)
{
	uint32_t *head = rlx_calloc((size_t)p->n_step + 1, sizeof(*head));
	uint32_t *next = rlx_calloc(p->n_val, sizeof(*next));
	struct holes h = { 0 };
	bool ok = head && next;
	uint32_t s, i, v;

	for (s = 0; ok && s < p->n_step; s++)
		for (i = 0; i < p->step[s].n_out; i++) {
			v = p->step[s].out[i];
			if (p->val[v].root == v && p->val[v].place.kind == RLX_PLACE_NONE)
				p->val[v].place.kind = RLX_PLACE_WORK;
		}
	if (ok)
		list_deaths(p, head, next);
	for (s = 0; ok && s < p->n_step; s++) {
		ok = place_step(p, s, &h);
		for (v = ok ? head[s] : 0; ok && v; v = next[v])
			ok = hole_insert(&h, p->val[v].place.offset, padded(p, v));
	}
	p->work_bytes = h.end;
	rlx_free(h.v);
	rlx_free(next);
	rlx_free(head);
	return ok ? RLX_OK : rlx_fail(err, RLX_ENOMEM,
				      "plan: out of memory, or over 2^64 bytes of workspace");
}
