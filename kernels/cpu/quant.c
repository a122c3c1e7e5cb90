// SPDX-License-Identifier: MIT
/* Quantising and back, and the ranges that dynamic quantising needs. */
#include <math.h>

#include "kernels/cpu/convert.h"
#include "kernels/quant.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(quantize), RLX_K(dequantize), RLX_K(quant_range);
rlx_k_fn RLX_K(quant_params), RLX_K(quant_rows);

#define CHUNK	256

/* One run of elements whose scales are all one or lie side by side. */
struct run {
	const struct rlx_k_quant *a;
	rlx_convert_fn	*load, *store, *load_scale, *load_zp;
	size_t		xs, ys, ss, zs;		/* bytes an element */
	bool		back, integer;
};

static void chunk(const struct run *r, float *x, const float *s,
		  const float *z, size_t n)
{
	for (size_t i = 0; i < n; i += RLX_VL) {
		vf v = vf_loadu(x + i);

		if (r->back)
			v = (v - vf_loadu(z + i)) * vf_loadu(s + i);
		else if (r->integer)
			v = vf_round(v / vf_loadu(s + i)) + vf_loadu(z + i);
		else
			v = v / vf_loadu(s + i);
		vf_storeu(x + i, v);
	}
}

/* n values at p (step 1) or one for all (step 0) as floats */
static void spread(float *to, rlx_convert_fn *load, const char *p, size_t step,
		   size_t n)
{
	if (step) {
		load(to, p, n);
		return;
	}
	load(to, p, 1);
	for (size_t i = 1; i < CHUNK; i++)
		to[i] = to[0];
}

/* A function of its own, for the compiler to see that nothing overlaps. */
static void narrow(uint8_t *restrict to, const int32_t *restrict from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)from[i];
}

/*
 * f32 to 8 bits by one scale, without floats between in memory. Clamped as floats, which may
 * be beyond i32; NaN is 0, as elsewhere.
 */
static void scale_to_bytes(uint8_t *y, const float *x, float scale, float zero, float lo, size_t n)
{
	const vf s = vf_set1(scale), z = vf_set1(zero);
	const vf low = vf_set1(lo), high = vf_set1(lo + UINT8_MAX);
	int32_t q[CHUNK];
	size_t i, j, k;

	for (i = 0; i < n; i += k) {
		k = n - i < CHUNK ? n - i : CHUNK;
		for (j = 0; j < k; j += RLX_VL) {
			vf v = k - j < RLX_VL ? vf_loadn(x + i + j, k - j) : vf_loadu(x + i + j);

			v = vf_round(v / s) + z;
			v = vf_sel(vf_isnan(v), vf_zero(), vf_min(high, vf_max(low, v)));
			vi_storeu(q + j, vi_trunc(v));
		}
		narrow(y + i, q, k);
	}
}

/* Elements [at, at + n) by scale number @sc, if that way is theirs. */
static bool to_bytes(const struct run *r, size_t at, size_t n, size_t sc)
{
	const struct rlx_k_quant *a = r->a;
	float s, z = 0;

	if (r->back || a->x_type != RLX_F32 || (a->y_type != RLX_U8 && a->y_type != RLX_I8))
		return false;
	r->load_scale(&s, (const char *)a->scale + sc * r->ss, 1);
	if (a->zp)
		r->load_zp(&z, (const char *)a->zp + sc * r->zs, 1);
	scale_to_bytes((uint8_t *)a->y + at, (const float *)a->x + at, s, z,
		       a->y_type == RLX_U8 ? 0 : INT8_MIN, n);
	return true;
}

/* Elements [at, at + n); the first scale is number @sc, the others @step on. */
static void elements(const struct run *r, size_t at, size_t n, size_t sc,
		     size_t step)
{
	const struct rlx_k_quant *a = r->a;
	float x[CHUNK] = { 0 }, s[CHUNK], z[CHUNK];

	if (!step && to_bytes(r, at, n, sc))
		return;
	for (size_t i = 0; i < CHUNK; i++) {
		s[i] = 1;
		z[i] = 0;
	}
	for (size_t i = 0; i < n; i += CHUNK) {
		size_t k = n - i < CHUNK ? n - i : CHUNK;
		size_t q = sc + i * step;

		if (step || i == 0) {
			spread(s, r->load_scale, (const char *)a->scale +
			       q * r->ss, step, k);
			if (a->zp)
				spread(z, r->load_zp, (const char *)a->zp +
				       q * r->zs, step, k);
		}
		r->load(x, (const char *)a->x + (at + i) * r->xs, k);
		chunk(r, x, s, z, k);
		r->store((char *)a->y + (at + i) * r->ys, x, k);
	}
}

/* The axis itself is the row: scales change every block elements. */
static void along_axis(const struct run *r, size_t o, size_t from, size_t n)
{
	const struct rlx_k_quant *a = r->a;
	const size_t base = o * (size_t)a->stride[0];
	const size_t at = o * (size_t)a->axis;
	const size_t block = (size_t)a->block, step = (size_t)a->stride[1];

	if (step == 0 || (block == 1 && step == 1)) {
		elements(r, at + from, n, base + from * step, step);
		return;
	}
	for (size_t i = from; i < from + n;) {
		size_t end = (i / block + 1) * block;

		end = end < from + n ? end : from + n;
		elements(r, at + i, end - i, base + i / block * step, 0);
		i = end;
	}
}

static void run_units(const struct rlx_k_quant *a, size_t begin, size_t end,
		      bool back)
{
	const int small = back ? a->x_type : a->y_type;
	const size_t row = (size_t)(a->inner == 1 ? a->axis : a->inner);
	const size_t pieces = (row + RLX_K_QUANT_UNIT - 1) / RLX_K_QUANT_UNIT;
	struct run r = { .a = a, .back = back };

	r.load = RLX_K(loader)(RLX_EW_F32, a->x_type);
	r.store = RLX_K(storer)(RLX_EW_F32, a->y_type);
	r.load_scale = RLX_K(loader)(RLX_EW_F32, a->scale_type);
	r.load_zp = RLX_K(loader)(RLX_EW_F32, small);
	r.xs = rlx_k_type_size((enum rlx_dtype)a->x_type);
	r.ys = rlx_k_type_size((enum rlx_dtype)a->y_type);
	r.ss = rlx_k_type_size((enum rlx_dtype)a->scale_type);
	r.zs = rlx_k_type_size((enum rlx_dtype)small);
	r.integer = !rlx_k_type_float((enum rlx_dtype)small);
	for (size_t u = begin; u < end; u++) {
		size_t q = u / pieces, from = u % pieces * RLX_K_QUANT_UNIT;
		size_t n = row - from < RLX_K_QUANT_UNIT ? row - from :
							   RLX_K_QUANT_UNIT;
		size_t i = q % (size_t)a->axis, o = q / (size_t)a->axis;

		if (a->inner == 1) {
			along_axis(&r, q, from, n);
			continue;
		}
		elements(&r, q * row + from, n,
			 o * (size_t)a->stride[0] + i / (size_t)a->block *
			 (size_t)a->stride[1] + from * (size_t)a->stride[2],
			 (size_t)a->stride[2]);
	}
}

void RLX_K(quantize)(const void *args, size_t begin, size_t end, void *scratch)
{
	(void)scratch;
	run_units(args, begin, end, false);
}

void RLX_K(dequantize)(const void *args, size_t begin, size_t end,
		       void *scratch)
{
	(void)scratch;
	run_units(args, begin, end, true);
}

static void range_of(const float *x, size_t n, float *low, float *high)
{
	vf lo = vf_set1(INFINITY), hi = vf_set1(-INFINITY);
	size_t i = 0;

	for (; i + RLX_VL <= n; i += RLX_VL) {
		vf v = vf_loadu(x + i);

		lo = vf_min(v, lo);
		hi = vf_max(v, hi);
	}
	*low = vf_hmin(lo);
	*high = vf_hmax(hi);
	for (; i < n; i++) {
		*low = x[i] < *low ? x[i] : *low;
		*high = x[i] > *high ? x[i] : *high;
	}
}

void RLX_K(quant_range)(const void *args, size_t begin, size_t end,
			void *scratch)
{
	const struct rlx_k_quant_range *a = args;

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		size_t at = u * RLX_K_RANGE_UNIT, n = (size_t)a->n - at;

		n = n < RLX_K_RANGE_UNIT ? n : RLX_K_RANGE_UNIT;
		range_of(a->x + at, n, &a->range[2 * u], &a->range[2 * u + 1]);
	}
}

void RLX_K(quant_params)(const void *args, size_t begin, size_t end,
			 void *scratch)
{
	const struct rlx_k_quant_params *a = args;
	float lo = 0, hi = 0, zp;

	(void)scratch;
	if (begin == end)
		return;
	for (int64_t i = 0; i < a->pieces; i++) {
		lo = a->range[2 * i] < lo ? a->range[2 * i] : lo;
		hi = a->range[2 * i + 1] > hi ? a->range[2 * i + 1] : hi;
	}
	*a->scale = hi > lo ? (hi - lo) / 255 : 1;
	zp = nearbyintf(0 - lo / *a->scale);
	*a->zp = (uint8_t)(zp < 0 ? 0 : zp > 255 ? 255 : zp);
}

void RLX_K(quant_rows)(const void *args, size_t begin, size_t end,
		       void *scratch)
{
	const struct rlx_k_quant_rows *a = args;
	const size_t n = (size_t)a->n;

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		const float *x = a->x + u * n;
		int8_t *y = a->y + u * n;
		float lo, hi, s;
		size_t i = 0;

		range_of(x, n, &lo, &hi);
		hi = n && -lo > hi ? -lo : n ? hi : 0;
		s = hi > 0 ? hi / 127 : 1;
		a->scale[u] = s;
		for (; i + RLX_VL <= n; i += RLX_VL)
			vi_storeu_i8(y + i, vi_round(vf_loadu(x + i) / s));
		if (i < n)
			vi_storen_i8(y + i, vi_round(vf_loadn(x + i, n - i) /
						     s), n - i);
	}
}
