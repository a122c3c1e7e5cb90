/* SPDX-License-Identifier: MIT */
/*
 * Pointwise code of programs with strict bits: the CPU's steps on floats (kernels/ew.h), one
 * function ewo_<op>() each, from the CPU's own rows. For sources that nothing contracts.
 */
#ifndef RLX_G_POINTWISE_ORDERED_H
#define RLX_G_POINTWISE_ORDERED_H

#include "kernels/gpu/pointwise.h"
#include "kernels/simd/ew_rows.h"

#define UN(name, expr)	RLX_INLINE float ewo_##name(float x) { return expr; }
#define BIN(name, expr)	RLX_INLINE float ewo_##name(float x, float y) { return expr; }
#define TER(name, expr)	RLX_INLINE float ewo_##name(float x, float y, float z) { return expr; }
RLX_EW_F32_ROWS(UN, BIN, TER)
#undef UN
#undef BIN
#undef TER

RLX_INLINE float ewo_pow(float x, float y) { return pow_simple(x, y); }
RLX_INLINE float ewo_mod(float x, float y) { return mod_floor(x, y); }
RLX_INLINE float ewo_fmod(float x, float y) { return fmodf(x, y); }

/* What an operand is in a register. */
RLX_INLINE float ewo_of(F x) { return x.v; }
RLX_INLINE float ewo_of(double x) { return (float)x; }
RLX_INLINE float ewo_of(int64_t x) { return (float)x; }
RLX_INLINE float ewo_of(uint64_t x) { return (float)x; }

/* Through a type, as the CPU's step is through memory of it. */
template <int T> static DEV inline float ewo_cast(float x)
{
	return ewo_of(ew_cast_to<T>::of(F(x)));
}

#endif
