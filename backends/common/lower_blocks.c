// SPDX-License-Identifier: MIT
/* To the blocked layout of convolutions and back: any dtype, blocks of any size. */
#include "backends/common/lower.h"
#include "kernels/conv.h"
#include "kernels/copy.h"
#include "kernels/fill.h"

/* Both sides of one image as [full blocks, pixels, channels of a block], then what is left. */
struct sides {
	const struct rlx_type	*plain, *blocked;
	int64_t			 n, channels, pixels, block;
	bool			 to;		/* from plain to blocked */
};

static struct sides sides_of(const struct rlx_lower *lo, bool to)
{
	const struct rlx_type *x = rlx_lower_in(lo, 0), *y = rlx_lower_out(lo, 0);
	const struct rlx_type *plain = to ? x : y, *blocked = to ? y : x;

	return (struct sides){
		.plain = plain, .blocked = blocked, .n = plain->dim[0],
		.channels = plain->dim[1], .pixels = plain->dim[2] * plain->dim[3],
		.block = blocked->dim[4], .to = to,
	};
}

/* @blocks blocks of @width channels each, from block @first on. */
static enum rlx_status copy_blocks(struct rlx_lower *lo, const struct sides *s, int64_t first,
				   int64_t blocks, int64_t width)
{
	struct rlx_k_copy *a = rlx_lower_args(lo, sizeof(*a));
	size_t size = rlx_dtype_size(s->plain->dtype);
	int64_t at = first * s->block * s->pixels;	/* the same on both sides */
	int64_t plain[4] = { s->channels * s->pixels, s->block * s->pixels, 1, s->pixels };
	int64_t blocked[4] = { s->blocked->dim[1] * s->block * s->pixels,
			       s->block * s->pixels, s->block, 1 };
	int64_t n = s->n * blocks * s->pixels * width;

	if (!n)
		return lo->status;
	a->rank = 4;
	memcpy(a->dim, (int64_t[]){ s->n, blocks, s->pixels, width }, 4 * sizeof(int64_t));
	memcpy(a->src_stride, s->to ? plain : blocked, sizeof(plain));
	memcpy(a->dst_stride, s->to ? blocked : plain, sizeof(plain));
	a->size = (uint8_t)size;
	rlx_k_copy_plan(a);
	rlx_lower_ref_in(lo, &a->src, 0, (uint64_t)at * size);
	rlx_lower_ref_out(lo, &a->dst, 0, (uint64_t)at * size);
	return rlx_lower_call(lo, RLX_KERNEL_copy, rlx_k_copy_units(a), (double)n, 0);
}

static enum rlx_status any_block(struct rlx_lower *lo, const struct sides *s)
{
	int64_t full = s->channels / s->block, rest = s->channels % s->block;
	struct rlx_k_zero *z;
	enum rlx_status st = RLX_OK;

	if (s->to && rest) {		/* the lanes behind the last channel */
		z = rlx_lower_args(lo, sizeof(*z));
		rlx_lower_ref_out(lo, &z->dst, 0, 0);
		st = rlx_lower_call(lo, RLX_KERNEL_zero, (uint64_t)rlx_type_bytes(s->blocked),
				    0, 0);
	}
	if (!st)
		st = copy_blocks(lo, s, 0, full, s->block);
	return st ? st : copy_blocks(lo, s, full, 1, rest);
}

/* By the kernel for blocks of the processor's vectors. */
static enum rlx_status own_block(struct rlx_lower *lo, const struct sides *s)
{
	struct rlx_k_reorder *a = rlx_lower_args(lo, sizeof(*a));
	size_t plain = (size_t)(s->channels * s->pixels);
	size_t blocked = (size_t)(s->blocked->dim[1] * s->block * s->pixels);

	a->n = (size_t)s->n;
	a->channels = (size_t)s->channels;
	a->pixels = (size_t)s->pixels;
	a->src_n = s->to ? plain : blocked;
	a->dst_n = s->to ? blocked : plain;
	rlx_lower_ref_in(lo, &a->src, 0, 0);
	rlx_lower_ref_out(lo, &a->dst, 0, 0);
	return rlx_lower_call(lo, s->to ? RLX_KERNEL_to_blocked_f32 : RLX_KERNEL_to_plain_f32,
			      a->n * (size_t)s->blocked->dim[1],
			      (double)rlx_type_count(s->blocked), 0);
}

static enum rlx_status reorder(struct rlx_lower *lo, bool to)
{
	struct sides s = sides_of(lo, to);

	return s.plain->dtype == RLX_F32 && s.block == lo->block ? own_block(lo, &s) :
	       any_block(lo, &s);
}

enum rlx_status rlx_lower_block_channels(struct rlx_lower *lo)
{
	return reorder(lo, true);
}

enum rlx_status rlx_lower_unblock_channels(struct rlx_lower *lo)
{
	return reorder(lo, false);
}
