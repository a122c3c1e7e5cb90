// SPDX-License-Identifier: MIT
/* GEMV: matrices by vectors, products of one column, with all that may follow it, on CPUs. */
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

/* A problem: batches x [m, k] by [k, 1]. */
struct drawn {
	enum rlx_dtype	dt;
	int64_t		batch, m, k;
	bool		trans, shared, bias, residual, relu;
};

static struct drawn draw(uint64_t *seed)
{
	static const enum rlx_dtype dt[] = { RLX_F32, RLX_F32, RLX_F16, RLX_F64 };
	const uint64_t bits = rlx_test_rand(seed);

	return (struct drawn){
		.dt = dt[bits % 4], .batch = bits >> 2 & 1 ? 1 + (int64_t)(bits >> 20) % 5 : 1,
		.m = (int64_t)exp2(rlx_test_uniform(seed, 0, 9)),
		.k = (int64_t)exp2(rlx_test_uniform(seed, 0, 11)),
		.trans = bits >> 3 & 1, .shared = bits >> 4 & 1, .bias = bits >> 5 & 1,
		.residual = bits >> 6 & 1, .relu = bits >> 7 & 1,
	};
}

/* Inputs: 0 the matrices, 1 the vectors, then a bias, then a residual. */
static rlx_value emit(struct rig *r, const struct drawn *d)
{
	const int64_t vectors = d->shared ? 1 : d->batch;
	rlx_value x = rig_random(r, rlx_type(d->dt, d->batch, d->m, d->k), -1, 1), y, v;

	if (d->trans) {
		v = rig_random(r, rlx_type(d->dt, vectors, 1, d->k), -1, 1);
		v = rlx_emit(r->g, transpose, .x = v, .perm = RLX_INTS(0, 2, 1));
	} else {
		v = rig_random(r, rlx_type(d->dt, vectors, d->k, 1), -1, 1);
	}
	y = rlx_emit(r->g, matmul, .a = x, .b = v);
	if (d->bias)
		y = rlx_emit(r->g, add, .a = y, .b = rig_random(r, rlx_type(d->dt, 1), -1, 1));
	if (d->residual)
		y = rlx_emit(r->g, add, .a = y, .b = rig_random(r, rlx_type(d->dt, d->batch, d->m,
									    1), -1, 1));
	return d->relu ? rlx_emit(r->g, relu, .x = y) : y;
}

static void check(const struct rig *r, const struct drawn *d)
{
	const double eps = d->dt == RLX_F64 ? 2e-15 : d->dt == RLX_F32 ? 1e-6 : 2e-3;

	for (int64_t i = 0; i < d->batch * d->m; i++) {
		const int64_t vector = d->shared ? 0 : i / d->m * d->k;
		double sum = 0, size = 1;

		for (int64_t j = 0; j < d->k; j++) {
			const double term = rig_in(r, 0, i * d->k + j) * rig_in(r, 1, vector + j);

			sum += term;
			size += fabs(term);
		}
		sum += d->bias ? rig_in(r, 2, 0) : 0;
		sum += d->residual ? rig_in(r, 2 + d->bias, i) : 0;
		/* what is stored between ops that are not fused is rounded to the type */
		rig_want(r, 0, i, d->relu && sum < 0 ? 0 : sum, eps * (size / 16 + 3));
	}
}

TEST(drawn_products)
{
	uint64_t seed = rlx_test_seed();

	for (unsigned int c = 0; c < 200; c++) {
		const struct drawn d = draw(&seed);
		struct rig r;

		rig_init(&r, "cpu");
		rig_output(&r, emit(&r, &d));
		rig_run(&r);
		check(&r, &d);
		rig_fini(&r);
	}
}

/* A row's result has the same bits alone as among others. */
TEST(a_row_alone)
{
	uint64_t seed = rlx_test_seed();

	for (unsigned int c = 0; c < 40; c++) {
		const enum rlx_dtype dt = c % 2 ? RLX_F16 : RLX_F32;
		const int64_t m = 2 + (int64_t)(rlx_test_rand(&seed) % 70);
		const int64_t k = (int64_t)exp2(rlx_test_uniform(&seed, 0, 11));
		const int64_t row = (int64_t)(rlx_test_rand(&seed) % (uint64_t)m);
		rlx_value x, v, one;
		struct rig r;

		rig_init(&r, "cpu");
		x = rig_random(&r, rlx_type(dt, m, k), -1, 1);
		v = rig_random(&r, rlx_type(dt, k, 1), -1, 1);
		one = rlx_emit(r.g, slice, .x = x, .starts = RLX_INTS(row),
			       .ends = RLX_INTS(row + 1), .axes = RLX_INTS(0));
		rig_output(&r, rlx_emit(r.g, matmul, .a = x, .b = v));
		rig_output(&r, rlx_emit(r.g, matmul, .a = one, .b = v));
		rig_run(&r);
		CHECKF(!memcmp((char *)r.out[0].data + row * (int64_t)rlx_dtype_size(dt),
			       r.out[1].data, rlx_dtype_size(dt)),
		       "row %lld of %lldx%lld: %.9g among others, %.9g alone", (long long)row,
		       (long long)m, (long long)k, rig_get(&r, 0, row), rig_get(&r, 1, 0));
		rig_fini(&r);
	}
}

TEST_MAIN()
