// SPDX-License-Identifier: MIT
/*
 * gemm_f32, gemm_bf16 and gemm_f16 against sums in double at every level this machine
 * runs: random shapes, forms, types, gaps, epilogues, splits.
 */
#include "kernels/gemm.h"
#include "selftests/kernels/amx_emu.h"

enum { CASES = 250, POISON = 0xa5 };

struct mat {
	void		*p;
	enum rlx_dtype	type;
	size_t		rows, cols, ld, n;	/* n: elements, first to last */
};

static uint64_t rng;
/* A 16-bit product: its weights, which inputs can hold; RLX_F32: gemm_f32. */
static enum rlx_dtype low = RLX_F32;
static bool any_type;	/* gemm_f32 of operands in any format */

static rlx_k_fn *run_of(const struct rlx_kernels *t)
{
	return low == RLX_BF16 ? t->gemm_bf16 : low == RLX_F16 ? t->gemm_f16 : t->gemm_f32;
}

static rlx_k_fn *pack_of(const struct rlx_kernels *t)
{
	return low == RLX_BF16 ? t->gemm_bf16_pack : low == RLX_F16 ? t->gemm_f16_pack :
	       t->gemm_f32_pack;
}

static size_t pick(size_t lo, size_t hi)
{
	return lo + rlx_test_rand(&rng) % (hi - lo + 1);
}

static float bf16_round(float x)
{
	uint32_t b;

	memcpy(&b, &x, 4);
	b = (b + 0x7fff + (b >> 16 & 1)) & 0xffff0000;
	memcpy(&x, &b, 4);
	return x;
}

/* Values of |x| <= 1 that all three types hold exactly, but for 0 or f32. */
static void put(struct mat *m, size_t i, float x)
{
	uint16_t h;
	uint32_t b;
	int e;

	if (m->type == RLX_F32) {
		((float *)m->p)[i] = x;
		return;
	}
	memcpy(&b, &x, 4);
	if (m->type == RLX_BF16) {
		h = (uint16_t)(b >> 16);
	} else {
		e = (int)(b >> 23 & 255) - 112;
		h = e <= 0 ? 0 : (uint16_t)((b >> 16 & 0x8000) | e << 10 |
					    (b >> 13 & 0x3ff));
	}
	((uint16_t *)m->p)[i] = h;
}

static double get(const struct mat *m, size_t i)
{
	uint16_t h;
	uint32_t b;
	float x;

	if (m->type == RLX_F32)
		return ((const float *)m->p)[i];
	h = ((const uint16_t *)m->p)[i];
	if (m->type == RLX_BF16) {
		b = (uint32_t)h << 16;
		memcpy(&x, &b, 4);
		return x;
	}
	if (!(h & 0x7c00))
		return (h & 0x8000 ? -1 : 1) * ldexp(h & 0x3ff, -24);
	return (h & 0x8000 ? -1 : 1) *
	       ldexp((h & 0x3ff) + 0x400, (h >> 10 & 31) - 25);
}

static struct mat mat_new(size_t rows, size_t cols, enum rlx_dtype type)
{
	struct mat m = { .rows = rows, .cols = cols, .type = type };
	size_t i;

	m.ld = cols + (pick(0, 2) ? pick(0, 19) : 0);
	m.n = rows && cols ? (rows - 1) * m.ld + cols : 0;
	m.p = fence_alloc(m.n * rlx_k_type_size(type), rlx_k_type_size(type));
	for (i = 0; i < m.n; i++) {
		float x = (float)rlx_test_uniform(&rng, -1, 1);

		/* bf16's are f16's in [-1, 1] */
		put(&m, i, low != RLX_F32 || any_type ? bf16_round(x) : x);
	}
	return m;
}

static float *vec_new(size_t n)
{
	return mat_new(1, n, RLX_F32).p;
}

static double act(double x, const struct rlx_k_gemm *g)
{
	double u;

	switch (g->act) {
	case RLX_ACT_RELU:
		return x > 0 ? x : 0;
	case RLX_ACT_GELU:
		return x * 0.5 * erfc(-x * M_SQRT1_2);
	case RLX_ACT_GELU_TANH:
		u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
		return 0.5 * x * (1 + tanh(u));
	case RLX_ACT_SILU:
		return x / (1 + exp(-x));
	case RLX_ACT_SIGMOID:
		return 1 / (1 + exp(-x));
	case RLX_ACT_TANH:
		return tanh(x);
	case RLX_ACT_HARD_SWISH:
		return x * fmin(fmax(x / 6 + 0.5, 0), 1);
	case RLX_ACT_HARD_SIGMOID:
		return fmin(fmax(g->lo * x + g->hi, 0), 1);
	case RLX_ACT_CLIP:
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
	g->n = pick(0, 3) ? dim() : pick(1, 8);
	g->k = pick(0, 15) ? dim() * (pick(0, 7) ? 1 : 8) : 0;
	g->trans_a = !pick(0, 3);
	g->b_form = (enum rlx_k_b_form)pick(0, 2);
	g->act = (enum rlx_act)pick(0, RLX_ACT_CLIP);
	if (!pick(0, 2))
		g->act = RLX_ACT_NONE;
	g->alpha = pick(0, 1) ? 1 : rlx_test_uniform(&rng, -2, 2);
	g->lo = -0.7;
	g->hi = 1.3;
	g->a_type = g->b_type = g->c_type = RLX_F32;
	if (low != RLX_F32 || any_type) {
		g->a_type = (enum rlx_dtype)pick(RLX_F32, RLX_BF16);
		g->b_type = (enum rlx_dtype)pick(RLX_F32, RLX_BF16);
		g->c_type = (enum rlx_dtype)pick(RLX_F32, RLX_BF16);
	}
	w->a = g->trans_a ? mat_new(w->batch * g->k, g->m, g->a_type) :
	       mat_new(w->batch * g->m, g->k, g->a_type);
	w->b = g->b_form == RLX_B_COLS ?
	       mat_new(w->batch * g->n, g->k, g->b_type) :
	       mat_new(w->batch * g->k, g->n, g->b_type);
	w->c = mat_new(w->batch * g->m, g->n, g->c_type);
	memset(w->c.p, POISON, w->c.n * rlx_k_type_size(g->c_type));
	g->a = w->a.p;
	g->lda = w->a.ld;
	g->b = w->b.p;
	g->ldb = w->b.ld;
	g->c = w->c.p;
	g->ldc = w->c.ld;
	g->bias = pick(0, 1) ? vec_new(g->n) : NULL;
	g->row_bias = pick(0, 3) ? NULL : vec_new(g->m);
	if (!pick(0, 2)) {
		w->r = mat_new(w->batch * g->m, g->n, g->c_type);
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

/* How gemm_f32 takes packed weights of any format: from v4x bf16's are pairs. */
static enum rlx_dtype packed_as(const struct work *w)
{
	return w->isa >= RLX_ISA_V4X && w->g.b_type == RLX_BF16 ? RLX_F32 : w->g.b_type;
}

static size_t pack_size(const struct work *w)
{
	/* of bf16 as of f16: pairs have no part in it */
	if (any_type && packed_as(w) != RLX_F32)
		return rlx_k_gemm_f16_pack_size(w->g.n, w->g.k, w->isa);
	return low == RLX_BF16 ? rlx_k_gemm_bf16_pack_size(w->g.n, w->g.k, w->isa) :
	       low == RLX_F16 ? rlx_k_gemm_f16_pack_size(w->g.n, w->g.k, w->isa) :
	       rlx_k_gemm_f32_pack_size(w->g.n, w->g.k, w->isa);
}

static void *pack(struct work *w, bool trans)
{
	struct rlx_k_gemm *g = &w->g;
	const struct rlx_kernels *t = amx_kernels(w->isa);
	enum rlx_dtype as = any_type ? packed_as(w) : low;
	rlx_k_fn *fn = !any_type ? pack_of(t) : as == RLX_F16 ? t->gemm_f16_pack :
		       as == RLX_BF16 ? t->gemm_bf16_pack : t->gemm_f32_pack;
	size_t size = pack_size(w), i, j;
	char *dst = fence_alloc(size * w->batch, 64);

	for (i = 0; i < w->batch; i++) {
		struct rlx_k_gemm_pack p = {
			.k = g->k, .n = g->n, .ldb = w->b.ld, .trans = trans,
			.b = (char *)w->b.p + i * w->b.ld *
			     (trans ? g->n : g->k) * rlx_k_type_size(w->b.type),
			.type = w->b.type, .dst = dst + i * size,
		};

		for (j = rlx_k_gemm_panels(g->n, w->isa); j; j--)
			fn(&p, j - 1, j, NULL);
	}
	g->b_type = as;
	return dst;
}

static double at(const struct mat *m, size_t i, size_t j)
{
	return get(m, i * m->ld + j);
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
	      2.5e-7 * fmax(1, fabs(sum)) +
	      (g->c_type == RLX_F32 ? 0 : 0x1p-8 * fabs(want) + 0x1p-25);
	CHECKF(fabs(got - want) <= tol,
	       "%s m%zu n%zu k%zu form%d trans%d act%d types %d,%d,%d: "
	       "c[%zu][%zu][%zu] is %.9g, not %.9g (%.3g off, %.3g allowed)",
	       isa_name(w->isa), g->m, g->n, g->k, g->b_form, g->trans_a,
	       g->act, g->a_type, g->b_type, g->c_type, batch, i, j, got, want,
	       fabs(got - want), tol);
}

static void check_all(const struct work *w)
{
	const unsigned char *p = w->c.p;
	size_t es = rlx_k_type_size(w->g.c_type), i, j;

	for (i = 0; i < w->batch * w->g.m; i++)
		for (j = 0; j < w->g.n; j++)
			check_one(w, i / w->g.m, i % w->g.m, j);
	/* the gaps between rows are as they were */
	for (i = 0; i < w->c.n; i++)
		if (i % w->c.ld >= w->g.n)
			for (j = 0; j < es; j++)
				CHECK(p[i * es + j] == POISON);
}

static size_t units_of(const struct work *w)
{
	return low == RLX_BF16 ? rlx_k_gemm_low_units(&w->g, w->isa) :
	       rlx_k_gemm_units(&w->g, w->isa);
}

static size_t scratch_of(const struct work *w)
{
	return low == RLX_BF16 ? rlx_k_gemm_low_scratch(&w->g, w->isa) :
	       rlx_k_gemm_scratch(&w->g, w->isa);
}

/* Run all units in ranges of random length, in no order, scratch poisoned. */
static void run_split(const struct work *w, rlx_k_fn *fn)
{
	size_t units = units_of(w), u, n, size = scratch_of(w);
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
	if (low == RLX_BF16) {	/* of which tiles have products */
		amx_levels(fn);
		return;
	}
	for (isa = RLX_ISA_BASE; isa < RLX_ISA_COUNT; isa++)
		if (isa_runs(isa))
			fn(isa);
}

static void any_random(enum rlx_isa isa)
{
	const struct rlx_kernels *t = amx_kernels(isa);
	struct work w;
	int i;

	for (i = 0; i < CASES; i++) {
		work_new(&w, isa);
		if (w.g.b_form == RLX_B_PACKED) {
			w.g.b = pack(&w, false);
			w.g.b_step[0] = w.g.b_step[1] = 0;
			if (w.batch > 1)
				w.g.b_step[w.g.batch[0] <= 1] = pack_size(&w);
			w.g.ldb = 0;
		}
		run_split(&w, run_of(t));
		check_all(&w);
		fence_reset();
	}
}

TEST(f32_matches_double_for_random_products)
{
	levels(any_random);
}

TEST(bf16_matches_double_for_random_products)
{
	low = RLX_BF16;
	levels(any_random);
}

TEST(f16_matches_double_for_random_products)
{
	low = RLX_F16;
	levels(any_random);
}

TEST(f32_matches_double_for_operands_of_any_format)
{
	any_type = true;
	levels(any_random);
}

/*
 * All terms of one sign, where each addition's rounding adds up: a sum along K by one
 * accumulator is off by 1e-5 at 1e5 terms and by 2e-4 at 1e6. One million, then any.
 */
static void any_long_sums(enum rlx_isa isa)
{
	const struct rlx_kernels *t = amx_kernels(isa);
	struct work w;
	double sum, off;
	size_t i, j, k, x;

	for (x = 0; x < 6; x++) {
		work_new(&w, isa);
		w.batch = 1;
		w.g = (struct rlx_k_gemm){ .alpha = 1, .m = pick(1, 8), .n = pick(1, x ? 40 : 6),
					   .k = x ? pick(513, 30000) : 1000000,
					   .b_form = (enum rlx_k_b_form)(x % 3), .a_type = RLX_F32,
					   .b_type = RLX_F32, .c_type = RLX_F32 };
		w.a = mat_new(w.g.m, w.g.k, RLX_F32);
		w.b = w.g.b_form == RLX_B_COLS ? mat_new(w.g.n, w.g.k, RLX_F32) :
		      mat_new(w.g.k, w.g.n, RLX_F32);
		w.c = mat_new(w.g.m, w.g.n, RLX_F32);
		for (i = 0; i < w.a.n; i++)
			put(&w.a, i, (float)rlx_test_uniform(&rng, 0, 1));
		for (i = 0; i < w.b.n; i++)
			put(&w.b, i, (float)rlx_test_uniform(&rng, 0, 1));
		w.g.a = w.a.p;
		w.g.lda = w.a.ld;
		w.g.b = w.g.b_form == RLX_B_PACKED ? pack(&w, false) : w.b.p;
		w.g.ldb = w.b.ld;
		w.g.c = w.c.p;
		w.g.ldc = w.c.ld;
		run_split(&w, run_of(t));
		for (i = 0; i < w.g.m; i++)
			for (j = 0; j < w.g.n; j++) {
				for (k = 0, sum = 0; k < w.g.k; k++)
					sum += at(&w.a, i, k) * (w.g.b_form == RLX_B_COLS ?
								 at(&w.b, j, k) : at(&w.b, k, j));
				off = fabs(at(&w.c, i, j) - sum) / sum;
				CHECKF(off < 3e-6, "%s m%zu n%zu k%zu form%d: off by %.2g of it",
				       isa_name(isa), w.g.m, w.g.n, w.g.k, w.g.b_form, off);
			}
		fence_reset();
	}
}

TEST(long_sums_are_made_of_parts) { levels(any_long_sums); }

/* Packing B transposed gives the bytes packing B gives. */
static void any_pack(enum rlx_isa isa)
{
	int i;

	for (i = 0; i < 40; i++) {
		struct work w;
		struct mat bt;
		size_t x, y;
		void *p, *q;

		do {
			fence_reset();
			work_new(&w, isa);
		} while (w.g.b_form == RLX_B_COLS);
		w.batch = 1;
		p = pack(&w, false);
		bt = mat_new(w.g.n, w.g.k, w.b.type);
		for (x = 0; x < w.g.k; x++)
			for (y = 0; y < w.g.n; y++)
				put(&bt, y * bt.ld + x,
				    (float)get(&w.b, x * w.b.ld + y));
		w.b = bt;
		q = pack(&w, true);
		CHECKF(!memcmp(p, q, pack_size(&w)), "%s n%zu k%zu type %d",
		       isa_name(isa), w.g.n, w.g.k, w.b.type);
		fence_reset();
	}
}

TEST(rows_and_columns_pack_alike)
{
	for (low = RLX_F32; low <= RLX_BF16; low++)
		levels(any_pack);
}

/* A row's bits do not depend on how many rows are multiplied with it. */
static void any_rows(enum rlx_isa isa)
{
	const struct rlx_kernels *t = amx_kernels(isa);
	int i;

	for (i = 0; i < 40; i++) {
		struct work w, one;
		char *row, *many;
		size_t r, es;

		do {
			fence_reset();
			work_new(&w, isa);
		} while (w.g.b_form == RLX_B_COLS &&
			 (any_type || !rlx_k_gemm_few_columns(&w.g, isa)));
		es = rlx_k_type_size(w.g.c_type);
		w.batch = 1;
		w.g.batch[0] = w.g.batch[1] = 0;
		w.a = w.g.trans_a ? mat_new(w.g.k, w.g.m, w.g.a_type) :
				    mat_new(w.g.m, w.g.k, w.g.a_type);
		w.g.a = w.a.p;
		w.g.lda = w.a.ld;
		if (w.g.b_form == RLX_B_PACKED)
			w.g.b = pack(&w, false);
		run_split(&w, run_of(t));
		one = w;
		r = pick(0, w.g.m - 1);
		row = fence_alloc(w.g.n * es, es);
		one.g.m = 1;
		one.g.c = row;
		one.g.a = (char *)w.a.p + r * (w.g.trans_a ? 1 : w.a.ld) *
			  rlx_k_type_size(w.a.type);
		if (w.g.residual)
			one.g.residual = (char *)w.r.p + r * w.r.ld * es;
		if (w.g.row_bias)
			one.g.row_bias = (const float *)w.g.row_bias + r;
		run_split(&one, run_of(t));
		many = (char *)w.c.p + r * w.c.ld * es;
		CHECKF(!memcmp(row, many, w.g.n * es),
		       "%s m%zu n%zu k%zu row %zu", isa_name(isa), w.g.m,
		       w.g.n, w.g.k, r);
		fence_reset();
	}
}

TEST(a_row_has_the_same_bits_alone)
{
	for (low = RLX_F32; low <= RLX_BF16; low++)
		levels(any_rows);
	low = RLX_F32;
	any_type = true;
	levels(any_rows);
}

/* Where bf16 is multiplied as such, f32 operands are rounded to nearest even. */
static void bf16_rounds(enum rlx_isa isa)
{
	const struct rlx_kernels *t = amx_kernels(isa);
	float a[33], b[33], c[33 * 33];
	char pack[4096] __attribute__((aligned(64)));
	char scratch[1 << 18] __attribute__((aligned(64)));
	struct rlx_k_gemm g = {
		.m = 33, .n = 33, .k = 1, .a = a, .lda = 1, .b = pack,
		.b_form = RLX_B_PACKED, .c = c, .ldc = 33, .alpha = 1,
		.a_type = RLX_F32, .b_type = RLX_BF16, .c_type = RLX_F32,
	};
	struct rlx_k_gemm_pack p = {
		.k = 1, .n = 33, .b = b, .ldb = 33, .type = RLX_F32, .dst = pack,
	};
	size_t i, j;

	for (i = 0; i < 33; i++) {
		a[i] = (float)rlx_test_uniform(&rng, -9, 9);
		b[i] = (float)rlx_test_uniform(&rng, -9, 9);
	}
	a[0] = 0x1.01p0f;	/* half way: to even, down */
	a[1] = 0x1.03p0f;	/* half way: to even, up */
	CHECK(rlx_k_gemm_bf16_pack_size(33, 1, isa) <= sizeof(pack));
	CHECK(rlx_k_gemm_low_scratch(&g, isa) <= sizeof(scratch));
	t->gemm_bf16_pack(&p, 0, rlx_k_gemm_panels(33, isa), NULL);
	t->gemm_bf16(&g, 0, rlx_k_gemm_low_units(&g, isa), scratch);
	for (i = 0; i < 33; i++)
		for (j = 0; j < 33; j++) {
			float x = isa >= RLX_ISA_V4X ? bf16_round(a[i]) : a[i];

			x *= bf16_round(b[j]);
			CHECKF(c[i * 33 + j] == x, "%s: %a x %a gives %a not %a",
			       isa_name(isa), a[i], b[j], c[i * 33 + j], x);
		}
}

TEST(bf16_rounds_to_nearest_even)
{
	low = RLX_BF16;
	levels(bf16_rounds);
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
		w.r = mat_new(w.g.m, w.c.ld, RLX_F32);
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
	w.g.act = RLX_ACT_NONE;
	((float *)w.a.p)[w.a.ld] = NAN;
	run_split(&w, rlx_kernels_get(isa)->gemm_f32);
	for (i = 0; i < w.g.m; i++)
		for (j = 0; j < w.g.n; j++)
			CHECK(isnan(at(&w.c, i, j)) == (i == 1));
	fence_reset();
}

TEST(f32_nan_stays_in_its_row)
{
	levels(f32_special);
}

TEST_MAIN()
