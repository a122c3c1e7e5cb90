// SPDX-License-Identifier: MIT
/* Softmax along rows, or along columns side by side. */
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/simd/math.h"
#include "kernels/simd/wide.h"
#include "kernels/softmax.h"

rlx_k_fn RLX_K(softmax);

/* So many elements are summed in f32 before a double takes them; rows likewise. */
#define BLOCK	1024
#define ROWS	64

RLX_INLINE vw exp_of(vw x, vw m)
{
	x = vw_sub(x, m);
	RLX_EACH_WIDE(w)
		x.v[w] = vf_exp_weight(x.v[w]);
	return x;
}

/* y = exp(x - m) and the sum of it, or only the sum if y is NULL; up to a block */
static float exp_sum_block(float *y, const float *x, float max, size_t n)
{
	const vw m = vw_set1(max);
	vw s = vw_set1(0), e;
	size_t i = 0;

	for (; i + RLX_WL <= n; i += RLX_WL) {
		e = exp_of(vw_loadu(x + i), m);
		s = vw_add(s, e);
		if (y)
			vw_storeu(y + i, e);
	}
	if (i < n) {
		e = exp_of(vw_loadn(x + i, n - i), m);
		s = vw_add(s, vw_first(e, n - i));
		if (y)
			vw_storen(y + i, e, n - i);
	}
	return vw_hsum(s);
}

static float exp_sum(float *y, const float *x, float max, size_t n)
{
	double s = 0;

	for (size_t i = 0; i < n; i += BLOCK)
		s += (double)exp_sum_block(y ? y + i : NULL, x + i, max,
					   n - i < BLOCK ? n - i : BLOCK);
	return (float)s;
}

/* A NaN makes the sum NaN wherever it stands, so max may miss it. */
static float row_max(const float *x, size_t n)
{
	vf m = vf_set1(-INFINITY);
	size_t i = 0;

	for (; i + RLX_VL <= n; i += RLX_VL)
		m = vf_max(vf_loadu(x + i), m);
	if (i < n)
		m = vf_sel(vm_first(n - i), vf_max(vf_loadn(x + i, n - i), m),
			   m);
	return vf_hmax(m);
}

static void times(float *y, float scale, size_t n)
{
	size_t i = 0;

	for (; i + RLX_VL <= n; i += RLX_VL)
		vf_storeu(y + i, vf_loadu(y + i) * scale);
	if (i < n)
		vf_storen(y + i, vf_loadn(y + i, n - i) * scale, n - i);
}

/* In two steps: m + lse would lose the low bits of lse. */
static void minus(float *y, const float *x, float m, float lse, size_t n)
{
	for (size_t i = 0; i < n; i += RLX_VL)
		vf_storen(y + i, vf_loadn(x + i, n - i) - m - lse, n - i);
}

static void row(float *y, const float *x, size_t n, bool log)
{
	float m = row_max(x, n), s;

	if (log) {
		s = exp_sum(NULL, x, m, n);
		minus(y, x, m, vf_log1(s), n);
	} else {
		s = exp_sum(y, x, m, n);
		times(y, 1 / s, n);
	}
}

static void rows(const struct rlx_k_softmax *a, size_t begin, size_t end,
		 float *buf)
{
	const size_t n = (size_t)a->n;
	const size_t xs = rlx_k_type_size((enum rlx_dtype)a->x_type);
	const size_t ys = rlx_k_type_size((enum rlx_dtype)a->y_type);

	for (size_t u = begin; u < end; u++) {
		const void *x = (const char *)a->x + u * n * xs;
		void *y = (char *)a->y + u * n * ys;

		if (a->x_type != RLX_F32) {
			RLX_K(loader)(RLX_EW_F32, a->x_type)(buf, x, n);
			x = buf;
		}
		row(a->y_type == RLX_F32 ? y : buf, x, n, a->log);
		if (a->y_type != RLX_F32)
			RLX_K(storer)(RLX_EW_F32, a->y_type)(y, buf, n);
	}
}

/* Columns of a block [n][RLX_K_SOFTMAX_COLS] of floats, in place. */
static void block(float *b, size_t n, bool log)
{
	for (size_t c = 0; c < RLX_K_SOFTMAX_COLS; c += RLX_VL) {
		vf m = vf_set1(-INFINITY), s = vf_zero(), v;
		vf part = vf_zero(), mid = vf_zero();	/* of ROWS rows; of ROWS parts */
		size_t k = 0;
		float *p = b + c, *end = p + n * RLX_K_SOFTMAX_COLS;

		for (float *q = p; q < end; q += RLX_K_SOFTMAX_COLS)
			m = vf_max(vf_loadu(q), m);
		for (float *q = p; q < end; q += RLX_K_SOFTMAX_COLS) {
			v = vf_exp_weight(vf_loadu(q) - m);
			part += v;
			if (!log)
				vf_storeu(q, v);
			if (++k % ROWS)
				continue;
			mid += part;
			part = vf_zero();
			if (k % (ROWS * ROWS) == 0) {
				s += mid;
				mid = vf_zero();
			}
		}
		s += mid + part;
		v = log ? vf_log(s) : 1.0f / s;
		for (float *q = p; q < end; q += RLX_K_SOFTMAX_COLS)
			vf_storeu(q, log ? vf_loadu(q) - m - v :
					   vf_loadu(q) * v);
	}
}

static void columns(const struct rlx_k_softmax *a, size_t u, float *buf)
{
	const size_t xs = rlx_k_type_size((enum rlx_dtype)a->x_type);
	const size_t ys = rlx_k_type_size((enum rlx_dtype)a->y_type);
	const size_t inner = (size_t)a->inner, n = (size_t)a->n;
	const size_t per = (inner + RLX_K_SOFTMAX_COLS - 1) /
			   RLX_K_SOFTMAX_COLS;
	const size_t at = u % per * RLX_K_SOFTMAX_COLS;
	const size_t base = u / per * n * inner + at;
	const size_t cols = inner - at < RLX_K_SOFTMAX_COLS ? inner - at :
							      RLX_K_SOFTMAX_COLS;
	rlx_convert_fn *load = RLX_K(loader)(RLX_EW_F32, a->x_type);
	rlx_convert_fn *store = RLX_K(storer)(RLX_EW_F32, a->y_type);

	for (size_t i = 0; i < n; i++) {
		float *q = buf + i * RLX_K_SOFTMAX_COLS;

		load(q, (const char *)a->x + (base + i * inner) * xs, cols);
		for (size_t c = cols; c < RLX_K_SOFTMAX_COLS; c++)
			q[c] = 0;
	}
	block(buf, n, a->log);
	for (size_t i = 0; i < n; i++)
		store((char *)a->y + (base + i * inner) * ys,
		      buf + i * RLX_K_SOFTMAX_COLS, cols);
}

void RLX_K(softmax)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_softmax *a = args;

	if (a->n == 0)
		return;
	if (a->inner == 1) {
		rows(a, begin, end, scratch);
		return;
	}
	for (size_t u = begin; u < end; u++)
		columns(a, u, scratch);
}
