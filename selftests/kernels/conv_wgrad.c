// SPDX-License-Identifier: MIT
/*
 * Gradients of convolutions in their weights against sums in double: of bf16, at the levels that
 * have them, and by tiles as emulated, plain and blocked operands, results of both dtypes; and of
 * blocked f32 at every level.
 */
#include "base/half.h"
#include "kernels/conv_wgrad.h"
#include "kernels/conv_wgrad_c.h"
#include "selftests/kernels/amx_emu.h"
#include "selftests/kernels/conv_ref.h"

enum { BLOCK = RLX_CONV_BF16_BLOCK };

static uint64_t seed;
static struct rlx_k_conv_wgrad now;

static size_t blocks(size_t n)
{
	return (n + BLOCK - 1) / BLOCK * BLOCK;
}

/* Where channel @c of all groups is in an image of planes of @pixels; @p in the plane. */
static size_t place(bool blocked, size_t c, size_t pixels, size_t p)
{
	return blocked ? (c / BLOCK * pixels + p) * BLOCK + c % BLOCK : c * pixels + p;
}

/* An operand laid out, which @is_x or not; what pads blocks is NaN. */
static uint16_t *operand(bool blocked, size_t channels, size_t pixels)
{
	const size_t image = (blocked ? blocks(channels) : channels) * pixels;
	uint16_t *p = kt_new(now.n * image * 2);
	float *f = malloc(channels * pixels * sizeof(*f));
	size_t n, c, i;

	CHECK(f != NULL);
	memset(p, 0xff, now.n * image * 2);
	for (n = 0; n < now.n; n++) {
		kt_fill(f, channels * pixels, &seed);
		for (c = 0; c < channels; c++)
			for (i = 0; i < pixels; i++)
				p[n * image + place(blocked, c, pixels, i)] =
					rlx_f32_to_bf16(f[c * pixels + i]);
	}
	free(f);
	return p;
}

/* Of one weight: the sum of products, and of their magnitudes. */
static double expected(const struct rlx_k_conv_wgrad *a, const size_t at[5], double *mag)
{
	const size_t x = at[0] * a->ci + at[1], dy = at[0] * a->co + at[2];
	size_t n, r, c;
	double sum = 0;

	*mag = 0;
	for (n = 0; n < a->n; n++)
		for (r = 0; r < now.oh; r++)
			for (c = 0; c < now.ow; c++) {
				size_t y = r * a->sh + at[3] * a->dh - a->pt;
				size_t z = c * a->sw + at[4] * a->dw - a->pl;
				size_t p = y * now.iw + z, q = r * now.ow + c;
				double v;

				if (y >= now.ih || z >= now.iw)
					continue;
				p = n * a->x_n + place(a->x_blocked, x, now.ih * now.iw, p);
				q = n * a->dy_n + place(a->dy_blocked, dy, now.oh * now.ow, q);
				v = (double)rlx_bf16_to_f32(a->x[p]) * rlx_bf16_to_f32(a->dy[q]);
				sum += v;
				*mag += fabs(v);
			}
	return sum;
}

static void compare(const struct rlx_k_conv_wgrad *a, const void *y, enum rlx_isa isa)
{
	size_t at[5], i;

	for (i = 0; i < a->groups * a->ci * a->co * a->kh * a->kw; i++) {
		const size_t dims[5] = { a->groups, a->ci, a->co, a->kh, a->kw };
		double want, mag, got, tol;
		size_t rest = i, k;

		for (k = 5; k-- > 0; rest /= dims[k])
			at[k] = rest % dims[k];
		k = at[0] * a->y_g + at[1] * a->y_c + at[2] * a->y_o + at[3] * a->kw + at[4];
		got = a->y_f32 ? ((const float *)y)[k] :
		      rlx_bf16_to_f32(((const uint16_t *)y)[k]);
		want = expected(a, at, &mag);
		tol = 4e-6 * mag + 1e-6 + (a->y_f32 ? 0 : fabs(want) / 256);
		CHECKF(fabs(got - want) <= tol,
		       "level %d%s: [%zu,%zu,%zu,%zu,%zu] is %g, not %g; n %zu c %zu %zu/%zu in "
		       "%zux%zu out %zux%zu k %zux%zu s %zux%zu d %zux%zu p %zu,%zu blocked %d %d "
		       "width %zu piece %zux%zu batch %zu parts %zu", isa,
		       amx_emulated ? " emulated" : "", at[0], at[1], at[2], at[3], at[4], got,
		       want, a->n, a->ci, a->co, a->groups, a->ih, a->iw, a->oh, a->ow, a->kh,
		       a->kw, a->sh, a->sw, a->dh, a->dw, a->pt, a->pl, a->x_blocked, a->dy_blocked,
		       a->width, a->rows, a->cols, a->batch, a->parts);
	}
}

static void run_level(enum rlx_isa isa)
{
	const struct rlx_kernels *k = amx_kernels(isa);
	struct rlx_k_conv_wgrad a = now;
	const size_t ny = a.groups * a.ci * a.co * a.kh * a.kw * (a.y_f32 ? 4 : 2);

	if (isa < RLX_ISA_V4X)
		return;
	CHECK(rlx_conv_wgrad_init(isa, &a));
	a.y = kt_new(ny);
	a.sums = kt_new(rlx_conv_wgrad_sums(&a));
	kt_run(k->conv_wgrad, &a, rlx_conv_wgrad_units(&a), rlx_conv_wgrad_scratch(&a), &seed);
	kt_run(k->conv_wgrad_sum, &a, rlx_conv_wgrad_sum_units(&a),
	       rlx_conv_wgrad_sum_scratch(&a), &seed);
	compare(&a, a.y, isa);
	kt_free(a.y, ny);
	kt_free(a.sums, rlx_conv_wgrad_sums(&a));
}

/* @turned: of w's two orders of channels the other. */
static void check(bool turned)
{
	struct rlx_k_conv_wgrad *a = &now;
	const size_t in = a->ih * a->iw, out = a->oh * a->ow, taps = a->kh * a->kw;
	const size_t x = a->ci * a->groups, dy = a->co * a->groups;
	void *px, *pdy;

	a->x_c = in;
	a->x_g = a->ci * in;
	a->x_n = (a->x_blocked ? blocks(x) : x) * in;
	a->dy_c = out;
	a->dy_g = a->co * out;
	a->dy_n = (a->dy_blocked ? blocks(dy) : dy) * out;
	a->y_g = a->ci * a->co * taps;
	a->y_c = turned ? taps : a->co * taps;
	a->y_o = turned ? a->ci * taps : taps;
	a->x = px = operand(a->x_blocked, x, in);
	a->dy = pdy = operand(a->dy_blocked, dy, out);
	amx_levels(run_level);
	kt_free(px, a->n * a->x_n * 2);
	kt_free(pdy, a->n * a->dy_n * 2);
}

static bool coin(void)
{
	return kt_pick(&seed, 0, 1);
}

/* Extents of a dimension from the others; @most: pixels of dy. */
static void draw_dim(size_t *in, size_t *out, size_t k[4], size_t most)
{
	size_t span;

	k[0] = kt_pick(&seed, 1, 4);
	k[1] = kt_pick(&seed, 1, 3);
	k[2] = kt_pick(&seed, 1, coin() ? 3 : 9);
	k[3] = kt_pick(&seed, 0, 4);
	*out = kt_pick(&seed, 1, most);
	span = (*out - 1) * k[1] + (k[0] - 1) * k[2] + 1;
	*in = span > k[3] + 2 ? span - k[3] + kt_pick(&seed, 0, 4) - 2 : 1;
}

static void draw(size_t images, size_t channels, size_t most)
{
	struct rlx_k_conv_wgrad *a = &now;
	size_t k[2][4];

	*a = (struct rlx_k_conv_wgrad){ .y_f32 = coin(), .n = kt_pick(&seed, 1, images) };
	a->groups = coin() ? 1 : kt_pick(&seed, 1, 3);
	a->ci = kt_pick(&seed, 1, channels);
	a->co = kt_pick(&seed, 1, channels);
	a->x_blocked = a->groups == 1 && coin();
	a->dy_blocked = a->groups == 1 && coin();
	draw_dim(&a->ih, &a->oh, k[0], most);
	draw_dim(&a->iw, &a->ow, k[1], most);
	a->kh = k[0][0];
	a->sh = k[0][1];
	a->dh = k[0][2];
	a->pt = k[0][3];
	a->kw = k[1][0];
	a->sw = k[1][1];
	a->dw = k[1][2];
	a->pl = k[1][3];
}

TEST(conv_wgrad_random)
{
	int i;

	seed = rlx_test_seed();
	for (i = 0; i < 200; i++) {
		draw(5, 50, 12);
		check(coin());
	}
}

/* Many images, in several parts and batches; more channels than a unit has. */
TEST(conv_wgrad_parts)
{
	int i;

	seed = rlx_test_seed();
	for (i = 0; i < 12; i++) {
		draw(coin() ? 40 : 1, coin() ? 150 : 20, coin() ? 8 : 40);
		check(coin());
	}
}

/* Images of which scratch has but some rows, or a part of one; pixels as one row. */
TEST(conv_wgrad_large)
{
	int i;

	seed = rlx_test_seed();
	for (i = 0; i < 12; i++) {
		draw(2, 30, 8);
		now.ow = kt_pick(&seed, 200, i % 2 ? 8000 : 900);
		now.oh = i % 2 ? 1 : kt_pick(&seed, 5, 20);
		now.sw = kt_pick(&seed, 1, 2);
		now.iw = (now.ow - 1) * now.sw + (now.kw - 1) * now.dw + 1 - now.pl;
		now.ih = (now.oh - 1) * now.sh + (now.kh - 1) * now.dh + 1;
		if (i % 3 == 0) {
			now.kh = now.kw = now.sh = now.sw = 1;
			now.pt = now.pl = 0;
			now.ih = now.oh;
			now.iw = now.ow;
		}
		check(coin());
	}
}

/* ---- of blocked f32 ---- */

/* @n images of @channels planes, from @plain, in blocks of @block; NaN is behind channels. */
static float *blocked(const float *plain, size_t n, size_t channels, size_t pixels, size_t block)
{
	const size_t image = (channels + block - 1) / block * block * pixels;
	float *p = kt_new(n * image * sizeof(*p));
	size_t at;

	memset(p, 0xff, n * image * sizeof(*p));
	for (at = 0; at < n * channels * pixels; at++) {
		const size_t c = at / pixels % channels;

		p[at / pixels / channels * image +
		  (c / block * pixels + at % pixels) * block + c % block] = plain[at];
	}
	return p;
}

/* Of one weight: the sum of products, and of their magnitudes. */
static double expected_c(const struct rlx_k_conv_wgrad_c *a, const size_t at[4], double *mag)
{
	double sum = 0;
	size_t n, r, c;

	*mag = 0;
	for (n = 0; n < a->n; n++)
		for (r = 0; r < a->oh; r++)
			for (c = 0; c < a->ow; c++) {
				const size_t y = r * a->sh + at[2] * a->dh - a->pt;
				const size_t z = c * a->sw + at[3] * a->dw - a->pl;
				double v;

				if (y >= a->ih || z >= a->iw)
					continue;
				v = (double)a->x[((n * a->ci + at[1]) * a->ih + y) * a->iw + z] *
				    a->dy[((n * a->co + at[0]) * a->oh + r) * a->ow + c];
				sum += v;
				*mag += fabs(v);
			}
	return sum;
}

static void compare_c(const struct rlx_k_conv_wgrad_c *plain, const struct rlx_k_conv_wgrad_c *a,
		      enum rlx_isa isa)
{
	size_t i;

	for (i = 0; i < a->ci * a->co * a->kh * a->kw; i++) {
		const size_t at[4] = { i / a->kw / a->kh / a->ci, i / a->kw / a->kh % a->ci,
				       i / a->kw % a->kh, i % a->kw };
		double mag, want = expected_c(plain, at, &mag);

		CHECKF(fabs(a->y[i] - want) <= 4e-6 * mag + 1e-30,
		       "level %d: [%zu,%zu,%zu,%zu] is %g, not %g; n %zu c %zu %zu in %zux%zu out "
		       "%zux%zu k %zux%zu s %zux%zu d %zux%zu p %zu,%zu piece %zux%zu parts %zu",
		       isa, at[0], at[1], at[2], at[3], a->y[i], want, a->n, a->ci, a->co,
		       plain->ih, plain->iw, plain->oh, plain->ow, a->kh, a->kw, a->sh, a->sw,
		       a->dh, a->dw, a->pt, a->pl, a->rows, a->cols, a->parts);
	}
}

static void run_level_c(const struct rlx_k_conv_wgrad_c *plain, enum rlx_isa isa)
{
	const struct rlx_kernels *k = rlx_kernels_get(isa);
	const size_t in = plain->ih * plain->iw, out = plain->oh * plain->ow;
	const size_t block = rlx_conv_block(isa), ny = plain->ci * plain->co * plain->kh *
						       plain->kw * sizeof(float);
	const size_t x = (plain->ci + block - 1) / block * block;
	const size_t dy = (plain->co + block - 1) / block * block;
	struct rlx_k_conv_wgrad_c a = *plain;

	CHECK(rlx_conv_wgrad_c_init(isa, &a));
	a.x = blocked(plain->x, a.n, a.ci, in, block);
	a.dy = blocked(plain->dy, a.n, a.co, out, block);
	a.y = kt_new(ny);
	a.sums = kt_new(rlx_conv_wgrad_c_sums(&a));
	kt_run(k->conv_wgrad_c, &a, rlx_conv_wgrad_c_units(&a), 0, &seed);
	kt_run(k->conv_wgrad_c_sum, &a, rlx_conv_wgrad_c_sum_units(&a),
	       rlx_conv_wgrad_c_sum_scratch(&a), &seed);
	compare_c(plain, &a, isa);
	kt_free(a.y, ny);
	kt_free(a.sums, rlx_conv_wgrad_c_sums(&a));
	kt_free((void *)a.x, a.n * x * in * sizeof(float));
	kt_free((void *)a.dy, a.n * dy * out * sizeof(float));
}

/* The shape that was drawn, of one group, at every level */
static void check_c(void)
{
	struct rlx_k_conv_wgrad_c a = {
		.n = now.n, .ci = now.ci, .co = now.co, .ih = now.ih, .iw = now.iw, .oh = now.oh,
		.ow = now.ow, .kh = now.kh, .kw = now.kw, .sh = now.sh, .sw = now.sw,
		.dh = now.dh, .dw = now.dw, .pt = now.pt, .pl = now.pl,
	};
	const size_t nx = a.n * a.ci * a.ih * a.iw, ndy = a.n * a.co * a.oh * a.ow;
	float *x = malloc(nx * sizeof(*x)), *dy = malloc(ndy * sizeof(*dy));
	enum rlx_isa isa;

	CHECK(x && dy);
	kt_fill(x, nx, &seed);
	kt_fill(dy, ndy, &seed);
	a.x = x;
	a.dy = dy;
	for (isa = RLX_ISA_BASE; isa <= RLX_ISA_V4; isa++)
		if (isa_runs(isa))
			run_level_c(&a, isa);
	free(x);
	free(dy);
}

TEST(conv_wgrad_c_random)
{
	int i;

	seed = rlx_test_seed();
	for (i = 0; i < 120; i++) {
		draw(5, 50, 12);
		check_c();
	}
}

/* Many images, in several parts, and those of which a piece has some rows or columns */
TEST(conv_wgrad_c_parts)
{
	int i;

	seed = rlx_test_seed();
	for (i = 0; i < 12; i++) {
		draw(i % 2 ? 40 : 1, i % 2 ? 70 : 12, i % 2 ? 10 : 40);
		if (i % 4 == 0) {
			now.ow = kt_pick(&seed, 100, 600);
			now.iw = (now.ow - 1) * now.sw + (now.kw - 1) * now.dw + 1 - now.pl;
		}
		if (i % 6 == 0) {	/* pixels as one row */
			now.kh = now.kw = now.sh = now.sw = 1;
			now.pt = now.pl = 0;
			now.ih = now.oh;
			now.iw = now.ow;
		}
		check_c();
	}
}

/* Below level v4x nothing multiplies pairs of bf16, and shapes must be within reach. */
TEST(conv_wgrad_refuses)
{
	const struct rlx_k_conv_wgrad ok = {
		.n = 1, .ci = 3, .co = 3, .groups = 1, .ih = 4, .iw = 4, .oh = 4, .ow = 4, .kh = 1,
		.kw = 1, .sh = 1, .sw = 1, .dh = 1, .dw = 1,
	};
	struct rlx_k_conv_wgrad a = ok;

	CHECK(!rlx_conv_wgrad_init(RLX_ISA_V4_VNNI, &a));
	CHECK(rlx_conv_wgrad_init(RLX_ISA_V4X, &a));
	a = ok;
	a.oh = SIZE_MAX / 4;
	CHECK(!rlx_conv_wgrad_init(RLX_ISA_V4X, &a));
	a = ok;
	a.dw = a.kw = SIZE_MAX / 1024;
	CHECK(!rlx_conv_wgrad_init(RLX_ISA_V4X, &a));
	a = ok;
	a.groups = 2;	/* blocks hold channels of several */
	a.x_blocked = true;
	CHECK(!rlx_conv_wgrad_init(RLX_ISA_V4X, &a));
	a.x_blocked = false;
	CHECK(rlx_conv_wgrad_init(RLX_ISA_V4X, &a));
}

TEST_MAIN()
