// SPDX-License-Identifier: MIT
/*
 * The rows of kernels.def as one table per ISA level, each row the best kernel at or below it.
 * Levels above v3 are half of all code, and mapped by processors that have them alone.
 */
#include <pthread.h>
#include <string.h>

#include "backends/cpu/kernels.h"
#include "kernels/cpu/rows.h"

#define BASE(name, b)		PICK_##b(name, base, NULL)
#define V3(name, b, c)		PICK_##c(name, v3, BASE(name, b))

static const struct rlx_kernels tables[] = {
	[RLX_ISA_BASE] = {
#define KERNEL(name, b, c, d, e, f, g)	.name = BASE(name, b),
#include "kernels/cpu/kernels.def"
#undef KERNEL
	},
#if defined(__x86_64__)
	[RLX_ISA_V3] = {
#define KERNEL(name, b, c, d, e, f, g)	.name = V3(name, b, c),
#include "kernels/cpu/kernels.def"
#undef KERNEL
	},
#endif
};

enum { N_TABLES = sizeof(tables) / sizeof(tables[0]) };

/* Written once: rows that AVX-512 does not have are v3's. */
static struct rlx_kernels avx512[RLX_AVX512_LEVELS];
static const char *missing;		/* "": they are there */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void)
{
	const char *why = "not for this processor";
	const struct rlx_kernels_avx512 *have = cpu_kernels_avx512(&why);
	unsigned int l, k;

	missing = have ? "" : why;
	for (l = 0; have && l < RLX_AVX512_LEVELS; l++) {
		rlx_k_fn *const *own = (rlx_k_fn *const *)(const void *)&have->level[l];
		rlx_k_fn *const *v3 = (rlx_k_fn *const *)(const void *)&tables[N_TABLES - 1];
		rlx_k_fn **to = (rlx_k_fn **)(void *)&avx512[l];

		for (k = 0; k < RLX_KERNEL_COUNT; k++)
			to[k] = own[k] ? own[k] : v3[k];
	}
}

_Static_assert(sizeof(struct rlx_kernels) == RLX_KERNEL_COUNT * sizeof(rlx_k_fn *),
	       "a table is an array of functions");

bool cpu_has_kernels(enum rlx_isa isa, const char **why)
{
	*why = "";
	if ((unsigned int)isa < N_TABLES)
		return true;
	pthread_once(&once, fill);
	*why = missing;
	return !*missing;
}

const struct rlx_kernels *rlx_kernels_get(enum rlx_isa isa)
{
	const char *why;

	if ((unsigned int)isa < N_TABLES || !cpu_has_kernels(isa, &why))
		return &tables[(unsigned int)isa < N_TABLES ? (unsigned int)isa : N_TABLES - 1];
	return &avx512[isa - RLX_ISA_V4 < RLX_AVX512_LEVELS ? isa - RLX_ISA_V4 :
		       RLX_AVX512_LEVELS - 1];
}
