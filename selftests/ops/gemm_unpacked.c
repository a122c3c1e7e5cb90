// SPDX-License-Identifier: MIT
/*
 * GEMM of two activations on CPUs: B is another one in each run, so it is packed in each, by every
 * block of rows or once for all of them. Against sums in double.
 */
#include <math.h>
#include <string.h>

#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

/* A[m, k] or, @ta, [k, m], times B[k, n] or, @tb, [n, k] */
struct drawn {
	enum rlx_dtype	dt;
	int64_t		m, k, n;
	bool		ta, tb, bias, relu;
	int		threads;
};

static struct drawn draw(uint64_t *seed)
{
	static const enum rlx_dtype dt[] = { RLX_F32, RLX_F16, RLX_BF16, RLX_F64 };
	const uint64_t bits = rlx_test_rand(seed);

	return (struct drawn){
		.dt = dt[bits % 4], .ta = bits >> 2 & 1, .tb = bits >> 3 & 1,
		.bias = bits >> 4 & 1, .relu = bits >> 5 & 1, .threads = 1 + (bits >> 6 & 1),
		/* from fewer rows than a block has to more than threads pack once for */
		.m = (int64_t)exp2(rlx_test_uniform(seed, 4, 11)),
		.k = (int64_t)exp2(rlx_test_uniform(seed, 0, 9)),
		.n = (int64_t)exp2(rlx_test_uniform(seed, 0, 7)),
	};
}

static rlx_value side(struct rlx_graph *g, const char *name, struct rlx_type t, bool turned)
{
	rlx_value v = rlx_input(g, name, t);

	return turned ? rlx_emit(g, transpose, .x = v, .perm = RLX_INTS(1, 0)) : v;
}

static double *fresh(struct rlx_session *s, const char *name, struct rlx_type t, uint64_t *seed)
{
	const uint64_t n = rlx_type_count(&t);
	double *x = malloc(n * sizeof(*x));

	CHECK(x);
	for (uint64_t i = 0; i < n; i++)
		x[i] = rlx_test_uniform(seed, -1, 1);
	t.dtype = RLX_F64;
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, name, t, x));
	/* as the dtype has it */
	CHECK(!rlx_session_get(s, RLX_IO_INPUT, name, t, x));
	return x;
}

static void compare(const struct drawn *d, const double *a, const double *b, const double *bias,
		    const double *y)
{
	/* unit roundoffs of sums and of what is stored: Higham, Accuracy and Stability, 3.1 */
	const double u = d->dt == RLX_F64 ? 0x1p-53 : 0x1p-24;
	const double stored = d->dt == RLX_F16 ? 0x1p-11 : d->dt == RLX_BF16 ? 0x1p-8 : u;
	const double eps = u * (double)(d->k + 2) + 3 * stored;
	const double least = d->dt == RLX_F16 ? 0x1p-24 : 0;	/* of its subnormal numbers */

	for (int64_t i = 0; i < d->m * d->n; i++) {
		const int64_t r = i / d->n, c = i % d->n;
		double sum = d->bias ? bias[c] : 0, size = fabs(sum), want;

		for (int64_t l = 0; l < d->k; l++) {
			const double term = a[d->ta ? l * d->m + r : r * d->k + l] *
					    b[d->tb ? c * d->k + l : l * d->n + c];

			sum += term;
			size += fabs(term);
		}
		want = d->relu && sum < 0 ? 0 : sum;
		/* what is stored between ops that are not fused is rounded to the type */
		CHECKF(fabs(y[i] - want) <= eps * size + least,
		       "%s %lldx%lldx%lld%s%s, %d threads: [%lld, %lld] is %g, not %g",
		       rlx_dtype_name(d->dt), (long long)d->m, (long long)d->k, (long long)d->n,
		       d->ta ? " A'" : "", d->tb ? " B'" : "", d->threads, (long long)r,
		       (long long)c, y[i], want);
	}
}

/* Two runs of one session, whose Bs differ */
static void run_twice(const struct drawn *d, uint64_t *seed)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = d->threads,
				      .flags = RLX_COMPILE_NATIVE };
	const struct rlx_type ta = d->ta ? rlx_type(d->dt, d->k, d->m) :
					   rlx_type(d->dt, d->m, d->k);
	const struct rlx_type tb = d->tb ? rlx_type(d->dt, d->n, d->k) :
					   rlx_type(d->dt, d->k, d->n);
	const struct rlx_type tc = rlx_type(d->dt, d->n), ty = rlx_type(RLX_F64, d->m, d->n);
	struct rlx_graph *g = rlx_graph_new("gemm");
	double *y = malloc((size_t)(d->m * d->n) * sizeof(*y)), *a, *b, *c = NULL;
	rlx_value v = rlx_emit(g, matmul, .a = side(g, "a", ta, d->ta),
			       .b = side(g, "b", tb, d->tb));
	struct rlx_session *s;
	struct rlx_buf out;

	v = d->bias ? rlx_emit(g, add, .a = v, .b = rlx_input(g, "c", tc)) : v;
	rlx_output(g, "y", d->relu ? rlx_emit(g, relu, .x = v) : v);
	s = rig_session(g, &o);
	a = fresh(s, "a", ta, seed);
	for (int run = 0; run < 2; run++) {
		b = fresh(s, "b", tb, seed);
		c = d->bias ? fresh(s, "c", tc, seed) : NULL;
		out = rlx_session_buf(s, RLX_IO_OUTPUT, "y");
		memset(rlx_buf_ptr(out), 0xff, out.bytes);	/* NaN */
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", ty, y));
		compare(d, a, b, c, y);
		free(b);
		free(c);
	}
	rlx_session_free(s);
	free(a);
	free(y);
}

TEST(drawn_activations)
{
	uint64_t seed = rlx_test_seed();

	for (unsigned int c = 0; c < 60; c++) {
		const struct drawn d = draw(&seed);

		run_twice(&d, &seed);
	}
}

TEST_MAIN()
