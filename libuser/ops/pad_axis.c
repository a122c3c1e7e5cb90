// SPDX-License-Identifier: MIT
/* Repeating, reflecting and wrapping an axis. */
#include "ops/pad_axis.h"

int64_t op_pad_from(int32_t mode, int64_t p, int64_t d)
{
	int64_t period;

	if (p >= 0 && p < d)
		return p;
	switch (mode) {
	case RLX_PAD_EDGE:
		return p < 0 ? 0 : d - 1;
	case RLX_PAD_WRAP:
		p %= d;
		return p < 0 ? p + d : p;
	case RLX_PAD_REFLECT:
		if (d == 1)
			return 0;
		period = 2 * (d - 1);
		p %= period;
		p = p < 0 ? p + period : p;
		return p < d ? p : period - p;
	}
	return -1;
}
