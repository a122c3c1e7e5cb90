// SPDX-License-Identifier: MIT
/*
 * ZeRO-1 (Rajbhandari et al. 1910.02054): each rank gets the sum of its part of a gradient alone,
 * updates that part of the variable and has the optimizer's states for it, and all bring their
 * parts of the new variable together. Everything is elementwise but the norm, which adds up what
 * runs of a gradient have as op sum_squares_all does: parts are of whole runs. A gradient that has
 * none is summed whole, and then cut.
 */
#include "base/alloc.h"
#include "base/squares_run.h"
#include "train/step.h"
#include "train/zero.h"

enum { JOINED = 32 };			/* tensors that ranks wait for at once */
static const int64_t large = 1 << 20;	/* bytes, from which on a tensor goes by itself */

int64_t zero_part(int64_t n, unsigned int ranks)
{
	int64_t run = rlx_squares_run(n), least = run < n ? run : 16;
	int64_t pieces = (n + least - 1) / least;

	return n < ZERO_LEAST ? 0 : (pieces + ranks - 1) / ranks * least;
}

/* Parts that ranks bring together, or are to have the sums of, in one. */
struct joint {
	struct step	*s;
	bool		 gather;
	rlx_value	 x[JOINED], *to[JOINED];
	int64_t		 part[JOINED], bytes;
	unsigned int	 n;
};

/* Then it is empty. */
static void flush(struct joint *j)
{
	struct rlx_graph *g = j->s->g;
	int32_t ranks = (int32_t)j->s->o.ranks;
	int64_t at = 0;
	unsigned int i;
	rlx_value all;

	if (!j->n)
		return;
	all = j->n > 1 ? rlx_emit(g, concat, .axis = 1, .xs = { j->x, j->n }) : j->x[0];
	all = j->gather ? rlx_emit(g, all_gather, .x = all, .ranks = ranks) :
	      rlx_emit(g, reduce_scatter, .x = all, .ranks = ranks);
	for (i = 0; i < j->n; i++, at += j->part[i - 1])
		*j->to[i] = j->n == 1 ? all :
			    rlx_emit(g, slice, .x = all, .axes = RLX_INTS(1),
				     .starts = RLX_INTS(at), .ends = RLX_INTS(at + j->part[i]));
	j->n = 0;
	j->bytes = 0;
}

/* @x is [ranks, part] and *@to gets [1, part], or to gather the other way round. */
static void add(struct joint *j, rlx_value x, rlx_value *to)
{
	struct rlx_type t = type_of(j->s->g, x);
	int64_t bytes = rlx_type_bytes(&t), part = t.dim[1];

	bytes *= j->gather ? j->s->o.ranks : 1;
	if (j->n == JOINED || (j->n && (j->bytes + bytes > large ||
	    type_of(j->s->g, j->x[0]).dtype != t.dtype)))
		flush(j);
	j->x[j->n] = x;
	j->part[j->n] = part;
	j->to[j->n++] = to;
	j->bytes += bytes;
}

bool zero_begin(struct step *s)
{
	struct rlx_type t;
	unsigned int i;

	if (!s->o.zero || s->o.ranks < 2)
		return true;
	s->share = rlx_calloc(s->n, sizeof(*s->share));
	if (!s->share) {
		rlx_graph_fail(s->g, RLX_ENOMEM, "train step: out of memory");
		return false;
	}
	for (i = 0; i < s->n; i++) {
		t = type_of(s->g, s->w[i]);
		s->share[i].n = rlx_type_count(&t);
		s->share[i].part = zero_part(s->share[i].n, s->o.ranks);
		s->share[i].run = rlx_squares_run(s->share[i].n);
	}
	return true;
}

bool zero_scatters(const struct step *s, unsigned int i)
{
	return s->share && s->share[i].part && s->share[i].run < s->share[i].n;
}

/* @x of so many elements as all ranks' parts: [ranks, part]. */
static rlx_value in_parts(struct step *s, rlx_value x, const struct share *h)
{
	int64_t all = h->part * s->o.ranks;

	x = rlx_emit(s->g, reshape, .x = x, .shape = RLX_INTS(h->n));
	if (all > h->n)
		x = rlx_emit(s->g, pad, .x = x, .pads = RLX_INTS(0, all - h->n));
	return rlx_emit(s->g, reshape, .x = x, .shape = RLX_INTS(s->o.ranks, h->part));
}

static rlx_value flat(struct step *s, rlx_value x, int64_t n)
{
	return rlx_emit(s->g, reshape, .x = x, .shape = RLX_INTS(n));
}

static rlx_value own(struct step *s, rlx_value x, const struct share *h)
{
	x = rlx_emit(s->g, own_part, .x = in_parts(s, x, h), .ranks = (int32_t)s->o.ranks);
	return flat(s, x, h->part);
}

void zero_scatter(struct step *s)
{
	struct joint j = { .s = s };
	unsigned int i;

	if (!s->share)
		return;
	/* in the order in which a backward pass makes them */
	for (i = s->n; i-- > 0;) {
		enum rlx_dtype dt = type_of(s->g, s->d[i]).dtype == RLX_F64 ? RLX_F64 : RLX_F32;

		if (zero_scatters(s, i))
			add(&j, in_parts(s, cast_to(s->g, s->d[i], dt), &s->share[i]),
			    &s->share[i].d);
	}
	flush(&j);
}

void zero_cut(struct step *s)
{
	unsigned int i;

	for (i = 0; s->share && i < s->n; i++) {
		struct share *h = &s->share[i];

		if (!h->part)
			continue;
		h->d = zero_scatters(s, i) ? flat(s, h->d, h->part) : own(s, s->d[i], h);
		h->w = own(s, s->w[i], h);
	}
}

void zero_squares(struct step *s, rlx_value *q)
{
	struct joint j = { .s = s, .gather = true };
	struct rlx_graph *g = s->g;
	rlx_value x;
	unsigned int i;

	for (i = 0; i < s->n; i++) {
		const struct share *h = &s->share[i];

		if (!zero_scatters(s, i))
			continue;
		x = rlx_emit(g, reshape, .x = h->d, .shape = RLX_INTS(h->part / h->run, h->run));
		x = rlx_emit(g, sum_squares, .x = x, .axes = RLX_INTS(1));
		add(&j, rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(1, h->part / h->run)),
		    &q[i]);
	}
	flush(&j);
	for (i = 0; i < s->n; i++) {
		const struct share *h = &s->share[i];
		int64_t runs = h->n / h->run;

		if (!zero_scatters(s, i)) {
			q[i] = rlx_emit(g, sum_squares_all, .xs = { s->d + i, 1 });
			continue;
		}
		x = flat(s, q[i], h->part / h->run * s->o.ranks);
		if (h->part / h->run * s->o.ranks > runs)
			x = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(0),
				     .ends = RLX_INTS(runs));
		q[i] = rlx_emit(g, reduce, .x = cast_to(g, x, RLX_F64));
	}
}

rlx_value zero_next(struct step *s, unsigned int i, rlx_value next)
{
	struct share *h = &s->share[i];

	next = cast_to(s->g, next, type_of(s->g, h->w).dtype);
	h->next = rlx_emit(s->g, where, .cond = s->go, .a = next, .b = h->w);
	return h->next;
}

rlx_value zero_average(struct step *s, unsigned int i, rlx_value mean)
{
	rlx_value first = rlx_emit(s->g, eq, .a = s->t, .b = like_const(s->g, s->t, 1));
	enum rlx_dtype dt = type_of(s->g, mean).dtype;

	return rlx_emit(s->g, where, .cond = first, .a = cast_to(s->g, s->share[i].w, dt),
			.b = mean);
}

/* Of runs that only add up nobody has the others' parts: then the variable stays. */
static void put_together(struct step *s, unsigned int i, bool select)
{
	const struct share *h = &s->share[i];
	int64_t all = h->part * s->o.ranks;
	struct rlx_type t = type_of(s->g, s->w[i]);
	rlx_value x = flat(s, h->next, all);

	if (all > h->n)
		x = rlx_emit(s->g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(0),
			     .ends = RLX_INTS(h->n));
	x = rlx_emit(s->g, reshape, .x = x, .shape = { t.dim, t.rank });
	if (select)
		x = rlx_emit(s->g, where, .cond = s->go, .a = x, .b = s->w[i]);
	rlx_state_next(s->g, s->w[i], x);
}

void zero_gather(struct step *s)
{
	struct joint j = { .s = s, .gather = true };
	unsigned int i;

	if (!s->share)
		return;
	for (i = 0; i < s->n; i++)
		if (s->share[i].part)
			add(&j, rlx_emit(s->g, reshape, .x = s->share[i].next,
					 .shape = RLX_INTS(1, s->share[i].part)),
			    &s->share[i].next);
	flush(&j);
	for (i = 0; i < s->n; i++)
		if (s->share[i].part)
			put_together(s, i, s->o.accumulate > 1);
}
