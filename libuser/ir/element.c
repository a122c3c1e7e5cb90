// SPDX-License-Identifier: MIT
/* One element of any dtype, read and written. */
#include "ir/element.h"

#include <math.h>

static struct rlx_minifloat format_of(enum rlx_dtype dt)
{
	return dt == RLX_F16 ? RLX_MF_F16 : dt == RLX_BF16 ? RLX_MF_BF16 :
	       dt == RLX_F8E4M3 ? RLX_MF_F8E4M3 : RLX_MF_F8E5M2;
}

double el_get(const struct rlx_tensor *t, int64_t i)
{
	const void *p = t->data;

	switch (t->type.dtype) {
	case RLX_F64: return ((const double *)p)[i];
	case RLX_F32: return (double)((const float *)p)[i];
	case RLX_C64: return (double)((const float *)p)[2 * i];
	case RLX_BF16: return (double)rlx_bf16_to_f32(((const uint16_t *)p)[i]);
	case RLX_F16: return rlx_minifloat_to(RLX_MF_F16, ((const uint16_t *)p)[i]);
	case RLX_F8E4M3:
	case RLX_F8E5M2:
		return rlx_minifloat_to(format_of(t->type.dtype),
					((const uint8_t *)p)[i]);
	case RLX_U64: return (double)((const uint64_t *)p)[i];
	default: return (double)el_geti(t, i);
	}
}

int64_t el_geti(const struct rlx_tensor *t, int64_t i)
{
	const void *p = t->data;
	double x;

	switch (t->type.dtype) {
	case RLX_I64:
	case RLX_U64: return ((const int64_t *)p)[i];
	case RLX_I32: return ((const int32_t *)p)[i];
	case RLX_U32: return ((const uint32_t *)p)[i];
	case RLX_I16: return ((const int16_t *)p)[i];
	case RLX_U16: return ((const uint16_t *)p)[i];
	case RLX_I8: return ((const int8_t *)p)[i];
	case RLX_U8: return ((const uint8_t *)p)[i];
	case RLX_BOOL: return ((const uint8_t *)p)[i] != 0;
	case RLX_NODTYPE: return 0;
	default:
		x = el_get(t, i);
		return isnan(x) ? 0 : x >= 0x1p63 ? INT64_MAX :
		       x < -0x1p63 ? INT64_MIN : (int64_t)x;
	}
}

/* Bounds of an integer dtype, as doubles that convert back in range. */
static int64_t saturate(enum rlx_dtype dt, double x)
{
	unsigned int bits = (unsigned int)rlx_dtype_size(dt) * 8;
	double top = ldexp(1, (int)bits - (rlx_dtype_is_signed(dt) ? 1 : 0));
	double low = rlx_dtype_is_signed(dt) ? -top : 0;

	if (isnan(x))
		return 0;
	x = trunc(x);
	if (x >= top)
		return (int64_t)(~0ull >> (64 - bits + (rlx_dtype_is_signed(dt) ? 1 : 0)));
	if (x < low)
		x = low;
	return rlx_dtype_is_signed(dt) ? (int64_t)x : (int64_t)(uint64_t)x;
}

void el_set(const struct rlx_tensor *t, int64_t i, double x)
{
	enum rlx_dtype dt = t->type.dtype;
	void *p = t->data;

	switch (dt) {
	case RLX_F64: ((double *)p)[i] = x; break;
	case RLX_F32: ((float *)p)[i] = (float)x; break;
	case RLX_C64:
		((float *)p)[2 * i] = (float)x;
		((float *)p)[2 * i + 1] = 0;
		break;
	case RLX_F16:
	case RLX_BF16:
		((uint16_t *)p)[i] = (uint16_t)rlx_minifloat_from(format_of(dt), x, 0);
		break;
	case RLX_F8E4M3:
	case RLX_F8E5M2:
		((uint8_t *)p)[i] = (uint8_t)rlx_minifloat_from(format_of(dt), x, 1);
		break;
	case RLX_BOOL: ((uint8_t *)p)[i] = x != 0; break;
	default:
		if (rlx_dtype_is_int(dt))
			el_seti(t, i, saturate(dt, x));
		break;	/* no dtype: no bytes to write */
	}
}

void el_seti(const struct rlx_tensor *t, int64_t i, int64_t x)
{
	void *p = t->data;

	switch (t->type.dtype) {
	case RLX_I64:
	case RLX_U64: ((int64_t *)p)[i] = x; break;
	case RLX_I32:
	case RLX_U32: ((uint32_t *)p)[i] = (uint32_t)x; break;
	case RLX_I16:
	case RLX_U16: ((uint16_t *)p)[i] = (uint16_t)x; break;
	case RLX_I8:
	case RLX_U8: ((uint8_t *)p)[i] = (uint8_t)x; break;
	case RLX_BOOL: ((uint8_t *)p)[i] = x != 0; break;
	case RLX_NODTYPE: break;
	default: el_set(t, i, (double)x); break;
	}
}
