/* SPDX-License-Identifier: MIT */
/*
 * Transforms of vectors: lane l of element e is element e of the l-th transform. For f32 and
 * f64, by what is defined where it is included: FT the number, FV the vector, FW its lanes.
 *
 * Stockham's form, decimation in frequency: pass by pass from one buffer to the other, in order
 * from beginning to end. See Van Loan, Computational Frameworks for the FFT.
 */
#ifndef RLX_SIMD_FFT_PASS_H
#define RLX_SIMD_FFT_PASS_H

#include "kernels/fft.h"
#include "kernels/simd/vec.h"
#include "kernels/simd/zip.h"

#if FW == 16
#define F_LO	RLX_ZIP_LO_16
#define F_WHOLE	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#define F_HI	RLX_ZIP_HI_16
#define F_EVEN	0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define F_ODD	1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define F_BACK	15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
#define F_EVEN_BACK	30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0
#define F_ODD_BACK	31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1
#elif FW == 8
#define F_LO	RLX_ZIP_LO_8
#define F_WHOLE	0, 1, 2, 3, 4, 5, 6, 7
#define F_HI	RLX_ZIP_HI_8
#define F_EVEN	0, 2, 4, 6, 8, 10, 12, 14
#define F_ODD	1, 3, 5, 7, 9, 11, 13, 15
#define F_BACK	7, 6, 5, 4, 3, 2, 1, 0
#define F_HALVES_EVEN	0, 2, 8, 10, 4, 6, 12, 14
#define F_HALVES_ODD	1, 3, 9, 11, 5, 7, 13, 15
#define F_HALVES_EVEN_BACK	2, 0, 10, 8, 6, 4, 14, 12
#define F_HALVES_ODD_BACK	3, 1, 11, 9, 7, 5, 15, 13
#define F_EVEN_BACK	14, 12, 10, 8, 6, 4, 2, 0
#define F_ODD_BACK	15, 13, 11, 9, 7, 5, 3, 1
#elif FW == 4
#define F_LO	RLX_ZIP_LO_4
#define F_HI	RLX_ZIP_HI_4
#define F_EVEN	0, 2, 4, 6
#define F_ODD	1, 3, 5, 7
#define F_BACK	3, 2, 1, 0
#define F_HALVES_EVEN	0, 4, 2, 6
#define F_HALVES_ODD	1, 5, 3, 7
#define F_HALVES_EVEN_BACK	0, 4, 2, 6
#define F_HALVES_ODD_BACK	1, 5, 3, 7
#define F_EVEN_BACK	6, 4, 2, 0
#define F_ODD_BACK	7, 5, 3, 1
#else
#define F_LO	RLX_ZIP_LO_2
#define F_HI	RLX_ZIP_HI_2
#define F_EVEN	0, 2
#define F_ODD	1, 3
#define F_BACK	1, 0
#define F_EVEN_BACK	2, 0
#define F_ODD_BACK	3, 1
#endif

typedef struct { FV re, im; } cv;

RLX_INLINE cv cv_add(cv a, cv b) { return (cv){ a.re + b.re, a.im + b.im }; }
RLX_INLINE cv cv_sub(cv a, cv b) { return (cv){ a.re - b.re, a.im - b.im }; }
/* -i a */
RLX_INLINE cv cv_mul_i(cv a) { return (cv){ a.im, -a.re }; }
RLX_INLINE cv cv_mul(cv a, FV re, FV im)
{
	return (cv){ a.re * re - a.im * im, a.re * im + a.im * re };
}

RLX_INLINE cv cv_times(cv a, const FT *w)
{
	return (cv){ a.re * w[0] - a.im * w[1], a.re * w[1] + a.im * w[0] };
}

/*
 * Lines side by side in memory, a vector of them read or written whole: FW neighbours are re and im
 * in turns.
 */
struct fft_lines {
	const FT	*from;		/* NULL: a buffer of vectors is read */
	FT		*to;		/* NULL: one is written */
	int64_t		from_e, to_e;	/* numbers from an element to the next */
	bool		swap;		/* re and im, where they are read or written */
};

/* What one pass is given. */
struct fft_pass {
	const cv	*x;
	cv		*y;
	const FT	*w;	/* twiddle factors, r - 1 for each p */
	const FT	*root;	/* cos and sin of 2 pi i / r: rlx_k_fft_roots() */
	int64_t		s, m;	/* y[q + s (r p + k)] of x[q + s (p + m i)] */
	const struct fft_lines	*lines;
};

/* y[k] += what radix-4 gives of four numbers */
RLX_INLINE void four(cv v[4])
{
	cv a = cv_add(v[0], v[2]), b = cv_sub(v[0], v[2]);
	cv c = cv_add(v[1], v[3]), d = cv_mul_i(cv_sub(v[1], v[3]));

	v[0] = cv_add(a, c);
	v[1] = cv_add(b, d);
	v[2] = cv_sub(a, c);
	v[3] = cv_sub(b, d);
}

/* x e^(-i a), where w is cos a and v is sin a */
#define CV_ROTATE(x, w, v) (cv){ (x).re * (w) + (x).im * (v), (x).im * (w) - (x).re * (v) }

RLX_INLINE void eight(cv *v)
{
	const FT h = (FT)0.70710678118654752440;
	cv e[4], o[4];

	RLX_UNROLL
	for (int i = 0; i < 4; i++) {
		e[i] = v[2 * i];
		o[i] = v[2 * i + 1];
	}
	four(e);
	four(o);
	o[1] = (cv){ (o[1].re + o[1].im) * h, (o[1].im - o[1].re) * h };
	o[2] = cv_mul_i(o[2]);
	o[3] = (cv){ (o[3].im - o[3].re) * h, -(o[3].re + o[3].im) * h };
	RLX_UNROLL
	for (int i = 0; i < 4; i++) {
		v[i] = cv_add(e[i], o[i]);
		v[i + 4] = cv_sub(e[i], o[i]);
	}
}

/* As a matrix [4][4]. */
RLX_INLINE void sixteen(cv *v)
{
	const FT h = (FT)0.70710678118654752440;
	const FT c = (FT)0.92387953251128675613, s = (FT)0.38268343236508977173;
	cv t[4][4];

	RLX_UNROLL
	for (int b = 0; b < 4; b++) {
		RLX_UNROLL
		for (int a = 0; a < 4; a++)
			t[b][a] = v[4 * a + b];
		four(t[b]);
	}
	t[1][1] = CV_ROTATE(t[1][1], c, s);
	t[1][2] = (cv){ (t[1][2].re + t[1][2].im) * h, (t[1][2].im - t[1][2].re) * h };
	t[1][3] = CV_ROTATE(t[1][3], s, c);
	t[2][1] = (cv){ (t[2][1].re + t[2][1].im) * h, (t[2][1].im - t[2][1].re) * h };
	t[2][2] = cv_mul_i(t[2][2]);
	t[2][3] = (cv){ (t[2][3].im - t[2][3].re) * h, -(t[2][3].re + t[2][3].im) * h };
	t[3][1] = CV_ROTATE(t[3][1], s, c);
	t[3][2] = (cv){ (t[3][2].im - t[3][2].re) * h, -(t[3][2].re + t[3][2].im) * h };
	t[3][3] = CV_ROTATE(t[3][3], -c, -s);
	RLX_UNROLL
	for (int k = 0; k < 4; k++) {
		cv u[4] = { t[0][k], t[1][k], t[2][k], t[3][k] };

		four(u);
		RLX_UNROLL
		for (int i = 0; i < 4; i++)
			v[k + 4 * i] = u[i];
	}
}

#include "kernels/simd/fft_odd.h"

RLX_INLINE void butterfly(cv *v, int r)
{
	const cv e = v[0];

	if (r == 2) {
		v[0] = cv_add(e, v[1]);
		v[1] = cv_sub(e, v[1]);
	} else if (r == 3) {
		three(v, v + 1, v + 2);
	} else if (r == 5) {
		five(v);
	} else if (r == 7) {
		seven(v);
	} else if (r == 9) {
		nine(v);
	} else if (r == 15) {
		fifteen(v);
	} else if (r == 4) {
		four(v);
	} else if (r == 8) {
		eight(v);
	} else {
		sixteen(v);
	}
}

#if RLX_VB == 32
/*
 * No instruction takes every other number of two whole vectors: of the halves of vectors one does,
 * and these are loaded and stored where they lie.
 */
RLX_INLINE cv cv_load(const FT *p, bool swap)
{
	FV a = (FV)vf_of_halves(p, p + FW), b = (FV)vf_of_halves(p + FW / 2, p + FW + FW / 2);
	FV re = __builtin_shufflevector(a, b, F_HALVES_EVEN);
	FV im = __builtin_shufflevector(a, b, F_HALVES_ODD);

	return swap ? (cv){ im, re } : (cv){ re, im };
}

/* The same, the last element first. */
RLX_INLINE cv cv_load_back(const FT *p)
{
	FV a = (FV)vf_of_halves(p + FW + FW / 2, p + FW / 2), b = (FV)vf_of_halves(p + FW, p);

	return (cv){ __builtin_shufflevector(a, b, F_HALVES_EVEN_BACK),
		     __builtin_shufflevector(a, b, F_HALVES_ODD_BACK) };
}
#else
RLX_INLINE cv cv_load(const FT *p, bool swap)
{
	FV a = F_LOADU(p), b = F_LOADU(p + FW);
	FV re = __builtin_shufflevector(a, b, F_EVEN), im = __builtin_shufflevector(a, b, F_ODD);

	return swap ? (cv){ im, re } : (cv){ re, im };
}

RLX_INLINE cv cv_load_back(const FT *p)
{
	FV a = F_LOADU(p), b = F_LOADU(p + FW);

	return (cv){ __builtin_shufflevector(a, b, F_EVEN_BACK),
		     __builtin_shufflevector(a, b, F_ODD_BACK) };
}
#endif

RLX_INLINE void cv_store(FT *p, cv c, bool swap)
{
	FV a = swap ? c.im : c.re, b = swap ? c.re : c.im;

	F_STOREU(p, __builtin_shufflevector(a, b, F_LO));
	F_STOREU(p + FW, __builtin_shufflevector(a, b, F_HI));
}

/* What is known of a pass where it is compiled. */
enum {
	TWIDDLED = 1,	/* with twiddle factors: not the last one */
	FROM_LINES = 2,	/* the first one, of lines */
	TO_LINES = 4,	/* the last one, to lines */
};

/* Where a step of a pass reads and writes, and distances from one of its elements to the next. */
struct fft_at {
	const cv	*x;
	cv		*y;
	const FT	*w, *from;
	FT		*to;
	int64_t		x_i, y_i, from_i, to_i;
};

RLX_INLINE void radix_step(const struct fft_pass *g, const struct fft_at *at, int r, int how)
{
	cv v[16];

	RLX_UNROLL
	for (int i = 0; i < r; i++)
		v[i] = how & FROM_LINES ? cv_load(at->from + i * at->from_i, g->lines->swap) :
		       at->x[i * at->x_i];
	if (r == 11 || r == 13 || (RLX_VB == 32 && (r == 5 || r == 7)))
		/* no registers for constants */
		small_prime(v, r, g->root, g->root + 1, 2);
	else
		butterfly(v, r);
	RLX_UNROLL
	for (int i = 0; i < r; i++) {
		cv c = how & TWIDDLED && i ? cv_times(v[i], at->w + 2 * (i - 1)) : v[i];

		if (how & TO_LINES)
			cv_store(at->to + i * at->to_i, c, g->lines->swap);
		else
			at->y[i * at->y_i] = c;
	}
}

/* One loop over p and q of struct fft_pass: distances are the same in all of it. */
RLX_INLINE void radix_pass(const struct fft_pass *g, int r, int how)
{
	const int64_t m = how & TWIDDLED ? g->m : 1, s = how & FROM_LINES ? 1 : g->s;
	struct fft_at at = { .x = g->x, .y = g->y, .w = g->w, .x_i = s * m, .y_i = s };

	if (how & FROM_LINES) {
		at.from = g->lines->from;
		at.from_i = m * g->lines->from_e;
	}
	if (how & TO_LINES) {
		at.to = g->lines->to;
		at.to_i = s * g->lines->to_e;
	}
	for (int64_t left = s * m, q = s; left--; at.x++, at.y++) {
		radix_step(g, &at, r, how);
		at.from += how & FROM_LINES ? g->lines->from_e : 0;
		at.to += how & TO_LINES ? g->lines->to_e : 0;
		if (!(how & TWIDDLED) || --q)
			continue;
		q = s;
		at.y += s * (r - 1);
		at.w += 2 * (r - 1);
	}
}

/* Whether there are registers for sixteen numbers, or nearly: rlx_k_fft_bits(). */
enum { HAS_SIXTEEN = RLX_VB == 64 };

/* Radices 3 to 15, where rlx_k_fft_odd_in_registers() has them; else false. */
RLX_INLINE bool odd_in_registers(const struct fft_pass *g, int r, int how)
{
	/* the first is known where this is compiled */
	if (RLX_VB <= 16 || (RLX_VB == 32 && how != TWIDDLED) ||
	    !rlx_k_fft_odd_in_registers(r, RLX_VB))
		return false;
	if (r == 3)
		radix_pass(g, 3, how);
	else if (r == 5)
		radix_pass(g, 5, how);
	else if (r == 7 || RLX_VB == 32)
		radix_pass(g, 7, how);
	else if (r == 9)
		radix_pass(g, 9, how);
	else if (r == 11)
		radix_pass(g, 11, how);
	else if (r == 13)
		radix_pass(g, 13, how);
	else
		radix_pass(g, 15, how);
	return true;
}

#if RLX_VB > 16
static __attribute__((noinline)) void from_lines(const struct fft_pass *g, int r)
{
	if (odd_in_registers(g, r, FROM_LINES | TWIDDLED))
		return;
	if (HAS_SIXTEEN && r == 16)
		radix_pass(g, 16, FROM_LINES | TWIDDLED);
	else if (r == 8)
		radix_pass(g, 8, FROM_LINES | TWIDDLED);
	else
		radix_pass(g, 4, FROM_LINES | TWIDDLED);
}

static __attribute__((noinline)) void to_lines(const struct fft_pass *g, int r)
{
	if (odd_in_registers(g, r, TO_LINES))
		return;
	if (HAS_SIXTEEN && r == 16)
		radix_pass(g, 16, TO_LINES);
	else if (r == 8)
		radix_pass(g, 8, TO_LINES);
	else
		radix_pass(g, 4, TO_LINES);
}
#else
RLX_INLINE void from_lines(const struct fft_pass *g, int r) { }
RLX_INLINE void to_lines(const struct fft_pass *g, int r) { }
#endif

RLX_INLINE bool of_lines(int r)
{
	return RLX_VB > 16 && rlx_k_fft_of_lines(r, RLX_VB);
}

RLX_INLINE void buffer_pass(const struct fft_pass *g, int r)
{
	if (g->m > 1)
		radix_pass(g, r, TWIDDLED);
	else
		radix_pass(g, r, 0);
}

/* Outputs at once, as there are registers for their sums */
enum { ODD_MOST = RLX_VB == 64 ? 4 : 2 };

/* Sums and differences of elements i and r - i, and where results go. */
struct fft_odd {
	const FT	*w;
	cv		*y, first;
	cv		sum[RLX_K_FFT_RADIX / 2], diff[RLX_K_FFT_RADIX / 2];
};

/* Outputs k to k + n - 1 and r less these. What is loaded of an element is for all of them. */
RLX_INLINE void odd_some(const struct fft_pass *g, const struct fft_odd *o, int r, int k, int n)
{
	const int64_t row = r / 2 * 2;
	const FT *root = g->root + (k - 1) * row;
	cv a[ODD_MOST], b[ODD_MOST];

	RLX_UNROLL
	for (int j = 0; j < n; j++) {
		a[j] = o->first;
		b[j] = (cv){ { 0 }, { 0 } };
	}
	for (int i = 0; i < r / 2; i++, root += 2) {
		RLX_UNROLL
		for (int j = 0; j < n; j++) {
			a[j].re += o->sum[i].re * root[j * row];
			a[j].im += o->sum[i].im * root[j * row];
			b[j].re += o->diff[i].re * root[j * row + 1];
			b[j].im += o->diff[i].im * root[j * row + 1];
		}
	}
	RLX_UNROLL
	for (int j = 0; j < n; j++) {
		const int at = k + j;

		o->y[g->s * at] = cv_times(cv_add(a[j], b[j]), o->w + 2 * (at - 1));
		o->y[g->s * (r - at)] = cv_times(cv_sub(a[j], b[j]), o->w + 2 * (r - at - 1));
	}
}

RLX_INLINE void odd_step(const struct fft_pass *g, int64_t p, int64_t q, int r)
{
	const cv *x = g->x + g->s * p + q;
	struct fft_odd o;	/* not all of it, so not set to 0 */
	int k = 1;
	cv all = x[0];

	o.w = g->w + 2 * (r - 1) * p;
	o.y = g->y + g->s * r * p + q;
	o.first = all;
	for (int i = 0; i < r / 2; i++) {
		cv a = x[g->s * g->m * (i + 1)], b = x[g->s * g->m * (r - 1 - i)];

		o.sum[i] = cv_add(a, b);
		o.diff[i] = cv_mul_i(cv_sub(a, b));
		all = cv_add(all, o.sum[i]);
	}
	o.y[0] = all;
	for (; ODD_MOST > 2 && k + ODD_MOST - 1 <= r / 2; k += ODD_MOST)
		odd_some(g, &o, r, k, ODD_MOST);
	for (; k < r / 2; k += 2)
		odd_some(g, &o, r, k, 2);
	if (k == r / 2)
		odd_some(g, &o, r, k, 1);
}

RLX_INLINE void odd_pass(const struct fft_pass *g, int r)
{
	for (int64_t p = 0; p < g->m; p++)
		for (int64_t q = 0; q < g->s; q++)
			odd_step(g, p, q, r);
}

static __attribute__((noinline)) void one_even_pass(const struct fft_pass *g, int r)
{
	if (r == 2)
		buffer_pass(g, 2);
#if RLX_VB > 16	/* the portable level is small: its lowering asks for no 8 */
	else if (r == 8)
		buffer_pass(g, 8);
#if RLX_VB > 32
	else if (r == 16)
		buffer_pass(g, 16);
#endif
#endif
	else
		buffer_pass(g, 4);
}

static __attribute__((noinline)) void one_odd_pass(const struct fft_pass *g, int r)
{
	if (odd_in_registers(g, r, TWIDDLED))
		return;
	odd_pass(g, r);
}

/*
 * The transform of @x, n vectors, or of @lines, which may be NULL; both buffers are used. Return:
 * the one that has it, if it is not written to lines.
 */
static cv *transform(const struct rlx_k_fft_core *c, cv *x, cv *other,
		     const struct fft_lines *lines)
{
	struct fft_pass g = { .w = c->w, .s = 1, .m = c->n, .lines = lines };

	for (int k = 0; k < c->n_factor; k++) {
		const int r = c->factor[k];
		cv *t = x;

		g.m /= r;
		g.root = g.w;
		g.w += rlx_k_fft_roots(r, RLX_VB);
		g.x = x;
		g.y = other;
		if (lines && lines->from && !k)
			from_lines(&g, r);
		else if (lines && lines->to && k + 1 == c->n_factor)
			to_lines(&g, r);
		else if (r % 2)
			one_odd_pass(&g, r);
		else
			one_even_pass(&g, r);
		g.w += 2 * (r - 1) * g.m;
		g.s *= r;
		x = other;
		other = t;
	}
	return x;
}

#endif
