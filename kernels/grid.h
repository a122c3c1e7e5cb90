/* SPDX-License-Identifier: MIT */
/* Sampling an image at given places, which every device works out alike. */
#ifndef RLX_K_GRID_H
#define RLX_K_GRID_H

#ifndef DEV	/* device code has them without */
#include <math.h>
#endif

#include "kernels/type.h"

#define RLX_K_GRID_CHANNELS	4	/* that a GPU's thread reads at one place */

enum rlx_k_grid_padding { RLX_K_GRID_ZEROS, RLX_K_GRID_BORDER, RLX_K_GRID_REFLECTION };

/*
 * Kernel: grid_sample. y[image][channel][place] is x[image][channel] read at
 * grid[image][place], whose @nd numbers name the innermost axis first and run from
 * -1 to 1 over it. Each axis takes @taps neighbours: 1 the nearest, 2 linear, 4 cubic.
 * One unit is one place in all channels; there are images * places. Scratch: 0.
 */
struct rlx_k_grid_sample {
	const void	*x;		/* [images][channels][in[0]] .. [in[nd - 1]] */
	const void	*grid;		/* [images][places][nd] */
	void		*y;		/* [images][channels][places] */
	int64_t		images, channels, places, in[3];
	uint8_t		nd, taps;
	uint8_t		padding;	/* enum rlx_k_grid_padding */
	bool		align_corners;
	uint8_t		type, grid_type;	/* float types of 16 bits or more */
};

/* One axis of one place: where its taps lie, -1 for nowhere, and what they weigh. */
struct rlx_k_grid_taps {
	double	w[4];
	int64_t	at[4];
};

static inline double rlx_k_grid_reflect(double v, double lo, double hi)
{
	double range = hi - lo, over, n, r;
	bool below = v < lo;

	if (range <= 0)
		return lo;
	if (v >= lo && v <= hi)
		return v;
	over = below ? lo - v : v - hi;
	n = floor(over / range);
	r = over - n * range;
	/* not an even number: turned about once more */
	return (n / 2 != floor(n / 2)) == below ? hi - r : lo + r;
}

/* The element that a tap at @p reads, of @n. */
static inline int64_t rlx_k_grid_at(const struct rlx_k_grid_sample *a, double p, int64_t n)
{
	double lo = a->align_corners ? 0 : -0.5, last = (double)(n - 1);

	if (p >= 0 && p <= last)
		return (int64_t)p;
	if (a->padding == RLX_K_GRID_ZEROS || p != p)
		return -1;
	if (a->padding == RLX_K_GRID_REFLECTION)
		p = rlx_k_grid_reflect(p, lo, last - lo);
	return p > 0 ? p > last ? n - 1 : (int64_t)p : 0;
}

static inline double rlx_k_grid_cubic(double d)
{
	const double k = -0.75;

	d = fabs(d);
	return d <= 1 ? ((k + 2) * d - (k + 3)) * d * d + 1 :
	       d < 2 ? ((k * d - 5 * k) * d + 8 * k) * d - 4 * k : 0;
}

/* The @taps taps along an axis of @n elements for the grid's number @v. */
static inline void rlx_k_grid_taps(const struct rlx_k_grid_sample *a, int taps, double v,
				   int64_t n, struct rlx_k_grid_taps *t)
{
	double lo = a->align_corners ? 0 : -0.5, hi = (double)(n - 1) - lo, p, base, d;
	double beyond = taps == 4 ? 2 : 0;	/* from there on all taps read one element */

	p = a->align_corners ? (v + 1) / 2 * (double)(n - 1) : ((v + 1) * (double)n - 1) / 2;
	if (taps == 1)
		p = rint(p);
	if (p < lo || p > hi) {
		if (a->padding == RLX_K_GRID_BORDER)
			p = p < -beyond ? -beyond : p > (double)(n - 1) + beyond ?
			    (double)(n - 1) + beyond : p;
		else if (a->padding == RLX_K_GRID_REFLECTION)
			p = rlx_k_grid_reflect(p, lo, hi);
	}
	base = taps == 1 ? p : floor(p) - (taps == 4);
	for (int i = 0; i < taps; i++) {
		d = p - base - i;
		t->w[i] = taps == 1 ? 1 : taps == 2 ? (i ? 1 + d : 1 - d) :
			  rlx_k_grid_cubic(d);
		t->at[i] = rlx_k_grid_at(a, base + i, n);
	}
}

static inline size_t rlx_k_grid_sample_units(const struct rlx_k_grid_sample *a)
{
	return (size_t)(a->images * a->places);
}

#endif
