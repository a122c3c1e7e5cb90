// SPDX-License-Identifier: MIT
/*
 * Offsets in the workspace, by who uses which storage in which order: storage is taken when
 * it is first used and given back after its last use. Where one thing runs after the other,
 * best fit over the free blocks; where some run side by side, the tightest gap between those
 * with which bytes may not be shared. What is kept from run to run shares with nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/holes.h"
#include "plan/place.h"

/* A root's uses, uses[first] to uses[first + n]; none: it gets no place. */
struct life {
	uint32_t	root, first, n;
	uint64_t	bytes;
	bool		persistent;
};

struct lives {
	struct life	*of;		/* in the order of their first uses */
	uint32_t	 n, *at;	/* positions of all uses, by life */
	uint32_t	*index;		/* per value: 1 + its life */
};

static void lives_fini(struct lives *l)
{
	rlx_free(l->of);
	rlx_free(l->at);
	rlx_free(l->index);
}

static uint64_t padded(const struct rlx_plan *p, uint32_t v)
{
	uint64_t bytes = rlx_plan_bytes(p, v);

	return bytes ? (bytes + RLX_PLAN_ALIGN - 1) & ~(uint64_t)(RLX_PLAN_ALIGN - 1)
		     : RLX_PLAN_ALIGN;
}

/* The root in the workspace that a use is of; 0: it is of something else. */
static uint32_t root_of(const struct rlx_plan *p, const struct rlx_use *u)
{
	const struct rlx_plan_val *v = &p->val[u->val];

	return u->val && v->place.kind == RLX_PLACE_WORK ? v->root : 0;
}

static bool find_lives(const struct rlx_plan *p, const struct rlx_uses *u, struct lives *l)
{
	uint32_t i, v, at = 0;

	l->of = rlx_calloc((size_t)p->n_val, sizeof(*l->of));
	l->at = rlx_calloc((size_t)u->n + 1, sizeof(*l->at));
	l->index = rlx_calloc(p->n_val, sizeof(*l->index));
	if (!l->of || !l->at || !l->index)
		return false;
	for (i = 0; i < u->n; i++) {
		v = root_of(p, &u->use[i]);
		if (!v)
			continue;
		if (!l->index[v]) {
			l->of[l->n] = (struct life){ .root = v, .bytes = padded(p, v),
						     .persistent = p->val[v].persistent };
			l->index[v] = ++l->n;
		}
		l->of[l->index[v] - 1].n++;
	}
	for (i = 0; i < l->n; i++) {
		l->of[i].first = at;
		at += l->of[i].n;
		l->of[i].n = 0;
	}
	for (i = 0; i < u->n; i++) {
		struct life *x;

		v = root_of(p, &u->use[i]);
		if (!v)
			continue;
		x = &l->of[l->index[v] - 1];
		l->at[x->first + x->n++] = u->use[i].at;
	}
	return true;
}

static uint32_t begins(const struct lives *l, const struct life *x)
{
	return l->at[x->first];
}

static uint32_t ends(const struct lives *l, const struct life *x)
{
	return l->at[x->first + x->n - 1];
}

/* Is all that uses @x over when what uses @y first begins, in every run? */
static bool is_over(const struct lives *l, const struct rlx_order *o, const struct life *x,
		    const struct life *y)
{
	uint32_t i;

	if (x->persistent || y->persistent)
		return false;
	if (!o)
		return ends(l, x) < begins(l, y);
	for (i = 0; i < x->n; i++)
		if (!rlx_runs_before(o, l->at[x->first + i], begins(l, y)))
			return false;
	return true;
}

/* ---- one after the other ---- */

/* These come first, so that there is no hole among them. */
static bool place_persistent(struct rlx_plan *p, const struct lives *l, struct rlx_holes *h)
{
	bool ok = true;
	uint32_t i;

	for (i = 0; i < l->n && ok; i++)
		if (l->of[i].persistent)
			ok = rlx_holes_take(h, l->of[i].bytes,
					    &p->val[l->of[i].root].place.offset);
	return ok;
}

/* What ends at each position: next[life], head[position], by 1 + the life. */
static bool place_sequential(struct rlx_plan *p, const struct lives *l)
{
	uint32_t n = l->n ? ends(l, &l->of[0]) + 1 : 0, i, k, at = 0;
	struct rlx_holes h = { 0 };
	uint32_t *head, *next;
	bool ok;

	for (i = 0; i < l->n; i++)
		n = ends(l, &l->of[i]) >= n ? ends(l, &l->of[i]) + 1 : n;
	head = rlx_calloc((size_t)n + 1, sizeof(*head));
	next = rlx_calloc((size_t)l->n + 1, sizeof(*next));
	ok = head && next && place_persistent(p, l, &h);
	for (i = 0; i < l->n && ok; i++) {
		const struct life *x = &l->of[i];

		if (x->persistent)
			continue;
		for (; at < begins(l, x); at++)		/* what has ended before */
			for (k = head[at]; k && ok; k = next[k])
				ok = rlx_holes_give(&h, p->val[l->of[k - 1].root].place.offset,
						    l->of[k - 1].bytes);
		ok = ok && rlx_holes_take(&h, x->bytes, &p->val[x->root].place.offset);
		if (!ok)
			break;
		next[i + 1] = head[ends(l, x)];
		head[ends(l, x)] = i + 1;
	}
	p->work_bytes = h.end;
	rlx_holes_fini(&h);
	rlx_free(head);
	rlx_free(next);
	return ok;
}

/* ---- side by side ---- */

struct gap {
	uint64_t	from, to;
};

static int by_offset(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

/* Into the tightest gap between the @n busy blocks, or behind them. */
static uint64_t fit(struct gap *busy, uint32_t n, uint64_t bytes)
{
	uint64_t free = 0, best = UINT64_MAX, at = 0;
	uint32_t i;

	if (n)
		qsort(busy, n, sizeof(*busy), by_offset);
	for (i = 0; i < n; i++) {
		if (busy[i].from >= free + bytes && busy[i].from - free < best) {
			best = busy[i].from - free;
			at = free;
		}
		free = busy[i].to > free ? busy[i].to : free;
	}
	return best == UINT64_MAX ? free : at;
}

static bool place_concurrent(struct rlx_plan *p, const struct lives *l, const struct rlx_order *o)
{
	struct gap *busy = rlx_calloc((size_t)l->n + 1, sizeof(*busy));
	uint64_t at;
	uint32_t i, k, n;

	p->work_bytes = 0;
	for (k = 0; busy && k < l->n; k++) {
		for (n = 0, i = 0; i < k; i++) {
			if (is_over(l, o, &l->of[i], &l->of[k]))
				continue;
			at = p->val[l->of[i].root].place.offset;
			busy[n++] = (struct gap){ at, at + l->of[i].bytes };
		}
		at = fit(busy, n, l->of[k].bytes);
		p->val[l->of[k].root].place.offset = at;
		if (at + l->of[k].bytes > p->work_bytes)
			p->work_bytes = at + l->of[k].bytes;
	}
	rlx_free(busy);
	return busy;
}

enum rlx_status rlx_plan_place(struct rlx_plan *p, const struct rlx_uses *u,
			       const struct rlx_order *o, struct rlx_error *err)
{
	struct lives l = { 0 };
	bool ok = find_lives(p, u, &l);
	uint32_t i, v;

	if (ok)
		ok = o ? place_concurrent(p, &l, o) : place_sequential(p, &l);
	p->naive_bytes = 0;
	for (i = 0; ok && i < l.n; i++)
		p->naive_bytes += l.of[i].bytes;
	for (v = 1; ok && v < p->n_val; v++) {
		struct rlx_plan_val *x = &p->val[v];

		if (x->place.kind == RLX_PLACE_WORK && !l.index[x->root])
			x->place.kind = RLX_PLACE_NONE;
		else if (x->place.kind == RLX_PLACE_WORK)
			x->place.offset = p->val[x->root].place.offset;
	}
	lives_fini(&l);
	if (!ok)
		return rlx_fail(err, RLX_ENOMEM,
				"plan: out of memory, or over 2^64 bytes of workspace");
	return rlx_debug_on(RLX_DEBUG_PLAN) ? rlx_plan_check(p, u, o, err) : RLX_OK;
}

enum rlx_status rlx_plan_place_steps(struct rlx_plan *p, struct rlx_error *err)
{
	struct rlx_uses u = { 0 };
	enum rlx_status st;
	bool ok = true;
	uint32_t s, i;

	for (s = 0; s < p->n_step && ok; s++) {
		const struct rlx_plan_step *t = &p->step[s];

		for (i = 0; i < t->n_in && ok; i++)
			ok = rlx_uses_add(&u, s, t->in[i]);
		for (i = 0; i < t->n_out && ok; i++)
			ok = rlx_uses_add(&u, s, t->out[i]);
	}
	st = ok ? rlx_plan_place(p, &u, NULL, err) :
	     rlx_fail(err, RLX_ENOMEM, "plan: out of memory");
	rlx_free(u.use);
	return st;
}

bool rlx_uses_add(struct rlx_uses *u, uint32_t at, uint32_t val)
{
	if (!rlx_grow(&u->use, &u->cap, u->n + 1, sizeof(*u->use)))
		return false;
	u->use[u->n++] = (struct rlx_use){ at, val };
	return true;
}

/* ---- what must hold of any places ---- */

static bool share_bytes(const struct rlx_plan *p, uint32_t v, uint32_t u)
{
	uint64_t a = p->val[v].place.offset, b = p->val[u].place.offset;

	return a < b + rlx_plan_bytes(p, u) && b < a + rlx_plan_bytes(p, v);
}

/*
 * Against @n lives that began before; those that are over for good are left out from now on, but
 * for one that is kept they count.
 */
static uint32_t clash(const struct rlx_plan *p, const struct lives *l, const struct rlx_order *o,
		      uint32_t k, uint32_t *active, uint32_t *n)
{
	const struct life *y = &l->of[k], *x;
	uint32_t i;

	for (i = 0; y->persistent && i < k; i++)
		if (share_bytes(p, l->of[i].root, y->root))
			return l->of[i].root;
	for (i = 0; i < *n;) {
		x = &l->of[active[i]];
		if (!is_over(l, o, x, y)) {
			if (share_bytes(p, x->root, y->root))
				return x->root;
		} else if (!o) {
			active[i] = active[--*n];
			continue;
		}
		i++;
	}
	active[(*n)++] = k;
	return 0;
}

enum rlx_status rlx_plan_check(const struct rlx_plan *p, const struct rlx_uses *u,
			       const struct rlx_order *o, struct rlx_error *err)
{
	struct lives l = { 0 };
	bool ok = find_lives(p, u, &l);
	uint32_t *active = rlx_calloc((size_t)l.n + 1, sizeof(*active)), n = 0, k, v, with;
	enum rlx_status st = RLX_OK;

	if (!ok || !active)
		st = rlx_fail(err, RLX_ENOMEM, "plan: out of memory");
	for (k = 0; k < l.n && !st; k++) {
		v = l.of[k].root;
		with = clash(p, &l, o, k, active, &n);
		if (p->val[v].place.offset % RLX_PLAN_ALIGN ||
		    p->val[v].place.offset + rlx_plan_bytes(p, v) > p->work_bytes)
			st = rlx_fail(err, RLX_EBUG, "plan: value %u is not in the workspace or "
				      "not aligned", v);
		else if (with)
			st = rlx_fail(err, RLX_EBUG, "plan: values %u and %u share bytes while "
				      "both are in use", with, v);
	}
	rlx_free(active);
	lives_fini(&l);
	return st;
}
