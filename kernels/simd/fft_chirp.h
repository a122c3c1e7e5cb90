/* SPDX-License-Identifier: MIT */
/*
 * A line's convolution with a chirp, Bluestein's: columns of the line times the chirp; rows, times
 * the spectrum, and back as rows; columns back, times the chirp. A spectrum is wanted in no order,
 * so that nothing is brought into one between. Included after fft_square.h.
 */
#ifndef RLX_SIMD_FFT_CHIRP_H
#define RLX_SIMD_FFT_CHIRP_H

/* x[e] *= w of each element of the tile that is there; @w has re [n], then im */
static void times_table(cv *x, const struct fft_tile *t, const FT *w, int64_t n)
{
	for (int64_t e = 0; e < t->ne; e++) {
		const FT *at = w + t->first + e * t->along_e;

		if (at - w >= n)
			return;
		if (!t->along_l)
			x[e] = cv_mul(x[e], at[0] - (FV){ 0 }, at[n] - (FV){ 0 });
		else	/* beyond the end are some numbers, and lanes that nobody wants */
			x[e] = cv_mul(x[e], F_LOADU(at), F_LOADU(at + n));
	}
}

/* x times @w, vectors of re and im in turns; re and im are swapped, for the transform back. */
static void times_spectrum(cv *x, const FT *w, int64_t n)
{
	for (int64_t i = 0; i < n; i++, w += 2 * FW) {
		cv c = cv_mul(x[i], F_LOADU(w), F_LOADU(w + FW));

		x[i].re = c.im;
		x[i].im = c.re;
	}
}

/* Elements of the columns @t that are whole vectors of complex numbers and of the line. */
static int64_t whole_rows(const struct rlx_k_fft *a, const struct fft_tile *t)
{
	const int64_t n = t->view->n < a->chirp_n ? t->view->n : a->chirp_n;
	const int64_t left = n - t->first - FW;
	const int64_t rows = left < 0 ? 0 : left / t->along_e + 1;

	return t->to_l != 2 || t->view->part != 1 ? 0 : rows < t->ne ? rows : t->ne;
}

/* @t but for its first @e elements. */
static struct fft_tile rest_of(const struct fft_tile *t, int64_t e)
{
	struct fft_tile r = *t;

	r.first += e * t->along_e;
	r.p += e * t->to_e;
	r.ne -= e;
	return r;
}

RLX_INLINE cv cv_by(cv c, const FT *w, int64_t n)
{
	return cv_mul(c, F_LOADU(w), F_LOADU(w + n));
}

/* Columns of a line times the chirp, of which 0 is beyond the line's end. */
static void load_chirped(const struct rlx_k_fft *a, const struct fft_tile *t, cv *x)
{
	const int64_t rows = whole_rows(a, t), n = a->chirp_n;
	const struct fft_tile rest = rest_of(t, rows);
	const FT *w = table(a->chirp) + t->first, *p = t->p;

	for (int64_t e = 0; e < rows; e++, p += t->to_e, w += t->along_e) {
		cv c = cv_by(cv_load(p, a->inverse), w, n);

		x[e].re = c.re;
		x[e].im = c.im;
	}
	load_tile(&rest, x + rows, a->inverse);
	times_table(x + rows, &rest, table(a->chirp), n);
}

/* And back. */
static void store_chirped(const struct rlx_k_fft *a, const struct fft_tile *t, cv *x)
{
	const int64_t rows = whole_rows(a, t), n = a->chirp_n;
	const struct fft_tile rest = rest_of(t, rows);
	const FT *w = table(a->chirp) + t->first;
	FT *p = t->p;

	for (int64_t e = 0; e < rows; e++, p += t->to_e, w += t->along_e)
		cv_store(p, cv_by((cv){ x[e].im, x[e].re }, w, n), a->inverse);
	for (int64_t e = rows; e < t->ne; e++)
		x[e] = (cv){ x[e].im, x[e].re };
	times_table(x + rows, &rest, table(a->chirp), n);
	for (int64_t e = rows; e < t->ne && a->inverse; e++)
		x[e] = (cv){ x[e].im, x[e].re };
	store_tile(&rest, x + rows);
}

/* Of a square, lanes become elements, of which @n times @lane and @w, as in twiddle_square(). */
RLX_INLINE void turn_back(cv *x, const FT *lane, const FT *w, int64_t n)
{
	turn(x);
	RLX_UNROLL
	for (int64_t i = 0; i < FW; i++) {
		cv c;

		if (i >= n)
			break;
		c = cv_mul(x[i], F_LOADU(lane + 2 * i * FW),
			   F_LOADU(lane + (2 * i + 1) * FW));
		c = cv_times(c, w + 2 * i);
		x[i].re = c.re;
		x[i].im = c.im;
	}
}

/* Rows of block @block there and back: in z squares of columns become such of rows. */
static void convolve(const struct rlx_k_fft *a, int64_t block, cv *z, cv *buf)
{
	const int64_t n1 = a->core[0].n, n2 = a->core[1].n, k = block * FW;
	const FT *lane = table(a->lane_w) + k * 2 * FW, *w = table(a->block_w) + k * 2;
	cv *x;

	z += block * n2;
	x = transform(&a->core[1], z, buf, NULL);
	times_spectrum(x, table(a->spectrum) + block * n2 * 2 * FW, n2);
	/* as many passes again: where the first began */
	transform(&a->core[1], x, x == z ? buf : z, NULL);
	for (int64_t i = 0; i < n2; i += FW, w += 2 * n1)
		turn_back(z + i, lane, w, n1 - k < FW ? n1 - k : FW);
}

/* A vector of columns from squares, times the chirp: elements of the line @t is of. */
static void columns_back(const struct rlx_k_fft *a, struct fft_tile t, cv *z, cv *x)
{
	const struct rlx_k_fft_core *core = &a->core[0];
	const int64_t n2 = a->core[1].n, left = a->chirp_n - t.first;

	t.ne = left > 0 ? rlx_k_fft_blocks(left, n2) : 0;
	t.nl = FW;
	t.along_e = n2;
	t.along_l = 1;
	t.to_e = n2 * t.view->stride;
	t.to_l = t.view->stride;
	t.p += t.first * t.view->stride;
	z += t.first;
	for (int64_t k = 0; k < core->n; k += FW, z += n2)
		for (int64_t i = 0; i < FW && k + i < core->n; i++) {
			x[k + i].re = z[i].re;
			x[k + i].im = z[i].im;
		}
	store_chirped(a, &t, transform(core, x, x + core->n, NULL));
}

/* What is to be fetched, such as the next line. */
struct fft_next {
	const char	*p;
	int64_t		bytes;
};

/* What a line lies in: numbers that lie together, that a cache has room for; or nothing. */
static struct fft_next line_of(const struct rlx_k_fft_view *v, const void *p)
{
	enum { MOST = 2 << 20 };
	const int64_t bytes = v->n * v->stride * (int64_t)sizeof(FT);

	return (struct fft_next){ p, v->stride > 2 || bytes > MOST ? 0 : bytes };
}

/* So few long ones are near as they are, and would displace one another. */
enum { FEW_LINES = 2 };

static struct fft_next next_line(const struct rlx_k_fft *a, size_t unit)
{
	const int64_t at = (int64_t)unit + 1, lines = a->outer * a->inner;

	if (at == lines || lines <= FEW_LINES)
		return (struct fft_next){ 0 };
	return line_of(&a->in, line_at(a->x, a, &a->in, at));
}

/* Part @i of @parts of it. */
RLX_INLINE void fetch_line(struct fft_next next, int64_t i, int64_t parts)
{
	int64_t b = next.bytes * i / parts, last = next.bytes * (i + 1) / parts;

	for (; b < last; b += 64)
		__builtin_prefetch(next.p + b, 0, 2);
}

/*
 * What is in z, of columns, as the line @t. @next is fetched on the way, and with it what @t lies
 * in: few of its numbers are written at a time, far from those before.
 */
static void convolved(const struct rlx_k_fft *a, struct fft_tile t, struct fft_next next, cv *z,
		      cv *buf)
{
	const int64_t blocks = rlx_k_fft_blocks(a->core[0].n, FW);
	struct fft_next own = line_of(t.view, t.p);

	own.bytes = next.bytes ? own.bytes : 0;
	for (int64_t i = 0; i < blocks; i++) {
		fetch_line(next, i, blocks);
		fetch_line(own, i, blocks);
		convolve(a, i, z, buf);
	}
	for (t.first = 0; t.first < a->core[1].n; t.first += FW)
		columns_back(a, t, z, buf);
}

#endif
