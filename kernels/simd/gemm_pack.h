/* SPDX-License-Identifier: MIT */
/*
 * Panels of B: GD_NR columns, GD_K(k) rows of GD_BROW bytes, and a tail of GD_TAIL. The
 * includer has GT_NV and GT_L as gemm_tile.h takes them, or GD_NR; GD_PACK_KERNEL wants
 * all of these and pack_panel(p, panel, dst).
 */
#ifndef GD_PACK_KERNEL

#include "kernels/gemm.h"

#ifndef GD_NR
#define GD_NR		(GT_NV * GT_L)
#endif

/* The kernel @name, which packs B panel by panel; its arguments are a struct @type. */
#define GD_PACK_KERNEL(name, type)					\
rlx_k_fn RLX_K(name);							\
void RLX_K(name)(const void *args, size_t begin, size_t end, void *scratch) \
{									\
	const struct type *p = args;					\
	size_t size = GD_K(p->k) * GD_BROW + GD_TAIL;			\
									\
	for (; begin < end; begin++)					\
		pack_panel(p, begin, (char *)p->dst + begin * size);	\
}

#endif
