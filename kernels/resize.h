/* SPDX-License-Identifier: MIT */
/*
 * Resizing along up to three axes by tables the caller makes: every output
 * position of an axis is a weighted sum of a few input positions. So nearest,
 * linear, cubic, antialiased and every coordinate convention are one kernel.
 */
#ifndef RLX_K_RESIZE_H
#define RLX_K_RESIZE_H

#include "kernels/kernel.h"

/*
 * A vector of outputs along axis 2 by two taps: the input that theirs begin with and how many there
 * are from there to the last one. @span 0: one lies outside, or further off than two vectors hold.
 */
struct rlx_resize_block {
	int32_t	from, span;
};

/**
 * struct rlx_k_resize_axis - how one axis is resized
 * @in, @out: its extent before and after
 * @taps: input positions for each output position, at least 1: nearest 1,
 *	linear 2, cubic 4; a weight of 0 multiplies too: NaN spreads
 * @index: [out][taps] input positions, each below @in; or index[i * taps] = -1:
 *	output position i lies outside, and gets the value `outside`
 * @weight: [out][taps]; NULL where taps is 1 and every weight is 1
 * @wide: resize_wide alone: the same in double, and @weight is NULL
 * @block: resize_f32 and resize_wide, of axis 2: by rlx_resize_blocks() for the level; or NULL
 * @lane: likewise: of each block rlx_resize_lane() of the first and of the second tap, then the
 *	weights of these, all as wide as the weights
 *
 * An axis that keeps its size has taps 1 and index i for i; @index may then be
 * NULL.
 */
struct rlx_k_resize_axis {
	size_t		in, out, taps;
	const int32_t	*index;
	const float	*weight;
	const double	*wide;
	const struct rlx_resize_block *block;
	const void	*lane;
};

/**
 * struct rlx_k_resize - kernels resize_f32, resize_c, resize_nearest and resize_wide
 * @x: [planes][axis 0][axis 1][axis 2]; resize_c: each element is a block of
 *	channels (planes: images times blocks), in kernels/conv.h's sense
 * @y: likewise
 * @planes: what lies before the axes, as one
 * @axis: the innermost one last; unused leading ones: in, out, taps 1
 * @outside: see index above
 * @esize: resize_nearest alone: bytes of an element, 1, 2, 4 or 8. Its axes
 *	have taps 1, no weight and no -1.
 * @x_type, @type: of x and y in resize_wide alone, which takes f64 and integers: sums are
 *	in double, along axis 0, then 1, then 2, each in the order of its taps, and
 *	truncated for integers at the end
 * @fill: resize_wide alone: `outside` as an element of @type
 * @nearest: resize_wide alone: elements, of one type, are moved and go through no double
 *
 * One unit is one row of the output: units = planes * axis[0].out *
 * axis[1].out. Scratch: rlx_resize_scratch() (resize_nearest: 0; resize_wide:
 * rlx_resize_wide_scratch()).
 */
struct rlx_k_resize {
	const void	*x;
	void		*y;
	size_t		planes;
	struct rlx_k_resize_axis axis[3];
	float		outside;
	size_t		esize;
	uint64_t	fill;
	uint8_t		x_type, type;
	bool		nearest;
};

/* Bytes: one input row of @lanes floats (resize_f32: 1, resize_c: the block) */
static inline size_t rlx_resize_scratch(const struct rlx_k_resize *a,
					size_t lanes)
{
	return a->axis[2].in * lanes * sizeof(float);
}

#define RLX_RESIZE_ROWS	4	/* input rows that resize_wide keeps as doubles */

/* Bytes: these and two sums of rows. */
static inline size_t rlx_resize_wide_scratch(const struct rlx_k_resize *a)
{
	return (RLX_RESIZE_ROWS + 2) * a->axis[2].in * sizeof(double);
}

/* Whether vectors of outputs are made of vectors of inputs: else there are no blocks. */
static inline bool rlx_resize_has_blocks(const struct rlx_k_resize_axis *a, enum rlx_isa isa)
{
	return isa >= RLX_ISA_V3 && a->taps == 2 && (a->weight || a->wide);
}

static inline size_t rlx_resize_lanes(const struct rlx_k_resize_axis *a, enum rlx_isa isa)
{
	return rlx_isa_vector_bytes(isa) / (a->wide ? sizeof(double) : sizeof(float));
}

/* Which inputs outputs [@o, @o + @n) lie on. */
static inline struct rlx_resize_block rlx_resize_block_of(const struct rlx_k_resize_axis *a,
							  size_t o, size_t n, size_t lanes)
{
	const int32_t *at = a->index + 2 * o;
	struct rlx_resize_block b = { 0, 0 };
	int32_t lo = at[0], hi = at[0];

	for (size_t i = 0; i < 2 * n; i++) {
		lo = at[i] < lo ? at[i] : lo;
		hi = at[i] > hi ? at[i] : hi;
	}
	if (lo >= 0 && (size_t)(hi - lo) < 2 * lanes) {
		b.from = lo;
		b.span = hi - lo + 1;
	}
	return b;
}

/*
 * Lane @k of two vectors as permutations take it: AVX2 has one of 32 bits in one vector alone, so a
 * sign says that it is in the second, and a double is two numbers.
 */
static inline uint64_t rlx_resize_lane(uint64_t k, size_t lanes, enum rlx_isa isa)
{
	const bool second = k >= lanes;

	if (isa != RLX_ISA_V3)
		return k;
	return lanes == 8 ? k | (uint64_t)second << 31 :
			    2 * k | (2 * k + 1) << 32 | (uint64_t)second << 63;
}

/*
 * The blocks of @a, where rlx_resize_has_blocks(), with out / lanes of them, rounded up, at @block,
 * and four vectors for each at @lane, zeroed.
 */
static inline void rlx_resize_blocks(const struct rlx_k_resize_axis *a, enum rlx_isa isa,
				     struct rlx_resize_block *block, void *lane)
{
	const size_t lanes = rlx_resize_lanes(a, isa);

	for (size_t o = 0, b = 0; o < a->out; o += lanes, b++) {
		const size_t n = a->out - o < lanes ? a->out - o : lanes;

		block[b] = rlx_resize_block_of(a, o, n, lanes);
		for (size_t i = 0; i < 2 * n && block[b].span; i++) {
			const size_t at = (4 * b + i % 2) * lanes + i / 2, w = at + 2 * lanes;
			const uint64_t k = rlx_resize_lane(
				(uint64_t)(a->index[2 * o + i] - block[b].from), lanes, isa);

			if (a->wide) {
				((uint64_t *)lane)[at] = k;
				((double *)lane)[w] = a->wide[2 * o + i];
			} else {
				((uint32_t *)lane)[at] = (uint32_t)k;
				((float *)lane)[w] = a->weight[2 * o + i];
			}
		}
	}
}

#endif
