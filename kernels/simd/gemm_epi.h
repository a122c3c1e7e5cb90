/* SPDX-License-Identifier: MIT */
/*
 * What happens to a tile of f32 sums on the way to C: factor, biases, residual,
 * activation, conversion.
 */
#ifndef RLX_SIMD_GEMM_EPI_H
#define RLX_SIMD_GEMM_EPI_H

#include "kernels/gemm.h"
#include "kernels/simd/act.h"

/*
 * @t, @ldt: sums; rows are readable in whole vectors
 * @c, @ldc, @r, @ldr: as in struct rlx_k_gemm, at this tile's first element
 * @bias: whole vectors, or NULL; @row_bias: one for each row, or NULL
 */
struct ge {
	const float		*t;
	size_t			ldt;
	char			*c;
	const char		*r;
	size_t			ldc, ldr;
	const float		*bias, *row_bias;
	size_t			rows, cols;
	float			alpha, beta, lo, hi;
	enum rlx_dtype		type;
};

RLX_INLINE size_t ge_size(enum rlx_dtype type)
{
	return type == RLX_F32 ? 4 : 2;
}

RLX_INLINE vf ge_load(const char *p, enum rlx_dtype type, size_t n)
{
	if (type == RLX_BF16)
		return vf_loadn_bf16(p, n);
	if (type == RLX_F16)
		return vf_loadn_f16(p, n);
	return n >= RLX_VL ? vf_loadu(p) : vf_loadn(p, n);
}

RLX_INLINE void ge_store(char *p, vf x, enum rlx_dtype type, size_t n)
{
	if (type == RLX_BF16)
		vf_storen_bf16(p, x, n);
	else if (type == RLX_F16)
		vf_storen_f16(p, x, n);
	else if (n >= RLX_VL)
		vf_storeu(p, x);
	else
		vf_storen(p, x, n);
}

/* By enum rlx_act, of this level's vectors: gemm_epi.c, once for all GEMMs of floats. */
#if defined(RLX_ISA_v4_vnni) || defined(RLX_ISA_v4x) || defined(RLX_ISA_v4_amx)
#define RLX_ISA_EPI	v4
#elif defined(RLX_ISA_v4_amx_emu)
#define RLX_ISA_EPI	base
#else
#define RLX_ISA_EPI	RLX_ISA
#endif
#define GE_FNS		RLX_K_CAT(rlx_k_gemm_epi, RLX_ISA_EPI)
extern void (*const GE_FNS[])(const struct ge *);

#endif
