// SPDX-License-Identifier: MIT
/* Random numbers that depend on nothing but seed, call and position. */
#include "ops/emit.h"
#include "ops/philox.h"

/*
 * Shapes:	call[] or [1] -> y of 'type'
 * Dtypes:	call: an integer; y: f64 f32 f16 bf16
 * Does:	kind RLX_RNG_UNIFORM (if not given): from a (0 if not given) on, below b before it
 *		is rounded to the dtype; RLX_RNG_NORMAL: mean a and deviation b, by Box and
 *		Muller. A draw depends on seed (0 if not given), call (0 if not given) and its
 *		position alone, so that a run can be repeated: give another call for other
 *		numbers. Uniform ones have 24 bits, of f64 53.
 * Gradient:	none: the numbers depend on no float
 * Source:	Salmon et al. 2011 (Philox-4x32-10)
 */
RLX_OP(rng, "uniform from a up to b, or normal with mean a and deviation b, by Philox-4x32-10",
	ATTR(type, type)
	ATTR(i32, kind)
	ATTR(f64, a)
	DEF(f64, b, 1)
	ATTR(i64, seed)
	OPT(call),
	RLX_T_NODIFF)

static enum rlx_status rng_infer(struct rlx_infer *q)
{
	const struct rlx_op_rng *a = q->args;
	enum rlx_dtype dt = a->type.dtype;
	enum rlx_status st = op_need_enum(q, "kind", a->kind, RLX_RNG_NORMAL + 1);

	if (st)
		return st;
	if (rlx_type_bytes(&a->type) < 0)
		return op_fail(q, RLX_ESHAPE,
			       "no type: dtype, rank <= %d, dims >= 0, under 2^63 bytes",
			       RLX_MAX_RANK);
	if (!rlx_dtype_is_float(dt) || rlx_dtype_size(dt) == 1)
		return op_fail(q, RLX_ETYPE, "%s; floats of 16 bits and more are drawn",
			       rlx_dtype_name(dt));
	if (!isfinite(a->a) || !isfinite(a->b))
		return op_fail(q, RLX_EINVAL, "a is %g, b is %g", a->a, a->b);
	if (q->in[0] && (!rlx_dtype_is_int(q->in[0]->dtype) ||
			 rlx_type_count(q->in[0]) != 1))
		return op_fail(q, RLX_ETYPE, "call must be one integer");
	q->out[0] = a->type;
	return RLX_OK;
}

/* Two normals of two uniforms, the first kept from 0. */
static void box_muller(double u1, double u2, double out[2])
{
	double r = sqrt(-2 * log(1 - u1)), t = 2 * M_PI * u2;

	out[0] = r * cos(t);
	out[1] = r * sin(t);
}

/*
 * What one block gives: four numbers of 24 bits, or two of 53 for f64; element i
 * is number i modulo that of block i divided by it.
 */
static int64_t draw(const struct rlx_op_rng *a, uint64_t call, uint64_t block,
		    double out[4])
{
	bool wide = a->type.dtype == RLX_F64;
	int64_t n = wide ? 2 : 4, i;
	uint32_t w[4];
	double u[4];

	rlx_philox((uint64_t)a->seed, call, block, w);
	for (i = 0; i < n; i++)
		u[i] = wide ? rlx_philox_unit53(w[2 * i], w[2 * i + 1]) :
		       rlx_philox_unit(w[i]);
	if (a->kind == RLX_RNG_NORMAL)
		for (i = 0; i < n; i += 2)
			box_muller(u[i], u[i + 1], out + i);
	for (i = 0; i < n; i++)
		out[i] = a->kind == RLX_RNG_NORMAL ? a->a + a->b * out[i] :
			 a->a + (a->b - a->a) * u[i];
	return n;
}

static enum rlx_status rng_eval(struct rlx_eval *q)
{
	const struct rlx_op_rng *a = q->args;
	int64_t n = rlx_type_count(&q->out[0].type), i, per = 1;
	uint64_t call = op_has(&q->in[0]) ? (uint64_t)el_geti(&q->in[0], 0) : 0;
	double v[4];

	for (i = 0; i < n; i++) {
		if (!i || i % per == 0)
			per = draw(a, call, (uint64_t)(i / per), v);
		el_set(&q->out[0], i, v[i % per]);
	}
	return RLX_OK;
}

static bool rng_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_rng *a = s->args;

	if (i > 6)
		return false;
	s->n_in = 1;
	s->f32_only = true;
	s->tol = 1e-6;
	a->type = i == 4 ? rlx_type(RLX_F32, 0, 3) : i == 5 ? rlx_type(RLX_F64, 33) :
		  i == 6 ? rlx_scalar(RLX_BF16) : rlx_type(RLX_F32, 5, 7);
	a->kind = i & 1;
	a->a = -1;
	a->b = 3;
	a->seed = i < 2 ? 0 : INT64_C(0x123456789abcdef);
	if (i == 2 || i == 3) {
		s->in[0] = rlx_scalar(RLX_I64);
		s->hi[0] = 1000;
	}
	return true;
}

const struct rlx_op_impl rlx_op_rng_impl = {
	.infer = rng_infer, .eval = rng_eval,
};
RLX_SAMPLES(rng, rng_sample)
