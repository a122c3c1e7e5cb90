// SPDX-License-Identifier: MIT
/*
 * Products of f16 and bf16 on a Vulkan device against sums in double: by cooperative matrices
 * where the device has them and rows are whole vectors, by the plain kernel elsewhere. And the
 * text of the former, which is rewritten when it is loaded.
 */
#include <math.h>
#include <string.h>

#include "backends/vulkan/vk.h"
#include "base/alloc.h"
#include "rlx/act.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

/* Compiling for a kind is what takes long on a CPU; sizes of each are many. */
enum { KINDS = 3, SIZES = 20 };

struct product {
	int64_t		m, n, k, batch;
	bool		ta, tb, shared, bias, residual;	/* @shared: one b for all batches */
	int		act;
	enum rlx_dtype	in, out;
};

static int64_t any_of(uint64_t *seed, const int64_t *v, uint64_t n)
{
	return v[rlx_test_rand(seed) % n];
}

/* What a shader is compiled for */
static struct product draw_kind(uint64_t *seed)
{
	static const int acts[] = { RLX_ACT_NONE, RLX_ACT_RELU, RLX_ACT_GELU };
	static const enum rlx_dtype outs[] = { RLX_F16, RLX_F32, RLX_BF16 };
	uint64_t bits = rlx_test_rand(seed);
	struct product p = { .ta = bits & 1, .tb = bits & 2 };

	p.act = acts[rlx_test_rand(seed) % 3];
	p.in = rlx_test_rand(seed) & 1 ? RLX_F16 : RLX_BF16;
	p.out = outs[rlx_test_rand(seed) % 3];
	return p;
}

/* @whole: rows are whole vectors */
static void draw_sizes(struct product *p, bool whole, uint64_t *seed)
{
	static const int64_t rows[] = { 1, 7, 8, 16, 33, 64, 100, 128, 200, 384 };
	static const int64_t vectors[] = { 8, 16, 24, 64, 72, 128, 136, 200, 256 };
	static const int64_t depth[] = { 8, 16, 40, 64, 96, 256, 1000 };
	uint64_t bits = rlx_test_rand(seed);

	p->batch = bits & 1 ? 1 : 3;
	p->shared = bits & 2;
	p->bias = bits & 4;
	p->residual = bits & 8;
	p->m = any_of(seed, rows, 10);
	p->n = any_of(seed, vectors, 9) + (whole ? 0 : 3);
	p->k = any_of(seed, depth, 7) + (whole ? 0 : 1);
}

/* Where element (@i, @j) of a matrix of @dim is, or of its transpose's */
static int64_t at_of(bool transposed, int64_t i, int64_t j, const int64_t dim[2])
{
	return transposed ? j * dim[0] + i : i * dim[1] + j;
}

static double activated(int act, double x)
{
	return act == RLX_ACT_RELU ? fmax(x, 0) :
	       act == RLX_ACT_GELU ? 0.5 * x * (1 + erf(x * M_SQRT1_2)) : x;
}

static void check_element(const struct rig *r, const struct product *p, int64_t b, int64_t i,
			  int64_t j)
{
	const double step = p->out == RLX_F32 ? 0x1p-24 : p->out == RLX_F16 ? 0x1p-11 : 0x1p-8;
	const int64_t at = (b * p->m + i) * p->n + j, a[2] = { p->m, p->k };
	const int64_t bd[2] = { p->k, p->n };
	unsigned int in = 2;
	double sum = 0, size = 0, got, x;
	int64_t k;

	for (k = 0; k < p->k; k++) {
		x = rig_in(r, 0, b * p->m * p->k + at_of(p->ta, i, k, a)) *
		    rig_in(r, 1, (p->shared ? 0 : b) * p->k * p->n + at_of(p->tb, k, j, bd));
		sum += x;
		size += fabs(x);
	}
	if (p->bias)
		sum += rig_in(r, in++, j);
	if (p->residual)
		sum += rig_in(r, in, at);
	sum = activated(p->act, sum);
	got = rig_get(r, 0, at);
	CHECKF(fabs(got - sum) <= 2e-6 * (size + 1) + step * fabs(sum) + 0x1p-25,
	       "%s %lldx%lldx%lld of %lld, a%s, b%s%s, %s%s act %d, to %s: %lld,%lld,%lld is %.9g, "
	       "not %.9g", rlx_dtype_name(p->in), (long long)p->m, (long long)p->n, (long long)p->k,
	       (long long)p->batch, p->ta ? "'" : "", p->tb ? "'" : "", p->shared ? " shared" : "",
	       p->bias ? "bias " : "", p->residual ? "residual" : "", p->act,
	       rlx_dtype_name(p->out), (long long)b, (long long)i, (long long)j, got, sum);
}

static void check_product(struct rig *r, const struct product *p)
{
	const int64_t a0 = p->ta ? p->k : p->m, a1 = p->ta ? p->m : p->k;
	const int64_t b0 = p->tb ? p->n : p->k, b1 = p->tb ? p->k : p->n;
	rlx_value a = rig_random(r, rlx_type(p->in, p->batch, a0, a1), -1, 1);
	rlx_value b = rig_random(r, rlx_type(p->in, p->shared ? 1 : p->batch, b0, b1), -1, 1);
	rlx_value bias = p->bias ? rig_random(r, rlx_type(RLX_F32, p->n), -1, 1) : RLX_NONE;
	rlx_value res = p->residual ?
		rig_random(r, rlx_type(p->out, p->batch, p->m, p->n), -1, 1) : RLX_NONE;
	int64_t i, n = p->batch * p->m * p->n;

	rig_output(r, rlx_emit(r->g, fused_matmul, .a = a, .b = b, .bias = bias, .residual = res,
			       .trans_a = p->ta, .trans_b = p->tb, .act = p->act,
			       .out_dtype = p->out));
	rig_run(r);
	for (i = 0; i < n; i += 1 + n / 4000)	/* some of each tile */
		check_element(r, p, i / (p->m * p->n), i / p->n % p->m, i % p->n);
	rig_reset(r);
}

TEST(products)
{
	struct rig r;
	int i, k;

	rig_init(&r, "vulkan");
	for (k = 0; k < KINDS; k++) {
		struct product p = draw_kind(&r.seed);

		for (i = 0; i < SIZES; i++) {
			draw_sizes(&p, k < KINDS - 1, &r.seed);
			check_product(&r, &p);
		}
	}
	rig_fini(&r);
}

/* ---- the text ---- */

static unsigned int count(const uint32_t *w, size_t words, uint32_t op)
{
	unsigned int n = 0;
	size_t at;

	for (at = 5; at < words; at += w[at] >> 16) {
		CHECK(w[at] >> 16 && w[at] >> 16 <= words - at);
		n += (w[at] & 0xffff) == op;
	}
	CHECK_EQ(at, words);
	return n;
}

/* All of NV's instructions have become KHR's, and what these use is there before them. */
static void check_text(const char *name)
{
	enum { TYPE = 4456, LOAD, STORE, MUL_ADD, NV = 5358, CONSTANT = 43,
	       TYPE_FLOAT = 22 };
	struct vk_kernel k;
	uint32_t *w, i, uses = 0;
	size_t n, at;

	CHECK(vk_kernel_find(name, &k));
	CHECK(vk_coopmat_is(k.code, k.words));
	w = vk_coopmat_text(k.code, k.words, false, &n);
	CHECK(w && !vk_coopmat_is(w, n));
	for (i = 0; i < 4; i++) {
		CHECK_EQ(count(w, n, NV + i), 0);
		CHECK_EQ(count(w, n, TYPE + i), count(k.code, k.words, NV + i));
	}
	CHECK_EQ(count(w, n, TYPE), 3);
	CHECK_EQ(count(w, n, CONSTANT), count(k.code, k.words, CONSTANT) + 3);
	for (at = 5; at < n; at += w[at] >> 16)
		if ((w[at] & 0xffff) == TYPE)	/* the ids are new, 0 to 2 in turn */
			uses |= 1u << (w[at + 6] - k.code[3]);
	CHECK_EQ(uses, 7);
	CHECK_EQ(w[3], k.code[3] + 4);
	rlx_free(w);
	w = vk_coopmat_text(k.code, k.words, true, &n);
	CHECK(w);
	CHECK_EQ(count(w, n, TYPE_FLOAT), count(k.code, k.words, TYPE_FLOAT) + 1);
	for (uses = 0, at = 5; at < n; at += w[at] >> 16)
		uses += (w[at] & 0xffff) == TYPE && w[at + 2] == k.code[3] + 3;
	CHECK_EQ(uses, 2);		/* A and B are of the new type */
	rlx_free(w);
}

TEST(rewritten_text)
{
	struct vk_kernel k;

	CHECK(vk_kernel_find("gemm", &k));
	CHECK(!vk_coopmat_is(k.code, k.words));
	check_text("gemm_coopmat");
	check_text("conv_coopmat");
}

TEST_MAIN()
