// SPDX-License-Identifier: MIT
/* The rows of kernels.def as one table per ISA level. */
#include "kernels/kernel.h"

#define DECL_0(name, isa)
#define DECL_1(name, isa)	rlx_k_fn rlx_k_##name##__##isa;
#if defined(__x86_64__)
#define KERNEL(name, b, c, d, e, f)			\
	DECL_##b(name, base) DECL_##c(name, v3)		\
	DECL_##d(name, v4) DECL_##e(name, v4x)		\
	DECL_##f(name, v4_amx)
#else
#define KERNEL(name, b, c, d, e, f)	DECL_##b(name, base)
#endif
#include "kernels/cpu/kernels.def"
#undef KERNEL

/* PICK_<has>(symbol at this level, what the lower level has) */
#define PICK_0(name, isa, lower)	lower
#define PICK_1(name, isa, lower)	rlx_k_##name##__##isa
#define BASE(name, b)		PICK_##b(name, base, NULL)
#define V3(name, b, c)		PICK_##c(name, v3, BASE(name, b))
#define V4(name, b, c, d)	PICK_##d(name, v4, V3(name, b, c))
#define V4X(name, b, c, d, e)	PICK_##e(name, v4x, V4(name, b, c, d))
#define V4_AMX(name, b, c, d, e, f)	PICK_##f(name, v4_amx, V4X(name, b, c, d, e))

static const struct rlx_kernels tables[] = {
	[RLX_ISA_BASE] = {
#define KERNEL(name, b, c, d, e, f)	.name = BASE(name, b),
#include "kernels/cpu/kernels.def"
#undef KERNEL
	},
#if defined(__x86_64__)
	[RLX_ISA_V3] = {
#define KERNEL(name, b, c, d, e, f)	.name = V3(name, b, c),
#include "kernels/cpu/kernels.def"
#undef KERNEL
	},
	[RLX_ISA_V4] = {
#define KERNEL(name, b, c, d, e, f)	.name = V4(name, b, c, d),
#include "kernels/cpu/kernels.def"
#undef KERNEL
	},
	[RLX_ISA_V4X] = {
#define KERNEL(name, b, c, d, e, f)	.name = V4X(name, b, c, d, e),
#include "kernels/cpu/kernels.def"
#undef KERNEL
	},
	[RLX_ISA_V4_AMX] = {
#define KERNEL(name, b, c, d, e, f)	.name = V4_AMX(name, b, c, d, e, f),
#include "kernels/cpu/kernels.def"
#undef KERNEL
	},
#endif
};

const struct rlx_kernels *rlx_kernels_get(enum rlx_isa isa)
{
	size_t n = sizeof(tables) / sizeof(tables[0]);

	return &tables[(size_t)isa < n ? (size_t)isa : n - 1];
}
