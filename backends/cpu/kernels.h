/* SPDX-License-Identifier: MIT */
/* Where the kernels of each instruction set level are. */
#ifndef RLX_BACKENDS_CPU_KERNELS_H
#define RLX_BACKENDS_CPU_KERNELS_H

#include "kernels/kernel.h"

struct rlx_kernels_avx512;

/*
 * The levels above v3; NULL: they cannot be had, and *@why says what is wrong. In
 * kernels_opened.c of librlx-avx512.so, which it opens, in kernels_linked.c of the program
 * itself; a library has one of the two.
 */
const struct rlx_kernels_avx512 *cpu_kernels_avx512(const char **why);

/* Are the kernels of a level there? If not, *@why says why. Any thread; may open a library. */
bool cpu_has_kernels(enum rlx_isa isa, const char **why);

#endif
