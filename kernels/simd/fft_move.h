/* SPDX-License-Identifier: MIT */
/*
 * Vectors of complex numbers from lines in memory and back; included after fft_pass.h, for the
 * same FT, FV and FW, with F_LOADN and F_STOREN for the first numbers of a vector, and F_BITS,
 * the integer lanes of an FV.
 */
#ifndef RLX_SIMD_FFT_MOVE_H
#define RLX_SIMD_FFT_MOVE_H

#include "kernels/simd/transpose.h"

/* Which elements a tile of [ne][nl] is, and where they are. */
struct fft_tile {
	const struct rlx_k_fft_view	*view;
	FT	*p;		/* element 0 of lane 0, if it were there */
	int64_t	ne, nl;		/* at most FW lanes */
	int64_t	first;		/* (e, l) is element first + e along_e + l along_l of its line */
	int64_t	along_e, along_l;
	int64_t	to_e, to_l;	/* distances of those, in numbers */
};

/* So many lanes of @e are elements that are there. */
RLX_INLINE int64_t there(const struct fft_tile *t, int64_t e)
{
	int64_t left = t->view->n - t->first - e * t->along_e;

	if (!t->along_l)
		return left > 0 ? t->nl : 0;
	return left < 0 ? 0 : left < t->nl ? left : t->nl;
}

/* All lanes of whole vectors; the portable level is small. */
enum { IN_REGISTERS = RLX_VB > 16 };

static void transpose_square(FV r[FW])
{
	F_TRANSPOSE(r);
}

/* The transpose of a square from rows so many numbers apart. */
RLX_INLINE void load_turned(const FT *p, int64_t row, FV r[FW])
{
#if RLX_VB == 32	/* halves are brought where they belong as they are loaded */
	RLX_UNROLL
	for (int64_t i = 0; i < FW / 2; i++) {
		const FT *a = p + i * row, *b = a + FW / 2 * row;

		r[i] = (FV)vf_of_halves(a, b);
		r[i + FW / 2] = (FV)vf_of_halves(a + FW / 2, b + FW / 2);
	}
	F_TRANSPOSE_HALVES(r);
#else
	RLX_UNROLL
	for (int64_t i = 0; i < FW; i++)
		r[i] = F_LOADU(p + i * row);
	F_TRANSPOSE(r);
#endif
}

/* Of FW elements where there are no registers for two squares. */
static __attribute__((noinline, unused)) void turn_by_memory(cv *x)
{
	FT *p = (FT *)x;

	for (int k = 0; k < 2; k++, p += FW) {
		FV r[FW];

		load_turned(p, 2 * FW, r);
		RLX_UNROLL
		for (int64_t i = 0; i < FW; i++)
			F_STOREU(p + i * 2 * FW, r[i]);
	}
}

/* Lanes of FW elements become elements. */
RLX_INLINE void turn(cv *x)
{
	FV re[FW], im[FW];

	if (RLX_VB < 64 && FW > 4) {
		turn_by_memory(x);
		return;
	}
	RLX_UNROLL
	for (int64_t i = 0; i < FW; i++) {
		re[i] = x[i].re;
		im[i] = x[i].im;
	}
	F_TRANSPOSE(re);
	F_TRANSPOSE(im);
	RLX_UNROLL
	for (int64_t i = 0; i < FW; i++)
		x[i] = (cv){ re[i], im[i] };
}

/* Numbers of an element that lie side by side in a line of its own, or 0. */
RLX_INLINE int64_t side_by_side(const struct fft_tile *t)
{
	if (t->along_l)
		return 0;
	return t->to_e == 2 && t->view->part == 1 ? 2 : t->to_e == 1 && !t->view->part ? 1 : 0;
}

/* Masks are slow where there are no registers of them. */
RLX_INLINE FV load_some(const FT *p, int64_t n)
{
	return n >= FW ? F_LOADU(p) : F_LOADN(p, (size_t)n);
}

static void load_rows(const struct fft_tile *t, cv *d, bool swap, int64_t each)
{
	int64_t n = t->view->n - t->first, step = FW / each;

	n = (n < 0 ? 0 : n < t->ne ? n : t->ne) * each;
	for (int64_t e = 0; e < t->ne; e += step) {
		int64_t left = n - e * each;
		FV r[FW];

		if (IN_REGISTERS && t->nl == FW && left >= FW) {
			load_turned(t->p + e * each, t->to_l, r);
		} else {
			for (int64_t l = 0; l < FW; l++)
				r[l] = l < t->nl && left > 0 ?
				       load_some(t->p + l * t->to_l + e * each, left) :
				       (FV){ 0 };
			transpose_square(r);
		}
		for (int64_t i = 0; i < step && e + i < t->ne; i++) {
			FV re = r[i * each], im = each == 2 ? r[i * each + 1] : (FV){ 0 };

			d[e + i] = swap ? (cv){ im, re } : (cv){ re, im };
		}
	}
}

/* One by one: what is far apart. */
static cv load_apart(const FT *p, int64_t lanes, int64_t to_l, int64_t part)
{
	FT re[FW] = { 0 }, im[FW] = { 0 };
	cv c;

	for (int64_t l = 0; l < lanes; l++) {
		re[l] = p[l * to_l];
		im[l] = part ? p[l * to_l + part] : 0;
	}
	memcpy(&c.re, re, sizeof(c.re));
	memcpy(&c.im, im, sizeof(c.im));
	return c;
}

static void load_tile(const struct fft_tile *t, cv *d, bool swap)
{
	const int64_t each = side_by_side(t), part = t->view->part;

	if (each) {
		load_rows(t, d, swap, each);
		return;
	}
	for (int64_t e = 0; e < t->ne; e++) {
		const FT *p = t->p + e * t->to_e;
		int64_t n = there(t, e);
		cv c = { { 0 }, { 0 } };

		if (!n) {		/* as of all that follow: no more is read */
			memset(d + e, 0, (size_t)(t->ne - e) * sizeof(*d));
			return;
		}
		if (IN_REGISTERS && n == FW && t->to_l == 2 && part == 1) {
			c = cv_load(p, false);
		} else if (t->to_l == 1) {
			c.re = F_LOADN(p, (size_t)n);
			c.im = part ? F_LOADN(p + part, (size_t)n) : (FV){ 0 };
		} else if (t->to_l == 2 && part == 1) {
			FV a = F_LOADN(p, (size_t)(2 * n));
			FV b = 2 * n > FW ? F_LOADN(p + FW, (size_t)(2 * n - FW)) : (FV){ 0 };

			c.re = __builtin_shufflevector(a, b, F_EVEN);
			c.im = __builtin_shufflevector(a, b, F_ODD);
		} else {
			c = load_apart(p, n, t->to_l, part);
		}
		d[e] = swap ? (cv){ c.im, c.re } : c;
	}
}

static void store_rows(const struct fft_tile *t, const cv *s, int64_t each)
{
	int64_t n = t->view->n - t->first, step = FW / each;

	n = (n < 0 ? 0 : n < t->ne ? n : t->ne) * each;
	for (int64_t e = 0; e * each < n; e += step) {
		FV r[FW];

		for (int64_t i = 0; i < step; i++) {
			cv c = e + i < t->ne ? s[e + i] : (cv){ { 0 }, { 0 } };

			r[i * each] = c.re;
			if (each == 2)
				r[i * each + 1] = c.im;
		}
		if (IN_REGISTERS && t->nl == FW && n - e * each >= FW) {
			F_TRANSPOSE(r);
			RLX_UNROLL
			for (int64_t l = 0; l < FW; l++)
				F_STOREU(t->p + l * t->to_l + e * each, r[l]);
			continue;
		}
		transpose_square(r);
		for (int64_t l = 0; l < t->nl; l++)
			if (n - e * each >= FW)
				F_STOREU(t->p + l * t->to_l + e * each, r[l]);
			else
				F_STOREN(t->p + l * t->to_l + e * each, r[l],
					 (size_t)(n - e * each));
	}
}

static void store_tile(const struct fft_tile *t, const cv *s)
{
	const int64_t part = t->view->part, each = side_by_side(t);

	if (each) {
		store_rows(t, s, each);
		return;
	}
	for (int64_t e = 0; e < t->ne; e++) {
		FT *p = t->p + e * t->to_e;
		size_t n = (size_t)there(t, e);
		cv c = s[e];

		if (!n)			/* nor is any that follows */
			return;
		if (IN_REGISTERS && n == FW && t->to_l == 2 && part == 1) {
			cv_store(p, c, false);
		} else if (t->to_l == 2 && part == 1) {
			F_STOREN(p, __builtin_shufflevector(c.re, c.im, F_LO), 2 * n);
			if (2 * n > FW)
				F_STOREN(p + FW, __builtin_shufflevector(c.re, c.im, F_HI),
					 2 * n - FW);
		} else if (t->to_l == 1) {
			F_STOREN(p, c.re, n);
			if (part)
				F_STOREN(p + part, c.im, n);
		} else {
			for (size_t l = 0; l < n; l++) {
				p[(int64_t)l * t->to_l] = c.re[l];
				if (part)
					p[(int64_t)l * t->to_l + part] = c.im[l];
			}
		}
	}
}

#endif
