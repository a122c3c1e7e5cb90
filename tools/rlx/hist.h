/* SPDX-License-Identifier: MIT */
/* A histogram of times: 1 ns to 18 min, within one part in 2048. */
#ifndef RLX_TOOLS_HIST_H
#define RLX_TOOLS_HIST_H

#include <stdint.h>

enum { HIST_SUB = 10, HIST_CELLS = (41 - HIST_SUB) << HIST_SUB };

/* Zero-initialise before use. */
struct hist {
	uint64_t	n, max, cell[HIST_CELLS];
	double		sum;
};

void hist_add(struct hist *h, uint64_t ns);
/* The time that a share @q (0 to 1) of all stayed within; 0 if there are none. */
double hist_quantile(const struct hist *h, double q);

#endif
