// SPDX-License-Identifier: MIT
/* Learning rates by step. */
#include <math.h>

#include "rlx/train.h"

double rlx_schedule_at(const struct rlx_schedule *s, uint64_t step)
{
	double lr, low, at;
	uint64_t span, from;

	if (!s)
		return 0;
	lr = s->lr;
	low = lr * s->floor;
	if (step < s->warmup)
		return lr * (double)(step + 1) / (double)s->warmup;
	if (s->kind == RLX_RSQRT)
		return lr * sqrt((double)(s->warmup ? s->warmup : 1) /
				 (double)(step > s->warmup ? step : s->warmup ? s->warmup : 1));
	if (s->kind == RLX_CONSTANT)
		return lr;
	from = s->kind == RLX_WSD ? s->steps > s->decay ? s->steps - s->decay : 0 : s->warmup;
	span = s->steps > from ? s->steps - from : 0;
	if (step < from)
		return lr;
	if (step >= s->steps || !span)
		return low;
	at = (double)(step - from) / (double)span;
	if (s->kind == RLX_COSINE)
		return low + (lr - low) * 0.5 * (1 + cos(3.141592653589793 * at));
	return lr + (low - lr) * at;
}
