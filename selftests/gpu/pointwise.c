// SPDX-License-Identifier: MIT
/*
 * Pointwise steps that are large enough for vectors, against the evaluator: shapes whose rows
 * end inside a vector, operands that broadcast or begin off its alignment, dtypes of every
 * width in one step.
 *
 *	RLX_TEST_CASES=500 build/test/gpu/pointwise
 */
#include <math.h>
#include <stdlib.h>

#include "ir/graph.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { CASES = 10, FEWEST = 1 << 17, OPERANDS = 3, RANK = 4 };

struct draw {
	uint64_t	seed;
	struct rlx_type	shape;
	enum rlx_dtype	type[OPERANDS], out;
	unsigned int	ones[OPERANDS];		/* dimensions in which an operand has one element */
	bool		off[OPERANDS];		/* begins a row late */
	unsigned int	op[OPERANDS];
	bool		both;			/* what is on the way is an output too */
};

static unsigned int below(struct draw *d, unsigned int n)
{
	return (unsigned int)(rlx_test_rand(&d->seed) % n);
}

static struct draw draw_case(uint64_t *seed)
{
	static const enum rlx_dtype types[] = {
		RLX_F32, RLX_F16, RLX_BF16, RLX_F64, RLX_I32, RLX_I8, RLX_U8, RLX_I64,
		RLX_BOOL,	/* of results alone: ops have no maximum of it */
	};
	struct draw d = { .seed = rlx_test_rand(seed) };
	unsigned int k, rank = 1 + below(&d, RANK), kind = below(&d, 4);
	int64_t n = 1;

	d.shape.rank = rank;
	for (k = 0; k + 1 < rank; k++)
		n *= d.shape.dim[k] = 1 + below(&d, 12);
	d.shape.dim[rank - 1] = FEWEST / n + 1 + below(&d, 999);
	if (kind)		/* vectors end where rows do */
		d.shape.dim[rank - 1] &= ~(int64_t)(kind == 1 ? 1 : 7);
	if (rank > 1 && below(&d, 2)) {	/* short rows */
		n = d.shape.dim[rank - 1];
		d.shape.dim[rank - 1] = d.shape.dim[0] * (kind ? 8 : 1);
		d.shape.dim[0] = n;
	}
	for (k = 0; k < OPERANDS; k++) {
		d.type[k] = types[below(&d, sizeof(types) / sizeof(types[0]) - 1)];
		d.ones[k] = below(&d, 2) ? 0 : below(&d, 1u << rank);
		d.off[k] = d.shape.dim[0] > 1 && !(d.ones[k] & 1) && below(&d, 3) == 0;
		d.op[k] = below(&d, 4);
	}
	d.ones[below(&d, OPERANDS)] = 0;
	d.out = types[below(&d, sizeof(types) / sizeof(types[0]))];
	d.both = below(&d, 2);
	return d;
}

static rlx_value operand(struct rig *r, const struct draw *d, unsigned int k)
{
	struct rlx_type t = d->shape;
	unsigned int i;
	rlx_value x;

	t.dtype = d->type[k];
	for (i = 0; i < t.rank; i++)
		if (d->ones[k] & 1u << i)
			t.dim[i] = 1;
	t.dim[0] += d->off[k];
	x = rig_random(r, t, 1, 5);
	if (!d->off[k])
		return x;
	return rlx_emit(r->g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(1),
			.ends = RLX_INTS(t.dim[0]));
}

static rlx_value apply(struct rlx_graph *g, unsigned int op, rlx_value a, rlx_value b)
{
	switch (op) {
	case 0: return rlx_emit(g, add, .a = a, .b = b);
	case 1: return rlx_emit(g, max, .a = a, .b = b);
	case 2: return rlx_emit(g, mul, .a = a, .b = b);
	default: return rlx_emit(g, where, .cond = rlx_emit(g, lt, .a = a, .b = b),
				 .a = b, .b = a);
	}
}

static void build(struct rig *r, const struct draw *d)
{
	rlx_value v = operand(r, d, 0);
	unsigned int k;

	for (k = 1; k < OPERANDS; k++) {
		v = apply(r->g, d->op[k], v, operand(r, d, k));
		if (d->both && k == 1)
			rig_output(r, v);
	}
	rig_output(r, rlx_emit(r->g, cast, .x = v, .to = d->out));
}

/* Two roundings of what a result of @dt is made of. */
static double rounding(const struct draw *d, enum rlx_dtype dt)
{
	double most = dt == RLX_F16 ? 0x1p-9 : dt == RLX_BF16 ? 0x1p-6 : 1e-6;
	unsigned int k;

	for (k = 0; k < OPERANDS; k++)
		most = fmax(most, d->type[k] == RLX_F16 ? 0x1p-9 : d->type[k] == RLX_BF16 ?
			    0x1p-6 : 0);
	return most;
}

static void compare(const struct rig *want, const struct rig *got, const struct draw *d,
		    unsigned int i)
{
	unsigned int k;
	int64_t j, n;

	CHECK_EQ(want->n_out, got->n_out);
	for (k = 0; k < want->n_out; k++) {
		const struct rlx_type *t = &want->out[k].type;
		double tol = rounding(d, t->dtype);

		n = rlx_type_count(t);
		for (j = 0; j < n; j++) {
			double x = rig_get(got, k, j), y = rig_get(want, k, j);
			/* what is truncated may be rounded to either side before */
			double off = rlx_dtype_is_float(t->dtype) ? tol * (1 + fabs(y)) :
				     tol > 1e-6 ? 1 + tol * fabs(y) : 0;

			CHECKF(x == y || fabs(x - y) <= off,
			       "case %u: output %u (%s), element %lld of %lld is %g, not %g", i, k,
			       rlx_dtype_name(t->dtype), (long long)j, (long long)n, x, y);
		}
	}
}

TEST(drawn_at_random)
{
	const char *cases = getenv("RLX_TEST_CASES");
	unsigned int n = cases ? (unsigned int)atoi(cases) : CASES, i;
	uint64_t seed = rlx_test_seed();

	for (i = 0; i < n; i++) {
		struct draw d = draw_case(&seed);
		struct rig want, got;

		rig_init(&want, NULL);
		rig_init(&got, getenv("RLX_TEST_GPU"));
		want.seed = got.seed = d.seed;
		build(&want, &d);
		build(&got, &d);
		rig_run(&want);
		rig_run(&got);
		compare(&want, &got, &d, i);
		rig_fini(&want);
		rig_fini(&got);
	}
}

TEST_MAIN()
