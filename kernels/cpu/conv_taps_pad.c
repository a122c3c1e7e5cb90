// SPDX-License-Identifier: MIT
/* Planes of a convolution's input or weights on the grid of conv_taps.c: its zeros between rows. */
#include <string.h>

#include "kernels/conv.h"

rlx_k_fn RLX_K(conv_taps_pad);

/* One phase of one plane, as much of it as the grid keeps. */
static void plane_lay(const struct rlx_conv_grid *g, float *dst, const float *x,
		      const size_t phase[3])
{
	size_t first[3], n[3], z, y, i, j;

	memset(dst, 0, g[0].size * g[1].size * g[2].size * sizeof(*dst));
	for (j = 0; j < 3; j++) {
		first[j] = rlx_conv_taps_phase(&g[j], phase[j]);
		n[j] = first[j] < g[j].in ? (g[j].in - first[j] - 1) / g[j].d + 1 : 0;
		n[j] = n[j] < g[j].most ? n[j] : g[j].most;
	}
	for (z = 0; z < n[0]; z++)
		for (y = 0; y < n[1]; y++) {
			const float *from = x + ((first[0] + z * g[0].d) * g[1].in +
						 first[1] + y * g[1].d) * g[2].in + first[2];
			float *to = dst + (z * g[1].size + y) * g[2].size;

			/* for size GCC makes string instructions of memcpy(), slow at rows */
			if (g[2].d == 1)
				memmove(to, from, n[2] * sizeof(*to));
			for (i = 0; g[2].d > 1 && i < n[2]; i++)
				to[i] = from[i * g[2].d];
		}
}

void RLX_K(conv_taps_pad)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_taps_pad *a = args;
	const struct rlx_conv_grid *g = a->grid;
	const size_t size = g[0].size * g[1].size * g[2].size, tail = a->row - a->c * size;
	const size_t phases = g[0].phases * g[1].phases * g[2].phases;
	size_t u, k;

	(void)scratch;
	for (u = begin; u < end; u++) {
		size_t n = u / a->c, c = u % a->c, i = n % a->rows;
		float *to = a->y + n * phases * a->row + c * size;
		const float *x = a->x + ((n / a->rows * a->real + i) * a->c + c) *
				 g[0].in * g[1].in * g[2].in;

		for (k = 0; k < phases; k++, to += a->row) {
			size_t p[3] = { k / g[2].phases / g[1].phases,
					k / g[2].phases % g[1].phases, k % g[2].phases };

			if (i < a->real)
				plane_lay(g, to, x, p);
			else
				memset(to, 0, size * sizeof(*to));
			if (c + 1 == a->c)
				memset(to + size, 0, tail * sizeof(*to));
		}
		if (!u)
			memset(a->y - a->before, 0, a->before * sizeof(*a->y));
	}
}
