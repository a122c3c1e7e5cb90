/* SPDX-License-Identifier: MIT */
/*
 * What kernels that fold elements of one type (ELEM_TYPE) compute in: floats in their
 * rlx_t's acc (or in double), integers and bool as uint64_t, where they wrap.
 */
#ifndef RLX_G_ACCUMULATE_H
#define RLX_G_ACCUMULATE_H

#include "kernels/gpu/dialect.h"

typedef rlx_t<ELEM_TYPE> elem;
typedef elem::mem mem;

#define IS_FLOAT	(ELEM_TYPE >= RLX_F64 && ELEM_TYPE <= RLX_F8E5M2)

template <bool FLOAT, class F> struct acc_of { typedef F type; };
template <class F> struct acc_of<false, F> { typedef uint64_t type; };

/* Integers are told apart by sign only where they are compared. */
template <class T> static DEV inline bool less_than(T x, T y)
{
	if (IS_FLOAT || ELEM_TYPE == RLX_U64)
		return x < y;
	return (int64_t)x < (int64_t)y;
}

/* Narrow floats go by way of f32, and a double to one of them rounds once. */
template <class T> static DEV inline mem put_as(T v)
{
	if (IS_FLOAT && ELEM_TYPE > RLX_F32 && sizeof(T) == 8)
		return elem::put((elem::acc)f64_to_odd((double)v));
	return elem::put((elem::acc)v);
}

#endif
