// SPDX-License-Identifier: MIT
/*
 * Tiles: the emulation against what the manual says and, where there is AMX, against
 * the instructions bit for bit; products whose K goes in parts; threads.
 */
#include <pthread.h>

#include "kernels/gemm.h"
#include "kernels/simd/tile_amx.h"
#include "kernels/simd/tile_emu.h"
#include "rlx/device.h"
#include "selftests/kernels/amx_emu.h"

static uint64_t rng;

static size_t pick(size_t lo, size_t hi)
{
	return lo + rlx_test_rand(&rng) % (hi - lo + 1);
}

enum op { BF16, SS8, SU8, US8, UU8, OPS };

/* One product of tiles of @m rows and @n columns over @k groups. */
struct product {
	size_t		m, n, k;
	unsigned char	a[TILE_BYTES], b[TILE_BYTES], c[TILE_BYTES];
};

static struct tile_shape shape_of(const struct product *p)
{
	struct tile_shape s = { .palette = 1 };

	s.rows[0] = s.rows[1] = (uint8_t)p->m;
	s.colsb[0] = s.colsb[2] = (uint16_t)(p->n * 4);
	s.colsb[1] = (uint16_t)(p->k * 4);
	s.rows[2] = (uint8_t)p->k;
	return s;
}

static void emulate(struct product *p, enum op op)
{
	const struct tile_shape s = shape_of(p);

	tile_emu_config(&s);
	tile_emu_load(0, p->c, TILE_COLSB);
	tile_emu_load(1, p->a, TILE_COLSB);
	tile_emu_load(2, p->b, TILE_COLSB);
	if (op == BF16)
		tile_emu_dp_bf16(0, 1, 2);
	else
		tile_emu_dp_8(0, 1, 2, op == SS8 || op == SU8, op == SS8 || op == US8);
	tile_emu_store(0, p->c, TILE_COLSB);
	tile_emu_release();
}

static void put_bf16(unsigned char *row, size_t i, float x)
{
	memcpy(row + i * 2, (const char *)&x + 2, 2);
}

static float first(const struct product *p)
{
	float x;

	memcpy(&x, p->c, sizeof(x));
	return x;
}

/* One row by one column of @n pairs, from @c. */
static float sum_of(float c, const float (*a)[2], const float (*b)[2], size_t n)
{
	struct product p = { .m = 1, .n = 1, .k = n };
	size_t k, e;

	memcpy(p.c, &c, sizeof(c));
	for (k = 0; k < n; k++)
		for (e = 0; e < 2; e++) {
			put_bf16(p.a, 2 * k + e, a[k][e]);
			put_bf16(p.b + k * TILE_COLSB, e, b[k][e]);
		}
	emulate(&p, BF16);
	return first(&p);
}

TEST(emulated_sums_of_pairs_are_two_chains)
{
	const float a[3][2] = { { 0x1p12f, 1 }, { 1, 1 }, { -0x1p12f, 1 } };
	const float b[3][2] = { { 0x1p12f, 1 }, { 1, 1 }, { 0x1p12f, 1 } };
	float x = sum_of(0.5f, a, b, 3);

	/* 2^24 + 1 is 2^24 to nearest even, and the odd chain has its 3 apart */
	CHECKF(x == 3.5f, "%g, not 3.5", (double)x);
}

TEST(emulated_denormals_are_0)
{
	const float tiny[1][2] = { { 0x1p-130f, 0 } }, big[1][2] = { { 0x1p100f, 0 } };
	const float small[1][2] = { { 0x1p-70f, 0 } };

	CHECK(sum_of(1, tiny, big, 1) == 1);
	CHECK(sum_of(0, tiny, big, 1) == 0);
	CHECK(sum_of(0, small, small, 1) == 0);
	CHECK(sum_of(0x1p-130f, big, small, 1) == 0x1p30f);
	CHECK(sum_of(0x1p-130f, small, small, 1) == 0);
}

TEST(emulated_bytes_wrap)
{
	struct product p = { .m = 1, .n = 1, .k = 16 };
	uint32_t x = 0x7fffffff;
	size_t i;

	for (i = 0; i < 64; i++) {
		p.a[i] = 255;
		p.b[i / 4 * TILE_COLSB + i % 4] = 128;
	}
	memcpy(p.c, &x, sizeof(x));
	emulate(&p, UU8);
	memcpy(&x, p.c, sizeof(x));
	CHECK(x == 0x7fffffff + 64u * 255 * 128);
	emulate(&p, US8);
	emulate(&p, SU8);
	emulate(&p, SS8);
	memcpy(&x, p.c, sizeof(x));
	CHECK(x == 0x7fffffff - 64u * 128 + 64u * 128);
}

#if defined(__x86_64__)
static void multiply(struct product *p, enum op op)
{
	const struct tile_shape s = shape_of(p);

	tile_config(&s);
	TILE_LOAD(0, p->c, TILE_COLSB);
	TILE_LOAD(1, p->a, TILE_COLSB);
	TILE_LOAD(2, p->b, TILE_COLSB);
	switch (op) {
	case BF16:
		TILE_DP_BF16(0, 1, 2);
		break;
	case SS8:
		TILE_DP_SS8(0, 1, 2);
		break;
	case SU8:
		TILE_DP_SU8(0, 1, 2);
		break;
	case US8:
		TILE_DP_US8(0, 1, 2);
		break;
	default:
		TILE_DP_UU8(0, 1, 2);
	}
	TILE_STORE(0, p->c, TILE_COLSB);
	tile_release();
}
#else
static void multiply(struct product *p, enum op op)
{
}
#endif

/* Bits of any kind; in half of the products of ordinary exponents. */
static void fill(unsigned char *p, size_t size, bool tame)
{
	size_t i;

	for (i = 0; i < TILE_BYTES; i++)
		p[i] = (unsigned char)rlx_test_rand(&rng);
	for (i = size - 1; tame && i < TILE_BYTES; i += size)
		p[i] = (unsigned char)((p[i] & 0x80) | 0x3c | (p[i] & 3));
}

static bool same(const unsigned char *x, const unsigned char *y, enum op op)
{
	float a, b;

	memcpy(&a, x, sizeof(a));
	memcpy(&b, y, sizeof(b));
	return !memcmp(x, y, 4) || (op == BF16 && isnan(a) && isnan(b));
}

TEST(instructions_and_emulation_agree)
{
	struct product p, q;
	size_t n, i, j;

	if (!isa_runs(RLX_ISA_V4_AMX))
		rlx_test_skip("no AMX: %s", rlx_amx_why());
	rng = rlx_test_seed();
	for (n = 0; n < 4000; n++) {
		enum op op = (enum op)(n % OPS);

		p = (struct product){ .m = pick(1, 16), .n = pick(1, 16), .k = pick(1, 16) };
		fill(p.a, 2, n % 2);
		fill(p.b, 2, n % 2);
		fill(p.c, 4, n % 2);
		q = p;
		emulate(&p, op);
		multiply(&q, op);
		for (i = 0; i < p.m; i++)
			for (j = 0; j < p.n; j++) {
				size_t at = i * TILE_COLSB + j * 4;
				uint32_t x, y;

				memcpy(&x, p.c + at, 4);
				memcpy(&y, q.c + at, 4);
				CHECKF(same(p.c + at, q.c + at, op),
				       "op %d m%zu n%zu k%zu [%zu][%zu]: emulated %08x, is %08x",
				       op, p.m, p.n, p.k, i, j, x, y);
			}
	}
}

static float from_bf16(uint16_t h)
{
	uint32_t b = (uint32_t)h << 16;
	float x;

	memcpy(&x, &b, sizeof(x));
	return x;
}

/* Elements of @size bytes: bf16 of |x| < 2, or bytes. */
static void *elements(size_t n, size_t size)
{
	unsigned char *p = fence_alloc(n * size, size);
	size_t i;

	for (i = 0; i < n * size; i++)
		p[i] = (unsigned char)rlx_test_rand(&rng);
	for (i = 1; size == 2 && i < n * 2; i += 2)
		p[i] = (unsigned char)((p[i] & 0x80) | 0x3e | (p[i] & 1));
	return p;
}

/* A product of bf16 or bytes at level v4_amx, by @t, of @size bytes an element. */
struct work {
	struct rlx_k_gemm_i8	q;
	size_t			size;
	const void		*raw;		/* B before packing */
};

static void work_new(struct work *w, size_t size)
{
	struct rlx_k_gemm *g = &w->q.g;

	*w = (struct work){ .size = size };
	g->m = pick(1, 320);
	g->n = pick(1, 100);
	g->k = pick(1, 5) * pick(1, 600);
	g->lda = g->k + pick(0, 1) * pick(0, 70);
	g->ldc = g->n + pick(0, 3);
	g->alpha = 1;
	g->a_type = g->b_type = RLX_BF16;
	g->c_type = RLX_F32;
	g->b_form = RLX_B_PACKED;
	g->a = elements((g->m - 1) * g->lda + g->k, size);
	w->raw = elements(g->n * g->k, size);
	w->q.a_signed = pick(0, 1);
	w->q.b_signed = pick(0, 1);
}

static rlx_k_fn *kernel(const struct work *w, const struct rlx_kernels *t)
{
	return w->size == 2 ? t->gemm_bf16 : t->gemm_i8;
}

/* Packs B by @t and gives C its memory. */
static void prepare(struct work *w, const struct rlx_kernels *t)
{
	struct rlx_k_gemm *g = &w->q.g;
	size_t panels = rlx_k_gemm_panels(g->n, RLX_ISA_V4_AMX);
	struct rlx_k_gemm_pack p = {
		.k = g->k, .n = g->n, .b = w->raw, .ldb = g->n, .type = RLX_BF16,
	};
	struct rlx_k_gemm_i8_pack p8 = {
		.k = g->k, .n = g->n, .b = w->raw, .ldb = g->n, .b_signed = w->q.b_signed,
	};

	g->b = p.dst = p8.dst = fence_alloc(w->size == 2 ?
		rlx_k_gemm_bf16_pack_size(g->n, g->k, RLX_ISA_V4_AMX) :
		rlx_k_gemm_i8_pack_size(g->n, g->k, RLX_ISA_V4_AMX), 64);
	if (w->size == 2)
		t->gemm_bf16_pack(&p, 0, panels, NULL);
	else
		t->gemm_i8_pack(&p8, 0, panels, NULL);
	g->c = fence_alloc(((g->m - 1) * g->ldc + g->n) * 4, 4);
}

static void run(const struct work *w, const struct rlx_kernels *t, size_t begin, size_t end)
{
	size_t size = rlx_k_gemm_low_scratch(&w->q.g, RLX_ISA_V4_AMX);
	void *scratch = aligned_alloc(64, (size + 63) / 64 * 64);

	CHECK(scratch);
	memset(scratch, 0xff, size);
	kernel(w, t)(&w->q, begin, end, scratch);
	free(scratch);
}

static size_t units(const struct work *w)
{
	return rlx_k_gemm_low_units(&w->q.g, RLX_ISA_V4_AMX);
}

static void prepare_and_run(struct work *w, const struct rlx_kernels *t)
{
	prepare(w, t);
	run(w, t, 0, units(w));
}

#define WORK_FMT	"size %zu m%zu n%zu k%zu lda%zu"
#define WORK_ARGS(w)	(w)->size, (w)->q.g.m, (w)->q.g.n, (w)->q.g.k, (w)->q.g.lda

static const void *result_row(const struct work *w, size_t i)
{
	return (const char *)w->q.g.c + i * w->q.g.ldc * 4;
}

static void check_at(const struct work *w, size_t i, size_t j)
{
	const struct rlx_k_gemm *g = &w->q.g;
	const unsigned char *at = (const unsigned char *)g->c + (i * g->ldc + j) * 4;
	double sum = 0, mag = 0, tol = 0, got, x;
	float f;
	int32_t n;
	size_t k;

	for (k = 0; k < g->k; k++) {
		size_t a = i * g->lda + k, b = k * g->n + j;

		if (w->size == 2)
			x = (double)from_bf16(((const uint16_t *)g->a)[a]) *
			    (double)from_bf16(((const uint16_t *)w->raw)[b]);
		else
			x = (w->q.a_signed ? ((const int8_t *)g->a)[a] :
			     ((const uint8_t *)g->a)[a]) *
			    (w->q.b_signed ? ((const int8_t *)w->raw)[b] :
			     ((const uint8_t *)w->raw)[b]);
		sum += x;
		mag += fabs(x);
	}
	memcpy(&f, at, 4);
	memcpy(&n, at, 4);
	got = w->size == 2 ? (double)f : n;
	if (w->size == 2)
		tol = 0x1p-24 * (2 + sqrt((double)g->k)) * mag;
	CHECKF(fabs(got - sum) <= tol, WORK_FMT ": c[%zu][%zu] is %.9g, not %.9g", WORK_ARGS(w),
	       i, j, got, sum);
}

/* Of rows of @w some alone: the same bits. */
static void check_rows(const struct work *w, const struct rlx_kernels *t)
{
	struct work one = *w;
	size_t row = pick(0, w->q.g.m - 1);

	one.q.g.m = 1;
	one.q.g.a = (const char *)w->q.g.a + row * w->q.g.lda * w->size;
	one.q.g.c = fence_alloc(w->q.g.n * 4, 4);
	run(&one, t, 0, units(&one));
	CHECKF(!memcmp(one.q.g.c, result_row(w, row), w->q.g.n * 4),
	       WORK_FMT ": row %zu differs alone", WORK_ARGS(w), row);
}

static void long_sums(const struct rlx_kernels *t)
{
	struct work w;
	size_t n, i;

	for (n = 0; n < 24; n++) {
		work_new(&w, 1 + n % 2);
		prepare_and_run(&w, t);
		for (i = 0; i < w.q.g.m * w.q.g.n; i += pick(1, 3))
			check_at(&w, i / w.q.g.n, i % w.q.g.n);
		check_rows(&w, t);
		fence_reset();
	}
}

/* By the machine's tiles if it has any, and by emulated ones. */
static void both_ways(void (*check)(const struct rlx_kernels *t))
{
	rng = rlx_test_seed();
	if (isa_runs(RLX_ISA_V4_AMX))
		check(rlx_kernels_get(RLX_ISA_V4_AMX));
	amx_emulated = true;
	check(amx_kernels(RLX_ISA_V4_AMX));
}

TEST(sums_in_parts_match_double)
{
	both_ways(long_sums);
}

TEST(kernels_and_emulation_agree)
{
	struct work w, e;
	size_t n, i;

	if (!isa_runs(RLX_ISA_V4_AMX))
		rlx_test_skip("no AMX: %s", rlx_amx_why());
	rng = rlx_test_seed();
	for (n = 0; n < 24; n++) {
		work_new(&w, 1 + n % 2);
		e = w;
		prepare_and_run(&w, rlx_kernels_get(RLX_ISA_V4_AMX));
		amx_emulated = true;
		prepare_and_run(&e, amx_kernels(RLX_ISA_V4_AMX));
		for (i = 0; i < w.q.g.m; i++)
			CHECKF(!memcmp(result_row(&w, i), result_row(&e, i), w.q.g.n * 4),
			       WORK_FMT ": row %zu differs", WORK_ARGS(&w), i);
		fence_reset();
	}
}

/* One thread's share, again and again: its tiles are its own. */
struct share {
	const struct work	*w;
	const struct rlx_kernels *t;
	size_t			begin, end;
};

static void *run_share(void *arg)
{
	const struct share *s = arg;
	size_t i;

	for (i = 0; i < 8; i++)
		run(s->w, s->t, s->begin, s->end);
	return NULL;
}

static void side_by_side(const struct rlx_kernels *t, size_t size)
{
	struct share half[2];
	struct work w;
	pthread_t other;
	size_t i;

	do {
		fence_reset();
		work_new(&w, size);
	} while (w.q.g.m < 100 || w.q.g.n < 40);
	prepare(&w, t);
	half[0] = (struct share){ &w, t, 0, units(&w) / 2 };
	half[1] = (struct share){ &w, t, units(&w) / 2, units(&w) };
	CHECK(!pthread_create(&other, NULL, run_share, &half[1]));
	run_share(&half[0]);
	CHECK(!pthread_join(other, NULL));
	for (i = 0; i < w.q.g.m * w.q.g.n; i += 7)
		check_at(&w, i / w.q.g.n, i % w.q.g.n);
	fence_reset();
}

static void both_sizes(const struct rlx_kernels *t)
{
	side_by_side(t, 1);
	side_by_side(t, 2);
}

TEST(threads_have_tiles_of_their_own)
{
	both_ways(both_sizes);
}

static void level(char isa[16])
{
	struct rlx_dev_info d[8];

	CHECK(rlx_device_list(d, 8) && !strcmp(d[0].backend, "cpu"));
	memcpy(isa, d[0].isa, 16);
}

TEST(the_level_is_offered_where_the_kernel_permits_tiles)
{
	bool runs = isa_runs(RLX_ISA_V4_AMX);
	char isa[16];

	CHECK(!runs || !rlx_amx_why());
	unsetenv("RLX_ISA");
	level(isa);
	CHECKF(runs == !strcmp(isa, "v4_amx"), "%s", isa);
	setenv("RLX_ISA", "v4_amx", 1);
	level(isa);
	CHECKF(runs == !strcmp(isa, "v4_amx"), "%s", isa);
	setenv("RLX_ISA", "v4x", 1);
	level(isa);
	CHECKF(strcmp(isa, "v4_amx") && isa_runs(RLX_ISA_V4X) == !strcmp(isa, "v4x"), "%s", isa);
	setenv("RLX_ISA", "base", 1);
	level(isa);
	CHECK_STR(isa, "base");
}

/* Each level that the processor runs can be had, and unasked the highest. */
TEST(levels_are_those_of_the_processor)
{
	enum rlx_isa l, top = RLX_ISA_BASE;
	char isa[16];

	for (l = RLX_ISA_BASE; l < RLX_ISA_COUNT; l++) {
		if (!isa_runs(l))
			continue;
		top = l;
		setenv("RLX_ISA", isa_name(l), 1);
		level(isa);
		CHECK_STR(isa, isa_name(l));
	}
	unsetenv("RLX_ISA");
	level(isa);
	CHECK_STR(isa, isa_name(top));
}

TEST_MAIN()
