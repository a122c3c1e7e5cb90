// SPDX-License-Identifier: MIT
/* Attention of a new row over a cache, on a GPU against sums in double. */
#include "selftests/gpu/against_cpu.h"

#include <math.h>

/* One launch, with host copies of what it reads and writes. */
struct one {
	struct rlx_k_kv_cache	a;
	void			*cache, *x, *cos, *sin, *out;
	int64_t			*pos;
	size_t			row, half;	/* elements of a row of the cache, of its keys */
};

static double at(const struct one *t, const void *p, int64_t i)
{
	return gpu_value(p, (size_t)i, t->a.type);
}

/* Element @d of the head at element @x of the new row, turned for row @pos. */
static double turned(const struct one *t, int64_t x, int64_t d, int64_t pos)
{
	int64_t n = t->a.dim, i = t->a.pairs ? d / 2 : d % (n / 2);
	bool second = t->a.pairs ? d & 1 : d >= n / 2;
	int64_t other = t->a.pairs ? d ^ 1 : second ? d - n / 2 : d + n / 2;
	double u = at(t, t->x, x + d), v = at(t, t->x, x + other), c, s;

	if (!t->cos)
		return u;
	c = gpu_value(t->cos, (size_t)(pos * (n / 2) + i), t->a.table_type);
	s = gpu_value(t->sin, (size_t)(pos * (n / 2) + i), t->a.table_type);
	return second ? u * c + v * s : u * c - v * s;
}

/* The new key and value, of which the cache has no more than its type can say. */
static void put_row(const struct one *t, int64_t b, int64_t h, const uint16_t *got)
{
	int64_t n = t->a.dim, pos = t->pos[b];
	int64_t x = b * (t->a.heads + 2 * t->a.kv_heads) * n + (t->a.heads + h) * n, d;
	size_t to = (size_t)((b * t->a.rows + pos) * t->a.kv_heads + h) * (size_t)n;
	double tol = t->a.type == RLX_F16 ? 1e-3 : 8e-3;

	for (d = 0; d < n; d++) {
		double k = turned(t, x, d, pos), y = at(t, got, (int64_t)to + d);

		CHECKF(fabs(y - k) <= tol * (fabs(k) + 1e-2), "key %lld is %g, not %g",
		       (long long)d, y, k);
	}
	memcpy((uint16_t *)t->cache + to, got + to, (size_t)n * 2);
	memcpy((uint16_t *)t->cache + t->half + to,
	       (const uint16_t *)t->x + x + t->a.kv_heads * n, (size_t)n * 2);
}

/* Of head @g, with the new row in the cache. */
static void check_head(const struct one *t, int64_t b, int64_t g)
{
	int64_t n = t->a.dim, pos = t->pos[b], h = g / (t->a.heads / t->a.kv_heads), r, d;
	int64_t x = b * (t->a.heads + 2 * t->a.kv_heads) * n + g * n;
	double *q = calloc((size_t)(2 * n), sizeof(*q)), *sum = q + n, all = 0, score, got;
	double tol = t->a.type == RLX_F16 ? 2e-3 : 1e-2;
	bool ok = pos >= 0 && pos < t->a.rows && (!t->cos || pos < t->a.positions);

	CHECK(q);
	for (d = 0; ok && d < n; d++)
		q[d] = turned(t, x, d, pos) * (double)t->a.scale;
	for (r = 0; ok && r <= pos; r++) {
		int64_t from = ((b * t->a.rows + r) * t->a.kv_heads + h) * n;

		for (score = 0, d = 0; d < n; d++)
			score += q[d] * at(t, t->cache, from + d);
		score = exp(score);
		all += score;
		for (d = 0; d < n; d++)
			sum[d] += score * at(t, t->cache, (int64_t)t->half + from + d);
	}
	for (d = 0; d < n; d++) {
		double want = ok ? sum[d] / all : 0;

		got = at(t, t->out, (b * t->a.heads + g) * n + d);
		CHECKF(fabs(got - want) <= tol, "width %lld of %lld rows, head %lld: element "
		       "%lld is %g, not %g", (long long)n, (long long)pos, (long long)g,
		       (long long)d, got, want);
	}
	free(q);
}

static void run(struct one *t)
{
	size_t batch = (size_t)t->a.batch, wide = (size_t)(t->a.heads * t->a.dim);
	size_t table = (size_t)(t->a.positions * t->a.dim / 2) * rlx_k_type_size(t->a.table_type);
	uint32_t zeros[RLX_G_ZEROS] = { 0 };
	struct rlx_k_kv_cache a = t->a;
	struct rlx_g_env env = { .zeros = dev_of(zeros, sizeof(zeros)) };
	uint16_t *got = malloc(2 * t->half * 2);
	int32_t bad = 0;
	bool wrong = false;

	CHECK(got);
	a.live = a.batch;
	a.cache = dev_of(t->cache, 2 * t->half * 2);
	a.x = dev_of(t->x, (wide + 2 * t->row) * batch * 2);
	a.pos = dev_of(t->pos, batch * sizeof(*t->pos));
	a.cos = t->cos ? dev_of(t->cos, table) : NULL;
	a.sin = t->cos ? dev_of(t->sin, table) : NULL;
	a.out = dev_of(t->out, wide * batch * 2);
	a.bad = dev_of(&bad, sizeof(bad));
	gpu_run_kernel(rlx_g_kv_cache_launch, &a, &env);
	dev_read(got, a.cache, 2 * t->half * 2);
	dev_read(t->out, a.out, wide * batch * 2);
	dev_read(&bad, a.bad, sizeof(bad));
	dev_read(zeros, env.zeros, sizeof(zeros));
	for (int i = 0; i < RLX_G_ZEROS; i++)
		CHECK_EQ(zeros[i], 0);
	for (int64_t b = 0; b < t->a.batch; b++) {
		bool ok = t->pos[b] >= 0 && t->pos[b] < t->a.rows &&
			  (!t->cos || t->pos[b] < t->a.positions);

		wrong = wrong || !ok;
		for (int64_t h = 0; ok && h < t->a.kv_heads; h++)
			put_row(t, b, h, got);
	}
	CHECK_EQ(bad, wrong);
	CHECKF(!memcmp(got, t->cache, 2 * t->half * 2), "other rows of the cache change");
	for (int64_t b = 0; b < t->a.batch; b++)
		for (int64_t g = 0; g < t->a.heads; g++)
			check_head(t, b, g);
	free(got);
}

/* @pos: of the last batch row; those before have any */
struct shape {
	int64_t	dim, group, kv_heads, batch, rows, pos;
};

static void one(struct shape z, uint64_t *seed)
{
	static const int types[] = { RLX_BF16, RLX_F16, RLX_F32 };
	int type = types[kc_pick(seed, 0, 1)], table = types[kc_pick(seed, 0, 2)];
	struct one t = { .a = { .batch = z.batch, .heads = z.group * z.kv_heads,
		.kv_heads = z.kv_heads, .dim = z.dim, .rows = z.rows,
		.positions = z.rows + kc_pick(seed, -1, 1),
		.scale = 1 / sqrtf((float)z.dim), .type = (uint8_t)type,
		.table_type = (uint8_t)table, .pos_type = RLX_I64,
		.pairs = kc_pick(seed, 0, 1), .settled = kc_pick(seed, 0, 1) } };
	size_t n;

	t.row = (size_t)(z.kv_heads * z.dim);
	t.half = (size_t)(z.batch * z.rows) * t.row;
	t.cache = gpu_alloc(2 * t.half, type, -1, 1, seed);
	n = (size_t)z.batch * (t.row * (size_t)z.group + 2 * t.row);
	t.x = gpu_alloc(n, type, -2, 2, seed);
	t.out = gpu_alloc((size_t)(z.batch * t.a.heads * z.dim), type, 0, 0, seed);
	t.pos = gpu_alloc((size_t)z.batch, RLX_I64, 0, (double)z.rows, seed);
	t.pos[z.batch - 1] = z.pos;
	n = (size_t)(t.a.positions * z.dim / 2);
	t.cos = n && kc_pick(seed, 0, 2) ? gpu_alloc(n, table, -1, 1, seed) : NULL;
	t.sin = t.cos ? gpu_alloc(n, table, -1, 1, seed) : NULL;
	run(&t);
	free(t.cache);
	free(t.x);
	free(t.out);
	free(t.pos);
	free(t.cos);
	free(t.sin);
}

TEST(shapes)
{
	static const struct shape shapes[] = {
		{ .dim = 64, .group = 4, .kv_heads = 8 }, { .dim = 128, .group = 4, .kv_heads = 8 },
		{ .dim = 128, .group = 8, .kv_heads = 1 }, { .dim = 96, .group = 3, .kv_heads = 2 },
		{ .dim = 16, .group = 1, .kv_heads = 3 }, { .dim = 256, .group = 4, .kv_heads = 1 },
		{ .dim = 80, .group = 7, .kv_heads = 1 }, { .dim = 24, .group = 5, .kv_heads = 2 },
	};
	uint64_t seed = rlx_test_seed();

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		for (int k = 0; k < 2; k++) {
			struct shape z = shapes[i];

			z.batch = kc_pick(&seed, 1, 2);
			z.rows = kc_pick(&seed, 1, k ? 300 : 70);
			z.pos = kc_pick(&seed, 0, z.rows - 1);
			one(z, &seed);
		}
}

/* More rows than a block brings early, in one part and in many; places that are none. */
TEST(rows)
{
	static const struct shape shapes[] = {
		{ 128, 4, 1, 1, 1024, 1023 }, { 64, 4, 2, 1, 1024, 1000 },
		{ 128, 2, 64, 2, 100, 99 }, { 64, 4, 8, 1, 512, 0 },
		{ 64, 4, 8, 2, 300, 300 }, { 64, 4, 8, 2, 300, -1 },
	};
	uint64_t seed = rlx_test_seed();

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		one(shapes[i], &seed);
}

TEST_MAIN()
