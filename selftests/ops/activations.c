// SPDX-License-Identifier: MIT
/*
 * Activations and softmax where arguments are infinite, huge, subnormal or no numbers:
 * by themselves, at the end of a product and of a convolution.
 */
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

/* Lengths that end within vectors of every level. */
enum { N = 61 };

static const float odd[] = {
	INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 1e30f, -1e30f, 1e13f, -1e13f, 1000, -1000,
	104, -104, 89, -89, 88, -88, 40, -40, 16.5f, -16.5f, 9, -9, 3, -3, 0x1p-126f, 1e-40f,
	-1e-45f, 0.0f, -0.0f,
};
enum { ODD = sizeof(odd) / sizeof(odd[0]) };

static void fill(struct rig *r, float *x, double span)
{
	unsigned int i;

	for (i = 0; i < N; i++)
		x[i] = i < ODD ? odd[i] : (float)rlx_test_uniform(&r->seed, -span, span);
}

/* x f, where f falls to 0 below and x f with it. */
static double gate(double x, double f)
{
	return x == -INFINITY ? 0 : x * f;
}

static double sigmoid(double x)
{
	return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double softplus(double x)
{
	return isnan(x) ? x : fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double clip(double x, double lo, double hi)
{
	return x < lo ? lo : x > hi ? hi : x;
}

static double gelu_tanh(double x)
{
	return gate(x, sigmoid(2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double want_act(int act, double x)
{
	switch (act) {
	case RLX_ACT_RELU: return x < 0 ? 0 : x;
	case RLX_ACT_GELU: return gate(x, 0.5 * erfc(-x / sqrt(2)));
	case RLX_ACT_GELU_TANH: return gelu_tanh(x);
	case RLX_ACT_SILU: return gate(x, sigmoid(x));
	case RLX_ACT_SIGMOID: return sigmoid(x);
	case RLX_ACT_TANH: return tanh(x);
	case RLX_ACT_HARD_SWISH: return gate(x, clip(x / 6 + 0.5, 0, 1));
	case RLX_ACT_CLIP: return clip(x, -2, 3);
	case RLX_ACT_HARD_SIGMOID: return clip(0.25 * x + 0.5, 0, 1);
	}
	return x;
}

/* f32 as far as a bound of that dtype goes, wider ones as the dtype rounds. */
static void want_near(const struct rig *r, unsigned int k, int64_t i, double want)
{
	enum rlx_dtype dt = r->out[k].type.dtype;
	double tol = dt == RLX_F16 ? 0x1p-11 : dt == RLX_BF16 ? 0x1p-8 : 2e-6;
	double top = dt == RLX_F16 ? 65504 : dt == RLX_BF16 ? 0x1.fep127 : INFINITY;

	if (fabs(want) > top && isfinite(want))
		want = copysign(INFINITY, want);
	rig_want(r, k, i, want, tol);
}

/* What the graph reads once it is rounded to the dtype. */
static rlx_value rounded(struct rig *r, struct rlx_type t, const float *x, enum rlx_dtype dt)
{
	rlx_value v = rig_input(r, t, x);

	return dt == RLX_F32 ? v : rlx_emit(r->g, cast, .x = v, .to = dt);
}

static const enum rlx_dtype dtypes[] = { RLX_F32, RLX_F16, RLX_BF16, RLX_F64 };
enum { DTYPES = 4 };

static void pointwise(struct rig *r, enum rlx_dtype dt)
{
	float x[N];
	rlx_value v;
	int64_t i;

	fill(r, x, 12);
	v = rounded(r, rlx_type(RLX_F32, N), x, dt);
	rig_output(r, v);
	rig_output(r, rlx_emit(r->g, gelu, .x = v));
	rig_output(r, rlx_emit(r->g, gelu_tanh, .x = v));
	rig_output(r, rlx_emit(r->g, silu, .x = v));
	rig_output(r, rlx_emit(r->g, sigmoid, .x = v));
	rig_output(r, rlx_emit(r->g, tanh, .x = v));
	rig_output(r, rlx_emit(r->g, hard_swish, .x = v));
	rig_output(r, rlx_emit(r->g, relu, .x = v));
	rig_output(r, rlx_emit(r->g, softplus, .x = v));
	rig_output(r, rlx_emit(r->g, mish, .x = v));
	rig_output(r, rlx_emit(r->g, softsign, .x = v));
	rig_output(r, rlx_emit(r->g, softcap, .x = v, .cap = 30));
	rig_output(r, rlx_emit(r->g, erf, .x = v));
	rig_output(r, rlx_emit(r->g, exp, .x = v));
	rig_run(r);
	for (i = 0; i < N; i++) {
		double a = rig_get(r, 0, i);
		double e = dt == RLX_F64 || a < 88 ? exp(a) : INFINITY;

		want_near(r, 1, i, want_act(RLX_ACT_GELU, a));
		want_near(r, 2, i, want_act(RLX_ACT_GELU_TANH, a));
		want_near(r, 3, i, want_act(RLX_ACT_SILU, a));
		want_near(r, 4, i, sigmoid(a));
		want_near(r, 5, i, tanh(a));
		want_near(r, 6, i, want_act(RLX_ACT_HARD_SWISH, a));
		want_near(r, 7, i, a < 0 ? 0 : a);
		want_near(r, 8, i, softplus(a));
		want_near(r, 9, i, gate(a, tanh(softplus(a))));
		want_near(r, 10, i, isinf(a) ? copysign(1, a) : a / (1 + fabs(a)));
		want_near(r, 11, i, 30 * tanh(a / 30));
		want_near(r, 12, i, erf(a));
		if (!(a >= 88 && a < 89))	/* where f32 ends */
			want_near(r, 13, i, isnan(a) ? a : e);
	}
}

EVERYWHERE(activations)
{
	unsigned int d;

	for (d = 0; d < DTYPES; d++) {
		pointwise(r, dtypes[d]);
		rig_reset(r);
	}
}

/* Sums of one term are x and hence as odd; two columns, and two that fill no vector. */
static void after_matmul(struct rig *r, enum rlx_dtype dt, int64_t cols)
{
	float x[N], w[N];
	rlx_value a, b;
	int64_t i;
	int act;

	fill(r, x, 12);
	for (i = 0; i < N; i++)
		w[i] = 1;
	a = rounded(r, rlx_type(RLX_F32, N, 1), x, dt);
	b = rounded(r, rlx_type(RLX_F32, 1, cols), w, dt);
	rig_output(r, a);
	for (act = RLX_ACT_NONE; act < RLX_ACT_COUNT; act++)
		rig_output(r, rlx_emit(r->g, fused_matmul, .a = a, .b = b, .act = act,
				       .act_lo = act == RLX_ACT_HARD_SIGMOID ? 0.25f : -2,
				       .act_hi = act == RLX_ACT_HARD_SIGMOID ? 0.5f : 3));
	rig_run(r);
	for (act = RLX_ACT_NONE; act < RLX_ACT_COUNT; act++)
		for (i = 0; i < N * cols; i++)
			want_near(r, 1 + (unsigned int)act, i,
				  want_act(act, rig_get(r, 0, i / cols)));
}

EVERYWHERE(activations_of_products)
{
	unsigned int d;

	for (d = 0; d < sizeof(dtypes) / sizeof(*dtypes); d++) {
		after_matmul(r, dtypes[d], 1);
		rig_reset(r);
		after_matmul(r, dtypes[d], 19);
		rig_reset(r);
	}
}

/* One channel and tap: the register tile's epilogue, and behind a depthwise one. */
static void after_conv(struct rig *r, int64_t channels, bool deep)
{
	float x[64 * N], w[64], one[N];
	int64_t c, i;
	rlx_value a, b;
	int act;

	fill(r, one, 12);
	for (c = 0; c < channels; c++) {
		w[c] = 1;
		for (i = 0; i < N; i++)
			x[c * N + i] = one[i];
	}
	a = rig_input(r, rlx_type(RLX_F32, 1, deep ? channels : 1, 1, N), x);
	b = rlx_constant(r->g, rlx_type(RLX_F32, channels, 1, 1, 1), w);
	for (act = RLX_ACT_NONE; act < RLX_ACT_COUNT; act++)
		rig_output(r, rlx_emit(r->g, fused_conv, .x = a, .w = b, .act = act,
				       .groups = deep ? channels : 1,
				       .act_lo = act == RLX_ACT_HARD_SIGMOID ? 0.25f : -2,
				       .act_hi = act == RLX_ACT_HARD_SIGMOID ? 0.5f : 3));
	rig_run(r);
	for (act = RLX_ACT_NONE; act < RLX_ACT_COUNT; act++)
		for (i = 0; i < N * channels; i++)
			want_near(r, (unsigned int)act, i, want_act(act, (double)one[i % N]));
}

EVERYWHERE(activations_of_convolutions)
{
	after_conv(r, 3, false);
	rig_reset(r);
	after_conv(r, 64, false);
	rig_reset(r);
	after_conv(r, 64, true);
}

/* What is left of gelu below, by itself, behind a product, and behind a convolution. */
EVERYWHERE(gelu_far_below)
{
	enum { COLS = 19 };
	const char *gpu = getenv("RLX_TEST_GPU");
	float x[N], one[COLS];
	rlx_value v, w, c;
	int64_t i, k;

	/* by an erf nothing is, Vulkan's as well; CPUs' powers of two are fitted to 1e-8 of 1 */
	if (!gpu || !r->device || strcmp(r->device, gpu) || !strcmp(gpu, "vulkan"))
		return;
	for (i = 0; i < N; i++)
		x[i] = (float)rlx_test_uniform(&r->seed, -12, 0);
	for (i = 0; i < COLS; i++)
		one[i] = 1;
	v = rig_input(r, rlx_type(RLX_F32, N, 1), x);
	w = rig_input(r, rlx_type(RLX_F32, 1, COLS), one);
	c = rlx_emit(r->g, reshape, .x = v, .shape = RLX_INTS(N, 1, 1, 1));
	rig_output(r, rlx_emit(r->g, gelu, .x = v));
	rig_output(r, rlx_emit(r->g, fused_matmul, .a = v, .b = w, .act = RLX_ACT_GELU));
	w = rlx_emit(r->g, reshape, .x = w, .shape = RLX_INTS(COLS, 1, 1, 1));
	rig_output(r, rlx_emit(r->g, fused_conv, .x = c, .w = w, .act = RLX_ACT_GELU));
	rig_run(r);
	for (k = 0; k < 3; k++)
		for (i = 0; i < (k ? N * COLS : N); i++) {
			double at = (double)x[k ? i / COLS : i];
			double want = want_act(RLX_ACT_GELU, at);
			double got = rig_get(r, (unsigned int)k, i);

			CHECKF(fabs(got / want - 1) < 1e-5, "output %lld, gelu(%g) is %g, not %g",
			       (long long)k, at, got, want);
		}
}

/* Lines of softmax: @put replaces one element, or all where @at is below 0. */
static void line(struct rig *r, int64_t n, int64_t at, float put, bool columns)
{
	struct rlx_type t = columns ? rlx_type(RLX_F32, n, 3) : rlx_type(RLX_F32, 3, n);
	float *x = malloc((size_t)n * 3 * sizeof(*x));
	double top = -INFINITY, sum = 0;
	int64_t i, j, step = columns ? 3 : 1;
	rlx_value v;

	CHECK(x);
	for (i = 0; i < 3 * n; i++)	/* the line in the middle alone is odd */
		x[i] = (float)rlx_test_uniform(&r->seed, -3, 3);
	for (i = 0; i < n; i++) {
		j = columns ? i * 3 + 1 : n + i;
		if (i == at || at < 0)
			x[j] = put;
		top = isnan(x[j]) || (double)x[j] > top ? (double)x[j] : top;
	}
	j = columns ? 1 : n;
	for (i = 0; i < n; i++)
		sum += exp((double)x[j + i * step] - top);
	v = rig_input(r, t, x);
	rig_output(r, rlx_emit(r->g, softmax, .x = v, .axis = columns ? 0 : 1));
	rig_output(r, rlx_emit(r->g, log_softmax, .x = v, .axis = columns ? 0 : 1));
	rig_run(r);
	for (i = 0; i < n; i++) {
		double d = (double)x[j + i * step] - top;

		rig_want(r, 0, j + i * step, exp(d) / sum, 2e-6);
		rig_want(r, 1, j + i * step, d - log(sum), 2e-6);
	}
	for (i = 0; i < 3 * n; i++)
		CHECK((i / (columns ? 1 : n)) % 3 == 1 || isfinite(rig_get(r, 0, i)));
	free(x);
	rig_reset(r);
}

EVERYWHERE(softmax_lines)
{
	static const int64_t n[] = { 1, 3, 40, 1027 };
	static const float put[] = { INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 1e-45f };
	unsigned int i, k;

	for (i = 0; i < 4; i++)
		for (k = 0; k < 12; k++) {
			int64_t at = (int64_t)(rlx_test_rand(&r->seed) % (uint64_t)n[i]);

			line(r, n[i], at, put[k % 6], k >= 6);
			line(r, n[i], -1, put[k % 6], k >= 6);
		}
}

TEST_MAIN()
