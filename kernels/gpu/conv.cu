// SPDX-License-Identifier: MIT
/*
 * Convolutions. RLX_K0: their type; RLX_K1: which kernel, as in the files below, and 8
 * if transposed.
 */
#define ELEM_TYPE	RLX_K0
#define KIND		(RLX_K1 & 7)
#define TRANSPOSED	(RLX_K1 & 8)
/* so many blocks hide the time that memory takes */
#define RLX_G_BLOCKS	(KIND == 0 ? 2 : 3)
#if KIND >= 3
#include "kernels/gpu/conv_depthwise.h"
#elif RLX_K0 > 2
#include "kernels/gpu/conv_mma.h"
#else
#include "kernels/gpu/conv_simt.h"
#endif
