// SPDX-License-Identifier: MIT
/*
 * Sums over ranks within a step. Large gradients are summed where they lie; small ones, the loss
 * and buffers are laid one behind the other first, as each sum waits for all ranks.
 */
#include "base/alloc.h"
#include "train/step.h"

enum { JOINED = 32 };			/* tensors of one sum */
static const int64_t large = 1 << 20;	/* bytes */

/* Values that become one sum, and where the sums go. */
struct bucket {
	struct step	*s;
	enum rlx_dtype	 dtype;
	rlx_value	 x[JOINED], *to[JOINED];
	struct rlx_type	 t[JOINED];
	unsigned int	 n;
	int64_t		 bytes;
};

static rlx_value summed(struct bucket *b, rlx_value x)
{
	return rlx_emit(b->s->g, all_reduce, .x = x, .ranks = (int32_t)b->s->o.ranks);
}

/* Is what follows value @i aligned to 64 bytes if it is? */
static bool keeps_aligned(const struct bucket *b, unsigned int i)
{
	return rlx_type_bytes(&b->t[i]) % 64 == 0;
}

/* One sum of all that is in it. What keeps others aligned comes first: none of that is copied. */
static void sum_joined(struct bucket *b)
{
	struct rlx_graph *g = b->s->g;
	unsigned int at[JOINED], n = 0, i, turn;
	rlx_value flat[JOINED], all;
	int64_t from = 0, count;

	for (turn = 0; turn < 2; turn++)
		for (i = 0; i < b->n; i++)
			if (keeps_aligned(b, i) == !turn)
				at[n++] = i;
	for (i = 0; i < n; i++)
		flat[i] = rlx_emit(g, reshape, .x = b->x[at[i]],
				   .shape = RLX_INTS(rlx_type_count(&b->t[at[i]])));
	all = summed(b, rlx_emit(g, concat, .axis = 0, .xs = { flat, n }));
	for (i = 0; i < n; i++, from += count) {
		const struct rlx_type *t = &b->t[at[i]];
		rlx_value part;

		count = rlx_type_count(t);
		part = rlx_emit(g, slice, .x = all, .axes = RLX_INTS(0), .starts = RLX_INTS(from),
				.ends = RLX_INTS(from + count));
		*b->to[at[i]] = rlx_emit(g, reshape, .x = part, .shape = { t->dim, t->rank });
	}
}

/* Then it is empty. */
static void flush(struct bucket *b)
{
	if (b->n == 1)
		*b->to[0] = summed(b, b->x[0]);
	else if (b->n)
		sum_joined(b);
	b->n = 0;
	b->bytes = 0;
}

/* *@v becomes its sum over ranks, in f32 or f64. */
static void add(struct bucket *b, rlx_value *v)
{
	struct rlx_type t = type_of(b->s->g, *v);
	int64_t bytes;

	if ((t.dtype == RLX_F64) != (b->dtype == RLX_F64))
		return;		/* another bucket's */
	*v = cast_to(b->s->g, *v, b->dtype);
	t.dtype = b->dtype;
	bytes = rlx_type_bytes(&t);
	if (bytes >= large) {
		*v = summed(b, *v);
		return;
	}
	if (b->n == JOINED || b->bytes + bytes > large)
		flush(b);
	b->t[b->n] = t;
	b->x[b->n] = *v;
	b->to[b->n++] = v;
	b->bytes += bytes;
}

/* The next value of a buffer that is a mean over ranks; NULL if entry @i is or has none. */
static rlx_value *shared_next(struct step *s, uint32_t i)
{
	return rlx_dtype_is_float(s->v->e[i].type.dtype) ? vars_next(s->v, s->g, i) : NULL;
}

static void share(struct step *s, enum rlx_dtype dtype)
{
	struct bucket b = { .s = s, .dtype = dtype };
	uint32_t i;

	/* in the order in which a backward pass makes them */
	for (i = s->n; i-- > 0;)
		if (!zero_scatters(s, i))
			add(&b, &s->d[i]);
	add(&b, &s->loss);
	for (i = 0; i < s->v->n; i++)
		if (shared_next(s, i))
			add(&b, shared_next(s, i));
	flush(&b);
}

/* Of a sum; of runs that only add up, which may have none, the rank's own. */
static rlx_value mean(struct step *s, rlx_value sum, rlx_value own, rlx_value due)
{
	sum = cast_to(s->g, scaled(s->g, sum, 1.0 / s->o.ranks), type_of(s->g, own).dtype);
	return due.id ? rlx_emit(s->g, where, .cond = due, .a = sum, .b = own) : sum;
}

void step_share(struct step *s, rlx_value due)
{
	rlx_value loss = s->loss, *own, *next;
	uint32_t i;

	if (s->o.ranks < 2)
		return;
	own = rlx_calloc(s->v->n + 1ul, sizeof(*own));
	if (!own) {
		rlx_graph_fail(s->g, RLX_ENOMEM, "train step: out of memory");
		return;
	}
	for (i = 0; i < s->v->n; i++)
		own[i] = shared_next(s, i) ? *shared_next(s, i) : RLX_NONE;
	zero_scatter(s);
	share(s, RLX_F32);
	share(s, RLX_F64);
	zero_cut(s);
	s->loss = mean(s, s->loss, loss, due);
	for (i = 0; i < s->v->n; i++) {
		next = shared_next(s, i);
		if (next)
			*next = mean(s, *next, own[i], due);
	}
	rlx_free(own);
}
