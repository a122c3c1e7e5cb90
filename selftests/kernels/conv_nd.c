// SPDX-License-Identifier: MIT
/* Plain convolution, forwards and transposed, against sums in double. */
#include "selftests/kernels/conv_ref.h"

static void level_run(enum rlx_isa isa, const struct rlx_k_conv_nd *shape,
		      const struct conv_data *d, uint64_t *seed)
{
	const struct rlx_kernels *k = rlx_kernels_get(isa);
	struct rlx_k_conv_nd a = *shape;
	struct rlx_k_conv_nd_pack pk = { .conv = &a, .src = d->w };
	float *w, *y, *x = NULL;

	CHECK(rlx_conv_nd_init(isa, &a));
	w = kt_new(rlx_conv_nd_wsize(&a));
	y = kt_new(d->ny * 4);
	pk.dst = w;
	kt_run(k->conv_nd_pack, &pk, a.groups, 0, seed);
	a.x = d->x;
	a.x_n = a.ic * conv_volume(a.in);
	if (a.copy) {
		x = kt_new(rlx_conv_nd_xsize(&a));
		a.y = x;
		kt_run(k->conv_nd_pad, &a, rlx_conv_nd_xunits(&a), 0, seed);
		a.x = x;
	}
	a.w = w;
	a.y = y;
	a.y_n = a.res_n = a.oc * conv_volume(a.out);
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
	if (x)
		kt_free(x, rlx_conv_nd_xsize(&a));
}

static void shape_run(struct rlx_k_conv_nd *a, uint64_t *seed)
{
	struct conv_data d;

	d.nx = a->n * a->ic * conv_volume(a->in);
	d.nw = a->oc * (a->ic / a->groups) * conv_volume(a->k);
	d.ny = a->n * a->oc * conv_volume(a->out);
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
	conv_reference_all(a, &d);
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
		conv_shape_random(&a, false, &seed);
		shape_run(&a, &seed);
	}
}

TEST(transposed_random)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_nd a;

	for (int i = 0; i < 150; i++) {
		conv_shape_random(&a, true, &seed);
		shape_run(&a, &seed);
	}
}

/* Rows of the output by strides of 1 to 5, with as many taps and with others. */
TEST(transposed_rows)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_nd a;

	for (int i = 0; i < 120; i++) {
		size_t full;

		conv_shape_random(&a, true, &seed);
		a.act = kt_pick(&seed, 0, 3) ? a.act : RLX_ACT_GELU;
		a.oc = a.groups * kt_pick(&seed, 1, kt_pick(&seed, 0, 1) ? 4 : 40);
		a.in[2] = kt_pick(&seed, 1, 45);
		a.s[2] = kt_pick(&seed, 1, 5);
		a.k[2] = i % 3 ? a.s[2] : kt_pick(&seed, 1, 9);
		a.d[2] = kt_pick(&seed, 0, 3) ? 1 : a.d[2];
		full = (a.in[2] - 1) * a.s[2] + (a.k[2] - 1) * a.d[2] + kt_pick(&seed, 1, 3);
		a.p[2] = i % 2 ? kt_pick(&seed, 0, 2 * a.s[2]) : a.s[2];
		a.p[2] = a.p[2] < full ? a.p[2] : 0;
		a.out[2] = full - a.p[2];
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

/* Positive terms, of which the reference's bound for any order is no test. */
TEST(conv_long_sums)
{
	enum { IC = 4000, TAPS = 9, OUT = 40 };
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_nd shape = {
		.n = 1, .ic = IC, .oc = 7, .groups = 1, .in = { 1, 3, OUT + 2 },
		.out = { 1, 1, OUT }, .k = { 1, 3, 3 }, .s = { 1, 1, 1 },
		.d = { 1, 1, 1 },
	};
	struct conv_data d = { .nx = IC * 3 * (OUT + 2), .nw = 7 * IC * TAPS, .ny = 7 * OUT };
	size_t i;

	d.x = kt_new(d.nx * 4);
	d.w = kt_new(d.nw * 4);
	d.y = malloc(d.ny * sizeof(double));
	d.mag = malloc(d.ny * sizeof(double));
	CHECK(d.y && d.mag);
	for (i = 0; i < d.nx; i++)
		d.x[i] = (float)rlx_test_uniform(&seed, 0, 1);
	for (i = 0; i < d.nw; i++)
		d.w[i] = (float)rlx_test_uniform(&seed, 0, 1);
	conv_reference_all(&shape, &d);
	for (i = 0; i < d.ny; i++)
		d.mag[i] *= 1.5e-6 / 2e-6;
	for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++)
		if (kt_isa_runs(isa))
			level_run(isa, &shape, &d, &seed);
	kt_free(d.x, d.nx * 4);
	kt_free(d.w, d.nw * 4);
	free(d.y);
	free(d.mag);
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
	/* a transposed one's phases: some beside its pixels, and those nothing is in */
	a = ok;
	a.transposed = true;
	a.s[1] = a.s[2] = 64;
	CHECK(rlx_conv_nd_init(RLX_ISA_BASE, &a));
	a = ok;
	a.transposed = true;
	a.s[1] = a.s[2] = (size_t)1 << 20;
	CHECK(!rlx_conv_nd_init(RLX_ISA_BASE, &a));
}

TEST_MAIN()
