// SPDX-License-Identifier: MIT
/* Conversion between dtypes. */
#include "ops/op.h"

/*
 * Shapes:	x[..] -> y[..], alike
 * Dtypes:	any to any
 * Does:	to f64, f32, f16 and bf16 the nearest, ties to even, infinite beyond their range;
 *		to f8 the nearest, but the largest beyond it. Floats become integers by
 *		truncation, the end of the range beyond it, 0 for NaN; integers become other
 *		integers by their low bits. To bool: whether it is not 0, which NaN is not. c64
 *		gives its real part, and gets an imaginary part of 0.
 * Gradient:	dx = dy in x's dtype, where that is a float or c64: its real part for a float
 *		that became c64, with an imaginary part of 0 for c64 that became a float
 * Source:	ONNX Cast-21 and IEEE 754; beyond the range of integers, where both leave it open,
 *		as said
 */
RLX_OP(cast, "to another dtype: nearest even; to integers truncate and saturate, NaN is 0",
	IN(x)
	REQ(dtype, to, "a dtype"),
	RLX_T_ELEMENTWISE | RLX_T_STEPPED)

static enum rlx_status cast_infer(struct rlx_infer *q)
{
	const struct rlx_op_cast *a = q->args;

	if (!rlx_dtype_size(a->to))
		return op_fail(q, RLX_ETYPE, "'to' is not a dtype");
	q->out[0] = *q->in[0];
	q->out[0].dtype = a->to;
	return RLX_OK;
}

typedef uint32_t four __attribute__((vector_size(16)));
typedef int32_t four_signed __attribute__((vector_size(16)));
typedef float four_floats __attribute__((vector_size(16)));
typedef uint16_t four_narrow __attribute__((vector_size(8)));

/* Each of @yes where @x is under @limit, else of @no. */
static inline four below(four_signed x, int32_t limit, four yes, four no)
{
	four_signed at = { limit, limit, limit, limit };
	four m = (four)(x < at);

	return (yes & m) | (no & ~m);
}

/* rlx_f32_to_f16() */
static inline four f16_of(four u)
{
	four a = u & 0x7fffffff, normal, tiny, inf = a - a + 0x7c00;
	four_signed x = (four_signed)a;

	normal = ((a + 0xfff + (a >> 13 & 1)) >> 13) - (112 << 10);
	tiny = (four)((four_floats)a + 0.5f) - 0x3f000000;
	normal = below(x, 0x38800000, tiny, normal);
	normal = below(x, 0x477ff000, normal, below(x, 0x7f800001, inf, inf | 0x0200));
	return normal | (u >> 16 & 0x8000);
}

/* rlx_f32_to_bf16() */
static inline four bf16_of(four u)
{
	four_signed x = (four_signed)(u & 0x7fffffff);

	return below(x, 0x7f800001, (u + 0x7fff + (u >> 16 & 1)) >> 16, u >> 16 | 0x0040);
}

/* Weights by the million, where a program is compiled for 16 bits. */
static bool narrow(const struct rlx_tensor *x, const struct rlx_tensor *y, int64_t n)
{
	bool half = y->type.dtype == RLX_F16;
	const float *from = x->data;
	uint16_t *to = y->data;
	four_narrow some;
	int64_t i;
	four u;

	if (x->type.dtype != RLX_F32 || (!half && y->type.dtype != RLX_BF16))
		return false;
	for (i = 0; i + 4 <= n; i += 4) {
		memcpy(&u, from + i, sizeof(u));
		some = __builtin_convertvector(half ? f16_of(u) : bf16_of(u), four_narrow);
		memcpy(to + i, &some, sizeof(some));
	}
	for (; i < n; i++)
		to[i] = half ? rlx_f32_to_f16(from[i]) : rlx_f32_to_bf16(from[i]);
	return true;
}

/* A 16-bit number's value: exponents are rebased by a product, which is exact. */
static inline four of_f16(four u)
{
	const four_signed rebase = { 0x77800000, 0x77800000, 0x77800000, 0x77800000 };
	four a = (u & 0x7fff) << 13, wide = (four)((four_floats)a * (four_floats)rebase);

	wide = below((four_signed)a, 0x0f800000, wide, a | 0x7f800000);
	return wide | (u & 0x8000) << 16;
}

/* Likewise, for a device that computes in f32. */
static bool widen(const struct rlx_tensor *x, const struct rlx_tensor *y, int64_t n)
{
	bool half = x->type.dtype == RLX_F16;
	const uint16_t *from = x->data;
	float *to = y->data;
	four_narrow some;
	int64_t i;
	four u;

	if (y->type.dtype != RLX_F32 || (!half && x->type.dtype != RLX_BF16))
		return false;
	for (i = 0; i + 4 <= n; i += 4) {
		memcpy(&some, from + i, sizeof(some));
		u = __builtin_convertvector(some, four);
		u = half ? of_f16(u) : u << 16;
		memcpy(to + i, &u, sizeof(u));
	}
	for (; i < n; i++)
		to[i] = (float)el_get(x, i);
	return true;
}

/*
 * A 64-bit integer as a double that rounds right once more: exact, or what is cut off
 * makes its last bit 1, so that it lies on the right side of what narrower floats have.
 */
static double odd_of(uint64_t m)
{
	int cut = m >> 53 ? 11 - __builtin_clzll(m) : 0;
	uint64_t kept = m >> cut;

	return ldexp((double)(kept << cut == m ? kept : kept | 1), cut);
}

static bool round_once(const struct rlx_tensor *x, const struct rlx_tensor *y, int64_t n)
{
	bool has_sign = x->type.dtype == RLX_I64;
	int64_t i, v;

	if ((!has_sign && x->type.dtype != RLX_U64) || y->type.dtype == RLX_F64)
		return false;
	for (i = 0; i < n; i++) {
		v = el_geti(x, i);
		el_set(y, i, has_sign && v < 0 ? -odd_of(0 - (uint64_t)v) : odd_of((uint64_t)v));
	}
	return true;
}

static enum rlx_status cast_eval(struct rlx_eval *q)
{
	const struct rlx_tensor *x = &q->in[0], *y = &q->out[0];
	int64_t n = rlx_type_count(&x->type), i;

	if (x->type.dtype == y->type.dtype) {
		memcpy(y->data, x->data, (size_t)rlx_type_bytes(&x->type));
	} else if (el_is_int(x->type.dtype) && el_is_int(y->type.dtype)) {
		for (i = 0; i < n; i++)	/* integer to integer wraps */
			el_seti(y, i, el_geti(x, i));
	} else if (!narrow(x, y, n) && !widen(x, y, n) && !round_once(x, y, n)) {
		for (i = 0; i < n; i++)
			el_set(y, i, el_get(x, i));
	}
	return RLX_OK;
}

static enum rlx_status cast_vjp(struct rlx_grad *q)
{
	const struct rlx_type *t = rlx_type_of(q->g, q->in[0]);

	if (rlx_dtype_is_float(t->dtype) || t->dtype == RLX_C64)
		q->d_in[0] = rlx_emit(q->g, cast, .x = q->d_out[0], .to = t->dtype);
	return RLX_OK;
}

static bool cast_sample(unsigned int i, struct rlx_sample *s)
{
	static const enum rlx_dtype to[] = {
		RLX_F64, RLX_F16, RLX_BF16, RLX_I32, RLX_U8, RLX_BOOL, RLX_I64,
		RLX_F8E4M3, RLX_F8E5M2, RLX_I8, RLX_F32,
	};
	struct rlx_op_cast *a = s->args;

	if (i >= sizeof(to) / sizeof(to[0]))
		return false;
	s->n_in = 1;
	s->in[0] = rlx_type(RLX_F32, 3, 37);
	s->lo[0] = -300;
	s->hi[0] = 300;
	s->grad_tol = -1;
	a->to = to[i];
	return true;
}

const struct rlx_op_impl rlx_op_cast_impl = {
	.infer = cast_infer, .eval = cast_eval, .vjp = cast_vjp,
	.complex_vjp = RLX_COMPLEX_VJP_WHOLE,
};
RLX_SAMPLES(cast, cast_sample)
