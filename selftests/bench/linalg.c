// SPDX-License-Identifier: MIT
/*
 * Linear algebra on one core: what a program takes, with LAPACK and with the own kernels, over
 * what LAPACK takes that is called here, directly, on a copy of a matrix. All three take turns.
 *
 *	build/test/bench/linalg [op [dtype [n]]]	RLX_LAPACK=FILE: see rlx(1)
 *
 * n: "draw" takes random ones, of a seed that is printed. What is printed is the fastest run of
 * LAPACK, and the medians of what the others took over it within a turn.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "kernels/lapack.h"
#include "rlx/run.h"
#include "selftests/bench/cpu_time.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum op { CHOLESKY, SOLVE, TRIANGULAR, SLOGDET, QR, EIGH, SVD, N_OPS };

static const char *const names[N_OPS] = {
	"cholesky", "solve", "triangular", "slogdet", "qr", "eigh", "svd",
};

enum { TURNS = 25, MOST = 1024, DRAWN = 10 };
#define TURN	0.004		/* seconds */

/* What is measured; right-hand sides are the matrices */
struct point {
	enum op		op;
	bool		f64;
	int		n, batch;
	const char	*said;	/* RLX_LAPACK */
};

static struct rlx_lapack lapack;

#define T	float
#define F(name)	name##_f32
#define LAPACK	lapack.f32
#include "selftests/bench/linalg_direct.h"
#undef T
#undef F
#undef LAPACK
#define T	double
#define F(name)	name##_f64
#define LAPACK	lapack.f64
#include "selftests/bench/linalg_direct.h"

static void find(void *lib, const char *type, const char *name, void *to)
{
	char symbol[32];
	void *p;

	snprintf(symbol, sizeof(symbol), "%s%s_", type, name);
	p = dlsym(lib, symbol);
	CHECKF(p != NULL, "%s", symbol);
	memcpy(to, &p, sizeof(p));
}

static bool open_lapack(const char *said)
{
	void *lib = dlopen(said ? said : "libopenblas.so.0", RTLD_NOW | RTLD_LOCAL), *p;
	void (*threads)(int);

	if (!lib)
		return false;
	p = dlsym(lib, "openblas_set_num_threads");
	memcpy(&threads, &p, sizeof(p));
	if (threads)
		threads(1);
#define FUNCTION(name, args)	find(lib, "s", #name, &lapack.f32.name);
	RLX_LAPACK_FUNCTIONS(float)
#undef FUNCTION
#define FUNCTION(name, args)	find(lib, "d", #name, &lapack.f64.name);
	RLX_LAPACK_FUNCTIONS(double)
#undef FUNCTION
	return true;
}

static rlx_value emit(struct rlx_graph *g, enum op op, rlx_value x, rlx_value b)
{
	switch (op) {
	case CHOLESKY:
		return rlx_emit(g, cholesky, .x = x);
	case SOLVE:
		return rlx_emit(g, solve, .a = x, .b = b);
	case TRIANGULAR:
		return rlx_emit(g, triangular_solve, .a = x, .b = b);
	case SLOGDET:
		return rlx_emit(g, slogdet, .x = x);
	case QR:
		return rlx_emit(g, qr, .x = x);
	case EIGH:
		return rlx_emit(g, eigh, .x = x);
	default:
		return rlx_emit(g, svd, .x = x);
	}
}

static struct rlx_session *session(const struct point *at, const void *data, bool own)
{
	static const uint32_t outputs[N_OPS] = { 1, 1, 1, 2, 2, 2, 3 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 1,
				      .flags = RLX_COMPILE_NATIVE };
	const struct rlx_type t = rlx_type(at->f64 ? RLX_F64 : RLX_F32, at->batch, at->n, at->n);
	const enum op op = at->op;
	struct rlx_graph *g = rlx_graph_new("linalg");
	rlx_value x = rlx_input(g, "x", t), b = RLX_NONE, y;
	struct rlx_session *s;
	char name[16];

	if (op == SOLVE || op == TRIANGULAR)
		b = rlx_input(g, "b", t);
	y = emit(g, op, x, b);
	for (uint32_t i = 0; i < outputs[op]; i++) {
		snprintf(name, sizeof(name), "y%u", i);
		rlx_output(g, name, rlx_out(g, y, i));
	}
	if (own)
		setenv("RLX_LAPACK", "none", 1);
	s = rig_session(g, &o);
	if (at->said)
		setenv("RLX_LAPACK", at->said, 1);
	else
		unsetenv("RLX_LAPACK");
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, data));
	if (b.id)
		CHECK(!rlx_session_set(s, RLX_IO_INPUT, "b", t, data));
	return s;
}

static double session_turn(struct rlx_session *s, double seconds)
{
	double end = cpu_time() + seconds, begin, best = INFINITY;

	do {
		begin = cpu_time();
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		best = fmin(best, cpu_time() - begin);
	} while (cpu_time() < end);
	return best;
}

/* Symmetric, and its diagonal so large that it is positive definite */
static void fill(double *d, float *f, int n, int batch)
{
	uint64_t seed = 1;

	for (int i = 0; i < batch * n * n; i++)
		d[i] = (double)(rlx_test_rand(&seed) % 2048) / 1024 - 1;
	for (int c = 0; c < batch; c++)
		for (int i = 0; i < n; i++) {
			double *m = d + (int64_t)c * n * n;

			for (int j = 0; j < i; j++)
				m[i * n + j] = m[j * n + i];
			m[i * n + i] += 2 * sqrt(n) + 2;
		}
	for (int i = 0; i < batch * n * n; i++)
		f[i] = (float)d[i];
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *x)
{
	qsort(x, TURNS, sizeof(*x), by_size);
	return x[TURNS / 2];
}

static void one(const struct point *at, const double *d, const float *f)
{
	const void *data = at->f64 ? (const void *)d : f;
	struct rlx_session *with = session(at, data, false), *own = session(at, data, true);
	double direct = INFINITY, rlx[TURNS], plain[TURNS], once;
	struct direct_f32 of_f32;
	struct direct_f64 of_f64;

	direct_new_f32(&of_f32, at->n);
	direct_new_f64(&of_f64, at->n);
	for (int i = 0; i < TURNS; i++) {
		once = at->f64 ? direct_turn_f64(&of_f64, at, d) : direct_turn_f32(&of_f32, at, f);
		direct = fmin(direct, once);
		rlx[i] = session_turn(with, TURN) / once;
		plain[i] = session_turn(own, TURN) / once;
	}
	printf("%-10s %s %5d %4d %10.1f us %6.2f %6.2f\n", names[at->op], at->f64 ? "f64" : "f32",
	       at->n, at->batch, direct * 1e6, median(rlx), median(plain));
	free(of_f32.x);
	free(of_f32.ints);
	free(of_f64.x);
	free(of_f64.ints);
	rlx_session_free(with);
	rlx_session_free(own);
}

/* From 2 on, evenly by logarithm */
static void draw(int *sizes)
{
	uint64_t seed = rlx_test_seed();

	printf("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < DRAWN; i++)
		sizes[i] = (int)(2 * pow(MOST / 2, (double)(rlx_test_rand(&seed) % 4096) / 4096));
}

static bool asked(int argc, char **argv, int at, const char *name)
{
	return argc <= at || !strcmp(argv[at], name) || !strcmp(argv[at], "all");
}

int main(int argc, char **argv)
{
	int sizes[DRAWN] = { 8, 16, 32, 64, 128, 256, 512, 1024 }, n_size = 8;
	const char *said = getenv("RLX_LAPACK");
	double *d = calloc((size_t)MOST * MOST, sizeof(*d));
	float *f = calloc((size_t)MOST * MOST, sizeof(*f));

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!d || !f || !open_lapack(said && strcmp(said, "all") ? said : NULL)) {
		printf("1..0 # skip no LAPACK: %s\n", dlerror());
		return 0;
	}
	if (argc > 3 && !strcmp(argv[3], "draw")) {
		draw(sizes);
		n_size = DRAWN;
	} else if (argc > 3) {
		sizes[0] = atoi(argv[3]);
		n_size = 1;
		CHECK(sizes[0] > 0 && sizes[0] <= MOST);
	}
	printf("op         type    n batch    LAPACK       over it: rlx    own\n");
	for (int op = 0; op < N_OPS; op++)
		for (int t = 0; t < 2; t++)
			for (int i = 0; i < n_size; i++) {
				const int n = sizes[i], batch = n < 64 ? 4096 / n / n + 1 : 1;

				if (!asked(argc, argv, 1, names[op]) ||
				    !asked(argc, argv, 2, t ? "f64" : "f32"))
					continue;
				fill(d, f, n, batch);
				one(&(struct point){ (enum op)op, t, n, batch, said }, d, f);
			}
	free(d);
	free(f);
	return 0;
}
