// SPDX-License-Identifier: MIT
/* Fourier transforms: tables, and the launches of an axis. */
#include "backends/common/fft_desc.h"
#include "backends/gpu/gpu.h"

/* Numbers of complex tables, f64 or f32. */
struct tables {
	struct rlx_lower	*lo;
	bool			 f64;
};

static void put(const struct tables *t, void *p, int64_t i, double x)
{
	if (t->f64)
		((double *)p)[i] = x;
	else
		((float *)p)[i] = (float)x;
}

static void *new_table(const struct tables *t, int64_t n)
{
	return rlx_lower_keep(t->lo, (size_t)n * 2, t->f64 ? 8 : 4);
}

static void use_table(const struct tables *t, void *field, const void *p, int64_t n)
{
	rlx_lower_ref_keep(t->lo, field, p, (size_t)n * 2 * (t->f64 ? 8 : 4));
}

/* Roots of 1 of order @n: @count of them, each @step-th, from number @at of the table. */
static void roots(const struct tables *t, void *p, int64_t at, int64_t n, int64_t step,
		  int64_t count)
{
	double re, im;

	for (int64_t k = 0; p && k < count; k++) {
		rlx_fft_root(k * step, n, &re, &im);
		put(t, p, 2 * (at + k), re);
		put(t, p, 2 * (at + k) + 1, -im);
	}
}

static void use_roots(const struct tables *t, void *field, int64_t n, int64_t count)
{
	void *p = new_table(t, count);

	roots(t, p, 0, n, 1, count);
	use_table(t, field, p, count);
}

/* All roots of order @n as products of two, from tables of about their square root. */
static void use_turns(const struct tables *t, void *field, uint32_t *bits, int64_t n)
{
	int64_t low, rest;
	void *p;

	while ((int64_t)1 << 2 * *bits < n)
		++*bits;
	low = (int64_t)1 << *bits;
	rest = (n + low - 1) / low;
	p = new_table(t, low + rest);
	roots(t, p, 0, n, 1, low);
	roots(t, p, low, n, low, rest);
	use_table(t, field, p, low + rest);
}

/* The chirp of @c, and its spectrum for transforms of length @all. */
static void use_chirp(const struct tables *t, struct rlx_k_fft_gpu *a,
		      const struct rlx_fft_chirp *c, int64_t all)
{
	double *b = rlx_calloc((size_t)all * 10, sizeof(*b)), re, im;
	const int64_t n = c->n;
	void *p = new_table(t, n), *spectrum = new_table(t, all);
	int64_t k;

	if (!b)
		rlx_lower_out_of_memory(t->lo);
	for (k = 0; b && p && spectrum && k < n; k++) {
		rlx_fft_root((int64_t)((__int128)k * k % (2 * n)), 2 * n, &re, &im);
		put(t, p, 2 * k, re);
		put(t, p, 2 * k + 1, -im);
		rlx_fft_chirp_put(c, k, all, b, re, im);
	}
	if (b && p && spectrum)
		rlx_fft_dft(b, all, false, b + 2 * all);
	for (k = 0; b && p && spectrum && k < 2 * all; k++)
		put(t, spectrum, k, b[k] / (double)all);
	use_table(t, &a->chirp, p, n);
	use_table(t, &a->spectrum, spectrum, all);
	rlx_free(b);
}

static int64_t largest_prime(int64_t n)
{
	int64_t p = 2, most = 1;

	for (; p * p <= n; p++)
		for (; n % p == 0; n /= p)
			most = p;
	return n > 1 ? n : most;
}

/*
 * How long @lines transforms of length @n take, by that of @cost for each element: other lengths
 * than powers of two take longer than their instructions do (H200), most where powers of two lie
 * within warps, but not where the lines lie side by side, nor where they have launches anyway.
 */
static double padded_time(int64_t n, int cost, const struct rlx_fft_step *s)
{
	const bool few = (double)s->outer * (double)n < 1 << 21;
	const double other = s->inner >= 4 || n > 1 << 17 ? 1 : n > 512 ? 1.3 : n > 128 ? 2 :
			     few ? 1.6 : 1.2;

	return (double)n * cost * (n & (n - 1) ? other : 1);
}

/*
 * A length of small primes alone that is @least or more: of those that one launch does, what takes
 * the least time, else the smallest, or the next power of two.
 */
static int64_t padded(int64_t least, int64_t longest, const struct rlx_fft_step *s)
{
	int64_t smallest = INT64_MAX, best, two = 1, p5, p3, n;
	double fewest = HUGE_VAL, time;
	int cost;

	while (two < least)
		two *= 2;
	for (p5 = 1; p5 <= 625; p5 *= 5)
		for (p3 = p5; p3 <= p5 * 729; p3 *= 3) {
			for (n = p3; n < least; n *= 2)
				;
			smallest = n < smallest ? n : smallest;
		}
	best = padded_time(two, 1, s) < padded_time(smallest, 1, s) ? two : smallest;
	for (n = smallest; n <= longest && n <= two;
	     n = n + 1 < smallest + smallest / 4 || n == two ? n + 1 : two) {
		if (largest_prime(n) > 7 || !rlx_g_fft_radices(n, 16, &cost))
			continue;
		time = padded_time(n, cost, s);
		if (time < fewest) {
			fewest = time;
			best = n;
		}
	}
	return best;
}

/* ---- an axis ---- */

/* How its lines are transformed: @part[0] x @part[1] x ... is the length of the passes. */
struct axis {
	struct rlx_lower		*lo;
	const struct rlx_fft_step	*s;
	struct tables			 t;
	struct rlx_k_fft_view		 in, out;
	struct rlx_fft_place		 x, y;
	/* pairs: real lines are, of half the length; halves: the conjugate half is left out */
	bool				 inverse, pairs, halves;
	uint8_t				 type, wide;	/* of x and y, of scratch */
	struct rlx_fft_chirp		 chirp;		/* n 0: none */
	int64_t				 n, part[3];
	int				 parts;
};

/* As few parts as there can be, each of @longest at most, as near to each other as can be. */
static bool parted(struct axis *x, int64_t longest, int parts)
{
	int64_t left = x->n, q, up;
	int i;

	for (i = 0; i < parts - 1; i++, left /= q) {
		q = (int64_t)pow((double)left, 1.0 / (parts - i));
		for (up = q + 1; left % up && up < longest; up++)
			;
		for (; q > 1 && left % q; q--)
			;
		x->part[i] = q = left % up || up > longest || q * up > left ? q : up;
	}
	x->part[i] = left;
	x->parts = parts;
	return left <= longest && x->part[0] <= longest;
}

/* The longest lines of one launch: those side by side share cache lines, and so their blocks. */
static int64_t longest_whole(const struct rlx_fft_step *s, const struct rlx_g_launch *l, int wide)
{
	return rlx_g_fft_longest(l->most_shared, s->inner < 4 ? 1 : wide == RLX_F64 ? 4 : 8, wide);
}

/* How the length is done on a device whose blocks have so much shared memory. */
static bool choose_parts(struct axis *x, const struct rlx_g_launch *l)
{
	const int64_t several = rlx_g_fft_longest(l->most_shared, x->t.f64 ? 2 : 4, x->wide);
	const bool few = 8 * x->s->outer * x->s->inner < (int64_t)l->processors;
	int64_t one = longest_whole(x->s, l, x->wide);
	int parts;

	if (few && one > 4096)	/* two launches of many blocks take less than one of few */
		one = 4096;
	x->chirp.n = 0;
	if (largest_prime(x->n) > RLX_K_FFT_GPU_RADIX) {
		x->chirp = rlx_fft_chirp(x->s, x->n);
		x->n = padded(rlx_fft_chirp_least(&x->chirp), one, x->s);
	}
	x->part[0] = x->n;
	x->parts = 1;
	if (x->n <= one)
		return true;
	for (parts = 2; parts <= 3; parts++)
		if (parted(x, several, parts))
			return true;
	return false;
}

/* Lines of digits 0 and 1 may take each other's place: those that are nearer to one another. */
static void lines(struct rlx_k_fft_gpu *a, rlx_k_fft_digit lead, rlx_k_fft_digit inner)
{
	const bool swap = inner.n >= 4;

	a->digit[swap] = lead;
	a->digit[!swap] = inner;
}

static struct rlx_k_fft_gpu *new_launch(const struct axis *x, int64_t n)
{
	struct rlx_k_fft_gpu *a = rlx_lower_args(x->lo, sizeof(*a));

	a->n = n;
	a->in = x->in;
	a->out = x->out;
	a->type = a->out_type = x->type;
	a->in_step = a->out_step = 1;
	a->whole = a->out_end = x->s->n;
	a->scale = x->s->scale;
	for (int i = 0; i < 4; i++)
		a->digit[i].n = 1;
	if (!x->lo->trial)
		use_roots(&x->t, &a->roots, n, n);
	return a;
}

/* Two neighbours of a real line as re and im. */
static void use_pairs(struct axis *x)
{
	struct rlx_k_fft_view *real = x->s->real_in ? &x->in : &x->out;

	(x->s->real_in ? &x->out : &x->in)->kind = x->parts > 1 ? RLX_K_FFT_HALF_TO_PAIRS :
							       RLX_K_FFT_HALF_OF_PAIRS;
	real->kind = RLX_K_FFT_COMPLEX;
	real->part = real->stride;
	real->stride *= 2;
	real->n /= 2;
}

/* All of it in one launch. */
static enum rlx_status whole_lines(const struct axis *x)
{
	struct rlx_k_fft_gpu *a = new_launch(x, x->n);
	const struct rlx_fft_step *s = x->s;

	lines(a, (rlx_k_fft_digit){ s->outer, x->in.outer, x->out.outer, 0, 0 },
	      (rlx_k_fft_digit){ s->inner, x->in.inner, x->out.inner, 0, 0 });
	a->steps = x->inverse ? RLX_K_FFT_SWAP_X | RLX_K_FFT_SWAP_Y : 0;
	if (x->chirp.n)
		a->steps |= RLX_K_FFT_CHIRP_X | RLX_K_FFT_CONVOLVE | RLX_K_FFT_CHIRP_Y;
	if (x->pairs) {
		a->whole = s->n / 2;
		a->out_end = a->whole + s->real_in;
	}
	if (x->pairs && !x->lo->trial)
		use_roots(&x->t, &a->split, s->n, s->n / 2 + 1);
	if (x->chirp.n && !x->lo->trial)
		use_chirp(&x->t, a, &x->chirp, x->n);
	rlx_fft_refer(x->lo, &a->x, x->x);
	rlx_fft_refer(x->lo, &a->y, x->y);
	return gpu_call_kernel(x->lo, rlx_g_fft_launch, 0);
}

/* Matrices in scratch: all lines side by side as in x. */
static struct rlx_k_fft_view scratch_view(const struct axis *x)
{
	struct rlx_k_fft_view v = rlx_fft_view(RLX_K_FFT_COMPLEX, x->n, x->n, x->s->inner);

	return v;
}

/* A launch of a matrix of @x: the lines of part @d. */
struct part {
	struct rlx_k_fft_gpu	*a;
	rlx_k_fft_digit		 lead, pre;	/* side by side, and beside them */
	int64_t			 post;		/* numbers of the parts behind it */
	int64_t			 first;		/* rows of the first part that are made */
};

/* The last part's lines are the matrix's rows; y has them as columns. */
static void rows(const struct axis *x, struct part *p, bool to_spectrum)
{
	const int64_t middle = x->parts == 3 ? x->part[1] : 1;
	struct rlx_k_fft_gpu *a = p->a;

	p->lead = (rlx_k_fft_digit){ p->first, a->in.stride * middle * a->n, 0, 0, 1 };
	p->pre = (rlx_k_fft_digit){ middle, a->in.stride * a->n, 0, 0, x->part[0] };
	a->out_step = x->part[0] * middle;
	a->out_end = to_spectrum ? x->n : a->out_end;
	a->rows = x->part[0];
	if (x->halves && x->s->real_in)
		a->out.kind = RLX_K_FFT_HALF;
	if (x->halves && x->s->real_out) {
		a->in.kind = RLX_K_FFT_HALF;
		a->in.n = a->n / 2 + 1;
		a->whole = a->n;
		a->steps |= RLX_K_FFT_SWAP_X;
	}
}

static void columns(const struct axis *x, struct part *p, bool first)
{
	const bool half = x->halves && x->s->real_out;
	struct rlx_k_fft_gpu *a = p->a;
	const int64_t whole = a->in.stride * a->n * p->post;

	p->lead = (rlx_k_fft_digit){ half ? p->post / 2 + 1 : p->post, 0, 0, 1, 1 };
	if (!first)
		p->pre = (rlx_k_fft_digit){ p->first, whole, whole, 0, 0 };
	a->out_end = (first ? p->first : a->n) * p->post;
	a->steps |= RLX_K_FFT_TURN | (half ? RLX_K_FFT_SWAP_Y : 0);
	if (!x->lo->trial)
		use_turns(&x->t, &a->turns, &a->turns_bits, a->n * p->post);
	if (!x->lo->trial && a->in.kind == RLX_K_FFT_HALF_TO_PAIRS)
		use_turns(&x->t, &a->split, &a->split_bits, x->s->n);
}

/*
 * Part @d of a matrix: its columns, in place but for the first, or the rows, which go to y. @round:
 * of a chirp, 0: to the spectrum, 1: from there; else 2.
 */
static enum rlx_status part(const struct axis *x, int d, int round, struct rlx_fft_place from,
			    struct rlx_fft_place to)
{
	const bool last = d == x->parts - 1, mirror = x->halves && x->s->real_in;
	const bool of_x = !d && round != 1, to_y = last && round;
	struct rlx_k_fft_gpu *a = new_launch(x, x->part[d]);
	struct part p = { a, { .n = 1 }, { .n = 1 }, 1,
			  mirror ? x->part[0] / 2 + 1 : x->part[0] };

	for (int i = d + 1; i < x->parts; i++)
		p.post *= x->part[i];
	a->in = of_x ? x->in : scratch_view(x);
	a->out = to_y ? x->out : scratch_view(x);
	a->type = of_x ? x->type : x->wide;
	a->out_type = to_y ? x->type : x->wide;
	a->scale = to_y ? x->s->scale : 1;
	a->in_step = a->out_step = p.post;
	if (x->pairs)
		a->whole = a->out_end = x->s->n / 2;
	if (last)
		rows(x, &p, !round);
	else
		columns(x, &p, !d);
	lines(a, p.lead, (rlx_k_fft_digit){ x->s->inner, a->in.inner, a->out.inner, 0, 0 });
	a->digit[2] = p.pre;
	a->digit[3] = (rlx_k_fft_digit){ x->s->outer, a->in.outer, a->out.outer, 0, 0 };
	a->steps |= (of_x && x->inverse ? RLX_K_FFT_SWAP_X : 0) |
		    (to_y && x->inverse ? RLX_K_FFT_SWAP_Y : 0) |
		    (of_x && !round ? RLX_K_FFT_CHIRP_X : 0) |
		    (last && !round ? RLX_K_FFT_SPECTRUM : 0) |
		    (to_y && round == 1 ? RLX_K_FFT_CHIRP_Y : 0);
	if (x->chirp.n && (of_x || last) && !x->lo->trial)
		use_chirp(&x->t, a, &x->chirp, x->n);
	rlx_fft_refer(x->lo, &a->x, from);
	rlx_fft_refer(x->lo, &a->y, to);
	return gpu_call_kernel(x->lo, rlx_g_fft_launch, 0);
}

static enum rlx_status by_parts(const struct axis *x)
{
	const uint64_t lines = rlx_times((uint64_t)x->s->outer, (uint64_t)x->s->inner);
	const uint64_t bytes = rlx_times(lines, rlx_times((uint64_t)x->n, x->t.f64 ? 16 : 8));
	struct rlx_fft_place z[2], from = x->x, to;
	enum rlx_status st = RLX_OK;
	int round, d;

	for (d = 0; d < (x->chirp.n ? 2 : 1); d++)
		z[d] = (struct rlx_fft_place){ RLX_FFT_TMP, rlx_lower_tmp(x->lo, bytes) };
	for (round = x->chirp.n ? 0 : 2; round < 3 && !st; round += round ? 2 : 1)
		for (d = 0; d < x->parts && !st; d++) {
			to = d < x->parts - 1 ? z[0] : round ? x->y : z[1];
			st = part(x, d, round, from, to);
			from = to;
		}
	return st;
}

static enum rlx_status one_axis(struct rlx_lower *lo, const struct rlx_fft_step *s, bool inverse,
				struct rlx_fft_place from, struct rlx_fft_place to)
{
	const enum rlx_dtype dt = rlx_lower_in(lo, 0)->dtype;
	const struct rlx_g_launch l = gpu_launch_of(lo, 0);
	const bool real = s->real_in || s->real_out;
	struct axis x = {
		.lo = lo, .s = s, .t = { lo, dt == RLX_F64 }, .x = from, .y = to,
		.inverse = inverse, .type = (uint8_t)(dt == RLX_C64 ? RLX_F32 : dt),
		.wide = dt == RLX_F64 ? RLX_F64 : RLX_F32, .n = s->n,
		.in = rlx_fft_view(s->real_in ? RLX_K_FFT_REAL : s->real_out ? RLX_K_FFT_HALF :
				   RLX_K_FFT_COMPLEX, s->d, s->real_out ? s->n / 2 + 1 : s->n,
				   s->inner),
		.out = rlx_fft_view(s->real_out ? RLX_K_FFT_REAL : RLX_K_FFT_COMPLEX, s->out,
				    s->out, s->inner),
	};

	x.pairs = real && s->n % 2 == 0 && (!s->real_in || x.in.n % 2 == 0);
	x.n = x.pairs ? s->n / 2 : s->n;
	if (!choose_parts(&x, &l))
		return rlx_lower_unsupported(lo, "the lines are too long for a GPU's matrices");
	if (x.pairs && x.parts > 1 && s->real_in) {
		x.pairs = false;
		x.n = s->n;
		choose_parts(&x, &l);
	}
	if (x.pairs)
		use_pairs(&x);
	if (x.parts == 1)
		return whole_lines(&x);
	x.halves = real && !x.pairs && !x.chirp.n && (s->real_in || x.parts == 2);
	return by_parts(&x);
}

enum rlx_status gpu_lower_fft(struct rlx_lower *lo)
{
	const enum rlx_dtype dt = rlx_lower_in(lo, 0)->dtype;

	return rlx_fft_steps(lo, dt == RLX_C64 ? 4 : rlx_dtype_size(dt), one_axis);
}

enum rlx_status gpu_lower_rfft(struct rlx_lower *lo)
{
	return gpu_lower_fft(lo);
}

enum rlx_status gpu_lower_irfft(struct rlx_lower *lo)
{
	return gpu_lower_fft(lo);
}
