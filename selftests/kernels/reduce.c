// SPDX-License-Identifier: MIT
/* Reductions, arg-reductions and scans against plain loops over any axes. */
#include "kernels/reduce.h"
#include "selftests/kernels/kcheck.h"

static const uint8_t types[] = { RLX_F32, RLX_F32, RLX_F64, RLX_BF16,
				 RLX_I64, RLX_I32, RLX_U8, RLX_U64 };

static bool is_float(int t)
{
	return rlx_k_type_float((enum rlx_dtype)t);
}

static double get(const void *p, int type, int64_t i)
{
	switch (type) {
	case RLX_F32: return ((const float *)p)[i];
	case RLX_F64: return ((const double *)p)[i];
	case RLX_BF16: return kc_from_bf16(((const uint16_t *)p)[i]);
	}
	return 0;
}

static uint64_t get_int(const void *p, int type, int64_t i)
{
	if (is_float(type))
		return 0;
	switch (type) {
	case RLX_I32: return (uint64_t)(int64_t)((const int32_t *)p)[i];
	case RLX_U8: return ((const uint8_t *)p)[i];
	}
	return ((const uint64_t *)p)[i];
}

static struct kc_buf values(int64_t n, int type, uint64_t *seed)
{
	size_t size = rlx_k_type_size((enum rlx_dtype)type);
	struct kc_buf b = kc_buf_new((size_t)n * size, size);

	for (int64_t i = 0; i < n; i++) {
		double d = rlx_test_uniform(seed, -1.5, 2);
		float f = (float)d;
		uint16_t h = kc_to_bf16(f);
		uint64_t v = rlx_test_rand(seed) << 32 ^ rlx_test_rand(seed);

		if (type != RLX_U64 || kc_pick(seed, 0, 1))
			v = (uint64_t)kc_pick(seed, -3, 3);
		memcpy((char *)b.p + (size_t)i * size,
		       type == RLX_F64 ? (void *)&d :
		       type == RLX_F32 ? (void *)&f :
		       type == RLX_BF16 ? (void *)&h : (void *)&v, size);
	}
	return b;
}

/* The offsets of the elements that result @out is made of. */
static int64_t members(const struct rlx_k_reduce *a, int64_t out, int64_t *off)
{
	int64_t n = 0, total = 1;

	for (int d = 0; d < a->rank; d++)
		total *= a->dim[d];
	for (int64_t e = 0; e < total; e++) {
		int64_t at = e, kept = 0, run = 1;

		for (int d = a->rank; d-- > 0; at /= a->dim[d])
			if (!(a->axes >> d & 1)) {
				kept += at % a->dim[d] * run;
				run *= a->dim[d];
			}
		if (kept == out)
			off[n++] = e;
	}
	return n;
}

static double want_f(int op, const void *x, int type, const int64_t *off,
		     int64_t n)
{
	double r = op == RLX_K_REDUCE_MAX ? -INFINITY :
		   op == RLX_K_REDUCE_MIN ? INFINITY : op == RLX_K_REDUCE_PROD;

	for (int64_t i = 0; i < n; i++) {
		double v = get(x, type, off[i]);

		switch (op) {
		case RLX_K_REDUCE_MAX: r = v > r ? v : r; break;
		case RLX_K_REDUCE_MIN: r = v < r ? v : r; break;
		case RLX_K_REDUCE_PROD: r *= v; break;
		default: r += v;
		}
	}
	return op == RLX_K_REDUCE_MEAN ? r / (double)n : r;
}

static uint64_t want_i(int op, const void *x, int type, const int64_t *off,
		       int64_t n)
{
	bool u = type == RLX_U64;
	uint64_t r = op == RLX_K_REDUCE_PROD;

	for (int64_t i = 0; i < n; i++) {
		uint64_t v = get_int(x, type, off[i]);
		bool less = u ? v < r : (int64_t)v < (int64_t)r;

		switch (op) {
		case RLX_K_REDUCE_MAX: r = i && less ? r : v; break;
		case RLX_K_REDUCE_MIN: r = i && !less ? r : v; break;
		case RLX_K_REDUCE_PROD: r *= v; break;
		default: r += v;
		}
	}
	if (op == RLX_K_REDUCE_MEAN)
		r = u ? r / (uint64_t)n : (uint64_t)((int64_t)r / n);
	return r;
}

static void one_reduce(const struct rlx_kernels *k, uint64_t *seed)
{
	int type = types[rlx_test_rand(seed) % sizeof(types)];
	struct rlx_k_reduce a = { .rank = (int)kc_pick(seed, 1, 4),
		.type = (uint8_t)type, .op = (uint8_t)kc_pick(seed, 0,
			RLX_K_REDUCE_OPS - 1) }, p;
	size_t size = rlx_k_type_size((enum rlx_dtype)type);
	int64_t total = 1, outs = 1, *off;
	struct kc_buf x, y;

	a.axes = (uint32_t)kc_pick(seed, 0, (1 << a.rank) - 1);
	for (int d = 0; d < a.rank; d++) {
		a.dim[d] = kc_pick(seed, 1, a.rank == 1 ? 3000 :
				   kc_pick(seed, 0, 3) ? 7 : 40);
		total *= a.dim[d];
		outs *= a.axes >> d & 1 ? 1 : a.dim[d];
	}
	if (total > 4000)
		return;
	x = values(total, type, seed);
	y = kc_buf_new((size_t)outs * size, size);
	off = malloc((size_t)total * sizeof(*off));
	a.x = x.p;
	a.y = y.p;
	p = a;
	rlx_k_reduce_plan(&p);
	kc_run(k->reduce, &p, rlx_k_reduce_units(&p), RLX_K_REDUCE_SCRATCH,
	       seed);
	for (int64_t o = 0; o < outs; o += 1 + outs / 50) {
		int64_t n = members(&a, o, off);
		uint64_t mask = size == 8 ? ~(uint64_t)0 :
				((uint64_t)1 << 8 * size) - 1;

		if (is_float(type)) {
			double w = want_f(a.op, x.p, type, off, n);
			double g = get(y.p, type, o);
			double tol = type == RLX_F64 ? 1e-12 :
				     type == RLX_F32 ? 2e-6 : 5e-3;

			CHECKF(g == w || (g != g && w != w) ||
			       fabs(g - w) <= tol * (fabs(w) + sqrt((double)n)),
			       "op %d type %d over %lld: %.9g, not %.9g", a.op,
			       type, (long long)n, g, w);
			continue;
		}
		CHECKF(((get_int(y.p, type, o) ^
			 want_i(a.op, x.p, type, off, n)) & mask) == 0,
		       "op %d type %d over %lld: %lld", a.op, type,
		       (long long)n, (long long)get_int(y.p, type, o));
	}
	free(off);
	kc_buf_free(&x);
	kc_buf_free(&y);
}

TEST(reduce_over_any_axes)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 400; t++)
			one_reduce(rlx_kernels_get((enum rlx_isa)l), &seed);
}

/* [outer, n, inner] down its columns or along its rows, f32 and i32: few long ones and many. */
static void one_matrix(const struct rlx_kernels *k, uint64_t *seed)
{
	const bool real = kc_pick(seed, 0, 1), along = kc_pick(seed, 0, 1);
	const int64_t outer = kc_pick(seed, 1, 3), wide = kc_pick(seed, 0, 1);
	const int64_t n = wide ? kc_pick(seed, 1, 12) : kc_pick(seed, 1, 1500);
	const int64_t inner = along ? 1 : wide ? kc_pick(seed, 500, 1600) : kc_pick(seed, 2, 70);
	const int64_t rows = along ? kc_pick(seed, 1, wide ? 900 : 40) : 1;
	const int64_t outs = outer * rows * inner;
	struct rlx_k_reduce a = { .rank = 4, .dim = { outer, rows, n, inner }, .axes = 4,
		.type = real ? RLX_F32 : RLX_I32, .op = (uint8_t)kc_pick(seed, 0, 3) };
	struct kc_buf x = values(outs * n, a.type, seed), y = kc_buf_new((size_t)outs * 4, 4);

	a.squares = real && a.op <= RLX_K_REDUCE_MEAN && kc_pick(seed, 0, 1);
	a.x = x.p;
	a.y = y.p;
	rlx_k_reduce_plan(&a);
	kc_run(k->reduce, &a, rlx_k_reduce_units(&a), RLX_K_REDUCE_SCRATCH, seed);
	for (int64_t o = 0; o < outs; o++) {
		const bool least = a.op == RLX_K_REDUCE_MIN, most = a.op == RLX_K_REDUCE_MAX;
		double w = 0, sum = 0, got;

		for (int64_t i = 0; i < n; i++) {
			int64_t at = o / inner * n * inner + i * inner + o % inner;
			double v = real ? (double)((float *)x.p)[at] : ((int32_t *)x.p)[at];

			v = a.squares ? v * v : v;
			sum += fabs(v);
			w = !i ? v : most ? fmax(w, v) : least ? fmin(w, v) : w + v;
		}
		w = a.op == RLX_K_REDUCE_MEAN ? w / (double)n : w;
		w = real ? w : trunc(w);
		got = real ? (double)((float *)y.p)[o] : ((int32_t *)y.p)[o];
		CHECKF(fabs(got - w) <= (real ? 4e-7 * sum : 0),
		       "op %d of %lld x %lld x %lld: %g, not %g", a.op, (long long)(outer * rows),
		       (long long)n, (long long)inner, got, w);
	}
	kc_buf_free(&x);
	kc_buf_free(&y);
}

TEST(reduce_few_columns_and_many)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 200; t++)
			one_matrix(rlx_kernels_get((enum rlx_isa)l), &seed);
}

TEST(long_sums_stay_accurate)
{
	enum { N = 1 << 20 };
	float *x = malloc(N * sizeof(*x));
	char scratch[RLX_K_REDUCE_SCRATCH] __attribute__((aligned(64)));

	for (int i = 0; i < N; i++)
		x[i] = 0.1f;
	for (int l = 0; l < kc_levels(); l++) {
		float y[2];
		struct rlx_k_reduce a = { x, y, 1, { N }, 1, RLX_K_REDUCE_MEAN,
					  RLX_F32 };
		struct rlx_k_reduce b = { x, y, 2, { N / 2, 2 }, 1,
					  RLX_K_REDUCE_MEAN, RLX_F32 };

		rlx_k_reduce_plan(&a);
		rlx_kernels_get((enum rlx_isa)l)->reduce(&a, 0, 1, scratch);
		CHECKF(fabs(y[0] - 0.1f) < 1e-7, "mean %.9g", y[0]);
		rlx_k_reduce_plan(&b);
		rlx_kernels_get((enum rlx_isa)l)->reduce(&b, 0, 1, scratch);
		CHECKF(fabs(y[1] - 0.1f) < 1e-5, "mean %.9g", y[1]);
	}
	free(x);
}

TEST(empty_and_nan)
{
	char scratch[RLX_K_REDUCE_SCRATCH] __attribute__((aligned(64)));

	for (int l = 0; l < kc_levels(); l++) {
		const struct rlx_kernels *k = rlx_kernels_get((enum rlx_isa)l);
		float x[50], y[3] = { 9, 9, 9 };
		struct rlx_k_reduce a = { x, y, 2, { 3, 0 }, 2, RLX_K_REDUCE_SUM,
					  RLX_F32 };
		struct rlx_k_reduce b = { x, y, 1, { 50 }, 1, RLX_K_REDUCE_MAX,
					  RLX_F32 };

		rlx_k_reduce_plan(&a);
		k->reduce(&a, 0, rlx_k_reduce_units(&a), scratch);
		CHECK(y[0] == 0 && y[1] == 0 && y[2] == 0);
		for (int i = 0; i < 50; i++)
			x[i] = i == 33 ? NAN : (float)i;
		rlx_k_reduce_plan(&b);
		k->reduce(&b, 0, 1, scratch);
		CHECK(y[0] != y[0]);
	}
}

static void one_arg(const struct rlx_kernels *k, uint64_t *seed)
{
	int type = types[rlx_test_rand(seed) % sizeof(types)];
	int64_t outer = kc_pick(seed, 1, 5), n = kc_pick(seed, 1, 90);
	int64_t inner = kc_pick(seed, 0, 1) ? 1 : kc_pick(seed, 1, 700);

	if (kc_pick(seed, 0, 2) == 0) {	/* few columns, short rows, and many of either */
		n = inner == 1 ? kc_pick(seed, 1, 20) : kc_pick(seed, 1, 900);
		outer = inner == 1 ? kc_pick(seed, 1, 700) : outer;
		inner = inner == 1 ? 1 : kc_pick(seed, 2, 30);
	}
	struct kc_buf x = values(outer * n * inner, type, seed);
	struct kc_buf y = kc_buf_new((size_t)(outer * inner) * 8, 8);
	struct rlx_k_argreduce a = { x.p, y.p, outer, n, inner, (uint8_t)type,
		RLX_I64, kc_pick(seed, 0, 1), kc_pick(seed, 0, 1) };

	if (type == RLX_F32)
		for (int64_t i = 0; i < n; i++)
			((float *)x.p)[i] = kc_pick(seed, 0, 40) ?
				(float)kc_pick(seed, 0, 4) : NAN;
	kc_run(k->argreduce, &a, rlx_k_argreduce_units(&a), RLX_K_REDUCE_SCRATCH, seed);
	for (int64_t u = 0; u < outer * inner; u++) {
		int64_t at = u / inner * n * inner + u % inner, best = 0;

		for (int64_t j = 1; j < n; j++) {
			int64_t p = at + j * inner, q = at + best * inner;
			double x0 = get(x.p, type, q), x1 = get(x.p, type, p);
			int64_t i0 = (int64_t)get_int(x.p, type, q);
			int64_t i1 = (int64_t)get_int(x.p, type, p);
			bool eq, gt;

			if (is_float(type)) {
				eq = x0 == x1 || (x0 != x0 && x1 != x1);
				gt = x0 == x0 && (x1 != x1 || (a.min ? x1 < x0 :
							       x1 > x0));
			} else {
				eq = i0 == i1;
				gt = type == RLX_U64 ?
				     (uint64_t)i1 > (uint64_t)i0 : i1 > i0;
				gt = a.min ? !gt && !eq : gt;
			}
			if (gt || (eq && a.last))
				best = j;
		}
		CHECKF(((int64_t *)y.p)[u] == best,
		       "type %d min %d last %d: %lld, not %lld", type, a.min,
		       a.last, (long long)((int64_t *)y.p)[u],
		       (long long)best);
	}
	kc_buf_free(&x);
	kc_buf_free(&y);
}

TEST(argmax_and_argmin)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 150; t++)
			one_arg(rlx_kernels_get((enum rlx_isa)l), &seed);
}

/* Down the columns of one matrix there is work for several threads, too. */
TEST(units_of_few_outer_indices)
{
	struct rlx_k_argreduce a = { .outer = 1, .n = 4096, .inner = 4096 };

	CHECK_EQ(rlx_k_argreduce_units(&a), 8);
	a.inner = 1;
	CHECK_EQ(rlx_k_argreduce_units(&a), 1);
}

static void one_scan(const struct rlx_kernels *k, uint64_t *seed)
{
	int type = types[rlx_test_rand(seed) % sizeof(types)];
	int64_t outer = kc_pick(seed, 1, 3);
	int64_t n = kc_pick(seed, 1, kc_pick(seed, 0, 1) ? 20 : 1200);
	int64_t inner = kc_pick(seed, 0, 1) ? 1 : kc_pick(seed, 1, 100);
	size_t size = rlx_k_type_size((enum rlx_dtype)type);
	struct kc_buf x, y;
	struct rlx_k_scan a = { .outer = outer, .inner = inner,
		.type = (uint8_t)type, .prod = kc_pick(seed, 0, 1),
		.exclusive = kc_pick(seed, 0, 1),
		.reverse = kc_pick(seed, 0, 1) };

	if (is_float(type) && a.prod)
		n = n > 40 ? 40 : n;
	if (!kc_pick(seed, 0, 9)) {	/* more columns than a unit has */
		a.inner = inner = kc_pick(seed, 500, 2500);
		n = n > 12 ? 12 : n;
	} else if (!kc_pick(seed, 0, 9)) {	/* shares of a matrix, which a thread joins */
		a.inner = inner = kc_pick(seed, 256, 600);
		n = is_float(type) && a.prod ? n : kc_pick(seed, 130, 140);
	}
	a.n = n;
	x = values(outer * n * inner, type, seed);
	y = kc_buf_new((size_t)(outer * n * inner) * size, size);
	a.x = x.p;
	a.y = y.p;
	kc_run(k->scan, &a, rlx_k_scan_units(&a), RLX_K_REDUCE_SCRATCH, seed);
	for (int64_t u = 0; u < outer * inner; u++) {
		double f = a.prod;
		uint64_t i = a.prod, m = size == 8 ? ~(uint64_t)0 :
					 ((uint64_t)1 << 8 * size) - 1;

		for (int64_t s = 0; s < n; s++) {
			int64_t j = a.reverse ? n - 1 - s : s;
			int64_t at = (u / inner * n + j) * inner + u % inner;
			double xf = get(x.p, type, at), wf = f;
			uint64_t xi = get_int(x.p, type, at), wi = i;

			f = a.prod ? f * xf : f + xf;
			i = a.prod ? i * xi : i + xi;
			wf = a.exclusive ? wf : f;
			wi = a.exclusive ? wi : i;
			if (is_float(type))
				CHECKF(fabs(get(y.p, type, at) - wf) <=
				       (type == RLX_BF16 ? 1e-2 : 1e-6) *
				       (fabs(wf) + 1e-3), "%g, not %g",
				       get(y.p, type, at), wf);
			else
				CHECK(((get_int(y.p, type, at) ^ wi) & m) == 0);
		}
	}
	kc_buf_free(&x);
	kc_buf_free(&y);
}

TEST(running_sums_and_products)
{
	uint64_t seed = rlx_test_seed();

	for (int l = 0; l < kc_levels(); l++)
		for (int t = 0; t < 150; t++)
			one_scan(rlx_kernels_get((enum rlx_isa)l), &seed);
}

/* Not from one matrix into the next, nor beyond a range or @most columns. */
TEST(shares_of_a_matrix_are_joined)
{
	CHECK_EQ(rlx_k_joined_cols(0, 4, 112, 406, 2048), 4);
	CHECK_EQ(rlx_k_joined_cols(2, 8, 112, 406, 2048), 2);
	CHECK_EQ(rlx_k_joined_cols(5, 7, 112, 406, 2048), 2);
	CHECK_EQ(rlx_k_joined_cols(0, 4, 112, 406, 256), 2);
	CHECK_EQ(rlx_k_joined_cols(0, 3, 512, 1500, 256), 1);
	CHECK_EQ(rlx_k_joined_cols(3, 9, 64, 1, 2048), 1);
}

/* Along rows and down columns; all terms positive, so that roundings add up. */
TEST(long_sums_of_any_values)
{
	enum { N = 1 << 20, COLS = 3 };
	float *x = malloc(sizeof(*x) * N * COLS);
	char scratch[RLX_K_REDUCE_SCRATCH] __attribute__((aligned(64)));
	uint64_t seed = rlx_test_seed();
	double row = 0, col[COLS] = { 0 };

	CHECK(x);
	kc_fill(x, N * COLS, 0, 1, &seed);
	for (int i = 0; i < N * COLS; i++) {
		row += i < N ? (double)x[i] : 0;
		col[i % COLS] += (double)x[i];
	}
	for (int l = 0; l < kc_levels(); l++) {
		float y[COLS];
		struct rlx_k_reduce a = { x, y, 1, { N }, 1, RLX_K_REDUCE_SUM, RLX_F32 };
		struct rlx_k_reduce b = { x, y, 2, { N, COLS }, 1, RLX_K_REDUCE_SUM, RLX_F32 };

		rlx_k_reduce_plan(&a);
		rlx_kernels_get((enum rlx_isa)l)->reduce(&a, 0, 1, scratch);
		CHECKF(fabs((double)y[0] / row - 1) < 3e-7, "level %d: row %g", l,
		       (double)y[0] / row - 1);
		rlx_k_reduce_plan(&b);
		rlx_kernels_get((enum rlx_isa)l)->reduce(&b, 0, 1, scratch);
		for (int c = 0; c < COLS; c++)
			CHECKF(fabs((double)y[c] / col[c] - 1) < 1e-7, "level %d: column %g", l,
			       (double)y[c] / col[c] - 1);
	}
	free(x);
}

TEST_MAIN()
