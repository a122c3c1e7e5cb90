/* SPDX-License-Identifier: MIT */
/*
 * What lapack.c calls for one type: T, with LAPACK its member of struct rlx_lapack, DTYPE what
 * needs no conversion, TINY its least normal number over its epsilon, and F(name) functions'
 * names; V a vector of VN, with functions V_CALL(name).
 *
 * LAPACK has columns one behind the other, so it sees our matrices transposed.
 */

/* In memory of rlx_k_lapack_scratch(); x[m][n] may be y */
struct F(work) {
	T	*x, *tau, *u, *v, *b, *work;
	int	*ints;
};

static struct F(work) F(lay_out)(const struct rlx_k_lapack *a, void *scratch)
{
	const int64_t m = a->l.m, n = a->l.n, less = m < n ? m : n;
	struct F(work) w = { .x = scratch };

	w.tau = w.x + m * n;
	w.u = w.tau + n;
	w.v = w.u + m * less;
	w.b = w.v + less * n;
	w.work = w.b + n * a->l.k;
	w.ints = (int *)(w.work + a->lwork + 1);
	return w;
}

/* @n numbers of @x, copied to @to unless that is NULL; false: not all are finite */
RLX_INLINE bool F(look)(const T *x, T *to, size_t n)
{
	/* each times 0 is 0, but NaN of NaN or an infinity */
	V none[4] = { { 0 }, { 0 }, { 0 }, { 0 } }, v;
	size_t i = 0;

	for (; i + 4 * VN <= n; i += 4 * VN) {
		RLX_UNROLL
		for (size_t j = 0; j < 4; j++) {
			v = V_CALL(loadu)(x + i + j * VN);
			none[j] += v * 0;
			if (to)
				V_CALL(storeu)(to + i + j * VN, v);
		}
	}
	for (; i < n; i += VN) {
		v = V_CALL(loadn)(x + i, n - i);
		none[0] += v * 0;
		if (to)
			V_CALL(storen)(to + i, v, n - i);
	}
	return V_CALL(hsum)((none[0] + none[1]) + (none[2] + none[3])) == 0;
}

static bool F(finite)(const T *x, size_t n)
{
	return F(look)(x, NULL, n);
}

/*
 * Whether all are so small that products with them are rounded as subnormal numbers are. Of a
 * matrix that is for the own kernel, the first number tells nearly always.
 */
static bool F(tiny)(const T *x, size_t n)
{
	size_t i = 0;

	while (i < n && x[i] < TINY && x[i] > -TINY)
		i++;
	return i == n;
}

/* @n numbers of @from to @to; false: not all are finite, or all are tiny */
static bool F(load)(const struct rlx_k_lapack *a, const void *from, size_t at, T *to, size_t n)
{
	enum { STEP = 1024 };	/* looked at while the nearest cache has them */
	bool ok = true;

	if (a->l.type == DTYPE)
		return F(look)((const T *)from + at, to, n) && !F(tiny)(to, n);
	for (size_t i = 0; i < n; i += STEP) {
		const size_t some = n - i < STEP ? n - i : STEP;

		convert(a, (const char *)from + (at + i) * size_of(a), a->l.type, to + i, DTYPE,
			some);
		ok &= F(finite)(to + i, some);
	}
	return ok && !F(tiny)(to, n);
}

static void F(store)(const struct rlx_k_lapack *a, void *to, size_t at, const T *from, size_t n)
{
	char *y = (char *)to + at * size_of(a);

	if ((const void *)y != (const void *)from)
		convert(a, from, DTYPE, y, a->l.type, n);
}

/* Where output @y is made: in its place, where no conversion follows */
static T *F(place)(const struct rlx_k_lapack *a, void *y, size_t at, T *spare)
{
	return a->l.type == DTYPE ? (T *)y + at : spare;
}

/* y[n][m] = x[m][n]' */
static void F(transpose)(T *y, const T *x, int64_t m, int64_t n)
{
	enum { STEP = 16 };

	for (int64_t i = 0; i < m; i += STEP)
		for (int64_t j = 0; j < n; j += STEP)
			for (int64_t c = j; c < j + STEP && c < n; c++)
				for (int64_t r = i; r < i + STEP && r < m; r++)
					y[c * m + r] = x[r * n + c];
}

/*
 * The square at (i, j) of y[n][n] and the one at (j, i): the mean of both of x, and 0; where they
 * are one, 0 above the diagonal. @none: += 0, or NaN.
 */
RLX_INLINE void F(mean_square)(const T *x, T *y, int64_t n, int64_t i, int64_t j, V *none)
{
	static const T kept[2 * VN] = { [0 ... VN - 1] = 1 };
	V a[VN], b[VN];

	RLX_UNROLL
	for (int64_t r = 0; r < VN; r++) {
		a[r] = V_CALL(loadu)(x + (i + r) * n + j);
		b[r] = V_CALL(loadu)(x + (j + r) * n + i);
	}
	V_CALL(transpose)(b);
	RLX_UNROLL
	for (int64_t r = 0; r < VN; r++) {
		a[r] = (a[r] + b[r]) * (T)0.5;
		*none += a[r] * 0;
		V_CALL(storeu)(y + (j + r) * n + i, (V){ 0 });
		if (i == j)
			a[r] *= V_CALL(loadu)(kept + VN - 1 - r);
		V_CALL(storeu)(y + (i + r) * n + j, a[r]);
	}
}

/* The same number by number, at the edges */
static void F(mean_edge)(const T *x, T *y, int64_t n, int64_t i, int64_t j, V *none)
{
	for (int64_t r = i; r < i + VN && r < n; r++)
		for (int64_t c = j; c < j + VN && c <= r; c++) {
			const T mean = (x[r * n + c] + x[c * n + r]) * (T)0.5;

			(*none)[0] += mean * 0;
			y[c * n + r] = 0;
			y[r * n + c] = mean;
		}
}

/* y[n][n], which may be x: the mean of x and x' below the diagonal, 0 above; false as F(load) */
static bool F(mean)(const T *x, T *y, int64_t n)
{
	enum { STEP = 16 };	/* at least a line of the cache, so that each is read once */
	V none = { 0 };

	for (int64_t i = 0; i < n; i += STEP)
		for (int64_t j = 0; j <= i; j += STEP) {
			/* what comes next, whose lines are a row apart */
			for (int64_t c = j + STEP; c < j + 2 * STEP && c <= i; c++) {
				__builtin_prefetch(x + c * n + i);
				__builtin_prefetch(y + c * n + i, 1);
			}
			for (int64_t r = i; r < i + STEP && r < n; r += VN)
				for (int64_t c = j; c < j + STEP && c <= r; c += VN)
					if (r + VN <= n)
						F(mean_square)(x, y, n, r, c, &none);
					else
						F(mean_edge)(x, y, n, r, c, &none);
		}
	return V_CALL(hsum)(none) == 0;
}

static bool F(cholesky)(const struct rlx_k_lapack *a, size_t u, const struct F(work) *w)
{
	const int n = (int)a->l.n;
	const size_t all = (size_t)n * (size_t)n;
	T *y = F(place)(a, a->l.y, u * all, w->u);
	const T *x = y;
	int info;

	if (a->l.type == DTYPE)
		x = (const T *)a->l.a + u * all;
	else
		F(load)(a, a->l.a, u * all, y, all);
	/* its upper triangle is our lower one */
	if (F(tiny)(x, all) || !F(mean)(x, y, n))
		return false;
	for (int64_t i = 0; i < n; i++)
		y[i * n + i] += (T)a->l.jitter;
	a->lapack->LAPACK.potrf("U", &n, y, &n, &info, 1);
	for (int64_t i = 0; i < n; i++)		/* the roots of what overflowed */
		if (info || !(y[i * n + i] < (T)INFINITY))
			return false;
	F(store)(a, a->l.y, u * all, y, all);
	return true;
}

/* The triangle that counts is to be finite, and no division by 0 or what has no inverse. */
static bool F(is_triangle)(const struct rlx_k_lapack *a, const T *x)
{
	enum { SMALL = 64 };	/* rows are so short that all of it is looked at sooner */
	const int64_t n = a->l.n;
	bool ok = n <= SMALL && F(finite)(x, (size_t)(n * n));

	for (int64_t i = 0; !ok && i < n; i++) {
		const T *from = x + i * n + (a->l.upper ? i + a->l.unit : 0);

		if (!F(finite)(from, (size_t)((a->l.upper ? n - i : i + 1) - a->l.unit)))
			return false;
	}
	for (int64_t i = 0; !a->l.unit && i < n; i++)
		if (F(tiny)(x + i * n + i, 1))
			return false;
	return true;
}

static bool F(triangular)(const struct rlx_k_lapack *a, size_t u, const struct F(work) *w)
{
	const int n = (int)a->l.n, k = (int)a->l.k;
	const size_t all = (size_t)n * (size_t)n, right = (size_t)n * (size_t)k;
	T *y = F(place)(a, a->l.y, u * right, w->b);
	const T one = 1, *x = w->x;

	if (a->l.type == DTYPE)
		x = (const T *)a->l.a + u * (size_t)a->l.a_step;
	else
		F(load)(a, a->l.a, u * (size_t)a->l.a_step, w->x, all);
	if (!F(is_triangle)(a, x))
		return false;
	if (!F(load)(a, a->l.b, u * (size_t)a->l.b_step, y, right))
		return false;
	a->lapack->LAPACK.trsm("R", a->l.upper ? "L" : "U", a->l.transposed ? "T" : "N",
			       a->l.unit ? "U" : "N", &k, &n, &one, x, &n, y, &k, 1, 1, 1, 1);
	if (!F(finite)(y, right))
		return false;
	F(store)(a, a->l.y, u * right, y, right);
	return true;
}

/* x' = P L U. false: it is for the own kernel, as where a pivot is 0 or not finite */
static bool F(factorise)(const struct rlx_k_lapack *a, size_t u, const struct F(work) *w)
{
	const int n = (int)a->l.n;
	int info;

	if (!F(load)(a, a->l.a, u * (size_t)a->l.a_step, w->x, (size_t)n * (size_t)n))
		return false;
	a->lapack->LAPACK.getrf(&n, &n, w->x, &n, w->ints, &info);
	for (int64_t i = 0; i < n && !info; i++)
		info = !(w->x[i * n + i] * 0 == 0);
	return !info;
}

static bool F(solve)(const struct rlx_k_lapack *a, size_t u, const struct F(work) *w)
{
	const int n = (int)a->l.n, k = (int)a->l.k;
	const size_t right = (size_t)n * (size_t)k;
	T *y = F(place)(a, a->l.y, u * right, w->b), one = 1;

	if (!F(load)(a, a->l.b, u * (size_t)a->l.b_step, y, right) || !F(factorise)(a, u, w))
		return false;
	a->lapack->LAPACK.trsm("R", "U", "N", "N", &k, &n, &one, w->x, &n, y, &k, 1, 1, 1, 1);
	a->lapack->LAPACK.trsm("R", "L", "N", "U", &k, &n, &one, w->x, &n, y, &k, 1, 1, 1, 1);
	if (!F(finite)(y, right))
		return false;
	for (int64_t i = n - 1; i >= 0; i--)
		for (int64_t j = 0, p = w->ints[i] - 1; p != i && j < k; j++) {
			T t = y[i * k + j];

			y[i * k + j] = y[p * k + j];
			y[p * k + j] = t;
		}
	F(store)(a, a->l.y, u * right, y, right);
	return true;
}

static bool F(det)(const struct rlx_k_lapack *a, size_t u, const struct F(work) *w)
{
	const int64_t n = a->l.n;
	double sign = 1, log_of = 0, det = 1;
	T to;

	if (!F(factorise)(a, u, w))
		return false;
	for (int64_t i = 0; i < n; i++) {
		double x = w->x[i * n + i];

		x = w->ints[i] != i + 1 ? -x : x;
		sign = x < 0 ? -sign : sign;
		log_of += log(fabs(x));
		det *= x;
	}
	to = (T)(a->l.kind == RLX_K_DET ? det : sign);
	F(store)(a, a->l.y, u, &to, 1);
	to = (T)log_of;
	if (a->l.kind == RLX_K_SLOGDET)
		F(store)(a, a->l.y2, u, &to, 1);
	return true;
}

static bool F(qr)(const struct rlx_k_lapack *a, size_t u, const struct F(work) *w)
{
	const int m = (int)a->l.m, n = (int)a->l.n, k = m < n ? m : n;
	const size_t all = (size_t)m * (size_t)n, left = (size_t)m * (size_t)k;
	const size_t right = (size_t)k * (size_t)n;
	T *q = F(place)(a, a->l.y, u * left, w->u), *r = F(place)(a, a->l.y2, u * right, w->v);
	T *x = m < n ? w->v : w->u;	/* as large, and neither has anything yet */
	int info;

	if (!F(load)(a, a->l.a, u * all, x, all))
		return false;
	F(transpose)(w->x, x, m, n);
	a->lapack->LAPACK.geqrf(&m, &n, w->x, &m, w->tau, w->work, &a->lwork, &info);
	if (!F(finite)(w->x, all) || !F(finite)(w->tau, (size_t)k))
		return false;
	for (int64_t i = 0; i < k; i++) {
		T sign = w->x[i * m + i] < 0 ? -1 : 1;

		memset(r + i * n, 0, (size_t)i * sizeof(T));
		w->work[i] = sign;
	}
	for (int64_t i = 0; i < k; i += 16)
		for (int64_t j = i; j < n; j++)
			for (int64_t l = i; l < i + 16 && l < k && l <= j; l++)
				r[l * n + j] = w->work[l] * w->x[j * m + l];
	for (int64_t i = 0; i < k; i++)
		w->ints[i] = w->work[i] < 0;
	a->lapack->LAPACK.orgqr(&m, &k, &k, w->x, &m, w->tau, w->work, &a->lwork, &info);
	for (int64_t i = 0; i < k; i++)
		for (int64_t j = 0; w->ints[i] && j < m; j++)
			w->x[i * m + j] = -w->x[i * m + j];
	F(transpose)(q, w->x, k, m);
	F(store)(a, a->l.y, u * left, q, left);
	F(store)(a, a->l.y2, u * right, r, right);
	return true;
}

static bool F(eigh)(const struct rlx_k_lapack *a, size_t u, const struct F(work) *w)
{
	const int n = (int)a->l.n, ints = 3 + 5 * n;
	const size_t all = (size_t)n * (size_t)n;
	T *v = F(place)(a, a->l.y2, u * all, w->u), *x = w->x;
	int info;

	if (!F(load)(a, a->l.a, u * all, v, all))
		return false;
	F(transpose)(x, v, n, n);
	for (size_t i = 0; i < all; i++)
		x[i] = x[i] / 2 + v[i] / 2;
	a->lapack->LAPACK.syevd("V", "L", &n, x, &n, w->tau, w->work, &a->lwork, w->ints, &ints,
				&info, 1, 1);
	if (info)
		return false;
	for (int64_t j = 0; j < n; j++) {
		double most = 0;

		for (int64_t i = 0; i < n; i++)
			most = rlx_k_linalg_largest(most, x[j * n + i]);
		for (int64_t i = 0; most < 0 && i < n; i++)
			x[j * n + i] = -x[j * n + i];
	}
	F(transpose)(v, x, n, n);
	F(store)(a, a->l.y, u * (size_t)n, w->tau, (size_t)n);
	F(store)(a, a->l.y2, u * all, v, all);
	return true;
}

/* The signs of linalg.h, and no column or row beside a singular value of 0 */
static void F(settle)(const struct rlx_k_lapack *a, T *x, T *vh, const T *s, T *by)
{
	const int64_t m = a->l.m, n = a->l.n, k = m < n ? m : n;

	memset(by, 0, (size_t)k * sizeof(T));
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < k; j++)
			by[j] = (T)rlx_k_linalg_largest(by[j], x[i * k + j]);
	for (int64_t j = 0; j < k; j++) {
		by[j] = by[j] < 0 ? -1 : 1;
		for (int64_t i = 0; i < n && (by[j] < 0 || (s[j] == 0 && m <= n)); i++)
			vh[j * n + i] *= s[j] == 0 && m <= n ? 0 : by[j];
		by[j] = s[j] == 0 && m > n ? 0 : by[j];
	}
	for (int64_t i = 0; i < m; i++)
		for (int64_t j = 0; j < k; j++)
			x[i * k + j] *= by[j];
}

static bool F(svd)(const struct rlx_k_lapack *a, size_t u, const struct F(work) *w)
{
	const int m = (int)a->l.m, n = (int)a->l.n, k = m < n ? m : n;
	const size_t all = (size_t)m * (size_t)n, left = (size_t)m * (size_t)k;
	const size_t right = (size_t)k * (size_t)n;
	T *x = F(place)(a, a->l.y, u * left, w->u), *vh = F(place)(a, a->l.y3, u * right, w->v);
	int info;

	if (!F(load)(a, a->l.a, u * all, w->x, all))
		return false;
	a->lapack->LAPACK.gesdd("S", &n, &m, w->x, &n, w->tau, vh, &n, x, &k, w->work, &a->lwork,
				w->ints, &info, 1);
	if (info)
		return false;
	F(settle)(a, x, vh, w->tau, w->work);
	F(store)(a, a->l.y, u * left, x, left);
	F(store)(a, a->l.y2, u * (size_t)k, w->tau, (size_t)k);
	F(store)(a, a->l.y3, u * right, vh, right);
	return true;
}

/* false: not by this, so that the own kernel says what it is */
static bool F(one)(const struct rlx_k_lapack *a, size_t u, void *scratch)
{
	const struct F(work) w = F(lay_out)(a, scratch);

	switch (a->l.kind) {
	case RLX_K_CHOLESKY:
		return F(cholesky)(a, u, &w);
	case RLX_K_TRIANGULAR:
		return F(triangular)(a, u, &w);
	case RLX_K_SOLVE:
		return F(solve)(a, u, &w);
	case RLX_K_QR:
		return F(qr)(a, u, &w);
	case RLX_K_EIGH:
		return F(eigh)(a, u, &w);
	case RLX_K_SVD:
		return F(svd)(a, u, &w);
	default:
		return F(det)(a, u, &w);
	}
}
