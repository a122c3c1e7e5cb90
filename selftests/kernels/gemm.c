// SPDX-License-Identifier: MIT
/*
 * gemm_f32 and gemm_f64 against sums in double at every level this machine
 * runs: random shapes, forms, gaps, epilogues, splits.
 */
#include "kernels/gemm.h"
#include "selftests/kernels/isa.h"

enum { CASES = 250, POISON = 0xa5 };

struct mat {
	float	*p;
	size_t	rows, cols, ld, n;	/* n: elements from first to last */
};

static uint64_t rng;

static size_t pick(size_t lo, size_t hi)
{
	return lo + rlx_test_rand(&rng) % (hi - lo + 1);
}

static struct mat mat_new(size_t rows, size_t cols)
{
	struct mat m = { .rows = rows, .cols = cols };
	size_t i;

	m.ld = cols + (pick(0, 2) ? pick(0, 19) : 0);
	m.n = rows && cols ? (rows - 1) * m.ld + cols : 0;
	m.p = fence_alloc(m.n * sizeof(float), sizeof(float));
	for (i = 0; i < m.n; i++)
		m.p[i] = (float)rlx_test_uniform(&rng, -1, 1);
	return m;
}

static float *vec_new(size_t n)
{
	return mat_new(1, n).p;
}

static double act(double x, const struct rlx_k_gemm *g)
{
	double u;

	switch (g->act) {
	case RLX_K_ACT_RELU:
		return x > 0 ? x : 0;
	case RLX_K_ACT_GELU_ERF:
		return x * 0.5 * erfc(-x * M_SQRT1_2);
	case RLX_K_ACT_GELU_TANH:
		u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
		return 0.5 * x * (1 + tanh(u));
	case RLX_K_ACT_SILU:
		return x / (1 + exp(-x));
	case RLX_K_ACT_SIGMOID:
		return 1 / (1 + exp(-x));
	case RLX_K_ACT_TANH:
		return tanh(x);
	case RLX_K_ACT_HARD_SWISH:
		return x * fmin(fmax(x / 6 + 0.5, 0), 1);
	case RLX_K_ACT_CLIP:
		return fmin(fmax(x, g->lo), g->hi);
	default:
		return x;
	}
}

/* One random product; @w gets what the checks need besides g. */
struct work {
	struct rlx_k_gemm	g;
	struct mat		a, b, c, r;
	enum rlx_isa		isa;
	size_t			batch;
};

static size_t dim(void)
{
	static const size_t edge[] = { 1, 2, 3, 4, 7, 8, 14, 15, 16, 17, 28, 31,
				       32, 33, 48, 64, 65, 96, 128 };

	return pick(0, 1) ? edge[pick(0, sizeof(edge) / sizeof(*edge) - 1)] :
	       pick(1, 140);
}

static void work_new(struct work *w, enum rlx_isa isa)
{
	struct rlx_k_gemm *g = &w->g;

	memset(w, 0, sizeof(*w));
	w->isa = isa;
	w->batch = pick(0, 3) ? 1 : pick(2, 4);
	g->m = dim();
	g->n = dim();
	g->k = pick(0, 15) ? dim() * (pick(0, 7) ? 1 : 8) : 0;
	g->trans_a = !pick(0, 3);
	g->b_form = (enum rlx_k_b_form)pick(0, 2);
	g->act = (enum rlx_k_act)pick(0, RLX_K_ACT_CLIP);
	if (!pick(0, 2))
		g->act = RLX_K_ACT_NONE;
	g->alpha = pick(0, 1) ? 1 : rlx_test_uniform(&rng, -2, 2);
	g->lo = -0.7;
	g->hi = 1.3;
	w->a = g->trans_a ? mat_new(w->batch * g->k, g->m) :
	       mat_new(w->batch * g->m, g->k);
	w->b = g->b_form == RLX_B_COLS ? mat_new(w->batch * g->n, g->k) :
	       mat_new(w->batch * g->k, g->n);
	w->c = mat_new(w->batch * g->m, g->n);
	memset(w->c.p, POISON, w->c.n * sizeof(float));
	g->a = w->a.p;
	g->lda = w->a.ld;
	g->b = w->b.p;
	g->ldb = w->b.ld;
	g->c = w->c.p;
	g->ldc = w->c.ld;
	g->bias = pick(0, 1) ? vec_new(g->n) : NULL;
	g->row_bias = pick(0, 3) ? NULL : vec_new(g->m);
	if (!pick(0, 2)) {
		w->r = mat_new(w->batch * g->m, g->n);
		g->residual = w->r.p;
		g->ldr = w->r.ld;
		g->beta = pick(0, 1) ? 1 : rlx_test_uniform(&rng, -2, 2);
	}
	g->batch[pick(0, 1)] = w->batch;
	if (g->batch[0] > 1 || g->batch[1] > 1) {
		size_t i = g->batch[0] <= 1;

		g->a_step[i] = w->a.ld * (g->trans_a ? g->k : g->m);
		g->b_step[i] = w->b.ld *
			       (g->b_form == RLX_B_COLS ? g->n : g->k);
		g->c_step[i] = w->c.ld * g->m;
		g->r_step[i] = w->r.ld * g->m;
	}
}

static void *pack_f32(const struct work *w, bool trans)
{
	const struct rlx_k_gemm *g = &w->g;
	const struct rlx_kernels *t = rlx_kernels_get(w->isa);
	size_t size = rlx_k_gemm_f32_pack_size(g->n, g->k, w->isa);
	size_t panels = rlx_k_gemm_panels(g->n, w->isa), i, j;
	char *dst = fence_alloc(size * w->batch, 64);

	for (i = 0; i < w->batch; i++) {
		struct rlx_k_gemm_pack p = {
			.k = g->k, .n = g->n, .ldb = w->b.ld, .trans = trans,
			.b = w->b.p + i * w->b.ld * (trans ? g->n : g->k),
			.dst = dst + i * size,
		};

		for (j = panels; j; j--)
			t->gemm_f32_pack(&p, j - 1, j, NULL);
	}
	return dst;
}

static double at(const struct mat *m, size_t i, size_t j)
{
	return m->p[i * m->ld + j];
}

static void check_one(const struct work *w, size_t batch, size_t i, size_t j)
{
	const struct rlx_k_gemm *g = &w->g;
	double sum = 0, mag = 0, want, got, tol;
	bool cols = g->b_form == RLX_B_COLS;
	size_t k;

	for (k = 0; k < g->k; k++) {
		double a = g->trans_a ? at(&w->a, batch * g->k + k, i) :
			   at(&w->a, batch * g->m + i, k);
		double b = cols ? at(&w->b, batch * g->n + j, k) :
			   at(&w->b, batch * g->k + k, j);

		sum += a * b;
		mag += fabs(a * b);
	}
	sum *= g->alpha;
	mag *= fabs(g->alpha);
	if (g->bias)
		sum += ((const float *)g->bias)[j];
	if (g->row_bias)
		sum += ((const float *)g->row_bias)[i];
	if (g->residual)
		sum += g->beta * at(&w->r, batch * g->m + i, j);
	want = act(sum, g);
	got = at(&w->c, batch * g->m + i, j);
	tol = 0x1p-24 * (2 + sqrt((double)g->k) * 2) * (mag + 5) +
	      2.5e-7 * fmax(1, fabs(sum));
	CHECKF(fabs(got - want) <= tol,
	       "%s m%zu n%zu k%zu form%d trans%d act%d: c[%zu][%zu][%zu] is %.9g, not %.9g (%.3g off, %.3g allowed)",
	       isa_name(w->isa), g->m, g->n, g->k, g->b_form, g->trans_a,
	       g->act, batch, i, j, got, want, fabs(got - want), tol);
}

static void check_all(const struct work *w)
{
	const unsigned char *p = (const void *)w->c.p;
	size_t i, j;

	for (i = 0; i < w->batch * w->g.m; i++)
		for (j = 0; j < w->g.n; j++)
			check_one(w, i / w->g.m, i % w->g.m, j);
	/* the gaps between rows are as they were */
	for (i = 0; i < w->c.n; i++)
		if (i % w->c.ld >= w->g.n)
			for (j = 0; j < 4; j++)
				CHECK(p[i * 4 + j] == POISON);
}

/* Run all units in ranges of random length, in no order, scratch poisoned. */
static void run_split(const struct work *w, rlx_k_fn *fn)
{
	size_t units = rlx_k_gemm_units(&w->g, w->isa), u, n;
	size_t size = rlx_k_gemm_scratch(&w->g, w->isa);
	size_t most = pick(1, 4) == 1 ? 1 : units;
	void *scratch = fence_alloc(size, 64);

	for (u = units; u; u -= n) {
		n = pick(1, u < most ? u : most);
		memset(scratch, 0xff, size);
		fn(&w->g, u - n, u, scratch);
	}
}

static void levels(void (*fn)(enum rlx_isa isa))
{
	enum rlx_isa isa;

	rng = rlx_test_seed();
	for (isa = RLX_ISA_BASE; isa < RLX_ISA_COUNT; isa++)
		if (isa_runs(isa))
			fn(isa);
}

static void f32_random(enum rlx_isa isa)
{
	struct work w;
	int i;

	for (i = 0; i < CASES; i++) {
		work_new(&w, isa);
		if (w.g.b_form == RLX_B_PACKED) {
			w.g.b = pack_f32(&w, false);
			w.g.b_step[0] = w.g.b_step[1] = 0;
			w.g.b_step[w.g.batch[0] <= 1] = w.batch > 1 ?
				rlx_k_gemm_f32_pack_size(w.g.n, w.g.k, isa) : 0;
			w.g.ldb = 0;
		}
		run_split(&w, rlx_kernels_get(isa)->gemm_f32);
		check_all(&w);
		fence_reset();
	}
}

TEST(f32_matches_double_for_random_products)
{
	levels(f32_random);
}

/* Packing B transposed gives the bytes packing B gives. */
static void f32_pack(enum rlx_isa isa)
{
	int i;

	for (i = 0; i < 40; i++) {
		struct work w;
		struct mat bt;
		size_t size, x, y;
		void *p, *q;

		work_new(&w, isa);
		w.batch = 1;
		if (w.g.b_form == RLX_B_COLS) {
			fence_reset();
			continue;
		}
		p = pack_f32(&w, false);
		bt = mat_new(w.g.n, w.g.k);
		for (x = 0; x < w.g.k; x++)
			for (y = 0; y < w.g.n; y++)
				bt.p[y * bt.ld + x] = w.b.p[x * w.b.ld + y];
		w.b = bt;
		q = pack_f32(&w, true);
		size = rlx_k_gemm_f32_pack_size(w.g.n, w.g.k, isa);
		CHECKF(!memcmp(p, q, size), "%s n%zu k%zu", isa_name(isa),
		       w.g.n, w.g.k);
		fence_reset();
	}
}

TEST(f32_packs_rows_and_columns_alike)
{
	levels(f32_pack);
}

/* A row's bits do not depend on how many rows are multiplied with it. */
static void f32_rows(enum rlx_isa isa)
{
	int i;

	for (i = 0; i < 40; i++) {
		struct work w, one;
		float *row;
		size_t r;

		work_new(&w, isa);
		w.batch = 1;
		w.g.batch[0] = w.g.batch[1] = 0;
		w.g.trans_a = false;
		w.a = mat_new(w.g.m, w.g.k);
		w.g.a = w.a.p;
		w.g.lda = w.a.ld;
		if (w.g.b_form == RLX_B_PACKED)
			w.g.b = pack_f32(&w, false);
		run_split(&w, rlx_kernels_get(isa)->gemm_f32);
		one = w;
		r = pick(0, w.g.m - 1);
		row = fence_alloc(w.g.n * 4, 4);
		one.g.m = 1;
		one.g.c = row;
		one.g.a = w.a.p + r * w.a.ld;
		if (w.g.residual)
			one.g.residual = w.r.p + r * w.r.ld;
		if (w.g.row_bias)
			one.g.row_bias = (const float *)w.g.row_bias + r;
		run_split(&one, rlx_kernels_get(isa)->gemm_f32);
		CHECKF(!memcmp(row, w.c.p + r * w.c.ld, w.g.n * 4),
		       "%s m%zu n%zu k%zu row %zu", isa_name(isa), w.g.m,
		       w.g.n, w.g.k, r);
		fence_reset();
	}
}

TEST(f32_row_has_the_same_bits_alone)
{
	levels(f32_rows);
}

/* R may be C: C = A B + C. */
static void f32_onto(enum rlx_isa isa)
{
	int i;

	for (i = 0; i < 20; i++) {
		struct work w;

		work_new(&w, isa);
		if (w.g.b_form == RLX_B_PACKED || w.batch > 1) {
			fence_reset();
			continue;
		}
		w.r = mat_new(w.g.m, w.c.ld);
		w.r.ld = w.c.ld;
		memcpy(w.c.p, w.r.p, w.c.n * 4);
		w.g.residual = w.g.c;
		w.g.ldr = w.g.ldc;
		w.g.beta = 1;
		run_split(&w, rlx_kernels_get(isa)->gemm_f32);
		for (size_t r = 0; r < w.g.m; r++)
			for (size_t c = 0; c < w.g.n; c++)
				check_one(&w, 0, r, c);
		fence_reset();
	}
}

TEST(f32_residual_may_be_the_result)
{
	levels(f32_onto);
}

/* Infinity and NaN in A reach just their row. */
static void f32_special(enum rlx_isa isa)
{
	struct work w;
	size_t i, j;

	do {
		fence_reset();
		work_new(&w, isa);
	} while (w.batch > 1 || w.g.trans_a || w.g.k < 1 || w.g.m < 3 ||
		 w.g.b_form == RLX_B_PACKED);
	w.g.act = RLX_K_ACT_NONE;
	w.a.p[w.a.ld] = NAN;
	run_split(&w, rlx_kernels_get(isa)->gemm_f32);
	for (i = 0; i < w.g.m; i++)
		for (j = 0; j < w.g.n; j++)
			CHECK(isnan(w.c.p[i * w.c.ld + j]) == (i == 1));
	fence_reset();
}

TEST(f32_nan_stays_in_its_row)
{
	levels(f32_special);
}

TEST_MAIN()
