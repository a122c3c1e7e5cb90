/* SPDX-License-Identifier: MIT */
/* Discrete Fourier transforms along one axis. */
#ifndef RLX_K_FFT_H
#define RLX_K_FFT_H

#include "kernels/type.h"

/* What an element of a line is: how many numbers, and where they are. */
enum rlx_k_fft_kind {
	RLX_K_FFT_COMPLEX,	/* re, im */
	RLX_K_FFT_REAL,		/* re; read, im is 0, written, it is dropped */
	RLX_K_FFT_PAIRS,	/* two neighbours of a real line are re and im */
	RLX_K_FFT_HALF,		/* read: re, im; beyond n / 2 the conjugate of element n - i; not
				   in steps that threads share; written, on GPUs: the same */
	RLX_K_FFT_HALF_OF_PAIRS,	/* on GPUs: half a spectrum; the other side has pairs */
	RLX_K_FFT_HALF_TO_PAIRS,	/* the same, read, by launches of parts of a line */
};

/* Lines in memory; distances in numbers. */
struct rlx_k_fft_view {
	int64_t	n;		/* elements that are there: others are 0, or are not written */
	int64_t	stride;		/* from an element to the next */
	int64_t	part;		/* from re to im */
	int64_t	outer, inner;	/* from a line to the next along either */
	uint8_t	kind;
};

enum { RLX_K_FFT_FACTORS = 24, RLX_K_FFT_RADIX = 61 };	/* the most, and the largest */
enum { RLX_K_FFT_GPU_RADIX = 31 };	/* the largest prime of a GPU's */
enum { RLX_K_FFT_SHORT = 32 };	/* numbers of a line that a GPU's thread has in registers */

/*
 * A transform of vectors. Its passes are of a length without prime factors beyond
 * RLX_K_FFT_RADIX: pass k of radix r, with m = n / (factor[0] .. factor[k]), has in @w cos and
 * sin of 2 pi i / r for some i if r is odd (rlx_k_fft_roots()), then for p in [0, m) and i in
 * [1, r) the twiddle factor of p i / (m r). Bluestein, where chirp_n is not 0: a convolution of
 * length n with a chirp stands for the transform of length chirp_n.
 */
struct rlx_k_fft_core {
	int64_t		n;
	const void	*w;
	int64_t		chirp_n;
	const void	*chirp;		/* re [chirp_n], im: e^(-pi i k^2 / chirp_n) */
	const void	*spectrum;	/* re [n], im: of the chirp's conjugate, over n */
	uint8_t		n_factor, factor[RLX_K_FFT_FACTORS];
};

static inline int64_t rlx_k_fft_length(const struct rlx_k_fft_core *c)
{
	return c->chirp_n ? c->chirp_n : c->n;
}

/* Vectors that a core works with, its input among them. */
static inline int64_t rlx_k_fft_vectors(const struct rlx_k_fft_core *c)
{
	return c->chirp_n ? c->chirp_n + 2 * c->n : 2 * c->n;
}

/* How a transform of length n is done. */
enum rlx_k_fft_mode {
	RLX_K_FFT_LANES,	/* a vector of lines at a time, by core[0] */
	/*
	 * A line as a matrix [n1][n2]: its columns by core[0], times twiddle factors, its rows by
	 * core[1]; a vector of columns, then of rows, at a time. All of a line:
	 */
	RLX_K_FFT_LINE,
	RLX_K_FFT_COLUMNS,	/* or the columns alone, to z */
	RLX_K_FFT_ROWS,		/* and the rows, from z */
	/* of a chirp: rows there and back, in z, times the spectrum between; columns from z */
	RLX_K_FFT_THROUGH,
	RLX_K_FFT_BACK,
	RLX_K_FFT_SPLIT,	/* between half a spectrum and the one of pairs */
};

/*
 * y is the transform of x, times scale. @chirp_n as of a core: of lines too long for one.
 *
 * Real lines of even length are transformed as pairs, by half the length (@split): their
 * spectrum is made of that of the pairs behind it, or the other way round before it.
 *
 * CPU kernels: fft_f32, fft_f64. One unit is, in mode LANES a vector of lines
 * (rlx_k_fft_groups()), LINE a line, COLUMNS and ROWS a vector of them, SPLIT as many elements as
 * RLX_K_FFT_CHUNK. Scratch: rlx_k_fft_scratch().
 */
struct rlx_k_fft {
	const void		*x;
	void			*y;
	void			*z;	/* where parts are: [outer inner][blocks of n1][n2] */
	struct rlx_k_fft_view	in, out;
	int64_t			outer, inner;	/* lines */
	int64_t			n;
	struct rlx_k_fft_core	core[2];
	/*
	 * [n1][lanes]: e^(-2 pi i k1 column / n), re, im; column is the lane, modulo n2 if several
	 * lines share a vector; times the scale but for Bluestein, and @scale is 1 then
	 */
	const void		*lane_w;
	const void		*block_w;	/* [blocks of n2][n1]: of k1 and the first column */
	/* of short lines, columns square: both of them multiplied, [blocks of n2][n1][lanes] */
	const void		*square_w;
	int64_t			chirp_n;	/* 0: no Bluestein */
	const void		*chirp;		/* as of a core */
	const void		*spectrum;	/* of the chirp's conjugate, over n, as z: vectors of
						   re and im; times the scale, and @scale is 1 */
	const void		*split_w;	/* re [half + 1], im: e^(-2 pi i k / (2 half)) */
	int64_t			half;		/* SPLIT, or split: length of the pairs */
	double			scale;
	uint8_t			mode;
	uint8_t			inverse;
	uint8_t			split;		/* to: 1, from: 2 half a spectrum; 0: neither */
	uint8_t			across_outer;	/* LANES: a vector is of lines of @outer */
	/* LINE: the last vector of columns, or of rows, is whole: some are those before it */
	uint8_t			overlap;
};

enum { RLX_K_FFT_CHUNK = 128 };
enum { RLX_K_FFT_SHARED = 32768 };	/* threads may share lines of so many, with the same bits */
enum { RLX_K_FFT_SQUARE_W = 4096 };	/* the longest lines that have square_w */

/* Bits of the largest even radix, whose numbers are in registers; 2: there are none to spare. */
static inline int rlx_k_fft_bits(size_t vector_bytes)
{
	return vector_bytes == 64 ? 4 : vector_bytes == 32 ? 3 : 2;
}

/* Whether odd radix @r has its numbers in registers. */
static inline bool rlx_k_fft_odd_in_registers(int r, size_t vector_bytes)
{
	const int bits = rlx_k_fft_bits(vector_bytes);

	return bits > 2 && (r == 3 || r == 5 || r == 7 ||
			    (bits > 3 && (r == 9 || r == 11 || r == 13 || r == 15)));
}

/*
 * Numbers of a pass's roots, before its twiddle factors: of odd radices in registers those of i in
 * [0, r), of others those of k i for k and i in [1, r / 2], a row for each k.
 */
static inline int64_t rlx_k_fft_roots(int r, size_t vector_bytes)
{
	if (r % 2 == 0)
		return 0;
	return rlx_k_fft_odd_in_registers(r, vector_bytes) ? 2 * r : (r / 2) * (r / 2) * 2;
}

/* Whether a pass of radix @r reads or writes lines by whole vectors. */
static inline bool rlx_k_fft_of_lines(int r, size_t vector_bytes)
{
	const int bits = rlx_k_fft_bits(vector_bytes);

	return bits > 2 && ((r % 4 == 0 && r <= 1 << bits) ||
			    (bits > 3 && rlx_k_fft_odd_in_registers(r, vector_bytes)));
}

/* Whether lines of @v are @n complex numbers side by side. */
static inline bool rlx_k_fft_dense(const struct rlx_k_fft_view *v, int64_t n)
{
	return (v->kind == RLX_K_FFT_COMPLEX || v->kind == RLX_K_FFT_PAIRS) && v->stride == 2 &&
	       v->part == 1 && v->n >= n;
}

/* Whether columns are done by one pass of as many elements as a vector has lanes. */
static inline bool rlx_k_fft_square(const struct rlx_k_fft *a, int64_t lanes)
{
	return a->core[0].n == lanes && a->core[0].n_factor == 1 && !a->core[0].chirp_n;
}

/* Whether lines, or what they are split to or from, are whole squares and the rows of these. */
static inline bool rlx_k_fft_by_squares(const struct rlx_k_fft *a, int64_t lanes)
{
	const struct rlx_k_fft_core *rows = &a->core[1];

	return a->mode == RLX_K_FFT_LINE && !a->chirp_n && rlx_k_fft_square(a, lanes) &&
	       !rows->chirp_n && rows->n >= lanes && (rows->n % lanes == 0 || a->overlap) &&
	       (a->split == 2 || rlx_k_fft_dense(&a->in, lanes * rows->n)) &&
	       (a->split == 1 || rlx_k_fft_dense(&a->out, lanes * rows->n));
}

/* Whether the columns of a line are so few that several lines have them in a vector. */
static inline bool rlx_k_fft_shares(const struct rlx_k_fft *a, int64_t lanes)
{
	const int64_t n2 = a->core[1].n;

	return rlx_k_fft_square(a, lanes) && !a->split && !a->chirp_n && lanes > 4 &&
	       (n2 == lanes / 2 || n2 == lanes / 4) &&
	       rlx_k_fft_dense(&a->in, lanes * n2) && rlx_k_fft_dense(&a->out, lanes * n2);
}

static inline int64_t rlx_k_fft_blocks(int64_t n, int64_t lanes)
{
	return (n + lanes - 1) / lanes;
}

/* Which of @n columns or rows of a line is the first of vector @block. */
static inline int64_t rlx_k_fft_first(const struct rlx_k_fft *a, int64_t n, int64_t block,
				      int64_t lanes)
{
	const int64_t first = block * lanes, last = n - lanes;

	return a->overlap && last >= 0 && first > last ? last : first;
}

/* Vectors of lines. */
static inline int64_t rlx_k_fft_groups(const struct rlx_k_fft *a, int64_t lanes)
{
	return a->across_outer ? rlx_k_fft_blocks(a->outer, lanes) * a->inner :
				 rlx_k_fft_blocks(a->inner, lanes) * a->outer;
}

/* Units of a line: columns, rows or pieces of a split. */
static inline int64_t rlx_k_fft_pieces(const struct rlx_k_fft *a, int64_t lanes)
{
	if (a->mode == RLX_K_FFT_SPLIT)
		return rlx_k_fft_blocks(a->half + 1, RLX_K_FFT_CHUNK);
	return rlx_k_fft_blocks(rlx_k_fft_length(&a->core[a->mode == RLX_K_FFT_COLUMNS ||
							  a->mode == RLX_K_FFT_BACK]), lanes);
}

/* Complex numbers of z, for a line. */
static inline int64_t rlx_k_fft_z(const struct rlx_k_fft *a, int64_t lanes)
{
	return rlx_k_fft_blocks(rlx_k_fft_length(&a->core[0]), lanes) * lanes *
	       rlx_k_fft_length(&a->core[1]);
}

/* Bytes of scratch; @lanes of the level's vectors, @size of a number. */
static inline size_t rlx_k_fft_scratch(const struct rlx_k_fft *a, int64_t lanes, size_t size)
{
	int64_t n = rlx_k_fft_vectors(&a->core[0]), other = rlx_k_fft_vectors(&a->core[1]);

	if (a->mode == RLX_K_FFT_SPLIT)
		return 0;
	n = (n > other ? n : other) + 2;	/* half a spectrum has one element more */
	n *= lanes;
	other = a->chirp_n ? a->chirp_n : a->n;
	if (a->mode == RLX_K_FFT_LINE)
		n += rlx_k_fft_z(a, lanes) + (other > a->half ? other : a->half + 1);
	return (size_t)n * 2 * size;
}

/* What a launch on a GPU does besides, in this order. */
enum rlx_k_fft_step {
	RLX_K_FFT_SWAP_X = 1,		/* re and im of what it reads, or writes: the inverse */
	RLX_K_FFT_CHIRP_X = 2,		/* times the chirp */
	RLX_K_FFT_CONVOLVE = 4,		/* times the spectrum, and back: two transforms */
	RLX_K_FFT_TURN = 8,		/* times root position of x * k, as columns are */
	RLX_K_FFT_SPECTRUM = 16,	/* times the spectrum, re and im swapped */
	RLX_K_FFT_CHIRP_Y = 32,		/* re and im swapped, times the chirp */
	RLX_K_FFT_SWAP_Y = 64,
	RLX_K_FFT_SCALE = 128,		/* times scale */
};

/* Lines in one direction: how many, numbers from one to the next, how much positions grow. */
typedef struct {
	int64_t	n, in, out, in_at, out_at;
} rlx_k_fft_digit;

/*
 * On a GPU: one launch of transforms of length n. Element i of a line is read at position i in_step
 * and what its digits add, written likewise; views are of positions. Lines that are longer are done
 * by several, as matrices.
 *
 * GPU kernels: fft; fft_short, of lines of RLX_K_FFT_SHORT numbers at most.
 */
typedef struct rlx_k_fft_gpu {
	const void		*x;
	void			*y;
	struct rlx_k_fft_view	in, out;	/* outer and inner are not used */
	rlx_k_fft_digit		digit[4];	/* lines of the first share blocks */
	int64_t			in_step, out_step;
	int64_t			out_end;	/* positions from there on are none */
	int64_t			n;		/* of primes up to RLX_K_FFT_GPU_RADIX */
	int64_t			whole;		/* of a chirp, or of half a spectrum's line */
	int64_t			rows;		/* out of kind HALF: a position's row, modulo */
	const void		*roots;		/* [n] of re, im: e^(-2 pi i k / n), f64 or f32 */
	const void		*chirp;		/* [whole], as in struct rlx_k_fft_core */
	const void		*spectrum;	/* [n], or of all positions of y */
	const void		*turns;		/* roots 0 to 2^turns_bits, then each of these */
	/* [pairs + 1]: e^(-pi i k / pairs); for HALF_TO_PAIRS as turns, by split_bits */
	const void		*split;
	double			scale;
	uint32_t		turns_bits, split_bits;
	uint8_t			steps, type, out_type;	/* floats of 16 bits or more */
} rlx_k_fft_gpu;

/* Beside a kind of x or y. */
enum {
	RLX_K_FFT_ALIGNED = 8,	/* re and im are one word */
	RLX_K_FFT_DENSE = 16,	/* lines are in order, numbers next to one another */
	RLX_K_FFT_CUT = 32,	/* some positions are not there */
	RLX_K_FFT_NEAR = 64,	/* a block's lines lie within 2^30 numbers */
};

/* Threads of a multiprocessor that have registers for their elements; f64 is 1 or 0. */
#define RLX_K_FFT_RESIDENT(f64, n, threads, radices)						\
	(1024 >> (f64) >> ((n) > 16 * (threads) || ((radices) & 31) > 16))
#define RLX_K_FFT_BLOCK(threads)	(((threads) + 63) / 64 * 64)
/* Complex numbers of so many bytes each half in shared memory, a line of n. */
#define RLX_K_FFT_PADDED(n, size)	((n) + (n) / (64 / (int)(size)))

#endif
