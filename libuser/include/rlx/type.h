/* SPDX-License-Identifier: MIT */
/* Element types and tensor types: dtype, rank and concrete dimensions. */
#ifndef RLX_TYPE_H
#define RLX_TYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rlx/dtype.h"
#include "rlx/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_MAX_RANK	8

/**
 * struct rlx_type - a tensor's type: row-major, dense, outermost dimension first.
 * @dtype: element type
 * @rank:  0 (a scalar) to RLX_MAX_RANK
 * @dim:   sizes, each >= 0, or known later (rlx/dims.h); entries at and beyond @rank are 0
 */
struct rlx_type {
	enum rlx_dtype	dtype;
	uint32_t	rank;
	int64_t		dim[RLX_MAX_RANK];
};

/* A tensor in host memory, dense and row-major; @data NULL: an absent input. */
struct rlx_tensor {
	struct rlx_type	 type;
	void		*data;
};

/* rlx_type(RLX_F32, 2, 3): a type with these dimensions; needs at least one. */
#ifndef __cplusplus
#define rlx_type(dt, ...)						\
	((struct rlx_type){ .dtype = (dt),				\
		.rank = sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), \
		.dim = { __VA_ARGS__ } })
#define rlx_scalar(dt)	((struct rlx_type){ .dtype = (dt) })
#else
#define rlx_type(dt, ...)	rlx_cxx::type((dt), { __VA_ARGS__ })
#define rlx_scalar(dt)		rlx_cxx::type((dt), {})
#endif

/* Bytes of one element; 0 for a value that is no dtype. Context: any. */
RLX_EXPORT size_t rlx_dtype_size(enum rlx_dtype dt);

/*
 * What the address of elements is a multiple of: their size, of c64 that of a half; 0 for
 * a value that is no dtype. Context: any.
 */
RLX_EXPORT size_t rlx_dtype_align(enum rlx_dtype dt);

/* "f32"; "?" for a value that is no dtype. Context: any. Static string. */
RLX_EXPORT const char *rlx_dtype_name(enum rlx_dtype dt);

/* The dtype of that name, RLX_NODTYPE if none. Context: any. */
RLX_EXPORT enum rlx_dtype rlx_dtype_parse(const char *name);

/**
 * rlx_dtype_promote - the dtype of a binary operation on @a and @b.
 *
 * bool < u8,i8 < i16,u16 < i32,u32 < i64,u64 among integers (signed wins a tie);
 * an integer with a float gives f32, with i64 or u64 and a float f64 only if
 * the float is f64, else f32; f16 with bf16 gives f32; c64 wins over all.
 * Context: any. Return: RLX_NODTYPE if either is no dtype.
 */
RLX_EXPORT enum rlx_dtype rlx_dtype_promote(enum rlx_dtype a, enum rlx_dtype b);

/* Number of elements (1 for a scalar), -1 if it overflows or a dim is < 0, or of NULL. */
RLX_EXPORT int64_t rlx_type_count(const struct rlx_type *t);

/* Bytes of a dense tensor, -1 if the type is NULL, malformed or too large. */
RLX_EXPORT int64_t rlx_type_bytes(const struct rlx_type *t);

/* Same dtype, rank and dimensions; false if one is NULL. */
RLX_EXPORT bool rlx_type_equal(const struct rlx_type *a, const struct rlx_type *b);

/**
 * rlx_type_print - "f32[2,3]" into @buf, always terminated; "?" for a size that is known later.
 * NULL is "?[]".
 * Return: the length it has or would have, as snprintf. Context: any.
 */
RLX_EXPORT int rlx_type_print(const struct rlx_type *t, char *buf, size_t size);

static inline bool rlx_dtype_is_float(enum rlx_dtype dt)
{
	return dt >= RLX_F64 && dt <= RLX_F8E5M2;
}

static inline bool rlx_dtype_is_signed(enum rlx_dtype dt)
{
	return dt >= RLX_I64 && dt <= RLX_I8;
}

static inline bool rlx_dtype_is_unsigned(enum rlx_dtype dt)
{
	return dt >= RLX_U64 && dt <= RLX_U8;
}

/* Signed or unsigned, not bool. */
static inline bool rlx_dtype_is_int(enum rlx_dtype dt)
{
	return dt >= RLX_I64 && dt <= RLX_U8;
}

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
#include <initializer_list>

/* What macros are in C++, where a compound literal has no address. */
namespace rlx_cxx {
inline struct rlx_type type(enum rlx_dtype dt, std::initializer_list<int64_t> dim)
{
	struct rlx_type t = {};

	t.dtype = dt;
	for (int64_t d : dim) {
		if (t.rank < RLX_MAX_RANK)
			t.dim[t.rank] = d;
		t.rank++;	/* too many are refused by who gets the type */
	}
	return t;
}
}
#endif
#endif
