// SPDX-License-Identifier: MIT
/* Discrete Fourier transforms in f64. */
#include "kernels/kernel.h"
#include "kernels/simd/vec.h"

#define FT		double
#define FV		vd
#define FW		RLX_VLD
#define F_LOADU(p)	vd_loadu(p)
#define F_LOADN(p, n)	vd_loadn(p, n)
#define F_STOREU(p, v)	vd_storeu(p, v)
#define F_STOREN(p, v, n) vd_storen(p, v, n)
#define F_TRANSPOSE(r)	vd_transpose(r)
#define F_TRANSPOSE_HALVES(r)	vd_transpose_halves(r)
#include "kernels/simd/fft_pass.h"
#include "kernels/simd/fft_move.h"
#include "kernels/simd/fft_square.h"
#include "kernels/simd/fft_chirp.h"
#include "kernels/simd/fft_line.h"

rlx_k_fn RLX_K(fft_f64);

void RLX_K(fft_f64)(const void *args, size_t begin, size_t end, void *scratch)
{
	units(args, begin, end, scratch);
}
