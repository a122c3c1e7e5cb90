/* SPDX-License-Identifier: MIT */
/* What tables are made of: the kernels of kernels.def declared, and which level has each. */
#ifndef RLX_KERNELS_CPU_ROWS_H
#define RLX_KERNELS_CPU_ROWS_H

#include "kernels/kernel.h"

#define DECL_0(name, isa)
#define DECL_1(name, isa)	rlx_k_fn rlx_k_##name##__##isa;
#if defined(__x86_64__)
#define KERNEL(name, b, c, d, e, f, g)			\
	DECL_##b(name, base) DECL_##c(name, v3)		\
	DECL_##d(name, v4) DECL_##e(name, v4_vnni)	\
	DECL_##f(name, v4x) DECL_##g(name, v4_amx)
#else
#define KERNEL(name, b, c, d, e, f, g)	DECL_##b(name, base)
#endif
#include "kernels/cpu/kernels.def"
#undef KERNEL

/* PICK_<has>(symbol at this level, what the lower level has) */
#define PICK_0(name, isa, lower)	lower
#define PICK_1(name, isa, lower)	rlx_k_##name##__##isa

/*
 * The levels of AVX-512, v4 and above, which librlx-avx512.so has under the name
 * rlx_kernels_avx512, and programs that link librlx.a have as well. A row that none of these
 * levels has is NULL. Whoever opens it looks at version and rows first: the structs that
 * kernels take are those of one build.
 */
enum { RLX_AVX512_LEVELS = 4 };		/* v4, v4_vnni, v4x, v4_amx */
struct rlx_kernels_avx512 {
	char			version[32];
	unsigned int		rows;
	struct rlx_kernels	level[RLX_AVX512_LEVELS];
};

#endif
