/* SPDX-License-Identifier: MIT */
/*
 * Reading and writing one element of any dtype: what reference evaluation is
 * made of. Float dtypes go through double, integers through 64 bits, so both
 * are exact; conversion follows the rules of the cast op.
 */
#ifndef RLX_IR_ELEMENT_H
#define RLX_IR_ELEMENT_H

#include "base/half.h"
#include "ir/opdef.h"

/* Element @i as double (integers rounded to nearest). c64: the real part. */
double el_get(const struct rlx_tensor *t, int64_t i);
/* Store with the cast rules: nearest even; to integer truncate, saturate, NaN is 0. */
void el_set(const struct rlx_tensor *t, int64_t i, double x);
/* Element @i of an integer or bool tensor, floats truncated; u64 keeps its bits. */
int64_t el_geti(const struct rlx_tensor *t, int64_t i);
/* Store the low bits (wraps); floats get the value, rounded. bool: x != 0. */
void el_seti(const struct rlx_tensor *t, int64_t i, int64_t x);
/* Copy element @si of @s to @di of @d; same dtype, any dtype. */
static inline void el_copy(const struct rlx_tensor *d, int64_t di,
			   const struct rlx_tensor *s, int64_t si)
{
	size_t n = rlx_dtype_size(s->type.dtype);

	__builtin_memcpy((char *)d->data + (size_t)di * n,
			 (const char *)s->data + (size_t)si * n, n);
}

/* True if arithmetic on this dtype is done in 64-bit integers. */
static inline bool el_is_int(enum rlx_dtype dt)
{
	return rlx_dtype_is_int(dt) || dt == RLX_BOOL;
}

#endif
