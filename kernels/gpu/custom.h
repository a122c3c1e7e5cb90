/* SPDX-License-Identifier: MIT */
/* Arguments of a kernel whose text a program gave: backends/gpu/custom.c writes the rest. */
#ifndef RLX_G_CUSTOM_H
#define RLX_G_CUSTOM_H

#include "kernels/type.h"

/* As rlx/custom.h has them. */
enum { RLX_G_CUSTOM_IN = 16, RLX_G_CUSTOM_OUT = 8, RLX_G_CUSTOM_PARAMS = 64 };

struct rlx_g_custom {
	const void	*in[RLX_G_CUSTOM_IN];
	void		*out[RLX_G_CUSTOM_OUT];
	int64_t		param[RLX_G_CUSTOM_PARAMS];
};

#if defined(DEV) && defined(RLX_EMU)	/* the emulator's compiler is one for hosts */
#define __device__
#endif

#endif
