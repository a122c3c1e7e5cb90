// SPDX-License-Identifier: MIT
/*
 * Places in the workspace for a program whose launches run side by side: a value gets the
 * bytes of others only where all that used those have ended before it is written.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/streams.h"
#include "base/alloc.h"
#include "kernels/gpu/gemm_horizontal.h"

/* One value's storage: its first call, and where all that use it stand in the list. */
struct storage {
	uint32_t	val, first_call, first_use, n_use;
	uint64_t	bytes;
};

struct gap {
	uint64_t	from, to;
};

struct concurrent {
	const struct gpu_streams	*n;
	const struct rlx_plan	*p;
	struct rlx_plan_val	*val;		/* the copy's */
	struct storage		*of;		/* in the order of their first calls */
	uint32_t		n_of, *use;
	uint32_t		*count, *index;	/* per value: spans; 1 + its storage */
	struct gap		*busy;
};

/* Have all that use @s ended when call @w begins? */
static bool is_over(const struct concurrent *a, const struct storage *s, uint32_t w)
{
	const struct gpu_streams *n = a->n;
	uint32_t i, u;

	for (i = 0; i < s->n_use; i++) {
		u = a->use[s->first_use + i];
		if (u >= w || (u >= n->part[w] && n->known[w][gpu_calls(n->c)[u].on_stream] <= u))
			return false;
	}
	return true;
}

/* As in the plan, storage stays a value's for some steps, in which more may be put. */
static bool may_share(const struct concurrent *a, const struct storage *s,
		      const struct storage *next)
{
	return a->p->val[s->val].last + RLX_G_JOIN < a->p->val[next->val].first &&
	       is_over(a, s, next->first_call);
}

static int by_place(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

/* Storage @k goes into the tightest gap between what it may not share with. */
static void place(struct concurrent *a, uint32_t k, uint64_t *end)
{
	const struct storage *s = &a->of[k];
	uint64_t free = 0, best = UINT64_MAX, at = 0;
	uint32_t i, n = 0;

	for (i = 0; i < k; i++)
		if (!may_share(a, &a->of[i], s)) {
			uint64_t from = a->val[a->of[i].val].place.offset;

			a->busy[n++] = (struct gap){ from, from + a->of[i].bytes };
		}
	qsort(a->busy, n, sizeof(*a->busy), by_place);
	for (i = 0; i < n; i++) {
		if (a->busy[i].from >= free + s->bytes && a->busy[i].from - free < best) {
			best = a->busy[i].from - free;
			at = free;
		}
		free = a->busy[i].to > free ? a->busy[i].to : free;
	}
	if (best == UINT64_MAX)
		at = free;
	a->val[s->val].place.offset = at;
	*end = at + s->bytes > *end ? at + s->bytes : *end;
}

/* The value of the workspace that a span is of; 0: it is of something else. */
static uint32_t value_of(const struct concurrent *a, uint32_t span)
{
	uint32_t space = a->n->span[span].space;

	return space && space - 1 < a->p->n_val ? space - 1 : 0;
}

static void list_storage(struct concurrent *a)
{
	const struct gpu_streams *n = a->n;
	uint32_t i, k, v, uses = 0;
	struct storage *s;

	for (k = 0; k < n->n_span; k++)
		a->count[value_of(a, k)]++;
	for (i = 0; i < n->c->calls.n_call; i++)
		for (k = n->first[i]; k < n->first[i + 1]; k++) {
			v = value_of(a, k);
			if (!v)
				continue;
			if (!a->index[v]) {
				a->of[a->n_of] = (struct storage){
					.val = v, .first_call = i, .first_use = uses,
					.bytes = rlx_align64(rlx_plan_bytes(a->p, v)) };
				a->index[v] = ++a->n_of;
				uses += a->count[v];
			}
			s = &a->of[a->index[v] - 1];
			a->use[s->first_use + s->n_use++] = i;
		}
}

/* Four times what the plan needs, or what is little. */
static bool is_little(uint64_t bytes, const struct rlx_plan *p)
{
	return bytes / 4 <= p->work_bytes || bytes <= 64 << 20;
}

bool gpu_streams_place(const struct gpu_streams *n)
{
	const struct rlx_plan *p = n->c->base.plan;
	struct concurrent a = { .n = n, .p = p };
	struct rlx_plan *own = &n->c->own;
	uint64_t end = 0;
	uint32_t i, v;
	bool ok;

	a.val = rlx_malloc((size_t)p->n_val * sizeof(*a.val));
	a.of = rlx_calloc(p->n_val, sizeof(*a.of));
	a.busy = rlx_calloc(p->n_val, sizeof(*a.busy));
	a.count = rlx_calloc(p->n_val, sizeof(*a.count));
	a.index = rlx_calloc(p->n_val, sizeof(*a.index));
	a.use = rlx_calloc(n->n_span + 1, sizeof(*a.use));
	ok = a.val && a.of && a.busy && a.count && a.index && a.use;
	if (ok) {
		memcpy(a.val, p->val, (size_t)p->n_val * sizeof(*a.val));
		list_storage(&a);
		for (i = 0; i < a.n_of; i++)
			place(&a, i, &end);
		ok = is_little(end, p);
	}
	if (ok) {
		for (v = 1; v < p->n_val; v++)	/* views are where their storage is */
			if (a.val[v].place.kind == RLX_PLACE_WORK)
				a.val[v].place.offset = a.val[a.val[v].root].place.offset;
		*own = *p;
		own->val = a.val;
		own->cap_val = p->n_val;
		own->work_bytes = end;
		a.val = NULL;
	}
	rlx_free(a.val);
	rlx_free(a.of);
	rlx_free(a.busy);
	rlx_free(a.count);
	rlx_free(a.index);
	rlx_free(a.use);
	return ok;
}
