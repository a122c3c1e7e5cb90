// SPDX-License-Identifier: MIT
/* The columns of an image, and the image of columns. */
#include <string.h>

#include "kernels/columns.h"

rlx_k_fn RLX_K(im2col_f64);
rlx_k_fn RLX_K(col2im_f64);

/* One tap: where it stands over the image for place 0, along each axis. */
struct tap {
	const struct rlx_k_columns	*a;
	ptrdiff_t			at[3];
	size_t				o0, o1;		/* places along a row that are inside */
};

static struct tap tap_of(const struct rlx_k_columns *a, size_t t)
{
	size_t k[3] = { t / a->k[2] / a->k[1], t / a->k[2] % a->k[1], t % a->k[2] };
	struct tap r = { .a = a };
	ptrdiff_t s = (ptrdiff_t)a->s[2], left;

	for (int i = 0; i < 3; i++)
		r.at[i] = (ptrdiff_t)(k[i] * a->d[i]) - (ptrdiff_t)a->p[i];
	left = (ptrdiff_t)a->in[2] - r.at[2];
	r.o0 = r.at[2] < 0 ? (size_t)((-r.at[2] + s - 1) / s) : 0;
	r.o1 = left > 0 ? (size_t)((left + s - 1) / s) : 0;
	if (r.o1 > a->out[2])
		r.o1 = a->out[2];
	if (r.o0 > r.o1)
		r.o0 = r.o1;
	return r;
}

/* First element of the image's row that row @o of places sees; -1: none. */
static ptrdiff_t row_at(const struct tap *t, size_t o)
{
	const struct rlx_k_columns *a = t->a;
	ptrdiff_t z = t->at[0] + (ptrdiff_t)(o / a->out[1] * a->s[0]);
	ptrdiff_t y = t->at[1] + (ptrdiff_t)(o % a->out[1] * a->s[1]);

	if (z < 0 || y < 0 || z >= (ptrdiff_t)a->in[0] || y >= (ptrdiff_t)a->in[1])
		return -1;
	return (z * (ptrdiff_t)a->in[1] + y) * (ptrdiff_t)a->in[2];
}

void RLX_K(im2col_f64)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_columns *a = args;
	size_t taps = rlx_k_columns_taps(a), plane = a->in[0] * a->in[1] * a->in[2];
	size_t w = a->out[2], s = a->s[2];

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		const struct tap t = tap_of(a, u % taps);
		const double *x = a->image + u / taps * plane;
		double *c = a->columns + u * rlx_k_columns_places(a);

		for (size_t o = 0; o < a->out[0] * a->out[1]; o++, c += w) {
			ptrdiff_t row = row_at(&t, o);

			memset(c, 0, w * sizeof(*c));
			for (size_t i = t.o0; row >= 0 && i < t.o1; i++)
				c[i] = x[row + t.at[2] + (ptrdiff_t)(i * s)];
		}
	}
}

void RLX_K(col2im_f64)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_columns *a = args;
	size_t taps = rlx_k_columns_taps(a), plane = a->in[0] * a->in[1] * a->in[2];
	size_t w = a->out[2], s = a->s[2];

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		const double *c = a->columns + u * taps * rlx_k_columns_places(a);
		double *y = a->image + u * plane;

		for (size_t i = 0; i < plane; i++)
			y[i] = a->bias ? a->bias[u % a->channels] : 0;
		for (size_t k = 0; k < taps; k++) {
			const struct tap t = tap_of(a, k);

			for (size_t o = 0; o < a->out[0] * a->out[1]; o++, c += w) {
				ptrdiff_t row = row_at(&t, o);

				for (size_t i = t.o0; row >= 0 && i < t.o1; i++)
					y[row + t.at[2] + (ptrdiff_t)(i * s)] += c[i];
			}
		}
	}
}
