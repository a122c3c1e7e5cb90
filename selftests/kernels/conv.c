// SPDX-License-Identifier: MIT
/* Convolution kernels at every ISA level against sums in double. */
#include "selftests/kernels/conv_ref.h"

/* One convolution, plain tensors, and its reference. */
struct shape {
	size_t	n, ic, oc, groups, ih, iw, oh, ow;
	size_t	kh, kw, sh, sw, dh, dw, pt, pl;
	enum rlx_act act;
	float	a, b;
	bool	bias, res;
	bool	positive;	/* no terms below 0, so that roundings add up */
	double	tol;		/* of the absolute terms' sum; 0: 2e-6 and 1e-6 more */
};

static void sum_ref(const struct shape *s, const struct conv_data *d, size_t at,
		    const size_t *o)
{
	size_t icg = s->ic / s->groups, g = o[1] / (s->oc / s->groups);
	double sum = s->bias ? d->bias[o[1]] : 0, mag = fabs(sum);

	for (size_t c = 0; c < icg; c++)
		for (size_t y = 0; y < s->kh; y++)
			for (size_t x = 0; x < s->kw; x++) {
				size_t iy = o[2] * s->sh + y * s->dh - s->pt;
				size_t ix = o[3] * s->sw + x * s->dw - s->pl;
				double p;

				if (iy >= s->ih || ix >= s->iw)
					continue;
				p = (double)d->x[((o[0] * s->ic + g * icg + c) *
						  s->ih + iy) * s->iw + ix] *
				    d->w[((o[1] * icg + c) * s->kh + y) *
					 s->kw + x];
				sum += p;
				mag += fabs(p);
			}
	if (s->res) {
		sum += d->res[at];
		mag += fabs(d->res[at]);
	}
	d->y[at] = conv_act_ref(s->act, s->a, s->b, sum);
	d->mag[at] = mag;
}

static void reference(const struct shape *s, struct conv_data *d)
{
	size_t o[4], at = 0;

	for (o[0] = 0; o[0] < s->n; o[0]++)
		for (o[1] = 0; o[1] < s->oc; o[1]++)
			for (o[2] = 0; o[2] < s->oh; o[2]++)
				for (o[3] = 0; o[3] < s->ow; o[3]++)
					sum_ref(s, d, at++, o);
}

static void data_init(const struct shape *s, struct conv_data *d, uint64_t *seed)
{
	size_t at;

	d->nx = s->n * s->ic * s->ih * s->iw;
	d->nw = s->oc * (s->ic / s->groups) * s->kh * s->kw;
	d->ny = s->n * s->oc * s->oh * s->ow;
	d->x = malloc(d->nx * sizeof(float));
	d->w = malloc(d->nw * sizeof(float));
	d->bias = malloc(s->oc * sizeof(float));
	d->res = malloc(d->ny * sizeof(float));
	d->y = malloc(d->ny * sizeof(double));
	d->mag = malloc(d->ny * sizeof(double));
	CHECK(d->x && d->w && d->bias && d->res && d->y && d->mag);
	kt_fill(d->x, d->nx, seed);
	kt_fill(d->w, d->nw, seed);
	kt_fill(d->bias, s->oc, seed);
	kt_fill(d->res, d->ny, seed);
	for (at = 0; s->positive && at < d->nx; at++)
		d->x[at] = fabsf(d->x[at]);
	for (at = 0; s->positive && at < d->nw; at++)
		d->w[at] = fabsf(d->w[at]);
	reference(s, d);
}

static void data_fini(struct conv_data *d)
{
	free(d->x);
	free(d->w);
	free(d->bias);
	free(d->res);
	free(d->y);
	free(d->mag);
}

static void compare(const struct shape *s, const struct conv_data *d,
		    const float *y, const char *what, enum rlx_isa isa)
{
	for (size_t i = 0; i < d->ny; i++) {
		double err = fabs(y[i] - d->y[i]);

		CHECKF(err <= (s->tol ? s->tol * d->mag[i] : 2e-6 * d->mag[i] + 1e-6),
		       "%s level %d: [%zu] is %g, not %g; n %zu c %zu>%zu/%zu "
		       "in %zux%zu out %zux%zu k %zux%zu s %zux%zu d %zux%zu "
		       "p %zu,%zu act %d", what, isa, i, y[i], d->y[i], s->n,
		       s->ic, s->oc, s->groups, s->ih, s->iw, s->oh, s->ow,
		       s->kh, s->kw, s->sh, s->sw, s->dh, s->dw, s->pt, s->pl,
		       s->act);
	}
}

/* Output extent for @in with @lo + @hi of padding; 0 when nothing fits. */
static size_t extent(size_t in, size_t pad, size_t k, size_t d, size_t s)
{
	size_t span = (k - 1) * d + 1;

	return in + pad < span ? 0 : (in + pad - span) / s + 1;
}

static struct shape shape_random(uint64_t *s)
{
	struct shape r = { 0 };

	do {
		bool line = kt_pick(s, 0, 4) == 0;

		r = (struct shape){
			.n = kt_pick(s, 1, 2), .groups = 1,
			.ic = kt_pick(s, 1, 40), .oc = kt_pick(s, 1, 50),
			.ih = line ? 1 : kt_pick(s, 1, 20),
			.iw = kt_pick(s, 1, line ? 90 : 35),
			.kh = line ? 1 : kt_pick(s, 1, 4),
			.kw = kt_pick(s, 1, 5),
			.sh = line ? 1 : kt_pick(s, 1, 3),
			.sw = kt_pick(s, 1, 3),
			.dh = line ? 1 : kt_pick(s, 1, 2),
			.dw = kt_pick(s, 1, 3),
			.act = (enum rlx_act)kt_pick(s, 0, RLX_ACT_COUNT - 1),
			.a = 0.3f, .b = 0.6f,
			.bias = kt_pick(s, 0, 1), .res = kt_pick(s, 0, 1),
		};
		if (kt_pick(s, 0, 3) == 0)
			r.kh = r.kw = r.sh = r.sw = 1;
		r.pt = line ? 0 : kt_pick(s, 0, kt_pick(s, 0, 2) ? 2 : 9);
		r.pl = kt_pick(s, 0, 4);
		if (kt_pick(s, 0, 2) == 0)
			r.pt = r.pl = 0;
		r.oh = extent(r.ih, r.pt + (line ? 0 : kt_pick(s, 0, kt_pick(s, 0, 2) ? 2 : 9)),
			      r.kh, r.dh, r.sh);
		r.ow = extent(r.iw, r.pl + kt_pick(s, 0, 4), r.kw, r.dw, r.sw);
	} while (!r.oh || !r.ow);
	return r;
}

/* Plain to blocked; pad lanes are then poisoned, so that a use shows. */
static float *blocked(enum rlx_isa isa, const float *src, const size_t dims[3],
		      size_t *bytes, uint64_t *s)
{
	size_t n = dims[0], channels = dims[1], pixels = dims[2];
	size_t c = rlx_conv_block(isa), blocks = (channels + c - 1) / c;
	struct rlx_k_reorder r = {
		.src = src, .n = n, .channels = channels, .pixels = pixels,
		.src_n = channels * pixels, .dst_n = blocks * c * pixels,
	};
	size_t b, i, p, l;

	CHECK(rlx_conv_blocked_size(isa, n, channels, pixels, bytes));
	CHECK_EQ(*bytes, n * blocks * c * pixels * 4);
	r.dst = kt_new(*bytes);
	if (!src)
		return r.dst;
	kt_run(rlx_kernels_get(isa)->to_blocked_f32, &r, n * blocks, 0, s);
	for (i = 0; i < n; i++)
		for (b = 0; b < blocks; b++)
			for (p = 0; p < pixels; p++)
				for (l = 0; l < c; l++) {
					float *v = &r.dst[((i * blocks + b) *
							   pixels + p) * c + l];
					size_t ch = b * c + l;

					if (ch < channels) {
						CHECK(!memcmp(v, &src[(i * channels +
							ch) * pixels + p], sizeof(*v)));
					} else {
						CHECK(*v == 0);
						*v = NAN;
					}
				}
	return r.dst;
}

static float *plain(enum rlx_isa isa, const float *src, size_t n,
		    size_t channels, size_t pixels, uint64_t *s)
{
	size_t c = rlx_conv_block(isa), blocks = (channels + c - 1) / c;
	struct rlx_k_reorder r = {
		.src = src, .n = n, .channels = channels, .pixels = pixels,
		.src_n = blocks * c * pixels, .dst_n = channels * pixels,
	};

	r.dst = kt_new(n * channels * pixels * 4);
	kt_run(rlx_kernels_get(isa)->to_plain_f32, &r, n * blocks, 0, s);
	return r.dst;
}

static void conv_c_one(enum rlx_isa isa, const struct shape *s,
		       const struct conv_data *d, bool x_plain, uint64_t *seed)
{
	const struct rlx_kernels *k = rlx_kernels_get(isa);
	struct rlx_k_conv_c a = {
		.bias = s->bias ? d->bias : NULL, .n = s->n, .ic = s->ic,
		.oc = s->oc, .groups = s->groups, .ih = s->ih, .iw = s->iw,
		.oh = s->oh, .ow = s->ow, .kh = s->kh, .kw = s->kw,
		.sh = s->sh, .sw = s->sw, .dh = s->dh, .dw = s->dw,
		.pt = s->pt, .pl = s->pl, .act = s->act, .act_a = s->a,
		.act_b = s->b, .x_plain = x_plain,
	};
	struct rlx_k_conv_pack pk = { .conv = &a, .src = d->w };
	const size_t xdims[3] = { s->n, s->ic, s->ih * s->iw };
	const size_t ydims[3] = { s->n, s->oc, s->oh * s->ow };
	size_t nx, ny, nr = 0;
	float *x = NULL, *y, *w, *res = NULL, *out;

	CHECK(rlx_conv_c_init(isa, &a));
	w = kt_new(rlx_conv_c_wsize(&a));
	pk.dst = w;
	kt_run(k->conv_c_pack, &pk, rlx_conv_pack_units(&a), 0, seed);
	if (!x_plain)
		x = blocked(isa, d->x, xdims, &nx, seed);
	y = blocked(isa, NULL, ydims, &ny, seed);
	a.y_n = a.res_n = ny / s->n / 4;
	if (s->res) {
		res = blocked(isa, d->res, ydims, &nr, seed);
		a.res = res;
		if (kt_pick(seed, 0, 1)) {
			memcpy(y, res, ny);
			a.res = y;
		}
	}
	a.x = x_plain ? d->x : x;
	a.x_n = x_plain ? s->ic * s->ih * s->iw : nx / s->n / 4;
	a.w = w;
	a.y = y;
	kt_run(k->conv_c, &a, rlx_conv_c_units(&a), rlx_conv_c_scratch(&a),
	       seed);
	out = plain(isa, y, s->n, s->oc, s->oh * s->ow, seed);
	compare(s, d, out, x_plain ? "conv_c plain" : "conv_c", isa);
	kt_free(out, d->ny * 4);
	kt_free(y, ny);
	kt_free(w, rlx_conv_c_wsize(&a));
	if (x)
		kt_free(x, nx);
	if (res)
		kt_free(res, nr);
}

static void conv_c_levels(const struct shape *s, bool x_plain, uint64_t *seed)
{
	struct conv_data d;

	data_init(s, &d, seed);
	for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++)
		if (kt_isa_runs(isa))
			conv_c_one(isa, s, &d, x_plain, seed);
	data_fini(&d);
}

TEST(conv_c_random)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 150; i++) {
		struct shape s = shape_random(&seed);

		conv_c_levels(&s, i % 4 == 0, &seed);
	}
}

/* Taps far from one another, in strides and paddings of all kinds; rows of several phases. */
TEST(conv_c_far_taps)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 100; i++) {
		struct shape s = shape_random(&seed);
		size_t after[2];

		s.dh = s.kh > 1 ? kt_pick(&seed, 1, 30) : s.dh;
		s.dw = kt_pick(&seed, 0, 1) ? kt_pick(&seed, 1, 60) : s.dw;
		s.ih = kt_pick(&seed, 1, 40);
		s.ic = kt_pick(&seed, 0, 7) ? s.ic : kt_pick(&seed, 300, 900);
		do {
			s.pt = kt_pick(&seed, 0, kt_pick(&seed, 0, 5) ? (s.kh - 1) * s.dh : 100);
			s.pl = kt_pick(&seed, 0, (s.kw - 1) * s.dw);
			after[0] = kt_pick(&seed, 0, (s.kh - 1) * s.dh + 3);
			after[1] = kt_pick(&seed, 0, (s.kw - 1) * s.dw + 3);
			s.oh = extent(s.ih, s.pt + after[0], s.kh, s.dh, s.sh);
			s.ow = extent(s.iw, s.pl + after[1], s.kw, s.dw, s.sw);
		} while (!s.oh || !s.ow);
		s.oc = s.ic * s.oh * s.ow > 100000 ? 3 : s.oc;
		conv_c_levels(&s, i % 4 == 0, &seed);
	}
}

/* Images lower than a stride, in padding higher than the kernel: rows that read none, then one. */
TEST(conv_c_far_padding)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 40; i++) {
		struct shape s = shape_random(&seed);
		size_t reach;

		s.n = kt_pick(&seed, 8, 16);
		s.ic = kt_pick(&seed, 1, 20);
		s.oc = kt_pick(&seed, 1, 20);
		s.ih = kt_pick(&seed, 1, 6);
		s.iw = kt_pick(&seed, 1, 8);
		s.kh = 5;
		s.kw = kt_pick(&seed, 1, 3);
		s.sh = kt_pick(&seed, 5, 6);
		s.dh = kt_pick(&seed, 5, 8);
		reach = (s.kh - 1) * s.dh + 1;
		s.pt = kt_pick(&seed, reach, 3 * reach);
		s.pl = kt_pick(&seed, 0, (s.kw - 1) * s.dw);
		s.oh = extent(s.ih, s.pt + kt_pick(&seed, 0, reach / 2), s.kh, s.dh, s.sh);
		s.ow = extent(s.iw, s.pl + (s.kw - 1) * s.dw, s.kw, s.dw, s.sw);
		conv_c_levels(&s, i % 4 == 0, &seed);
	}
}

/* Far taps read few more rows of the input than near ones: a unit's rows share them. */
TEST(conv_c_far_taps_share)
{
	static const size_t far[] = { 2, 5, 12, 24 };
	struct rlx_k_conv_c near = {
		.n = 1, .ic = 128, .oc = 64, .groups = 1, .ih = 65, .iw = 65, .oh = 65, .ow = 65,
		.kh = 3, .kw = 3, .sh = 1, .sw = 1, .dh = 1, .dw = 1, .pt = 1, .pl = 1,
	};
	const struct rlx_k_conv_c plan = near;

	CHECK(rlx_conv_c_init(RLX_ISA_V4, &near));
	for (size_t i = 0; i < sizeof(far) / sizeof(*far); i++) {
		struct rlx_k_conv_c a = plan;

		a.dh = a.pt = far[i];
		CHECK(rlx_conv_c_init(RLX_ISA_V4, &a));
		CHECKF(a.nrows * a.in_rows <= 2 * near.nrows * near.in_rows,
		       "dilation %zu: %zu x %zu rows, %zu x %zu without", far[i], a.nrows,
		       a.in_rows, near.nrows, near.in_rows);
		a = plan;
		a.dw = a.pl = 30 * far[i];
		CHECK(rlx_conv_c_init(RLX_ISA_V4, &a));
		CHECKF(a.phases * a.in_cols <= 3 * a.cols + 2, "%zu columns for %zu",
		       a.phases * a.in_cols, a.cols);
	}
}

TEST(conv_c_groups)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 20; i++) {
		struct shape s = shape_random(&seed);

		s.groups = kt_pick(&seed, 2, 3);
		s.ic = s.groups * 16 * kt_pick(&seed, 1, 2);
		s.oc = s.groups * 16 * kt_pick(&seed, 1, 3);
		conv_c_levels(&s, false, &seed);
	}
}

/* One to three pixels: wide tiles. */
TEST(conv_c_few_pixels)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 60; i++) {
		struct shape s = shape_random(&seed);

		s.ih = s.kh = s.oh = s.sh = s.dh = 1;
		s.pt = 0;
		s.oc = kt_pick(&seed, 30, 200);
		s.kw = kt_pick(&seed, 1, 3);
		s.sw = kt_pick(&seed, 1, 2);
		s.dw = s.pl = 1;
		s.iw = kt_pick(&seed, 1, 3) * s.sw;
		s.ow = extent(s.iw, 2, s.kw, 1, s.sw);
		conv_c_levels(&s, false, &seed);
	}
}

/* Large enough for several units each way and several passes. */
TEST(conv_c_blocks)
{
	uint64_t seed = rlx_test_seed();
	struct shape s = {
		.n = 1, .ic = 300, .oc = 72, .groups = 1, .ih = 9, .iw = 11,
		.oh = 9, .ow = 11, .kh = 3, .kw = 3, .sh = 1, .sw = 1, .dh = 1,
		.dw = 1, .pt = 1, .pl = 1, .act = RLX_ACT_RELU, .bias = true,
		.res = true,
	};
	struct shape wide = {
		.n = 2, .ic = 5, .oc = 20, .groups = 1, .ih = 70, .iw = 400,
		.oh = 35, .ow = 200, .kh = 5, .kw = 3, .sh = 2, .sw = 2,
		.dh = 1, .dw = 1, .pt = 2, .pl = 1, .act = RLX_ACT_CLIP,
		.a = -0.5, .b = 0.5,
	};

	conv_c_levels(&s, false, &seed);
	conv_c_levels(&wide, false, &seed);
	conv_c_levels(&wide, true, &seed);
}

/*
 * The longer a sum in one run the farther off it is where all terms are positive: by
 * up to 7e-6 for the third of these, 9e-6 for the last. Parts of a bounded length,
 * whose sums are added, come out better than one of the full length.
 */
TEST(conv_c_long_sums)
{
	static const size_t ic[] = { 40, 300, 1500, 4100 };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 4; i++) {
		struct shape s = {
			.n = 1, .ic = ic[i], .oc = 70, .groups = 1, .ih = 3, .iw = 6,
			.oh = 1, .ow = 4, .kh = 3, .kw = 3, .sh = 1, .sw = 1,
			.dh = 1, .dw = 1, .positive = true,
			.tol = ic[i] > 1000 ? 1.5e-6 : 2.5e-6,
		};

		conv_c_levels(&s, false, &seed);
		conv_c_levels(&s, true, &seed);
		s.ow = 2;	/* wide tiles */
		s.iw = 4;
		conv_c_levels(&s, false, &seed);
	}
}

/* A NaN reaches its own pixel and no other, through every activation. */
TEST(conv_c_nan)
{
	enum { PIXELS = 23, HIT = 9 };
	uint64_t seed = rlx_test_seed();

	for (int act = 0; act < RLX_ACT_COUNT; act++)
		for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++) {
			const struct rlx_kernels *k = rlx_kernels_get(isa);
			float x[3 * PIXELS], src[15], *w, *y, *out, *sc;
			struct rlx_k_conv_c a = {
				.x = x, .n = 1, .ic = 3, .oc = 5, .groups = 1,
				.ih = 1, .iw = PIXELS, .oh = 1, .ow = PIXELS,
				.kh = 1, .kw = 1, .sh = 1, .sw = 1, .dh = 1,
				.dw = 1, .act = (enum rlx_act)act,
				.act_a = 0.3f, .act_b = 0.6f, .x_plain = true,
			};
			struct rlx_k_conv_pack pk = { .conv = &a, .src = src };
			const size_t dims[3] = { 1, 5, PIXELS };
			size_t ny;

			if (!kt_isa_runs(isa))
				continue;
			kt_fill(x, 3 * PIXELS, &seed);
			kt_fill(src, 15, &seed);
			x[PIXELS + HIT] = NAN;
			CHECK(rlx_conv_c_init(isa, &a));
			w = kt_new(rlx_conv_c_wsize(&a));
			sc = kt_new(rlx_conv_c_scratch(&a));
			pk.dst = w;
			k->conv_c_pack(&pk, 0, rlx_conv_pack_units(&a), NULL);
			y = blocked(isa, NULL, dims, &ny, &seed);
			a.w = w;
			a.y = y;
			k->conv_c(&a, 0, rlx_conv_c_units(&a), sc);
			out = plain(isa, y, 1, 5, PIXELS, &seed);
			for (size_t i = 0; i < 5 * PIXELS; i++)
				CHECKF((out[i] != out[i]) == (i % PIXELS == HIT),
				       "act %d level %d [%zu] is %g", act, isa,
				       i, out[i]);
			kt_free(out, 5 * PIXELS * 4);
			kt_free(y, ny);
			kt_free(w, rlx_conv_c_wsize(&a));
			kt_free(sc, rlx_conv_c_scratch(&a));
		}
}

TEST(conv_c_refuses)
{
	struct rlx_k_conv_c ok = {
		.n = 1, .ic = 8, .oc = 8, .groups = 1, .ih = 4, .iw = 4,
		.oh = 4, .ow = 4, .kh = 1, .kw = 1, .sh = 1, .sw = 1, .dh = 1,
		.dw = 1,
	}, a = ok;
	size_t bytes;

	CHECK(rlx_conv_c_init(RLX_ISA_V4, &a));
	a = ok;
	a.groups = 3;
	CHECK(!rlx_conv_c_init(RLX_ISA_V4, &a));
	a = ok;
	a.groups = 2;		/* 4 channels each: no block of 16 */
	CHECK(!rlx_conv_c_init(RLX_ISA_V4, &a));
	a = ok;
	a.sh = 0;
	CHECK(!rlx_conv_c_init(RLX_ISA_V4, &a));
	a = ok;
	a.kw = SIZE_MAX / 2;
	a.dw = 7;
	CHECK(!rlx_conv_c_init(RLX_ISA_V4, &a));
	a = ok;
	a.ih = a.iw = (size_t)1 << 31;
	CHECK(!rlx_conv_c_init(RLX_ISA_V4, &a));
	CHECK(!rlx_conv_blocked_size(RLX_ISA_V4, SIZE_MAX / 8, 3, 9, &bytes));
}

static void dw_one(enum rlx_isa isa, const struct shape *s,
		   const struct conv_data *d, uint64_t *seed)
{
	const struct rlx_kernels *k = rlx_kernels_get(isa);
	size_t c = rlx_conv_block(isa), blocks = (s->ic + c - 1) / c;
	struct rlx_k_dw_c a = {
		.bias = s->bias ? d->bias : NULL, .n = s->n,
		.channels = s->ic, .ih = s->ih, .iw = s->iw, .oh = s->oh,
		.ow = s->ow, .kh = s->kh, .kw = s->kw, .sh = s->sh,
		.sw = s->sw, .dh = s->dh, .dw = s->dw, .pt = s->pt,
		.pl = s->pl, .act = s->act, .act_a = s->a, .act_b = s->b,
	};
	struct rlx_k_dw_pack pk = { .conv = &a, .src = d->w };
	const size_t xdims[3] = { s->n, s->ic, s->ih * s->iw };
	const size_t ydims[3] = { s->n, s->oc, s->oh * s->ow };
	size_t nx, ny, nr = 0;
	float *x, *y, *w, *res = NULL, *out;

	CHECK(rlx_dw_c_init(isa, &a));
	w = kt_new(rlx_dw_c_wsize(&a));
	pk.dst = w;
	kt_run(k->dw_c_pack, &pk, blocks, 0, seed);
	x = blocked(isa, d->x, xdims, &nx, seed);
	y = blocked(isa, NULL, ydims, &ny, seed);
	if (s->res) {
		res = blocked(isa, d->res, ydims, &nr, seed);
		a.res = res;
		if (kt_pick(seed, 0, 1)) {
			memcpy(y, res, ny);
			a.res = y;
		}
	}
	a.x = x;
	a.y = y;
	a.w = w;
	a.x_n = nx / s->n / 4;
	a.y_n = a.res_n = ny / s->n / 4;
	kt_run(k->dw_c, &a, rlx_dw_c_units(&a), 0, seed);
	out = plain(isa, y, s->n, s->ic, s->oh * s->ow, seed);
	compare(s, d, out, "dw_c", isa);
	kt_free(out, d->ny * 4);
	kt_free(y, ny);
	kt_free(x, nx);
	kt_free(w, rlx_dw_c_wsize(&a));
	if (res)
		kt_free(res, nr);
}

TEST(dw_c_random)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 200; i++) {
		struct shape s = shape_random(&seed);
		struct conv_data d;

		s.groups = s.oc = s.ic;
		if (i % 2) {	/* the shapes that have their own code */
			s.kh = s.kw = i % 4 == 1 ? 3 : 5;
			s.dh = s.dw = 1;
			s.sh = s.sw = kt_pick(&seed, 1, 2);
			s.pt = s.pl = s.kh / 2;
			s.oh = extent(s.ih, 2 * s.pt, s.kh, 1, s.sh);
			s.ow = extent(s.iw, 2 * s.pl, s.kw, 1, s.sw);
		}
		data_init(&s, &d, &seed);
		for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++)
			if (kt_isa_runs(isa))
				dw_one(isa, &s, &d, &seed);
		data_fini(&d);
	}
}

/* Norm of output @o's input patch times the norm of its filter. */
static double patch_norm(const struct shape *s, const struct conv_data *d,
			 const size_t *o)
{
	double x = 0, w = 0, v;

	for (size_t c = 0; c < s->ic; c++)
		for (size_t y = 0; y < 3; y++)
			for (size_t z = 0; z < 3; z++) {
				size_t iy = o[2] + y - s->pt;
				size_t ix = o[3] + z - s->pl;

				v = d->w[((o[1] * s->ic + c) * 3 + y) * 3 + z];
				w += v * v;
				if (iy >= s->ih || ix >= s->iw)
					continue;
				v = d->x[((o[0] * s->ic + c) * s->ih + iy) *
					 s->iw + ix];
				x += v * v;
			}
	return sqrt(x * w);
}

/*
 * The largest error of wino_c in the unit its header states; what is not finite in f32 is to be
 * just that.
 */
static double wino_error(const struct shape *s, const struct conv_data *d, const float *y)
{
	double worst = 0, err;
	size_t o[4], at = 0;

	for (o[0] = 0; o[0] < s->n; o[0]++)
		for (o[1] = 0; o[1] < s->oc; o[1]++)
			for (o[2] = 0; o[2] < s->oh; o[2]++)
				for (o[3] = 0; o[3] < s->ow; o[3]++, at++) {
					const float want = (float)d->y[at];

					if (isnan(want) ? isnan(y[at]) : y[at] == want)
						continue;
					err = fabs(y[at] - d->y[at]) / (patch_norm(s, d, o) + 1);
					worst = rlx_test_worse(worst, err);
				}
	return worst;
}

static void wino_one(enum rlx_isa isa, const struct shape *s,
		     const struct conv_data *d, size_t m, uint64_t *seed)
{
	const size_t xdims[3] = { s->n, s->ic, s->ih * s->iw };
	const size_t ydims[3] = { s->n, s->oc, s->oh * s->ow };
	const struct rlx_kernels *k = rlx_kernels_get(isa);
	struct rlx_k_wino_c a = {
		.bias = s->bias ? d->bias : NULL, .n = s->n, .ic = s->ic,
		.oc = s->oc, .ih = s->ih, .iw = s->iw, .oh = s->oh,
		.ow = s->ow, .pt = s->pt, .pl = s->pl, .act = s->act,
		.act_a = s->a, .act_b = s->b, .m = m,
	};
	struct rlx_k_wino_pack pk = { .conv = &a, .src = d->w };
	size_t nx, ny, nr = 0;
	float *x, *y, *w, *res = NULL, *out;
	double worst;

	CHECK(rlx_wino_c_init(isa, &a));
	w = kt_new(rlx_wino_c_wsize(&a));
	pk.dst = w;
	kt_run(k->wino_c_pack, &pk, rlx_wino_c_pack_units(&a), 0, seed);
	x = blocked(isa, d->x, xdims, &nx, seed);
	y = blocked(isa, NULL, ydims, &ny, seed);
	if (s->res) {
		res = blocked(isa, d->res, ydims, &nr, seed);
		a.res = res;
		if (kt_pick(seed, 0, 1)) {
			memcpy(y, res, ny);
			a.res = y;
		}
	}
	a.x = x;
	a.y = y;
	a.w = w;
	a.x_n = nx / s->n / 4;
	a.y_n = a.res_n = ny / s->n / 4;
	kt_run(k->wino_c, &a, rlx_wino_c_units(&a), rlx_wino_c_scratch(&a),
	       seed);
	out = plain(isa, y, s->n, s->oc, s->oh * s->ow, seed);
	worst = wino_error(s, d, out);
	CHECKF(worst <= (m == 2 ? 1e-6 : 4e-6),
	       "level %d m %zu: error %g; c %zu>%zu %zux%zu>%zux%zu p %zu,%zu "
	       "act %d", isa, m, worst, s->ic, s->oc, s->ih, s->iw, s->oh,
	       s->ow, s->pt, s->pl, s->act);
	if (getenv("RLX_TEST_VERBOSE"))
		printf("# level %d m %zu ic %zu error %g\n", isa, m, s->ic,
		       worst);
	kt_free(out, d->ny * 4);
	kt_free(y, ny);
	kt_free(x, nx);
	kt_free(w, rlx_wino_c_wsize(&a));
	if (res)
		kt_free(res, nr);
}

/* At every level, by tiles of two and of four; @d is let go. */
static void wino_everywhere(const struct shape *s, struct conv_data *d, uint64_t *seed)
{
	for (enum rlx_isa isa = 0; isa < RLX_ISA_COUNT; isa++)
		for (size_t m = 2; m <= 4; m += 2)
			if (kt_isa_runs(isa))
				wino_one(isa, s, d, m, seed);
	data_fini(d);
}

TEST(wino_c_random)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 100; i++) {
		struct shape s = shape_random(&seed);
		struct conv_data d;

		s.kh = s.kw = 3;
		s.sh = s.sw = s.dh = s.dw = 1;
		if (i % 10 == 0)
			s.ic = 200;
		do {
			s.pt = kt_pick(&seed, 0, 2);
			s.pl = kt_pick(&seed, 0, 2);
			s.oh = extent(s.ih, s.pt + kt_pick(&seed, 0, 2), 3, 1, 1);
			s.ow = extent(s.iw, s.pl + kt_pick(&seed, 0, 2), 3, 1, 1);
		} while (!s.oh || !s.ow);
		data_init(&s, &d, &seed);
		wino_everywhere(&s, &d, &seed);
	}
}

/*
 * Infinities, NaNs and huge numbers are in the outputs that read them, and in no others. Four of
 * them have a sum in f32, in any order, unless one is infinite.
 */
TEST(wino_c_huge_pixels)
{
	static const float huge[] = { INFINITY, -INFINITY, NAN, 8e37f, -1e36f, 1e25f };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 60; i++) {
		struct shape s = {
			.n = kt_pick(&seed, 1, 2), .ic = kt_pick(&seed, 1, 40),
			.oc = kt_pick(&seed, 1, 50), .groups = 1, .ih = kt_pick(&seed, 1, 20),
			.iw = kt_pick(&seed, 1, 20), .kh = 3, .kw = 3, .sh = 1, .sw = 1, .dh = 1,
			.dw = 1, .pt = 1, .pl = 1, .bias = kt_pick(&seed, 0, 1),
			.res = kt_pick(&seed, 0, 1),
		};
		struct conv_data d;

		s.oh = s.ih;
		s.ow = s.iw;
		data_init(&s, &d, &seed);
		for (size_t k = kt_pick(&seed, 1, 4); k--;)
			d.x[kt_pick(&seed, 0, d.nx - 1)] = huge[kt_pick(&seed, 0, 5)];
		reference(&s, &d);
		wino_everywhere(&s, &d, &seed);
	}
}

/* Sums over channels in one run would be off by several times as much. */
TEST(wino_c_long_sums)
{
	uint64_t seed = rlx_test_seed();
	struct shape s = {
		.n = 1, .ic = 5000, .oc = 20, .groups = 1, .ih = 6, .iw = 8, .oh = 4,
		.ow = 6, .kh = 3, .kw = 3, .sh = 1, .sw = 1, .dh = 1, .dw = 1,
		.positive = true,
	};
	struct conv_data d;

	data_init(&s, &d, &seed);
	wino_everywhere(&s, &d, &seed);
}

TEST(wino_c_refuses)
{
	struct rlx_k_wino_c ok = {
		.n = 1, .ic = 8, .oc = 8, .ih = 4, .iw = 4, .oh = 4, .ow = 4,
		.pt = 1, .pl = 1, .m = 4,
	}, a = ok;

	CHECK(rlx_wino_c_init(RLX_ISA_V4, &a));
	a = ok;
	a.m = 3;
	CHECK(!rlx_wino_c_init(RLX_ISA_V4, &a));
	a = ok;
	a.ic = 0;
	CHECK(!rlx_wino_c_init(RLX_ISA_V4, &a));
}

TEST_MAIN()
