// SPDX-License-Identifier: MIT
/*
 * Convolution in bf16 at the levels that have it, and by tiles as emulated, against sums in
 * double of the rounded operands: plain and blocked images, addends and results of both dtypes.
 */
#include "base/half.h"
#include "kernels/conv_bf16.h"
#include "selftests/kernels/amx_emu.h"
#include "selftests/kernels/conv_ref.h"

/* A problem, and its tensors as the kernel is to have them. */
struct problem {
	struct rlx_k_conv_nd	s;
	struct conv_data	d;
	bool			x_plain, y_plain, bias, bias_bf16, res, res_f32, y_f32;
};

static uint64_t seed;

static float *drawn(size_t n, bool rounded)
{
	float *p = malloc(n * sizeof(*p));
	size_t i;

	CHECK(p != NULL);
	kt_fill(p, n, &seed);
	for (i = 0; rounded && i < n; i++)
		p[i] = rlx_bf16_to_f32(rlx_f32_to_bf16(p[i]));
	return p;
}

/* Where element (n, c, p) of an image of @pixels lies. */
static size_t place(bool plain, size_t channels, size_t pixels, const size_t at[3])
{
	size_t blocks = (channels + RLX_CONV_BF16_BLOCK - 1) / RLX_CONV_BF16_BLOCK;

	if (plain)
		return (at[0] * channels + at[1]) * pixels + at[2];
	return ((at[0] * blocks + at[1] / RLX_CONV_BF16_BLOCK) * pixels + at[2]) *
	       RLX_CONV_BF16_BLOCK + at[1] % RLX_CONV_BF16_BLOCK;
}

static size_t places(bool plain, size_t channels, size_t pixels)
{
	size_t c = RLX_CONV_BF16_BLOCK;

	return (plain ? channels : (channels + c - 1) / c * c) * pixels;
}

/* @src, plain floats (NULL: none), laid out; what pads blocks is NaN. */
static void *laid_out(const float *src, bool plain, bool f32, const size_t dims[3])
{
	const size_t n = dims[0] * places(plain, dims[1], dims[2]), size = f32 ? 4 : 2;
	char *p = kt_new(n * size);
	size_t at[3], i = 0;

	for (at[0] = 0; src && at[0] < dims[0]; at[0]++)
		for (at[1] = 0; at[1] < dims[1]; at[1]++)
			for (at[2] = 0; at[2] < dims[2]; at[2]++, i++) {
				size_t to = place(plain, dims[1], dims[2], at);
				uint16_t b = rlx_f32_to_bf16(src[i]);

				memcpy(p + to * size, f32 ? (const void *)&src[i] : &b, size);
			}
	return p;
}

static void compare(const struct problem *p, const struct rlx_k_conv_bf16 *a, const void *y,
		    enum rlx_isa isa)
{
	const size_t pixels = conv_volume(p->s.out);
	size_t at[3], i = 0;

	for (at[0] = 0; at[0] < p->s.n; at[0]++)
		for (at[1] = 0; at[1] < p->s.oc; at[1]++)
			for (at[2] = 0; at[2] < pixels; at[2]++, i++) {
				size_t k = place(p->y_plain, p->s.oc, pixels, at);
				double got = p->y_f32 ? ((const float *)y)[k] :
					     rlx_bf16_to_f32(((const uint16_t *)y)[k]);
				double tol = 4e-6 * p->d.mag[i] + 1e-6 +
					     (p->y_f32 ? 0 : fabs(p->d.y[i]) / 256);

				CHECKF(fabs(got - p->d.y[i]) <= tol,
				       "level %d%s: [%zu,%zu,%zu] is %g, not %g; n %zu c %zu>%zu/%zu "
				       "in %zux%zu out %zux%zu k %zux%zu s %zux%zu d %zux%zu p %zu,%zu "
				       "act %d plain %d %d tile %zu rows %zu part %zu of %zu", isa,
				       amx_emulated ? " emulated" : "", at[0], at[1], at[2], got,
				       p->d.y[i], a->n, a->ic, a->oc, a->groups, a->ih, a->iw, a->oh,
				       a->ow, a->kh, a->kw, a->sh, a->sw, a->dh, a->dw, a->pt, a->pl,
				       a->act, a->x_plain, a->y_plain, a->width, a->rows, a->part,
				       a->steps);
			}
}

static struct rlx_k_conv_bf16 args_of(const struct problem *p)
{
	const struct rlx_k_conv_nd *s = &p->s;

	return (struct rlx_k_conv_bf16){
		.n = s->n, .ic = s->ic, .oc = s->oc, .groups = s->groups,
		.ih = s->in[1], .iw = s->in[2], .oh = s->out[1], .ow = s->out[2],
		.kh = s->k[1], .kw = s->k[2], .sh = s->s[1], .sw = s->s[2],
		.dh = s->d[1], .dw = s->d[2], .pt = s->p[1], .pl = s->p[2],
		.act = s->act, .act_a = s->act_a, .act_b = s->act_b,
		.x_plain = p->x_plain, .y_plain = p->y_plain, .bias_bf16 = p->bias_bf16,
		.res_f32 = p->res_f32, .y_f32 = p->y_f32,
		.x_n = places(p->x_plain, s->ic, conv_volume(s->in)),
		.y_n = places(p->y_plain, s->oc, conv_volume(s->out)),
		.res_n = places(p->y_plain, s->oc, conv_volume(s->out)),
	};
}

/* Weights [oc][ic / groups][taps] as those of a transposed convolution, in a new buffer. */
static void *turned(const struct problem *p, const uint16_t *w)
{
	const size_t ic = p->s.ic / p->s.groups, oc = p->s.oc / p->s.groups;
	const size_t taps = conv_volume(p->s.k);
	uint16_t *to = kt_new(p->d.nw * 2);
	size_t o, c, t;

	for (o = 0; o < p->s.oc; o++)
		for (c = 0; c < ic; c++)
			for (t = 0; t < taps; t++)
				to[((o / oc * ic + c) * oc + o % oc) * taps + taps - 1 - t] =
					w[(o * ic + c) * taps + t];
	return to;
}

static void run(const struct problem *p, enum rlx_isa isa)
{
	const struct rlx_kernels *k = amx_kernels(isa);
	const size_t xd[3] = { p->s.n, p->s.ic, conv_volume(p->s.in) };
	const size_t yd[3] = { p->s.n, p->s.oc, conv_volume(p->s.out) };
	const size_t bd[3] = { 1, p->s.oc, 1 }, wd[3] = { 1, 1, p->d.nw };
	struct rlx_k_conv_bf16 a = args_of(p);
	struct rlx_k_conv_pack pk = { .conv = (const void *)&a };
	const size_t ny = a.y_n * a.n * (p->y_f32 ? 4 : 2);
	void *x, *y, *w, *res = NULL, *bias = NULL, *src;

	CHECK(rlx_conv_bf16_init(isa, &a));
	src = laid_out(p->d.w, true, false, wd);
	a.turned = kt_pick(&seed, 0, 1);
	if (a.turned) {
		void *w0 = src;

		src = turned(p, w0);
		kt_free(w0, p->d.nw * 2);
	}
	w = kt_new(rlx_conv_bf16_wsize(&a));
	pk.src = src;
	pk.dst = w;
	kt_run(k->conv_bf16_pack, &pk, a.groups * rlx_conv_bf16_pairs(&a), 0, &seed);
	x = laid_out(p->d.x, p->x_plain, false, xd);
	y = laid_out(NULL, p->y_plain, p->y_f32, yd);
	if (p->bias)
		bias = laid_out(p->d.bias, true, !p->bias_bf16, bd);
	if (p->res)
		res = laid_out(p->d.res, p->y_plain, p->res_f32, yd);
	a.res = res;
	if (res && p->res_f32 == p->y_f32 && kt_pick(&seed, 0, 1)) {
		memcpy(y, res, ny);
		a.res = y;
	}
	a.x = x;
	a.w = w;
	a.bias = bias;
	a.y = y;
	kt_run(k->conv_bf16, &a, rlx_conv_bf16_units(&a), rlx_conv_bf16_scratch(&a), &seed);
	compare(p, &a, y, isa);
	kt_free(x, a.x_n * a.n * 2);
	kt_free(y, ny);
	kt_free(w, rlx_conv_bf16_wsize(&a));
	kt_free(src, p->d.nw * 2);
	if (bias)
		kt_free(bias, a.oc * (p->bias_bf16 ? 2 : 4));
	if (res)
		kt_free(res, a.y_n * a.n * (p->res_f32 ? 4 : 2));
}

static const struct problem *now;

static void run_level(enum rlx_isa isa)
{
	if (isa >= RLX_ISA_V4X)
		run(now, isa);
}

static void check(struct problem *p)
{
	struct rlx_k_conv_nd *s = &p->s;
	size_t i;

	p->d.nx = s->n * s->ic * conv_volume(s->in);
	p->d.nw = s->oc * (s->ic / s->groups) * conv_volume(s->k);
	p->d.ny = s->n * s->oc * conv_volume(s->out);
	p->d.x = drawn(p->d.nx, true);
	p->d.w = drawn(p->d.nw, true);
	p->d.bias = drawn(s->oc, p->bias_bf16);
	p->d.res = drawn(p->d.ny, !p->res_f32);
	p->d.y = malloc(p->d.ny * sizeof(double));
	p->d.mag = malloc(p->d.ny * sizeof(double));
	CHECK(p->d.y && p->d.mag);
	s->bias = p->bias ? p->d.bias : NULL;
	s->res = p->res ? p->d.res : NULL;
	conv_reference_all(s, &p->d);
	for (i = 0; p->res && i < p->d.ny; i++)
		p->d.mag[i] += fabs(p->d.res[i]);
	now = p;
	amx_levels(run_level);
	free(p->d.x);
	free(p->d.w);
	free(p->d.bias);
	free(p->d.res);
	free(p->d.y);
	free(p->d.mag);
}

static bool coin(void)
{
	return kt_pick(&seed, 0, 1);
}

static size_t channels(void)
{
	return kt_pick(&seed, 0, 3) ? kt_pick(&seed, 1, 70) : 16 * kt_pick(&seed, 1, 20);
}

static void draw(struct problem *p)
{
	struct rlx_k_conv_nd *s = &p->s;

	*p = (struct problem){ .x_plain = coin(), .y_plain = coin(), .bias = coin(),
			       .bias_bf16 = coin(), .res = coin(), .res_f32 = coin(),
			       .y_f32 = coin() };
	do {
		conv_shape_random(s, false, &seed);
	} while (s->in[0] > 1 || s->k[0] > 1 || s->out[0] > 1 || s->p[0]);
	if (coin()) {
		s->groups = 1;
		s->ic = channels();
		s->oc = channels();
	}
	if (s->groups > 1 && !p->x_plain)
		s->ic = s->groups * 16 * kt_pick(&seed, 1, 3);
	if (s->groups > 1 && !p->y_plain)
		s->oc = s->groups * 16 * kt_pick(&seed, 1, 3);
	s->act = (enum rlx_act)kt_pick(&seed, 0, RLX_ACT_COUNT - 1);
	s->act_a = 0.3f;
	s->act_b = 0.6f;
}

TEST(conv_bf16_random)
{
	struct problem p;
	int i;

	seed = rlx_test_seed();
	for (i = 0; i < 250; i++) {
		draw(&p);
		check(&p);
	}
}

/* Wide and high images, in several units; taps far apart; images that padding is all around. */
TEST(conv_bf16_large)
{
	struct problem p;
	size_t j, span;
	int i;

	seed = rlx_test_seed();
	for (i = 0; i < 40; i++) {
		draw(&p);
		p.s.groups = coin() + 1;
		p.s.ic = p.s.groups * 16 * kt_pick(&seed, 1, 2);
		p.s.oc = p.s.groups * 16;
		for (j = 1; j < 3; j++) {
			p.s.k[j] = kt_pick(&seed, 1, 3);
			p.s.d[j] = kt_pick(&seed, 1, 9);
			p.s.p[j] = kt_pick(&seed, 0, 20);
			span = (p.s.k[j] - 1) * p.s.d[j] + 1;
			p.s.in[j] = span + kt_pick(&seed, 0, j == 1 ? 12 : 50);
			p.s.out[j] = (p.s.in[j] + p.s.p[j] + kt_pick(&seed, 0, 20) - span) /
				     p.s.s[j] + 1;
		}
		check(&p);
	}
}

/* Taps so far apart that the copy has each tap's by itself: rows, columns, or both. */
TEST(conv_bf16_far_taps)
{
	struct problem p;
	size_t j, span;
	int i;

	seed = rlx_test_seed();
	for (i = 0; i < 60; i++) {
		draw(&p);
		p.s.groups = 1;
		for (j = 1; j < 3; j++) {
			p.s.k[j] = kt_pick(&seed, 1, 3);
			p.s.d[j] = kt_pick(&seed, 1, coin() ? 200 : 3);
			p.s.p[j] = kt_pick(&seed, 0, 250);
			span = (p.s.k[j] - 1) * p.s.d[j] + 1;
			p.s.in[j] = kt_pick(&seed, 1, 20);
			p.s.out[j] = (p.s.in[j] + p.s.p[j] + span + kt_pick(&seed, 0, 5) - span) /
				     p.s.s[j] + 1;
			if (p.s.out[j] > 24)
				p.s.out[j] = 24;
		}
		check(&p);
	}
}

/* Below level v4x nothing multiplies pairs of bf16, and shapes must be within reach. */
TEST(conv_bf16_refuses)
{
	struct rlx_k_conv_bf16 a = { .n = 1, .ic = 3, .oc = 3, .groups = 1, .ih = 4, .iw = 4,
				     .oh = 4, .ow = 4, .kh = 1, .kw = 1, .sh = 1, .sw = 1, .dh = 1,
				     .dw = 1 }, b = a;

	CHECK(!rlx_conv_bf16_init(RLX_ISA_V4_VNNI, &a));
	CHECK(rlx_conv_bf16_init(RLX_ISA_V4X, &a));
	a = b;
	a.oh = SIZE_MAX / 4;
	CHECK(!rlx_conv_bf16_init(RLX_ISA_V4X, &a));
	a = b;
	a.groups = 2;
	CHECK(!rlx_conv_bf16_init(RLX_ISA_V4X, &a));
	a = b;
	a.groups = 3;	/* blocks hold channels of several */
	CHECK(!rlx_conv_bf16_init(RLX_ISA_V4X, &a));
	a.x_plain = a.y_plain = true;
	CHECK(rlx_conv_bf16_init(RLX_ISA_V4X, &a));
}

TEST_MAIN()
