// SPDX-License-Identifier: MIT
/*
 * Resizing by tables: the outer axes are summed into one input row in scratch
 * (or used in place when there is one tap), then that row along its own axis.
 */
#include <string.h>

#include "kernels/resize.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(resize_f32);
rlx_k_fn RLX_K(resize_c);
rlx_k_fn RLX_K(resize_nearest);

#define C	RLX_VL

/* Input position of tap @t of output position @o; -1 outside. */
static ptrdiff_t tap_index(const struct rlx_k_resize_axis *a, size_t o,
			   size_t t)
{
	return a->index ? a->index[o * a->taps + t] : (ptrdiff_t)o;
}

static float tap_weight(const struct rlx_k_resize_axis *a, size_t o, size_t t)
{
	return a->weight ? a->weight[o * a->taps + t] : 1;
}

static void row_add(float *restrict d, const float *restrict s, float w,
		    size_t n, bool first)
{
	const vf wv = vf_set1(w);
	size_t i;

	for (i = 0; i + C <= n; i += C) {
		vf v = vf_loadu(s + i);

		vf_storeu(d + i, first ? wv * v : vf_fma(wv, v, vf_loadu(d + i)));
	}
	for (; i < n; i++)
		d[i] = first ? w * s[i] : f_fma(w, s[i], d[i]);
}

/*
 * The input row that output row @o of the outer axes is made from, @n floats;
 * NULL when it lies outside.
 */
static const float *row_get(const struct rlx_k_resize *a, const float *x,
			    const size_t o[2], size_t n, float *scratch)
{
	const struct rlx_k_resize_axis *p = &a->axis[0], *q = &a->axis[1];
	bool first = true;

	if (tap_index(p, o[0], 0) < 0 || tap_index(q, o[1], 0) < 0)
		return NULL;
	if (p->taps == 1 && q->taps == 1 && !p->weight && !q->weight)
		return x + ((size_t)tap_index(p, o[0], 0) * q->in +
			    (size_t)tap_index(q, o[1], 0)) * n;
	for (size_t i = 0; i < p->taps; i++)
		for (size_t j = 0; j < q->taps; j++) {
			float w = tap_weight(p, o[0], i) *
				  tap_weight(q, o[1], j);
			size_t at = (size_t)tap_index(p, o[0], i) * q->in +
				    (size_t)tap_index(q, o[1], j);

			row_add(scratch, x + at * n, w, n, first);
			first = false;
		}
	return scratch;
}

/* Linear: two taps, of outputs [@i, @end) up to one that lies outside, which is returned. */
static size_t line_2(const struct rlx_k_resize_axis *a, const float *x, float *y, size_t i,
		     size_t end)
{
	const int32_t *at = a->index + 2 * i;
	const float *w = a->weight + 2 * i;

	for (; i < end && at[0] >= 0; i++, at += 2, w += 2)
		y[i] = f_fma(w[0], x[at[0]], w[1] * x[at[1]]);
	return i;
}

typedef float f4 __attribute__((vector_size(16)));

/* Cubic: four taps side by side. */
static size_t line_4(const struct rlx_k_resize_axis *a, const float *x, float *y, size_t i,
		     size_t end)
{
	for (; i < end && a->index[i * 4] >= 0; i++) {
		const int32_t *at = a->index + i * 4;
		f4 v = { x[at[0]], x[at[1]], x[at[2]], x[at[3]] }, w;

		memcpy(&w, a->weight + i * 4, sizeof(w));
		v *= w;
		y[i] = (v[0] + v[2]) + (v[1] + v[3]);
	}
	return i;
}

/* Outputs [@i, @end) of a line. */
static __attribute__((noinline)) void line_some(const struct rlx_k_resize *r, const float *x,
						float *y, size_t i, size_t end)
{
	const struct rlx_k_resize_axis *a = &r->axis[2];
	size_t t;

	if (a->index && a->weight && a->taps == 2)
		i = line_2(a, x, y, i, end);
	else if (a->index && a->weight && a->taps == 4)
		i = line_4(a, x, y, i, end);
	for (; i < end; i++) {
		ptrdiff_t at = tap_index(a, i, 0);
		float s = 0;

		if (at < 0) {
			y[i] = r->outside;
			continue;
		}
		if (a->taps == 1 && !a->weight) {
			y[i] = x[at];
			continue;
		}
		for (t = 0; t < a->taps; t++)
			s = f_fma(x[tap_index(a, i, t)], tap_weight(a, i, t), s);
		y[i] = s;
	}
}

#if RLX_VB > 16
/* The first @n of a vector or all of it: by a mask where that is as fast, else ends alone. */
RLX_INLINE vf load_some(const float *p, size_t n)
{
	return RLX_VB == 64 || n < C ? vf_loadn(p, n) : vf_loadu(p);
}

RLX_INLINE void store_some(float *p, vf v, size_t n)
{
	if (RLX_VB == 64 || n < C)
		vf_storen(p, v, n);
	else
		vf_storeu(p, v);
}

/* By vectors of outputs, where the level's blocks say of which inputs. */
static void line_blocks(const struct rlx_k_resize *r, const float *x, float *y)
{
	const struct rlx_k_resize_axis *a = &r->axis[2];
	const struct rlx_resize_block *b = a->block;
	const int32_t *at = a->lane;

	for (size_t o = 0; o < a->out; o += C, b++, at += 4 * C) {
		const size_t left = a->in - (size_t)b->from;
		const float *from = x + b->from;
		vf lo, hi, p, q;

		if (!b->span) {
			line_some(r, x, y, o, a->out - o < C ? a->out : o + C);
			continue;
		}
		lo = load_some(from, left);
		if (b->span <= C) {
			p = vf_permute(lo, vi_loadu(at));
			q = vf_permute(lo, vi_loadu(at + C));
		} else {
			hi = load_some(from + C, left - C);
			p = vf_permute2(lo, hi, vi_loadu(at));
			q = vf_permute2(lo, hi, vi_loadu(at + C));
		}
		p = vf_fma(vf_loadu(at + 2 * C), p, vf_loadu(at + 3 * C) * q);
		store_some(y + o, p, a->out - o);
	}
}
#else
static void line_blocks(const struct rlx_k_resize *r, const float *x, float *y) { }
#endif

static void line_f32(const struct rlx_k_resize *r, const float *x, float *y)
{
	const struct rlx_k_resize_axis *a = &r->axis[2];

	if (!a->index && !a->weight)
		memcpy(y, x, a->out * sizeof(*y));
	else if (a->block)
		line_blocks(r, x, y);
	else
		line_some(r, x, y, 0, a->out);
}

static void line_c(const struct rlx_k_resize *r, const float *x, float *y)
{
	const struct rlx_k_resize_axis *a = &r->axis[2];
	size_t i, t;

	for (i = 0; i < a->out; i++, y += C) {
		ptrdiff_t at = tap_index(a, i, 0);
		vf s = vf_zero();

		if (at < 0) {
			vf_storeu(y, vf_set1(r->outside));
			continue;
		}
		if (a->taps == 1 && !a->weight) {
			vf_storeu(y, vf_loadu(x + at * C));
			continue;
		}
		for (t = 0; t < a->taps; t++)
			s = vf_fma(vf_loadu(x + tap_index(a, i, t) * C),
				   vf_set1(tap_weight(a, i, t)), s);
		vf_storeu(y, s);
	}
}

RLX_INLINE void run(const struct rlx_k_resize *a, size_t begin, size_t end,
		    float *scratch, const size_t lanes)
{
	size_t rows = a->axis[0].out * a->axis[1].out, u, i;
	size_t plane = a->axis[0].in * a->axis[1].in * a->axis[2].in * lanes;
	size_t wide = a->axis[2].out * lanes;

	for (u = begin; u < end; u++) {
		size_t o[2] = { u % rows / a->axis[1].out,
				u % rows % a->axis[1].out };
		const float *x = (const float *)a->x + u / rows * plane;
		float *y = (float *)a->y + u * wide;

		x = row_get(a, x, o, a->axis[2].in * lanes, scratch);
		if (!x)
			for (i = 0; i < wide; i++)
				y[i] = a->outside;
		else if (lanes == 1)
			line_f32(a, x, y);
		else
			line_c(a, x, y);
	}
}

void RLX_K(resize_f32)(const void *args, size_t begin, size_t end,
		       void *scratch)
{
	run(args, begin, end, scratch, 1);
}

void RLX_K(resize_c)(const void *args, size_t begin, size_t end, void *scratch)
{
	run(args, begin, end, scratch, C);
}

/* 2 or 4 where every input is repeated so often, else 0. */
static size_t repeats(const struct rlx_k_resize_axis *q)
{
	size_t f = q->index && q->out == 2 * q->in ? 2 : q->index && q->out == 4 * q->in ? 4 : 0;

	for (size_t i = 0; f && i < q->out; i++)
		if (q->index[i * q->taps] != (int32_t)(i / f))
			return 0;
	return f;
}

typedef uint16_t u16_u __attribute__((aligned(1), may_alias));
typedef uint32_t u32_u __attribute__((aligned(1), may_alias));
typedef uint64_t u64_u __attribute__((aligned(1), may_alias));

/* An element times ones is what it is next to itself. */
#define WIDEN(from, to, ones)						\
	do {								\
		for (i = 0; i < n; i++)					\
			((to *)y)[i] = (to)(((const from *)x)[i] * (to)(ones)); \
		return true;						\
	} while (0)

/* Each of n elements of @size bytes @f times; false if this has no loop for them. */
static bool repeat_line(char *restrict y, const char *restrict x, size_t n, size_t f, size_t size)
{
	size_t i;

	switch (f * 8 + size) {
	case 2 * 8 + 1:
		WIDEN(uint8_t, u16_u, 0x101);
	case 2 * 8 + 2:
		WIDEN(u16_u, u32_u, 0x10001);
	case 2 * 8 + 4:
		WIDEN(u32_u, u64_u, 0x100000001);
	case 4 * 8 + 1:
		WIDEN(uint8_t, u32_u, 0x1010101);
	case 4 * 8 + 2:
		WIDEN(u16_u, u64_u, 0x1000100010001);
	}
	return false;
}

#define PICK(type)							\
	for (i = 0; i < q->out; i++)					\
		((type *)y)[i] = ((const type *)x)[q->index[i * q->taps]]

static void pick_line(const struct rlx_k_resize_axis *q, void *y, const void *x, size_t size)
{
	size_t i;

	if (!q->index)
		memcpy(y, x, q->out * size);
	else if (size == 1)
		PICK(uint8_t);
	else if (size == 2)
		PICK(uint16_t);
	else if (size == 4)
		PICK(uint32_t);
	else
		PICK(uint64_t);
}

void RLX_K(resize_nearest)(const void *args, size_t begin, size_t end,
			   void *scratch)
{
	const struct rlx_k_resize *a = args;
	const struct rlx_k_resize_axis *q = &a->axis[2];
	size_t rows = a->axis[0].out * a->axis[1].out, u, last = SIZE_MAX;
	const size_t f = repeats(q);

	(void)scratch;
	for (u = begin; u < end; u++) {
		size_t z = (size_t)tap_index(&a->axis[0],
					     u % rows / a->axis[1].out, 0);
		size_t v = (size_t)tap_index(&a->axis[1],
					     u % rows % a->axis[1].out, 0);
		size_t from = (u / rows * a->axis[0].in + z) * a->axis[1].in + v;
		const char *x = (const char *)a->x + from * q->in * a->esize;
		char *y = (char *)a->y + u * q->out * a->esize;

		if (from == last)	/* as the row before */
			memcpy(y, y - q->out * a->esize, q->out * a->esize);
		else if (!f || !repeat_line(y, x, q->in, f, a->esize))
			pick_line(q, y, x, a->esize);
		last = from;
	}
}
