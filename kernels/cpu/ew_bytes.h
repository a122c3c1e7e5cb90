/* SPDX-License-Identifier: MIT */
/*
 * Sums of two quantized branches, in registers: bytes a and b without their zero points, times
 * scales, added, with or without a relu, scaled, rounded, with a zero point, as bytes. Each
 * element goes through the steps that the program has, in their order; a step there is a pass
 * over a block, by way of memory.
 */
#ifndef RLX_CPU_EW_BYTES_H
#define RLX_CPU_EW_BYTES_H

#include <string.h>

#include "kernels/ew.h"
#include "kernels/simd/vec.h"

/* One of the two: (x + add) * scale */
struct ew_branch {
	const uint8_t	*x;
	int32_t		add;
	float		scale;
	bool		is_signed;
};

struct ew_sum {
	struct ew_branch a, b;		/* b is rounded by itself, a with the sum */
	bool		relu;
	float		scale;
	int32_t		zero, lo, hi;
	uint8_t		*y;
};

/* No sum or product of these and bytes is NaN. */
static const float EW_SUM_MOST = 1e30f;

/* What operand @src of step @s is throughout; false: no such number. */
static bool ew_number(const struct rlx_k_ew *a, uint8_t src, const struct rlx_k_ew_step *s,
		      float *out)
{
	if (src == RLX_EW_IMM)
		*out = (float)s->imm.f;
	else if (src >= RLX_EW_MAX_IN && a->step[src - RLX_EW_MAX_IN].op == RLX_EW_const_)
		*out = (float)a->step[src - RLX_EW_MAX_IN].imm.f;
	else if (src < RLX_EW_MAX_IN && a->in[src].kind == RLX_EW_SCALAR &&
		 a->in[src].type == RLX_F32)
		*out = *(const float *)a->in[src].p;
	else
		return false;
	return *out >= -EW_SUM_MOST && *out <= EW_SUM_MOST;
}

/* Step @src if it is @op of something and a number: that something, or -1. */
static int ew_by_number(const struct rlx_k_ew *a, uint8_t src, int op, float *number)
{
	const struct rlx_k_ew_step *s;

	if (src < RLX_EW_MAX_IN || src == RLX_EW_IMM)
		return -1;
	s = &a->step[src - RLX_EW_MAX_IN];
	if (s->op == op && ew_number(a, s->src[1], s, number))
		return s->src[0];
	if (s->op == op && ew_number(a, s->src[0], s, number))
		return s->src[1];
	return -1;
}

static bool ew_whole(float v, int32_t *out)
{
	if (!(v >= -256 && v <= 256))
		return false;
	*out = (int32_t)v;
	return (float)*out == v;
}

/* Bytes, from first to last, with a number added. */
static bool ew_branch_of(const struct rlx_k_ew *a, int src, struct ew_branch *out)
{
	float add = 0;
	int x = src < 0 ? -1 : ew_by_number(a, (uint8_t)src, RLX_EW_add, &add);

	x = x < 0 ? src : x;
	if (x < 0 || x >= RLX_EW_MAX_IN || a->in[x].kind != RLX_EW_LINEAR ||
	    (a->in[x].type != RLX_U8 && a->in[x].type != RLX_I8) || !ew_whole(add, &out->add))
		return false;
	out->x = a->in[x].p;
	out->is_signed = a->in[x].type == RLX_I8;
	return true;
}

/* fma(a', scale, b' * scale) */
static bool ew_branches(const struct rlx_k_ew *a, uint8_t src, struct ew_sum *q)
{
	const struct rlx_k_ew_step *s = &a->step[src - RLX_EW_MAX_IN];
	int k;

	if (src < RLX_EW_MAX_IN || src == RLX_EW_IMM || s->op != RLX_EW_fma)
		return false;
	k = ew_number(a, s->src[0], s, &q->a.scale);
	return (k || ew_number(a, s->src[1], s, &q->a.scale)) &&
	       ew_branch_of(a, s->src[k], &q->a) &&
	       ew_branch_of(a, ew_by_number(a, s->src[2], RLX_EW_mul, &q->b.scale), &q->b);
}

/* Is @a such a sum? */
static bool ew_sum_of(const struct rlx_k_ew *a, struct ew_sum *q)
{
	const struct rlx_k_ew_out *y = &a->out[0];
	float zero = 0;
	int at = -1, x;

	if (a->cls != RLX_EW_F32 || a->n_out != 1 || (!a->flat && a->rank > 1) ||
	    y->src < RLX_EW_MAX_IN || (y->type != RLX_U8 && y->type != RLX_I8))
		return false;
	x = ew_by_number(a, y->src, RLX_EW_add, &zero);
	x = x < 0 ? y->src : x;
	if (x >= RLX_EW_MAX_IN && a->step[x - RLX_EW_MAX_IN].op == RLX_EW_round)
		at = ew_by_number(a, a->step[x - RLX_EW_MAX_IN].src[0], RLX_EW_mul, &q->scale);
	if (at < RLX_EW_MAX_IN || !ew_whole(zero, &q->zero))
		return false;
	q->relu = a->step[at - RLX_EW_MAX_IN].op == RLX_EW_relu;
	q->lo = y->type == RLX_I8 ? INT8_MIN : 0;
	q->hi = q->lo + UINT8_MAX;
	q->y = y->p;
	return ew_branches(a, q->relu ? a->step[at - RLX_EW_MAX_IN].src[0] : (uint8_t)at, q);
}

RLX_INLINE vf ew_branch_at(const struct ew_branch *b, size_t i, const size_t n)
{
	vi v;

	if (n < RLX_VL)
		v = vi_loadn_u8(b->x + i, n);
	else
		v = vi_loadu_u8(b->x + i);
	return vf_from_vi((b->is_signed ? v << 24 >> 24 : v) + b->add);
}

RLX_INLINE void ew_sum_at(const struct ew_sum *q, size_t i, const size_t n, const bool relu)
{
	const vf b = ew_branch_at(&q->b, i, n) * vf_set1(q->b.scale);
	vf v = vf_fma(ew_branch_at(&q->a, i, n), vf_set1(q->a.scale), b);
	vu8q bytes;

	if (relu)
		v = vf_max(v, vf_zero());
	v = vf_max(v * vf_set1(q->scale), vf_set1((float)(q->lo - q->zero)));
	bytes = vi_low_8(vi_round(vf_min(v, vf_set1((float)(q->hi - q->zero)))) + q->zero);
	memcpy(q->y + i, &bytes, n);
}

RLX_INLINE void ew_sum_span(const struct ew_sum *q, size_t i, size_t end, const bool relu)
{
	const struct ew_sum s = *q;	/* nothing that is written is of it */

	for (; i + RLX_VL <= end; i += RLX_VL)
		ew_sum_at(&s, i, RLX_VL, relu);
	if (i < end)
		ew_sum_at(&s, i, end - i, relu);
}

static void ew_sum_run(const struct ew_sum *q, size_t begin, size_t end)
{
	if (q->relu)
		ew_sum_span(q, begin, end, true);
	else
		ew_sum_span(q, begin, end, false);
}

#endif
