// SPDX-License-Identifier: MIT
/* Losses: means over what counts, in f32 at least. */
#include <math.h>
#include <string.h>

#include "rlx/dims.h"
#include "train/vars.h"

static rlx_value in_f32(struct rlx_graph *g, rlx_value x)
{
	enum rlx_dtype dt = type_of(g, x).dtype;

	return dt == RLX_F64 || !rlx_dtype_is_float(dt) ? x : cast_to(g, x, RLX_F32);
}

static rlx_value mean(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, reduce, .x = x, .kind = RLX_REDUCE_MEAN);
}

static bool fails(struct rlx_graph *g, bool bad, const char *what)
{
	if (bad)
		rlx_graph_fail(g, RLX_EINVAL, "%s", what);
	return bad || !g || rlx_graph_error(g)->status;
}

/* How many rows there are of the first @rank dimensions of @t, some of which may have names. */
static int64_t row_count(struct rlx_graph *g, const struct rlx_type *t, uint32_t rank)
{
	int64_t n = 1;
	uint32_t i;

	for (i = 0; i < rank; i++)
		n = rlx_dim_mul(g, n, t->dim[i]);
	return n;
}

/* Rows of @x as a matrix. */
static rlx_value rows(struct rlx_graph *g, rlx_value x)
{
	struct rlx_type t = type_of(g, x);
	int64_t n;

	if (t.rank == 2)
		return x;
	n = row_count(g, &t, t.rank ? t.rank - 1 : 0);
	return rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(n, t.rank ? t.dim[t.rank - 1] : 1));
}

/* Per row: log(sum(exp)) - logit of the label, what smoothing and z ask for. */
static rlx_value row_losses(struct rlx_graph *g, rlx_value x, rlx_value label,
			    const struct rlx_ce *how)
{
	rlx_value lp = rlx_emit(g, log_softmax, .x = x, .axis = 1), nll, all, lse = RLX_NONE, at;
	int64_t n = type_of(g, x).dim[0];

	at = rlx_emit(g, reshape, .x = label, .shape = RLX_INTS(n, 1));
	nll = rlx_emit(g, gather_elements, .x = lp, .indices = at, .axis = 1);
	if (how->z != 0) {	/* lse = logit - log softmax, at any class: the label's */
		lse = rlx_emit(g, gather_elements, .x = x, .indices = at, .axis = 1);
		lse = rlx_emit(g, sub, .a = lse, .b = nll);
	}
	nll = rlx_emit(g, neg, .x = nll);
	if (how->smooth != 0) {
		all = rlx_emit(g, reduce, .x = lp, .axes = RLX_INTS(1), .kind = RLX_REDUCE_MEAN,
			       .keep_dims = true);
		nll = rlx_emit(g, sub, .a = scaled(g, nll, 1 - how->smooth),
			       .b = scaled(g, all, how->smooth));
	}
	if (how->z != 0)
		nll = rlx_emit(g, add, .a = nll,
			       .b = scaled(g, rlx_emit(g, mul, .a = lse, .b = lse), how->z));
	return rlx_emit(g, reshape, .x = nll, .shape = RLX_INTS(n));
}

/* Is @label a label for each row of @x? */
static bool are_labels(const struct rlx_type *x, const struct rlx_type *label)
{
	return x->rank >= 2 && label->rank + 1 == x->rank &&
	       !memcmp(x->dim, label->dim, label->rank * sizeof(*x->dim));
}

rlx_value rlx_loss_ce(struct rlx_graph *g, rlx_value logits, rlx_value labels,
		      const struct rlx_ce *given)
{
	struct rlx_ce how = { 0 };
	rlx_value x, label, counts, zero, l;
	struct rlx_type t = type_of(g, logits), tl = type_of(g, labels);

	if (given)
		memcpy(&how, given, given->size < sizeof(how) ? given->size : sizeof(how));
	if (fails(g, given && !given->size, "cross entropy: the arguments' size is not set") ||
	    fails(g, !are_labels(&t, &tl),
		  "cross entropy: logits [.., c] and labels [..] are needed") ||
	    fails(g, !(how.smooth >= 0 && how.smooth <= 1) || !(how.z >= 0) || how.ignore > 0,
		  "cross entropy: smooth is within 0 and 1, z not below 0, ignore below 0"))
		return RLX_NONE;
	x = rows(g, in_f32(g, logits));
	label = rlx_emit(g, reshape, .x = labels, .shape =
			 RLX_INTS(row_count(g, &tl, tl.rank)));
	zero = like_const(g, label, 0);
	counts = rlx_emit(g, ne, .a = label, .b = like_const(g, label,
			  tl.dtype == RLX_U32 ? 4294967295.0 :
			  (double)(how.ignore ? how.ignore : -100)));
	label = rlx_emit(g, where, .cond = counts, .a = label, .b = zero);
	l = row_losses(g, x, label, &how);
	l = rlx_emit(g, where, .cond = counts, .a = l, .b = like_const(g, l, 0));
	counts = rlx_emit(g, cast, .x = counts, .to = type_of(g, l).dtype);
	counts = rlx_emit(g, reduce, .x = counts);
	counts = rlx_emit(g, max, .a = counts, .b = like_const(g, counts, 1));
	return rlx_emit(g, div, .a = rlx_emit(g, reduce, .x = l), .b = counts);
}

rlx_value rlx_loss_linear_ce(struct rlx_graph *g, rlx_value x, rlx_value w, rlx_value labels,
			     const struct rlx_ce *how)
{
	return rlx_loss_ce(g, rlx_emit(g, matmul, .a = x, .b = w), labels, how);
}

rlx_value rlx_loss_mse(struct rlx_graph *g, rlx_value a, rlx_value b)
{
	rlx_value d = rlx_emit(g, sub, .a = in_f32(g, a), .b = in_f32(g, b));

	return mean(g, rlx_emit(g, mul, .a = d, .b = d));
}

rlx_value rlx_loss_huber(struct rlx_graph *g, rlx_value a, rlx_value b, double delta)
{
	rlx_value d, near, far, size;

	if (fails(g, !(delta > 0 && isfinite(delta)), "huber: delta must be finite and above 0"))
		return RLX_NONE;
	d = rlx_emit(g, sub, .a = in_f32(g, a), .b = in_f32(g, b));
	size = rlx_emit(g, abs, .x = d);
	near = scaled(g, rlx_emit(g, mul, .a = d, .b = d), 0.5);
	far = scaled(g, plus(g, size, -delta / 2), delta);
	return mean(g, rlx_emit(g, where, .a = far, .b = near, .cond = rlx_emit(g, gt, .a = size,
				.b = like_const(g, size, delta))));
}

rlx_value rlx_loss_bce(struct rlx_graph *g, rlx_value x, rlx_value t)
{
	struct rlx_type tx = type_of(g, x), tt = type_of(g, t);
	char logits[96], targets[96];

	if (!g || rlx_graph_error(g)->status)
		return RLX_NONE;
	/* [n, 1] and [n] would be a mean over n x n pairs */
	if (tx.rank != tt.rank || memcmp(tx.dim, tt.dim, tx.rank * sizeof(*tx.dim))) {
		rlx_type_print(&tx, logits, sizeof(logits));
		rlx_type_print(&tt, targets, sizeof(targets));
		rlx_graph_fail(g, RLX_ESHAPE, "bce: targets %s of logits %s: the shape must be the "
			       "same", targets, logits);
		return RLX_NONE;
	}
	x = in_f32(g, x);
	t = cast_to(g, t, type_of(g, x).dtype);
	return mean(g, rlx_emit(g, sub, .a = rlx_emit(g, softplus, .x = x),
				.b = rlx_emit(g, mul, .a = t, .b = x)));
}

/* Rows of length 1. */
static rlx_value unit_rows(struct rlx_graph *g, rlx_value x)
{
	rlx_value q = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = x, .b = x),
			       .axes = RLX_INTS(1), .keep_dims = true);

	return rlx_emit(g, mul, .a = x, .b = rlx_emit(g, rsqrt, .x = plus(g, q, 1e-12)));
}

rlx_value rlx_loss_info_nce(struct rlx_graph *g, rlx_value a, rlx_value b, double temperature)
{
	struct rlx_type ta = type_of(g, a), tb = type_of(g, b);
	rlx_value s, at, there, back;

	if (fails(g, !(temperature > 0), "info_nce: the temperature must be above 0") ||
	    fails(g, ta.rank != 2 || tb.rank != 2 || ta.dim[0] != tb.dim[0] ||
		  ta.dim[1] != tb.dim[1], "info_nce: a and b must both be [n, d]"))
		return RLX_NONE;
	a = unit_rows(g, in_f32(g, a));
	b = unit_rows(g, in_f32(g, b));
	s = rlx_emit(g, transpose, .x = b, .perm = RLX_INTS(1, 0));
	s = rlx_emit(g, matmul, .a = a, .b = s);
	s = scaled(g, s, 1 / temperature);
	at = rlx_emit(g, iota, .type = rlx_type(RLX_I64, ta.dim[0]));
	there = rlx_loss_ce(g, s, at, NULL);
	back = rlx_loss_ce(g, rlx_emit(g, transpose, .x = s, .perm = RLX_INTS(1, 0)), at, NULL);
	return scaled(g, rlx_emit(g, add, .a = there, .b = back), 0.5);
}
