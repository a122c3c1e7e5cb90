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
 * The same where all of a line of @n have @first, the largest radix, as butterflies of a thread
 * each: a thread with several of another radix that are more than 24 elements spills registers,
 * and a few threads with 15 each do, which takes twice as long (H200).
 */
static inline int rlx_g_fft_pass_cost(int64_t n, int first, int r)
{
	const int64_t threads = n / first, each = rlx_g_ceil(n / r, threads) * r;
	const bool spills = (each > 24 && r <= 16) || (r == 15 && threads < 6);

	return rlx_g_fft_radix_cost(r) << spills;
}

/* A line: its length, and the largest radix, which comes first; 0: none is chosen. */
struct rlx_g_fft_line {
	int64_t	n;
	int	first;
};

/*
 * The cheapest radices of @n of @line's, none larger than @most and, but for 7, 11 and 13, than
 * @composite, five bits each from the lowest on, the largest first; 0: there are none. @cost, in
 * and out: what they must cost less than.
 */
static inline uint32_t rlx_g_fft_search(int64_t n, int most, int composite, int passes,
					struct rlx_g_fft_line line, int *cost)
{
	uint32_t best = 0;

	for (int r = most; r > 1 && passes; r--) {
		const struct rlx_g_fft_line own = { line.n, line.first ? line.first : r };
		int pass, left;
		uint32_t rest;

		if (n % r || (r > composite && r != 7 && r != 11 && r != 13))
			continue;
		pass = rlx_g_fft_pass_cost(own.n, own.first, r);
		left = *cost - pass;
		if (left <= 0)
			continue;
		if (n == r) {
			best = (uint32_t)r;
			*cost -= left;
			continue;
		}
		rest = rlx_g_fft_search(n / r, r, composite, passes - 1, own, &left);
		if (rest) {
			best = rest << 5 | (uint32_t)r;
			*cost = left + pass;
		}
	}
	return best;
}

/* Radices beyond @composite, 16 at most, are primes alone. @cost: of an element. */
static inline uint32_t rlx_g_fft_radices(int64_t n, int composite, int *cost)
{
	struct rlx_g_fft_line line = { n, 0 };
	int64_t smooth = n;
	uint32_t packed = 0, low = 0;
	int passes = 6, large = 0, r;

	*cost = 1 << 20;
	for (r = RLX_K_FFT_GPU_RADIX; r > 16; r--)
		for (; smooth % r == 0 && r % 2 && r % 3 && r % 5; smooth /= r) {
			line.first = line.first ? line.first : r;
			packed = packed << 5 | (uint32_t)r;
			large += rlx_g_fft_radix_cost(r);
			passes--;
		}
	if (smooth == 1) {
		*cost = large;
		return n == 1 ? 1 : passes < 0 ? 0 : packed;
	}
	if (passes == 6 && n > 8 && n < 48)	/* three threads at least have a line */
		low = rlx_g_fft_search(n, (int)n / 3, composite, passes, line, cost);
	if (!low)
		low = passes > 0 ? rlx_g_fft_search(smooth, 16, composite, passes, line, cost) : 0;
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

/* Numbers of memory that an element of @v is. */
static inline int64_t rlx_g_fft_numbers(const struct rlx_k_fft_view *v)
{
	return v->kind == RLX_K_FFT_REAL ? 1 : 2;
}

/* What is known of one side of a launch's lines when it is compiled. */
static inline int rlx_g_fft_side(const struct rlx_k_fft_gpu *a, bool out, int64_t lines)
{
	const struct rlx_k_fft_view *v = out ? &a->out : &a->in;
	const int64_t step = out ? a->out_step : a->in_step;
	const int64_t end = out && a->out_end < v->n ? a->out_end : v->n;
	const size_t size = rlx_k_type_size((enum rlx_dtype)(out ? a->out_type : a->type));
	bool dense = step == 1 && v->stride == rlx_g_fft_numbers(v);
	const double far = (double)lines * (double)(out ? a->digit[0].out : a->digit[0].in) +
			   (double)(v->n + 1) * (double)v->stride;
	int64_t odd = v->stride;
	int what = v->kind;

	for (int i = 0; i < 4; i++) {
		if (a->digit[i].n > 1)
			odd |= out ? a->digit[i].out : a->digit[i].in;
		dense = dense && !(out ? a->digit[i].out_at : a->digit[i].in_at);
	}
	if (v->part == 1 && odd % 2 == 0 && (uintptr_t)(out ? a->y : a->x) % (2 * size) == 0)
		what |= RLX_K_FFT_ALIGNED;
	if (far < 1 << 30 && (double)step * (double)a->n * (double)v->stride < 1 << 30)
		what |= RLX_K_FFT_NEAR;
	if (dense)
		what |= RLX_K_FFT_DENSE;
	if (end < step * a->n + (v->kind == RLX_K_FFT_HALF_OF_PAIRS ||
				v->kind == RLX_K_FFT_HALF_TO_PAIRS))
		what |= RLX_K_FFT_CUT;
	return what;
}

/* How a launch's lines are split into blocks. */
struct rlx_g_fft_tile {
	uint32_t	radices;
	int64_t		threads, lines, block;	/* of a line, of a block; all of its threads */
	bool		across, out_across, direct;
};

/* Lines of all digits but the first. */
static inline int64_t rlx_g_fft_others(const struct rlx_k_fft_gpu *a)
{
	return a->digit[1].n * a->digit[2].n * a->digit[3].n;
}

static inline int rlx_g_fft_passes(uint32_t radices)
{
	int passes = 0;

	for (; radices; radices >>= 5)
		passes++;
	return passes;
}

/*
 * Radices, and threads of a line. Threads that do not fill the device wait for their own
 * instructions: there smaller radices, which have more threads of fewer elements, the sooner the
 * fewer threads there are. What a pass more takes pays only where each multiprocessor has some
 * warps, but not many, and has twice as many then.
 */
static inline void rlx_g_fft_threads(const struct rlx_k_fft_gpu *a, struct rlx_g_fft_tile *t,
				     int64_t processors)
{
	const int64_t lines = a->digit[0].n * rlx_g_fft_others(a), fill = 768 * processors;
	int cost, c;

	t->radices = rlx_g_fft_radices(a->n, 16, &cost);
	t->threads = a->n / (t->radices ? t->radices & 31 : 1);
	for (c = 12; c >= 8 && lines * t->threads < fill; c--) {
		const uint32_t radices = rlx_g_fft_radices(a->n, c, &cost);
		const int64_t threads = a->n / (radices ? radices & 31 : a->n);
		const int more = rlx_g_fft_passes(radices) - rlx_g_fft_passes(t->radices);
		const int64_t all = lines * t->threads;
		const int64_t least = all < 128 * processors ? 24 : 25;	/* for 20 */

		if (!more ? 20 * threads >= least * t->threads :
		    more == 1 && all >= 96 * processors && all < 512 * processors &&
		    threads >= 2 * t->threads) {
			t->radices = radices;
			t->threads = threads;
		}
	}
	t->threads = rlx_g_ceil(t->threads, rlx_g_ceil(t->threads, 1024));
}

static inline void rlx_g_fft_lines(const struct rlx_k_fft_gpu *a, struct rlx_g_fft_tile *t,
				   const struct rlx_g_launch *l)
{
	const int number = rlx_g_fft_number(a->type);
	const int64_t n = a->digit[0].n, others = rlx_g_fft_others(a);
	const int64_t most = (int64_t)l->most_shared, processors = l->processors;
	const bool across = t->across || t->out_across;
	const int64_t few = t->direct || t->across ? 64 : 16;
	int64_t lines = across ? 64 / number : 128 / t->threads;

	lines = lines > 1 ? lines : 1;
	while (lines > 1 &&
	       (lines / 2 >= n || rlx_g_fft_shared(a->n, lines, number) > most ||
		(across ? (lines > 16 / number && t->threads * lines > 512) ||
		 (t->threads * lines > 64 && rlx_g_ceil(n, lines) * others <
		  (lines > 32 / number ? processors : lines > 16 / number ? processors / 3 : 0)) :
		 rlx_g_ceil(n, lines) * others < 2 * processors && t->threads * lines > few)))
		lines /= 2;
	if (lines > 4 && across)	/* lest the last block has few */
		lines = rlx_g_ceil(rlx_g_ceil(n, rlx_g_ceil(n, lines)), 4) * 4;
	t->lines = lines;
	while (lines > 1 && t->threads * lines > 512)
		t->threads = (t->threads + 1) / 2;
}

/*
 * Threads beside those that have a line, while all blocks can run at once: what is read into shared
 * memory waits less.
 */
static inline void rlx_g_fft_block(const struct rlx_k_fft_gpu *a, struct rlx_g_fft_tile *t,
				   const struct rlx_g_launch *l)
{
	const int64_t blocks = rlx_g_ceil(a->digit[0].n, t->lines) * rlx_g_fft_others(a);
	const int64_t fill = RLX_K_FFT_RESIDENT(a->type == RLX_F64, a->n, t->threads, t->radices) *
			     (int64_t)l->processors;
	const bool staged = (!t->direct && !t->across) || a->in.kind == RLX_K_FFT_HALF_OF_PAIRS ||
			    a->out.kind == RLX_K_FFT_HALF_OF_PAIRS;

	t->block = RLX_K_FFT_BLOCK(t->threads * t->lines);
	while (staged && t->block <= 128 && t->block * 4 <= t->lines * a->n &&
	       blocks * t->block * 2 <= fill)
		t->block *= 2;
}

/* Do lines of @n elements follow one another, each element a word? @what: rlx_g_fft_side() */
static inline bool rlx_g_fft_follow(const struct rlx_k_fft_view *v, int64_t distance, int64_t n,
				    int what)
{
	return (what & RLX_K_FFT_DENSE) && v->n == n && distance == n * rlx_g_fft_numbers(v) &&
	       ((what & RLX_K_FFT_ALIGNED) || v->kind == RLX_K_FFT_REAL);
}

/* A thread for a line: of one that has one or two anyway, or where lines alone fill the device. */
static inline bool rlx_g_fft_short(const struct rlx_k_fft_gpu *a, const struct rlx_g_fft_tile *t,
				   struct rlx_g_launch *l)
{
	const int in = rlx_g_fft_side(a, false, 1), out = rlx_g_fft_side(a, true, 1);
	const int both = RLX_K_FFT_SWAP_X | RLX_K_FFT_SWAP_Y, kind = a->in.kind;
	const int64_t n = a->n, half = kind == RLX_K_FFT_HALF ? n / 2 + 1 : n;
	const int64_t ins = kind == RLX_K_FFT_HALF_OF_PAIRS ? n + 1 : half;
	const int64_t outs = a->out.kind == RLX_K_FFT_HALF_OF_PAIRS ? n + 1 :
			     kind == RLX_K_FFT_REAL ? n / 2 + 1 : n;
	const int64_t lines = a->digit[0].n, most = ins > outs ? ins : outs;
	int64_t block = 128;

	if (n < 2 || n > RLX_K_FFT_SHORT || (a->steps & ~both) || rlx_g_fft_others(a) > 1 ||
	    (t->threads > 2 && lines < 256 * l->processors) ||
	    (kind == RLX_K_FFT_HALF && a->out.kind != RLX_K_FFT_REAL) ||
	    !rlx_g_fft_follow(&a->in, a->digit[0].in, ins, in) ||
	    !rlx_g_fft_follow(&a->out, a->digit[0].out, outs, out))
		return false;
	while (block > 32 && rlx_g_ceil(lines, block) < 2 * l->processors)
		block /= 2;
	rlx_g_line(l, rlx_g_ceil(lines, block), (uint32_t)block);
	l->shared = (uint32_t)(block * (most + 1) * 2 * rlx_g_fft_number(a->type));
	RLX_G_VARIANT(l, fft_short, .FFT_TYPE = a->type, .FFT_OUT_TYPE = a->out_type,
		      .FFT_N = (int32_t)n, .FFT_BLOCK = (int32_t)block, .FFT_READ = in & 7,
		      .FFT_WRITE = out & 7, .FFT_IN_N = (int32_t)ins, .FFT_OUT_N = (int32_t)outs,
		      .FFT_STEPS = a->steps | (a->scale == 1 ? 0 : RLX_K_FFT_SCALE));
	return l->shared <= l->most_shared;
}

static inline void rlx_g_fft_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_fft_gpu *a = (const struct rlx_k_fft_gpu *)args;
	const rlx_k_fft_digit *d = a->digit;
	const int number = rlx_g_fft_number(a->type);
	const int64_t step = d->in + d->in_at * a->in.stride;
	const int64_t out = d->out + d->out_at * a->out.stride;
	struct rlx_g_fft_tile t = {
		.threads = a->n,
		.across = step < a->in_step * a->in.stride && d->n > 1,
		.out_across = out < a->out_step * a->out.stride && d->n > 1,
	};
	int64_t blocks;

	rlx_g_fft_threads(a, &t, l->processors);
	if (rlx_g_fft_short(a, &t, l))
		return;
	t.direct = t.threads > 2;
	rlx_g_fft_lines(a, &t, l);
	rlx_g_fft_block(a, &t, l);
	blocks = rlx_g_ceil(d->n, t.lines) * rlx_g_fft_others(a);
	l->can = false;
	if (!t.radices || rlx_g_fft_shared(a->n, t.lines, number) > (int64_t)l->most_shared ||
	    (double)blocks > 1 << 30)
		return;
	rlx_g_line(l, blocks, (uint32_t)t.block);
	l->shared = (uint32_t)rlx_g_fft_shared(a->n, t.lines, number);
	RLX_G_VARIANT(l, fft, .FFT_TYPE = a->type, .FFT_OUT_TYPE = a->out_type,
		      .FFT_N = (int32_t)a->n, .FFT_RADICES = (int32_t)t.radices,
		      .FFT_THREADS = (int32_t)t.threads, .FFT_LINES = (int32_t)t.lines,
		      .FFT_BLOCK = (int32_t)t.block,
		      .FFT_READ = rlx_g_fft_side(a, false, t.lines),
		      .FFT_WRITE = rlx_g_fft_side(a, true, t.lines),
		      .FFT_ACROSS = t.across | t.out_across << 1 | t.direct << 2,
		      .FFT_STEPS = a->steps | (a->scale == 1 ? 0 : RLX_K_FFT_SCALE));
}

#endif
