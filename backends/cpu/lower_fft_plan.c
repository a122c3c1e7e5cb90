// SPDX-License-Identifier: MIT
/* What ways of doing a Fourier transform cost, and the choice among them. */
#include <math.h>

#include "backends/cpu/lower_fft_plan.h"

/* Vectors of a transform beyond this are not kept by the nearest cache. */
static const double NEAR_BYTES = 32768;
/* Passes over them take so much longer, if they are read in order whatever their number. */
static const double NOT_NEAR = 1.15;
/* Nor beyond this by the second-level cache. */
static const double CACHE_BYTES = 384 << 10;
/* Beyond this they share it with nothing else: what a line's passes read comes from further. */
static const double FAR_BYTES = 1536 << 10;
/* Lines of more than this, with their results, come from memory. */
static const double MEMORY_BYTES = 6 << 20;
/* The nearest cache: what lies so far apart shares its places, of which there are so many. */
enum { CACHE_WAYS = 8, CACHE_WAY_BYTES = 4096 };
/* A line is done by one thread if it is shorter, or if there are some. */
enum { SHARED_LINE = RLX_K_FFT_SHARED, ENOUGH_LINES = 3 };

/* What a pass takes for an element, by radix; measured, in no unit. */
static double pass_cost(const struct cpu_fft *f, int64_t r)
{
	static const float few[] = { [2] = 1.6f, [3] = 2.1f, [4] = 2, [5] = 3, [7] = 4.6f,
				     [8] = 3.1f };
	static const float many[] = { [2] = 1.6f, [3] = 2, [4] = 2, [5] = 2.7f, [7] = 3.3f,
				      [8] = 2.7f, [9] = 2.8f, [11] = 5, [13] = 6, [15] = 3.6f,
				      [16] = 3.4f };
	static const float portable[] = { [2] = 1.6f, [3] = 2.2f, [4] = 2, [5] = 3 };

	if (f->bits > 3)
		return r <= 16 && many[r] > 0 ? many[r] : 1 + 0.55 * (double)r;
	if (f->bits == 3)
		return r <= 8 && few[r] > 0 ? few[r] : 3.5 + 0.38 * (double)r;
	return r < 6 ? portable[r] : 1 + 0.55 * (double)r;
}

/* A pass over vectors that are not in the nearest cache. */
static double by_size(const struct cpu_fft *f, double n, double cost)
{
	double bytes = 4 * n * (double)f->lanes * (double)f->size;

	if (bytes > FAR_BYTES && !cpu_fft_portable(f))
		return cost * (bytes > MEMORY_BYTES ? 2.8 : f->bits > 3 ? 2.3 : 1.9);
	return bytes > CACHE_BYTES ? cost * 1.3 : bytes > NEAR_BYTES ? cost * NOT_NEAR : cost;
}

/*
 * Of 2^@twos as few passes as there can be, by radices that differ the least, largest last: what
 * the last one gives is not multiplied.
 */
static int even_radices(const struct cpu_fft *f, int64_t twos, uint8_t radix[RLX_K_FFT_FACTORS])
{
	const int64_t most = f->bits;
	int64_t passes = (twos + most - 1) / most;
	int n = 0;

	for (; passes; passes--) {
		int64_t bits = twos / passes;

		radix[n++] = (uint8_t)(1 << bits);
		twos -= bits;
	}
	return n;
}

/*
 * Radices of @n; false if a prime factor is too large. Powers of two are at both ends: they, and
 * on some levels small odd ones, can read and write lines.
 */
static bool factorise(const struct cpu_fft *f, int64_t n, struct rlx_k_fft_core *c,
		      double *out_cost)
{
	int64_t r = 3, twos = 0;
	uint8_t even[RLX_K_FFT_FACTORS];
	int n_even, k;

	*out_cost = 0.5 * (double)n;
	*c = (struct rlx_k_fft_core){ .n = n };
	for (; n % 2 == 0; n /= 2)
		twos++;
	n_even = even_radices(f, twos, even);
	for (k = 0; k < n_even && (k < n_even - 1 || !k || n == 1); k++)
		c->factor[c->n_factor++] = even[k];
	for (; n % 9 == 0 && cpu_fft_odd_in_registers(f, 9); n /= 9)
		c->factor[c->n_factor++] = 9;
	for (; n % 15 == 0 && cpu_fft_odd_in_registers(f, 15); n /= 15)
		c->factor[c->n_factor++] = 15;
	for (; r <= RLX_K_FFT_RADIX && n > 1; r += 2)
		for (; n % r == 0; n /= r)
			c->factor[c->n_factor++] = (uint8_t)r;
	for (; k < n_even; k++)
		c->factor[c->n_factor++] = even[k];
	for (k = 0; k < c->n_factor; k++)
		*out_cost += (double)c->n * pass_cost(f, c->factor[k]);
	return n == 1;
}

/* Lengths of 2, 3 and 5 alone, from @least on, below twice that: calls @try for each. */
static int64_t next_padded(int64_t least, int *p3, int *p5)
{
	int64_t n = 1;

	if (++*p3 > 3) {
		*p3 = 0;
		++*p5;
	}
	for (int i = 0; i < *p3; i++)
		n *= 3;
	for (int i = 0; i < *p5; i++)
		n *= 5;
	while (n < least)
		n *= 2;
	return *p5 > 3 ? 0 : n;
}

/* The cheaper one of passes and Bluestein by @with; what it takes for one vector. */
static double core_of(const struct cpu_fft *f, const struct rlx_fft_chirp *with,
		      struct rlx_k_fft_core *c)
{
	const int64_t n = with->n;
	double cost, other;
	int p3 = -1, p5 = 0;
	int64_t padded;
	struct rlx_k_fft_core chirp;
	bool far;

	if (!factorise(f, n, c, &cost))
		cost = INFINITY;
	cost = by_size(f, (double)n, cost);
	if (n <= RLX_K_FFT_RADIX || cost < 12 * (double)n)
		return cost;
	while ((padded = next_padded(rlx_fft_chirp_least(with), &p3, &p5)) > 0) {
		factorise(f, padded, &chirp, &other);
		far = 2 * (double)(padded * f->lanes) * (double)f->size > NEAR_BYTES &&
		      !cpu_fft_portable(f);
		other = 2 * by_size(f, (double)padded, other) +
			(double)(padded + n) * (far ? 5 : 2);
		if (other >= cost)
			continue;
		cost = other;
		*c = chirp;
		c->chirp_n = n;
	}
	return cost;
}

static bool of_lines(const struct cpu_fft *f, int r)
{
	return rlx_k_fft_of_lines(r, cpu_fft_vector_bytes(f));
}

/*
 * Costs of numbers of lines that lie side by side, @n of each, as lines alone and as vectors of
 * them have them: the bytes that a line lies in decide which cache they come from, and are most of
 * it. Fitted by least squares to both ways of 700 drawn shapes: what is chosen has 0.99 of the
 * better one's speed in the mean, 0.6 at worst (0.98 and 0.5 without the bytes).
 */
struct apart {
	double	number, byte;	/* each number of a line; and each of its bytes */
	double	pitch;		/* the same where caches use every other line, or fewer */
	double	vector;		/* each vector of numbers */
	double	line[2], lanes[2];	/* more beyond APART_FAR, and APART_MEMORY */
};

static const struct apart apart_few = { 0.45, 0.53, 1.2, 7, { 1.5, 3.5 }, { 10, 9 } };
static const struct apart apart_many = { 0.55, 0.14, 0.45, 4.5, { 0.9, 2.6 }, { 14, 24 } };
static const double APART_FAR = 1e6, APART_MEMORY = 8e6;

static const struct apart *apart_of(const struct cpu_fft *f)
{
	return f->bits > 3 ? &apart_many : &apart_few;
}

/* @more of what lies so far apart that @n numbers of a line are in memory, or in a far cache. */
static double far_cost(const struct cpu_fft *f, double n, const double more[2])
{
	const double bytes = 2 * n * (double)f->size * (double)f->a.inner;

	return (bytes > APART_FAR ? more[0] : 0) + (bytes > APART_MEMORY ? more[1] : 0);
}

/* What @n elements of a line take to be moved one by one. */
static double apart_cost(const struct cpu_fft *f, const struct rlx_k_fft_view *v, double n)
{
	const struct apart *c = apart_of(f);
	const bool half = v->stride * (int64_t)f->size % 128 == 0;

	return v->stride > 2 ? n * (c->number + c->byte * (double)f->size +
				    (half ? c->pitch : 0) + far_cost(f, n, c->line)) : 0;
}

/*
 * Besides, of a line of @n1 rows of @n2 numbers: rows that begin in so few places of the nearest
 * cache that they displace one another.
 */
static double conflict_cost(const struct cpu_fft *f, int64_t n1, int64_t n2)
{
	const int64_t row = n2 * f->a.in.stride * (int64_t)f->size, same = row & -row;
	const int64_t places = same < CACHE_WAY_BYTES ? CACHE_WAY_BYTES / same : 1;

	return f->a.in.stride > 2 && n1 > CACHE_WAYS * places ? 10 * (double)(n1 * n2) : 0;
}

/* What a line alone takes besides its transform: to be read, written and split. */
static double ends_cost(const struct cpu_fft *f, int64_t n)
{
	const struct rlx_k_fft *a = &f->a;
	const double in = apart_cost(f, &a->in, (double)n), out = apart_cost(f, &a->out, (double)n);

	if (cpu_fft_portable(f))
		return 0;
	if (a->in.kind == RLX_K_FFT_HALF)	/* unfolded number by number */
		return in + out + (double)n * (f->bits > 3 ? 1.5 : 4);
	if (!a->split)
		return in + out;
	/* halves are read, or written, with their mirrors */
	return in + out + (a->split == 1 ? out : in) * 2 + (double)n / (double)f->lanes *
	       (in + out > 0 || n < 2 * f->lanes ? (f->bits > 3 ? 5.7 : 11) : 4.5);
}

/* The same of a vector of lines, which are transposed if they are not side by side. */
static double lanes_ends_cost(const struct cpu_fft *f, int64_t n)
{
	/* so many lines so far apart share places of the nearest cache */
	const int64_t apart = 2 * n * (int64_t)f->size;
	const bool far = f->bits > 3 ? apart >= 4096 : apart % 4096 == 0;
	const double near = f->bits > 3 || apart <= 2048 ? 3 : 6;
	const struct apart *c = apart_of(f);
	const double move = f->a.in.stride > 2 ? c->vector + far_cost(f, (double)n, c->lanes) :
			    far ? 8 : near;

	if (cpu_fft_portable(f))
		return 2 * (double)n;
	return (double)n * (move + (f->a.split ? 2.5 : 0));
}

/*
 * Whether threads share the lines' transforms of length @n, if they are done a line at a time. At
 * AVX-512 one alone does them faster so as well, in steps.
 */
bool cpu_fft_shares(const struct cpu_fft *f, int64_t n)
{
	return n >= SHARED_LINE && f->a.in.kind != RLX_K_FFT_HALF &&
	       (f->threads > 1 || f->bits > 3) && f->a.outer * f->a.inner < ENOUGH_LINES;
}

/*
 * Whether the last vector of columns, and of rows, is of some of those before it too. Where bits
 * are strict that hangs on no number of lines: long ones are done as if threads shared them.
 */
bool cpu_fft_overlaps(const struct cpu_fft *f, int64_t n)
{
	return !cpu_fft_portable(f) && !(f->lo->strict ? n >= SHARED_LINE : cpu_fft_shares(f, n));
}

/* What lines take to be read, turned and written by @a, in pieces unless they are all squares. */
static double pieces_cost(const struct cpu_fft *f, const struct rlx_k_fft *a, double vectors)
{
	const struct rlx_k_fft_core *columns = &a->core[0], *rows = &a->core[1];
	const int64_t n1 = rlx_k_fft_length(columns), n2 = rlx_k_fft_length(rows);
	const bool square = rlx_k_fft_square(a, f->lanes), overlap = cpu_fft_overlaps(f, n1 * n2);
	/* whether some vectors are not whole, or do not begin where lines of a cache do */
	const bool some_columns = overlap ? n2 < f->lanes : n2 % f->lanes;
	const bool some_rows = overlap ? n1 < f->lanes : n1 % f->lanes;
	const int odd = (n2 % f->lanes != 0) + (n1 % f->lanes != 0);
	/* passes read and write at the ends */
	const bool from = of_lines(f, columns->factor[0]);
	const bool to = of_lines(f, rows->factor[rows->n_factor - 1]);
	double cost = vectors * ((square ? 1.5 : 4) + (from ? 0 : 3) +
				 (to ? 0 : square ? 2 : 3));

	if (cpu_fft_portable(f))
		return vectors * 10;
	cost += vectors * 1.2 * odd;
	if (!square || some_columns || some_rows)
		cost += 60;
	if (some_columns)
		cost += (double)n1 * 5;
	if (some_rows)
		cost += (double)n2 * 3 + 36 * (double)rlx_k_fft_blocks(n2, f->lanes);
	return cost;
}

/* Strict bits: a line is done alone as among others. */
static double lines_of(const struct cpu_fft *f)
{
	return f->lo->strict ? 1 : (double)(f->a.outer * f->a.inner);
}

/*
 * Whether rows of a line are long, but read in order; others are few enough for a cache, but lie
 * far apart. What no cache holds is as bad; of more lines at AVX-512 only twice that.
 */
static bool in_order(const struct cpu_fft *f, const struct rlx_k_fft *a)
{
	const double bytes = 4 * (double)a->core[1].n * (double)cpu_fft_vector_bytes(f);

	return rlx_k_fft_by_squares(a, f->lanes) &&
	       bytes <= (f->bits == 3 || lines_of(f) < ENOUGH_LINES ? 1 : 2) * FAR_BYTES;
}

/* What cores take for n1 n2 = n, a line alone. */
static double line_cost(const struct cpu_fft *f, const struct rlx_k_fft_core core[2],
			double columns, double rows)
{
	const int64_t n1 = rlx_k_fft_length(&core[0]), n2 = rlx_k_fft_length(&core[1]);
	const double vectors = (double)(n1 * n2) / (double)f->lanes;
	struct rlx_k_fft a = f->a;
	double cost;

	a.mode = RLX_K_FFT_LINE;
	a.overlap = cpu_fft_overlaps(f, n1 * n2);
	a.core[0] = core[0];
	a.core[1] = core[1];
	if (!cpu_fft_portable(f) && rlx_k_fft_shares(&a, f->lanes))
		return vectors * (pass_cost(f, n1) + 1 + pass_cost(f, n2));
	if (in_order(f, &a) && a.overlap)
		rows *= fmin(1, NOT_NEAR / by_size(f, (double)n2, 1));
	cost = (double)rlx_k_fft_blocks(n2, f->lanes) * columns +
	       (double)rlx_k_fft_blocks(n1, f->lanes) * rows;
	cost += pieces_cost(f, &a, vectors);
	return cost;
}

/* A core's only even radix is the last one: it writes lines. */
static void even_last(struct rlx_k_fft_core *c)
{
	const int n = c->n_factor - 1;
	const uint8_t first = c->factor[0];

	if (c->factor[n] % 2 == 0)
		return;
	memmove(c->factor, c->factor + 1, (size_t)n);
	c->factor[n] = first;
}

/* The best n1 n2 = n for a line alone. */
static double split_line(const struct cpu_fft *f, int64_t n, struct rlx_k_fft_core best[2])
{
	double least = INFINITY, columns, rows, c;
	struct rlx_k_fft_core one[2];
	int64_t n1;

	for (n1 = 2; n1 * n1 <= n * 64 && n1 < n; n1++) {
		if (n % n1)
			continue;
		columns = core_of(f, &(struct rlx_fft_chirp){ n1, n1, n1 }, &one[0]);
		rows = core_of(f, &(struct rlx_fft_chirp){ n / n1, n / n1, n / n1 }, &one[1]);
		even_last(&one[1]);
		c = line_cost(f, one, columns, rows) + conflict_cost(f, n1, n / n1);
		if (c >= least)
			continue;
		least = c;
		best[0] = one[0];
		best[1] = one[1];
	}
	return least;
}

/* How lines are done: a vector of them, or one; sets mode and cores of f->a. */
static double choose(struct cpu_fft *f)
{
	const int64_t n = f->chirp.n;
	const double lines = lines_of(f);
	double by_lanes, by_line = INFINITY;
	struct rlx_k_fft_core whole, part[2] = { { 0 }, { 0 } };

	by_lanes = (core_of(f, &f->chirp, &whole) + lanes_ends_cost(f, n)) *
		   (f->lo->strict ? 1 : (double)rlx_k_fft_groups(&f->a, f->lanes));
	if (n >= 16)
		by_line = lines * (split_line(f, n, part) + ends_cost(f, n));
	/*
	 * Of a line there is work enough while the next columns come, of many at a time not, unless
	 * they lie side by side.
	 */
	if (f->a.across_outer && !f->lo->strict &&
	    lines * (double)n * 4 * (double)f->size > MEMORY_BYTES &&
	    4 * (double)n * (double)f->lanes * (double)f->size > CACHE_BYTES)
		by_lanes *= 1.35;
	f->a.n = n;
	f->a.mode = by_lanes <= by_line ? RLX_K_FFT_LANES : RLX_K_FFT_LINE;
	f->a.core[0] = by_lanes <= by_line ? whole : part[0];
	f->a.core[1] = by_lanes <= by_line ? (struct rlx_k_fft_core){ 0 } : part[1];
	return by_lanes <= by_line ? by_lanes : by_line;
}

/*
 * What passes over @n vectors of a chirp's line take, with all that is done between them. Fitted by
 * least squares to convolutions of all such lengths from 128 to 40,000 as all such matrices, timed
 * for both sizes of numbers at AVX2 and AVX-512: within 5 to 9 % (rms).
 */
static double chirp_passes(const struct cpu_fft *f, const struct rlx_k_fft_core *c)
{
	static const float few[] = { [2] = 2.4f, [3] = 3.4f, [4] = 2.9f, [5] = 5.2f, [8] = 4.7f };
	static const float many[] = { [2] = 1.9f, [3] = 3.3f, [4] = 2.8f, [5] = 4.1f, [8] = 3.9f,
				       [9] = 4.8f, [15] = 6.6f, [16] = 5.4f };
	double cost = 0;

	for (int k = 0; k < c->n_factor; k++)
		cost += f->bits > 3 ? many[c->factor[k]] : few[c->factor[k]];
	return by_size(f, (double)c->n, cost * (double)c->n) + 32;
}

/*
 * The best n1 n2 = n, of factors 2, 3 and 5, for a chirp over a line of its own: n2 is of whole
 * vectors of columns.
 */
static double split_chirp(const struct cpu_fft *f, int64_t n, struct rlx_k_fft_core best[2])
{
	double least = INFINITY, c;
	struct rlx_k_fft_core one[2];
	int64_t n1;

	for (n1 = 2; n1 < n && n1 * n1 <= n * 64; n1++) {
		if (n % n1 || n / n1 % f->lanes)
			continue;
		factorise(f, n1, &one[0], &c);
		factorise(f, n / n1, &one[1], &c);
		c = (double)(n / n1 / f->lanes) * chirp_passes(f, &one[0]) +
		    (double)rlx_k_fft_blocks(n1, f->lanes) * chirp_passes(f, &one[1]) +
		    conflict_cost(f, n1, n / n1) / 2;
		if (c >= least)
			continue;
		least = c;
		best[0] = one[0];
		best[1] = one[1];
	}
	return 2 * least;
}

/* The same for a chirp over a line of its own. */
static double choose_chirp(struct cpu_fft *f)
{
	double cost = INFINITY, c;
	int p3 = -1, p5 = 0;
	int64_t padded;
	struct rlx_k_fft_core part[2];

	while ((padded = next_padded(rlx_fft_chirp_least(&f->chirp), &p3, &p5)) > 0) {
		/* as in pieces_cost() */
		c = split_chirp(f, padded, part) + (f->a.split ? 60 : 0) +
		    ends_cost(f, f->chirp.n);
		if (c >= cost)
			continue;
		cost = c;
		f->a.n = padded;
		f->a.core[0] = part[0];
		f->a.core[1] = part[1];
	}
	f->a.chirp_n = f->chirp.n;
	f->a.mode = RLX_K_FFT_LINE;
	return lines_of(f) * cost;
}

void cpu_fft_plan(struct cpu_fft *f)
{
	const double cost = choose(f);
	const struct rlx_k_fft plain = f->a;

	if (f->chirp.n <= RLX_K_FFT_RADIX || choose_chirp(f) >= cost)
		f->a = plain;
}
