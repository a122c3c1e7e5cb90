/* SPDX-License-Identifier: MIT */
/* In which runs op sum_squares_all adds up; a training step that ranks share has the same ones. */
#ifndef RLX_BASE_SQUARES_RUN_H
#define RLX_BASE_SQUARES_RUN_H

#include <stdint.h>

/* Elements of each run of a tensor of @n: so many divide n. Of a small or an odd one all. */
static inline int64_t rlx_squares_run(int64_t n)
{
	int64_t run = n < 1 << 16 ? 1 : 1024;

	while (n % run)
		run--;
	return run < 64 ? n : run;
}

#endif
