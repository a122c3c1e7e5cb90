// SPDX-License-Identifier: MIT
/* Elementwise programs against double and 64-bit arithmetic, at every level. */
#include "kernels/ew.h"
#include "selftests/kernels/kcheck.h"

static double softplus(double x)
{
	return (x > 0 ? x : x == x ? 0 : x) + log1p(exp(-fabs(x)));
}

static double clip01(double x)
{
	return x < 0 ? 0 : x > 1 ? 1 : x;
}

static double pymod(double x, double y)
{
	double r = fmod(x, y);

	return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

/* x times what falls to 0 faster: 0 at -inf, which is where this is finite. */
static double above(double x)
{
	return x == -INFINITY ? -1 : x;
}

static double want_f(int op, double x, double y, double z)
{
	switch (op) {
	case RLX_EW_copy: return x;
	case RLX_EW_neg: return -x;
	case RLX_EW_abs: return fabs(x);
	case RLX_EW_sign: return x > 0 ? 1 : x < 0 ? -1 : x;
	case RLX_EW_not_: return x == 0;
	case RLX_EW_exp: return exp(x);
	case RLX_EW_log: return log(x);
	case RLX_EW_sqrt: return sqrt(x);
	case RLX_EW_rsqrt: return 1 / sqrt(x);
	case RLX_EW_recip: return 1 / x;
	case RLX_EW_sin: return sin(x);
	case RLX_EW_cos: return cos(x);
	case RLX_EW_tan: return tan(x);
	case RLX_EW_asin: return asin(x);
	case RLX_EW_acos: return acos(x);
	case RLX_EW_atan: return atan(x);
	case RLX_EW_sinh: return sinh(x);
	case RLX_EW_cosh: return cosh(x);
	case RLX_EW_tanh: return tanh(x);
	case RLX_EW_asinh: return asinh(x);
	case RLX_EW_acosh: return acosh(x);
	case RLX_EW_atanh: return atanh(x);
	case RLX_EW_sigmoid:
		return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
	case RLX_EW_silu: return above(x) / (1 + exp(-x));
	case RLX_EW_gelu: return 0.5 * above(x) * erfc(-x / sqrt(2));
	case RLX_EW_gelu_tanh:
		return above(x) / (1 + exp(-2 * sqrt(2 / M_PI) *
				    (x + 0.044715 * x * x * x)));
	case RLX_EW_relu: return x < 0 ? 0 : x;
	case RLX_EW_erf: return erf(x);
	case RLX_EW_ceil: return ceil(x);
	case RLX_EW_floor: return floor(x);
	case RLX_EW_round: return nearbyint(x);
	case RLX_EW_trunc: return trunc(x);
	case RLX_EW_softplus: return softplus(x);
	case RLX_EW_softsign:
		return isinf(x) ? copysign(1, x) : x / (1 + fabs(x));
	case RLX_EW_mish: return above(x) * tanh(softplus(x));
	case RLX_EW_hard_sigmoid: return clip01(0.2 * x + 0.5);
	case RLX_EW_hard_swish: return above(x) * clip01(x / 6 + 0.5);
	case RLX_EW_is_nan: return x != x;
	case RLX_EW_is_inf: return fabs(x) == INFINITY;
	case RLX_EW_exp2: return exp2(x);
	case RLX_EW_log2: return log2(x);
	case RLX_EW_expm1: return expm1(x);
	case RLX_EW_log1p: return log1p(x);
	case RLX_EW_add: return x + y;
	case RLX_EW_sub: return x - y;
	case RLX_EW_mul: return x * y;
	case RLX_EW_div: return x / y;
	case RLX_EW_max: return x != x || x > y ? x : y;
	case RLX_EW_min: return x != x || x < y ? x : y;
	case RLX_EW_pow: return pow(x, y);
	case RLX_EW_mod: return pymod(x, y);
	case RLX_EW_fmod: return fmod(x, y);
	case RLX_EW_atan2: return atan2(x, y);
	case RLX_EW_eq: return x == y;
	case RLX_EW_ne: return x != y;
	case RLX_EW_lt: return x < y;
	case RLX_EW_le: return x <= y;
	case RLX_EW_gt: return x > y;
	case RLX_EW_ge: return x >= y;
	case RLX_EW_and_: return x != 0 && y != 0;
	case RLX_EW_or_: return x != 0 || y != 0;
	case RLX_EW_xor_: return (x != 0) != (y != 0);
	case RLX_EW_where: return x != 0 ? y : z;
	case RLX_EW_leaky: return x >= 0 ? x : x * y;
	case RLX_EW_fma: return x * y + z;
	}
	return NAN;
}

/* Errors relative to these absolute values are allowed besides 4 ulp. */
static double slack(int op, int cls, double x, double y, double z)
{
	double eps = cls == RLX_EW_F32 ? 0x1p-24 : 0x1p-52;

	switch (op) {
	case RLX_EW_gelu:
	case RLX_EW_gelu_tanh:
	case RLX_EW_silu:
		return cls == RLX_EW_F32 ? 8e-7 * fmin(fabs(x), 1) :
					   8 * eps * fabs(x);
	case RLX_EW_hard_sigmoid: return 2 * eps;
	case RLX_EW_hard_swish: return 4 * eps * fabs(x);
	case RLX_EW_fma: return 2 * eps * (fabs(x * y) + fabs(z));
	case RLX_EW_mod: return eps * fabs(y);
	case RLX_EW_mish: return 0x1p-149 * fabs(x);
	}
	return 0;
}

static uint64_t rand64(uint64_t *seed)
{
	return rlx_test_rand(seed) << 32 ^ rlx_test_rand(seed);
}

static const float special[] = {
	0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 1.5f, 2.5f, -2.5f, 3.0f, 1e-40f,
	-1e-45f, 0x1p-126f, 0x1p127f, 88.8f, -88.8f, -103.9f, 100.0f, 1e10f,
	-1e10f, 8192.5f, 3e38f, -3e38f, INFINITY, -INFINITY, NAN, 0.9999999f,
};
#define N_SPECIAL	(sizeof(special) / sizeof(special[0]))

static double draw(uint64_t *seed, int cls)
{
	uint64_t k = rlx_test_rand(seed) % 8;
	uint32_t b;
	float f;

	if (k == 0)
		return special[rlx_test_rand(seed) % N_SPECIAL];
	if (k == 1) {
		b = (uint32_t)rand64(seed);
		memcpy(&f, &b, 4);
		return f;
	}
	if (k == 2)
		return (double)kc_pick(seed, -4, 4);
	f = (float)rlx_test_uniform(seed, k < 5 ? -2 : -30, k < 5 ? 2 : 30);
	return cls == RLX_EW_F32 ? f : rlx_test_uniform(seed, -9, 9);
}

static void one_op(const struct rlx_kernels *k, int op, int cls, uint64_t *seed)
{
	int type = cls == RLX_EW_F32 ? RLX_F32 : RLX_F64;
	size_t size = cls == RLX_EW_F32 ? 4 : 8;
	int64_t n = kc_pick(seed, 1, 3000);
	struct kc_buf in[3], out = kc_buf_new((size_t)n * size, size);
	struct rlx_k_ew a = { .cls = (uint8_t)cls, .n_in = 3, .n_step = 1,
			      .n_out = 1, .rank = 1, .dim = { n } };

	for (int i = 0; i < 3; i++) {
		in[i] = kc_buf_new((size_t)n * size, size);
		for (int64_t j = 0; j < n; j++) {
			double v = draw(seed, cls);

			if (cls == RLX_EW_F32)
				((float *)in[i].p)[j] = (float)v;
			else
				((double *)in[i].p)[j] = v;
		}
		a.in[i] = (struct rlx_k_ew_in){ .p = in[i].p, .stride = { 1 },
						.type = (uint8_t)type };
	}
	a.step[0] = (struct rlx_k_ew_step){ .op = (uint8_t)op,
					    .src = { 0, 1, 2 } };
	a.out[0] = (struct rlx_k_ew_out){ out.p, (uint8_t)type,
					  RLX_EW_STEP(0) };
	rlx_k_ew_plan(RLX_ISA_V4, &a);
	kc_run(k->ew, &a, rlx_k_ew_units(&a), rlx_k_ew_scratch(&a), seed);
	for (int64_t j = 0; j < n; j++) {
		double v[4], want, err;

		for (int i = 0; i < 4; i++) {
			void *p = i < 3 ? in[i].p : out.p;

			v[i] = cls == RLX_EW_F32 ? ((float *)p)[j]
						 : ((double *)p)[j];
		}
		if (op == RLX_EW_fma && fabs(v[0] * v[1]) > 1e38)
			continue;
		want = want_f(op, v[0], v[1], v[2]);
		if (cls == RLX_EW_F32)
			err = kc_ulp((float)v[3], want);
		else
			err = want != want ? (v[3] == v[3] ? INFINITY : 0) :
			      v[3] == want ? 0 :
			      fabs(v[3] - want) /
				      (fabs(want) * 0x1p-52 + 0x1p-1074);
		CHECKF(err <= 4 || fabs(v[3] - want) <=
				   slack(op, cls, v[0], v[1], v[2]),
		       "op %d class %d (%.9g, %.9g, %.9g) gives %.9g, not %.9g"
		       " (%g ulp)", op, cls, v[0], v[1], v[2], v[3], want, err);
	}
	for (int i = 0; i < 3; i++)
		kc_buf_free(&in[i]);
	kc_buf_free(&out);
}

static void all_ops(int cls)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int op = RLX_EW_copy; op < RLX_EW_OP_COUNT; op++)
			if (rlx_k_ew_arity(cls, op) > 0 && op != RLX_EW_cast)
				for (int t = 0; t < 4; t++)
					one_op(rlx_kernels_get(
						(enum rlx_isa)l),
					       op, cls, &seed);
}

TEST(every_f32_op_is_within_4_ulp)
{
	all_ops(RLX_EW_F32);
}

TEST(every_f64_op_is_libm)
{
	all_ops(RLX_EW_F64);
}

/* x to the power y, wrapping; the truncated reciprocal's powers if it is signed and below 0 */
static uint64_t power(uint64_t x, uint64_t y, bool is_signed)
{
	uint64_t r = 1;

	if (is_signed && y >> 63)
		return x == 1 || (x == UINT64_MAX && !(y & 1)) ? 1 : x == UINT64_MAX ? x : 0;
	for (int bit = 64; bit-- > 0;) {
		r *= r;
		r *= y >> bit & 1 ? x : 1;
	}
	return r;
}

static int64_t want_i(int op, int64_t x, int64_t y, int64_t z)
{
	uint64_t ux = (uint64_t)x, uy = (uint64_t)y;
	int64_t r = y == 0 || y == -1 ? 0 : x % y;

	switch (op) {
	case RLX_EW_copy: return x;
	case RLX_EW_neg: return (int64_t)(0 - ux);
	case RLX_EW_abs: return x < 0 ? (int64_t)(0 - ux) : x;
	case RLX_EW_sign: return x > 0 ? 1 : x < 0 ? -1 : 0;
	case RLX_EW_not_: return !x;
	case RLX_EW_relu: return x < 0 ? 0 : x;
	case RLX_EW_bnot: return ~x;
	case RLX_EW_add: return (int64_t)(ux + uy);
	case RLX_EW_sub: return (int64_t)(ux - uy);
	case RLX_EW_mul: return (int64_t)(ux * uy);
	case RLX_EW_div:
		return y == 0 ? 0 : y == -1 ? (int64_t)(0 - ux) : x / y;
	case RLX_EW_max: return x > y ? x : y;
	case RLX_EW_min: return x < y ? x : y;
	case RLX_EW_pow: return (int64_t)power(ux, uy, true);
	case RLX_EW_upow: return (int64_t)power(ux, uy, false);
	case RLX_EW_fmod: return r;
	case RLX_EW_mod: return r && (r < 0) != (y < 0) ? r + y : r;
	case RLX_EW_eq: return x == y;
	case RLX_EW_ne: return x != y;
	case RLX_EW_lt: return x < y;
	case RLX_EW_le: return x <= y;
	case RLX_EW_gt: return x > y;
	case RLX_EW_ge: return x >= y;
	case RLX_EW_and_: return x && y;
	case RLX_EW_or_: return x || y;
	case RLX_EW_xor_: return !x != !y;
	case RLX_EW_band: return x & y;
	case RLX_EW_bor: return x | y;
	case RLX_EW_bxor: return x ^ y;
	case RLX_EW_shl: return uy > 63 ? 0 : (int64_t)(ux << uy);
	case RLX_EW_shr: return uy > 63 ? (x < 0 ? -1 : 0) : x >> y;
	case RLX_EW_ushr: return uy > 63 ? 0 : (int64_t)(ux >> uy);
	case RLX_EW_udiv: return uy ? (int64_t)(ux / uy) : 0;
	case RLX_EW_umod: return uy ? (int64_t)(ux % uy) : 0;
	case RLX_EW_umax: return ux > uy ? x : y;
	case RLX_EW_umin: return ux < uy ? x : y;
	case RLX_EW_ult: return ux < uy;
	case RLX_EW_ule: return ux <= uy;
	case RLX_EW_where: return x ? y : z;
	case RLX_EW_fma: return (int64_t)(ux * uy + (uint64_t)z);
	}
	return 0;
}

static int64_t draw_i(uint64_t *seed)
{
	static const int64_t sp[] = { 0, 1, -1, INT64_MIN, INT64_MAX, 63, 64 };
	uint64_t k = rlx_test_rand(seed) % 4;

	if (k == 0)
		return sp[rlx_test_rand(seed) % 7];
	return k == 1 ? (int64_t)rand64(seed) : kc_pick(seed, -9, 70);
}

static bool is_unsigned(int op)
{
	return op >= RLX_EW_ushr && op <= RLX_EW_ule;
}

/* Of what lies at p the low bytes, as @op sees them. */
static int64_t extend(const void *p, size_t size, int op)
{
	unsigned int up = 64 - 8 * (unsigned int)size;
	uint64_t x = 0;

	memcpy(&x, p, size);
	return is_unsigned(op) ? (int64_t)x : (int64_t)(x << up) >> up;
}

/* One op of a class of integers, whose type is @type; operand 1 may be one number for all. */
static void one_int_op(const struct rlx_kernels *k, int op, int cls, enum rlx_dtype type,
		       uint64_t *seed)
{
	const size_t size = rlx_k_type_size(type);
	const int64_t n = kc_pick(seed, 1, 5000);
	struct kc_buf in[3], out = kc_buf_new((size_t)n * size, size);
	struct rlx_k_ew a = { .cls = (uint8_t)cls, .n_in = 3, .n_step = 1, .n_out = 1,
			      .rank = 1, .dim = { n } };

	for (int i = 0; i < 3; i++) {
		in[i] = kc_buf_new((size_t)n * size, size);
		for (int64_t j = 0; j < n; j++) {
			int64_t v = draw_i(seed);

			memcpy((char *)in[i].p + (size_t)j * size, &v, size);
		}
		a.in[i] = (struct rlx_k_ew_in){ .p = in[i].p, .type = (uint8_t)type };
		a.in[i].stride[0] = i != 1 || kc_pick(seed, 0, 3);
	}
	a.step[0] = (struct rlx_k_ew_step){ .op = (uint8_t)op, .src = { 0, 1, 2 } };
	a.out[0] = (struct rlx_k_ew_out){ out.p, (uint8_t)type, RLX_EW_STEP(0) };
	rlx_k_ew_plan(RLX_ISA_V4, &a);
	kc_run(k->ew, &a, rlx_k_ew_units(&a), rlx_k_ew_scratch(&a), seed);
	for (int64_t j = 0; j < n; j++) {
		int64_t v[3], want, got;

		for (int i = 0; i < 3; i++)
			v[i] = extend((const char *)in[i].p +
				      (size_t)(j * a.in[i].stride[0]) * size, size, op);
		want = want_i(op, v[0], v[1], v[2]);
		want = extend(&want, size, op);
		got = extend((const char *)out.p + (size_t)j * size, size, op);
		CHECKF(got == want, "op %d class %d (%lld, %lld, %lld) is %lld, not %lld", op, cls,
		       (long long)v[0], (long long)v[1], (long long)v[2], (long long)got,
		       (long long)want);
	}
	for (int i = 0; i < 3; i++)
		kc_buf_free(&in[i]);
	kc_buf_free(&out);
}

TEST(every_op_of_integers_is_exact)
{
	static const struct {
		int		cls;
		enum rlx_dtype	type;
	} w[] = { { RLX_EW_I64, RLX_I64 }, { RLX_EW_I32, RLX_I32 },
		  { RLX_EW_I16, RLX_U16 }, { RLX_EW_I8, RLX_I8 } };
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int op = RLX_EW_copy; op < RLX_EW_OP_COUNT; op++)
			for (int i = 0; i < 4; i++)
				if (rlx_k_ew_arity(w[i].cls, op) > 0 && op != RLX_EW_cast)
					one_int_op(rlx_kernels_get((enum rlx_isa)l), op,
						   w[i].cls, w[i].type, &seed);
}

static struct kc_buf random_input(struct rlx_k_ew *a, int i, uint64_t *seed)
{
	static const uint8_t types[] = { RLX_F32, RLX_F32, RLX_BF16,
					 RLX_I8, RLX_I64, RLX_U8 };
	int type = types[rlx_test_rand(seed) % 6];
	size_t size = rlx_k_type_size((enum rlx_dtype)type);
	int64_t run = 1;
	struct kc_buf b;

	a->in[i].type = (uint8_t)type;
	for (int d = a->rank; d-- > 0;)
		if (rlx_test_rand(seed) % 3) {
			a->in[i].stride[d] = run;
			run *= a->dim[d];
		}
	b = kc_buf_new((size_t)run * size, size);
	a->in[i].p = b.p;
	for (int64_t j = 0; j < run; j++) {
		int64_t v = kc_pick(seed, 0, 7);
		float f = (float)v;
		uint16_t h = kc_to_bf16(f);

		memcpy((char *)b.p + (size_t)j * size,
		       type == RLX_F32 ? (void *)&f :
		       type == RLX_BF16 ? (void *)&h : (void *)&v, size);
	}
	return b;
}

/* Steps of cheap ops whose results floats hold exactly. */
static void random_steps(struct rlx_k_ew *a, uint64_t *seed)
{
	static const uint8_t ops[] = { RLX_EW_add, RLX_EW_sub, RLX_EW_mul,
				       RLX_EW_max, RLX_EW_neg, RLX_EW_where,
				       RLX_EW_const_, RLX_EW_min };

	for (int s = 0; s < a->n_step; s++) {
		a->step[s].op = ops[rlx_test_rand(seed) % 8];
		a->step[s].imm.f = (double)kc_pick(seed, -3, 3);
		for (int j = 0; j < 3; j++) {
			int64_t o = kc_pick(seed, -1, a->n_in + s - 1);

			a->step[s].src[j] = (uint8_t)(o < 0 ? RLX_EW_IMM :
				o < a->n_in ? o : RLX_EW_STEP(o - a->n_in));
		}
	}
}

static double input_at(const struct rlx_k_ew *a, int i, const int64_t *idx)
{
	size_t size = rlx_k_type_size((enum rlx_dtype)a->in[i].type);
	int64_t off = 0, x = 0;
	float f;

	for (int d = 0; d < a->rank; d++)
		off += idx[d] * a->in[i].stride[d];
	memcpy(&x, (const char *)a->in[i].p + off * (int64_t)size, size);
	memcpy(&f, &x, 4);
	return a->in[i].type == RLX_F32 ? (double)f :
	       a->in[i].type == RLX_BF16 ?
	       (double)kc_from_bf16((uint16_t)x) : (double)x;
}

/* Element e of every operand of the program. */
static void follow(const struct rlx_k_ew *a, int64_t e, double *v)
{
	int64_t idx[4];

	for (int d = a->rank; d-- > 0; e /= a->dim[d])
		idx[d] = e % a->dim[d];
	for (int i = 0; i < a->n_in; i++)
		v[i] = input_at(a, i, idx);
	for (int s = 0; s < a->n_step; s++) {
		const struct rlx_k_ew_step *t = &a->step[s];
		double x[3];

		for (int j = 0; j < 3; j++)
			x[j] = t->src[j] == RLX_EW_IMM ? t->imm.f :
							 v[t->src[j]];
		v[RLX_EW_STEP(s)] = t->op == RLX_EW_const_ ? t->imm.f :
				    want_f(t->op, x[0], x[1], x[2]);
	}
}

static void random_program(const struct rlx_kernels *k, uint64_t *seed)
{
	struct rlx_k_ew a = { .cls = (uint8_t)kc_pick(seed, 0, 1),
			      .rank = (int)kc_pick(seed, 1, 4),
			      .n_in = (uint8_t)kc_pick(seed, 1, 4),
			      .n_step = (uint8_t)kc_pick(seed, 0, 12),
			      .n_out = 2 }, p;
	int last = a.n_step ? RLX_EW_STEP(a.n_step - 1) : 0;
	int mid = a.n_step ? RLX_EW_STEP(a.n_step / 2) : 0;
	int brief = a.rank > 1 ? (int)kc_pick(seed, 0, 1) : 0;
	struct kc_buf in[4], out[2];
	int64_t total = 1;

	/* long rows, or short ones, of which blocks hold many */
	for (int d = 0; d < a.rank; d++) {
		a.dim[d] = kc_pick(seed, 1, d != a.rank - 1 - brief ? 9 + 12 * brief : 400);
		total *= a.dim[d];
	}
	for (int i = 0; i < a.n_in; i++)
		in[i] = random_input(&a, i, seed);
	random_steps(&a, seed);
	out[0] = kc_buf_new((size_t)total * 4, 4);
	out[1] = kc_buf_new((size_t)total * 8, 8);
	a.out[0] = (struct rlx_k_ew_out){ out[0].p, RLX_F32, (uint8_t)last };
	a.out[1] = (struct rlx_k_ew_out){ out[1].p, RLX_F64, (uint8_t)mid };
	p = a;
	rlx_k_ew_plan(RLX_ISA_V4, &p);
	kc_run(k->ew, &p, rlx_k_ew_units(&p), rlx_k_ew_scratch(&p), seed);
	for (int64_t e = 0; e < total; e++) {
		double v[RLX_EW_MAX_IN + RLX_EW_MAX_STEP], w0, w1, g0, g1;

		follow(&a, e, v);
		w0 = v[last];
		w1 = v[mid];
		g0 = (double)((float *)out[0].p)[e];
		g1 = ((double *)out[1].p)[e];
		CHECKF(fabs(g0 - w0) <= 1e-5 * fabs(w0) &&
		       fabs(g1 - w1) <= 1e-5 * fabs(w1),
		       "element %lld of %lld is %g, %g, not %g, %g",
		       (long long)e, (long long)total, g0, g1, w0, w1);
	}
	for (int i = 0; i < a.n_in; i++)
		kc_buf_free(&in[i]);
	kc_buf_free(&out[0]);
	kc_buf_free(&out[1]);
}

TEST(random_programs_broadcast_right)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 300; t++)
			random_program(rlx_kernels_get((enum rlx_isa)l), &seed);
}

TEST(output_may_be_the_input)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int n = 1; n < 2500; n += 97) {
			struct kc_buf b = kc_buf_new((size_t)n * 4, 4);
			float *x = b.p;
			struct rlx_k_ew a = { .n_in = 1, .n_step = 2,
				.n_out = 1, .rank = 1, .dim = { n } };

			for (int i = 0; i < n; i++)
				x[i] = (float)i;
			a.in[0] = (struct rlx_k_ew_in){ .p = x,
				.stride = { 1 }, .type = RLX_F32 };
			a.step[0] = (struct rlx_k_ew_step){ .op = RLX_EW_mul,
				.src = { 0, RLX_EW_IMM }, .imm.f = 3 };
			a.step[1] = (struct rlx_k_ew_step){ .op = RLX_EW_sub,
				.src = { RLX_EW_STEP(0), 0 } };
			a.out[0] = (struct rlx_k_ew_out){ x, RLX_F32,
							  RLX_EW_STEP(1) };
			rlx_k_ew_plan(RLX_ISA_V4, &a);
			kc_run(rlx_kernels_get((enum rlx_isa)l)->ew, &a,
			       rlx_k_ew_units(&a), rlx_k_ew_scratch(&a), &seed);
			for (int i = 0; i < n; i++)
				CHECK(x[i] == 2.0f * (float)i);
			kc_buf_free(&b);
		}
}

/* Powers of a constant take shortcuts; the odd values must come out the same. */
TEST(constant_powers)
{
	static const float y[] = { 1, 2, 3, -1, 0.5f, -0.5f, 4, -2, 0, 1.5f };
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int p = 0; p < 10; p++) {
			float x[64], r[64];
			struct rlx_k_ew a = { .n_in = 1, .n_step = 1,
				.n_out = 1, .rank = 1, .dim = { 64 } };

			for (size_t i = 0; i < 64; i++)
				x[i] = i < N_SPECIAL ? special[i] :
				       (float)rlx_test_uniform(&seed, -9, 9);
			a.in[0] = (struct rlx_k_ew_in){ .p = x,
				.stride = { 1 }, .type = RLX_F32 };
			a.step[0] = (struct rlx_k_ew_step){ .op = RLX_EW_pow,
				.src = { 0, RLX_EW_IMM }, .imm.f = y[p] };
			a.out[0] = (struct rlx_k_ew_out){ r, RLX_F32,
							  RLX_EW_STEP(0) };
			rlx_k_ew_plan(RLX_ISA_V4, &a);
			kc_run(rlx_kernels_get((enum rlx_isa)l)->ew, &a, 1,
			       rlx_k_ew_scratch(&a), &seed);
			for (int i = 0; i < 64; i++)
				CHECKF(kc_ulp(r[i], pow(x[i], y[p])) <= 4,
				       "%g to %g is %g", x[i], y[p], r[i]);
		}
}

TEST(cast_step_rounds_to_the_type)
{
	for (int l = 0; l < kc_levels(); l++) {
		float x[20], y[20];
		struct rlx_k_ew a = { .n_in = 1, .n_step = 1, .n_out = 1,
				      .rank = 1, .dim = { 20 } };
		char scratch[32 * 4096] __attribute__((aligned(64)));

		for (int i = 0; i < 20; i++)
			x[i] = 1.0f + (float)i / 64;
		a.in[0] = (struct rlx_k_ew_in){ .p = x, .stride = { 1 },
						.type = RLX_F32 };
		a.step[0] = (struct rlx_k_ew_step){ .op = RLX_EW_cast,
			.type = RLX_BF16 };
		a.out[0] = (struct rlx_k_ew_out){ y, RLX_F32,
						  RLX_EW_STEP(0) };
		rlx_k_ew_plan(RLX_ISA_V4, &a);
		CHECK(rlx_k_ew_scratch(&a) <= sizeof(scratch));
		rlx_kernels_get((enum rlx_isa)l)->ew(&a, 0, 1, scratch);
		for (int i = 0; i < 20; i++)
			CHECK(y[i] == kc_from_bf16(kc_to_bf16(x[i])));
	}
}

/* A program of two branches of bytes: what it is to give, and where its numbers stand. */
struct branches {
	struct rlx_k_ew	a;
	float		add[2], scale[2], by, zero;
	bool		relu, is_signed;
	float		scalar[2];	/* scales as inputs of one element */
};

/* Append a step of @src and number @v: immediate, constant, or in front of it; its operand. */
static uint8_t by_number(struct rlx_k_ew *a, int op, uint8_t src, float v, uint64_t *seed)
{
	struct rlx_k_ew_step *s = &a->step[a->n_step];

	if (kc_pick(seed, 0, 1)) {
		*s = (struct rlx_k_ew_step){ .op = (uint8_t)op, .src = { src, RLX_EW_IMM },
					     .imm.f = (double)v };
		return RLX_EW_STEP(a->n_step++);
	}
	s[0] = (struct rlx_k_ew_step){ .op = RLX_EW_const_, .imm.f = (double)v };
	s[1] = (struct rlx_k_ew_step){ .op = (uint8_t)op,
				       .src = { RLX_EW_STEP(a->n_step), src } };
	if (kc_pick(seed, 0, 1)) {
		s[1].src[0] = src;
		s[1].src[1] = RLX_EW_STEP(a->n_step);
	}
	a->n_step += 2;
	return RLX_EW_STEP(a->n_step - 1);
}

static void draw_branches(struct branches *b, int64_t n, uint64_t *seed)
{
	struct rlx_k_ew *a = &b->a;
	uint8_t x[2], y;
	int k;

	memset(b, 0, sizeof(*b));
	a->n_in = 3;
	a->n_out = a->rank = 1;
	a->dim[0] = n;
	for (k = 0; k < 2; k++) {
		b->scale[k] = (float)rlx_test_uniform(seed, -0.1, 0.1);
		b->add[k] = (float)(kc_pick(seed, 0, 2) ? kc_pick(seed, 0, 255) - 255 : 0);
		a->in[k] = (struct rlx_k_ew_in){ .stride = { 1 }, .type = kc_pick(seed, 0, 1) ?
						 RLX_U8 : RLX_I8 };
		x[k] = (uint8_t)k;
		if (b->add[k] != 0)
			x[k] = by_number(a, RLX_EW_add, x[k], b->add[k], seed);
	}
	b->scalar[0] = b->scale[0];
	a->in[2] = (struct rlx_k_ew_in){ .p = b->scalar, .type = RLX_F32 };
	x[1] = by_number(a, RLX_EW_mul, x[1], b->scale[1], seed);
	a->step[a->n_step] = (struct rlx_k_ew_step){ .op = RLX_EW_fma, .src = { x[0], 2, x[1] } };
	y = RLX_EW_STEP(a->n_step++);
	b->relu = kc_pick(seed, 0, 1);
	if (b->relu) {
		a->step[a->n_step] = (struct rlx_k_ew_step){ .op = RLX_EW_relu, .src = { y } };
		y = RLX_EW_STEP(a->n_step++);
	}
	b->by = (float)rlx_test_uniform(seed, 1, 40);
	y = by_number(a, RLX_EW_mul, y, b->by, seed);
	a->step[a->n_step] = (struct rlx_k_ew_step){ .op = RLX_EW_round, .src = { y } };
	y = RLX_EW_STEP(a->n_step++);
	b->is_signed = kc_pick(seed, 0, 1);
	b->zero = (float)(kc_pick(seed, 0, 1) ? kc_pick(seed, 0, 100) : 0);
	if (b->zero != 0)
		y = by_number(a, RLX_EW_add, y, b->zero, seed);
	a->out[0] = (struct rlx_k_ew_out){ .type = b->is_signed ? RLX_I8 : RLX_U8, .src = y };
}

/* Element @i from the bytes @x and @y, with the last product rounded or not. */
static int branches_sum(const struct branches *b, uint8_t x, uint8_t y, bool fused)
{
	float p = (float)(b->a.in[0].type == RLX_I8 ? (int8_t)x : x) + b->add[0];
	float q = (float)(b->a.in[1].type == RLX_I8 ? (int8_t)y : y) + b->add[1];
	volatile float right = q * b->scale[1], left = p * b->scale[0];
	float v = fused ? fmaf(p, b->scale[0], right) : left + right;

	v = b->relu && v < 0 ? 0 : v;
	v = nearbyintf(v * b->by) + b->zero;
	return (int)fminf(fmaxf(v, b->is_signed ? -128 : 0), b->is_signed ? 127 : 255);
}

/* At all levels, that of registers (v4) among them; also where the sum takes an operand's place. */
TEST(sums_of_two_branches_of_bytes)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 60; t++) {
			int64_t n = kc_pick(&seed, 1, t % 2 ? 90 : 9000), i;
			struct kc_buf x = kc_buf_new((size_t)n, 1), y = kc_buf_new((size_t)n, 1);
			struct kc_buf out = kc_buf_new((size_t)n, 1), was = kc_buf_new((size_t)n, 1);
			struct branches b;
			bool same = kc_pick(&seed, 0, 3) == 0;

			draw_branches(&b, n, &seed);
			for (i = 0; i < n; i++) {
				((uint8_t *)x.p)[i] = (uint8_t)kc_pick(&seed, 0, 255);
				((uint8_t *)y.p)[i] = (uint8_t)kc_pick(&seed, 0, 255);
			}
			memcpy(was.p, x.p, (size_t)n);
			memset(out.p, 0xa5, (size_t)n);
			b.a.in[0].p = x.p;
			b.a.in[1].p = y.p;
			b.a.out[0].p = same ? x.p : out.p;
			rlx_k_ew_plan(RLX_ISA_V4, &b.a);
			kc_run(rlx_kernels_get((enum rlx_isa)l)->ew, &b.a, rlx_k_ew_units(&b.a),
			       rlx_k_ew_scratch(&b.a), &seed);
			for (i = 0; i < n; i++) {
				uint8_t p = ((uint8_t *)was.p)[i], q = ((uint8_t *)y.p)[i];
				uint8_t got = ((uint8_t *)b.a.out[0].p)[i];

				CHECK(got == (uint8_t)branches_sum(&b, p, q, true) ||
				      (!l && got == (uint8_t)branches_sum(&b, p, q, false)));
			}
			kc_buf_free(&x);
			kc_buf_free(&y);
			kc_buf_free(&out);
			kc_buf_free(&was);
		}
}

TEST_MAIN()
