// SPDX-License-Identifier: MIT
/*
 * What levels make of one GEMM: f32 by vectors, bf16 and bytes by dot products and by
 * AMX tiles, in GFLOP/s a core, measured in turns, the best of each, at one thread and at
 * two of the library's pool. Shapes are those of models and random ones; weights are
 * packed. B is the same in every run, or another one each time.
 *
 *	build/test/bench/gemm_levels [TURNS [cold]]
 */
#include "base/clock.h"
#include "base/pool.h"
#include "kernels/gemm.h"
#include "selftests/kernels/isa.h"

enum kind { F32, BF16, I8 };

static const struct column {
	const char	*name;
	enum kind	kind;
	enum rlx_isa	isa;
} columns[] = {
	{ "f32 v4", F32, RLX_ISA_V4 },
	{ "bf16 v4x", BF16, RLX_ISA_V4X },
	{ "bf16 amx", BF16, RLX_ISA_V4_AMX },
	{ "i8 v4_vnni", I8, RLX_ISA_V4_VNNI },
	{ "i8 amx", I8, RLX_ISA_V4_AMX },
};

enum { COLUMNS = sizeof(columns) / sizeof(*columns), MOST = 4096, COLD = 64 << 20,
       MAX_THREADS = 2 };

static const struct shape {
	const char	*name;
	size_t		n, k;
} models[] = {
	{ "MiniLM qkv", 1152, 384 }, { "MiniLM up", 1536, 384 },
	{ "MiniLM down", 384, 1536 }, { "BERT out", 768, 768 }, { "BERT up", 3072, 768 },
	{ "BERT down", 768, 3072 }, { "ResNet 1x1", 256, 64 }, { "ResNet fc", 1000, 2048 },
};

static const size_t rows[] = { 1, 4, 8, 16, 32, 64, 128, 512, MOST };

/* One product on one level. */
struct job {
	struct rlx_k_gemm_i8	q;
	rlx_k_fn		*fn;
	char			*b, *scratch;
	size_t			bytes, copies, next;	/* of B */
	size_t			units, scratch_bytes;
	double			best;			/* seconds */
};

static void *memory(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);

	CHECK(p);
	return p;
}

/* Bits that are small numbers as f32, as bf16 and as bytes. */
static void *numbers(size_t bytes, uint64_t *seed)
{
	uint16_t *p = memory(bytes);
	size_t i;

	for (i = 0; i < bytes / 2 + 1; i++)
		p[i] = (uint16_t)(0x3f00 | (rlx_test_rand(seed) & 0x807f));
	return p;
}

static void pack(struct job *j, const struct column *c, uint64_t *seed)
{
	const struct rlx_kernels *t = rlx_kernels_get(c->isa);
	const struct rlx_k_gemm *g = &j->q.g;
	size_t panels = rlx_k_gemm_panels(g->n, c->isa), i;
	void *raw = numbers(g->n * g->k * 4, seed);

	for (i = 0; i < j->copies; i++) {
		struct rlx_k_gemm_pack p = {
			.k = g->k, .n = g->n, .b = raw, .ldb = g->n,
			.type = c->kind == BF16 ? RLX_BF16 : RLX_F32,
			.dst = j->b + i * j->bytes,
		};
		struct rlx_k_gemm_i8_pack p8 = {
			.k = g->k, .n = g->n, .b = raw, .ldb = g->n, .b_signed = true,
			.dst = p.dst,
		};

		if (c->kind == I8)
			t->gemm_i8_pack(&p8, 0, panels, NULL);
		else
			(c->kind == BF16 ? t->gemm_bf16_pack : t->gemm_f32_pack)(&p, 0, panels,
										 NULL);
	}
	free(raw);
}

static void job_new(struct job *j, const struct column *c, const struct shape *s, size_t m,
		    bool cold, uint64_t *seed)
{
	const struct rlx_kernels *t = rlx_kernels_get(c->isa);
	struct rlx_k_gemm *g = &j->q.g;
	const size_t es = c->kind == F32 ? 4 : c->kind == BF16 ? 2 : 1;
	const enum rlx_dtype type = c->kind == BF16 ? RLX_BF16 : RLX_F32;

	*j = (struct job){ .best = INFINITY };
	j->q.out = RLX_I8_OUT_F32;
	j->q.b_signed = true;
	*g = (struct rlx_k_gemm){
		.m = m, .n = s->n, .k = s->k, .lda = s->k, .ldc = s->n, .alpha = 1,
		.b_form = RLX_B_PACKED, .a_type = type, .b_type = type, .c_type = type,
		.a = numbers(m * s->k * es, seed), .c = memory(m * s->n * 4),
	};
	j->bytes = c->kind == F32 ? rlx_k_gemm_f32_pack_size(s->n, s->k, c->isa) :
		   c->kind == BF16 ? rlx_k_gemm_bf16_pack_size(s->n, s->k, c->isa) :
		   rlx_k_gemm_i8_pack_size(s->n, s->k, c->isa);
	j->copies = cold ? COLD / j->bytes + 1 : 1;
	j->b = memory(j->bytes * j->copies);
	pack(j, c, seed);
	j->fn = c->kind == F32 ? t->gemm_f32 : c->kind == BF16 ? t->gemm_bf16 : t->gemm_i8;
	j->units = c->kind == F32 ? rlx_k_gemm_units(g, c->isa) : rlx_k_gemm_low_units(g, c->isa);
	j->scratch_bytes = ((c->kind == F32 ? rlx_k_gemm_scratch(g, c->isa) :
			     rlx_k_gemm_low_scratch(g, c->isa)) + 63) / 64 * 64;
	j->scratch = memory(j->scratch_bytes * MAX_THREADS);
}

static void job_fini(struct job *j)
{
	free((void *)(uintptr_t)j->q.g.a);
	free(j->q.g.c);
	free(j->b);
	free(j->scratch);
}

static void run_units(void *ctx, uint64_t begin, uint64_t end, unsigned int worker)
{
	const struct job *j = ctx;

	j->fn(&j->q, begin, end, j->scratch + worker * j->scratch_bytes);
}

/* Seconds of one run, the mean of some milliseconds of them. */
static double timed(struct job *j, struct rlx_pool *pool)
{
	double work = 2.0 * (double)j->q.g.m * (double)j->q.g.n * (double)j->q.g.k;
	size_t reps = (size_t)(4e8 / work) + 1, i;
	uint64_t begin;

	if (reps > 2000)
		reps = 2000;
	rlx_pool_begin(pool);
	begin = rlx_now();
	for (i = 0; i < reps; i++) {
		j->q.g.b = j->b + j->next++ % j->copies * j->bytes;
		rlx_pool_run(pool, run_units, j, j->units, 0);
	}
	begin = rlx_now() - begin;
	rlx_pool_end(pool);
	return (double)begin * 1e-9 / (double)reps;
}

static void bench(const struct shape *s, size_t m, int turns, bool cold, uint64_t *seed)
{
	double work = 2.0 * (double)m * (double)s->n * (double)s->k;
	struct rlx_error err = { 0 };
	struct job job[COLUMNS];
	unsigned int threads;
	size_t i;
	int turn;

	for (i = 0; i < COLUMNS; i++)
		if (isa_runs(columns[i].isa))
			job_new(&job[i], &columns[i], s, m, cold, seed);
	for (threads = 1; threads <= MAX_THREADS; threads++) {
		struct rlx_pool *pool;

		CHECKF(!rlx_pool_new(threads, &pool, &err), "%s", err.text);
		printf("%-12s %5zu %5zu %5zu  %u", s->name, m, s->n, s->k, threads);
		for (turn = 0; turn < turns; turn++)
			for (i = 0; i < COLUMNS; i++)
				if (isa_runs(columns[i].isa))
					job[i].best = fmin(turn ? job[i].best : INFINITY,
							   timed(&job[i], pool));
		for (i = 0; i < COLUMNS; i++)
			if (isa_runs(columns[i].isa))
				printf(" %9.1f", work / job[i].best * 1e-9 / threads);
			else
				printf(" %9s", "-");
		printf("\n");
		rlx_pool_free(pool);
	}
	for (i = 0; i < COLUMNS; i++)
		if (isa_runs(columns[i].isa))
			job_fini(&job[i]);
}

int main(int argc, char **argv)
{
	int turns = argc > 1 ? atoi(argv[1]) : 4;
	bool cold = argc > 2 && !strcmp(argv[2], "cold");
	uint64_t seed = rlx_test_seed();
	struct shape random = { .name = "random" };
	size_t i, j, m;

	setlinebuf(stdout);
	if (turns < 1) {
		fprintf(stderr, "usage: gemm_levels [TURNS [cold]]\n");
		return 1;
	}
	printf("GFLOP/s a core%s\n%-12s %5s %5s %5s  %s", cold ? ", B from memory" : "", "shape",
	       "m", "n", "k", "t");
	for (i = 0; i < COLUMNS; i++)
		printf(" %9s", columns[i].name);
	printf("\n");
	for (i = 0; i < sizeof(models) / sizeof(*models); i++)
		for (j = 0; j < sizeof(rows) / sizeof(*rows); j++)
			bench(&models[i], rows[j], turns, cold, &seed);
	for (i = 0; i < 16; i++) {
		random.n = 1 + rlx_test_rand(&seed) % (1u << (4 + i % 9));
		random.k = 1 + rlx_test_rand(&seed) % (1u << (4 + (i * 5) % 9));
		m = 1 + rlx_test_rand(&seed) % (1u << (3 + i % 8));
		bench(&random, m, turns, cold, &seed);
	}
	return 0;
}
