/* SPDX-License-Identifier: MIT */
/*
 * linalg.c's calls of LAPACK on n x n matrices of one type: T, F(name), and LAPACK, which has its
 * functions.
 */

/* x: a copy of @from that is lost; y and t: room for factors; work[room] */
struct F(direct) {
	T	*x, *y, *t, *work;
	int	room, *ints;
};

static void F(direct_new)(struct F(direct) *d, int n)
{
	size_t all = (size_t)n * (size_t)n;

	d->room = 8 * n * n + 64 * n + 1024;
	d->x = calloc(3 * all + (size_t)d->room, sizeof(T));
	d->ints = calloc((size_t)(8 * n + 16), sizeof(int));
	CHECK(d->x && d->ints);
	d->y = d->x + all;
	d->t = d->y + all;
	d->work = d->t + all;
}

static void F(direct_run)(const struct F(direct) *d, enum op op, int n, const T *from)
{
	const size_t bytes = (size_t)n * (size_t)n * sizeof(T);
	int info, ints = 8 * n + 16;
	T one = 1;

	memcpy(d->x, from, bytes);
	if (op == SOLVE || op == TRIANGULAR)
		memcpy(d->y, from, bytes);
	switch (op) {
	case CHOLESKY:
		LAPACK.potrf("U", &n, d->x, &n, &info, 1);
		break;
	case SOLVE:
		LAPACK.getrf(&n, &n, d->x, &n, d->ints, &info);
		LAPACK.trsm("R", "U", "N", "N", &n, &n, &one, d->x, &n, d->y, &n, 1, 1, 1, 1);
		LAPACK.trsm("R", "L", "N", "U", &n, &n, &one, d->x, &n, d->y, &n, 1, 1, 1, 1);
		break;
	case TRIANGULAR:
		LAPACK.trsm("R", "U", "N", "N", &n, &n, &one, from, &n, d->y, &n, 1, 1, 1, 1);
		break;
	case SLOGDET:
		LAPACK.getrf(&n, &n, d->x, &n, d->ints, &info);
		break;
	case QR:
		LAPACK.geqrf(&n, &n, d->x, &n, d->t, d->work, &d->room, &info);
		memcpy(d->y, d->x, bytes);
		LAPACK.orgqr(&n, &n, &n, d->x, &n, d->t, d->work, &d->room, &info);
		break;
	case EIGH:
		LAPACK.syevd("V", "L", &n, d->x, &n, d->y, d->work, &d->room, d->ints, &ints,
			     &info, 1, 1);
		break;
	default:
		LAPACK.gesdd("S", &n, &n, d->x, &n, d->work, d->y, &n, d->t, &n, d->work + n,
			     &d->room, d->ints, &info, 1);
	}
}

/* The fastest of some runs over the batch, in seconds */
static double F(direct_turn)(const struct F(direct) *d, const struct point *at, const T *x)
{
	const int n = at->n;
	const size_t all = (size_t)n * (size_t)n;
	double end = cpu_time() + TURN, begin, best = INFINITY;

	do {
		begin = cpu_time();
		for (size_t i = 0; i < (size_t)at->batch; i++)
			F(direct_run)(d, at->op, n, x + i * all);
		best = fmin(best, cpu_time() - begin);
	} while (cpu_time() < end);
	return best;
}
