// SPDX-License-Identifier: MIT
/*
 * Positions of elements that are not zero, against a plain search; and of elements that change
 * between the count and the writing, as in memory that a client of a channel writes.
 */
#include "kernels/nonzero.h"
#include "selftests/kernels/kcheck.h"

static const uint8_t types[] = { RLX_F32, RLX_F64, RLX_F16, RLX_I64, RLX_U8, RLX_I32, RLX_BOOL };

struct nz_case {
	struct rlx_k_nonzero	a;
	struct kc_buf		x, y, found;
	size_t			size;
	int32_t			bad;
};

/* Some of its elements are 1, the others 0; a sign of a 0 counts for nothing. */
static void draw_elements(struct nz_case *c, int64_t percent, uint64_t *seed)
{
	unsigned char *p = c->x.p;

	memset(p, 0, c->x.size);
	for (int64_t i = 0; i < c->a.n; i++) {
		unsigned char *last = p + ((size_t)i + 1) * c->size - 1;

		if (kc_pick(seed, 1, 100) <= percent)
			p[(size_t)i * c->size] = 1;
		else if (rlx_k_type_float((enum rlx_dtype)c->a.type))
			*last = (unsigned char)kc_pick(seed, 0, 1) << 7;
	}
}

static bool is_one(const struct nz_case *c, int64_t i)
{
	return ((const unsigned char *)c->x.p)[(size_t)i * c->size];
}

static int64_t ones(const struct nz_case *c)
{
	int64_t n = 0;

	for (int64_t i = 0; i < c->a.n; i++)
		n += is_one(c, i);
	return n;
}

static void begin(struct nz_case *c, uint64_t *seed)
{
	*c = (struct nz_case){ .a.type = types[rlx_test_rand(seed) % sizeof(types)] };
	c->size = rlx_k_type_size((enum rlx_dtype)c->a.type);
	c->a.rank = (int)kc_pick(seed, 1, 3);
	c->a.n = 1;
	for (int d = 0; d < c->a.rank; d++)
		c->a.n *= c->a.dim[d] = kc_pick(seed, 1, d ? 9 : 2000);
	c->x = kc_buf_new((size_t)c->a.n * c->size, c->size);
	draw_elements(c, kc_pick(seed, 0, 100), seed);
	c->a.count = ones(c);
	c->y = kc_buf_new((size_t)(c->a.count * c->a.rank) * sizeof(int64_t), sizeof(int64_t));
	c->found = kc_buf_new(rlx_k_nonzero_units(&c->a) * sizeof(int64_t), sizeof(int64_t));
	c->a.x = c->x.p;
	c->a.found = c->found.p;
	c->a.bad = &c->bad;
}

static void end(struct nz_case *c)
{
	kc_buf_free(&c->x);
	kc_buf_free(&c->y);
	kc_buf_free(&c->found);
}

static void call(const struct rlx_kernels *k, struct nz_case *c, bool write, uint64_t *seed)
{
	c->a.y = write ? c->y.p : NULL;
	kc_run(k->nonzero, &c->a, rlx_k_nonzero_units(&c->a), RLX_K_NONZERO_SCRATCH, seed);
}

static void check_positions(const struct nz_case *c)
{
	const int64_t *y = c->y.p;

	for (int64_t i = 0, k = 0; i < c->a.n; i++) {
		if (!is_one(c, i))
			continue;
		for (int64_t d = c->a.rank, at = i; d-- > 0; at /= c->a.dim[d])
			CHECK_EQ(y[d * c->a.count + k], at % c->a.dim[d]);
		k++;
	}
}

TEST(positions)
{
	uint64_t seed = rlx_test_seed();
	struct nz_case c;

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 60; t++) {
			const struct rlx_kernels *k = rlx_kernels_get((enum rlx_isa)l);

			begin(&c, &seed);
			call(k, &c, false, &seed);
			call(k, &c, true, &seed);
			CHECK(!c.bad);
			check_positions(&c);
			end(&c);
		}
}

/* Nothing is written beside the result, and that it means nothing is told. */
TEST(elements_that_change_meanwhile)
{
	uint64_t seed = rlx_test_seed();
	unsigned int more = 0;
	struct nz_case c;

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 60; t++) {
			const struct rlx_kernels *k = rlx_kernels_get((enum rlx_isa)l);
			int64_t now;

			begin(&c, &seed);
			call(k, &c, false, &seed);
			draw_elements(&c, kc_pick(&seed, 0, 100), &seed);
			now = ones(&c);
			call(k, &c, true, &seed);
			CHECKF(c.bad || now == c.a.count, "%lld of %lld", (long long)now,
			       (long long)c.a.count);
			more += now > c.a.count;
			end(&c);
		}
	CHECK(more > 10);
}

TEST_MAIN()
