// SPDX-License-Identifier: MIT
/*
 * Discrete Fourier transforms of short lines that follow one another: a thread has one, in
 * registers.
 *
 * Algorithm: dft() of fft_dft.h, of constants throughout. Of half a spectrum whose real part is
 * wanted, numbers beyond the middle are 0 and their partners twice as large; real lines of even
 * length are pairs, and what is between their spectrum and the line's has constants for roots, too.
 * What is 0 or not wanted the compiler leaves out.
 * Tiles: FFT_BLOCK lines a block, through shared memory in the order in which they lie, so that
 * loads and stores are whole sectors and no index takes a division.
 * Traffic: x and y once. The bound is memory; of large primes, instructions.
 * Limits: lines without gaps, of RLX_K_FFT_SHORT numbers at most; no chirp, no matrix.
 */
#include "kernels/fft.h"

#ifndef FFT_RESIDENT
#define FFT_RESIDENT	(1024 >> (FFT_TYPE == 1) >> (FFT_N > 12))
#endif
#define RLX_G_BLOCKS	(FFT_RESIDENT / FFT_BLOCK)
#include "kernels/gpu/dialect.h"

typedef rlx_t<FFT_TYPE> in_type;
typedef rlx_t<FFT_OUT_TYPE> out_type;
typedef in_type::acc num;

#include "kernels/gpu/fft_dft.h"

enum {
	N = FFT_N, BLOCK = FFT_BLOCK, IN_N = FFT_IN_N, OUT_N = FFT_OUT_N,
	IN = FFT_READ & 7, OUT = FFT_WRITE & 7,
};

/* What a number is in memory and in shared memory: a complex one, or a real one. */
template <int KIND, class M> struct number {
	typedef pair<M>	mem;
	typedef complex	sum;

	static DEV inline complex get(mem v)
	{
		return make(in_type::get(v.re), in_type::get(v.im));
	}

	static DEV inline complex to_complex(complex c)
	{
		return c;
	}

	static DEV inline complex from_complex(complex c)
	{
		return c;
	}

	static DEV inline mem put(complex c)
	{
		const mem v = { out_type::put(c.re), out_type::put(c.im) };

		return v;
	}
};

template <class M> struct number<RLX_K_FFT_REAL, M> {
	typedef M	mem;
	typedef num	sum;

	static DEV inline num get(M v)
	{
		return in_type::get(v);
	}

	static DEV inline complex to_complex(num v)
	{
		return make(v, 0);
	}

	static DEV inline num from_complex(complex c)
	{
		return c.re;
	}

	static DEV inline M put(num v)
	{
		return out_type::put(v);
	}
};

typedef number<IN, in_type::mem> in_number;
typedef number<OUT, out_type::mem> out_number;

/* Number @i of the block's lines of @EACH: lines of an even length would meet in a bank. */
template <int EACH> static DEV inline int place(int i)
{
	return EACH % 2 ? i : i + i / EACH;
}

/* The @k-th of the 2 N-th roots of 1. */
static DEV inline complex half_root(int k)
{
	constexpr circle<2 * N> w;

	return make(w.re[k], w.im[k]);
}

/* Of half a spectrum: of the mean, and of the middle, the imaginary part is 0. */
static DEV inline complex real_at(complex c, bool ends)
{
	return make(c.re, ends ? 0 : c.im);
}

/* A line of pairs from half the spectrum of what they are. */
static DEV inline void load_pairs(const in_number::sum *s, complex *v)
{
#pragma unroll
	for (int k = 0; k <= N / 2; k++) {
		const complex a = real_at(in_number::to_complex(s[k]), !k);
		const complex b = conjugate(real_at(in_number::to_complex(s[N - k]), !k));
		const both c = pairs_of_half(a, b, half_root(k));

		v[k] = c.at;
		if (k && 2 * k < N)
			v[N - k] = c.mirrored;
	}
}

static DEV inline void load_line(const in_number::sum *s, complex *v)
{
	if constexpr (IN == RLX_K_FFT_HALF_OF_PAIRS)
		load_pairs(s, v);
#pragma unroll
	for (int k = 0; k < N; k++) {
		if (IN == RLX_K_FFT_HALF && k < IN_N) {
			v[k] = real_at(in_number::to_complex(s[k]), !k || 2 * k == N);
			if (k && 2 * k < N)
				v[k] = plus(v[k], v[k]);
		} else if (IN != RLX_K_FFT_HALF_OF_PAIRS) {
			v[k] = k < IN_N ? in_number::to_complex(s[k]) : make(0, 0);
		}
		if (FFT_STEPS & RLX_K_FFT_SWAP_X)
			v[k] = swapped(v[k]);
	}
}

static DEV inline void store_number(out_number::sum *s, int k, complex c, num scale)
{
	if (FFT_STEPS & RLX_K_FFT_SWAP_Y)
		c = swapped(c);
	if (FFT_STEPS & RLX_K_FFT_SCALE)
		c = make(c.re * scale, c.im * scale);
	s[k] = out_number::from_complex(c);
}

static DEV inline void store_line(out_number::sum *s, const complex *v, num scale)
{
	if constexpr (OUT == RLX_K_FFT_HALF_OF_PAIRS) {
#pragma unroll
		for (int k = 0; k <= N / 2; k++) {
			const both c = half_of_pairs(v[k], conjugate(v[k ? N - k : 0]),
						     half_root(k));

			store_number(s, k, c.at, scale);
			if (2 * k < N)
				store_number(s, N - k, c.mirrored, scale);
		}
	} else {
#pragma unroll
		for (int k = 0; k < OUT_N; k++)
			store_number(s, k, v[k], scale);
	}
}

RLX_G_KERNEL_PDL(fft_short, struct rlx_k_fft_gpu, BLOCK)
{
	SHARED_DYNAMIC(buffer);
	constexpr int batch = IN_N < 12 ? IN_N : 8;
	in_number::sum *s = (in_number::sum *)buffer;
	out_number::sum *r = (out_number::sum *)buffer;
	const int t = (int)threadIdx.x;
	const int64_t first = (int64_t)blockIdx.x * BLOCK, left = a.digit[0].n - first;
	const int lines = left < BLOCK ? (int)left : BLOCK;
	const in_number::mem *x = RLX_G_PTR(const in_number::mem, a.x) + first * IN_N;
	out_number::mem *y = RLX_G_PTR(out_number::mem, a.y) + first * OUT_N;
	in_number::mem some[batch];
	complex v[N];

	pdl_wait();
#pragma unroll
	for (int i = 0; i < IN_N; i += batch) {
#pragma unroll
		for (int k = 0; k < batch; k++) {
			const int at = (i + k) * BLOCK + t;

			if (i + k < IN_N)
				some[k] = load_or(x + at, at < lines * IN_N, 0);
		}
#pragma unroll
		for (int k = 0; k < batch; k++)
			if (i + k < IN_N)
				s[place<IN_N>((i + k) * BLOCK + t)] = in_number::get(some[k]);
	}
	__syncthreads();
	load_line(s + place<IN_N>(t * IN_N), v);
	__syncthreads();
	dft<N>(v);
	store_line(r + place<OUT_N>(t * OUT_N), v, (num)a.scale);
	__syncthreads();
#pragma unroll
	for (int i = 0; i < OUT_N; i++) {
		const int at = i * BLOCK + t;

		if (at < lines * OUT_N)
			store_whole(y + at, out_number::put(r[place<OUT_N>(at)]));
	}
}
