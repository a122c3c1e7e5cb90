/* SPDX-License-Identifier: MIT */
/* Arguments of the zero kernel. */
#ifndef RLX_K_FILL_H
#define RLX_K_FILL_H

/* One unit is one byte. Scratch: 0. */
struct rlx_k_zero {
	void	*dst;
};

#endif
