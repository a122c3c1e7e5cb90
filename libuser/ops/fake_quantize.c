// SPDX-License-Identifier: MIT
/* Rounding to a few bits and back, for training that expects it. */
#include "ops/quant.h"

/*
 * Shapes:	x[..], state[] or [1], with per_axis [d], d on axis -> y[..] like x; mode
 *		RLX_SCALE_EMA: also the new state
 * Dtypes:	x, state: f64 f32 f16 bf16, state f8 too; y as x, the new state as state
 * Does:	clamp(round(x / s), -q, q) s with q = 2^(bits - 1) - 1, s = range / q, at least
 *		1e-12; NaN becomes the lower end. scale_mode RLX_SCALE_BATCH (if not given): range
 *		is max|x| of what is not NaN; EMA: decay state + (1 - decay) max|x|, max|x| where
 *		state is not above 0, given out as the new state; FIXED: state. decay is 0 to 1, 0
 *		if not given. per_axis has a range for each place on axis (0 if not given), else
 *		there is one.
 * Gradient:	straight through, damped by z = x / range as ste says: RLX_STE_IDENTITY (if not
 *		given) dx = dy; CLIPPED dy where |z| <= 1, else 0; TANH dy (1 - tanh(z)^2);
 *		HARD_TANH dy max(0, 1 - |z|). None to state
 * Source:	Bengio et al. 2013 (straight through), Jacob et al. 2018
 */
RLX_OP(fake_quantize, "clamp(round(x / s), -qmax, qmax) s with s = max|x| / qmax, or from a state",
	IN(x) OPT(state)
	REQ(i32, bits, "the bits to round to, 2 to 16")
	ATTR(i32, axis)
	ATTR(bool, per_axis)
	ATTR(i32, ste)
	ATTR(i32, scale_mode)
	ATTR(f32, decay),
	RLX_T_REDUCTION | RLX_T_STEPPED | RLX_T_TIES)

/* The state is the range max|x|, one number or one for each index of the axis. */
static int64_t groups_of(const struct rlx_op_fake_quantize *a, const struct rlx_type *x,
			 int64_t *post)
{
	uint32_t ax = 0;

	*post = 1;
	if (!a->per_axis)
		return 1;
	op_axis(a->axis, x->rank, &ax);
	*post = shape_span(x, ax + 1, x->rank);
	return x->dim[ax];
}

static enum rlx_status fake_quantize_infer(struct rlx_infer *q)
{
	const struct rlx_op_fake_quantize *a = q->args;
	const struct rlx_type *x = q->in[0], *state = q->in[1];
	enum rlx_status st = op_need_float(q, 0, false);
	int64_t post, n;
	uint32_t ax;

	st = st ? st : op_need_enum(q, "ste", a->ste, RLX_STE_HARD_TANH + 1);
	st = st ? st : op_need_enum(q, "scale_mode", a->scale_mode, RLX_SCALE_FIXED + 1);
	if (!st && a->per_axis)
		st = op_infer_axis(q, a->axis, x->rank, &ax);
	if (st)
		return st;
	if (a->bits < 2 || a->bits > 16)
		return op_fail(q, RLX_EINVAL, "bits is %d, 2 to 16 are taken", a->bits);
	if (!(a->decay >= 0 && a->decay <= 1))
		return op_fail(q, RLX_EINVAL, "decay %g is not in 0 to 1", (double)a->decay);
	if (!state != (a->scale_mode == RLX_SCALE_BATCH))
		return op_fail(q, RLX_EINVAL, "a state is %s",
			       state ? "given but the mode takes none" : "missing");
	q->out[0] = *x;
	if (!state)
		return RLX_OK;
	n = groups_of(a, x, &post);
	if (!rlx_dtype_is_float(state->dtype) || state->rank > 1 ||
	    rlx_type_count(state) != n)
		return op_fail(q, RLX_ESHAPE, "the state must be %lld floats", (long long)n);
	if (a->scale_mode == RLX_SCALE_EMA) {
		q->n_out = 2;
		q->out[1] = *state;
	}
	return RLX_OK;
}

static size_t fake_quantize_scratch(const struct rlx_infer *q)
{
	int64_t post;

	return (size_t)(groups_of(q->args, q->in[0], &post) + 1) * sizeof(double);
}

/* Ranges into r[], from the batch, the state or both. */
static void ranges(struct rlx_eval *q, double *r, int64_t groups, int64_t post)
{
	const struct rlx_op_fake_quantize *a = q->args;
	int64_t n = rlx_type_count(&q->in[0].type), i;
	double old;

	for (i = 0; i < groups; i++)
		r[i] = a->scale_mode == RLX_SCALE_FIXED ? el_get(&q->in[1], i) : 0;
	for (i = 0; a->scale_mode != RLX_SCALE_FIXED && i < n; i++)
		r[i / post % groups] = fmax(r[i / post % groups],
					    fabs(el_get(&q->in[0], i)));
	for (i = 0; a->scale_mode == RLX_SCALE_EMA && i < groups; i++) {
		old = el_get(&q->in[1], i);
		if (old > 0)	/* else a cold start */
			r[i] = a->decay * old + (1 - (double)a->decay) * r[i];
		el_set(&q->out[1], i, r[i]);
	}
}

static enum rlx_status fake_quantize_eval(struct rlx_eval *q)
{
	const struct rlx_op_fake_quantize *a = q->args;
	int64_t n = rlx_type_count(&q->in[0].type), post, groups, i;
	double *r = q->scratch, top = op_fake_most(a->bits), s, v;

	groups = groups_of(a, &q->in[0].type, &post);
	ranges(q, r, groups, post);
	for (i = 0; i < n; i++) {
		s = fmax(r[i / post % groups] / top, 1e-12);
		v = rint(el_get(&q->in[0], i) / s);
		el_set(&q->out[0], i, fmin(fmax(v, -top), top) * s);
	}
	return RLX_OK;
}

/* max|x| of all elements or for each index of the axis, shaped to broadcast against x. */
static rlx_value batch_range(struct rlx_graph *g, const struct rlx_op_fake_quantize *a,
			     rlx_value x)
{
	struct rlx_type t = op_type(g, x), kept = t;
	int64_t axes[RLX_MAX_RANK];
	uint32_t ax = RLX_MAX_RANK, i, n = 0;
	rlx_value r;

	if (a->per_axis)
		op_axis(a->axis, t.rank, &ax);
	for (i = 0; i < t.rank; i++)
		if (i != ax) {
			axes[n++] = i;
			kept.dim[i] = 1;
		}
	if (!rlx_type_count(&t))
		return op_fill(g, &kept, 0);
	r = rlx_emit(g, abs, .x = x);
	/* what is not a number has no say */
	r = rlx_emit(g, where, .cond = rlx_emit(g, is_nan, .x = r), .a = op_const_like(g, r, 0),
		     .b = r);
	return n ? rlx_emit(g, reduce, .x = r, .axes = { axes, n }, .kind = RLX_REDUCE_MAX,
			    .keep_dims = true) : r;
}

/* A state shaped to broadcast against @x. */
static rlx_value shape_state(struct rlx_graph *g, const struct rlx_op_fake_quantize *a,
			     rlx_value state, const struct rlx_type *x)
{
	return op_quant_spread(g, state, x, a->axis, 0);
}

/* The moving range, as the batch's @r moves the state; the batch's own at first. */
static rlx_value moved_range(struct rlx_graph *g, const struct rlx_op_fake_quantize *a,
			     rlx_value old, rlx_value r)
{
	rlx_value sum = rlx_emit(g, add, .a = op_mul_const(g, old, (double)a->decay),
				 .b = op_mul_const(g, r, 1 - (double)a->decay));

	return rlx_emit(g, where, .a = sum, .b = r,
			.cond = rlx_emit(g, gt, .a = old, .b = op_const_like(g, old, 0)));
}

static enum rlx_status fake_quantize_expand(struct rlx_expand *q)
{
	const struct rlx_op_fake_quantize *a = q->args;
	struct rlx_type t = *q->out_type;
	enum rlx_dtype acc = op_acc_type(t.dtype);
	struct rlx_graph *g = q->g;
	rlx_value x = op_cast(g, q->in[0], acc), r = RLX_NONE, s = RLX_NONE;
	double top = op_fake_most(a->bits);

	if (q->in[1].id)
		s = shape_state(g, a, op_cast(g, q->in[1], acc), &t);
	if (a->scale_mode != RLX_SCALE_FIXED)
		r = batch_range(g, a, x);
	if (a->scale_mode == RLX_SCALE_EMA) {
		r = moved_range(g, a, s, r);
		q->out[1] = op_cast(g, op_reshape(g, r, q->out_type[1].dim, q->out_type[1].rank),
				    q->out_type[1].dtype);
	}
	if (a->scale_mode == RLX_SCALE_FIXED)
		r = s;
	s = op_fake_step(g, rlx_emit(g, div, .a = r, .b = op_const_like(g, r, top)));
	q->out[0] = op_cast(g, op_fake_round(g, x, s, a->bits), t.dtype);
	return op_done(g);
}

/* The range that forward took, shaped to broadcast against x. */
static rlx_value range_value(struct rlx_grad *q, const struct rlx_type *x)
{
	const struct rlx_op_fake_quantize *a = q->args;

	if (a->scale_mode == RLX_SCALE_BATCH)
		return batch_range(q->g, a, q->in[0]);
	return op_cast(q->g, shape_state(q->g, a, a->scale_mode == RLX_SCALE_FIXED ? q->in[1] :
					 rlx_out(q->g, q->out[0], 1), x), x->dtype);
}

/*
 * Straight through: rounding is taken for the identity, damped by z = x / range:
 * not at all, outside |z| <= 1, by 1 - tanh(z)^2, or by max(0, 1 - |z|).
 */
static enum rlx_status fake_quantize_vjp(struct rlx_grad *q)
{
	const struct rlx_op_fake_quantize *a = q->args;
	struct rlx_type x = op_type(q->g, q->in[0]);
	struct rlx_graph *g = q->g;
	rlx_value dy = q->d_out[0], z, f;

	if (!dy.id || a->ste == RLX_STE_IDENTITY) {
		q->d_in[0] = dy;
		return RLX_OK;
	}
	z = range_value(q, &x);
	z = rlx_emit(g, max, .a = z, .b = op_const_like(g, z, 1e-12 * op_fake_most(a->bits)));
	z = rlx_emit(g, div, .a = q->in[0], .b = z);
	if (a->ste == RLX_STE_TANH) {
		f = rlx_emit(g, tanh, .x = z);
		f = rlx_emit(g, neg, .x = rlx_emit(g, mul, .a = f, .b = f));
		f = op_add_const(g, f, 1);
		q->d_in[0] = rlx_emit(g, mul, .a = dy, .b = f);
		return op_done(g);
	}
	z = rlx_emit(g, abs, .x = z);
	if (a->ste == RLX_STE_CLIPPED)
		q->d_in[0] = rlx_emit(g, where, .a = dy, .b = op_const_like(g, dy, 0),
				      .cond = rlx_emit(g, le, .a = z,
						       .b = op_const_like(g, z, 1)));
	else
		q->d_in[0] = rlx_emit(g, mul, .a = dy,
				      .b = rlx_emit(g, relu, .x = op_add_const(g,
						    rlx_emit(g, neg, .x = z), 1)));
	return op_done(g);
}

static bool fake_quantize_sample(unsigned int i, struct rlx_sample *s)
{
	struct rlx_op_fake_quantize *a = s->args;

	if (i > 9)
		return false;
	s->n_in = 2;
	s->f32_only = true;	/* ties depend on every bit of the range */
	s->grad_tol = -1;	/* the gradient is straight through by design */
	s->in[0] = i == 8 ? rlx_type(RLX_F32, 0, 4) : i == 9 ? rlx_scalar(RLX_F32) :
		   rlx_type(RLX_F32, 3, 5, 7);
	a->bits = i % 3 == 0 ? 8 : i % 3 == 1 ? 4 : 2;
	a->ste = (int32_t)(i % 4);
	a->scale_mode = (int32_t)(i / 2 % 3);
	a->per_axis = i & 1 && i < 8;
	a->axis = 1;
	a->decay = 0.9f;
	if (i >= 8)
		a->scale_mode = RLX_SCALE_BATCH;
	if (a->scale_mode != RLX_SCALE_BATCH) {
		s->in[1] = a->per_axis ? rlx_type(RLX_F32, 5) : rlx_scalar(RLX_F32);
		s->lo[1] = i < 4 ? -1 : 0.5;
		s->hi[1] = 2;
	}
	s->tol = 1.0 / 60;	/* a tie may fall to the other side: half a step */
	if (a->bits < 8)
		s->tol = a->bits == 4 ? 0.15 : 1;
	return true;
}

const struct rlx_op_impl rlx_op_fake_quantize_impl = {
	.infer = fake_quantize_infer, .scratch = fake_quantize_scratch,
	.eval = fake_quantize_eval, .expand = fake_quantize_expand,
	.vjp = fake_quantize_vjp,
};
RLX_SAMPLES(fake_quantize, fake_quantize_sample)
