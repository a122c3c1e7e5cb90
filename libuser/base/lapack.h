/* SPDX-License-Identifier: MIT */
/* The library of linear algebra that is opened where there is one. */
#ifndef RLX_BASE_LAPACK_H
#define RLX_BASE_LAPACK_H

#include <stdbool.h>
#include <stddef.h>

/*
 * OpenBLAS (libopenblas.so.0), or the LAPACK that RLX_LAPACK names; NULL: there is none, or
 * RLX_LAPACK is "none". It is opened once, when it is first asked for, and stays. The reference
 * LAPACK (liblapack.so.3) is slower than our own kernels: it must be named.
 */
void *rlx_lapack_library(void);
/* Is it to do all it can (RLX_LAPACK is "all"), not only what it is faster at? */
bool rlx_lapack_always(void);
/* For people: its file and what it says of itself, or why there is none. */
void rlx_lapack_name(char *buf, size_t size);

#endif
