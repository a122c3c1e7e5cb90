/* SPDX-License-Identifier: MIT */
/* Linear algebra by a LAPACK that was opened: its functions, and the kernel that calls them. */
#ifndef RLX_K_LAPACK_H
#define RLX_K_LAPACK_H

#include "kernels/kernel.h"
#include "kernels/linalg.h"

/*
 * As Fortran has them: integers of 32 bits, everything by address, and behind the arguments the
 * length of each that is a character. FUNCTION(name, arguments)
 */
#define RLX_LAPACK_FUNCTIONS(T)									\
	FUNCTION(potrf, (const char *uplo, const int *n, T *a, const int *lda, int *info,	\
			 size_t))								\
	FUNCTION(getrf, (const int *m, const int *n, T *a, const int *lda, int *ipiv,		\
			 int *info))								\
	FUNCTION(trsm, (const char *side, const char *uplo, const char *trans,			\
			const char *diag, const int *m, const int *n, const T *alpha,		\
			const T *a, const int *lda, T *b, const int *ldb, size_t, size_t,	\
			size_t, size_t))							\
	FUNCTION(geqrf, (const int *m, const int *n, T *a, const int *lda, T *tau, T *work,	\
			 const int *lwork, int *info))						\
	FUNCTION(orgqr, (const int *m, const int *n, const int *k, T *a, const int *lda,	\
			 const T *tau, T *work, const int *lwork, int *info))			\
	FUNCTION(syevd, (const char *jobz, const char *uplo, const int *n, T *a,		\
			 const int *lda, T *w, T *work, const int *lwork, int *iwork,		\
			 const int *liwork, int *info, size_t, size_t))				\
	FUNCTION(gesdd, (const char *jobz, const int *m, const int *n, T *a, const int *lda,	\
			 T *s, T *u, const int *ldu, T *vt, const int *ldvt, T *work,		\
			 const int *lwork, int *iwork, int *info, size_t))

#define FUNCTION(name, args)	void (*name) args;
struct rlx_lapack_f32 {
	RLX_LAPACK_FUNCTIONS(float)
};

struct rlx_lapack_f64 {
	RLX_LAPACK_FUNCTIONS(double)
};
#undef FUNCTION

/* enter, leave: around calls that are to have so many threads; the library's own count is kept */
struct rlx_lapack {
	struct rlx_lapack_f32	f32;
	struct rlx_lapack_f64	f64;
	void			(*enter)(unsigned int threads);
	void			(*leave)(void);
};

/*
 * What the kernels of linalg.h do, by LAPACK: f64 in f64, other types in f32. Matrices that are
 * not finite, and what it gives up, go to own, one at a time.
 *
 * CPU kernel: lapack. Units as there; scratch, or l.work: rlx_k_lapack_scratch().
 */
struct rlx_k_lapack {
	struct rlx_k_linalg	l;
	const struct rlx_lapack	*lapack;
	rlx_k_fn		*own, *cast;
	unsigned int		threads;	/* of a call */
	int32_t			lwork;		/* elements of a function's workspace */
};

static inline size_t rlx_k_lapack_scratch(const struct rlx_k_lapack *a)
{
	const size_t m = (size_t)a->l.m, n = (size_t)a->l.n, less = m < n ? m : n;
	size_t own = rlx_k_linalg_scratch(&a->l), size = a->l.type == RLX_F64 ? 8 : 4;
	size_t all = m * n + (m + n) * less + n * (size_t)a->l.k + 2 * n + (size_t)a->lwork + 64;

	all = all * size + (8 * n + 16) * sizeof(int);
	return all > own ? all : own;
}

#endif
