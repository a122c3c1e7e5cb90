// SPDX-License-Identifier: MIT
/* Element types and tensor types. */
#include <stdio.h>
#include <string.h>

#include "rlx/type.h"

static const struct {
	const char *name;
	uint8_t size;
	uint8_t rank;	/* promotion: higher wins */
} dtypes[RLX_DTYPE_COUNT] = {
	[RLX_NODTYPE] = { "?", 0, 0 },
	[RLX_BOOL]   = { "bool", 1, 1 },
	[RLX_U8]     = { "u8", 1, 2 },    [RLX_I8]  = { "i8", 1, 3 },
	[RLX_U16]    = { "u16", 2, 4 },   [RLX_I16] = { "i16", 2, 5 },
	[RLX_U32]    = { "u32", 4, 6 },   [RLX_I32] = { "i32", 4, 7 },
	[RLX_U64]    = { "u64", 8, 8 },   [RLX_I64] = { "i64", 8, 9 },
	[RLX_F8E4M3] = { "f8e4m3", 1, 10 }, [RLX_F8E5M2] = { "f8e5m2", 1, 11 },
	[RLX_BF16]   = { "bf16", 2, 12 }, [RLX_F16] = { "f16", 2, 13 },
	[RLX_F32]    = { "f32", 4, 14 },  [RLX_F64] = { "f64", 8, 15 },
	[RLX_C64]    = { "c64", 8, 16 },
};

static bool known(enum rlx_dtype dt)
{
	return dt > RLX_NODTYPE && dt < RLX_DTYPE_COUNT;
}

size_t rlx_dtype_size(enum rlx_dtype dt)
{
	return known(dt) ? dtypes[dt].size : 0;
}

size_t rlx_dtype_align(enum rlx_dtype dt)
{
	return dt == RLX_C64 ? rlx_dtype_size(RLX_F32) : rlx_dtype_size(dt);
}

const char *rlx_dtype_name(enum rlx_dtype dt)
{
	return known(dt) ? dtypes[dt].name : "?";
}

enum rlx_dtype rlx_dtype_parse(const char *name)
{
	unsigned int i;

	for (i = 1; name && i < RLX_DTYPE_COUNT; i++)
		if (!strcmp(dtypes[i].name, name))
			return (enum rlx_dtype)i;
	return RLX_NODTYPE;
}

enum rlx_dtype rlx_dtype_promote(enum rlx_dtype a, enum rlx_dtype b)
{
	bool fa = rlx_dtype_is_float(a), fb = rlx_dtype_is_float(b);

	if (!known(a) || !known(b))
		return RLX_NODTYPE;
	if (a == b)
		return a;
	if (a == RLX_C64 || b == RLX_C64)
		return RLX_C64;
	if (fa && fb && dtypes[a].size == dtypes[b].size)
		return dtypes[a].size == 2 ? RLX_F32 : RLX_BF16;
	/* bool carries no precision: it takes the float's type as it is */
	if (fa != fb && a != RLX_BOOL && b != RLX_BOOL)
		return a == RLX_F64 || b == RLX_F64 ? RLX_F64 : RLX_F32;
	return dtypes[a].rank > dtypes[b].rank ? a : b;
}

int64_t rlx_type_count(const struct rlx_type *t)
{
	int64_t n = 1;
	uint32_t i;
	bool zero = false;

	if (!t || t->rank > RLX_MAX_RANK)
		return -1;
	for (i = 0; i < t->rank; i++) {
		if (t->dim[i] < 0)
			return -1;
		if (!t->dim[i])
			zero = true;
		else if (__builtin_mul_overflow(n, t->dim[i], &n))
			return -1;
	}
	return zero ? 0 : n;
}

int64_t rlx_type_bytes(const struct rlx_type *t)
{
	int64_t n = rlx_type_count(t), bytes;

	if (n < 0 || !known(t->dtype) ||
	    __builtin_mul_overflow(n, (int64_t)rlx_dtype_size(t->dtype), &bytes))
		return -1;
	return bytes;
}

bool rlx_type_equal(const struct rlx_type *a, const struct rlx_type *b)
{
	return a && b && a->dtype == b->dtype && a->rank == b->rank &&
	       a->rank <= RLX_MAX_RANK &&
	       !memcmp(a->dim, b->dim, a->rank * sizeof(a->dim[0]));
}

int rlx_type_print(const struct rlx_type *t, char *buf, size_t size)
{
	uint32_t i, rank = !t ? 0 : t->rank < RLX_MAX_RANK ? t->rank : RLX_MAX_RANK;
	size_t n = 0;

#define OUT(...) n += (size_t)snprintf(n < size ? buf + n : NULL, \
				       n < size ? size - n : 0, __VA_ARGS__)
	OUT("%s[", rlx_dtype_name(t ? t->dtype : RLX_NODTYPE));
	for (i = 0; i < rank; i++) {
		OUT("%s", i ? "," : "");
		if (t->dim[i] < -((int64_t)1 << 61))	/* rlx_dim()'s: its graph knows the name */
			OUT("?");
		else
			OUT("%lld", (long long)t->dim[i]);
	}
	OUT("]");
#undef OUT
	return (int)n;
}
