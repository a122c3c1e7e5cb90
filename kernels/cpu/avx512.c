// SPDX-License-Identifier: MIT
/* The rows of kernels.def that AVX-512 has, one table a level. */
#include "kernels/cpu/rows.h"

#if defined(__x86_64__)
#define V4(name, d)		PICK_##d(name, v4, NULL)
#define V4_VNNI(name, d, e)	PICK_##e(name, v4_vnni, V4(name, d))
#define V4X(name, d, e, f)	PICK_##f(name, v4x, V4_VNNI(name, d, e))
#define V4_AMX(name, d, e, f, g) PICK_##g(name, v4_amx, V4X(name, d, e, f))

__attribute__((visibility("default")))
extern const struct rlx_kernels_avx512 rlx_kernels_avx512;

const struct rlx_kernels_avx512 rlx_kernels_avx512 = {
	.version = RLX_VERSION,
	.rows = RLX_KERNEL_COUNT,
	.level = {
		[RLX_ISA_V4 - RLX_ISA_V4] = {
#define KERNEL(name, b, c, d, e, f, g)	.name = V4(name, d),
#include "kernels/cpu/kernels.def"
#undef KERNEL
		},
		[RLX_ISA_V4_VNNI - RLX_ISA_V4] = {
#define KERNEL(name, b, c, d, e, f, g)	.name = V4_VNNI(name, d, e),
#include "kernels/cpu/kernels.def"
#undef KERNEL
		},
		[RLX_ISA_V4X - RLX_ISA_V4] = {
#define KERNEL(name, b, c, d, e, f, g)	.name = V4X(name, d, e, f),
#include "kernels/cpu/kernels.def"
#undef KERNEL
		},
		[RLX_ISA_V4_AMX - RLX_ISA_V4] = {
#define KERNEL(name, b, c, d, e, f, g)	.name = V4_AMX(name, d, e, f, g),
#include "kernels/cpu/kernels.def"
#undef KERNEL
		},
	},
};
#endif
