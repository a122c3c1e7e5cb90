// SPDX-License-Identifier: MIT
/*
 * Attention to random bf16 on a GPU by the kernel that the product chooses, at the sizes
 * where papers measure it. Some queries of each are checked against sums in double.
 * attention.py measures PyTorch's kernels in turns with this program.
 *
 *	build/test/gpubench/attention [HEAD_DIM LENGTH CAUSAL]
 */
#include "selftests/gpubench/kernel_bench.h"

#include "kernels/attention.h"

enum { TOKENS = 16384, WIDTH = 2048 };	/* of a batch, of all heads */

struct attending {
	struct rlx_k_attention	a;
	struct rlx_g_launch	l;
	struct rlx_g_env	env;
	void			*fn;
	uint16_t		*host[3];	/* q, k, v */
};

static int run_own(const void *arg)
{
	const struct attending *p = arg;

	return gpu_launch(p->fn, &p->l, &p->a, &p->env);
}

static double value(const uint16_t *p, int64_t i)
{
	return gpu_value(p, (size_t)i, RLX_BF16);
}

/* Element @d of the result of query @i of head @h of row @b, @w: room for the weights. */
static double truth(const struct attending *p, const int64_t at[3], int64_t d, double *w)
{
	const struct rlx_k_attention *a = &p->a;
	int64_t row = at[0] * a->q_stride[0] + at[1] * a->q_stride[1];
	int64_t n = a->causal ? at[2] + 1 : a->kv_len;
	double most = -INFINITY, sum = 0, out = 0;

	for (int64_t j = 0; j < n; j++) {
		w[j] = 0;
		for (int64_t e = 0; e < a->head_dim; e++)
			w[j] += value(p->host[0], row + at[2] * a->q_stride[2] + e) *
				value(p->host[1], row + j * a->k_stride[2] + e);
		w[j] *= (double)a->scale;
		most = w[j] > most ? w[j] : most;
	}
	for (int64_t j = 0; j < n; j++) {
		double e = exp(w[j] - most);

		sum += e;
		out += e * value(p->host[2], row + j * a->v_stride[2] + d);
	}
	return out / sum;
}

static void check(const struct attending *p, uint64_t *seed)
{
	const struct rlx_k_attention *a = &p->a;
	uint16_t *out = malloc((size_t)TOKENS * WIDTH * 2);
	double *w = malloc((size_t)a->kv_len * sizeof(*w));

	CHECK(out && w);
	dev_read(out, a->out, (size_t)TOKENS * WIDTH * 2);
	for (int i = 0; i < 12; i++) {
		int64_t at[3] = { kc_pick(seed, 0, a->batch - 1), kc_pick(seed, 0, a->heads - 1),
				  kc_pick(seed, 0, a->q_len - 1) };
		int64_t d = kc_pick(seed, 0, a->head_dim - 1);
		double want = truth(p, at, d, w);
		double got = value(out, at[0] * a->out_stride[0] + at[1] * a->out_stride[1] +
					at[2] * a->out_stride[2] + d);

		CHECKF(fabs(got - want) <= 0.01 * fabs(want) + 2e-4,
		       "query %lld is %g, not %g", (long long)at[2], got, want);
	}
	free(out);
	free(w);
}

static void one(int64_t dim, int64_t len, bool causal)
{
	const size_t bytes = (size_t)TOKENS * WIDTH * 2;
	struct attending p = { .a = { .batch = TOKENS / len, .heads = WIDTH / dim,
		.kv_heads = WIDTH / dim, .q_len = len, .kv_len = len, .head_dim = dim,
		.v_dim = dim, .scale = (float)(1 / sqrt((double)dim)), .causal = causal,
		.q_type = RLX_BF16, .kv_type = RLX_BF16, .out_type = RLX_BF16 } };
	int64_t stride[3] = { len * WIDTH, dim, WIDTH };	/* heads inside */
	double flop = 4.0 * TOKENS * WIDTH * (double)len / (causal ? 2 : 1), ms[2];
	const void **field[3] = { &p.a.q, &p.a.k, &p.a.v };
	uint64_t seed = rlx_test_seed();

	memcpy(p.a.q_stride, stride, sizeof(stride));
	memcpy(p.a.k_stride, stride, sizeof(stride));
	memcpy(p.a.v_stride, stride, sizeof(stride));
	memcpy(p.a.out_stride, stride, sizeof(stride));
	for (int i = 0; i < 3; i++) {
		p.host[i] = random_floats((size_t)TOKENS * WIDTH, RLX_BF16, &seed);
		*field[i] = dev_of(p.host[i], bytes);
	}
	p.a.out = dev_new(bytes);
	CHECK_CU(gpu->api->fill8((uint64_t)(uintptr_t)p.a.out, 0xff, bytes, NULL));
	p.l = gpu_launch_for(gpu, 0);
	rlx_g_attention_launch(&p.a, &p.l);
	p.fn = gpu_function(&p.l);
	CHECK_CU(run_own(&p));
	CHECK_CU(gpu->api->stream_wait(NULL));
	check(&p, &seed);
	measure_both((int (*[])(const void *)){ run_own, NULL }, &p, len > 8192 ? 3 : 8, ms);
	printf("bf16 head_dim %3d length %5d %-6s %8.3f ms %6.1f TF/s\n", (int)dim, (int)len,
	       causal ? "causal" : "full", ms[0], flop / ms[0] * 1e-9);
	fflush(stdout);
	for (int i = 0; i < 3; i++) {
		dev_free(*field[i]);
		free(p.host[i]);
	}
	dev_free(p.a.out);
}

int main(int argc, char **argv)
{
	gpu_start();
	if (argc > 3) {
		one(atoll(argv[1]), atoll(argv[2]), atoi(argv[3]));
		return 0;
	}
	for (int i = 0; i < 8; i++)
		one(i & 4 ? 64 : 128, i & 2 ? 16384 : 4096, i & 1);
	return 0;
}
