// SPDX-License-Identifier: MIT
/* The kernels of AVX-512 where all is linked into one program: they are just there. */
#include "backends/cpu/kernels.h"
#include "kernels/cpu/rows.h"

#if defined(__x86_64__)
extern const struct rlx_kernels_avx512 rlx_kernels_avx512;
#endif

const struct rlx_kernels_avx512 *cpu_kernels_avx512(const char **why)
{
#if defined(__x86_64__)
	(void)why;
	return &rlx_kernels_avx512;
#else
	*why = "not for this processor";
	return NULL;
#endif
}
