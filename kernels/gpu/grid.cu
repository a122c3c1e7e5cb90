// SPDX-License-Identifier: MIT
/*
 * Sampling an image at given places (grid sample), on 1 to 3 axes: GRID_AXES axes, GRID_TAPS taps
 * of each: 1 the nearest pixel, 2 linear, 4 cubic.
 *
 * Algorithm: a thread a place in RLX_K_GRID_CHANNELS channels: where the taps lie and what they
 * weigh is worked out once for these, in f64, by the same code as the CPU (kernels/grid.h); then
 * taps ^ axes pixels are summed up for each channel, in one order.
 * Traffic: y once, neighbouring places side by side; the grid once for each 4 channels; reads of x
 * go where the grid says: near ones meet in caches, others cost a transaction each.
 * Source: ONNX GridSample; the cubic is Keys', "Cubic convolution interpolation for digital image
 * processing" (1981), with a = -0.75.
 * Limits: float types of 16 bits or more, sums in the type's accumulator; any padding mode.
 */
#include "kernels/gpu/move.h"
#include "kernels/grid.h"

enum { ND = GRID_AXES, TAPS = GRID_TAPS };
enum { READS = TAPS * (ND > 1 ? TAPS : 1) * (ND > 2 ? TAPS : 1) };
typedef rlx_t<GRID_TYPE> type;

/* What a place reads of any channel, summed over the taps of all axes. */
static DEV inline type::acc weigh(const struct rlx_k_grid_sample &a, const type::mem *x,
				  const struct rlx_k_grid_taps *t)
{
	type::acc sum = 0;

	for (int i = 0; i < READS; i++) {
		int64_t at = 0;
		double w = 1;
		bool in = true;

		for (int d = 0, k = i; d < ND; d++, k /= TAPS) {
			int j = k % TAPS;

			in = in && t[d].at[j] >= 0;
			w *= t[d].w[j];
			at = at * a.in[d] + t[d].at[j];
		}
		if (in)
			sum += (type::acc)w * type::get(x[at]);
	}
	return sum;
}

RLX_G_KERNEL(grid_sample, struct rlx_k_grid_sample, 256)
{
	const type::mem *x = RLX_G_PTR(const type::mem, a.x);
	const void *grid = RLX_G_PTR(const void, a.grid);
	type::mem *y = RLX_G_PTR(type::mem, a.y);
	int64_t groups = (a.channels + RLX_K_GRID_CHANNELS - 1) / RLX_K_GRID_CHANNELS;
	int64_t n = a.images * groups * a.places, pixels = 1;

	for (int d = 0; d < ND; d++)
		pixels *= a.in[d];
	for (int64_t i = line_first(); i < n; i += line_step()) {
		int64_t place, group, image = divide(divide(i, a.places, &place), groups, &group);
		int64_t c = group * RLX_K_GRID_CHANNELS, end = c + RLX_K_GRID_CHANNELS;
		struct rlx_k_grid_taps t[ND];

		for (int d = 0; d < ND; d++)
			rlx_k_grid_taps(&a, TAPS, load_real(grid, (image * a.places + place) * ND +
						      ND - 1 - d, a.grid_type), a.in[d], &t[d]);
		for (end = end < a.channels ? end : a.channels; c < end; c++) {
			int64_t plane = image * a.channels + c;

			y[plane * a.places + place] =
				type::put(weigh(a, x + plane * pixels, t));
		}
	}
}
