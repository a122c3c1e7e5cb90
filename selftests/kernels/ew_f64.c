// SPDX-License-Identifier: MIT
/* The vector functions of doubles against long double, at every level. */
#include <float.h>

#include "kernels/ew.h"
#include "selftests/kernels/kcheck.h"

enum { COUNT = 4096 };

static long double sigmoid(long double x)
{
	return 1 / (1 + expl(-x));
}

static long double want(int op, long double x)
{
	switch (op) {
	case RLX_EW_exp: return expl(x);
	case RLX_EW_expm1: return expm1l(x);
	case RLX_EW_log: return logl(x);
	case RLX_EW_log1p: return log1pl(x);
	case RLX_EW_tanh: return tanhl(x);
	case RLX_EW_sigmoid: return sigmoid(x);
	case RLX_EW_erf: return erfl(x);
	case RLX_EW_sin: return sinl(x);
	case RLX_EW_cos: return cosl(x);
	case RLX_EW_softplus: return fmaxl(x, 0) + log1pl(expl(-fabsl(x)));
	}
	return NAN;
}

/* Each op with what it is to be within, and where it is looked at closely. */
static const struct {
	int	op;
	double	ulp, lo, hi;
} fns[] = {
	{ RLX_EW_exp, 1, -745, 709 }, { RLX_EW_exp, 1, -1, 1 }, { RLX_EW_expm1, 2, -40, 700 },
	{ RLX_EW_expm1, 2, -1, 1 }, { RLX_EW_log, 1, 0, 4 }, { RLX_EW_log, 1, 0, 1e300 },
	{ RLX_EW_log1p, 2, -1, 2 }, { RLX_EW_log1p, 2, -1e-3, 1e-3 },
	{ RLX_EW_tanh, 3, -2, 2 }, { RLX_EW_tanh, 3, -25, 25 }, { RLX_EW_sigmoid, 3, -40, 40 },
	{ RLX_EW_sigmoid, 3, -745, 2 }, { RLX_EW_erf, 2, -1, 1 }, { RLX_EW_erf, 2, -6, 6 },
	{ RLX_EW_sin, 1, -7, 7 }, { RLX_EW_sin, 1, -1e6, 1e6 }, { RLX_EW_cos, 1, -7, 7 },
	{ RLX_EW_cos, 1, -1e7, 1e7 }, { RLX_EW_softplus, 2, -30, 30 },
	{ RLX_EW_softplus, 2, -745, 2 },
};

static const double special[] = {
	0.0, -0.0, 1, -1, NAN, INFINITY, -INFINITY, 0x1p-1074, -0x1p-1074, 0x1p-1022, -0x1p-1030,
	0x1p-55, -0x1p-55, 0x1p-30, 709.9, -745.2, -800, 800, DBL_MAX, -DBL_MAX, 0.75, 28, -28,
	0x1.6a09e667f3bccp-1, 0x1.6a09e667f3bcdp-1, 1e22, -1e22, 1048576, 0x1.921fb54442d18p+0,
};

enum { SPECIAL = sizeof(special) / sizeof(special[0]) };

static void run(const struct rlx_kernels *k, int op, const double *x, double *y, uint64_t *seed)
{
	struct rlx_k_ew a = { .cls = RLX_EW_F64, .n_in = 1, .n_step = 1, .n_out = 1,
			      .rank = 1, .dim = { COUNT } };

	a.in[0] = (struct rlx_k_ew_in){ .p = x, .stride = { 1 }, .type = RLX_F64 };
	a.step[0] = (struct rlx_k_ew_step){ .op = (uint8_t)op };
	a.out[0] = (struct rlx_k_ew_out){ y, RLX_F64, RLX_EW_STEP(0) };
	rlx_k_ew_plan(RLX_ISA_V4, &a);
	kc_run(k->ew, &a, rlx_k_ew_units(&a), rlx_k_ew_scratch(&a), seed);
}

/* How far y is from what it is to be, in units of the last place of a double there. */
static double ulps(double y, long double w)
{
	int e;

	if (isnan(w) || isinf((double)w) || !isfinite(y))
		return isnan(w) ? (isnan(y) ? 0 : INFINITY) : y == (double)w ? 0 : INFINITY;
	if (w == 0)
		return y == 0 ? 0 : INFINITY;
	frexpl(w, &e);
	return (double)(fabsl(y - w) / ldexpl(1, e - 53 < -1074 ? -1074 : e - 53));
}

static void one(enum rlx_isa isa, unsigned int f, uint64_t *seed)
{
	const double bound = fns[f].ulp;
	static double x[COUNT], y[COUNT];
	double worst = 0, at = 0;

	for (int i = 0; i < COUNT; i++)
		x[i] = i < SPECIAL ? special[i] : rlx_test_uniform(seed, fns[f].lo, fns[f].hi);
	run(rlx_kernels_get(isa), fns[f].op, x, y, seed);
	for (int i = 0; i < COUNT; i++) {
		double u = ulps(y[i], want(fns[f].op, x[i]));

		CHECKF(!(u > bound), "level %d, op %d (%.17g) is %.17g, not %.17Lg (%g ulp)", isa,
		       fns[f].op, x[i], y[i], want(fns[f].op, x[i]), u);
		if (u > worst) {
			worst = u;
			at = x[i];
		}
		if (x[i] == 0 && (fns[f].op == RLX_EW_sin || fns[f].op == RLX_EW_tanh ||
				  fns[f].op == RLX_EW_erf || fns[f].op == RLX_EW_expm1))
			CHECK(signbit(x[i]) == signbit(y[i]));
	}
	printf("# level %d, op %d: %.3f ulp at %.17g\n", isa, fns[f].op, worst, at);
}

TEST(functions_of_doubles_are_within_their_bounds)
{
	uint64_t seed = rlx_test_seed();

	if (LDBL_MANT_DIG < 64) {
		printf("# long double is no wider\n");
		return;
	}
	for (int l = 0; l < kc_levels(); l++)
		for (unsigned int f = 0; f < sizeof(fns) / sizeof(fns[0]); f++)
			for (int t = 0; t < 4; t++)
				one((enum rlx_isa)l, f, &seed);
}

TEST_MAIN()
