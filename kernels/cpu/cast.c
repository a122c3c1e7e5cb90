// SPDX-License-Identifier: MIT
/* The cast kernel: one conversion, or two through a block of the right class. */
#include <string.h>

#include "kernels/cast.h"
#include "kernels/cpu/convert.h"

rlx_k_fn RLX_K(cast);

/* The class through which one rounding is all the rounding there is. */
static int cast_class(int src, int dst)
{
	bool sf = rlx_k_type_float((enum rlx_dtype)src);
	bool df = rlx_k_type_float((enum rlx_dtype)dst);

	if (!sf && !df)
		return RLX_EW_I64;
	if (src == RLX_F64 || dst == RLX_F64)
		return RLX_EW_F64;
	if (!sf && dst == RLX_BF16 &&
	    rlx_k_type_size((enum rlx_dtype)src) >= 4)
		return RLX_EW_F64;
	return RLX_EW_F32;
}

static bool same_bits(int src, int dst)
{
	return src == dst && src != RLX_BOOL;
}

void RLX_K(cast)(const void *args, size_t begin, size_t end, void *scratch)
{
	static const uint8_t class_type[] = { [RLX_EW_F32] = RLX_F32, [RLX_EW_F64] = RLX_F64,
					      [RLX_EW_I64] = RLX_I64 };
	const struct rlx_k_cast *a = args;
	const size_t ss = rlx_k_type_size((enum rlx_dtype)a->src_type);
	const size_t ds = rlx_k_type_size((enum rlx_dtype)a->dst_type);
	int cls = cast_class(a->src_type, a->dst_type);
	rlx_convert_fn *load = RLX_K(loader)(cls, a->src_type);
	rlx_convert_fn *store = RLX_K(storer)(cls, a->dst_type);
	const char *s = (const char *)a->src + begin * RLX_K_CAST_BLOCK * ss;
	char *d = (char *)a->dst + begin * RLX_K_CAST_BLOCK * ds;
	size_t n = end * RLX_K_CAST_BLOCK;
	double t[512] __attribute__((aligned(64)));

	(void)scratch;
	n = (n < (size_t)a->n ? n : (size_t)a->n) - begin * RLX_K_CAST_BLOCK;
	if (same_bits(a->src_type, a->dst_type)) {
		memmove(d, s, n * ss);
		return;
	}
	if (a->dst_type == RLX_BF16 && a->src_type == RLX_I64)
		load = RLX_K(load_sticky_i64);
	if (a->dst_type == RLX_BF16 && a->src_type == RLX_U64)
		load = RLX_K(load_sticky_u64);
	/* one conversion, which in place might read what it wrote */
	if (a->src != a->dst && a->src_type == class_type[cls]) {
		store(d, s, n);
		return;
	}
	if (a->src != a->dst && a->dst_type == class_type[cls]) {
		load(d, s, n);
		return;
	}
	for (; n; s += 512 * ss, d += 512 * ds) {
		size_t m = n < 512 ? n : 512;

		load(t, s, m);
		store(d, t, m);
		n -= m;
	}
}
