// SPDX-License-Identifier: MIT
/*
 * GEMMs on one core: GFLOP/s and the share of what back-to-back
 * multiply-add instructions reach in the same process. Weights are packed and
 * random; each figure is the best of several short runs, the peak measured in
 * between, so that a busy machine slows both.
 */

#include "selftests/bench/cpu_time.h"
#include "kernels/gemm.h"
#include "kernels/simd/tile_amx.h"
#include "selftests/kernels/isa.h"

#if defined(__x86_64__)
#define R(x)	#x
#define OP(insn, r)	insn " %%" r "30, %%" r "31, %%" r
#define FOUR(insn, r, a, b, c, d)					\
	OP(insn, r) R(a) "\n" OP(insn, r) R(b) "\n"			\
	OP(insn, r) R(c) "\n" OP(insn, r) R(d) "\n"
#define TWELVE(insn, r)							\
	FOUR(insn, r, 0, 1, 2, 3) FOUR(insn, r, 4, 5, 6, 7)		\
	FOUR(insn, r, 8, 9, 10, 11)
#define ZMM(insn)							\
	TWELVE(insn, "zmm") FOUR(insn, "zmm", 16, 17, 18, 19)		\
	FOUR(insn, "zmm", 20, 21, 22, 23) FOUR(insn, "zmm", 24, 25, 26, 27)
#define YOP(r)	"vfmadd231ps %%ymm14, %%ymm15, %%ymm" #r "\n"
#define YTWELVE	YOP(0) YOP(1) YOP(2) YOP(3) YOP(4) YOP(5)		\
	YOP(6) YOP(7) YOP(8) YOP(9) YOP(10) YOP(11)
#define XOP(r)	"mulps %%xmm14, %%xmm" #r "\naddps %%xmm15, %%xmm" #r "\n"
#define XTWELVE	XOP(0) XOP(1) XOP(2) XOP(3) XOP(4) XOP(5)		\
	XOP(6) XOP(7) XOP(8) XOP(9) XOP(10) XOP(11)
#define SPIN(n, zero, body)						\
	__asm__ volatile(zero "\n1:\n" body "sub $1, %0\njnz 1b\n"	\
		: "+r"(n) : : "cc", "xmm0", "xmm1", "xmm2", "xmm3",	\
		"xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
		"xmm11", "xmm14", "xmm15")

enum unit { UNIT_F32, UNIT_BF16, UNIT_I8 };

/* The same by tiles: bytes are four in a group, bf16 two. */
static double tile_peak(enum unit unit)
{
	struct tile_shape s = { .palette = 1 };
	size_t n = 100000, i;
	double t;

	for (i = 0; i < TILE_COUNT; i++) {
		s.rows[i] = TILE_ROWS;
		s.colsb[i] = TILE_COLSB;
	}
	tile_config(&s);
	t = cpu_time();
	for (i = 0; i < n && unit == UNIT_BF16; i++) {
		TILE_DP_BF16(0, 4, 6);
		TILE_DP_BF16(1, 4, 7);
		TILE_DP_BF16(2, 5, 6);
		TILE_DP_BF16(3, 5, 7);
	}
	for (i = 0; i < n && unit == UNIT_I8; i++) {
		TILE_DP_UU8(0, 4, 6);
		TILE_DP_UU8(1, 4, 7);
		TILE_DP_UU8(2, 5, 6);
		TILE_DP_UU8(3, 5, 7);
	}
	t = cpu_time() - t;
	tile_release();
	return (double)n * 4 * 2 * 16 * 16 * (unit == UNIT_BF16 ? 32 : 64) / t * 1e-9;
}

/* Multiply-adds a second, in GFLOP/s, of independent chains. */
static double peak(enum rlx_isa isa, enum unit unit)
{
	static const double flops[] = { 4, 8, 16, 16, 16, 16 };
	size_t n = 2000000;
	double t = cpu_time();

	if (isa == RLX_ISA_V4_AMX && unit != UNIT_F32)
		return tile_peak(unit);
	if (isa == RLX_ISA_BASE)
		SPIN(n, "", XTWELVE);
	else if (isa == RLX_ISA_V3)
		SPIN(n, "vzeroall", YTWELVE);
	else if (unit == UNIT_F32)
		SPIN(n, "vzeroall", ZMM("vfmadd231ps"));
	else if (unit == UNIT_BF16)
		SPIN(n, "vzeroall", ZMM("vdpbf16ps"));
	else
		SPIN(n, "vzeroall", ZMM("vpdpbusd"));
	t = cpu_time() - t;
	return 2e6 * (isa < RLX_ISA_V4 ? 12 : 24) * 2 * flops[isa] / t * 1e-9 *
	       (unit == UNIT_F32 ? 1 : unit == UNIT_BF16 ? 2 : 4);
}
#else
enum unit { UNIT_F32, UNIT_BF16, UNIT_I8 };

static double peak(enum rlx_isa isa, enum unit unit)
{
	return NAN;
}
#endif

struct shape {
	const char	*model;
	size_t		n, k;
	enum rlx_act	act;
};

static const struct shape shapes[] = {
	{ "MiniLM qkv",	  1152,  384, RLX_ACT_NONE },
	{ "MiniLM out",	   384,  384, RLX_ACT_NONE },
	{ "MiniLM up",	  1536,  384, RLX_ACT_GELU },
	{ "MiniLM down",   384, 1536, RLX_ACT_NONE },
	{ "BERT out",	   768,  768, RLX_ACT_NONE },
	{ "BERT up",	  3072,  768, RLX_ACT_GELU },
	{ "BERT down",	   768, 3072, RLX_ACT_NONE },
	{ "ResNet fc",	  1000, 2048, RLX_ACT_NONE },
	{ "ResNet 1x1",	   256,   64, RLX_ACT_RELU },
	{ "pow2",	  1024, 1024, RLX_ACT_NONE },
};

static const size_t rows[] = { 1, 4, 32, 128, 512 };

static void *fill(size_t n)
{
	float *p = aligned_alloc(64, (n * sizeof(*p) + 63) / 64 * 64);
	uint64_t s = rlx_test_seed();
	size_t i;

	CHECK(p);
	for (i = 0; i < n; i++)
		p[i] = (float)rlx_test_uniform(&s, -1, 1);
	return p;
}

/* What the level multiplies @unit's elements with: where it has no unit of theirs, floats. */
static enum unit unit_at(enum rlx_isa isa, enum unit unit)
{
	return isa < (unit == UNIT_BF16 ? RLX_ISA_V4X : RLX_ISA_V4_VNNI) ? UNIT_F32 : unit;
}

/* The fastest the process has seen these instructions go. */
static double ceiling(enum rlx_isa isa, enum unit unit)
{
	static double top[RLX_ISA_COUNT][3];
	double p = peak(isa, unit);

	if (!(top[isa][unit] >= p))
		top[isa][unit] = p;
	return top[isa][unit];
}

/* Best GFLOP/s over runs of some milliseconds each; *share of the peak. */
static double measure(const struct rlx_k_gemm *g, enum rlx_isa isa,
		      rlx_k_fn *fn, bool low, enum unit unit, double *share)
{
	size_t units = low ? rlx_k_gemm_low_units(g, isa) : rlx_k_gemm_units(g, isa), i;
	void *scratch = aligned_alloc(64, ((low ? rlx_k_gemm_low_scratch(g, isa) :
					   rlx_k_gemm_scratch(g, isa)) + 63) / 64 * 64);
	double work = 2.0 * (double)g->m * (double)g->n * (double)g->k;
	size_t reps = (size_t)(2e8 / work) + 1;
	double best = 0, top = 0, t;
	int run;

	CHECK(scratch);
	for (run = 0; run < 12; run++) {
		if (run % 4 == 0)
			top = ceiling(isa, unit);
		t = cpu_time();
		for (i = 0; i < reps; i++)
			fn(g, 0, units, scratch);
		t = cpu_time() - t;
		if (work * (double)reps / t * 1e-9 > best)
			best = work * (double)reps / t * 1e-9;
	}
	free(scratch);
	*share = best / top;
	return best;
}

struct kind {
	const char	*name;
	enum unit	unit;
	enum rlx_dtype	a_type;
};

static void bench_shape(const struct kind *q, const struct shape *s,
			enum rlx_isa isa)
{
	const struct rlx_kernels *t = rlx_kernels_get(isa);
	bool bf16 = q->unit == UNIT_BF16;
	struct rlx_k_gemm g = {
		.n = s->n, .k = s->k, .lda = s->k, .ldc = s->n, .act = s->act,
		.alpha = 1, .b_form = RLX_B_PACKED, .a_type = q->a_type,
		.b_type = bf16 ? RLX_BF16 : RLX_F32, .c_type = RLX_F32,
		.a = fill(512 * s->k), .c = fill(512 * s->n),
		.bias = fill(s->n),
		.b = fill(rlx_k_gemm_f32_pack_size(s->n, s->k + 63, isa) / 4),
	};
	struct rlx_k_gemm_pack p = {
		.k = s->k, .n = s->n, .b = fill(s->n * s->k), .ldb = s->n, .type = RLX_F32,
		.dst = (void *)g.b,
	};
	struct rlx_k_gemm_i8 q8 = {
		.out = RLX_I8_OUT_F32, .a_zero = 7, .b_signed = true,
	};
	struct rlx_k_gemm_i8_pack p8 = {
		.k = s->k, .n = s->n, .b = p.b, .ldb = s->n, .b_signed = true,
		.dst = p.dst,
	};
	rlx_k_fn *fn = bf16 ? t->gemm_bf16 : t->gemm_f32;
	size_t i;

	if (q->unit == UNIT_I8) {
		fn = t->gemm_i8;
		t->gemm_i8_pack(&p8, 0, rlx_k_gemm_panels(s->n, isa), NULL);
	} else {
		(bf16 ? t->gemm_bf16_pack : t->gemm_f32_pack)(
			&p, 0, rlx_k_gemm_panels(s->n, isa), NULL);
	}
	/* any bits will do as bf16, but not those of NaN */
	for (i = 0; q->a_type != RLX_F32 && i < 512 * s->k; i++)
		((uint16_t *)g.a)[i] = (uint16_t)(0x3f00 + i % 199);
	printf("# %-6s %-12s n%-5zu k%-5zu", q->name, s->model, s->n, s->k);
	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		double share, rate;

		g.m = rows[i];
		q8.g = g;
		rate = measure(&q8.g, isa, fn, q->unit != UNIT_F32,
			       unit_at(isa, q->unit), &share);
		printf("  m%zu %.0f (%.0f%%)", g.m, rate, 100 * share);
	}
	printf("\n");
	free((void *)g.a);
	free((void *)g.b);
	free((void *)p.b);
	free(g.c);
	free((void *)g.bias);
}

static void bench(const struct kind *q, enum rlx_isa isa)
{
	size_t i;

	printf("# %s %s, peak %.0f GFLOP/s\n", q->name, isa_name(isa),
	       ceiling(isa, unit_at(isa, q->unit)));
	for (i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		bench_shape(q, &shapes[i], isa);
}

/* The best level here, or those RLX_BENCH_ISA names. */
static bool chosen(enum rlx_isa isa)
{
	const char *want = getenv("RLX_BENCH_ISA");

	if (want)
		return isa_runs(isa) && strstr(want, isa_name(isa));
	return isa_runs(isa) &&
	       (isa + 1 == RLX_ISA_COUNT || !isa_runs(isa + 1));
}

static void each(const struct kind *q)
{
	enum rlx_isa isa;

	for (isa = RLX_ISA_BASE; isa < RLX_ISA_COUNT; isa++)
		if (chosen(isa))
			bench(q, isa);
}

TEST(f32)
{
	each(&(struct kind){ "f32", UNIT_F32, RLX_F32 });
}

TEST(bf16)
{
	each(&(struct kind){ "bf16", UNIT_BF16, RLX_BF16 });
	each(&(struct kind){ "bf16<f32", UNIT_BF16, RLX_F32 });
}

TEST(i8)
{
	each(&(struct kind){ "u8xs8", UNIT_I8, RLX_F32 });
}

TEST_MAIN()
