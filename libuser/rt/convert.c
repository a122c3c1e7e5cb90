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

/* Same dtype: bytes; another of the same family: element by element. */
void rlx_convert(struct rlx_type to, void *dst, struct rlx_type from, const void *src)
{
	struct rlx_tensor d = { to, dst }, f = { from, (void *)(uintptr_t)src };
	int64_t n = rlx_type_count(&to), i;

	if (to.dtype == from.dtype && n)
		memcpy(dst, src, (size_t)rlx_type_bytes(&to));
	else if (el_is_int(to.dtype))
		for (i = 0; i < n; i++)
			el_seti(&d, i, el_geti(&f, i));
	else
		for (i = 0; i < n; i++)
			el_set(&d, i, el_get(&f, i));
	rlx_stat_copied((uint64_t)rlx_type_bytes(&to));
}
