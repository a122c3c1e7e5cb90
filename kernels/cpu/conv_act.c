// SPDX-License-Identifier: MIT
/* Activations of the convolution epilogue. */
#include "kernels/cpu/conv_act.h"

bool RLX_K(conv_act_fuse)(const struct conv_act *act, struct conv_fuse *f)
{
	return conv_fuse_of(act, f);
}

void RLX_K(conv_act_run)(const struct conv_act *act, float *y, size_t n)
{
	conv_act_apply(act, y, n);
}
