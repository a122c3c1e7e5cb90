// SPDX-License-Identifier: MIT
/* Linear recurrences: a column a lane; v4 takes those of v3, as memory is the bound. */
#include "kernels/kernel.h"
#include "kernels/simd/vec.h"
#include "kernels/ssm.h"

#ifndef RLX_V512
rlx_k_fn RLX_K(linear_scan);

/* What a walk of one piece of columns is given; in numbers of T. */
#define SCAN(T, FMA)							\
static void scan_##T(const struct rlx_k_linear_scan *s, int64_t at, int64_t line, int64_t n)	\
{									\
	const T *a = s->a, *x = s->x, *from = s->initial;		\
	int64_t step = s->reverse ? -s->inner : s->inner;		\
	T *restrict y = s->y;						\
									\
	at += s->reverse ? (s->n - 1) * s->inner : 0;			\
	for (int64_t i = 0; s->n && i < n; i++)				\
		y[at + i] = from ? FMA(from[line + i], a[at + i], x[at + i]) : x[at + i]; \
	for (int64_t t = 1; t < s->n; t++) {				\
		const T *restrict past = y + at;			\
		T *restrict now = y + at + step;			\
									\
		at += step;						\
		for (int64_t i = 0; i < n; i++)				\
			now[i] = FMA(a[at + i], past[i], x[at + i]);	\
	}								\
}
SCAN(float, f_fma)
SCAN(double, d_fma)

void RLX_K(linear_scan)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_linear_scan *a = args;
	const int64_t pieces = (a->inner + RLX_K_SCAN_COLUMNS - 1) / RLX_K_SCAN_COLUMNS;

	(void)scratch;
	for (; begin < end; begin++) {
		int64_t o = (int64_t)begin / pieces;
		int64_t i = (int64_t)begin % pieces * RLX_K_SCAN_COLUMNS;
		int64_t n = a->inner - i < RLX_K_SCAN_COLUMNS ? a->inner - i : RLX_K_SCAN_COLUMNS;

		(a->type == RLX_F64 ? scan_double : scan_float)(a, o * a->n * a->inner + i,
								o * a->inner + i, n);
	}
}
#endif
