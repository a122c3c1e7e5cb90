// SPDX-License-Identifier: MIT
/* Rotary position embedding, head by head in f32. */
#include "kernels/cpu/convert.h"
#include "kernels/cpu/index_at.h"
#include "kernels/rope.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(rope);

/* The table row for position @s of batch @b, or -1. */
static int64_t row_of(const struct rlx_k_rope *a, int64_t b, int64_t s)
{
	return a->pos ? rlx_k_index_at(a->pos, a->pos_type, (size_t)(b * a->pos_stride + s),
				       a->positions, b * a->len + s < a->live ? a->bad : NULL) : s;
}

static const float *table_row(const struct rlx_k_rope *a, const void *t,
			      int64_t row, float *buf)
{
	const size_t half = (size_t)a->n_rot / 2;
	const size_t size = rlx_k_type_size((enum rlx_dtype)a->table_type);
	const char *p = (const char *)t + (size_t)row * half * size;

	if (a->table_type == RLX_F32)
		return (const float *)(const void *)p;
	RLX_K(loader)(RLX_EW_F32, a->table_type)(buf, p, half);
	return buf;
}

static void halves(float *y, const float *x, const float *c, const float *s,
		   size_t half)
{
	for (size_t i = 0; i < half; i += RLX_VL) {
		const size_t n = half - i;
		vf u = vf_loadn(x + i, n), v = vf_loadn(x + half + i, n);
		vf k = vf_loadn(c + i, n), t = vf_loadn(s + i, n);

		vf_storen(y + i, vf_fnma(v, t, u * k), n);
		vf_storen(y + half + i, vf_fma(u, t, v * k), n);
	}
}

static void neighbours(float *y, const float *x, const float *c, const float *s,
		       size_t half)
{
	for (size_t i = 0; i < half; i++) {
		float u = x[2 * i], v = x[2 * i + 1];

		y[2 * i] = f_fma(-v, s[i], u * c[i]);
		y[2 * i + 1] = f_fma(u, s[i], v * c[i]);
	}
}

static void head(const struct rlx_k_rope *a, void *y, const void *x,
		 const float *c, const float *s, float *buf)
{
	const size_t d = (size_t)a->head_dim, n = (size_t)a->n_rot;
	const bool plain = a->type == RLX_F32;
	float *to = plain ? y : buf;

	if (!plain) {
		RLX_K(loader)(RLX_EW_F32, a->type)(buf, x, d);
		x = buf;
	}
	if (a->pairs)
		neighbours(to, x, c, s, n / 2);
	else
		halves(to, x, c, s, n / 2);
	if (!plain)
		RLX_K(storer)(RLX_EW_F32, a->type)(y, buf, d);
	else if (x != y)
		memcpy(to + n, (const float *)x + n, (d - n) * sizeof(float));
}

void RLX_K(rope)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_rope *a = args;
	const int64_t size = (int64_t)rlx_k_type_size((enum rlx_dtype)a->type);
	float *buf = scratch, *cbuf = buf + a->head_dim + 32;
	float *sbuf = cbuf + a->n_rot / 2 + 16;

	for (size_t u = begin; u < end; u++) {
		int64_t b = (int64_t)u / a->len, p = (int64_t)u % a->len;
		int64_t row = row_of(a, b, p);
		const char *x = (const char *)a->x +
			(b * a->x_stride[0] + p * a->x_stride[2]) * size;
		char *y = (char *)a->y +
			  (b * a->y_stride[0] + p * a->y_stride[2]) * size;
		const float *c, *s;

		for (int64_t h = 0; h < a->heads && row < 0; h++)
			memset(y + h * a->y_stride[1] * size, 0,
			       (size_t)(a->head_dim * size));
		if (row < 0)
			continue;
		c = table_row(a, a->cos, row, cbuf);
		s = table_row(a, a->sin, row, sbuf);
		for (int64_t h = 0; h < a->heads; h++)
			head(a, y + h * a->y_stride[1] * size,
			     x + h * a->x_stride[1] * size, c, s, buf);
	}
}
