/* SPDX-License-Identifier: MIT */
/* The functions of a LAPACK, and how they are called. */
#ifndef RLX_CPU_LAPACK_H
#define RLX_CPU_LAPACK_H

#include "kernels/lapack.h"

/*
 * Of rlx_lapack_library(); NULL: there is none. Its own threads are as many as enter() says while
 * calls are under way.
 */
const struct rlx_lapack *cpu_lapack(void);
/*
 * Elements of workspace that the function for @a, all of which is there but lwork, wants; -1: not
 * by LAPACK, as numbers of 32 bits do not do.
 */
int64_t cpu_lapack_workspace(const struct rlx_lapack *lapack, const struct rlx_k_linalg *a);

#endif
