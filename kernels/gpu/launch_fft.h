/* SPDX-License-Identifier: MIT */
/* How transforms are launched: radices of a length, threads of a line and lines of a block. */
#ifndef RLX_G_LAUNCH_FFT_H
#define RLX_G_LAUNCH_FFT_H

#include "kernels/fft.h"
#include "kernels/gpu/launch.h"

/* Instructions of an element in a pass, about: for what is between passes, and for radix @r. */
static inline int rlx_g_fft_radix_cost(int r)
{
	int cost = 16 + 40 / r;

	for (int p = 2, n = r; n > 1; p++)
		for (; n % p == 0; n /= p)
			cost += p > 2 ? 2 + p + 3 * (n > p) : 2 + (r % 4 != 0);
	return cost;
}

/*
 * The cheapest radices of @n, none larger than @most, five bits each from the lowest on, the
 * largest first; 0: there are none. @cost, in and out: what they must cost less than.
 */
static inline uint32_t rlx_g_fft_search(int64_t n, int most, int passes, int *cost)
{
	uint32_t best = 0;

	for (int r = most; r > 1 && passes; r--) {
		int left = *cost - rlx_g_fft_radix_cost(r);
		uint32_t rest;

		if (n % r || left <= 0)
			continue;
		if (n == r) {
			best = (uint32_t)r;
			*cost -= left;
			continue;
		}
		rest = rlx_g_fft_search(n / r, r, passes - 1, &left);
		if (rest) {
			best = rest << 5 | (uint32_t)r;
			*cost = left + rlx_g_fft_radix_cost(r);
		}
	}
	return best;
}

/* Radices beyond 16 are primes alone. @cost: of an element. */
static inline uint32_t rlx_g_fft_radices(int64_t n, int *cost)
{
	int64_t smooth = n;
	uint32_t packed = 0, low = 0;
	int passes = 6, large = 0, r;

	*cost = 1 << 20;
	for (r = RLX_K_FFT_GPU_RADIX; r > 16; r--)
		for (; smooth % r == 0 && r % 2 && r % 3 && r % 5; smooth /= r) {
			packed = packed << 5 | (uint32_t)r;
			large += rlx_g_fft_radix_cost(r);
			passes--;
		}
	if (smooth == 1) {
		*cost = large;
		return n == 1 ? 1 : passes < 0 ? 0 : packed;
	}
	if (passes == 6 && n > 8 && n < 48)	/* three threads at least have a line */
		low = rlx_g_fft_search(n, (int)n / 3, passes, cost);
	if (!low)
		low = passes > 0 ? rlx_g_fft_search(smooth, 16, passes, cost) : 0;
	if (!low)
		return 0;
	*cost += large;
	for (; packed; packed >>= 5)	/* the large ones first */
		low = low << 5 | (packed & 31);
	return low;
}

/* Bytes of a number in shared memory. */
static inline int rlx_g_fft_number(int type)
{
	return type == RLX_F64 ? 8 : 4;
}

static inline int64_t rlx_g_fft_shared(int64_t n, int64_t lines, int number)
{
	return lines * (RLX_K_FFT_PADDED(n, number) + 1) * 2 * number;
}

/* The longest line of one launch, of which @lines are to share a block. */
static inline int64_t rlx_g_fft_longest(int64_t shared, int lines, int type)
{
	int64_t n = (int64_t)(128 << 10) / (2 * rlx_g_fft_number(type)) / lines;

	while (n > 64 && rlx_g_fft_shared(n, lines, rlx_g_fft_number(type)) > shared)
		n /= 2;
	return n;
}

/* What is known of one side of a launch's lines when it is compiled. */
static inline int rlx_g_fft_side(const struct rlx_k_fft_gpu *a, bool out)
{
	const struct rlx_k_fft_view *v = out ? &a->out : &a->in;
	const int64_t step = out ? a->out_step : a->in_step;
	const int64_t end = out && a->out_end < v->n ? a->out_end : v->n;
	const size_t size = rlx_k_type_size((enum rlx_dtype)(out ? a->out_type : a->type));
	bool dense = step == 1 && v->stride == 2;
	int64_t odd = v->stride;
	int what = v->kind;

	for (int i = 0; i < 4; i++) {
		odd |= out ? a->digit[i].out : a->digit[i].in;
		dense = dense && !(out ? a->digit[i].out_at : a->digit[i].in_at);
	}
	if (v->part == 1 && odd % 2 == 0 && (uintptr_t)(out ? a->y : a->x) % (2 * size) == 0)
		what |= RLX_K_FFT_ALIGNED;
	if (dense)
		what |= RLX_K_FFT_DENSE;
	if (end < step * a->n + (v->kind == RLX_K_FFT_HALF_OF_PAIRS))
		what |= RLX_K_FFT_CUT;
	return what;
}

static inline void rlx_g_fft_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_fft_gpu *a = (const struct rlx_k_fft_gpu *)args;
	const rlx_k_fft_digit *d = a->digit;
	const int number = rlx_g_fft_number(a->type);
	int cost;
	const uint32_t radices = rlx_g_fft_radices(a->n, &cost);
	const int64_t step = d->in + d->in_at * a->in.stride;
	const int64_t out = d->out + d->out_at * a->out.stride;
	const bool across = step < a->in_step * a->in.stride && d->n > 1;
	const bool out_across = out < a->out_step * a->out.stride && d->n > 1;
	const int64_t others = d[1].n * d[2].n * d[3].n, most = (int64_t)l->most_shared;
	int64_t threads = a->n / (radices ? radices & 31 : 1), lines;
	bool direct;

	threads = threads < 512 ? threads : rlx_g_ceil(threads, rlx_g_ceil(threads, 512));
	direct = threads > 2;
	lines = across || out_across ? 64 / number : 128 / threads;
	lines = lines > 1 ? lines : 1;
	while (lines > 1 &&
	       (lines / 2 >= d->n || rlx_g_fft_shared(a->n, lines, number) > most ||
		(across || out_across ? lines > 16 / number &&
		 (threads * lines > 512 || (threads * lines > 64 && rlx_g_ceil(d->n, lines) *
					    others < (int64_t)l->processors)) :
		 rlx_g_ceil(d->n, lines) * others < 2 * (int64_t)l->processors &&
		 threads * lines > 64)))
		lines /= 2;
	if (lines > 4 && (across || out_across))	/* lest the last block has few */
		lines = rlx_g_ceil(rlx_g_ceil(d->n, rlx_g_ceil(d->n, lines)), 4) * 4;
	while (threads * lines > 512)
		threads = (threads + 1) / 2;
	l->can = false;
	if (!radices || rlx_g_fft_shared(a->n, lines, number) > most ||
	    (double)rlx_g_ceil(d->n, lines) * (double)others > 1 << 30)
		return;
	rlx_g_line(l, rlx_g_ceil(d->n, lines) * others,
		   (uint32_t)RLX_K_FFT_BLOCK(threads * lines));
	l->shared = (uint32_t)rlx_g_fft_shared(a->n, lines, number);
	RLX_G_VARIANT(l, fft, .FFT_TYPE = a->type, .FFT_OUT_TYPE = a->out_type,
		      .FFT_N = (int32_t)a->n, .FFT_RADICES = (int32_t)radices,
		      .FFT_THREADS = (int32_t)threads, .FFT_LINES = (int32_t)lines,
		      .FFT_READ = rlx_g_fft_side(a, false), .FFT_WRITE = rlx_g_fft_side(a, true),
		      .FFT_ACROSS = across | out_across << 1 | direct << 2,
		      .FFT_STEPS = a->steps | (a->scale == 1 ? 0 : RLX_K_FFT_SCALE));
}

#endif
