// SPDX-License-Identifier: MIT
/*
 * Linear algebra on the CPU by its own kernels and by LAPACK: factors of random matrices of many
 * shapes must give them back and be what they are said to be, by products in double here. Ranks
 * that are not full, numbers whose squares leave the range, several threads, NaN and infinities.
 */
#include "base/lapack.h"
#include "rlx/run.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum op { QR, EIGH, SVD, CHOLESKY, SOLVE, TRIANGULAR, SLOGDET, DET, N_OPS };
enum kind { RANDOM, LOW_RANK, GRADED, HUGE_ONES, TINY_ONES, ZEROS, UNIT, N_KINDS };

static const struct {
	enum rlx_dtype	dt;
	double		eps;
} types[] = {
	{ RLX_F64, 0x1p-52 }, { RLX_F32, 0x1p-23 }, { RLX_F16, 0x1p-10 }, { RLX_BF16, 0x1p-7 },
};

enum { BATCH = 3, N_TYPES = 4 };

/* Inputs and outputs of a run, in double, and how it is done */
struct problem {
	enum op		op;
	enum rlx_dtype	dt;
	int64_t		m, n, k, batch;
	unsigned int	threads;
	bool		own, upper, transposed, unit;
	double		*x, *b, *y[3];
	double		tol;
	struct rlx_error err;
};

static double *doubles(int64_t n)
{
	double *p = calloc((size_t)n + 1, sizeof(double));

	CHECK(p);
	return p;
}

static rlx_value emit(struct rlx_graph *g, const struct problem *p, rlx_value x, rlx_value b)
{
	switch (p->op) {
	case QR:
		return rlx_emit(g, qr, .x = x);
	case EIGH:
		return rlx_emit(g, eigh, .x = x);
	case SVD:
		return rlx_emit(g, svd, .x = x);
	case CHOLESKY:
		return rlx_emit(g, cholesky, .x = x);
	case SOLVE:
		return rlx_emit(g, solve, .a = x, .b = b);
	case TRIANGULAR:
		return rlx_emit(g, triangular_solve, .a = x, .b = b, .upper = p->upper,
				.transposed = p->transposed, .unit = p->unit);
	case SLOGDET:
		return rlx_emit(g, slogdet, .x = x);
	default:
		return rlx_emit(g, det, .x = x);
	}
}

/* Compile and run; what goes in is read back as its dtype has it. */
static enum rlx_status try(struct problem *p)
{
	static const uint32_t outputs[N_OPS] = { 2, 2, 3, 1, 1, 1, 2, 1 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = p->threads,
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_type t = rlx_type(p->dt, p->batch, p->m, p->n);
	struct rlx_type tb = rlx_type(p->dt, p->batch, p->n, p->k);
	struct rlx_graph *g = rlx_graph_new("linalg");
	rlx_value x = rlx_input(g, "x", t), b = RLX_NONE, y;
	struct rlx_type out[3];
	char name[16];
	struct rlx_session *s;
	enum rlx_status st;

	if (p->b)
		b = rlx_input(g, "b", tb);
	y = emit(g, p, x, b);
	for (uint32_t i = 0; i < outputs[p->op]; i++) {
		snprintf(name, sizeof(name), "y%u", i % 8);
		out[i] = *rlx_type_of(g, rlx_out(g, y, i));
		out[i].dtype = RLX_F64;
		rlx_output(g, name, rlx_out(g, y, i));
	}
	setenv("RLX_LAPACK", p->own ? "none" : "all", 1);
	s = rig_session(g, &o);
	t.dtype = tb.dtype = RLX_F64;
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, p->x));
	CHECK(!rlx_session_get(s, RLX_IO_INPUT, "x", t, p->x));
	CHECK(!p->b || !rlx_session_set(s, RLX_IO_INPUT, "b", tb, p->b));
	CHECK(!p->b || !rlx_session_get(s, RLX_IO_INPUT, "b", tb, p->b));
	st = rlx_session_run(s);
	p->err = *rlx_session_error(s);
	for (uint32_t i = 0; i < outputs[p->op] && !st; i++) {
		snprintf(name, sizeof(name), "y%u", i % 8);
		free(p->y[i]);
		p->y[i] = doubles(rlx_type_count(&out[i]));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, name, out[i], p->y[i]));
	}
	rlx_session_free(s);
	return st;
}

static void forget(struct problem *p)
{
	free(p->x);
	free(p->b);
	for (int i = 0; i < 3; i++)
		free(p->y[i]);
	*p = (struct problem){ 0 };
}

/* A factor of a product */
struct factor {
	const double	*p;
	bool		turned;
};

static struct factor plain(const double *p)
{
	return (struct factor){ p, false };
}

static struct factor turned(const double *p)
{
	return (struct factor){ p, true };
}

/* a[m][k] b[k][n], or what becomes that when it is turned */
static double *product(struct factor a, struct factor b, int64_t m, int64_t n, int64_t k)
{
	double *c = doubles(m * n);

	for (int64_t i = 0; i < m; i++)
		for (int64_t l = 0; l < k; l++) {
			double f = a.turned ? a.p[l * m + i] : a.p[i * k + l];

			for (int64_t j = 0; j < n; j++)
				c[i * n + j] += f * (b.turned ? b.p[j * k + l] : b.p[l * n + j]);
		}
	return c;
}

static double norm(const double *x, int64_t n)
{
	double most = 0, sum = 0;

	for (int64_t i = 0; i < n; i++) {
		CHECK(isfinite(x[i]));
		most = fmax(most, fabs(x[i]));
	}
	for (int64_t i = 0; i < n && most > 0; i++)
		sum += x[i] / most * (x[i] / most);
	return most * sqrt(sum);
}

/* c, which is freed, is to be @want up to the problem's tolerance of @of */
static void close_to(const struct problem *p, const char *what, double *c, const double *want,
		     int64_t n, double of)
{
	double *d = doubles(n), off;

	for (int64_t i = 0; i < n; i++)
		d[i] = c[i] - want[i];
	off = norm(d, n);
	CHECKF(off <= p->tol * of, "op %d %s %lldx%lld %s: %s is off by %g of %g", p->op,
	       rlx_dtype_name(p->dt), (long long)p->m, (long long)p->n,
	       p->own ? "own" : "LAPACK", what, off, of);
	free(c);
	free(d);
}

/* Columns of x[m][n], but for those whose s is not above @least, are orthonormal. */
static void orthonormal(const struct problem *p, const double *x, int64_t m, int64_t n,
			const double *s, double least)
{
	double *g = product(turned(x), plain(x), n, n, m), *unit = doubles(n * n);

	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < n; j++) {
			bool counts = !s || (s[i] > least && s[j] > least);

			unit[i * n + j] = i == j;
			if (!counts)
				g[i * n + j] = unit[i * n + j];
		}
	close_to(p, "a product of columns", g, unit, n * n, sqrt((double)n) + 1);
	free(unit);
}

static void positive_columns(const double *x, int64_t m, int64_t n, double tol)
{
	for (int64_t j = 0; j < n; j++) {
		double top = 0, least = 0;

		for (int64_t i = 0; i < m; i++) {
			top = fmax(top, x[i * n + j]);
			least = fmin(least, x[i * n + j]);
		}
		/* of equal sizes rounding to 16 bits may have made one the largest */
		CHECKF(-least <= top * (1 + tol), "column %lld: %g and %g", (long long)j, least,
		       top);
	}
}

static void check_qr(const struct problem *p, int64_t c)
{
	const int64_t m = p->m, n = p->n, k = m < n ? m : n;
	const double *q = p->y[0] + c * m * k, *r = p->y[1] + c * k * n, *x = p->x + c * m * n;

	close_to(p, "q r", product(plain(q), plain(r), m, n, k), x, m * n, norm(x, m * n));
	orthonormal(p, q, m, k, NULL, 0);
	for (int64_t i = 0; i < k; i++) {
		CHECK(r[i * n + i] >= 0);
		for (int64_t j = 0; j < i; j++)
			CHECK(r[i * n + j] == 0);
	}
}

static void check_eigh(const struct problem *p, int64_t c)
{
	const int64_t n = p->n;
	const double *w = p->y[0] + c * n, *v = p->y[1] + c * n * n, *x = p->x + c * n * n;
	double *sym = doubles(n * n), *vw = doubles(n * n);

	for (int64_t i = 0; i < n; i++) {
		CHECK(!i || w[i - 1] <= w[i]);
		for (int64_t j = 0; j < n; j++) {
			sym[i * n + j] = x[i * n + j] / 2 + x[j * n + i] / 2;
			vw[i * n + j] = v[i * n + j] * w[j];
		}
	}
	close_to(p, "v w v'", product(plain(vw), turned(v), n, n, n), sym, n * n, norm(sym, n * n));
	orthonormal(p, v, n, n, NULL, 0);
	positive_columns(v, n, n, 2 * p->tol);
	free(sym);
	free(vw);
}

static void check_svd(const struct problem *p, int64_t c)
{
	const int64_t m = p->m, n = p->n, k = m < n ? m : n;
	const double *u = p->y[0] + c * m * k, *s = p->y[1] + c * k, *vh = p->y[2] + c * k * n;
	const double *x = p->x + c * m * n;
	double *us = doubles(m * k), *v = doubles(n * k);

	for (int64_t j = 0; j < k; j++) {
		CHECK(s[j] >= 0 && (!j || s[j - 1] >= s[j]));
		for (int64_t i = 0; i < m; i++)
			us[i * k + j] = u[i * k + j] * s[j];
		for (int64_t i = 0; i < n; i++)
			v[i * k + j] = vh[j * n + i];
	}
	close_to(p, "u s vh", product(plain(us), plain(vh), m, n, k), x, m * n, norm(x, m * n));
	orthonormal(p, u, m, k, s, p->tol * s[0]);
	orthonormal(p, v, n, k, s, p->tol * s[0]);
	positive_columns(u, m, k, 2 * p->tol);
	free(us);
	free(v);
}

static void check_solution(const struct problem *p, int64_t c)
{
	const int64_t n = p->n, k = p->k;
	const double *y = p->y[0] + c * n * k, *b = p->b + c * n * k, *x = p->x + c * n * n;
	struct factor a_of = { NULL, p->op == TRIANGULAR && p->transposed };
	double *a = doubles(n * n), of;

	a_of.p = a;
	memcpy(a, x, (size_t)(n * n) * sizeof(*a));
	for (int64_t i = 0; i < n * n && p->op == TRIANGULAR; i++) {
		if (p->upper ? i / n > i % n : i / n < i % n)
			a[i] = 0;
		if (p->unit && i / n == i % n)
			a[i] = 1;
	}
	of = norm(a, n * n) * norm(y, n * k) + norm(b, n * k);
	close_to(p, "a y", product(a_of, plain(y), n, k, n), b, n * k, of);
	free(a);
}

static void check_cholesky(const struct problem *p, int64_t c)
{
	const int64_t n = p->n;
	const double *y = p->y[0] + c * n * n, *x = p->x + c * n * n;

	close_to(p, "y y'", product(plain(y), turned(y), n, n, n), x, n * n, norm(x, n * n));
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = i + 1; j < n; j++)
			CHECK(y[i * n + j] == 0);
}

static void check_det(const struct problem *p, int64_t c)
{
	const int64_t n = p->n;
	long double *a = calloc((size_t)(n * n) + 1, sizeof(*a)), t;
	double sign = 1, log_of = 0;

	CHECK(a);
	for (int64_t i = 0; i < n * n; i++)
		a[i] = p->x[c * n * n + i];
	for (int64_t k = 0; k < n; k++) {
		int64_t best = k;

		for (int64_t i = k; i < n; i++)
			best = fabsl(a[i * n + k]) > fabsl(a[best * n + k]) ? i : best;
		for (int64_t j = 0; best != k && j < n; j++) {
			t = a[k * n + j];
			a[k * n + j] = a[best * n + j];
			a[best * n + j] = t;
		}
		sign = (best != k) != (a[k * n + k] < 0) ? -sign : sign;
		/* one drawn number of 2,048 is less than half of f32's least: the matrix is 0 */
		if (a[k * n + k] == 0) {
			sign = 0;
			log_of = -INFINITY;
			break;
		}
		log_of += (double)logl(fabsl(a[k * n + k]));
		for (int64_t i = k + 1; i < n; i++)
			for (int64_t j = n - 1; j >= k; j--)
				a[i * n + j] -= a[i * n + k] / a[k * n + k] * a[k * n + j];
	}
	free(a);
	CHECKF(p->op == DET || p->y[0][c] == sign, "n %lld %s: sign %g is not %g", (long long)n,
	       p->own ? "own" : "LAPACK", p->y[0][c], sign);
	if (p->op == SLOGDET)
		CHECKF(sign == 0 ? p->y[1][c] == log_of :
				   fabs(p->y[1][c] - log_of) <= 10 * p->tol * (1 + fabs(log_of)),
		       "n %lld: %g is not %g", (long long)n, p->y[1][c], log_of);
	else if (fabs(log_of) < 80 && p->dt != RLX_F16)
		CHECKF(fabs(p->y[0][c] - sign * exp(log_of)) <= 10 * p->tol * exp(log_of),
		       "n %lld: %g is not %g", (long long)n, p->y[0][c], sign * exp(log_of));
}

static void check_one(const struct problem *p, int64_t c)
{
	static void (*const checks[N_OPS])(const struct problem *p, int64_t c) = {
		[QR] = check_qr, [EIGH] = check_eigh, [SVD] = check_svd,
		[CHOLESKY] = check_cholesky, [SOLVE] = check_solution,
		[TRIANGULAR] = check_solution, [SLOGDET] = check_det, [DET] = check_det,
	};

	checks[p->op](p, c);
}

static void check(const struct problem *p)
{
	for (int64_t c = 0; c < p->batch; c++)
		check_one(p, c);
}

static void fill(struct problem *p, enum kind kind, uint64_t *seed)
{
	const int64_t m = p->m, n = p->n, rank = (m < n ? m : n) / 2;

	for (int64_t i = 0; i < p->batch * m * n; i++) {
		double x = rlx_test_uniform(seed, -1, 1);

		x *= kind == GRADED ? pow(0.7, (double)(i % n)) : kind == HUGE_ONES ? 1e200 :
		     kind == TINY_ONES ? 1e-200 : kind == ZEROS ? 0 : 1;
		p->x[i] = kind == UNIT ? i / n % m == i % n : x;
	}
	/* the other columns are sums of the first ones */
	for (int64_t i = 0; kind == LOW_RANK && i < p->batch * m * n; i++)
		if (i % n > rank)
			p->x[i] = p->x[i - i % n] - p->x[i - i % n + rank] * (double)(i % n) / 8;
}

/* What makes a matrix of @op's kind of random ones: positive definite, or well conditioned */
static void condition(struct problem *p)
{
	const int64_t n = p->n;

	for (int64_t c = 0; c < p->batch; c++) {
		double *x = p->x + c * n * n;

		for (int64_t i = 0; i < n; i++) {
			for (int64_t j = 0; j < i && p->op == CHOLESKY; j++)
				x[i * n + j] = x[j * n + i];
			if (p->op == CHOLESKY)
				x[i * n + i] = 2 * sqrt((double)n) + 1;
			else
				x[i * n + i] += x[i * n + i] < 0 ? -sqrt((double)n) : sqrt((double)n);
		}
		/* of triangles the inverse grows with each row */
		for (int64_t i = 0; i < n * n && p->op == TRIANGULAR; i++)
			x[i] /= i / n == i % n ? 1 : p->unit ? (double)n : 1;
	}
}

static struct problem problem(enum op op, unsigned int type, int64_t m, int64_t n, bool own)
{
	const int64_t most = m > n ? m : n;
	struct problem p = { .op = op, .dt = types[type].dt, .m = m, .n = n, .batch = BATCH,
			     .threads = 1, .own = own, .k = 1 + m % 5 * 9 };

	/*
	 * A sum of n products, and what 16 bits lose when they are stored. A LAPACK is held to
	 * what its own tests hold it to, 30 n eps (LAPACK Working Note 41).
	 */
	p.tol = types[type].eps * (type > 1 ? 8 : own ? 10 + (double)most :
				   30 * (double)(most > 1 ? most : 1));
	p.x = doubles(p.batch * m * n);
	p.b = op == SOLVE || op == TRIANGULAR ? doubles(p.batch * n * p.k) : NULL;
	return p;
}

static void refill(struct problem *p, enum kind kind, uint64_t *seed)
{
	fill(p, kind, seed);
	if (p->op > SVD)
		condition(p);
	for (int64_t i = 0; p->b && i < p->batch * p->n * p->k; i++)
		p->b[i] = rlx_test_uniform(seed, -1, 1);
}

static void by_both(enum op op, unsigned int type, int64_t m, int64_t n, enum kind kind)
{
	uint64_t seed = rlx_test_seed();

	for (int own = 0; own < 2; own++) {
		struct problem p = problem(op, type, m, n, own);

		for (int form = 0; form < (op == TRIANGULAR ? 8 : 1); form++) {
			p.upper = form & 1;
			p.transposed = form & 2;
			p.unit = form & 4;
			refill(&p, kind, &seed);
			CHECKF(!try(&p), "%s", p.err.text);
			check(&p);
		}
		forget(&p);
	}
}

static void shapes_of(enum op op)
{
	static const int64_t square[] = { 1, 2, 3, 7, 16, 31, 32, 33, 64, 65, 97, 150 };
	static const int64_t other[][2] = { { 1, 5 }, { 5, 1 }, { 33, 31 }, { 31, 70 }, { 200, 33 },
					    { 40, 150 }, { 130, 129 }, { 2, 300 }, { 300, 3 } };

	for (unsigned int t = 0; t < N_TYPES; t++) {
		for (unsigned int i = 0; i < sizeof(square) / sizeof(*square); i++)
			by_both(op, t, square[i], square[i], RANDOM);
		for (unsigned int i = 0; op <= SVD && op != EIGH && i < 9; i++)
			by_both(op, t, other[i][0], other[i][1], RANDOM);
	}
}

/* Vectors of columns, the last of which may overlap, and fewer than one has lanes */
TEST(right_sides_of_any_number)
{
	uint64_t seed = rlx_test_seed();

	for (int64_t k = 1; k <= 72; k++) {
		const int64_t n = 1 + (int64_t)(rlx_test_rand(&seed) % 40);
		const enum op op = rlx_test_rand(&seed) % 2 ? SOLVE : TRIANGULAR;
		struct problem p = problem(op, k % 2, n, n, true);

		p.k = k;
		free(p.b);
		p.b = doubles(p.batch * n * k);
		p.upper = rlx_test_rand(&seed) % 2;
		p.transposed = rlx_test_rand(&seed) % 2;
		p.unit = rlx_test_rand(&seed) % 2;
		refill(&p, RANDOM, &seed);
		CHECKF(!try(&p), "%s", p.err.text);
		check(&p);
		forget(&p);
	}
}

TEST(qr) { shapes_of(QR); }
TEST(eigh) { shapes_of(EIGH); }
TEST(svd) { shapes_of(SVD); }
TEST(cholesky) { shapes_of(CHOLESKY); }
TEST(solve) { shapes_of(SOLVE); }
TEST(triangular_solve) { shapes_of(TRIANGULAR); }
TEST(slogdet) { shapes_of(SLOGDET); }
TEST(det) { shapes_of(DET); }

/* Ranks that are not full, columns of all sizes, numbers whose squares are too large or small */
TEST(hard_matrices)
{
	static const int64_t shape[][2] = {
		{ 40, 40 }, { 70, 33 }, { 33, 70 }, { 2, 2 }, { 1, 1 },
	};

	for (unsigned int kind = LOW_RANK; kind < N_KINDS; kind++)
		for (unsigned int t = 0; t < 2; t++)
			for (unsigned int i = 0; i < 5; i++)
				for (unsigned int op = QR; op <= SVD; op++) {
					if (t && (kind == HUGE_ONES || kind == TINY_ONES))
						continue;	/* beyond f32 */
					if (op == EIGH && shape[i][0] != shape[i][1])
						continue;
					by_both((enum op)op, t, shape[i][0], shape[i][1],
						(enum kind)kind);
				}
}

/*
 * All of x times a power of two, so that the largest number's exponent, or that of a matrix whose
 * norms are in the result, is @top; and b likewise.
 */
static void scale_to(struct problem *p, int top, int top_b)
{
	const int64_t n = p->batch * p->m * p->n, nb = p->b ? p->batch * p->n * p->k : 0;
	double most = 0, most_b = 0;

	for (int64_t i = 0; i < n; i++)
		most = fmax(most, fabs(p->x[i]));
	/* as f32 has it, which may have rounded it up to the next power of two, or to infinity */
	most = (float)most;
	for (int64_t i = 0; i < nb; i++)
		most_b = fmax(most_b, fabs(p->b[i]));
	most_b = (float)most_b;
	if (p->op <= SVD)
		most *= (double)p->m;
	for (int64_t i = 0; i < n; i++)
		p->x[i] = ldexp(p->x[i], top - ilogb(most));
	for (int64_t i = 0; i < nb; i++)
		p->b[i] = ldexp(p->b[i], top_b - ilogb(most_b));
}

/* Finite matrices at either end of f32: sums and products within may leave its range. */
TEST(ends_of_the_range)
{
	static const int ends[][2] = {
		{ 127, 126 }, { 127, 0 }, { 0, 126 }, { 126, 127 }, { -124, -124 }, { -124, 0 },
		{ -138, -138 }, { -100, -138 },
	};
	static const int64_t size[] = { 1, 2, 5, 16, 33, 70, 150 };
	uint64_t seed = rlx_test_seed();

	for (unsigned int op = 0; op < N_OPS; op++)
		for (unsigned int i = 0; i < 7 * 8 * 2; i++) {
			/* small factors are no more than subnormal numbers */
			const int *end = ends[op <= SVD ? i / 7 % 6 : i / 7 % 8];
			const int64_t n = size[i % 7];
			struct problem p = problem((enum op)op, 1, n, n, i >= 56);

			refill(&p, RANDOM, &seed);
			/* what elimination makes of these is larger than they are */
			if (op == SLOGDET || (op == SOLVE && end[1] < end[0]))
				fill(&p, RANDOM, &seed);
			/*
			 * a solution is up to |A^-1| |b|, some sqrt(n) times the right-hand side; of
			 * these triangles some four times, which is beyond f32 from 2^126 on
			 */
			scale_to(&p, end[0], end[1] - (end[0] ? 0 : op == SOLVE ? 6 :
						       op == TRIANGULAR ? 3 : 0));
			CHECKF(!try(&p), "op %u, n %lld, 2^%d: %s", op, (long long)n, end[0],
			       p.err.text);
			check(&p);
			forget(&p);
		}
}

/* The own kernels give the same bits whoever does which part of a matrix. */
TEST(threads_do_not_matter)
{
	static const int64_t shape[][2] = { { 300, 300 }, { 400, 140 }, { 140, 400 } };
	uint64_t seed = rlx_test_seed();

	for (unsigned int op = 0; op < N_OPS; op++)
		for (unsigned int i = 0; i < (op == QR || op == SVD ? 3 : 1); i++) {
			struct problem p = problem((enum op)op, 0, shape[i][0], shape[i][1], true);
			struct problem q = problem((enum op)op, 0, shape[i][0], shape[i][1], true);
			int64_t n = p.batch * (op == SLOGDET || op == DET ? 1 : op == EIGH ? p.n :
				    p.m * (op == SOLVE || op == TRIANGULAR ? p.k : p.m < p.n ?
					   p.m : p.n));

			refill(&p, RANDOM, &seed);
			memcpy(q.x, p.x, (size_t)(p.batch * p.m * p.n) * sizeof(double));
			if (p.b)
				memcpy(q.b, p.b, (size_t)(p.batch * p.n * p.k) * sizeof(double));
			q.threads = 3;
			CHECK(!try(&p) && !try(&q));
			check(&q);
			CHECKF(!memcmp(p.y[0], q.y[0], (size_t)n * sizeof(double)), "op %u", op);
			forget(&p);
			forget(&q);
		}
}

/* By LAPACK with threads of its own, and with one for each of many matrices at once */
TEST(lapack_by_threads)
{
	uint64_t seed = rlx_test_seed();
	char name[400];

	setenv("RLX_LAPACK", "all", 1);
	rlx_lapack_name(name, sizeof(name));
	printf("# %s\n", name);
	if (!rlx_lapack_library())
		rlx_test_skip("no LAPACK: %s", name);

	for (unsigned int op = 0; op < N_OPS; op++)
		for (int many = 0; many < 2; many++) {
			struct problem p = problem((enum op)op, 1, many ? 65 : 200, many ? 65 : 200,
						   false);

			free(p.x);
			free(p.b);
			p.threads = 3;
			p.batch = many ? 13 : 2;
			p.x = doubles(p.batch * p.n * p.n);
			p.b = op == SOLVE || op == TRIANGULAR ? doubles(p.batch * p.n * p.k) : NULL;
			refill(&p, RANDOM, &seed);
			CHECKF(!try(&p), "%s", p.err.text);
			check(&p);
			forget(&p);
		}
}

/* One of three matrices is not finite: its factors are NaN, the others' as ever. */
TEST(not_finite)
{
	static const double bad[] = { NAN, INFINITY, -INFINITY };
	static const int64_t size[] = { 2, 40, 150 };
	uint64_t seed = rlx_test_seed();

	for (unsigned int op = QR; op <= SVD; op++)
		for (unsigned int i = 0; i < 18; i++) {
			const int64_t n = size[i % 3];
			struct problem p = problem((enum op)op, i % 2, n, n, i >= 9);
			int64_t first = op == EIGH ? n : n * n;

			refill(&p, RANDOM, &seed);
			p.x[n * n + n] = bad[i / 3 % 3];
			CHECKF(!try(&p), "%s", p.err.text);
			for (int64_t j = 0; j < first; j++)
				CHECK(isnan(p.y[0][first + j]));
			CHECK(isnan(p.y[1][op == SVD ? n : n * n]));
			for (int64_t c = 0; c < 3; c += 2)
				check_one(&p, c);
			forget(&p);
		}
}

/* Singular, or not finite, in sizes that both take */
TEST(bad_matrices)
{
	static const int64_t size[] = { 3, 40, 150 };
	uint64_t seed = rlx_test_seed();

	for (unsigned int op = CHOLESKY; op <= SOLVE; op++)
		for (unsigned int i = 0; i < 18; i++) {
			const int64_t n = size[i % 3];
			struct problem p = problem((enum op)op, i % 2, n, n, i >= 9);

			refill(&p, RANDOM, &seed);
			for (int64_t j = 0; j < n; j++) {	/* the second of three */
				double *x = p.x + n * n;

				if (i / 3 % 3 == 0)
					x[j * n + 1] = x[n + j] = 0;
				else if (i / 3 % 3 == 1)
					x[j * n + n - 1] = x[(n - 1) * n + j] = NAN;
				else
					x[j * n + n - 1] = x[(n - 1) * n + j] = INFINITY;
			}
			CHECKF(try(&p) == RLX_ERANGE, "op %u, n %lld, case %u: %s", op,
			       (long long)n, i, p.err.text);
			forget(&p);
		}
}

TEST_MAIN()
