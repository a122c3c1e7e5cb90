// SPDX-License-Identifier: MIT
/* The rows of kernels.def that AVX-512 has, one table a level. */
#include "kernels/cpu/rows.h"

#if defined(__x86_64__)
#define V4(name, d)		PICK_##d(name, v4, NULL)
#define V4X(name, d, e)		PICK_##e(name, v4x, V4(name, d))
#define V4_AMX(name, d, e, f)	PICK_##f(name, v4_amx, V4X(name, d, e))

__attribute__((visibility("default")))
extern const struct rlx_kernels_avx512 rlx_kernels_avx512;

const struct rlx_kernels_avx512 rlx_kernels_avx512 = {
	.version = RLX_VERSION,
	.rows = RLX_KERNEL_COUNT,
	.level = {
		[RLX_ISA_V4 - RLX_ISA_V4] = {
#define KERNEL(name, b, c, d, e, f)	.name = V4(name, d),
#include "kernels/cpu/kernels.def"
#undef KERNEL
		},
		[RLX_ISA_V4X - RLX_ISA_V4] = {
#define KERNEL(name, b, c, d, e, f)	.name = V4X(name, d, e),
#include "kernels/cpu/kernels.def"
#undef KERNEL
		},
		[RLX_ISA_V4_AMX - RLX_ISA_V4] = {
#define KERNEL(name, b, c, d, e, f)	.name = V4_AMX(name, d, e, f),
#include "kernels/cpu/kernels.def"
#undef KERNEL
		},
	},
};
#endif
