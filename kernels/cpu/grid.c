// SPDX-License-Identifier: MIT
/* Sampling at given places: their taps once, then every channel's sum in double. */
#include "kernels/cpu/convert.h"
#include "kernels/grid.h"

rlx_k_fn RLX_K(grid_sample);

/* What one place reads of any channel: elements of the image and their weights. */
struct reads {
	int	n;
	int64_t	at[64];
	double	w[64];
};

static void reads_of(const struct rlx_k_grid_sample *a, const double *v, struct reads *r)
{
	struct rlx_k_grid_taps t[3];
	int total = 1;

	for (int d = 0; d < a->nd; d++) {
		rlx_k_grid_taps(a, a->taps, v[a->nd - 1 - d], a->in[d], &t[d]);
		total *= a->taps;
	}
	r->n = 0;
	for (int i = 0; i < total; i++) {
		int64_t at = 0;
		double w = 1;
		int k = i, d;

		for (d = 0; d < a->nd && t[d].at[k % a->taps] >= 0; d++, k /= a->taps) {
			w *= t[d].w[k % a->taps];
			at = at * a->in[d] + t[d].at[k % a->taps];
		}
		if (d < a->nd)
			continue;
		r->at[r->n] = at;
		r->w[r->n++] = w;
	}
}

void RLX_K(grid_sample)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_grid_sample *a = args;
	const int64_t size = (int64_t)rlx_k_type_size((enum rlx_dtype)a->type);
	const int64_t grid_size = (int64_t)rlx_k_type_size((enum rlx_dtype)a->grid_type);
	rlx_convert_fn *load = RLX_K(loader)(RLX_EW_F64, a->type);
	rlx_convert_fn *load_grid = RLX_K(loader)(RLX_EW_F64, a->grid_type);
	rlx_convert_fn *store = RLX_K(storer)(RLX_EW_F64, a->type);
	int64_t pixels = 1;
	struct reads r;

	(void)scratch;
	for (int d = 0; d < a->nd; d++)
		pixels *= a->in[d];
	for (size_t u = begin; u < end; u++) {
		int64_t image = (int64_t)u / a->places, place = (int64_t)u % a->places;
		double v[3];

		load_grid(v, (const char *)a->grid + (int64_t)u * a->nd * grid_size, a->nd);
		reads_of(a, v, &r);
		for (int64_t c = image * a->channels; c < (image + 1) * a->channels; c++) {
			const char *x = (const char *)a->x + c * pixels * size;
			double sum = 0, one;

			for (int i = 0; i < r.n; i++) {
				load(&one, x + r.at[i] * size, 1);
				sum += r.w[i] * one;
			}
			store((char *)a->y + (c * a->places + place) * size, &sum, 1);
		}
	}
}
