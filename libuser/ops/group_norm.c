// SPDX-License-Identifier: MIT
/* Normalisation over groups of channels and all positions. */
#include "ops/batch.h"
#include "ops/emit.h"

/*
 * Shapes:	x[n, c, ..], gamma[c], beta[c] -> y[n, c, ..]
 * Dtypes:	f64 f32 f16 bf16; y as x
 * Does:	(x - mean) / sqrt(var + eps), mean and variance (divided by the number of
 *		elements) over each of groups runs of c / groups channels with all their
 *		positions; times gamma, 1 if not given, plus beta, 0 if not given.
 * Gradient:	by those operations: to x, gamma and beta
 * Source:	Wu and He 2018; ONNX GroupNormalization-21
 */
RLX_OP(group_norm, "x[n, c, ..] normalised over each of 'groups' channel groups, gamma[c], beta[c]",
	IN(x) OPT(gamma) OPT(beta)
	REQ(i64, groups, "the number of channel groups, a divisor of the channels")
	REQ(f32, eps, "what the model was trained with, often 1e-5"),
	RLX_T_REDUCTION | RLX_T_STEPPED)

static enum rlx_status group_norm_infer(struct rlx_infer *q)
{
	const struct rlx_op_group_norm *a = q->args;
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_float(q, 0, false);
	uint32_t k;

	if (!st)
		st = op_need_rank(q, 0, 2, RLX_MAX_RANK);
	if (!st)
		st = op_need_real(q, "eps", a->eps, 0);
	if (!st && (a->groups < 1 || x->dim[1] % a->groups))
		st = op_fail(q, RLX_ESHAPE, "%lld channels do not split into %lld groups",
			     (long long)x->dim[1], (long long)a->groups);
	for (k = 1; !st && k < 3; k++) {
		if (!q->in[k])
			continue;
		st = op_need_float(q, k, false);
		if (!st && (q->in[k]->rank != 1 || q->in[k]->dim[0] != x->dim[1]))
			st = op_fail(q, RLX_ESHAPE, "%s must be [%lld]",
				     k == 1 ? "gamma" : "beta", (long long)x->dim[1]);
	}
	return st ? st : op_infer_same(q);
}

static enum rlx_status group_norm_eval(struct rlx_eval *q)
{
	const struct rlx_op_group_norm *a = q->args;
	const struct rlx_tensor *x = &q->in[0];
	int64_t c = x->type.dim[1], sp = shape_span(&x->type, 2, x->type.rank);
	int64_t rows = x->type.dim[0] * a->groups, n = c / a->groups * sp, r, i, ch;
	double mean, var, inv, v;

	for (r = 0; r < rows; r++) {
		mean = var = 0;
		for (i = 0; i < n; i++)
			mean += el_get(x, r * n + i);
		mean /= (double)n;
		for (i = 0; i < n; i++) {
			v = el_get(x, r * n + i) - mean;
			var += v * v;
		}
		inv = 1 / sqrt(var / (double)n + a->eps);
		for (i = 0; i < n; i++) {
			ch = (r * n + i) / sp % c;
			v = (el_get(x, r * n + i) - mean) * inv;
			v = op_has(&q->in[1]) ? v * el_get(&q->in[1], ch) : v;
			v = op_has(&q->in[2]) ? v + el_get(&q->in[2], ch) : v;
			el_set(&q->out[0], r * n + i, v);
		}
	}
	return RLX_OK;
}

/* [C] as [C, 1, ..] so that it broadcasts over channels. */
static rlx_value per_channel(struct rlx_expand *q, rlx_value v, enum rlx_dtype acc)
{
	int64_t dim[RLX_MAX_RANK] = { q->out_type->dim[1], 1, 1, 1, 1, 1, 1, 1 };

	return op_reshape(q->g, op_cast(q->g, v, acc), dim, q->out_type->rank - 1);
}

static enum rlx_status group_norm_expand(struct rlx_expand *q)
{
	const struct rlx_op_group_norm *a = q->args;
	struct rlx_type t = *q->out_type;
	enum rlx_dtype acc = op_acc_type(t.dtype);
	int64_t dim[2] = { t.dim[0] * a->groups, 0 };
	rlx_value x = op_cast(q->g, q->in[0], acc), mean, sq;

	dim[1] = t.dim[1] / a->groups * shape_span(&t, 2, t.rank);
	x = op_reshape(q->g, x, dim, 2);
	mean = op_reduce_span(q->g, x, RLX_REDUCE_MEAN, 1, 2);
	x = rlx_emit(q->g, sub, .a = x, .b = mean);
	sq = rlx_emit(q->g, mul, .a = x, .b = x);
	sq = op_add_const(q->g, op_reduce_span(q->g, sq, RLX_REDUCE_MEAN, 1, 2), a->eps);
	x = rlx_emit(q->g, mul, .a = x, .b = rlx_emit(q->g, rsqrt, .x = sq));
	x = op_reshape(q->g, x, t.dim, t.rank);
	if (q->in[1].id)
		x = rlx_emit(q->g, mul, .a = x, .b = per_channel(q, q->in[1], acc));
	if (q->in[2].id)
		x = rlx_emit(q->g, add, .a = x, .b = per_channel(q, q->in[2], acc));
	q->out[0] = op_cast(q->g, x, t.dtype);
	return op_done(q->g);
}

static bool group_norm_sample(unsigned int i, struct rlx_sample *s)
{
	static const struct { struct rlx_type x; int64_t groups; bool affine; } c[] = {
		{ { RLX_F32, 4, { 2, 6, 5, 3 } }, 3, true },
		{ { RLX_F32, 4, { 3, 4, 2, 7 } }, 4, true },	/* instance norm */
		{ { RLX_F32, 3, { 2, 4, 9 } }, 1, false },
		{ { RLX_F32, 2, { 3, 8 } }, 2, true },
		{ { RLX_F32, 4, { 0, 4, 2, 2 } }, 2, true },
	};

	if (i >= sizeof(c) / sizeof(c[0]))
		return false;
	s->n_in = 3;
	s->in[0] = c[i].x;
	if (c[i].affine)
		s->in[1] = s->in[2] = rlx_type(RLX_F32, c[i].x.dim[1]);
	s->tol = 1e-5;
	((struct rlx_op_group_norm *)s->args)->groups = c[i].groups;
	((struct rlx_op_group_norm *)s->args)->eps = 1e-5f;
	return true;
}

const struct rlx_op_impl rlx_op_group_norm_impl = {
	.infer = group_norm_infer, .eval = group_norm_eval,
	.expand = group_norm_expand,
	.batch = op_batch_examples,
};
RLX_SAMPLES(group_norm, group_norm_sample)
