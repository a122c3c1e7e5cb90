// SPDX-License-Identifier: MIT
/* The columns of an image, the image of columns, and convolutions without them. */
#include <string.h>

#include "kernels/columns.h"
#include "kernels/simd/vec.h"

rlx_k_fn RLX_K(im2col_f64);
rlx_k_fn RLX_K(col2im_f64);
rlx_k_fn RLX_K(conv_f64);

/* One tap: where it stands over the image for place 0, and from and to which place it is inside. */
struct tap {
	const struct rlx_k_columns	*a;
	ptrdiff_t			at[3];
	size_t				o0[3], o1[3];
};

static struct tap tap_of(const struct rlx_k_columns *a, size_t t)
{
	size_t k[3] = { t / a->k[2] / a->k[1], t / a->k[2] % a->k[1], t % a->k[2] };
	struct tap r = { .a = a };
	bool any = true;

	for (int i = 0; i < 3; i++) {
		ptrdiff_t s = (ptrdiff_t)a->s[i], left;

		r.at[i] = (ptrdiff_t)(k[i] * a->d[i]) - (ptrdiff_t)a->p[i];
		left = (ptrdiff_t)a->in[i] - r.at[i];
		r.o0[i] = r.at[i] < 0 ? (size_t)((-r.at[i] + s - 1) / s) : 0;
		r.o1[i] = left > 0 ? (size_t)((left + s - 1) / s) : 0;
		if (r.o1[i] > a->out[i])
			r.o1[i] = a->out[i];
		any = any && r.o0[i] < r.o1[i];
	}
	if (!any)
		r.o0[0] = r.o1[0] = 0;
	return r;
}

/* The image's row that row @y of places @z deep sees, where it is inside. */
static size_t row_at(const struct tap *t, size_t z, size_t y)
{
	const struct rlx_k_columns *a = t->a;

	return ((size_t)t->at[0] + z * a->s[0]) * a->in[1] + (size_t)t->at[1] + y * a->s[1];
}

static void fill(double *y, size_t n, const double *bias, size_t channel)
{
	const double b = bias ? bias[channel] : 0;

	for (size_t i = 0; i < n; i++)
		y[i] = b;
}

/* y += w x */
static void axpy(double *y, const double *x, size_t n, double w)
{
	const vd wv = vd_set1(w);
	size_t i = 0;

	for (; i + RLX_VLD <= n; i += RLX_VLD)
		vd_storeu(y + i, vd_fma(wv, vd_loadu(x + i), vd_loadu(y + i)));
	if (i < n && RLX_VLD == 2)
		y[i] = d_fma(w, x[i], y[i]);
	else if (i < n)
		vd_storen(y + i, vd_fma(wv, vd_loadn(x + i, n - i), vd_loadn(y + i, n - i)),
			  n - i);
}

void RLX_K(im2col_f64)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_columns *a = args;
	size_t taps = rlx_k_columns_taps(a), plane = a->in[0] * a->in[1] * a->in[2];
	size_t w = a->out[2], s = a->s[2], places = rlx_k_columns_places(a);

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		const struct tap t = tap_of(a, u % taps);

		memset(a->columns + u * places, 0, places * sizeof(double));
		for (size_t z = t.o0[0]; z < t.o1[0]; z++)
			for (size_t y = t.o0[1]; y < t.o1[1]; y++) {
				const double *x = a->image + u / taps * plane +
						  row_at(&t, z, y) * a->in[2] + t.at[2];
				double *c = a->columns + u * places + (z * a->out[1] + y) * w;

				if (s == 1)
					memcpy(c + t.o0[2], x + t.o0[2],
					       (t.o1[2] - t.o0[2]) * sizeof(*c));
				for (size_t i = t.o0[2]; s > 1 && i < t.o1[2]; i++)
					c[i] = x[i * s];
			}
	}
}

void RLX_K(col2im_f64)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_columns *a = args;
	size_t taps = rlx_k_columns_taps(a), plane = a->in[0] * a->in[1] * a->in[2];
	size_t w = a->out[2], s = a->s[2], places = rlx_k_columns_places(a);

	(void)scratch;
	for (size_t u = begin; u < end; u++) {
		double *image = a->image + u * plane;

		fill(image, plane, a->bias, u % a->channels);
		for (size_t k = 0; k < taps; k++) {
			const struct tap t = tap_of(a, k);

			for (size_t z = t.o0[0]; z < t.o1[0]; z++)
				for (size_t y = t.o0[1]; y < t.o1[1]; y++) {
					const double *c = a->columns + (u * taps + k) * places +
							  (z * a->out[1] + y) * w;
					double *to = image + row_at(&t, z, y) * a->in[2] + t.at[2];

					if (s == 1)
						axpy(to + t.o0[2], c + t.o0[2],
						     t.o1[2] - t.o0[2], 1);
					for (size_t i = t.o0[2]; s > 1 && i < t.o1[2]; i++)
						to[i * s] += c[i];
				}
		}
	}
}

/*
 * A channel of the image whose elements a stride apart lie side by side: of each row those of
 * each phase. Without a stride it is the channel itself.
 */
struct phases {
	double	*at;
	size_t	n, row;		/* elements of a phase and of a row */
};

static struct phases phases_of(const struct rlx_k_columns *c, double *plane, double *scratch)
{
	size_t n = (c->in[2] + c->s[2] - 1) / c->s[2];

	return (struct phases){ c->s[2] > 1 ? scratch : plane, n, c->s[2] > 1 ? n * c->s[2] :
										c->in[2] };
}

/* Where, from a row's begin, tap @t at its first place is. */
static size_t phase_of(const struct phases *p, const struct tap *t)
{
	size_t s = t->a->s[2], x = (size_t)(t->at[2] + (ptrdiff_t)(t->o0[2] * s));

	return s > 1 ? x % s * p->n + x / s : x;
}

/* Rows @rows[0] to @rows[1], to phases or back from them. */
static void phases_copy(const struct phases *p, const struct rlx_k_columns *c, double *plane,
			const size_t rows[2], bool back)
{
	size_t s = c->s[2];

	for (size_t r = rows[0] * s; s > 1 && r < rows[1] * s; r++) {
		double *of = p->at + r * p->n, *is = plane + r / s * c->in[2] + r % s;

		for (size_t x = r % s; x < c->in[2]; x += s, is += s, of++)
			*(back ? is : of) = *(back ? of : is);
	}
}

/* A run of rows of one channel of y: of @columns, or of all of @image if that is spread over. */
struct sums {
	const struct rlx_k_conv_f64	*a;
	struct phases			image;
	double				*columns;
	size_t				first, last;	/* rows of places */
};

/* What one tap of one channel of x adds. */
static void add_tap(const struct sums *s, const struct tap *t, double w)
{
	const struct rlx_k_columns *c = &s->a->c;
	size_t skip = phase_of(&s->image, t);

	for (size_t z = t->o0[0]; z < t->o1[0]; z++) {
		size_t y = z * c->out[1] + t->o0[1], end = z * c->out[1] + t->o1[1];

		y = y < s->first ? s->first : y;
		end = end > s->last ? s->last : end;
		for (; y < end; y++) {
			double *image = s->image.at + skip +
					row_at(t, z, y - z * c->out[1]) * s->image.row;
			double *at = s->columns + y * c->out[2] + t->o0[2];

			if (s->a->transposed)
				axpy(image, at, t->o1[2] - t->o0[2], w);
			else
				axpy(at, image, t->o1[2] - t->o0[2], w);
		}
	}
}

/* Rows of the image that the run's places see: from r[0] to r[1]. */
static void rows_seen(const struct sums *s, size_t r[2])
{
	const struct rlx_k_columns *c = &s->a->c;
	const size_t o[2] = { s->first, s->last - 1 };
	ptrdiff_t seen[2][2];	/* along depth, and along height of the first and last depth */

	for (int i = 0; i < 2; i++) {
		bool whole = i && o[0] / c->out[1] != o[1] / c->out[1];

		for (int e = 0; e < 2; e++) {
			size_t at = i ? o[e] % c->out[1] : o[e] / c->out[1];
			ptrdiff_t x = (ptrdiff_t)(at * c->s[i]) - (ptrdiff_t)c->p[i] +
				      (e ? (ptrdiff_t)((c->k[i] - 1) * c->d[i]) + 1 : 0);

			x = whole ? (e ? (ptrdiff_t)c->in[i] : 0) : x;
			seen[i][e] = x < 0 ? 0 : x > (ptrdiff_t)c->in[i] ? (ptrdiff_t)c->in[i] : x;
		}
	}
	r[0] = (size_t)seen[0][0] * c->in[1] + (size_t)seen[1][0];
	r[1] = seen[0][1] > 0 ? (size_t)(seen[0][1] - 1) * c->in[1] + (size_t)seen[1][1] : 0;
}

/* Channel @to, of all images'. */
static void conv_channel(struct sums *s, size_t to, double *scratch)
{
	const struct rlx_k_conv_f64 *a = s->a;
	const struct rlx_k_columns *c = &a->c;
	const bool back = a->transposed;
	size_t taps = rlx_k_columns_taps(c), all = c->in[0] * c->in[1], plane = all * c->in[2];
	size_t yc = back ? c->channels : a->others, xc = back ? a->others : c->channels;
	size_t of = yc / a->groups, per = xc / a->groups, oc = to % yc, first = oc / of * per;
	size_t places = rlx_k_columns_places(c), w = c->out[2], r[2];

	rows_seen(s, r);
	if (back) {
		s->image = phases_of(c, c->image + to * plane, scratch);
		fill(s->image.at, all * s->image.row, c->bias, oc);
	} else {
		s->columns = c->columns + to * places;
		fill(s->columns + s->first * w, (s->last - s->first) * w, c->bias, oc);
	}
	for (size_t k = 0; k < per * taps; k++) {
		size_t from = to / yc * xc + first + k / taps;
		const struct tap t = tap_of(c, k % taps);

		if (back) {
			s->columns = c->columns + from * places;
		} else if (k % taps == 0) {
			s->image = phases_of(c, c->image + from * plane, scratch);
			phases_copy(&s->image, c, c->image + from * plane, r, false);
		}
		add_tap(s, &t, a->w[back ? ((first + k / taps) * of + oc % of) * taps + k % taps :
					   oc * per * taps + k]);
	}
	if (back)
		phases_copy(&s->image, c, c->image + to * plane, (size_t[]){ 0, all }, true);
}

void RLX_K(conv_f64)(const void *args, size_t begin, size_t end, void *scratch)
{
	const struct rlx_k_conv_f64 *a = args;
	size_t rows = a->c.out[0] * a->c.out[1];
	size_t runs = a->transposed ? 1 : (rows + a->rows - 1) / a->rows;

	for (size_t u = begin; u < end; u++) {
		size_t o = u % runs * a->rows;
		struct sums s = { .a = a, .first = o, .last = o + a->rows };

		if (runs == 1 || s.last > rows)
			s.last = rows;
		conv_channel(&s, u / runs, scratch);
	}
}
