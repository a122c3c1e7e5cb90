// SPDX-License-Identifier: MIT
/* GPU convolutions on the emulator, against sums in double. */
#include "selftests/gpu/against_cpu.h"
#include "selftests/kernels/conv_ref.h"

/* Where a tensor's element [n][channel][pixel] lies on the device. */
struct order {
	size_t	channels, pixels, filled;	/* channels with what fills them up */
	bool	last;
};

static size_t place_of(const struct order *o, size_t i)
{
	size_t pixel = i % o->pixels, c = i / o->pixels % o->channels;
	size_t n = i / o->pixels / o->channels;

	return o->last ? (n * o->pixels + pixel) * o->filled + c : i;
}

static struct order order_of(size_t channels, const size_t pixels[3], bool last)
{
	return (struct order){ channels, conv_volume(pixels), channels, last };
}

static bool exact_sums;		/* of one_conv(): of 16 bits that are multiples of 1 / 16 */

/*
 * A tensor core does not round a sum, it cuts off what is below the largest of 17 terms, each time
 * towards zero: 1,200 products drift by as much as the bound of sums that are rounded. Products of
 * sixteenths from -1 to 1, and 2^15 of them, are whole 256ths below 2^23: nothing is cut off.
 */
static void to_sixteenths(void *p, size_t n, int type)
{
	uint16_t *u = p;
	size_t i;

	for (i = 0; i < n; i++) {
		_Float16 x = (_Float16)(rint(gpu_value(p, i, type) * 16) / 16);

		if (type == RLX_BF16)
			u[i] = kc_to_bf16((float)x);
		else
			memcpy(&u[i], &x, sizeof(x));
	}
}

/* Random numbers of a type: in some order on the device, and plain as floats. */
static float *numbers(size_t n, struct order o, int type, void **out_dev, uint64_t *seed)
{
	size_t all = o.last ? n / o.channels * o.filled : n, i;
	float *x = calloc(n + 1, sizeof(*x));
	void *p = gpu_alloc(all, type, -1, 1, seed);
	size_t size = rlx_k_type_size((enum rlx_dtype)type);

	CHECK(x);
	if (exact_sums && (type == RLX_F16 || type == RLX_BF16))
		to_sixteenths(p, all, type);
	for (i = 0; i < n; i++)
		x[i] = (float)gpu_value(p, place_of(&o, i), type);
	if (type == RLX_F64)	/* the reference knows floats alone */
		for (i = 0; i < n; i++)
			((double *)p)[i] = (double)x[i];
	for (i = 0; o.filled > o.channels && i < all; i++)
		if (i % o.filled >= o.channels)
			memset((char *)p + i * size, 0, size);
	*out_dev = dev_of(p, all * size);
	free(p);
	return x;
}

static double rounding(int type)
{
	return type == RLX_BF16 ? 4e-3 : type == RLX_F16 ? 5e-4 : 0;
}

static int64_t live_images;	/* of one_conv(): that carry data; 0: all */

/* Runs @shape, of which @how asks for tile and parts as launch.h would give large ones. */
static void one_conv(const struct rlx_k_conv_nd *shape, int type, gpu_launch_fn *how,
		     uint64_t *seed)
{
	struct rlx_k_conv_nd a = *shape;
	struct rlx_g_env env = { .units = 0 };
	size_t nx = a.n * a.ic * conv_volume(a.in), ny = a.n * a.oc * conv_volume(a.out);
	size_t nw = a.oc * (a.ic / a.groups) * conv_volume(a.k), size, i;
	/* 16 bits may be summed up to f32 */
	int out = rounding(type) > 0 && kc_pick(seed, 0, 1) ? RLX_F32 : type;
	int bias_type = type == RLX_F64 || (!a.channels_last && kc_pick(seed, 0, 1)) ? type :
			RLX_F32;
	const struct order ox = order_of(a.ic, a.in, a.channels_last && !a.x_plain);
	const struct order oy = order_of(a.oc, a.out, a.channels_last && !a.y_plain);
	const struct order vector = { 1, 1, 1, false };
	struct order ow = order_of(a.ic / a.groups, a.k, a.channels_last);
	void *x, *w, *bias, *res, *y;
	struct conv_data d;
	double tol = type == RLX_F64 ? 1e-12 : 4e-7;

	size = rlx_k_type_size((enum rlx_dtype)out);
	a.type = (uint8_t)type;
	a.out_type = (uint8_t)out;
	a.bias_type = (uint8_t)bias_type;
	a.act_a = a.act == RLX_ACT_CLIP ? -0.5f : 0.2f;
	a.act_b = 0.5f;
	ow.filled = a.x_plain ? (ow.channels + 7) / 8 * 8 : ow.channels;
	d.x = numbers(nx, ox, type, &x, seed);
	d.w = numbers(nw, ow, type, &w, seed);
	d.bias = numbers(a.oc, vector, bias_type, &bias, seed);
	d.res = numbers(ny, oy, out, &res, seed);
	d.y = malloc(ny * sizeof(double));
	d.mag = malloc(ny * sizeof(double));
	CHECK(d.y && d.mag);
	a.x_n = a.ic * conv_volume(a.in);
	a.y_n = a.res_n = a.oc * conv_volume(a.out);
	a.skips = rlx_g_conv_skips(&a);
	a.bias = kc_pick(seed, 0, 1) ? bias : NULL;
	a.res = kc_pick(seed, 0, 1) ? res : NULL;
	conv_reference_all(&a, &d);
	y = gpu_alloc(ny, out, 0, 0, seed);
	a.x = x;
	a.w = w;
	a.y = dev_of(y, ny * size);
	if (live_images)
		env.live = dev_of(&live_images, sizeof(live_images));
	gpu_run_kernel(how, &a, &env);
	dev_read(y, a.y, ny * size);
	ny = live_images ? ny / a.n * (size_t)live_images : ny;
	for (i = 0; i < ny; i++) {
		double got = gpu_value(y, place_of(&oy, i), out), want = d.y[i];

		CHECKF(fabs(got - want) <= tol * d.mag[i] + rounding(out) * fabs(want) + tol,
		       "type %d to %d: [%zu] is %g, not %g: %zu>%zu/%zu in %zux%zux%zu "
		       "out %zux%zux%zu k %zux%zux%zu s %zux%zux%zu%s%s", type, out, i, got, want,
		       a.ic, a.oc, a.groups, a.in[0], a.in[1], a.in[2], a.out[0], a.out[1],
		       a.out[2], a.k[0], a.k[1], a.k[2], a.s[0], a.s[1], a.s[2],
		       a.transposed ? " transposed" : "",
		       a.channels_last ? " channels last" : "");
	}
	if (live_images)
		dev_free(env.live);
	dev_free(x);
	dev_free(w);
	dev_free(bias);
	dev_free(res);
	dev_free(a.y);
	free(y);
	free(d.x);
	free(d.w);
	free(d.bias);
	free(d.res);
	free(d.y);
	free(d.mag);
}

static const int float_type[4] = { RLX_F32, RLX_BF16, RLX_F16, RLX_F64 };

TEST(random)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_nd a;

	for (int i = 0; i < 32; i++) {
		conv_shape_random(&a, i % 2, &seed);
		a.act = (enum rlx_act)kc_pick(&seed, 0, RLX_ACT_COUNT - 1);
		one_conv(&a, float_type[i / 2 % 4], rlx_g_conv_nd_launch, &seed);
	}
}

/* Each kernel that can do it in any of its tiles does, whether or not it is the fastest. */
TEST(any_candidate)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_nd a;

	gpu_judge = &any_candidate;
	for (int i = 0; i < 24; i++) {
		conv_shape_random(&a, i % 2, &seed);
		one_conv(&a, float_type[i / 2 % 4], rlx_g_conv_nd_launch, &seed);
	}
	gpu_judge = NULL;
}

/* Every tile, on shapes that alone would get the smallest. */
static struct rlx_g_conv_tile tile;
static int parts;

static void forced(const void *args, struct rlx_g_launch *l)
{
	if (rlx_g_conv_half(args))
		rlx_g_conv_mma_by(args, l, tile, (uint32_t)parts);
	else
		rlx_g_conv_simt_by(args, l, tile, (uint32_t)parts);
}

TEST(tiles)
{
	static const struct rlx_g_conv_tile tiles[] = { { 128, 128 }, { 64, 128 }, { 64, 64 } };
	static const struct rlx_g_conv_tile simt[] = { { 128, 128 }, { 64, 64 }, { 32, 128 },
						       { 16, 256 } };
	static const struct rlx_k_conv_nd shape[] = {
		{ .n = 2, .ic = 40, .oc = 70, .groups = 1, .in = { 1, 9, 11 },
		  .out = { 1, 9, 11 }, .k = { 1, 3, 3 }, .s = { 1, 1, 1 }, .d = { 1, 1, 1 },
		  .p = { 0, 1, 1 }, .act = RLX_ACT_RELU },
		/* more taps than bits, groups */
		{ .n = 1, .ic = 6, .oc = 40, .groups = 2, .in = { 1, 15, 13 },
		  .out = { 1, 6, 5 }, .k = { 1, 7, 7 }, .s = { 1, 2, 2 }, .d = { 1, 1, 1 },
		  .p = { 0, 1, 2 } },
		{ .n = 2, .ic = 24, .oc = 136, .groups = 1, .in = { 1, 5, 6 },
		  .out = { 1, 10, 13 }, .k = { 1, 4, 3 }, .s = { 1, 2, 2 }, .d = { 1, 1, 1 },
		  .p = { 0, 1, 0 }, .transposed = true, .act = RLX_ACT_SILU },
		/* a stride beyond the kernel: pixels that nothing meets */
		{ .n = 1, .ic = 16, .oc = 20, .groups = 1, .in = { 1, 1, 5 },
		  .out = { 1, 1, 14 }, .k = { 1, 1, 2 }, .s = { 1, 1, 3 }, .d = { 1, 1, 1 },
		  .transposed = true },
	};
	uint64_t seed = rlx_test_seed();

	for (size_t i = 0; i < 4; i++)
		for (int t = 0; t < 3; t++) {
			tile = tiles[t];
			parts = i < 3 ? t + 1 : 1;
			one_conv(&shape[i], t % 2 ? RLX_BF16 : RLX_F16, forced, &seed);
		}
	for (size_t i = 0; i < 4; i++)
		for (int t = 0; t < 4; t++) {
			tile = simt[t];
			parts = i < 3 ? t + 1 : 1;
			one_conv(&shape[i], RLX_F32, forced, &seed);
		}
	tile = tiles[2];
	parts = 2;
	one_conv(&shape[0], RLX_F64, forced, &seed);
}

/* One channel a group, with rows of known and unknown taps; few long sums. */
TEST(few_channels)
{
	static const struct rlx_k_conv_nd shape[] = {
		{ .n = 2, .ic = 5, .oc = 5, .groups = 5, .in = { 1, 9, 12 },
		  .out = { 1, 9, 12 }, .k = { 1, 3, 3 }, .s = { 1, 1, 1 }, .d = { 1, 1, 1 },
		  .p = { 0, 1, 1 }, .act = RLX_ACT_HARD_SWISH },
		{ .n = 1, .ic = 3, .oc = 6, .groups = 3, .in = { 1, 11, 11 },
		  .out = { 1, 6, 6 }, .k = { 1, 5, 5 }, .s = { 1, 2, 2 }, .d = { 1, 1, 1 },
		  .p = { 0, 2, 2 } },
		{ .n = 1, .ic = 4, .oc = 4, .groups = 4, .in = { 1, 4, 20 },
		  .out = { 1, 2, 8 }, .k = { 1, 2, 9 }, .s = { 1, 2, 1 }, .d = { 1, 1, 2 },
		  .p = { 0, 0, 2 } },
		{ .n = 1, .ic = 3, .oc = 3, .groups = 3, .in = { 1, 5, 6 },
		  .out = { 1, 10, 12 }, .k = { 1, 2, 4 }, .s = { 1, 2, 2 }, .d = { 1, 1, 1 },
		  .p = { 0, 0, 1 }, .transposed = true },
		{ .n = 1, .ic = 6, .oc = 2, .groups = 2, .in = { 1, 24, 25 },
		  .out = { 1, 3, 3 }, .k = { 1, 22, 23 }, .s = { 1, 1, 1 }, .d = { 1, 1, 1 } },
	};
	uint64_t seed = rlx_test_seed();

	for (size_t i = 0; i < 5; i++)
		for (int t = 0; t < 4; t++)
			one_conv(&shape[i], float_type[t], rlx_g_conv_nd_launch, &seed);
}

/* Some shape that can be channels last; x is plain where its channels have to be filled up. */
static void shape_last(struct rlx_k_conv_nd *a, uint64_t *seed)
{
	conv_shape_random(a, false, seed);
	a->channels_last = true;
	a->x_plain = a->groups == 1 && kc_pick(seed, 0, 2) == 0;
	a->y_plain = a->groups == 1 && kc_pick(seed, 0, 2) == 0;
	if (a->groups == 1 && !a->x_plain)
		a->ic = 8 * kc_pick(seed, 1, 12);
	else if (a->groups > 1)
		a->ic = a->groups * 8 * kc_pick(seed, 1, 3);
	a->act = (enum rlx_act)kc_pick(seed, 0, RLX_ACT_COUNT - 1);
}

TEST(channels_last)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_nd a;

	for (int i = 0; i < 48; i++) {
		gpu_judge = i % 2 ? &any_candidate : NULL;
		shape_last(&a, &seed);
		one_conv(&a, i / 2 % 2 ? RLX_BF16 : RLX_F16, rlx_g_conv_nd_launch, &seed);
	}
	gpu_judge = NULL;
}

/* Of one pixel, with strides: what is turned of x is what is read. */
TEST(pointwise_strided)
{
	uint64_t seed = rlx_test_seed();

	gpu_judge = &any_candidate;
	for (int i = 0; i < 32; i++) {
		struct rlx_k_conv_nd a = { .n = (size_t)kc_pick(&seed, 1, 3),
			.ic = (size_t)kc_pick(&seed, 1, 150), .oc = (size_t)kc_pick(&seed, 1, 140),
			.groups = i % 4 ? 1 : 2, .channels_last = i % 2, .x_plain = i % 2,
			.y_plain = i % 2 && kc_pick(&seed, 0, 1) };

		a.ic *= a.groups;
		a.oc *= a.groups;
		for (int d = 0; d < 3; d++) {
			bool flat = d < 2 && (i % 2 > d || kc_pick(&seed, d, 1) == 0);

			a.k[d] = a.d[d] = 1;
			a.out[d] = flat ? 1 : (size_t)kc_pick(&seed, 1, 9);
			a.s[d] = flat ? 1 : (size_t)kc_pick(&seed, 1, 3);
			a.in[d] = (a.out[d] - 1) * a.s[d] + 1;
			a.in[d] += flat ? 0 : (size_t)kc_pick(&seed, 0, (int64_t)a.s[d] - 1);
		}
		a.act = (enum rlx_act)kc_pick(&seed, 0, RLX_ACT_COUNT - 1);
		one_conv(&a, float_type[i % 2 ? 1 + i / 2 % 2 : i / 2 % 3],
			 rlx_g_conv_nd_launch, &seed);
	}
	gpu_judge = NULL;
}

/* A chip that few outputs fill, so that threads have several. */
static void small_chip(const void *args, struct rlx_g_launch *l)
{
	l->processors = 1;
	rlx_g_conv_nd_launch(args, l);
}

/* Rows of outputs at odd places, so that a thread has several. */
TEST(depthwise_rows)
{
	uint64_t seed = rlx_test_seed();
	int ran = 0;

	for (int i = 0; i < 16; i++) {
		struct rlx_k_conv_nd a = { .n = 2, .in = { 1, 1, 1 }, .out = { 1, 1, 1 },
			.k = { 1, 1, 1 }, .s = { 1, 1, 1 }, .d = { 1, 1, 1 } };

		a.ic = a.groups = (size_t)kc_pick(&seed, 40, 70);
		a.oc = a.ic * (size_t)kc_pick(&seed, 1, 2);
		for (int d = 1; d < 3; d++) {
			a.k[d] = (size_t)kc_pick(&seed, 1, 5);
			a.s[d] = (size_t)kc_pick(&seed, 1, 2);
			a.d[d] = (size_t)kc_pick(&seed, 1, i % 4 ? 1 : 2);
			a.p[d] = (size_t)kc_pick(&seed, 0, (int64_t)a.k[d] / 2);
			a.out[d] = (size_t)kc_pick(&seed, 7, 15);
			a.in[d] = (a.out[d] - 1) * a.s[d] + (a.k[d] - 1) * a.d[d] + 1 - a.p[d];
		}
		one_conv(&a, float_type[i % 4], small_chip, &seed);
		ran += !strcmp(gpu_ran, "conv_depthwise");
	}
	CHECK(ran > 0);
}

TEST(depthwise_channels_last)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 30; i++) {
		struct rlx_k_conv_nd a = { .n = (size_t)kc_pick(&seed, 1, 3),
			.channels_last = true };

		a.ic = a.oc = a.groups = (size_t)(i % 3 ? 8 * kc_pick(&seed, 1, 50) :
						  kc_pick(&seed, 1, 50));
		for (int d = 0; d < 3; d++) {
			bool flat = d < 2 && kc_pick(&seed, d, 1) == 0;

			a.k[d] = flat ? 1 : (size_t)kc_pick(&seed, 1, d ? 7 : 3);
			a.in[d] = flat ? 1 : (size_t)kc_pick(&seed, 1, d ? 12 : 4);
			a.s[d] = flat ? 1 : (size_t)kc_pick(&seed, 1, 4);
			a.d[d] = flat || kc_pick(&seed, 0, 2) ? 1 : 2;
			a.p[d] = flat ? 0 : (size_t)kc_pick(&seed, 0, (int64_t)a.k[d] / 2);
			a.out[d] = flat ? 1 : (a.in[d] + 2 * a.p[d]) / a.s[d] + 1;
		}
		a.act = (enum rlx_act)kc_pick(&seed, 0, RLX_ACT_COUNT - 1);
		one_conv(&a, float_type[i % 3], i % 5 ? small_chip : rlx_g_conv_nd_launch, &seed);
		CHECK(!strcmp(gpu_ran, "conv_depthwise_channels_last"));
	}
}

/* By warpgroups, in each tile and split in turn, as if the chip were smaller. */
static uint32_t processors;
static bool by_groups;

static void group_launch(const void *args, struct rlx_g_launch *l)
{
	static unsigned int turn;

	by_groups = l->arch == 90;
	if (!by_groups) {
		rlx_g_conv_nd_launch(args, l);
		return;
	}
	l->processors = processors;
	CHECKF(!rlx_g_conv_wgmma_why_not(args, l), "%s", rlx_g_conv_wgmma_why_not(args, l));
	do
		if (!rlx_g_conv_wgmma_plan(args, turn++, l))
			turn = 0;
	while (!l->can);
}

/* Any image and kernel, of which the padding may differ on each side. */
static void shape_group(struct rlx_k_conv_nd *a, uint64_t *seed)
{
	*a = (struct rlx_k_conv_nd){
		.n = kc_pick(seed, 1, 4), .ic = 8 * kc_pick(seed, 1, 25),
		.oc = kc_pick(seed, 1, 280), .groups = 1, .in = { 1, 1, 1 }, .out = { 1, 1, 1 },
		.k = { 1, 1, 1 }, .s = { 1, 1, 1 }, .d = { 1, 1, 1 }, .channels_last = true,
		.act = (enum rlx_act)kc_pick(seed, 0, RLX_ACT_COUNT - 1),
	};
	for (int i = kc_pick(seed, 0, 3) ? 1 : 2; i < 3; i++) {
		size_t span, full;

		a->s[i] = kc_pick(seed, 1, 3);
		a->d[i] = kc_pick(seed, 1, 2);
		do {
			a->in[i] = kc_pick(seed, 1, 9);
			a->k[i] = kc_pick(seed, 1, kc_pick(seed, 0, 3) ? 3 : 7);
			a->p[i] = kc_pick(seed, 0, 3);
			span = (a->k[i] - 1) * a->d[i] + 1;
			full = a->in[i] + a->p[i] + kc_pick(seed, 0, 3);
		} while (full < span);
		a->out[i] = (full - span) / a->s[i] + 1;
	}
	a->x_plain = kc_pick(seed, 0, 1);
	a->y_plain = kc_pick(seed, 0, 1);
	if (a->x_plain)	/* two ways of it */
		a->ic = kc_pick(seed, 1, kc_pick(seed, 0, 1) ? 8 : 150);
}

TEST(wgmma)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_k_conv_nd a;

	exact_sums = true;
	for (int i = 0; i < 72; i++) {
		processors = (uint32_t)kc_pick(&seed, 1, 24);
		shape_group(&a, &seed);
		live_images = i % 3 ? 0 : (int64_t)kc_pick(&seed, 1, a.n);
		one_conv(&a, i % 2 ? RLX_BF16 : RLX_F16, group_launch, &seed);
	}
	/* all of the stages, more than once */
	live_images = 0;
	processors = 1;
	a = (struct rlx_k_conv_nd){
		.n = 3, .ic = 136, .oc = 100, .groups = 1, .in = { 1, 7, 7 }, .out = { 1, 7, 7 },
		.k = { 1, 3, 3 }, .s = { 1, 1, 1 }, .d = { 1, 1, 1 }, .p = { 0, 1, 1 },
		.channels_last = true,
	};
	one_conv(&a, RLX_F16, group_launch, &seed);
	/* three channels and an even stride: half of the places are folded */
	a = (struct rlx_k_conv_nd){
		.n = 3, .ic = 3, .oc = 24, .groups = 1, .in = { 1, 10, 13 }, .out = { 1, 5, 7 },
		.k = { 1, 5, 7 }, .s = { 1, 2, 2 }, .d = { 1, 1, 1 }, .p = { 0, 2, 3 },
		.channels_last = true, .x_plain = true,
	};
	for (int i = 0; i < 2; i++, a.y_plain = true)
		one_conv(&a, RLX_F16, group_launch, &seed);
	exact_sums = false;
	if (!by_groups)
		rlx_test_skip("the chip has no such products: others took their place");
}

/* What a tensor map cannot say goes to another kernel. */
TEST(wgmma_refuses)
{
	const struct rlx_k_conv_nd a = {
		.n = 2, .ic = 16, .oc = 64, .groups = 1, .in = { 1, 40, 40 }, .out = { 1, 40, 40 },
		.k = { 1, 3, 3 }, .s = { 1, 1, 1 }, .d = { 1, 1, 1 }, .p = { 0, 1, 1 },
		.x_n = 16 * 1600, .y_n = 64 * 1600, .type = RLX_F16, .out_type = RLX_F32,
		.channels_last = true,
	};
	struct rlx_g_launch l = { .arch = 90 };
	struct rlx_k_conv_nd b[9];

	CHECK(!rlx_g_conv_wgmma_why_not(&a, &l));
	for (int i = 0; i < 9; i++)
		b[i] = a;
	b[0].channels_last = false;
	b[1].ic = 12;
	b[2].type = RLX_F32;
	b[3].groups = 2;
	b[4].s[1] = 9;
	b[5].p[2] = 129;
	b[6].d[1] = 128;
	b[7].in[1] = 300;	/* of which the last rows are not read */
	b[8].y_n++;
	for (int i = 0; i < 9; i++)
		CHECK(rlx_g_conv_wgmma_why_not(&b[i], &l));
	l.arch = 80;
	CHECK(rlx_g_conv_wgmma_why_not(&a, &l));
}

TEST(refuses)
{
	struct rlx_k_conv_nd a = {
		.n = 1, .ic = 4, .oc = 64, .groups = 1, .in = { 1, 4, 4 }, .out = { 1, 4, 4 },
		.k = { 1, 1, 1 }, .s = { 1, 1, 1 }, .d = { 1, 1, 1 }, .y_n = 64 * 16,
		.type = RLX_F32, .out_type = RLX_F32,
	};
	struct rlx_g_launch l = { 0 };

	rlx_g_conv_nd_launch(&a, &l);
	CHECK(l.can);
	l.can = false;
	a.y_n++;	/* images apart */
	rlx_g_conv_nd_launch(&a, &l);
	CHECK(!l.can);
	a.y_n--;
	a.in[1] = a.in[2] = 1 << 15;	/* positions beyond 32 bits */
	rlx_g_conv_nd_launch(&a, &l);
	CHECK(!l.can);
}

TEST_MAIN()
