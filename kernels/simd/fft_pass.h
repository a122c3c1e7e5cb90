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

/* What one pass is given. */
struct fft_pass {
	const cv	*x;
	cv		*y;
	const FT	*w;	/* twiddle factors, r - 1 for each p */
	const FT	*root;	/* cos and sin of 2 pi i / r */
	int64_t		s, m;	/* y[q + s (r p + k)] of x[q + s (p + m i)] */
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

RLX_INLINE void butterfly(cv *v, int r)
{
	const FT h = (FT)0.70710678118654752440;
	cv e[4], o[4];

	if (r == 2) {
		e[0] = v[0];
		v[0] = cv_add(e[0], v[1]);
		v[1] = cv_sub(e[0], v[1]);
		return;
	}
	if (r == 4) {
		four(v);
		return;
	}
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

/* @turned: with twiddle factors; of p = 0 they are 1 */
RLX_INLINE void even_step(const struct fft_pass *g, int64_t p, int r, bool turned)
{
	const FT *w = g->w + 2 * (r - 1) * p;
	const cv *x = g->x + g->s * p;
	cv *y = g->y + g->s * r * p;

	for (int64_t q = 0; q < g->s; q++) {
		cv v[8];

		RLX_UNROLL
		for (int i = 0; i < r; i++)
			v[i] = x[q + g->s * g->m * i];
		butterfly(v, r);
		y[q] = v[0];
		RLX_UNROLL
		for (int i = 1; i < r; i++)
			y[q + g->s * i] = turned ? cv_times(v[i], w + 2 * (i - 1)) : v[i];
	}
}

RLX_INLINE void even_pass(const struct fft_pass *g, int r)
{
	even_step(g, 0, r, false);
	for (int64_t p = 1; p < g->m; p++)
		even_step(g, p, r, true);
}

/* Outputs at once, as there are registers for their sums */
enum { ODD_MOST = RLX_VB == 64 ? 4 : 2 };

/* Sums and differences of elements i and r - i, and where results go. */
struct fft_odd {
	const FT	*w;
	cv		*y, first;
	cv		sum[RLX_K_FFT_RADIX / 2], diff[RLX_K_FFT_RADIX / 2];
};

/*
 * Outputs k to k + n - 1 and r less these; beyond r / 2 that one again. What is loaded of an
 * element is for all of them.
 */
RLX_INLINE void odd_some(const struct fft_pass *g, const struct fft_odd *o, int r, int k, int n)
{
	cv a[ODD_MOST], b[ODD_MOST];
	int at[ODD_MOST], step[ODD_MOST];

	RLX_UNROLL
	for (int j = 0; j < n; j++) {
		a[j] = o->first;
		b[j] = (cv){ { 0 }, { 0 } };
		at[j] = 0;
		step[j] = k + j < r / 2 ? k + j : r / 2;
	}
	for (int i = 0; i < r / 2; i++) {
		RLX_UNROLL
		for (int j = 0; j < n; j++) {
			const FT *root;

			at[j] += step[j];
			at[j] -= at[j] >= r ? r : 0;
			root = g->root + 2 * at[j];
			a[j].re += o->sum[i].re * root[0];
			a[j].im += o->sum[i].im * root[0];
			b[j].re += o->diff[i].re * root[1];
			b[j].im += o->diff[i].im * root[1];
		}
	}
	RLX_UNROLL
	for (int j = 0; j < n; j++) {
		k = step[j];
		o->y[g->s * k] = cv_times(cv_add(a[j], b[j]), o->w + 2 * (k - 1));
		o->y[g->s * (r - k)] = cv_times(cv_sub(a[j], b[j]), o->w + 2 * (r - k - 1));
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
	for (; ODD_MOST > 2 && r > 5 && k + ODD_MOST - 1 <= r / 2; k += ODD_MOST)
		odd_some(g, &o, r, k, ODD_MOST);
	for (; k <= r / 2; k += 2)
		odd_some(g, &o, r, k, 2);
}

RLX_INLINE void odd_pass(const struct fft_pass *g, int r)
{
	for (int64_t p = 0; p < g->m; p++)
		for (int64_t q = 0; q < g->s; q++)
			odd_step(g, p, q, r);
}

static __attribute__((noinline)) void one_pass(const struct fft_pass *g, int r)
{
	switch (r) {
	case 2:
		even_pass(g, 2);
		break;
	case 4:
		even_pass(g, 4);
		break;
#if RLX_VB > 16	/* the portable level is small: its lowering asks for no 8 */
	case 8:
		even_pass(g, 8);
		break;
	case 3:
		odd_pass(g, 3);
		break;
	case 5:
		odd_pass(g, 5);
		break;
#endif
	default:
		odd_pass(g, r);
	}
}

/* The transform of @x, n vectors; both buffers are used. Return: the one that has it. */
static cv *transform(const struct rlx_k_fft_core *c, cv *x, cv *other)
{
	struct fft_pass g = { .w = c->w, .s = 1, .m = c->n };

	for (int k = 0; k < c->n_factor; k++) {
		const int r = c->factor[k];
		cv *t = x;

		g.m /= r;
		g.root = g.w;
		g.w += r % 2 ? 2 * r : 0;
		g.x = x;
		g.y = other;
		one_pass(&g, r);
		g.w += 2 * (r - 1) * g.m;
		g.s *= r;
		x = other;
		other = t;
	}
	return x;
}

#endif
