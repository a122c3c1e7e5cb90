/* SPDX-License-Identifier: MIT */
/*
 * Convolutions: argument structs, units and scratch of the conv kernels.
 *
 * Two layouts.
 *
 *   plain    [n][channel][spatial...]: what a plan's tensors are (ONNX order).
 *   blocked  [n][channel / c][height][width][c]: c channels of one pixel lie
 *            together; c = rlx_conv_block(isa). The last block is filled up
 *            with pad lanes when c does not divide the channel count. Pad
 *            lanes hold unspecified values and never reach a real channel:
 *            any kernel that treats lanes apart may run over them. A buffer
 *            has rlx_conv_blocked_size() bytes and is 64-byte aligned.
 *            Concatenating on channels is free when each part but the last
 *            has a multiple of c channels: let y point into the whole and set
 *            y_n to its image stride.
 *
 * How to use a family, here `conv_c`: zero a struct, fill what stands above
 * its "derived" line, call its init function for the ISA level once (it checks
 * the shape and derives the blocking; false: this kernel cannot do it), ask
 * _units() and _scratch(), then run the kernel of that level's table over
 * [0, units) in any split. Pointers may change between runs, shapes may not;
 * no extent may be 0 (an empty batch has nothing to run).
 * Blocks of a plane are re-read per unit unless consecutive units run in one
 * call, so few long ranges are better than many short ones.
 *
 * Weights are packed once with the family's _pack kernel; the packed form
 * depends on the ISA level.
 */
#ifndef RLX_K_CONV_H
#define RLX_K_CONV_H

#include "rlx/act.h"
#include "kernels/kernel.h"

/* Channels in a block at @isa: 16 at v4 and above, 8 at v3, 4 at base. */
static inline size_t rlx_conv_block(enum rlx_isa isa)
{
	return rlx_isa_vector_bytes(isa) / sizeof(float);
}

/*
 * Terms that blocked convolutions sum in registers at most, unless one input block at
 * one tap has more; longer sums are made of such parts, whose number is by the sum's
 * length alone. A sum of positive terms in one run drifts off as it grows: 36,900 of
 * them by up to 8.9e-6 of it, in parts by 5e-7; one part of 1,152 by 1.9e-6. Parts of
 * 576 would have 9e-7, but cost up to 4 % at level v3 where these cost nothing that can
 * be measured. 128 channels of 3 x 3 are one.
 */
#define RLX_CONV_TERMS		1152

/*
 * Input channels that one tap takes before the next one: half a block at v4, so that sums go in
 * one order at v3 and v4.
 */
static inline size_t rlx_conv_lanes(size_t block)
{
	return block < 8 ? block : 8;
}

/* Bytes of a blocked f32 buffer; false when that overflows. */
bool rlx_conv_blocked_size(enum rlx_isa isa, size_t n, size_t channels,
			   size_t pixels, size_t *bytes);

/**
 * struct rlx_k_reorder - kernels to_blocked_f32 and to_plain_f32
 * @src: to_blocked: plain [n][channels][pixels]; to_plain: blocked
 * @dst: the other; pad lanes are written as 0
 * @n, @channels, @pixels: the shape; pixels is height * width
 * @src_n, @dst_n: elements from one image to the next
 *
 * One unit is one block of channels of one image:
 * units = n * ceil(channels / c). Scratch: 0.
 */
struct rlx_k_reorder {
	const float	*src;
	float		*dst;
	size_t		n, channels, pixels;
	size_t		src_n, dst_n;
};

/**
 * struct rlx_k_conv_c - kernels conv_c and conv_c_pack: blocked 1-D and 2-D
 * convolution (1-D: one row). y = act(conv(x, w) + bias + res)
 * @x: blocked [n][ic], or with @x_plain plain [n][ic][ih][iw]
 * @w: packed by conv_c_pack
 * @bias: [oc], or NULL
 * @res: blocked, shaped as y, or NULL; may be y itself
 * @y: blocked [n][oc]; not x
 * @x_n, @y_n, @res_n: elements from one image to the next
 * @n: images
 * @ic, @oc: channels of all groups together
 * @groups: with more than 1, ic / groups and oc / groups must be multiples of
 *	the block (use dw_c for depthwise, conv_nd for the rest)
 * @ih, @iw: input height, width
 * @oh, @ow: output height, width; input beyond the edge reads as 0, so bottom
 *	and right padding follow from these
 * @kh, @kw, @sh, @sw, @dh, @dw: kernel, stride, dilation
 * @pt, @pl: padding above and at the left
 * @act, @act_a, @act_b: activation and its act_lo, act_hi; NaN stays NaN in all
 * @x_plain: the input is plain (the first layer); needs groups 1
 *
 * One unit is a block of output pixels by some output channels. Each output's
 * sum runs in one fixed order. For 1 x 1 without stride or padding the init
 * function rewrites the extents: all pixels as one row.
 */
struct rlx_k_conv_c {
	const float	*x, *w, *bias, *res;
	float		*y;
	size_t		x_n, y_n, res_n;
	size_t		n, ic, oc, groups;
	size_t		ih, iw, oh, ow;
	size_t		kh, kw, sh, sw, dh, dw, pt, pl;
	enum rlx_act act;
	float		act_a, act_b;
	bool		x_plain;
	/* derived by rlx_conv_c_init() */
	bool		copy;		/* the input goes through scratch */
	size_t		c, xc;		/* block; lanes of an input block */
	size_t		rows, cols;	/* output pixels of a unit */
	size_t		nrows, ncols;	/* units down, across */
	size_t		chunk, nchunk;	/* output block pairs of a unit, units */
	size_t		kc;		/* (rlx_conv_lanes() of input, tap)s summed in one pass */
	size_t		apart, step;	/* rows of a unit; their windows, in rows of taps */
	size_t		in_rows, in_cols, phases;	/* of the copy */
	bool		by_tap;		/* the copy's phases are taps, not positions modulo sw */
};

bool rlx_conv_c_init(enum rlx_isa isa, struct rlx_k_conv_c *a);
/* Rows [y[0], y[1]) of taps read the input for output row @oy; others are padding. */
static inline void rlx_conv_rows(const struct rlx_k_conv_c *a, size_t oy, size_t y[2])
{
	size_t at = oy * a->sh, end = a->ih + a->pt, n;

	y[0] = at < a->pt ? (a->pt - at + a->dh - 1) / a->dh : 0;
	n = at < end ? (end - at + a->dh - 1) / a->dh : 0;
	y[1] = n < a->kh ? n : a->kh;
	y[0] = y[0] < y[1] ? y[0] : y[1];
}

size_t rlx_conv_c_units(const struct rlx_k_conv_c *a);
size_t rlx_conv_c_scratch(const struct rlx_k_conv_c *a);	/* bytes */
size_t rlx_conv_c_wsize(const struct rlx_k_conv_c *a);		/* packed bytes */

/**
 * struct rlx_k_conv_pack - kernel conv_c_pack
 * @conv: after its init; pointers are not looked at
 * @src: [oc][ic / groups][kh][kw]
 * @dst: rlx_conv_c_wsize() bytes, 64-byte aligned
 *
 * One unit is one pair of output blocks; rlx_conv_pack_units(). Scratch: 0.
 */
struct rlx_k_conv_pack {
	const struct rlx_k_conv_c *conv;
	const float	*src;
	float		*dst;
};

size_t rlx_conv_pack_units(const struct rlx_k_conv_c *a);

/**
 * struct rlx_k_wino_c - kernels wino_c and wino_c_pack: blocked 3 x 3
 * convolution of stride 1 by Winograd's F(m x m, 3 x 3). Fields as in
 * rlx_k_conv_c; kernel 3 x 3, stride, dilation and groups 1 are understood.
 * @w: packed by wino_c_pack
 * @m: 4: 36 multiplications instead of 144, 2: 16 instead of 36
 *
 * It rounds more than the direct sum. Divide the error of an output element
 * by the norm of the input patch it sees times the norm of its filter (over
 * kernel and channels), plus 1: that stays below 1e-6 for m = 2 and 4e-6 for
 * m = 4. Seen on uniform data of up to 200 channels: 1.4e-7 and 1.0e-6; the
 * direct sum: 1e-7. The points for m = 4 are 0, +-3/4 and +-3/2.
 *
 * One unit is a block of tiles by some output channels.
 */
struct rlx_k_wino_c {
	const float	*x, *w, *bias, *res;
	float		*y;
	size_t		x_n, y_n, res_n;
	size_t		n, ic, oc;
	size_t		ih, iw, oh, ow, pt, pl;
	enum rlx_act act;
	float		act_a, act_b;
	size_t		m;
	/* derived by rlx_wino_c_init() */
	size_t		c;
	size_t		ty, tx;			/* tiles down, across */
	size_t		block, nblock;		/* tiles of a unit; units */
	size_t		chunk, nchunk;		/* output block pairs, likewise */
	size_t		kc;			/* rlx_conv_lanes() of input summed in one pass */
};

/*
 * The m that is likely to beat conv_c on one core for @a (after its init), or
 * 0 when none is or the shape is not 3 x 3 of stride 1.
 */
size_t rlx_wino_c_pick(enum rlx_isa isa, const struct rlx_k_conv_c *a);
/* As rlx_conv_c_init; also false when @a->m is neither 2 nor 4. */
bool rlx_wino_c_init(enum rlx_isa isa, struct rlx_k_wino_c *a);
size_t rlx_wino_c_units(const struct rlx_k_wino_c *a);
size_t rlx_wino_c_scratch(const struct rlx_k_wino_c *a);
size_t rlx_wino_c_wsize(const struct rlx_k_wino_c *a);
size_t rlx_wino_c_pack_units(const struct rlx_k_wino_c *a);

/* Kernel wino_c_pack: @src is [oc][ic][3][3]; one unit is one pair of blocks. */
struct rlx_k_wino_pack {
	const struct rlx_k_wino_c *conv;
	const float	*src;
	float		*dst;
};

/**
 * struct rlx_k_dw_c - kernels dw_c and dw_c_pack: blocked depthwise 1-D and
 * 2-D convolution, one filter per channel. Fields as in rlx_k_conv_c.
 * @w: packed by dw_c_pack from [channels][kh][kw]
 *
 * One unit is some rows of one block of channels of one image. Scratch: 0.
 */
struct rlx_k_dw_c {
	const float	*x, *w, *bias, *res;
	float		*y;
	size_t		x_n, y_n, res_n;
	size_t		n, channels;
	size_t		ih, iw, oh, ow;
	size_t		kh, kw, sh, sw, dh, dw, pt, pl;
	enum rlx_act act;
	float		act_a, act_b;
	/* derived by rlx_dw_c_init() */
	size_t		c, rows, nrows;
};

bool rlx_dw_c_init(enum rlx_isa isa, struct rlx_k_dw_c *a);
size_t rlx_dw_c_units(const struct rlx_k_dw_c *a);
size_t rlx_dw_c_wsize(const struct rlx_k_dw_c *a);

/* Kernel dw_c_pack: one unit is one block of channels. Scratch: 0. */
struct rlx_k_dw_pack {
	const struct rlx_k_dw_c *conv;
	const float	*src;
	float		*dst;
};

/**
 * struct rlx_k_conv_nd - kernels conv_nd, conv_nd_pad and conv_nd_pack: plain
 * convolution and transposed convolution of any shape.
 * y = act(conv(x, w) + bias + res)
 * @x, @y, @res: plain [n][channels][depth][height][width]; @res may be @y. On the
 *	CPU, with @copy, @x of conv_nd is what conv_nd_pad made of it
 * @w: packed by conv_nd_pack; on a GPU as that kernel's @src
 * @bias: [oc], or NULL
 * @x_n, @y_n, @res_n: elements from one image to the next
 * @type, @out_type, @bias_type: enum rlx_dtype of x and w, of res and y, and of the bias:
 *	on a GPU any float of at least 16 bits (f64: all), @out_type @type or, where that has
 *	16 bits, f32; not read on the CPU: all f32
 * @in, @out, @k, @s, @d, @p: depth, height, width of input, output, kernel,
 *	stride, dilation and padding before; fewer dimensions: the leading ones
 *	are 1 (padding 0). Padding after follows from @out; transposed: so does
 *	output_padding
 * @transposed: input pixel i reaches output pixels i * s - p + k * d
 * @channels_last: on a GPU alone: x, res and y are [n][depth][height][width][channels],
 *	w [oc][taps][ic / groups], the bias is f32; not @transposed
 * @x_plain: then x is plain nevertheless, and w has for each tap the channels of a group
 *	filled up to a multiple of 8
 * @y_plain: then y and res are plain nevertheless
 * @skips: on a GPU alone: of one tap, with strides: of x what is read is repacked, which is as
 *	large as the output
 *
 * One unit is a run of output pixels by some output channels; of conv_nd_pad one
 * channel of an image, from @x to @y. The init function may rewrite the extents:
 * rows that follow one another in input and output alike are one row.
 *
 * What is read is padded, and sorted by the phase of each coordinate modulo the
 * stride, so that a tap reads a pixel's neighbour where it reads the neighbour of
 * what it reads for that pixel. Transposed, the phases of a row are stored together,
 * if they are few; where all read the same pixels, as without overlap, they are like
 * further output channels.
 */
struct rlx_k_conv_nd {
	const float	*x, *w, *bias, *res;
	float		*y;
	size_t		x_n, y_n, res_n;
	size_t		n, ic, oc, groups;
	size_t		in[3], out[3], k[3], s[3], d[3], p[3];
	enum rlx_act act;
	float		act_a, act_b;
	bool		transposed;
	uint8_t		type, out_type, bias_type;
	bool		channels_last, x_plain, y_plain, skips;
	/* derived by rlx_conv_nd_init() */
	bool		copy;			/* conv_nd_pad comes before */
	size_t		phases[3], before[3];	/* of what is read: that taps meet; zeros */
	size_t		size[3];		/* of a phase */
	size_t		across;			/* phases of a row that a unit has: 1, or s[2] */
	size_t		fold;			/* of those, that are rows of one tile: 1 or all */
	size_t		c;
	size_t		pixels, blocks;		/* of a unit; units */
	size_t		tiles, chunk, chunks;	/* channel tiles: all, of a unit */
	size_t		rows;			/* most channels of a unit */
};

#define RLX_CONV_ND_KC		256	/* terms summed in one pass */
#define RLX_CONV_ND_PIXELS	1024	/* of a unit at most */
#define RLX_CONV_ND_ACROSS	4	/* phases of a row that a unit has at most */
#define RLX_CONV_ND_PANELS	4	/* pairs of pixel vectors in a unit of conv_i8 */

bool rlx_conv_nd_init(enum rlx_isa isa, struct rlx_k_conv_nd *a);

/*
 * Terms come channel by channel, so many channels at a time, in passes of nearly the same length.
 * Each phase of each channel is a place in memory of its own: of an input beyond a core's cache
 * no more of them are read at once than is fetched ahead of, and has its pages looked up. How many
 * channels that are, (size_t)-1: any.
 */
static inline size_t rlx_conv_nd_most(const struct rlx_k_conv_nd *a)
{
	const size_t streams = 16, cached = 1 << 20;
	const size_t phases = a->phases[0] * a->phases[1] * a->phases[2];
	const size_t plane = phases * a->size[0] * a->size[1] * a->size[2];

	if (a->ic / a->groups * plane * sizeof(float) <= cached)
		return (size_t)-1;
	return phases < streams ? streams / phases : 1;
}

/* Channels at a time, of @icg in a group, of which @hits taps meet a pixel. */
static inline size_t rlx_conv_nd_at_once(size_t hits, size_t most, size_t icg)
{
	size_t n = hits && hits < RLX_CONV_ND_KC ? RLX_CONV_ND_KC / hits : 1;

	n = n < most ? n : most;
	return n < icg ? n : icg;
}

/* Terms of a pass, of @all that those channels have. */
static inline size_t rlx_conv_nd_pass(size_t all)
{
	return all ? (all - 1) / ((all - 1) / RLX_CONV_ND_KC + 1) + 1 : 0;
}

/**
 * enum rlx_conv_order - whose order of terms a sum has
 * @RLX_CONV_ORDER_ND: conv_nd's: see rlx_conv_nd_most(); the bias is added behind
 * @RLX_CONV_ORDER_C: conv_c's: from the bias on, by rows of taps, those beyond the input left out
 * @RLX_CONV_ORDER_DW: dw_c's: from the bias on, taps beyond the input left out
 */
enum rlx_conv_order {
	RLX_CONV_ORDER_ND,
	RLX_CONV_ORDER_C,
	RLX_CONV_ORDER_DW,
};

/**
 * struct rlx_k_conv_ordered - a GPU's convolution of f32 in the CPU's order
 * @c: it, but that x, y and res may be blocked; w is as conv_nd_pack's @src; all f32
 * @order: enum rlx_conv_order
 * @x_block, @y_block: channels in a block of x, and of y and res; 0: they are plain
 * @lanes: of conv_c's order: input channels of a tap; 1 in dw_c's
 * @pass: of conv_c's order: (@lanes, tap)s of a pass
 * @most: of conv_nd's order: rlx_conv_nd_most()
 * @m: 0, or it goes by Winograd's F(m x m, 3 x 3) as wino_c does, in passes of @pass times @lanes
 *	input channels, so many @images at a time
 */
struct rlx_k_conv_ordered {
	struct rlx_k_conv_nd	c;
	uint32_t		order;
	size_t			x_block, y_block, lanes, pass, most, m, images;
};

size_t rlx_conv_nd_units(const struct rlx_k_conv_nd *a);
size_t rlx_conv_nd_scratch(const struct rlx_k_conv_nd *a);
size_t rlx_conv_nd_wsize(const struct rlx_k_conv_nd *a);
/* What conv_nd_pad writes, in bytes; its units. */
size_t rlx_conv_nd_xsize(const struct rlx_k_conv_nd *a);
size_t rlx_conv_nd_xunits(const struct rlx_k_conv_nd *a);

/*
 * Kernel conv_nd_pack: @src is [oc][ic / groups][taps], transposed
 * [ic][oc / groups][taps]. One unit is one group. Scratch: 0.
 */
struct rlx_k_conv_nd_pack {
	const struct rlx_k_conv_nd *conv;
	const float	*src;
	float		*dst;
};

/**
 * struct rlx_conv_grid - one dimension of what conv_taps reads
 * @in, @k, @out, @s, @d, @p: as in struct rlx_k_conv_nd
 * @phases: residues of its coordinates modulo @d that the output's pixels meet
 * @most: elements that are kept of each
 * @size: elements of a row, with the zeros behind those
 */
struct rlx_conv_grid {
	size_t	in, k, out, s, d, p, phases, most, size;
};

/* The first coordinate of phase @i of the input. */
static inline size_t rlx_conv_taps_phase(const struct rlx_conv_grid *g, size_t i)
{
	return (i * g->s + g->d - g->p % g->d) % g->d;
}

/**
 * struct rlx_k_conv_taps - kernel conv_taps: plain convolution, the sums along the taps, for few
 * output pixels of many taps. What a tap that is zero meets counts as well: infinite inputs give
 * NaN in pixels of their image beside those that they reach.
 * @x: [n][phases][ic][grid], @w: [groups][rows][ic / groups][grid], of conv_taps_pad
 * @y: plain [n][oc][out]
 * @x_row, @w_row: elements from one phase of an image, or one row of @w, to the next, zeros that
 *	windows reach before and behind an image included
 * @rows: output channels of a group, with rows of zeros up to RLX_CONV_TAPS_ROWS
 * @part, @results: of a unit: rows, and images times output pixels
 * @pixels, @phases: of an image; @terms: of a sum on the grid
 *
 * One unit is some rows by some results of one group. Scratch: for each of those results, up to
 * a multiple of 3, a ptrdiff_t and a vector for each row.
 */
struct rlx_k_conv_taps {
	const float	*x, *w;
	float		*y;
	size_t		n, oc, groups, x_row, w_row, rows, part, results;
	size_t		pixels, phases, terms;
	struct rlx_conv_grid grid[3];
};

#define RLX_CONV_TAPS_ROWS	8
#define RLX_CONV_TAPS_PART	1024	/* terms summed in one pass */

/**
 * struct rlx_k_conv_taps_pad - kernel conv_taps_pad: planes [.][@real][@c][in] of @x on a grid
 * @y: [@n][phases][@row], with @before zeros in front, and zeros behind the planes of a row
 * @rows: so many of @y for @real of @x, those between are zeros
 *
 * One unit is one of @c planes of one of @n. Scratch: 0.
 */
struct rlx_k_conv_taps_pad {
	const float	*x;
	float		*y;
	size_t		n, c, rows, real, row, before;
	struct rlx_conv_grid grid[3];
};

/**
 * enum rlx_conv_i8_out - what conv_i8 stores
 * @RLX_CONV_I32: the sum
 * @RLX_CONV_U8, @RLX_CONV_I8: round(sum * scale) + y_zero, saturated; halves
 *	are rounded to even
 */
enum rlx_conv_i8_out {
	RLX_CONV_I32,
	RLX_CONV_U8,
	RLX_CONV_I8,
};

/**
 * struct rlx_k_conv_i8 - kernels conv_i8, conv_i8_pack and conv_i8_group: plain
 * convolution of 8-bit integers: sum = (x - x_zero) * (w - w_zero) + bias,
 * exactly, modulo 2^32
 * @shape: n, ic, oc, groups, in, out, k, s, d, p, x_n and y_n as for conv_nd;
 *	not transposed; its pointers and activation are not looked at
 * @x: [n][ic][in], unsigned unless @x_signed; of conv_i8 on the CPU what
 *	conv_i8_group made of that
 * @w: packed by conv_i8_pack; on a GPU as that kernel's @src
 * @bias: [oc], or NULL
 * @scale: [oc], for 8-bit results: x_scale * w_scale / y_scale
 * @y: [n][oc][out] as @out says
 * @x_zero, @y_zero: zero points; @x_zero_at: where that of x lies when it runs, or NULL
 * @w_zero: [oc] zero points of the weights, or NULL for 0; also for packing
 * @w_signed: for packing and for running
 * @lo, @hi: bounds of 8-bit results, within the type's; a relu is @y_zero as @lo
 *
 * One unit is a run of output pixels by some output channels; of conv_i8_group one
 * plane of @y, rlx_conv_i8_xsize() bytes in all: x padded, with @depth elements that
 * are multiplied at once side by side. These are channels, or neighbouring taps in
 * width where that leaves fewer groups, as with few channels. Of one tap without padding
 * the planes of a group lie in panels, as conv_i8 reads them: so many pixels of each plane,
 * then the next ones of each. Others are gathered into panels by conv_i8, or are read where they
 * lie, padding and all.
 */
struct rlx_k_conv_i8 {
	struct rlx_k_conv_nd shape;
	const void	*x, *w;
	const int32_t	*bias;
	const float	*scale;
	void		*y;
	int32_t		x_zero, y_zero;
	const void	*x_zero_at;	/* a byte as @x has them */
	const int32_t	*w_zero;
	bool		x_signed, w_signed;
	enum rlx_conv_i8_out out;
	int32_t		lo, hi;
	/* derived by rlx_conv_i8_init() */
	size_t		depth;		/* terms multiplied at once */
	size_t		groups;		/* of so many in a sum */
	size_t		packed;		/* of a channel's weights: whole steps of AMX tiles */
	size_t		taps;		/* of a group: 1, or @depth */
	size_t		across;		/* groups in the kernel's width */
	size_t		panels;		/* pixels of one, if x lies in panels; or 0 */
	bool		in_place;	/* x is read so: pixels are all places of padded planes */
	size_t		padded[3], step[3];	/* planes of groups, every so many pixels */
	struct rlx_k_conv_nd grouped;	/* the same convolution over groups */
};

/* By AMX tiles: groups of a tile's row, which are a step; output channels of two tiles. */
#define RLX_CONV_I8_STEP	16
#define RLX_CONV_I8_TILE_ROWS	32

bool rlx_conv_i8_init(enum rlx_isa isa, struct rlx_k_conv_i8 *a);
size_t rlx_conv_i8_units(const struct rlx_k_conv_i8 *a);
size_t rlx_conv_i8_scratch(const struct rlx_k_conv_i8 *a);
size_t rlx_conv_i8_wsize(const struct rlx_k_conv_i8 *a);
size_t rlx_conv_i8_xunits(const struct rlx_k_conv_i8 *a);
size_t rlx_conv_i8_xsize(const struct rlx_k_conv_i8 *a);

/* Kernel conv_i8_pack: @src is [oc][ic / groups][taps]; a unit is a group. */
struct rlx_k_conv_i8_pack {
	const struct rlx_k_conv_i8 *conv;
	const void	*src;
	void		*dst;
};

#endif
