// SPDX-License-Identifier: MIT
/* Drawing a class from each row of logits. */
#include "ops/emit.h"
#include "ops/philox.h"

/*
 * Shapes:	logits[n, c], call[] or [1] -> y[n]
 * Dtypes:	logits: f64 f32 f16 bf16; call: an integer; y: i64
 * Does:	of each row a column by exp(logits / temperature). top_k keeps so many of the
 *		largest, equal ones the first; of these top_p keeps the fewest that hold so much
 *		of the probability. 0 is no limit for either, nor is a top_p from 1 on.
 *		temperature 0 (if not given) takes the largest. The draw depends on seed (0 if not
 *		given), call (0 if not given) and row alone.
 * Errors:	RLX_ERANGE for a row with NaN, and but for temperature 0 for one whose largest
 *		logit is infinite; RLX_ESHAPE for rows without columns.
 * Gradient:	none: the result is a position
 * Source:	Holtzman et al. 2020 (top_p), Fan et al. 2018 (top_k), Salmon et al. 2011 (Philox)
 */
RLX_OP(sample, "draw a column of each row: temperature (0: the largest), top_k, top_p",
	IN(logits) OPT(call)
	ATTR(i32, top_k)
	ATTR(f32, top_p)
	ATTR(f32, temperature)
	ATTR(i64, seed),
	RLX_T_REDUCTION | RLX_T_NODIFF)

static enum rlx_status sample_infer(struct rlx_infer *q)
{
	const struct rlx_op_sample *a = q->args;
	const struct rlx_type *x = q->in[0];
	enum rlx_status st = op_need_float(q, 0, false);

	st = st ? st : op_need_rank(q, 0, 2, 2);
	st = st ? st : op_need_real(q, "temperature", a->temperature, 0);
	st = st ? st : op_need_real(q, "top_p", a->top_p, 0);
	if (!st && a->top_k < 0)
		st = op_fail(q, RLX_EINVAL, "top_k is %d", a->top_k);
	if (!st && x->dim[0] && !x->dim[1])
		st = op_fail(q, RLX_ESHAPE, "no columns to draw from");
	if (!st && q->in[1] && (!rlx_dtype_is_int(q->in[1]->dtype) ||
				rlx_type_count(q->in[1]) != 1))
		st = op_fail(q, RLX_ETYPE, "call must be one integer");
	q->out[0] = rlx_type(RLX_I64, x->dim[0]);
	return st;
}

static size_t sample_scratch(const struct rlx_infer *q)
{
	return ((size_t)q->in[0]->dim[1] + 1) * (sizeof(int64_t) + sizeof(double));
}

/*
 * Of idx[], sorted from the largest, keep the first top_k and of these the fewest
 * whose probabilities reach top_p; then the first whose sum passes u.
 */
static int64_t pick(const struct rlx_op_sample *a, const int64_t *idx, double *p,
		    int64_t n, double u)
{
	double total = 0, sum = 0;
	int64_t i, keep;

	for (i = 0; i < n; i++)
		total += p[i];
	if (!(total > 0) || !isfinite(total))
		return -1;
	keep = n;
	if (a->top_p > 0 && a->top_p < 1) {
		for (keep = 0; keep < n && sum < a->top_p * total; keep++)
			sum += p[keep];
		total = sum;
	}
	for (i = 0, sum = 0; i < keep; i++) {
		sum += p[i];
		if (sum > u * total)
			return idx[i];
	}
	return idx[keep - 1];
}

static enum rlx_status sample_eval(struct rlx_eval *q)
{
	const struct rlx_op_sample *a = q->args;
	const struct rlx_tensor *x = &q->in[0];
	int64_t rows = x->type.dim[0], v = x->type.dim[1], n, r, i, got;
	uint64_t call = op_has(&q->in[1]) ? (uint64_t)el_geti(&q->in[1], 0) : 0;
	struct op_line l = { .t = x, .stride = 1, .descending = true };
	int64_t *idx = q->scratch;
	double *p = (double *)(idx + v);
	uint32_t w[4];

	n = a->top_k && a->top_k < v ? a->top_k : v;
	for (r = 0; r < rows; r++) {
		l.base = r * v;
		for (i = 0; i < v; i++)
			idx[i] = i;
		op_sort(&l, idx, v);
		for (i = 0; i < n; i++)
			p[i] = a->temperature == 0 ? !i :
			       exp((el_get(x, l.base + idx[i]) - el_get(x, l.base + idx[0])) /
				   a->temperature);
		rlx_philox((uint64_t)a->seed, call, (uint64_t)r, w);
		got = isnan(el_get(x, l.base + idx[0])) ? -1 :
		      pick(a, idx, p, n, rlx_philox_unit(w[0]));
		if (got < 0)
			return op_fail(q, RLX_ERANGE, "row %lld has no finite logit or a NaN",
				       (long long)r);
		el_seti(&q->out[0], r, got);
	}
	return RLX_OK;
}

static bool sample_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_sample *a = s->args;

	if (i > 6)
		return false;
	s->n_in = 2;
	s->f32_only = true;
	s->in[0] = i == 5 ? rlx_type(RLX_F32, 0, 9) : i == 6 ? rlx_type(RLX_F32, 3, 1) :
		   rlx_type(RLX_F32, 9, 33);
	a->temperature = i ? 0.8f : 0;
	a->top_k = i == 1 || i == 4 ? 5 : 0;
	a->top_p = i == 2 || i == 4 ? 0.7f : i == 3 ? 1 : 0;
	a->seed = i;
	if (i & 1) {
		s->in[1] = rlx_scalar(RLX_I64);
		s->hi[1] = 99;
	}
	return true;
}

const struct rlx_op_impl rlx_op_sample_impl = {
	.infer = sample_infer, .scratch = sample_scratch, .eval = sample_eval,
};
RLX_SAMPLES(sample, sample_sample)
