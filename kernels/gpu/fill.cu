// SPDX-License-Identifier: MIT
/*
 * Zeros, and numbers in even steps (iota; IOTA_TYPE is their type).
 *
 * A thread writes elements a grid's width apart, neighbours side by side; nothing is read, so the
 * bound is the memory's rate of writing. zero writes 16 bytes at a time where address and length
 * allow, else bytes. iota takes i * step + start by one f64 fma, so that element i is rounded once
 * more at most and does not depend on those before it; integers wrap.
 * Limits: zero any number of bytes, iota all numeric types.
 */
#include "kernels/fill.h"
#include "kernels/gpu/move.h"

#ifdef RLX_KERNEL_zero
RLX_G_KERNEL(zero, struct rlx_k_zero, 256)
{
	uint8_t *dst = RLX_G_PTR(uint8_t, a.dst);
	int64_t n = (int64_t)env.units;

	if (((uint64_t)dst | (uint64_t)n) % 16 == 0) {
		for (int64_t i = line_first(); i < n / 16; i += line_step())
			((struct word16 *)dst)[i] = word16{};
		return;
	}
	for (int64_t i = line_first(); i < n; i += line_step())
		dst[i] = 0;
}
#else

RLX_G_KERNEL(iota, struct rlx_k_iota, 256)
{
	typedef rlx_t<IOTA_TYPE> type;
	type::mem *dst = RLX_G_PTR(type::mem, a.dst);

	for (int64_t i = line_first(); i < a.n; i += line_step()) {
#if IOTA_TYPE == 1
		dst[i] = fma((double)i, a.step, a.start);
#elif IOTA_TYPE == 2
		dst[i] = (float)(fma((double)i, a.step, a.start));
#elif IOTA_TYPE <= 6
		dst[i] = type::put(f64_to_odd(fma((double)i, a.step, a.start)));
#else
		dst[i] = type::put((type::acc)((uint64_t)a.istart +
					       (uint64_t)i * (uint64_t)a.istep));
#endif
	}
}
#endif
