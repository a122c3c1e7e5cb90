// SPDX-License-Identifier: MIT
/* Plain convolution, forwards and transposed, against sums in double. */
#include "kernels/conv.h"
#include "selftests/kernels/kernel_test.h"

struct data {
	float	*x, *w, *bias, *res;
	double	*y, *mag;
	size_t	nx, nw, ny;
};

static size_t volume(const size_t d[3])
{
	return d[0] * d[1] * d[2];
}

/* Add what input pixel @i gives output pixel @o through tap @k, if anything. */
static bool meets(const struct rlx_k_conv_nd *a, const size_t i[3],
		  const size_t o[3], const size_t k[3])
{
	for (int j = 0; j < 3; j++) {
		/* the strided side's coordinate, and the other's */
		size_t s = a->transposed ? i[j] : o[j];
		size_t f = a->transposed ? o[j] : i[j];

		if (s * a->s[j] + k[j] * a->d[j] != f + a->p[j])
			return false;
	}
	return true;
}

#define EACH(v, dims)							\
	for (v[0] = 0; v[0] < (dims)[0]; v[0]++)			\
		for (v[1] = 0; v[1] < (dims)[1]; v[1]++)		\
			for (v[2] = 0; v[2] < (dims)[2]; v[2]++)

/* The input pixel that tap @k brings to output @o; false if there is none. */
static bool source(const struct rlx_k_conv_nd *a, const size_t o[3],
		   const size_t k[3], size_t i[3])
{
	for (int j = 0; j < 3; j++) {
		ptrdiff_t at;

		if (a->transposed) {
			at = (ptrdiff_t)(o[j] + a->p[j]) -
			     (ptrdiff_t)(k[j] * a->d[j]);
			if (at % (ptrdiff_t)a->s[j])
				return false;
			at /= (ptrdiff_t)a->s[j];
		} else {
			at = (ptrdiff_t)(o[j] * a->s[j] + k[j] * a->d[j]) -
			     (ptrdiff_t)a->p[j];
		}
		if (at < 0 || at >= (ptrdiff_t)a->in[j])
			return false;
		i[j] = (size_t)at;
	}
	CHECK(meets(a, i, o, k));
	return true;
}

static size_t flat(const size_t v[3], const size_t dims[3])
{
	return (v[0] * dims[1] + v[1]) * dims[2] + v[2];
}

static void reference(const struct rlx_k_conv_nd *a, struct data *d, size_t n,
		      size_t oc)
{
	size_t icg = a->ic / a->groups, ocg = a->oc / a->groups, g = oc / ocg;
	size_t taps = volume(a->k), o[3], k[3], i[3], ci;

	EACH(o, a->out) {
		size_t at = (n * a->oc + oc) * volume(a->out) + flat(o, a->out);
		double sum = a->bias ? d->bias[oc] : 0, mag = fabs(sum), x, w;

		EACH(k, a->k) {
			if (!source(a, o, k, i))
				continue;
			for (ci = 0; ci < icg; ci++) {
				x = d->x[(n * a->ic + g * icg + ci) *
					 volume(a->in) + flat(i, a->in)];
				w = d->w[(a->transposed ?
					  (g * icg + ci) * ocg + oc % ocg :
					  oc * icg + ci) * taps +
					 flat(k, a->k)];
				sum += x * w;
				mag += fabs(x * w);
			}
		}
		if (a->res)
			sum += d->res[at];
		d->y[at] = a->act == RLX_CONV_RELU ? fmax(sum, 0) : sum;
		d->mag[at] = mag + 1;
	}
}

static void shape_random(struct rlx_k_conv_nd *a, bool transposed, uint64_t *s)
{
	size_t dims = kt_pick(s, 1, 3), j;

	do {
		*a = (struct rlx_k_conv_nd){
			.n = kt_pick(s, 1, 2), .groups = kt_pick(s, 1, 3),
			.act = kt_pick(s, 0, 1), .transposed = transposed,
		};
		a->ic = a->groups * kt_pick(s, 1, 20);
		a->oc = a->groups * kt_pick(s, 1, 30);
		for (j = 0; j < 3; j++) {
			bool used = j + dims >= 3;
			size_t span, full, after;

			a->in[j] = used ? kt_pick(s, 1, dims == 3 ? 6 : 14) : 1;
			a->k[j] = used ? kt_pick(s, 1, 4) : 1;
			a->s[j] = used ? kt_pick(s, 1, 3) : 1;
			a->d[j] = used ? kt_pick(s, 1, 2) : 1;
			a->p[j] = used ? kt_pick(s, 0, 2) : 0;
			after = used ? kt_pick(s, 0, 2) : 0;
			span = (a->k[j] - 1) * a->d[j] + 1;
			full = a->in[j] + a->p[j] + after;
			if (transposed) {
				full = (a->in[j] - 1) * a->s[j] + span + after;
				a->out[j] = full > a->p[j] ? full - a->p[j] : 0;
			} else {
				a->out[j] = full < span ? 0 :
					    (full - span) / a->s[j] + 1;
			}
		}
	} while (!volume(a->out));
}

static void level_run(enum rlx_isa isa, const struct rlx_k_conv_nd *shape,
		      const struct data *d, uint64_t *seed)
{
	const struct rlx_kernels *k = rlx_kernels_get(isa);
	struct rlx_k_conv_nd a = *shape;
	struct rlx_k_conv_nd_pack pk = { .conv = &a, .src = d->w };
	float *w, *y;

	CHECK(rlx_conv_nd_init(isa, &a));
	w = kt_new(rlx_conv_nd_wsize(&a));
	y = kt_new(d->ny * 4);
	pk.dst = w;
	kt_run(k->conv_nd_pack, &pk, a.groups, 0, seed);
	a.x = d->x;
	a.w = w;
	a.y = y;
	a.x_n = a.ic * volume(a.in);
	a.y_n = a.res_n = a.oc * volume(a.out);
	if (a.res && kt_pick(seed, 0, 1)) {
		memcpy(y, d->res, d->ny * 4);
		a.res = y;
	}
	kt_run(k->conv_nd, &a, rlx_conv_nd_units(&a), rlx_conv_nd_scratch(&a),
	       seed);
	for (size_t i = 0; i < d->ny; i++)
		CHECKF(fabs(y[i] - d->y[i]) <= 2e-6 * d->mag[i] + 1e-6,
		       "level %d%s: [%zu] is %g, not %g: %zu>%zu/%zu in "
		       "%zux%zux%zu out %zux%zux%zu k %zux%zux%zu s "
		       "%zux%zux%zu p %zux%zux%zu", isa,
		       a.transposed ? " transposed" : "", i, y[i], d->y[i],
		       a.ic, a.oc, a.groups, a.in[0], a.in[1], a.in[2],
		       a.out[0], a.out[1], a.out[2], a.k[0], a.k[1], a.k[2],
		       a.s[0], a.s[1], a.s[2], a.p[0], a.p[1], a.p[2]);
	kt_free(y, d->ny * 4);
	kt_free(w, rlx_conv_nd_wsize(&a));
}

static void shape_run(struct rlx_k_conv_nd *a, uint64_t *seed)
{
	struct data d;

	d.nx = a->n * a->ic * volume(a->in);
	d.nw = a->oc * (a->ic / a->groups) * volume(a->k);
	d.ny = a->n * a->oc * volume(a->out);
	d.x = kt_new(d.nx * 4);
	d.w = kt_new(d.nw * 4);
	d.bias = kt_new(a->oc * 4);
	d.res = kt_new(d.ny * 4);
	d.y = malloc(d.ny * sizeof(double));
	d.mag = malloc(d.ny * sizeof(double));
	CHECK(d.y && d.mag);
	kt_fill(d.x, d.nx, seed);
	kt_fill(d.w, d.nw, seed);
	kt_fill(d.bias, a->oc, seed);
	kt_fill(d.res, d.ny, seed);
	a->bias = kt_pick(seed, 0, 1) ? d.bias : NULL;
	a->res = kt_pick(seed, 0, 1) ? d.res : NULL;
	for (size_t n = 0; n < a->n; n++)
		for (size_t oc = 0; oc < a->oc; oc++)
			reference(a, &d, n, oc);
	for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++)
		if (kt_isa_runs(isa))
			level_run(isa, a, &d, seed);
	kt_free(d.x, d.nx * 4);
	kt_free(d.w, d.nw * 4);
	kt_free(d.bias, a->oc * 4);
	kt_free(d.res, d.ny * 4);
	free(d.y);
	free(d.mag);
}

TEST(conv_random)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_nd a;

	for (int i = 0; i < 150; i++) {
		shape_random(&a, false, &seed);
		shape_run(&a, &seed);
	}
}

TEST(transposed_random)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_nd a;

	for (int i = 0; i < 150; i++) {
		shape_random(&a, true, &seed);
		shape_run(&a, &seed);
	}
}

/* Several passes over terms, several blocks of pixels, chunks of channels. */
TEST(conv_large)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_nd a = {
		.n = 1, .ic = 70, .oc = 40, .groups = 1, .in = { 1, 13, 21 },
		.out = { 1, 13, 21 }, .k = { 1, 3, 3 }, .s = { 1, 1, 1 },
		.d = { 1, 1, 1 }, .p = { 0, 1, 1 },
	}, t = {
		.n = 1, .ic = 300, .oc = 30, .groups = 1, .in = { 1, 7, 20 },
		.out = { 1, 14, 40 }, .k = { 1, 2, 2 }, .s = { 1, 2, 2 },
		.d = { 1, 1, 1 }, .transposed = true,
	}, dw = {
		.n = 2, .ic = 37, .oc = 37, .groups = 37, .in = { 1, 9, 11 },
		.out = { 1, 9, 11 }, .k = { 1, 3, 3 }, .s = { 1, 1, 1 },
		.d = { 1, 1, 1 }, .p = { 0, 1, 1 },
	};

	shape_run(&a, &seed);
	shape_run(&t, &seed);
	shape_run(&dw, &seed);
}

TEST(refuses)
{
	struct rlx_k_conv_nd ok = {
		.n = 1, .ic = 4, .oc = 4, .groups = 1, .in = { 1, 1, 4 },
		.out = { 1, 1, 4 }, .k = { 1, 1, 1 }, .s = { 1, 1, 1 },
		.d = { 1, 1, 1 },
	}, a = ok;

	CHECK(rlx_conv_nd_init(RLX_ISA_BASE, &a));
	a = ok;
	a.groups = 3;
	CHECK(!rlx_conv_nd_init(RLX_ISA_BASE, &a));
	a = ok;
	a.s[1] = 0;
	CHECK(!rlx_conv_nd_init(RLX_ISA_BASE, &a));
	a = ok;
	a.in[0] = a.in[1] = (size_t)1 << 30;
	CHECK(!rlx_conv_nd_init(RLX_ISA_BASE, &a));
	a = ok;
	a.k[2] = SIZE_MAX;
	a.d[2] = 2;
	CHECK(!rlx_conv_nd_init(RLX_ISA_BASE, &a));
}

TEST_MAIN()
