/* SPDX-License-Identifier: MIT */
/* A matrix product as both ops say it, for the backend that multiplies. */
#ifndef RLX_BACKENDS_PRODUCT_H
#define RLX_BACKENDS_PRODUCT_H

#include "backends/common/lower.h"
#include "kernels/gemm.h"

struct rlx_gemm_desc {
	const struct rlx_type	*a, *b, *y;
	bool			 trans_a, trans_b, has_bias, has_residual;
	bool			 flat;		/* one matrix on the right: all rows as one */
	double			 alpha, lo, hi;
	int			 act;
	enum rlx_dtype		 compute;	/* round both sides to it; 0: as they are */
	bool			 tf32;		/* f32 may be multiplied as TF32 */
};

/* The bias as input 2, one for each column, of @dtype. */
enum rlx_status rlx_gemm_bias(struct rlx_lower *lo, struct rlx_k_gemm *g,
				 const struct rlx_gemm_desc *p, enum rlx_dtype dtype);
/* What its kernels call a real dtype. */
enum rlx_k_num rlx_gemm_num(enum rlx_dtype dt);

#endif
