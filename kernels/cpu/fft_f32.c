// SPDX-License-Identifier: MIT
/* Discrete Fourier transforms in f32. */
#include "kernels/kernel.h"
#include "kernels/simd/vec.h"

#define FT		float
#define FV		vf
#define FW		RLX_VL
#define F_LOADU(p)	vf_loadu(p)
#define F_LOADN(p, n)	vf_loadn(p, n)
#define F_STOREU(p, v)	vf_storeu(p, v)
#define F_STOREN(p, v, n) vf_storen(p, v, n)
#define F_TRANSPOSE(r)	vf_transpose(r)
#define F_TRANSPOSE_HALVES(r)	vf_transpose_halves(r)
#include "kernels/simd/fft_pass.h"
#include "kernels/simd/fft_move.h"
#include "kernels/simd/fft_square.h"
#include "kernels/simd/fft_chirp.h"
#include "kernels/simd/fft_line.h"

rlx_k_fn RLX_K(fft_f32);

void RLX_K(fft_f32)(const void *args, size_t begin, size_t end, void *scratch)
{
	units(args, begin, end, scratch);
}
