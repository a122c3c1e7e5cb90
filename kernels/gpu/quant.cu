// SPDX-License-Identifier: MIT
/*
 * Quantising and back (ONNX QuantizeLinear, DequantizeLinear), and the ranges that dynamic
 * quantising needs.
 *
 * Algorithm: quantize, dequantize: a thread an element; its scale is found by strides, one for
 * all, for each index of an axis, or for each block of it. Ranges (DynamicQuantizeLinear): a block
 * of 256 threads folds RLX_K_RANGE_UNIT elements, then one block folds those pieces and gives the
 * scale and the zero point of u8. quant_rows: a block a row, symmetric, max |x| / 127.
 * Traffic: x and y once, scales from caches; dynamic quantising reads x twice, once for the range,
 * quant_rows too, the second time mostly from caches. The bound is memory.
 * Limits: x and scales f32, f16, bf16; small types of 8 and 16 bits and fp8 (without zero point),
 * dequantize from i32 too; ranges of f32. f16 and bf16 are rounded to even, and saturated;
 * NaN gives 0 in integers, and ranges pass over it.
 */
#include "kernels/gpu/dialect.h"
#include "kernels/quant.h"

/* A whole number, to the nearest of the type; NaN is 0. */
template <class T> static DEV inline T saturated(float v, float low, float high)
{
	return v != v ? (T)0 : (T)(v < low ? low : v > high ? high : v);
}

#ifdef QUANT_X_TYPE	/* for quantize and dequantize */
typedef rlx_t<QUANT_X_TYPE> xt;
typedef rlx_t<QUANT_Y_TYPE> yt;
typedef rlx_t<QUANT_SCALE_TYPE> st;

static DEV inline bool is_f8(int type)
{
	return type == RLX_F8E4M3 || type == RLX_F8E5M2;
}

/* Number of the scale of element @e. */
static DEV inline int64_t scale_at(const struct rlx_k_quant &a, int64_t e)
{
	int64_t at = 0;

	if (a.stride[2])
		at += e % a.inner * a.stride[2];
	if (a.stride[1])
		at += e / a.inner % a.axis / a.block * a.stride[1];
	if (a.stride[0])
		at += e / a.inner / a.axis * a.stride[0];
	return at;
}

static DEV inline void put_small(void *y, int64_t e, float v)
{
	if (QUANT_Y_TYPE == RLX_F8E4M3)
		((f8e4m3 *)y)[e] = f32_to_e4m3(v);
	else if (QUANT_Y_TYPE == RLX_F8E5M2)
		((f8e5m2 *)y)[e] = f32_to_e5m2(v);
	else if (QUANT_Y_TYPE == RLX_I8)
		((int8_t *)y)[e] = saturated<int8_t>(v, -128, 127);
	else if (QUANT_Y_TYPE == RLX_U8)
		((uint8_t *)y)[e] = saturated<uint8_t>(v, 0, 255);
	else if (QUANT_Y_TYPE == RLX_I16)
		((int16_t *)y)[e] = saturated<int16_t>(v, -32768, 32767);
	else
		((uint16_t *)y)[e] = saturated<uint16_t>(v, 0, 65535);
}

RLX_G_KERNEL(quantize, struct rlx_k_quant, 256)
{
	const xt::mem *x = RLX_G_PTR(const xt::mem, a.x);
	const st::mem *scale = RLX_G_PTR(const st::mem, a.scale);
	const yt::mem *zp = RLX_G_PTR(const yt::mem, a.zp);
	void *y = RLX_G_PTR(void, a.y);
	int64_t n = a.outer * a.axis * a.inner, step = (int64_t)gridDim.x * 256;

	for (int64_t e = (int64_t)blockIdx.x * 256 + threadIdx.x; e < n; e += step) {
		int64_t s = scale_at(a, e);
		float v = (float)xt::get(x[e]) / (float)st::get(scale[s]);

		if (!is_f8(QUANT_Y_TYPE))
			v = rintf(v) + (zp ? (float)yt::get(zp[s]) : 0.0f);
		put_small(y, e, v);
	}
}

RLX_G_KERNEL(dequantize, struct rlx_k_quant, 256)
{
	const xt::mem *x = RLX_G_PTR(const xt::mem, a.x);
	const st::mem *scale = RLX_G_PTR(const st::mem, a.scale);
	const xt::mem *zp = RLX_G_PTR(const xt::mem, a.zp);
	yt::mem *y = RLX_G_PTR(yt::mem, a.y);
	int64_t n = a.outer * a.axis * a.inner, step = (int64_t)gridDim.x * 256;

	for (int64_t e = (int64_t)blockIdx.x * 256 + threadIdx.x; e < n; e += step) {
		int64_t s = scale_at(a, e);
		float z = zp ? (float)xt::get(zp[s]) : 0.0f;
		float v = ((float)xt::get(x[e]) - z) * (float)st::get(scale[s]);

		y[e] = yt::put((yt::acc)v);
	}
}
#else

/* NaN is passed over. */
struct op_low {
	static DEV inline float of(float x, float y) { return y < x ? y : x; }
};

struct op_high {
	static DEV inline float of(float x, float y) { return y > x ? y : x; }
};

/* Of [from, to), in all threads. */
static DEV inline void range_of(const float *x, int64_t from, int64_t to, float *low,
				float *high, float *smem)
{
	*low = INFINITY;
	*high = -INFINITY;
	for (int64_t i = from + threadIdx.x; i < to; i += 256) {
		*low = op_low::of(*low, x[i]);
		*high = op_high::of(*high, x[i]);
	}
	*low = block_reduce<op_low>(*low, smem);
	*high = block_reduce<op_high>(*high, smem);
}

RLX_G_KERNEL(quant_range, struct rlx_k_quant_range, 256)
{
	SHARED(float, smem, [MAX_WARPS]);
	const float *x = RLX_G_PTR(const float, a.x);
	float *range = RLX_G_PTR(float, a.range);
	int64_t pieces = (a.n + RLX_K_RANGE_UNIT - 1) / RLX_K_RANGE_UNIT;

	for (int64_t p = blockIdx.x; p < pieces; p += gridDim.x) {
		int64_t from = p * RLX_K_RANGE_UNIT, to = from + RLX_K_RANGE_UNIT;
		float low, high;

		range_of(x, from, to < a.n ? to : a.n, &low, &high, smem);
		if (threadIdx.x == 0) {
			range[2 * p] = low;
			range[2 * p + 1] = high;
		}
	}
}

RLX_G_KERNEL(quant_params, struct rlx_k_quant_params, 256)
{
	SHARED(float, smem, [MAX_WARPS]);
	const float *range = RLX_G_PTR(const float, a.range);
	float low = 0, high = 0, scale, zp;

	for (int64_t i = threadIdx.x; i < a.pieces; i += 256) {
		low = op_low::of(low, range[2 * i]);
		high = op_high::of(high, range[2 * i + 1]);
	}
	low = block_reduce<op_low>(low, smem);
	high = block_reduce<op_high>(high, smem);
	if (threadIdx.x)
		return;
	scale = high > low ? (high - low) / 255 : 1;
	zp = rintf(0 - low / scale);
	*RLX_G_PTR(float, a.scale) = scale;
	*RLX_G_PTR(uint8_t, a.zp) = (uint8_t)(zp < 0 ? 0 : zp > 255 ? 255 : zp);
}

RLX_G_KERNEL(quant_rows, struct rlx_k_quant_rows, 256)
{
	SHARED(float, smem, [MAX_WARPS]);
	const float *x = RLX_G_PTR(const float, a.x);
	int8_t *y = RLX_G_PTR(int8_t, a.y);
	float *scale = RLX_G_PTR(float, a.scale);

	for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
		float low, high, s;

		range_of(x, r * a.n, (r + 1) * a.n, &low, &high, smem);
		high = -low > high ? -low : high;
		s = high > 0 ? high / 127 : 1;
		if (threadIdx.x == 0)
			scale[r] = s;
		for (int64_t i = r * a.n + threadIdx.x; i < (r + 1) * a.n; i += 256)
			y[i] = saturated<int8_t>(rintf(x[i] / s), -128, 127);
	}
}
#endif
