// SPDX-License-Identifier: MIT
/*
 * Discrete Fourier transforms: lines through shared memory, compiled for their length.
 *
 * Algorithm: Stockham's passes, decimation in time: FFT_THREADS threads have a line, each its
 * butterflies of a pass in registers, of radices that are made of smaller ones with constants for
 * roots; the roots between passes are powers of one that comes from a table. Lines longer than
 * shared memory are matrices: a launch has the columns, and multiplies by what is between it and
 * the next, which has the rows and writes them as columns. Real lines of even length are pairs, of
 * half the length; long ones leave out the half of the matrix that is the other's conjugate.
 * Bluestein's chirp, where a prime factor is large: two transforms, a product between them.
 * Tiles: FFT_LINES lines a block. Lines that lie across (next to one another in memory) have
 * neighbouring threads, others the elements of each; where one is read and the other written, or
 * a line has few threads, the last pass goes through shared memory.
 * Traffic: x and y once; the same of f32 or f64 in scratch for each launch more.
 * The bound is memory.
 * Limits: float types of 16 bits or more, computed in f32, f64 in f64.
 */
#include "kernels/fft.h"

#ifndef FFT_RESIDENT
#define FFT_RESIDENT	RLX_K_FFT_RESIDENT(FFT_TYPE == 1, FFT_N, FFT_THREADS, FFT_RADICES)
#endif
#define RLX_G_BLOCKS	(FFT_BLOCK < FFT_RESIDENT ? FFT_RESIDENT / FFT_BLOCK : 1)
#include "kernels/gpu/dialect.h"

enum {
	N = FFT_N, T = FFT_THREADS, L = FFT_LINES, BLOCK = FFT_BLOCK,
	IN = FFT_READ & 7, OUT = FFT_WRITE & 7,
	ACROSS = FFT_ACROSS & 1, OUT_ACROSS = FFT_ACROSS >> 1 & 1, DIRECT = FFT_ACROSS >> 2 & 1,
	TWICE = !!(FFT_STEPS & RLX_K_FFT_CONVOLVE), STAGED = !DIRECT && !ACROSS,
	STAGE_IN = STAGED || IN == RLX_K_FFT_HALF_OF_PAIRS,
	STAGE_OUT = STAGED || OUT == RLX_K_FFT_HALF_OF_PAIRS || ACROSS != OUT_ACROSS,
	LINE_IN_WARP = !ACROSS && T <= WARP && WARP % T == 0,
	/*
	 * Where the real part is all that is wanted, half a spectrum is as good as a whole one of
	 * which the conjugates are 0 and their partners twice as large.
	 */
	FOLDED = IN == RLX_K_FFT_HALF &&
		 (OUT == RLX_K_FFT_REAL || (FFT_STEPS & RLX_K_FFT_CHIRP_X)),
};

typedef rlx_t<FFT_TYPE> in_type;
typedef rlx_t<FFT_OUT_TYPE> out_type;
typedef in_type::acc num;

#include "kernels/gpu/fft_dft.h"

/* ---- lines ---- */

/* A block's lines: @left of them, and where the first one is. */
struct work {
	const rlx_k_fft_gpu	*a;
	const in_type::mem	*x;
	out_type::mem		*y;
	const complex		*roots, *chirp, *spectrum, *turns, *split;
	int			in_at, out_at, left;
	num			scale;
};

/* A number of a line: its position, and where it is. */
struct source {
	int			pos;
	const in_type::mem	*p;
};

struct target {
	int			pos;
	out_type::mem		*p;
};

/* Distances within a block. */
template <int SIDE> struct distance_of { typedef int64_t type; };
template <> struct distance_of<RLX_K_FFT_NEAR> { typedef int type; };
typedef distance_of<FFT_READ & RLX_K_FFT_NEAR>::type in_distance;
typedef distance_of<FFT_WRITE & RLX_K_FFT_NEAR>::type out_distance;

static DEV inline in_distance in_stride(const work &w)
{
	return !(FFT_READ & RLX_K_FFT_DENSE) ? (in_distance)w.a->in.stride :
	       IN == RLX_K_FFT_REAL ? 1 : 2;
}

static DEV inline out_distance out_stride(const work &w)
{
	return !(FFT_WRITE & RLX_K_FFT_DENSE) ? (out_distance)w.a->out.stride :
	       OUT == RLX_K_FFT_REAL ? 1 : 2;
}

/* So many positions from element to element. */
static DEV inline int in_step(const work &w)
{
	return FFT_READ & RLX_K_FFT_DENSE ? 1 : (int)w.a->in_step;
}

static DEV inline int out_step(const work &w)
{
	return FFT_WRITE & RLX_K_FFT_DENSE ? 1 : (int)w.a->out_step;
}

static DEV inline source source_at(const work &w, int l, int pos)
{
	return source{ pos, w.x + (l * (in_distance)w.a->digit[0].in + pos * in_stride(w)) };
}

static DEV inline int first_in(const work &w, int l)
{
	return FFT_READ & RLX_K_FFT_DENSE ? 0 : w.in_at + l * (int)w.a->digit[0].in_at;
}

/* Beyond the last line it is of that one. */
static DEV inline int there(const work &w, int l)
{
	return l < w.left ? l : w.left - 1;
}

static DEV inline source source_of(const work &w, int l, int i)
{
	l = there(w, l);
	return source_at(w, l, first_in(w, l) + i * in_step(w));
}

static DEV inline target target_at(const work &w, int l, int pos)
{
	return target{ pos, w.y + (l * (out_distance)w.a->digit[0].out + pos * out_stride(w)) };
}

static DEV inline target target_of(const work &w, int l, int i)
{
	const int at = w.out_at + l * (int)w.a->digit[0].out_at;

	return target_at(w, l, (FFT_WRITE & RLX_K_FFT_DENSE ? 0 : at) + i * out_step(w));
}

/* What is there, 0 where nothing is. */
static DEV inline complex get(const work &w, source x)
{
	if ((FFT_READ & RLX_K_FFT_CUT) && x.pos >= (int)w.a->in.n)
		return make(0, 0);
	if (IN == RLX_K_FFT_REAL)
		return make(in_type::get(*x.p), 0);
	if (FFT_READ & RLX_K_FFT_ALIGNED) {
		const pair<in_type::mem> both = *(const pair<in_type::mem> *)x.p;

		return make(in_type::get(both.re), in_type::get(both.im));
	}
	return make(in_type::get(*x.p), in_type::get(x.p[w.a->in.part]));
}

/* The transform's own length: of pairs, half of the line's. */
static DEV inline int length(const work &w)
{
	return FFT_STEPS & (RLX_K_FFT_CHIRP_X | RLX_K_FFT_CHIRP_Y) ? (int)w.a->whole : N;
}

/* Root @e from a table of the first 2^bits and of each of these. */
static DEV inline complex root_of(const complex *table, uint32_t bits, uint32_t e)
{
	const uint32_t low = 1u << bits;

	return times(table[e & (low - 1)], table[low + (e >> bits)]);
}

/* What the columns of a matrix are multiplied by. */
static DEV inline complex matrix_root(const work &w, uint32_t e)
{
	return root_of(w.turns, w.a->turns_bits, e);
}

/* Of half a spectrum: of the mean, and of the middle, the imaginary part is 0. */
static DEV inline complex get_half(const work &w, int l, int at)
{
	const int whole = (int)w.a->whole;
	complex c = get(w, source_at(w, there(w, l), at));

	if (!at || (IN == RLX_K_FFT_HALF ? 2 * at == whole :
		    at == (IN == RLX_K_FFT_HALF_TO_PAIRS ? whole : length(w))))
		c.im = 0;
	return c;
}

/* Element @at of the spectrum of pairs, from half a spectrum. */
static DEV inline complex of_pairs(const work &w, int l, int at)
{
	const complex a = get_half(w, l, at);
	const complex b = conjugate(get_half(w, l, (int)w.a->whole - at));

	return pairs_of_half(a, b, root_of(w.split, w.a->split_bits, (uint32_t)at)).at;
}

static DEV inline complex read_spectrum(const work &w, int l, source x)
{
	const int whole = (int)w.a->whole;
	const bool beyond = 2 * x.pos > whole;
	complex c;

	if (IN == RLX_K_FFT_HALF_TO_PAIRS)
		return x.pos < whole ? of_pairs(w, l, x.pos) : make(0, 0);
	if (IN != RLX_K_FFT_HALF)
		return get(w, x);
	if (!FOLDED)
		return beyond ? conjugate(get_half(w, l, whole - x.pos)) : get_half(w, l, x.pos);
	/* one is loaded in any case, lest loads wait for branches */
	c = get_half(w, l, beyond ? 0 : x.pos);
	if (x.pos && 2 * x.pos < whole)
		c = plus(c, c);
	return beyond ? make(0, 0) : c;
}

static DEV inline complex read(const work &w, int l, source x)
{
	complex c = read_spectrum(w, l, x);

	if (FFT_STEPS & RLX_K_FFT_SWAP_X)
		c = swapped(c);
	if ((FFT_STEPS & RLX_K_FFT_CHIRP_X) && x.pos < (int)w.a->whole)
		c = times(c, w.chirp[x.pos]);
	return c;
}

static DEV inline void put(const work &w, target y, complex c)
{
	if ((FFT_WRITE & RLX_K_FFT_CUT) && y.pos >= (int)w.a->out.n)
		return;
	if (FFT_STEPS & RLX_K_FFT_SCALE)
		c = make(c.re * w.scale, c.im * w.scale);
	if (OUT == RLX_K_FFT_REAL) {
		*y.p = out_type::put(c.re);
	} else if (FFT_WRITE & RLX_K_FFT_ALIGNED) {
		const pair<out_type::mem> both = { out_type::put(c.re), out_type::put(c.im) };

		store_whole((pair<out_type::mem> *)y.p, both);
	} else {
		*y.p = out_type::put(c.re);
		y.p[w.a->out.part] = out_type::put(c.im);
	}
}

static DEV inline void write(const work &w, int l, target y, complex c)
{
	if ((FFT_WRITE & RLX_K_FFT_CUT) && y.pos >= (int)w.a->out_end)
		return;
	if (FFT_STEPS & RLX_K_FFT_SPECTRUM)
		c = swapped(times(c, w.spectrum[y.pos]));
	if (FFT_STEPS & RLX_K_FFT_CHIRP_Y)
		c = times(swapped(c), w.chirp[y.pos]);
	if (FFT_STEPS & RLX_K_FFT_SWAP_Y)
		c = swapped(c);
	if (OUT == RLX_K_FFT_HALF && 2 * y.pos > (int)w.a->whole) {
		const int row = y.pos % (int)w.a->rows;

		/* whose conjugate nobody else has */
		if (!row || 2 * row == (int)w.a->rows)
			return;
		y = target_at(w, l, (int)w.a->whole - y.pos);
		c.im = -c.im;
	}
	put(w, y, c);
}

/* ---- shared memory ---- */

/*
 * A number more after so many as the banks have, where powers of two would meet in one. Next to
 * one another: elements of a line, or those of all lines that have the same place in theirs.
 */
enum { BANKS = 64 / (int)sizeof(num), PADDED = N % 4 == 0, UNIT = ACROSS ? L : 1 };

static DEV inline int padded(int i)
{
	return PADDED ? i + (int)((unsigned int)i / BANKS) : i;
}

static DEV inline int place(int l, int i)
{
	return ACROSS ? padded(i * L + l) : l * (RLX_K_FFT_PADDED(N, sizeof(num)) | 1) + padded(i);
}

/* The same of i + step; what @even says: the padding between them depends on @step alone. */
static DEV inline int place_after(int l, int i, int step, bool even)
{
	return even ? place(l, i) + padded(step * UNIT) : place(l, i + step);
}

static DEV inline void sync(bool lines)
{
	if (LINE_IN_WARP && !lines)
		warp_sync();
	else
		__syncthreads();
}

static DEV inline void store_spectrum(const work &w, complex *s, int l, int k, complex c)
{
	c = swapped(c);
	s[place(l, k)] = FFT_STEPS & RLX_K_FFT_CHIRP_X ? times(c, w.chirp[k]) : c;
}

/*
 * A thread's share of @each numbers of every line: those of one line, where a line has threads
 * enough for whole sectors, so that no number takes a division; else by turns over all lines.
 */
template <bool SIDE_BY_SIDE> struct share {
	enum { STEP = BLOCK / L, OF_LINE = SIDE_BY_SIDE || STEP >= 16 };
	int	each, line, at;

	DEV share(int n) : each(n)
	{
		const int t = (int)threadIdx.x;

		line = !OF_LINE ? 0 : SIDE_BY_SIDE ? t % L : t / STEP;
		at = !OF_LINE ? t : SIDE_BY_SIDE ? t / L : t % STEP;
		if (OF_LINE && t >= L * STEP)
			at = n;
	}

	DEV bool more(int k) const
	{
		return OF_LINE ? at + k * STEP < each : at + k * BLOCK < L * each;
	}

	DEV int l(int k) const
	{
		return OF_LINE ? line : (at + k * BLOCK) / each;
	}

	DEV int i(int k) const
	{
		return OF_LINE ? at + k * STEP : (at + k * BLOCK) % each;
	}

	DEV void go_on(int k)
	{
		at += k * (OF_LINE ? STEP : BLOCK);
	}
};

/* All that the block has, from x to shared memory: several under way at once. */
static DEV inline void stage_in(const work &w, complex *s)
{
	constexpr int rounds = (L * N + BLOCK - 1) / BLOCK, batch = rounds < 8 ? rounds : 8;

	for (share<ACROSS> mine(N); mine.more(0); mine.go_on(batch)) {
		complex c[batch];

#pragma unroll
		for (int k = 0; k < batch; k++)
			if (mine.more(k))
				c[k] = read(w, mine.l(k), source_of(w, mine.l(k), mine.i(k)));
#pragma unroll
		for (int k = 0; k < batch; k++)
			if (mine.more(k))
				s[place(mine.l(k), mine.i(k))] = c[k];
	}
}

static DEV inline void stage_out(const work &w, complex *s)
{
#pragma unroll 4
	for (share<OUT_ACROSS> mine(N); mine.more(0); mine.go_on(1)) {
		const int l = mine.l(0), i = mine.i(0);

		if (l < w.left)
			write(w, l, target_of(w, l, i), s[place(l, i)]);
	}
}

/* From half a spectrum that of the pairs: elements k and n - k of either. */
static DEV inline void stage_in_halves(const work &w, complex *s)
{
	const int n = length(w);

	for (share<ACROSS> mine(n / 2 + 1); mine.more(0); mine.go_on(4)) {
		complex a[4], b[4], root[4];

#pragma unroll
		for (int u = 0; u < 4; u++) {
			const int l = mine.l(u), k = mine.i(u);

			if (!mine.more(u))
				break;
			a[u] = get_half(w, l, k);
			b[u] = conjugate(get_half(w, l, n - k));
			root[u] = w.split[k];
		}
#pragma unroll
		for (int u = 0; u < 4; u++) {
			const int l = mine.l(u), k = mine.i(u);
			const both c = pairs_of_half(a[u], b[u], root[u]);

			if (!mine.more(u))
				break;
			store_spectrum(w, s, l, k, c.at);
			if (k)
				store_spectrum(w, s, l, n - k, c.mirrored);
		}
	}
	for (int e = (int)threadIdx.x; e < L * (N - n); e += BLOCK)	/* beyond a chirp's */
		s[place(e % L, n + e / L)] = make(0, 0);
}

/* And the other way round. */
static DEV inline void stage_out_halves(const work &w, complex *s)
{
	const int n = length(w);

#pragma unroll 4
	for (share<OUT_ACROSS> mine(n / 2 + 1); mine.more(0); mine.go_on(1)) {
		const int l = mine.l(0), k = mine.i(0);
		const both c = half_of_pairs(s[place(l, k)],
					     conjugate(s[place(l, k ? n - k : 0)]), w.split[k]);

		if (l >= w.left)
			continue;
		put(w, target_at(w, l, k), c.at);
		if (2 * k != n)
			put(w, target_at(w, l, n - k), c.mirrored);
	}
}

/* ---- passes ---- */

/* Pass @P: its radix, those ahead multiplied, butterflies of a line and of a thread. */
template <int P> struct factor {
	enum {
		R = FFT_RADICES >> 5 * P & 31, S = factor<P - 1>::S * factor<P - 1>::R, M = N / R,
		B = (M + T - 1) / T, LAST = S * R == N,
	};
};

template <> struct factor<-1> {
	enum { R = 1, S = 1 };
};

/* Multiples of @n, and where they are padded, fall together. */
static constexpr DEV bool even(int n)
{
	return !PADDED || n % BANKS == 0 || BANKS % n == 0;
}

/* v[r] times first root^r */
template <int R> static DEV inline void turn(complex *v, complex root)
{
	complex power[R];

#pragma unroll
	for (int r = 1; r < R; r++) {
		power[r] = r > 1 ? times(power[r / 2], power[r - r / 2]) : root;
		v[r] = times(v[r], power[r]);
	}
}

template <int P> static DEV inline void load_roots(const work &w, int first, complex *root)
{
	typedef factor<P> f;

#pragma unroll
	for (int b = 0; b < f::B && f::S > 1 && f::R > 1; b++) {
		const unsigned int j = (unsigned int)(first + T * b);

		if (f::M % T == 0 || j < f::M)
			root[b] = w.roots[j % f::S * (f::M / f::S)];
	}
}

/* Where the first of butterfly @j's numbers goes in the order of this pass. */
template <int P> static DEV inline int stored_at(int j)
{
	typedef factor<P> f;
	const int q = (int)((unsigned int)j / f::S);

	return q * (f::S * f::R) + j - q * f::S;
}

/* Butterfly @j's numbers to where they are in the order of this pass. */
template <int P, int ROUND> static DEV inline void store_all(const work &w, complex *s, int l,
							     int j, complex *v)
{
	typedef factor<P> f;
	constexpr bool even_store = even(f::S * UNIT) && even(f::S * f::R * UNIT);
	const int i = stored_at<P>(j);

	if (f::LAST && TWICE && ROUND && OUT == RLX_K_FFT_HALF_OF_PAIRS)
#pragma unroll
		for (int r = 0; r < f::R; r++)
			if (i + f::S * r < length(w))
				v[r] = times(swapped(v[r]), w.chirp[i + f::S * r]);
	if (f::LAST && ROUND == TWICE && !STAGE_OUT) {
		const int step = f::S * out_step(w);
		const out_distance delta = step * out_stride(w);
		target y = target_of(w, l, i);

		if (l >= w.left)
			return;
		if (FFT_STEPS & RLX_K_FFT_TURN) {
			const uint32_t at = (uint32_t)first_in(w, l);
			const complex begin = matrix_root(w, at * (uint32_t)i);

#pragma unroll
			for (int r = 0; r < f::R; r++)
				v[r] = times(v[r], begin);
			turn<f::R>(v, matrix_root(w, at * (uint32_t)f::S));
		}
#pragma unroll
		for (int r = 0; r < f::R; r++, y.pos += step, y.p += delta)
			write(w, l, y, v[r]);
	} else {
#pragma unroll
		for (int r = 0; r < f::R; r++)
			s[place_after(l, i, f::S * r, even_store)] = v[r];
	}
}

/* A butterfly's part of the chirp's spectrum. */
template <int P> static DEV inline void load_spectrum(const work &w, int j, complex *c)
{
	typedef factor<P> f;
	const int i = stored_at<P>(j);

#pragma unroll
	for (int r = 0; r < f::R; r++)
		c[r] = w.spectrum[i + f::S * r];
}

template <int R> static DEV inline void convolve(complex *v, const complex *c)
{
#pragma unroll
	for (int r = 0; r < R; r++)
		v[r] = swapped(times(v[r], c[r]));
}

template <int P, int ROUND> static DEV inline void passes(const work &w, complex *s, int l, int t,
							  const complex *root)
{
	typedef factor<P> f;
	typedef factor<P + !f::LAST> after;
	constexpr bool from_x = !P && !ROUND && !STAGE_IN;
	constexpr bool end = f::LAST && ROUND == TWICE, to_y = end && !STAGE_OUT;
	constexpr bool even_load = !PADDED || f::M * UNIT % BANKS == 0;
	const bool on = T * L == BLOCK || (int)threadIdx.x < T * L;
	const int first = compute_anew(t);	/* or what is made of it would stay in registers */
	constexpr bool convolved = f::LAST && ROUND < TWICE;
	/* the spectrum is loaded ahead of the barrier where registers are left */
	constexpr bool ahead = convolved && f::B * f::R <= 8;
	complex v[f::B][f::R], next[after::B], c[ahead ? f::B : 1][f::R];

	if (!f::LAST && on)
		load_roots<P + !f::LAST>(w, first, next);
	if (from_x)
		pdl_wait();
#pragma unroll
	for (int b = 0; b < f::B; b++) {
		const int j = first + T * b, step = f::M * in_step(w);
		const in_distance delta = step * in_stride(w);

		if (!on || (f::M % T && j >= f::M))
			break;
		if (from_x) {
			source x = source_of(w, l, j);

#pragma unroll
			for (int r = 0; r < f::R; r++, x.pos += step, x.p += delta)
				v[b][r] = read(w, l, x);
		} else {
#pragma unroll
			for (int r = 0; r < f::R; r++)
				v[b][r] = s[place_after(l, j, f::M * r, even_load)];
		}
		if constexpr (ahead)
			load_spectrum<P>(w, j, c[b]);
	}
	if (!from_x && !to_y)
		sync(false);
#pragma unroll
	for (int b = 0; b < f::B; b++) {
		if (!on || (f::M % T && first + T * b >= f::M))
			break;
		if constexpr (f::S > 1 && f::R > 1)
			turn<f::R>(v[b], root[b]);
		dft<f::R>(v[b]);
		if constexpr (convolved && !ahead)
			load_spectrum<P>(w, first + T * b, c[0]);
		if constexpr (convolved)
			convolve<f::R>(v[b], c[ahead ? b : 0]);
		store_all<P, ROUND>(w, s, l, first + T * b, v[b]);
	}
	if (!to_y)
		sync(end);
	if constexpr (!f::LAST)
		passes<P + 1, ROUND>(w, s, l, t, next);
	else if constexpr (!end)
		passes<0, ROUND + 1>(w, s, l, t, NULL);
}

/* Until pdl_wait() it reads tables alone. */
RLX_G_KERNEL_PDL(fft, struct rlx_k_fft_gpu, BLOCK)
{
	SHARED_DYNAMIC(buffer);
	complex *s = (complex *)buffer;
	const int l = ACROSS ? (int)threadIdx.x % L : (int)threadIdx.x / T;
	const int t = ACROSS ? (int)threadIdx.x / L : (int)threadIdx.x % T;
	work w = { &a, RLX_G_PTR(const in_type::mem, a.x), RLX_G_PTR(out_type::mem, a.y),
		   RLX_G_PTR(const complex, a.roots), RLX_G_PTR(const complex, a.chirp),
		   RLX_G_PTR(const complex, a.spectrum), RLX_G_PTR(const complex, a.turns),
		   RLX_G_PTR(const complex, a.split), 0, 0, 0, (num)a.scale };

	uint32_t rest = blockIdx.x;

	for (int d = 0; d < 4; d++) {
		const rlx_k_fft_digit &g = a.digit[d];
		const uint32_t n = d ? (uint32_t)g.n : (uint32_t)((g.n + L - 1) / L);
		const uint32_t up = n > 1 ? rest / n : rest;
		const int64_t i = (int64_t)(n > 1 ? rest - up * n : 0) * (d ? 1 : L);

		rest = up;
		if (!d)
			w.left = (int)(g.n - i < L ? g.n - i : L);
		w.x += i * g.in;
		w.y += i * g.out;
		w.in_at += (int)(i * g.in_at);
		w.out_at += (int)(i * g.out_at);
	}
	if (STAGE_IN) {
		pdl_wait();
		if (IN == RLX_K_FFT_HALF_OF_PAIRS)
			stage_in_halves(w, s);
		else
			stage_in(w, s);
		__syncthreads();
	}
	passes<0, 0>(w, s, l, t, NULL);
	if (OUT == RLX_K_FFT_HALF_OF_PAIRS)
		stage_out_halves(w, s);
	else if (STAGE_OUT)
		stage_out(w, s);
}
