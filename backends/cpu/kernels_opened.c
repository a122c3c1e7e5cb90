// SPDX-License-Identifier: MIT
/* The kernels of AVX-512 where they are a library of their own, which stands beside this one. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/kernels.h"
#include "base/library.h"
#include "kernels/cpu/rows.h"

static const char file[] = "librlx-avx512.so.1";
static char wrong[RLX_LIBRARY_WHY];	/* written by the one call there is */

const struct rlx_kernels_avx512 *cpu_kernels_avx512(const char **why)
{
	void *handle = rlx_library_open(file, wrong);
	const struct rlx_kernels_avx512 *k = handle ? dlsym(handle, "rlx_kernels_avx512") : NULL;

	*why = wrong;
	if (handle && !k)
		snprintf(wrong, sizeof(wrong), "%s has no table of kernels", file);
	if (!k)
		return NULL;
	if (!strcmp(k->version, RLX_VERSION) && k->rows == RLX_KERNEL_COUNT)
		return k;
	snprintf(wrong, sizeof(wrong), "%s is of version %.31s with %u kernels, not of %s with %u",
		 file, k->version, k->rows, RLX_VERSION, (unsigned int)RLX_KERNEL_COUNT);
	return NULL;
}
