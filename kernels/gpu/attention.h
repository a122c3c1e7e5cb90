/* SPDX-License-Identifier: MIT */
/*
 * What the attention kernels share: which keys a query sees, and what becomes of its score.
 *
 * Query i of batch row b stands at i + q_offset and sees keys [lo, hi): hi is the row's length
 * (lens, or kv_len), and if causal its own place + 1 at most; lo is above 0 with a sliding window.
 * Tiled kernels leave out tiles of keys that none of their queries sees.
 * A score is scaled, then capped (softcap tanh(s / softcap)), then biased: an f32 bias is added,
 * a byte of 0 makes it -inf; that is 4 bytes or 1 from memory for each score.
 * Limits: a length outside [0, kv_len] is taken as the nearest one inside.
 */
#ifndef RLX_G_ATTENTION_H
#define RLX_G_ATTENTION_H

#include "kernels/attention.h"
#include "kernels/gpu/dialect.h"

/* Keys that row @b has: any number may stand in memory. */
static DEV inline int64_t keys_of(const struct rlx_k_attention &a, const void *lens, int64_t b)
{
	int64_t n = lens ? load_index(lens, b, a.lens_type) : a.kv_len;

	return n < 0 ? 0 : n < a.kv_len ? n : a.kv_len;
}

/* Keys [lo, hi) that query @i of row @b may see. */
static DEV inline void keys_seen(const struct rlx_k_attention &a, const void *lens, int64_t b,
				 int64_t i, int64_t *lo, int64_t *hi)
{
	int64_t at = i + a.q_offset;

	*lo = a.window > 0 && at - a.window + 1 > 0 ? at - a.window + 1 : 0;
	*hi = keys_of(a, lens, b);
	if (a.causal && at + 1 < *hi)
		*hi = at + 1;
}

static DEV inline float capped(const struct rlx_k_attention &a, float s)
{
	return a.softcap > 0 ? a.softcap * tanhf(s / a.softcap) : s;
}

/* Score @s with the bias of (b, h, i, j), -inf where a mask forbids. */
static DEV inline float biased(const struct rlx_k_attention &a, const void *bias, int64_t at,
			       float s)
{
	if (a.bias_type == RLX_F32)
		return s + ((const float *)bias)[at];
	return ((const uint8_t *)bias)[at] ? s : -INFINITY;
}

#endif
