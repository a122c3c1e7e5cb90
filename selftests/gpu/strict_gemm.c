// SPDX-License-Identifier: MIT
/*
 * Products with strict bits on a GPU: drawn shapes, forms and epilogues have the bits that the CPU
 * gives, and rows alone those they have among others.
 */
#include <inttypes.h>

#include "ir/graph.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/strict_bits.h"

/* A product as it is drawn. */
struct product {
	int64_t	m, n, k, batch;
	bool	trans_a, trans_b, bias, residual, fixed, one_b;
	float	alpha;
	int	act;
	uint64_t seed;
};

static struct rlx_type matrix(int64_t batch, int64_t rows, int64_t cols)
{
	struct rlx_type t = { RLX_F32, 3, { batch, rows, cols } };

	if (batch)
		return t;
	return (struct rlx_type){ RLX_F32, 2, { rows, cols } };
}

/* @in: where the inputs' numbers go, for the caller to free. */
static struct rlx_graph *graph_of_product(const struct product *p, void **in, uint32_t *n_in)
{
	struct rlx_graph *g = rlx_graph_new("product");
	const struct rlx_type type[4] = {
		p->trans_a ? matrix(p->batch, p->k, p->m) : matrix(p->batch, p->m, p->k),
		p->trans_b ? matrix(p->one_b ? 0 : p->batch, p->n, p->k) :
			     matrix(p->one_b ? 0 : p->batch, p->k, p->n),
		{ RLX_F32, 1, { p->n } }, matrix(p->batch, p->m, p->n),
	};
	const bool there[4] = { true, true, p->bias, p->residual };
	rlx_value v[4] = { { 0 } };
	static const char *const name[] = { "a", "b", "bias", "residual" };

	*n_in = 0;
	for (int i = 0; i < 4; i++) {
		float *x = there[i] ? strict_numbers(&type[i], p->seed + (uint64_t)i,
						    false) : NULL;

		if (!x)
			continue;
		if (i == 1 && p->fixed) {
			v[i] = rlx_constant(g, type[i], x);
			free(x);
			continue;
		}
		v[i] = rlx_input(g, name[i], type[i]);
		in[(*n_in)++] = x;
	}
	v[0] = rlx_emit(g, fused_matmul, .a = v[0], .b = v[1], .bias = v[2], .residual = v[3],
			.trans_a = p->trans_a, .trans_b = p->trans_b, .alpha = p->alpha,
			.act = p->act, .act_lo = 0.2f, .act_hi = 0.5f);
	rlx_output(g, "y", v[0]);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

static void print(const struct product *p)
{
	printf("# %" PRId64 " x %" PRId64 " x %" PRId64 " batch %" PRId64 "%s%s%s%s%s%s alpha %g "
	       "act %d seed %" PRIu64 "\n", p->m, p->n, p->k, p->batch, p->trans_a ? " a'" : "",
	       p->trans_b ? " b'" : "", p->bias ? " bias" : "", p->residual ? " residual" : "",
	       p->fixed ? " fixed" : "", p->one_b ? " one b" : "", (double)p->alpha, p->act,
	       p->seed);
}

static bool agrees(const struct product *p)
{
	const struct way cpu = { .threads = 1 }, gpu = { .device = op_case_gpu() };
	void *in[4] = { NULL };
	struct outputs a, b;
	struct rlx_graph *g;
	uint32_t n, k;
	bool right;

	g = graph_of_product(p, in, &n);
	run(g, in, &cpu, 0, &a);
	run(g, in, &gpu, 0, &b);
	right = !a.status && !b.status && same(&a, &b);
	if (!right) {
		print(p);
		printf("# %s%s\n", a.why, b.why);
	}
	outputs_free(&a);
	outputs_free(&b);
	for (k = 0; k < n; k++)
		free(in[k]);
	rlx_graph_put(g);
	return right;
}

static struct product drawn(uint64_t seed, int64_t k)
{
	static const int64_t few[] = { 1, 2, 3, 5, 8, 9, 17, 33, 70, 130 };
	uint64_t s = seed, bits = rlx_test_rand(&s);
	struct product p = {
		.m = few[rlx_test_rand(&s) % 10], .n = few[rlx_test_rand(&s) % 10], .k = k,
		.batch = bits & 1 && bits & 2 ? 1 + (int64_t)(bits >> 8) % 3 : 0,
		.trans_a = bits & 4, .trans_b = bits & 8, .bias = bits & 16, .residual = bits & 32,
		.fixed = bits & 64 && bits & 512, .alpha = bits & 128 ? 1 : 0.37f,
		.act = bits & 1024 ? (int)(rlx_test_rand(&s) % RLX_ACT_COUNT) : RLX_ACT_NONE,
		.one_b = bits & 2048, .seed = seed,
	};

	/* no more than the emulator does in a moment */
	while (p.m * p.n * p.k > 400000 && p.m + p.n > 2)
		*(p.m > p.n ? &p.m : &p.n) /= 2;
	return p;
}

TEST(products_that_are_drawn)
{
	static const int64_t k[] = { 1, 7, 63, 64, 65, 511, 512, 513, 1025, 5000, 6145, 12300 };
	uint64_t seed = rlx_test_seed();
	unsigned int wrong = 0, n = 0;

	for (; n < 36 && wrong < 3; n++) {
		const struct product p = drawn(rlx_test_rand(&seed), k[n % 12]);

		wrong += !agrees(&p);
	}
	CHECKF(!wrong, "%u of %u", wrong, n);
}

/* A row's place and company change nothing: the first, the last and some of the same product. */
TEST(rows_alone_and_among_others)
{
	static const struct part parts[] = {
		{ "chain", "%1 = input(name=\"x\", type=f32[%d,600])\n"
		  "%2 = input(name=\"w\", type=f32[600,45])\n%3 = matmul(a=%1, b=%2)\n"
		  "return \"y\"=%3\n", 0 },
		{ "dots", "%1 = input(name=\"x\", type=f32[%d,300])\n"
		  "%2 = input(name=\"w\", type=f32[50,300])\n"
		  "%3 = fused_matmul(a=%1, b=%2, trans_b=true)\nreturn \"y\"=%3\n", 0 },
		{ "few columns", "%1 = input(name=\"x\", type=f32[%d,7000])\n"
		  "%2 = input(name=\"w\", type=f32[7000,3])\n%3 = matmul(a=%1, b=%2)\n"
		  "return \"y\"=%3\n", 0 },
	};
	const struct way gpu = { .device = op_case_gpu() };

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		struct rlx_graph *g = graph_of(&parts[i], STRICT_ROWS);
		struct inputs in = { 0 };
		struct outputs all;

		inputs_of(&parts[i], &in);
		run(g, in.data, &gpu, 0, &all);
		CHECKF(!all.status, "%s: %s", parts[i].name, all.why);
		check_rows(&parts[i], &in, &gpu, 0, 1, &all);
		check_rows(&parts[i], &in, &gpu, STRICT_ROWS - 1, 1, &all);
		check_rows(&parts[i], &in, &gpu, 3, 9, &all);
		outputs_free(&all);
		for (unsigned int k = 0; k < in.n; k++)
			free(in.data[k]);
		rlx_graph_put(g);
	}
}

TEST_MAIN()
