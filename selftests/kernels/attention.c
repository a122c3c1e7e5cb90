// SPDX-License-Identifier: MIT
/* Attention against double, over random shapes, layouts, masks and levels, and emulated tiles. */
#include "kernels/attention.h"
#include "selftests/kernels/amx_emu.h"
#include "selftests/kernels/kcheck.h"

static float get(const void *p, int type, int64_t i)
{
	return type == RLX_F32 ? ((const float *)p)[i]
				 : kc_from_bf16(((const uint16_t *)p)[i]);
}

static struct kc_buf tensor(int64_t n, int type, uint64_t *seed)
{
	struct kc_buf b = kc_buf_new((size_t)n * (type == RLX_F32 ? 4 : 2),
				     type == RLX_F32 ? 4 : 2);

	for (int64_t i = 0; i < n; i++) {
		float x = (float)rlx_test_uniform(seed, -2, 2);

		if (type == RLX_F32)
			((float *)b.p)[i] = x;
		else
			((uint16_t *)b.p)[i] = kc_to_bf16(x);
	}
	return b;
}

/* Strides of a [b, h, s, d] tensor stored as BHSD or BSHD. */
static void strides(int64_t *st, int64_t h, int64_t s, int64_t d, bool bshd)
{
	st[0] = h * s * d;
	st[1] = bshd ? d : s * d;
	st[2] = bshd ? h * d : d;
}

static bool sees(const struct rlx_k_attention *a, int64_t b, int64_t i,
		 int64_t j)
{
	if (a->kv_lens && j >= (a->lens_type == RLX_I32 ?
				((const int32_t *)a->kv_lens)[b] :
				((const int64_t *)a->kv_lens)[b]))
		return false;
	if (a->causal && j > i + a->q_offset)
		return false;
	return a->window <= 0 || j > i + a->q_offset - a->window;
}

static double score(const struct rlx_k_attention *a, const int64_t *at,
		    int64_t j)
{
	int64_t hk = at[1] / (a->heads / a->kv_heads);
	int64_t q = at[0] * a->q_stride[0] + at[1] * a->q_stride[1] +
		    at[2] * a->q_stride[2];
	int64_t k = at[0] * a->k_stride[0] + hk * a->k_stride[1] +
		    j * a->k_stride[2];
	int64_t m = at[0] * a->bias_stride[0] + at[1] * a->bias_stride[1] +
		    at[2] * a->bias_stride[2] + j * a->bias_stride[3];
	double s = 0, cap = (double)a->softcap;

	if (!sees(a, at[0], at[2], j))
		return -INFINITY;
	for (int64_t i = 0; i < a->head_dim; i++)
		s += (double)get(a->q, a->q_type, q + i) *
		     (double)get(a->k, a->kv_type, k + i);
	s *= (double)a->scale;
	if (cap > 0)
		s = cap * tanh(s / cap);
	if (!a->bias)
		return s;
	if (a->bias_type == RLX_F32)
		return s + (double)((const float *)a->bias)[m];
	return ((const uint8_t *)a->bias)[m] ? s : -INFINITY;
}

/* @part: what each weight may be off by for rounding it, of itself. */
static void check(const struct rlx_k_attention *a, double part)
{
	double *s = malloc((size_t)a->kv_len * sizeof(*s));
	double tol = a->out_type == RLX_F32 ? 1e-5 : 1.5e-2;

	for (int64_t u = 0; u < a->batch * a->heads * a->q_len; u++) {
		int64_t at[3] = { u / a->q_len / a->heads,
				  u / a->q_len % a->heads, u % a->q_len };
		int64_t hk = at[1] / (a->heads / a->kv_heads);
		double max = -INFINITY, sum = 0;
		int64_t v0 = at[0] * a->v_stride[0] + hk * a->v_stride[1];
		int64_t o0 = at[0] * a->out_stride[0] +
			     at[1] * a->out_stride[1] +
			     at[2] * a->out_stride[2];

		for (int64_t j = 0; j < a->kv_len; j++) {
			s[j] = score(a, at, j);
			max = fmax(max, s[j]);
		}
		for (int64_t j = 0; j < a->kv_len; j++) {
			s[j] = max == -INFINITY ? 0 : exp(s[j] - max);
			sum += s[j];
		}
		if (a->lse && sum > 0)
			CHECKF(fabs((double)a->lse[u] - max - log(sum)) < 1e-4,
			       "lse %g", (double)a->lse[u]);
		else if (a->lse)
			CHECK(a->lse[u] == -INFINITY);
		for (int64_t i = 0; i < a->v_dim; i++) {
			double w = 0, off = 0, v;
			double got = get(a->out, a->out_type, o0 + i);

			for (int64_t j = 0; j < a->kv_len && sum > 0; j++) {
				v = (double)get(a->v, a->kv_type, v0 + j * a->v_stride[2] + i);
				w += s[j] / sum * v;
				off += s[j] / sum * fabs(v) * part;
			}
			CHECKF(fabs(got - w) <= tol * (1 + fabs(w)) + off,
			       "query %lld of %lld, dim %lld: %g, not %g",
			       (long long)u, (long long)a->q_len,
			       (long long)i, got, w);
		}
	}
	free(s);
}

static void shapes(struct rlx_k_attention *a, uint64_t *seed)
{
	static const int64_t dims[] = { 32, 64, 16, 80, 96, 128, 40, 1, 7, 256 };
	int64_t group = kc_pick(seed, 1, 3);

	a->batch = kc_pick(seed, 1, 2);
	a->kv_heads = kc_pick(seed, 1, 3);
	a->heads = a->kv_heads * group;
	a->q_len = kc_pick(seed, 0, 1) ? kc_pick(seed, 1, 8)
				       : kc_pick(seed, 9, 150);
	a->kv_len = kc_pick(seed, 0, 1) ? a->q_len + kc_pick(seed, 0, 40)
					: kc_pick(seed, 1, 200);
	a->head_dim = dims[rlx_test_rand(seed) % 10];
	a->v_dim = kc_pick(seed, 0, 2) ? a->head_dim
				       : dims[rlx_test_rand(seed) % 10];
	a->scale = (float)(1 / sqrt((double)a->head_dim));
	a->softcap = kc_pick(seed, 0, 3) ? 0 : 1.5f;
	a->causal = kc_pick(seed, 0, 1);
	a->q_offset = kc_pick(seed, 0, 3) ? a->kv_len - a->q_len : 0;
	a->window = kc_pick(seed, 0, 3) ? 0 : kc_pick(seed, 1, 70);
}

/* A bias of random broadcast shape, f32 or bool. */
static struct kc_buf bias(struct rlx_k_attention *a, uint64_t *seed)
{
	int64_t dim[4] = { a->batch, a->heads, a->q_len, a->kv_len }, run = 1;
	struct kc_buf b;

	a->bias_type = kc_pick(seed, 0, 1) ? RLX_F32 : RLX_BOOL;
	for (int d = 4; d-- > 0;)
		if (d == 3 || kc_pick(seed, 0, 1)) {
			a->bias_stride[d] = run;
			run *= dim[d];
		}
	if (a->bias_type == RLX_F32) {
		b = tensor(run, RLX_F32, seed);
	} else {
		b = kc_buf_new((size_t)run, 1);
		for (int64_t i = 0; i < run; i++)
			((uint8_t *)b.p)[i] = kc_pick(seed, 0, 3) > 0;
	}
	a->bias = b.p;
	return b;
}

/* Of operands and results of these dtypes. */
static void one(enum rlx_isa isa, int type, int out, uint64_t *seed)
{
	const bool tiles = isa == RLX_ISA_V4_AMX && type == RLX_BF16;
	struct rlx_k_attention a = { .q_type = (uint8_t)type,
		.kv_type = (uint8_t)type, .out_type = (uint8_t)out,
		.lens_type = RLX_I32 };
	struct kc_buf q, k, v, o, m = { NULL };
	int32_t lens[2];
	int64_t w;

	shapes(&a, seed);
	strides(a.q_stride, a.heads, a.q_len, a.head_dim, kc_pick(seed, 0, 1));
	strides(a.k_stride, a.kv_heads, a.kv_len, a.head_dim,
		kc_pick(seed, 0, 1));
	strides(a.v_stride, a.kv_heads, a.kv_len, a.v_dim, kc_pick(seed, 0, 1));
	strides(a.out_stride, a.heads, a.q_len, a.v_dim, kc_pick(seed, 0, 1));
	w = a.batch * a.heads * a.q_len;
	q = tensor(w * a.head_dim, type, seed);
	k = tensor(a.batch * a.kv_heads * a.kv_len * a.head_dim, type, seed);
	v = tensor(a.batch * a.kv_heads * a.kv_len * a.v_dim, type, seed);
	o = tensor(w * a.v_dim, out, seed);
	a.q = q.p;
	a.k = k.p;
	a.v = v.p;
	a.out = o.p;
	if (kc_pick(seed, 0, 1))
		m = bias(&a, seed);
	lens[0] = (int32_t)kc_pick(seed, 0, a.kv_len);
	lens[1] = (int32_t)kc_pick(seed, 0, a.kv_len);
	a.kv_lens = kc_pick(seed, 0, 3) ? NULL : lens;
	a.lse = kc_pick(seed, 0, 1) ? malloc((size_t)w * 4) : NULL;
	kc_run(amx_kernels(isa)->attention, &a, rlx_k_attention_units(&a),
	       rlx_k_attention_scratch(&a), seed);
	check(&a, tiles ? 0x1p-8 : 0);
	free(a.lse);
	kc_buf_free(&q);
	kc_buf_free(&k);
	kc_buf_free(&v);
	kc_buf_free(&o);
	if (m.map)
		kc_buf_free(&m);
}

static void level(enum rlx_isa isa)
{
	uint64_t seed = rlx_test_seed();

	for (int t = 0; t < 120; t++) {
		int type = kc_pick(&seed, 0, 1) ? RLX_F32 : RLX_BF16;

		one(isa, type, kc_pick(&seed, 0, 2) ? type : RLX_F32, &seed);
	}
}

TEST(attention_over_random_shapes)
{
	amx_levels(level);
}

/* What one query sees and another does not is a NaN: it has no part in the other's result. */
static void unseen(enum rlx_isa isa)
{
	enum { N = 40, D = 64 };
	uint64_t seed = rlx_test_seed();
	struct kc_buf q = tensor(N * D, RLX_BF16, &seed), k = tensor(N * D, RLX_BF16, &seed),
		      v = tensor(N * D, RLX_BF16, &seed), o = tensor(N * D, RLX_F32, &seed);
	struct rlx_k_attention a = {
		.q = q.p, .k = k.p, .v = v.p, .out = o.p, .batch = 1, .heads = 1, .kv_heads = 1,
		.q_len = N, .kv_len = N, .head_dim = D, .v_dim = D, .scale = 0.125f,
		.q_stride = { 0, 0, D }, .k_stride = { 0, 0, D }, .v_stride = { 0, 0, D },
		.out_stride = { 0, 0, D }, .causal = true, .q_type = RLX_BF16,
		.kv_type = RLX_BF16, .out_type = RLX_F32,
	};

	for (int64_t i = 0; i < D; i++)
		((uint16_t *)v.p)[(N - 1) * D + i] = 0x7fc0;
	kc_run(amx_kernels(isa)->attention, &a, rlx_k_attention_units(&a),
	       rlx_k_attention_scratch(&a), &seed);
	for (int64_t i = 0; i < N * D; i++)
		CHECK(isnan(((const float *)o.p)[i]) == (i / D == N - 1));
	a.q_len = a.kv_len = N - 1;
	check(&a, 0);	/* by vectors */
	kc_buf_free(&q);
	kc_buf_free(&k);
	kc_buf_free(&v);
	kc_buf_free(&o);
}

TEST(nan_at_a_key_that_is_not_seen)
{
	amx_levels(unseen);
}

TEST_MAIN()
