// SPDX-License-Identifier: MIT
/*
 * Discrete Fourier transforms of any length: Stockham's passes, and Bluestein's chirp where a prime
 * factor is large.
 *
 * Algorithm: decimation in frequency, as kernels/simd/fft_pass.h has it: pass by pass from one
 * buffer to the other, a butterfly a thread. Twiddle factors come from one table of the n-th
 * roots. A chirp is two transforms with a product between them.
 * Tiles: FFT_SHARED: a line a block of 256 threads, all passes in shared memory. Else a launch
 * each pass, threads over the butterflies of all lines, buffers in scratch.
 * Traffic: FFT_SHARED: x and y once; else each pass reads and writes all.
 * The bound is memory; the shared form does 2 r multiply-adds for each element and pass of radix r.
 * Limits: float types of 16 bits or more, computed in f32, f64 in f64. Real lines are transformed
 * as complex ones.
 */
#include "kernels/fft.h"
#include "kernels/gpu/dialect.h"

typedef rlx_t<FFT_TYPE> type;	/* of x and y */
typedef type::acc num;

struct complex {
	num	re, im;
};

static DEV inline complex times(complex a, complex b)
{
	complex c = { a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };

	return c;
}

static DEV inline complex swapped(complex a)
{
	complex c = { a.im, a.re };

	return c;
}

/* A transform at work: one line of it, or where all lines are. */
struct work {
	const struct rlx_k_fft_gpu	*a;
	const type::mem			*x;
	type::mem			*y;
	const complex			*roots, *chirp, *spectrum;
};

/* Element @i of the line at @x, 0 where there is none. */
static DEV inline complex read(const work &w, const type::mem *x, int64_t i)
{
	const rlx_k_fft_view &v = w.a->in;
	int64_t whole = w.a->chirp_n ? w.a->chirp_n : w.a->n, at = i;
	complex c = { 0, 0 };

	if (i >= whole)
		return c;
	if (v.kind == RLX_K_FFT_HALF && 2 * i > whole)
		at = whole - i;
	if (at >= v.n)
		return c;
	c.re = type::get(x[at * v.stride]);
	/* of the mean, and of the middle, it is 0 */
	if (v.part && !(v.kind == RLX_K_FFT_HALF && (!i || 2 * i == whole)))
		c.im = type::get(x[at * v.stride + v.part]);
	if (at != i)
		c.im = -c.im;
	if (w.a->inverse)
		c = swapped(c);
	return w.a->chirp_n ? times(c, w.chirp[i]) : c;
}

static DEV inline void write(const work &w, type::mem *y, int64_t i, complex c)
{
	const rlx_k_fft_view &v = w.a->out;

	if (i >= v.n)
		return;
	if (w.a->chirp_n)
		c = times(swapped(c), w.chirp[i]);
	if (w.a->inverse)
		c = swapped(c);
	y[i * v.stride] = type::put(c.re * (num)w.a->scale);
	if (v.part)
		y[i * v.stride + v.part] = type::put(c.im * (num)w.a->scale);
}

/* One pass of one line: from @from, NULL: x, to @to, NULL: y. */
struct pass {
	const complex	*from;
	complex		*to;
	int64_t		s, m;
	int		r;
	bool		to_spectrum;	/* the last of the first of two */
};

static DEV inline complex load(const work &w, const pass &p, const type::mem *x, int64_t i)
{
	return p.from ? p.from[i] : read(w, x, i);
}

static DEV inline void store(const work &w, const pass &p, type::mem *y, int64_t i, complex c)
{
	if (p.to_spectrum)
		c = swapped(times(c, w.spectrum[i]));
	if (p.to)
		p.to[i] = c;
	else
		write(w, y, i, c);
}

/* Butterfly @i of a line, of radix R; 0: of any, number by number. */
template <int R> static DEV inline void butterfly(const work &w, const pass &p,
						  const type::mem *x, type::mem *y, int64_t i)
{
	const int r = R ? R : p.r;
	const int64_t q = i % p.s, at = i / p.s, unit = w.a->n / r;
	complex v[R ? R : 1];

	for (int k = 0; k < R; k++)
		v[k] = load(w, p, x, q + p.s * (at + p.m * k));
	for (int k = 0; k < r; k++) {
		complex sum = { 0, 0 };

		for (int j = 0; j < r; j++) {
			complex e = R ? v[R ? j : 0] : load(w, p, x, q + p.s * (at + p.m * j));
			complex t = times(e, w.roots[(int64_t)(j * k % r) * unit]);

			sum.re += t.re;
			sum.im += t.im;
		}
		store(w, p, y, q + p.s * (r * at + k), times(sum, w.roots[at * k * p.s]));
	}
}

static DEV inline void any_butterfly(const work &w, const pass &p, const type::mem *x,
				     type::mem *y, int64_t i)
{
	switch (p.r) {
	case 2:
		butterfly<2>(w, p, x, y, i);
		break;
	case 3:
		butterfly<3>(w, p, x, y, i);
		break;
	case 4:
		butterfly<4>(w, p, x, y, i);
		break;
	case 5:
		butterfly<5>(w, p, x, y, i);
		break;
	case 7:
		butterfly<7>(w, p, x, y, i);
		break;
	default:
		butterfly<0>(w, p, x, y, i);
	}
}

/* Pass @k of all that are; stride and rest of it follow from those ahead. */
static DEV inline pass pass_of(const struct rlx_k_fft_gpu &a, int k, complex *b0, complex *b1)
{
	const int passes = a.n_factor * (a.chirp_n ? 2 : 1), at = k % a.n_factor;
	pass p = { k ? (k % 2 ? b0 : b1) : NULL, k + 1 < passes ? (k % 2 ? b1 : b0) : NULL, 1,
		   a.n, 1, a.chirp_n && k == a.n_factor - 1 };

	for (int i = 0; i <= at; i++) {
		p.s *= i ? a.factor[i - 1] : 1;
		p.r = a.factor[i];
		p.m /= p.r;
	}
	return p;
}

RLX_G_KERNEL(fft, struct rlx_k_fft_gpu, 256)
{
	SHARED_DYNAMIC(buffers);
	const int64_t lines = a.outer * a.inner;
	const int passes = a.n_factor * (a.chirp_n ? 2 : 1);
	work w = { &a, RLX_G_PTR(const type::mem, a.x), RLX_G_PTR(type::mem, a.y),
		   RLX_G_PTR(const complex, a.roots), RLX_G_PTR(const complex, a.chirp),
		   RLX_G_PTR(const complex, a.spectrum) };

	if (FFT_SHARED) {
		complex *b = (complex *)buffers;

		for (int64_t l = blockIdx.x; l < lines; l += gridDim.x) {
			const int64_t o = l / a.inner, i = l % a.inner;

			for (int k = 0; k < passes; k++) {
				pass p = pass_of(a, k, b, b + a.n);

				for (int64_t t = threadIdx.x; t < a.n / p.r; t += blockDim.x)
					any_butterfly(w, p, w.x + o * a.in.outer + i * a.in.inner,
						      w.y + o * a.out.outer + i * a.out.inner, t);
				__syncthreads();
			}
		}
	} else {
		complex *b = (complex *)env.scratch;
		pass p = pass_of(a, (int)env.pass, b, b + lines * a.n);
		const int64_t each = a.n / p.r;

		for (int64_t t = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; t < lines * each;
		     t += gridDim.x * (int64_t)blockDim.x) {
			const int64_t l = t / each, o = l / a.inner, i = l % a.inner;
			pass one = p;

			one.from = p.from ? p.from + l * a.n : NULL;
			one.to = p.to ? p.to + l * a.n : NULL;
			any_butterfly(w, one, w.x + o * a.in.outer + i * a.in.inner,
				      w.y + o * a.out.outer + i * a.out.inner, t % each);
		}
	}
}
