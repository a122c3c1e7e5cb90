// SPDX-License-Identifier: MIT
/* Whole tensors that a caller gives or takes in another dtype. */
#include <string.h>

#include "ir/element.h"
#include "mem/arena.h"
#include "rt/convert.h"

enum rlx_status rlx_may_convert(const struct rlx_type *have, const struct rlx_type *given,
				const char *what, const char *name, struct rlx_error *err)
{
	struct rlx_type t = *given;
	char a[96], b[96];

	t.dtype = have->dtype;
	rlx_type_print(have, a, sizeof(a));
	rlx_type_print(given, b, sizeof(b));
	if (!rlx_type_equal(&t, have))
		return rlx_fail(err, RLX_ESHAPE, "%s '%s' is %s, not %s", what, name, a, b);
	if (given->dtype != have->dtype &&
	    !(rlx_dtype_is_float(given->dtype) && rlx_dtype_is_float(have->dtype)) &&
	    !(el_is_int(given->dtype) && el_is_int(have->dtype)))
		return rlx_fail(err, RLX_ETYPE, "%s '%s' is %s, not %s", what, name, a, b);
	return RLX_OK;
}

/* Element by element, of dtypes of one family. */
static void convert(const struct rlx_type *to, void *dst, const struct rlx_type *from,
		    const void *src, int64_t n)
{
	struct rlx_tensor d = { *to, dst }, f = { *from, (void *)(uintptr_t)src };
	int64_t i;

	if (el_is_int(to->dtype))
		for (i = 0; i < n; i++)
			el_seti(&d, i, el_geti(&f, i));
	else
		for (i = 0; i < n; i++)
			el_set(&d, i, el_get(&f, i));
}

void rlx_convert(struct rlx_type to, void *dst, struct rlx_type from, const void *src)
{
	if (to.dtype != from.dtype)
		convert(&to, dst, &from, src, rlx_type_count(&to));
	else if (rlx_type_bytes(&to))
		memcpy(dst, src, (size_t)rlx_type_bytes(&to));
	rlx_stat_copied((uint64_t)rlx_type_bytes(&to));
}

/* By blocks, which stay in the nearest cache between the look and the copy. */
enum { BLOCK = 4096 };

static bool copy_if_other(char *dst, const char *src, size_t n)
{
	if (!memcmp(dst, src, n))
		return false;
	memcpy(dst, src, n);
	return true;
}

bool rlx_convert_if_other(struct rlx_type to, void *dst, struct rlx_type from, const void *src)
{
	const size_t size = rlx_dtype_size(to.dtype), step = rlx_dtype_size(from.dtype);
	const int64_t most = BLOCK / 16, n = rlx_type_count(&to);
	const size_t bytes = (size_t)rlx_type_bytes(&to);
	_Alignas(16) char block[BLOCK];
	bool other = false;
	int64_t i, k;
	size_t at;

	if (to.dtype == from.dtype)
		for (at = 0; at < bytes; at += BLOCK)
			other |= copy_if_other((char *)dst + at, (const char *)src + at,
					       bytes - at < BLOCK ? bytes - at : BLOCK);
	for (i = 0; to.dtype != from.dtype && i < n; i += most) {
		k = n - i < most ? n - i : most;
		convert(&to, block, &from, (const char *)src + (size_t)i * step, k);
		other |= copy_if_other((char *)dst + (size_t)i * size, block, (size_t)k * size);
	}
	rlx_stat_copied(bytes);
	return other;
}
