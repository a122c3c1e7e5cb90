// SPDX-License-Identifier: MIT
/*
 * gemm_i8 against integer sums, bit for bit, at every level this machine runs:
 * signs, zero points, forms, gaps, splits, and each kind of result.
 */
#include "kernels/gemm.h"
#include "selftests/kernels/amx_emu.h"

enum { CASES = 200, POISON = 0xa5 };

struct work {
	struct rlx_k_gemm_i8	q;
	uint8_t			*a, *b, *c;
	size_t			batch, out_size, a_rows, b_rows;
	enum rlx_isa		isa;
};

static uint64_t rng;

static size_t pick(size_t lo, size_t hi)
{
	return lo + rlx_test_rand(&rng) % (hi - lo + 1);
}

static size_t dim(void)
{
	static const size_t edge[] = { 1, 2, 3, 4, 5, 7, 8, 14, 15, 16, 28, 31,
				       32, 33, 48, 63, 64, 65, 96, 128 };

	return pick(0, 1) ? edge[pick(0, sizeof(edge) / sizeof(*edge) - 1)] :
	       pick(1, 140);
}

/* Rows of bytes at a distance; extremes are common, so that pairs saturate. */
static uint8_t *bytes(size_t rows, size_t cols, size_t *ld)
{
	static const uint8_t ends[] = { 0, 1, 127, 128, 129, 255 };
	size_t n, i;
	uint8_t *p;

	*ld = cols + (pick(0, 2) ? pick(0, 9) : 0);
	n = rows && cols ? (rows - 1) * *ld + cols : 0;
	p = fence_alloc(n, 1);
	for (i = 0; i < n; i++)
		p[i] = pick(0, 1) ? ends[pick(0, 5)] :
		       (uint8_t)rlx_test_rand(&rng);
	return p;
}

static int32_t *ints(size_t n, int32_t lo, int32_t hi)
{
	int32_t *p = fence_alloc(n * 4, 4);
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = lo + (int32_t)pick(0, (size_t)(hi - lo));
	return p;
}

static float *floats(size_t n, double lo, double hi)
{
	float *p = fence_alloc(n * 4, 4);
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (float)rlx_test_uniform(&rng, lo, hi);
	return p;
}

static void zeros_new(struct rlx_k_gemm_i8 *q)
{
	int32_t alo = q->a_signed ? -128 : 0, blo = q->b_signed ? -128 : 0;

	q->a_zero = pick(0, 2) ? alo + (int32_t)pick(0, 255) : 0;
	q->b_zero = pick(0, 2) ? blo + (int32_t)pick(0, 255) : 0;
	if (!pick(0, 3))
		q->b_zero = q->b_signed ? 0 : 128;
	q->a_zeros = pick(0, 3) ? NULL : ints(q->g.m, alo, alo + 255);
	q->b_zeros = pick(0, 3) ? NULL : ints(q->g.n, blo, blo + 255);
}

static void out_new(struct work *w, enum rlx_k_i8_out out)
{
	struct rlx_k_gemm_i8 *q = &w->q;
	struct rlx_k_gemm *g = &q->g;
	size_t n;

	q->out = out;
	w->out_size = out < RLX_I8_OUT_U8 ? 4 : 1;
	g->ldc = g->n + pick(0, 5);
	n = (w->batch * g->m - 1) * g->ldc + g->n;
	w->c = fence_alloc(n * w->out_size, w->out_size);
	memset(w->c, POISON, n * w->out_size);
	g->c = w->c;
	q->ibias = pick(0, 1) ? NULL : ints(g->n, -9999, 9999);
	g->alpha = rlx_test_uniform(&rng, 1e-5, 1e-3);
	q->requant = 1;
	if (out == RLX_I8_OUT_U8)
		q->c_zero = (int32_t)pick(0, 255);
	if (out == RLX_I8_OUT_I8)
		q->c_zero = (int32_t)pick(0, 255) - 128;
	q->scales = pick(0, 1) ? NULL : floats(g->n, 0.1, 2);
	q->row_scales = pick(0, 2) ? NULL : floats(g->m, 0.1, 2);
}

static void work_new(struct work *w, enum rlx_isa isa)
{
	struct rlx_k_gemm_i8 *q = &w->q;
	struct rlx_k_gemm *g = &q->g;

	memset(w, 0, sizeof(*w));
	w->isa = isa;
	w->batch = pick(0, 3) ? 1 : pick(2, 4);
	g->m = dim();
	g->n = dim();
	g->k = pick(0, 15) ? dim() : 0;
	if (!pick(0, 9))
		g->k *= 9;
	g->trans_a = !pick(0, 3);
	g->b_form = (enum rlx_k_b_form)pick(0, 2);
	q->a_signed = pick(0, 1);
	q->b_signed = pick(0, 1);
	w->a_rows = g->trans_a ? g->k : g->m;
	w->b_rows = g->b_form == RLX_B_COLS ? g->n : g->k;
	w->a = bytes(w->batch * w->a_rows, g->trans_a ? g->m : g->k, &g->lda);
	w->b = bytes(w->batch * w->b_rows,
		     g->b_form == RLX_B_COLS ? g->k : g->n, &g->ldb);
	g->a = w->a;
	g->b = w->b;
	zeros_new(q);
}

static void run(struct work *w)
{
	const struct rlx_kernels *t = amx_kernels(w->isa);
	struct rlx_k_gemm *g = &w->q.g;
	size_t one = rlx_k_gemm_i8_pack_size(g->n, g->k, w->isa);
	size_t axis = pick(0, 1), size, u, n, i;
	void *scratch;
	char *dst = fence_alloc(one * w->batch, 64);

	g->batch[axis] = w->batch;
	g->batch[!axis] = 0;
	g->a_step[axis] = w->a_rows * g->lda;
	g->b_step[axis] = w->b_rows * g->ldb;
	g->c_step[axis] = g->m * g->ldc;
	if (g->b_form == RLX_B_PACKED) {
		for (i = 0; i < w->batch; i++) {
			struct rlx_k_gemm_i8_pack p = {
				.k = g->k, .n = g->n, .ldb = g->ldb,
				.b = w->b + i * w->b_rows * g->ldb,
				.b_signed = w->q.b_signed,
				.dst = dst + i * one,
			};

			t->gemm_i8_pack(&p, 0, rlx_k_gemm_panels(g->n, w->isa),
					NULL);
		}
		g->b = dst;
		g->b_step[axis] = one;
	}
	size = rlx_k_gemm_low_scratch(g, w->isa);
	scratch = fence_alloc(size, 64);
	for (u = rlx_k_gemm_low_units(g, w->isa); u; u -= n) {
		n = pick(1, u);
		memset(scratch, 0xff, size);
		t->gemm_i8(&w->q, u - n, u, scratch);
	}
}

static uint32_t sum_of(const struct work *w, size_t batch, size_t i, size_t j)
{
	const struct rlx_k_gemm_i8 *q = &w->q;
	const struct rlx_k_gemm *g = &q->g;
	int64_t za = q->a_zeros ? q->a_zeros[i] : q->a_zero;
	int64_t zb = q->b_zeros ? q->b_zeros[j] : q->b_zero;
	int64_t sum = q->ibias ? q->ibias[j] : 0;
	size_t k;

	for (k = 0; k < g->k; k++) {
		size_t ar = batch * w->a_rows + (g->trans_a ? k : i);
		size_t br = batch * w->b_rows + (g->b_form == RLX_B_COLS ? j : k);
		uint8_t a = w->a[ar * g->lda + (g->trans_a ? i : k)];
		uint8_t b = w->b[br * g->ldb +
				 (g->b_form == RLX_B_COLS ? k : j)];

		sum += ((q->a_signed ? (int8_t)a : a) - za) *
		       ((q->b_signed ? (int8_t)b : b) - zb);
	}
	return (uint32_t)sum;
}

/* The real value a sum stands for, in the steps the header promises. */
static float value_of(const struct work *w, uint32_t sum, size_t i, size_t j)
{
	const struct rlx_k_gemm_i8 *q = &w->q;
	float scale = (float)q->g.alpha;

	if (q->scales)
		scale *= q->scales[j];
	if (q->row_scales)
		scale *= q->row_scales[i];
	return (float)(int32_t)sum * scale;
}

static void check_one(const struct work *w, size_t row, size_t j)
{
	const struct rlx_k_gemm_i8 *q = &w->q;
	const struct rlx_k_gemm *g = &q->g;
	uint32_t sum = sum_of(w, row / g->m, row % g->m, j), got;
	size_t at = row * g->ldc + j;
	float x = value_of(w, sum, row % g->m, j), y;
	long want;

	if (q->out == RLX_I8_OUT_I32) {
		memcpy(&got, w->c + at * 4, 4);
		CHECKF(got == sum,
		       "%s m%zu n%zu k%zu form%d signed%d%d: c[%zu][%zu] is %d, not %d",
		       isa_name(w->isa), g->m, g->n, g->k, g->b_form,
		       q->a_signed, q->b_signed, row, j, (int32_t)got,
		       (int32_t)sum);
		return;
	}
	if (q->out == RLX_I8_OUT_F32) {
		memcpy(&y, w->c + at * 4, 4);
		CHECKF(y == x, "%s: c[%zu][%zu] is %a, not %a",
		       isa_name(w->isa), row, j, y, x);
		return;
	}
	want = lrintf(fminf(fmaxf(x, -1e6f), 1e6f)) + q->c_zero;
	if (q->out == RLX_I8_OUT_U8)
		want = want < 0 ? 0 : want > 255 ? 255 : want;
	else
		want = want < -128 ? -128 : want > 127 ? 127 : want;
	CHECKF(w->c[at] == (uint8_t)want, "%s: c[%zu][%zu] is %d, not %ld (%a)",
	       isa_name(w->isa), row, j, w->c[at], want, x);
}

static void random_products(enum rlx_isa isa)
{
	struct work w;
	size_t i, j, k;
	int n;

	for (n = 0; n < CASES; n++) {
		work_new(&w, isa);
		out_new(&w, (enum rlx_k_i8_out)(n % 4));
		run(&w);
		for (i = 0; i < w.batch * w.q.g.m; i++)
			for (j = 0; j < w.q.g.n; j++)
				check_one(&w, i, j);
		for (i = 0; i + 1 < w.batch * w.q.g.m; i++)
			for (k = w.q.g.n * w.out_size;
			     k < w.q.g.ldc * w.out_size; k++)
				CHECK(w.c[i * w.q.g.ldc * w.out_size + k] ==
				      POISON);
		fence_reset();
	}
}

static void levels(void (*fn)(enum rlx_isa isa))
{
	rng = rlx_test_seed();
	amx_levels(fn);
}

TEST(random_products_are_exact)
{
	levels(random_products);
}

/* bias, residual, activation and requant, against double. */
static void epilogue(enum rlx_isa isa)
{
	struct work w;
	size_t i, j;
	int n;

	for (n = 0; n < 40; n++) {
		struct rlx_k_gemm *g = &w.q.g;
		float *bias, *res, y;

		work_new(&w, isa);
		w.batch = 1;
		out_new(&w, RLX_I8_OUT_F32);
		g->bias = bias = floats(g->n, -1, 1);
		g->ldr = g->n + 3;
		g->residual = res = floats(g->m * g->ldr, -1, 1);
		g->beta = 0.5;
		g->act = RLX_ACT_GELU;
		run(&w);
		for (i = 0; i < g->m; i++)
			for (j = 0; j < g->n; j++) {
				double x = value_of(&w, sum_of(&w, 0, i, j), i,
						    j);

				x += bias[j] + 0.5 * res[i * g->ldr + j];
				x *= 0.5 * erfc(-x * M_SQRT1_2);
				memcpy(&y, w.c + (i * g->ldc + j) * 4, 4);
				CHECKF(fabs(y - x) <= 1e-6 * fmax(1, fabs(x)),
				       "%s: %g, not %g", isa_name(isa), y, x);
			}
		fence_reset();
	}
}

TEST(real_results_take_bias_residual_and_activation)
{
	levels(epilogue);
}

static void relu_u8(enum rlx_isa isa)
{
	struct work w;
	size_t i, j;

	do {
		fence_reset();
		work_new(&w, isa);
	} while (w.q.g.m * w.q.g.n < 100);
	w.batch = 1;
	out_new(&w, RLX_I8_OUT_I8);
	w.q.c_zero = -20;
	w.q.requant = 4;
	w.q.g.act = RLX_ACT_RELU;
	run(&w);
	for (i = 0; i < w.q.g.m; i++)
		for (j = 0; j < w.q.g.n; j++) {
			float x = value_of(&w, sum_of(&w, 0, i, j), i, j);
			float y = fminf(fmaxf(x, 0) * 4, 1000);
			long want = lrintf(y) - 20;

			want = want > 127 ? 127 : want;
			CHECKF((int8_t)w.c[i * w.q.g.ldc + j] == want,
			       "%s: %d, not %ld", isa_name(isa),
			       (int8_t)w.c[i * w.q.g.ldc + j], want);
		}
	fence_reset();
}

TEST(relu_comes_before_requantisation)
{
	levels(relu_u8);
}

/* Packing the transpose gives the same bytes. */
static void packs_alike(enum rlx_isa isa)
{
	const struct rlx_kernels *t = amx_kernels(isa);
	int n;

	for (n = 0; n < 30; n++) {
		size_t rows = dim(), cols = dim(), ld, ldt, i, j, size;
		size_t panels = rlx_k_gemm_panels(cols, isa);
		uint8_t *b = bytes(rows, cols, &ld);
		uint8_t *bt = bytes(cols, rows, &ldt);
		struct rlx_k_gemm_i8_pack p = {
			.k = rows, .n = cols, .b = b, .ldb = ld,
			.b_signed = pick(0, 1),
		};
		void *x, *y;

		for (i = 0; i < rows; i++)
			for (j = 0; j < cols; j++)
				bt[j * ldt + i] = b[i * ld + j];
		size = rlx_k_gemm_i8_pack_size(cols, rows, isa);
		x = p.dst = fence_alloc(size, 64);
		t->gemm_i8_pack(&p, 0, panels, NULL);
		p.b = bt;
		p.ldb = ldt;
		p.trans = true;
		y = p.dst = fence_alloc(size, 64);
		t->gemm_i8_pack(&p, 0, panels, NULL);
		CHECK(!memcmp(x, y, size));
		fence_reset();
	}
}

TEST(rows_and_columns_pack_alike)
{
	levels(packs_alike);
}

TEST_MAIN()
