// SPDX-License-Identifier: MIT
/* GPU kernels of positions, windows and random numbers, on the emulator. */
#include "selftests/gpu/against_cpu.h"

#include "kernels/grid.h"
#include "kernels/pool_layout.h"
#include "kernels/random.h"
#include "kernels/resize.h"
#include "kernels/roi.h"
#include "kernels/rope.h"
#include "kernels/splat.h"

static const int small_float[3] = { RLX_F32, RLX_BF16, RLX_F16 };

static void one_rope(bool off, uint64_t *seed)
{
	int t = small_float[kc_pick(seed, 0, 2)], tt = small_float[kc_pick(seed, 0, 2)];
	int64_t rot = 2 * kc_pick(seed, 1, 20), dim = rot + kc_pick(seed, 0, 9);
	int32_t told = 0;
	struct rlx_k_rope a = { .batch = kc_pick(seed, 1, 3), .heads = kc_pick(seed, 1, 3),
		.len = kc_pick(seed, 1, 9), .head_dim = dim, .n_rot = rot, .positions = 11,
		.type = (uint8_t)t, .table_type = (uint8_t)tt, .pos_type = RLX_I64,
		.pairs = kc_pick(seed, 0, 1) };
	int64_t n = a.batch * a.heads * a.len * dim;

	a.live = kc_pick(seed, 0, a.batch * a.len);
	struct gpu_field f[] = { GPU_IN(struct rlx_k_rope, x, t, n),
		GPU_IN(struct rlx_k_rope, cos, tt, 11 * rot / 2),
		GPU_IN(struct rlx_k_rope, sin, tt, 11 * rot / 2),
		GPU_IN(struct rlx_k_rope, pos, RLX_I64, a.batch * a.len),
		GPU_OUT(struct rlx_k_rope, bad, RLX_I32, 1, 0),
		GPU_OUT(struct rlx_k_rope, y, t, n, t == RLX_F32 ? 1e-6 : 1e-2) };

	a.pos_stride = a.len;
	a.x_stride[0] = a.y_stride[0] = a.heads * a.len * dim;
	a.x_stride[2] = dim;
	a.x_stride[1] = dim * a.len;
	a.y_stride[1] = dim;		/* heads inside */
	a.y_stride[2] = dim * a.heads;
	a.x = gpu_alloc((size_t)n, t, -2, 2, seed);
	a.y = gpu_alloc((size_t)n, t, 0, 0, seed);
	a.cos = gpu_alloc((size_t)(11 * rot / 2), tt, -1, 1, seed);
	a.sin = gpu_alloc((size_t)(11 * rot / 2), tt, -1, 1, seed);
	if (off || kc_pick(seed, 0, 1)) {
		a.pos = gpu_alloc((size_t)(a.batch * a.len), RLX_I64, -11, 11, seed);
		a.bad = &told;
		if (off)
			((int64_t *)(uintptr_t)a.pos)[0] = 11;
	}
	GPU_AGAINST_CPU(rope, a, (size_t)(a.batch * a.len), rlx_k_rope_scratch(&a), f,
			seed);
	CHECK_EQ(told, off && a.live > 0);
}

TEST(rope)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 12; i++)
		one_rope(i % 4 == 3, &seed);
}

TEST(rng)
{
	static const int type[] = { RLX_F64, RLX_F32, RLX_F16, RLX_BF16 };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 8; i++) {
		int64_t call = kc_pick(&seed, 0, 1 << 30);
		int t = type[i / 2];
		struct rlx_k_rng a = { .n = kc_pick(&seed, 1, 5000), .a = -1.5, .b = 2.5,
			.seed = (int64_t)rlx_test_rand(&seed), .normal = i % 2,
			.type = (uint8_t)t, .call = &call };
		struct gpu_field f[] = { GPU_IN(struct rlx_k_rng, call, RLX_I64, 1),
			/* uniform numbers to the bit; normal ones by other libraries */
			GPU_OUT(struct rlx_k_rng, y, t, a.n, !a.normal ? 1e-16 :
				t == RLX_F64 ? 1e-14 : t == RLX_F32 ? 1e-7 : 4e-3) };

		a.y = gpu_alloc((size_t)a.n, t, 0, 0, &seed);
		GPU_AGAINST_CPU(rng, a,
				(size_t)((a.n + RLX_K_RNG_UNIT - 1) / RLX_K_RNG_UNIT), 0, f,
				&seed);
	}
}

TEST(sample)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 14; i++) {
		int64_t call = kc_pick(&seed, 0, 99);
		int32_t told = 0;
		struct rlx_k_sample a = { .rows = kc_pick(&seed, 1, 5),
			.n = kc_pick(&seed, 1, 700), .seed = (int64_t)rlx_test_rand(&seed),
			.top_k = i % 3 ? kc_pick(&seed, 1, 60) : 0,
			.top_p = i % 2 ? 0.7f : 0, .temperature = i == 5 ? 0 : 0.8f,
			.call = &call, .bad = &told };

		a.live = kc_pick(&seed, 0, a.rows);
		struct gpu_field f[] = { GPU_IN(struct rlx_k_sample, x, RLX_F32, a.rows * a.n),
			GPU_IN(struct rlx_k_sample, call, RLX_I64, 1),
			GPU_OUT(struct rlx_k_sample, bad, RLX_I32, 1, 0),
			GPU_OUT(struct rlx_k_sample, y, RLX_I64, a.rows, 0) };
		float *x = gpu_alloc((size_t)(a.rows * a.n), RLX_F32, -4, 4, &seed);

		/* many equals; a row that cannot be drawn from */
		for (int64_t k = 0; k < a.rows * a.n && i % 4 == 1; k++)
			x[k] = rintf(x[k]);
		if (i == 6)
			x[0] = NAN;
		a.x = x;
		a.y = gpu_alloc((size_t)a.rows, RLX_I64, 0, 0, &seed);
		GPU_AGAINST_CPU(sample, a, (size_t)a.rows, rlx_k_sample_scratch(&a),
				f, &seed);
		CHECK_EQ(told, i == 6 && a.live > 0);
	}
}

static struct rlx_k_pool pool_any(uint64_t *s)
{
	struct rlx_k_pool a = { .planes = (size_t)kc_pick(s, 1, 4) };

	for (int d = 0; d < 3; d++) {
		a.in[d] = (size_t)kc_pick(s, 1, d ? 14 : 4);
		a.k[d] = (size_t)kc_pick(s, 1, 4);
		a.s[d] = (size_t)kc_pick(s, 1, 3);
		a.d[d] = (size_t)kc_pick(s, 1, 2);
		a.p[d] = (size_t)kc_pick(s, 0, 2);
		a.p_end[d] = (size_t)kc_pick(s, 0, 2);
		a.out[d] = (size_t)kc_pick(s, 1, 9);
	}
	return a;
}

/*
 * As models have them: two dimensions, square windows side by side, the channels ahead of
 * them or last; many planes, so that threads have as many outputs as they may.
 */
static struct rlx_k_pool pool_square(bool last, uint64_t *s)
{
	struct rlx_k_pool a = { .planes = (size_t)kc_pick(s, 1, last ? 3 : 40),
		.in = { 1, 1, 1 }, .out = { 1, 1, 1 }, .k = { 1, 1, 1 }, .s = { 1, 1, 1 },
		.d = { 1, 1, 1 } };
	size_t k = (size_t)kc_pick(s, 1, 7), by = (size_t)kc_pick(s, 1, 4);
	size_t p = (size_t)kc_pick(s, 0, (int64_t)k / 2);

	for (int d = last ? 0 : 1; d < (last ? 2 : 3); d++) {
		a.in[d] = k + (size_t)kc_pick(s, 0, 24);
		if (kc_pick(s, 0, 1))
			a.in[d] = (a.in[d] + 7) / 8 * 8;
		a.k[d] = k;
		a.s[d] = by;
		a.p[d] = a.p_end[d] = p;
		a.out[d] = (a.in[d] + 2 * p - k) / by + 1;
	}
	if (last)
		a.in[2] = a.out[2] = (size_t)(kc_pick(s, 0, 1) ? 8 * kc_pick(s, 1, 9) :
					      kc_pick(s, 2, 40));
	return a;
}

/* One window a plane, or a few large ones. */
static struct rlx_k_pool pool_global(bool last, uint64_t *s)
{
	struct rlx_k_pool a = pool_square(last, s);

	for (int d = last ? 0 : 1; d < (last ? 2 : 3); d++) {
		a.in[d] = (size_t)kc_pick(s, 3, 60);
		a.k[d] = a.in[d];
		a.p[d] = a.p_end[d] = 0;
		a.s[d] = 1;
		a.out[d] = 1;
		if (kc_pick(s, 0, 1)) {
			a.k[d] = (a.in[d] + 1) / 2;
			a.out[d] = a.in[d] - a.k[d] + 1;
			a.out[d] = a.out[d] < 3 ? a.out[d] : 3;
		}
	}
	return a;
}

/* Of a chip so small that these few outputs fill it, so that threads have several. */
static void pool_few(const void *args, struct rlx_g_launch *l)
{
	l->processors = 1;
	rlx_g_pool_f32_launch(args, l);
}

static void pool_wide(const void *args, struct rlx_g_launch *l)
{
	pool_few(args, l);
	if (l->variant == RLX_G_pool_f32)
		l->param.pool_f32.POOL_WIDE = 1;
	else
		l->param.pool_lanes.POOL_WIDE = 1;
}

/* What the CPU's kernel, which is of f32, makes of narrower elements. */
static void pool_cpu(const void *args, size_t begin, size_t end, void *scratch)
{
	struct rlx_k_pool a = *(const struct rlx_k_pool *)args;
	size_t in = a.planes * a.in[0] * a.in[1] * a.in[2], row = a.out[2];
	size_t out = a.planes * a.out[0] * a.out[1] * row;
	float *x = malloc(in * sizeof(*x)), *y = malloc(out * sizeof(*y));
	void *to = a.y;

	CHECK(x && y);
	for (size_t i = 0; i < in; i++)
		x[i] = (float)gpu_value(a.x, i, a.type);
	a.x = x;
	a.y = y;
	rlx_kernels_get(RLX_ISA_BASE)->pool_f32(&a, begin, end, scratch);
	for (size_t i = begin * row; i < end * row; i++) {
		_Float16 h = (_Float16)y[i];

		if (a.type == RLX_F32)
			((float *)to)[i] = y[i];
		else if (a.type == RLX_BF16)
			((uint16_t *)to)[i] = kc_to_bf16(y[i]);
		else
			memcpy((uint16_t *)to + i, &h, 2);
	}
	free(x);
	free(y);
}

static void one_pool(struct rlx_k_pool a, gpu_launch_fn *launch, uint64_t *s)
{
	size_t in = a.planes * a.in[0] * a.in[1] * a.in[2];
	size_t out = a.planes * a.out[0] * a.out[1] * a.out[2];
	int type = small_float[kc_pick(s, 0, 2)];
	struct gpu_field f[] = { GPU_IN(struct rlx_k_pool, x, type, in),
		GPU_OUT(struct rlx_k_pool, index, RLX_I64, out, 0),
		GPU_OUT(struct rlx_k_pool, y, type, out, type == RLX_F32 ? 2e-6 :
			type == RLX_F16 ? 1e-3 : 8e-3) };
	struct gpu_case c = { .name = "pool", .launch = launch, .cpu = pool_cpu, .args = &a,
			      .size = sizeof(a), .units = a.planes * a.out[0] * a.out[1],
			      .scratch = rlx_k_pool_scratch(&a, 4, a.index), .field = f, .n = 3 };
	float *x = gpu_alloc(in, type, -2, 2, s);

	a.type = (uint8_t)type;
	a.lp = (unsigned int)kc_pick(s, 1, 3);
	a.kind = (enum rlx_k_pool_kind)kc_pick(s, 0, 2);
	a.include_pad = kc_pick(s, 0, 1);
	a.column_major = kc_pick(s, 0, 1);
	if (a.kind == RLX_K_POOL_MAX && kc_pick(s, 0, 1))
		a.index = gpu_alloc(out, RLX_I64, 0, 0, s);
	c.scratch = rlx_k_pool_scratch(&a, 4, a.index);
	for (size_t i = 0; i < in && type == RLX_F32 && kc_pick(s, 0, 9); i++)
		x[i] = kc_pick(s, 0, 300) ? rintf(x[i] * 3) : NAN;	/* many equals */
	a.x = x;
	a.y = gpu_alloc(out, type, 0, 0, s);
	gpu_against_cpu(&c, s);
	free(x);
	free(a.y);
	free(a.index);
}

TEST(pool)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 24; i++)
		one_pool(pool_any(&seed), i % 3 ? pool_few : pool_wide, &seed);
}

TEST(pool_square)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 40; i++)
		one_pool(pool_square(i % 2, &seed), i % 8 > 1 ? pool_few : i % 8 ? pool_wide :
			 rlx_g_pool_f32_launch,
			 &seed);
}

TEST(pool_global)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 24; i++)
		one_pool(pool_global(i % 2, &seed), i % 8 > 1 ? pool_few : i % 8 ? pool_wide :
			 rlx_g_pool_f32_launch,
			 &seed);
}

static void one_resize(bool nearest, uint64_t *s)
{
	struct rlx_k_resize a = { .planes = (size_t)kc_pick(s, 1, 3), .outside = 7,
				  .esize = nearest ? (size_t)1 << kc_pick(s, 0, 3) : 4 };
	int64_t in = (int64_t)a.planes, out = in, n_index[3], n_weight[3];

	for (int d = 0; d < 3; d++) {
		struct rlx_k_resize_axis *x = &a.axis[d];
		size_t size = (size_t)kc_pick(s, 1, 12);
		bool keep = kc_pick(s, 0, 2) == 0;

		*x = (struct rlx_k_resize_axis){ size, keep ? size : (size_t)kc_pick(s, 1, 15),
			keep || nearest ? 1 : (size_t)kc_pick(s, 1, 4), NULL, NULL };
		n_index[d] = n_weight[d] = 0;
		if (!keep) {
			n_index[d] = (int64_t)(x->out * x->taps);
			x->index = gpu_alloc((size_t)n_index[d], RLX_I32, 0, (double)size, s);
			if (!nearest && kc_pick(s, 0, 1))
				((int32_t *)(uintptr_t)x->index)[0] = -1;
		}
		if (!keep && !nearest) {
			n_weight[d] = n_index[d];
			x->weight = gpu_alloc((size_t)n_weight[d], RLX_F32, -1, 1, s);
		}
		in *= (int64_t)x->in;
		out *= (int64_t)x->out;
	}
	{
		int t = !nearest ? RLX_F32 : a.esize == 1 ? RLX_U8 : a.esize == 2 ?
			RLX_U16 : a.esize == 4 ? RLX_U32 : RLX_I64;
		struct gpu_field f[] = { GPU_IN(struct rlx_k_resize, x, t, in),
			GPU_IN(struct rlx_k_resize, axis[0].index, RLX_I32, n_index[0]),
			GPU_IN(struct rlx_k_resize, axis[1].index, RLX_I32, n_index[1]),
			GPU_IN(struct rlx_k_resize, axis[2].index, RLX_I32, n_index[2]),
			GPU_IN(struct rlx_k_resize, axis[0].weight, RLX_F32, n_weight[0]),
			GPU_IN(struct rlx_k_resize, axis[1].weight, RLX_F32, n_weight[1]),
			GPU_IN(struct rlx_k_resize, axis[2].weight, RLX_F32, n_weight[2]),
			GPU_OUT(struct rlx_k_resize, y, t, out, nearest ? 0 : 1e-5) };
		size_t units = a.planes * a.axis[0].out * a.axis[1].out;

		a.x = gpu_alloc((size_t)in, t, nearest ? 0 : -2, nearest ? 200 : 2, s);
		a.y = gpu_alloc((size_t)out, t, 0, 0, s);
		if (nearest)
			GPU_AGAINST_CPU(resize_nearest, a, units, 0, f, s);
		else
			GPU_AGAINST_CPU(resize_f32, a, units,
					rlx_resize_scratch(&a, 1), f, s);
	}
}

TEST(resize)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 24; i++)
		one_resize(i % 2, &seed);
}

static const int any_float[4] = { RLX_F32, RLX_F64, RLX_BF16, RLX_F16 };

static double tol_of(int type)
{
	return type == RLX_F64 ? 1e-12 : type == RLX_F32 ? 1e-5 : 1e-2;
}

/* Places in and out of the image, one of them no number, over some axes. */
static void one_grid(int nd, int taps, int type, uint64_t *s)
{
	int gt = any_float[kc_pick(s, 0, 1)];
	struct rlx_k_grid_sample a = { .images = kc_pick(s, 1, 3), .channels = kc_pick(s, 1, 6),
		.places = kc_pick(s, 1, 300), .in = { 1, 1, 1 }, .nd = (uint8_t)nd,
		.taps = (uint8_t)taps, .padding = (uint8_t)kc_pick(s, 0, 2),
		.align_corners = kc_pick(s, 0, 1), .type = (uint8_t)type,
		.grid_type = (uint8_t)gt };
	int64_t planes = a.images * a.channels, n = planes, m = a.images * a.places * nd;

	for (int d = 0; d < nd; d++)
		n *= a.in[d] = kc_pick(s, 1, 9);
	struct gpu_field f[] = { GPU_IN(struct rlx_k_grid_sample, x, type, n),
		GPU_IN(struct rlx_k_grid_sample, grid, gt, m),
		GPU_OUT(struct rlx_k_grid_sample, y, type, planes * a.places, tol_of(type)) };

	a.x = gpu_alloc((size_t)n, type, -2, 2, s);
	a.grid = gpu_alloc((size_t)m, gt, -2.5, 2.5, s);
	a.y = gpu_alloc((size_t)(planes * a.places), type, 0, 0, s);
	memset((char *)(uintptr_t)a.grid, 0xff, rlx_k_type_size((enum rlx_dtype)gt));
	GPU_AGAINST_CPU(grid_sample, a, rlx_k_grid_sample_units(&a), 0, f, s);
}

TEST(grid_sample)
{
	static const int form[][3] = { { 1, 4, RLX_F16 }, { 2, 1, RLX_BF16 },
		{ 2, 2, RLX_F32 }, { 2, 4, RLX_F32 }, { 3, 2, RLX_F64 } };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 15; i++)
		one_grid(form[i % 5][0], form[i % 5][1], form[i % 5][2], &seed);
}

/* Regions that are upside down or beside the image; @bad: one is no number, or nowhere. */
static void one_roi(int type, int bad, uint64_t *s)
{
	int rt = any_float[kc_pick(s, 0, 1)];
	int32_t told = 0;
	struct rlx_k_roi_align a = { .images = kc_pick(s, 1, 3), .channels = kc_pick(s, 1, 4),
		.regions = kc_pick(s, 1, 9), .in = { kc_pick(s, 1, 20), kc_pick(s, 1, 20) },
		.out = { kc_pick(s, 1, 4), kc_pick(s, 1, 4) },
		.sampling = kc_pick(s, 0, 1) * kc_pick(s, 1, 3), .scale = 0.375,
		.max = kc_pick(s, 0, 1), .half_pixel = kc_pick(s, 0, 1),
		.type = (uint8_t)type, .roi_type = (uint8_t)rt, .batch_type = RLX_I32,
		.bad = &told };
	int64_t n = a.images * a.channels * a.in[0] * a.in[1];
	int64_t out = a.regions * a.channels * a.out[0] * a.out[1];

	a.live = kc_pick(s, 0, a.regions);
	struct gpu_field f[] = { GPU_IN(struct rlx_k_roi_align, x, type, n),
		GPU_IN(struct rlx_k_roi_align, rois, rt, 4 * a.regions),
		GPU_IN(struct rlx_k_roi_align, batch, RLX_I32, a.regions),
		GPU_OUT(struct rlx_k_roi_align, bad, RLX_I32, 1, 0),
		GPU_OUT(struct rlx_k_roi_align, y, type, out, tol_of(type)) };

	a.x = gpu_alloc((size_t)n, type, -2, 2, s);
	a.y = gpu_alloc((size_t)out, type, 0, 0, s);
	a.rois = gpu_alloc((size_t)(4 * a.regions), rt, -10, 70, s);
	a.batch = gpu_alloc((size_t)a.regions, RLX_I32, (double)-a.images, (double)a.images, s);
	if (bad == 1)
		memset((char *)(uintptr_t)a.rois, 0xff, rlx_k_type_size((enum rlx_dtype)rt));
	if (bad == 2)
		((int32_t *)(uintptr_t)a.batch)[0] = (int32_t)a.images;
	GPU_AGAINST_CPU(roi_align, a, rlx_k_roi_align_units(&a), 0, f, s);
	CHECK_EQ(told, bad && a.live);
}

TEST(roi_align)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 16; i++)
		one_roi(any_float[i % 4], i < 14 ? 0 : i - 13, &seed);
}

/* Splats all over an image, some beside it; a few have no number, or no place. */
static void draw_splats(float *splats, float *boxes, int64_t n, int64_t w, int64_t h, uint64_t *s)
{
	for (int64_t i = 0; i < n; i++) {
		float *p = splats + RLX_K_SPLAT_FIELDS * i, *b = boxes + 4 * i;
		float r = (float)rlx_test_uniform(s, 1, 12);

		p[0] = (float)rlx_test_uniform(s, -4, (double)w + 4);
		p[1] = (float)rlx_test_uniform(s, -4, (double)h + 4);
		p[2] = 4 / (r * r);
		p[3] = p[2] * (float)rlx_test_uniform(s, -0.8, 0.8);
		p[4] = p[2] * (float)rlx_test_uniform(s, 0.8, 2);
		for (int k = 5; k < RLX_K_SPLAT_FIELDS; k++)
			p[k] = (float)rlx_test_uniform(s, 0, 1.1);
		for (int k = 0; k < 4; k++)
			b[k] = p[k % 2] + (k < 2 ? -r : r) * (float)rlx_test_uniform(s, 0.5, 1);
		if (i % 16 == 7)
			b[i / 16 % 4] = NAN;
		if (i % 16 == 9)
			p[i / 16 % 6] = NAN;
	}
}

static void one_splat(bool back, uint64_t *s)
{
	const int64_t n = kc_pick(s, 0, 3) ? kc_pick(s, 1, 600) : kc_pick(s, 0, 3);
	const int64_t w = kc_pick(s, 1, 50), h = kc_pick(s, 1, 40);
	float *splats = (float *)(uintptr_t)gpu_alloc((size_t)(n ? 9 * n : 1), RLX_F32, 0, 0, s);
	float *boxes = (float *)(uintptr_t)gpu_alloc((size_t)(n ? 4 * n : 1), RLX_F32, 0, 0, s);
	struct rlx_k_splat_blend a = { .splats = splats, .boxes = boxes, .n = n, .width = w,
		.height = h, .background = gpu_alloc(3, RLX_F32, 0, 1, s) };
	struct rlx_k_splat_blend_grad d = { .splats = splats, .boxes = boxes, .n = n, .width = w,
		.height = h, .background = a.background, .parts = kc_pick(s, 1, 6) };
	struct gpu_field f[] = { GPU_IN(struct rlx_k_splat_blend, splats, RLX_F32, 9 * n),
		GPU_IN(struct rlx_k_splat_blend, boxes, RLX_F32, 4 * n),
		GPU_IN(struct rlx_k_splat_blend, background, RLX_F32, 3),
		GPU_OUT(struct rlx_k_splat_blend, y, RLX_F32, 4 * w * h, 2e-4) };
	struct gpu_field fd[] = { GPU_IN(struct rlx_k_splat_blend_grad, splats, RLX_F32, 9 * n),
		GPU_IN(struct rlx_k_splat_blend_grad, boxes, RLX_F32, 4 * n),
		GPU_IN(struct rlx_k_splat_blend_grad, background, RLX_F32, 3),
		GPU_IN(struct rlx_k_splat_blend_grad, dy, RLX_F32, 4 * w * h),
		GPU_OUT(struct rlx_k_splat_blend_grad, d, RLX_F32, 9 * n * d.parts, 1e-2) };

	draw_splats(splats, boxes, n, w, h, s);
	if (!back) {
		a.y = gpu_alloc((size_t)(4 * w * h), RLX_F32, 0, 0, s);
		GPU_AGAINST_CPU(splat_blend, a, rlx_k_splat_strips(&a), rlx_k_splat_scratch(n), f,
				s);
		return;
	}
	d.dy = gpu_alloc((size_t)(4 * w * h), RLX_F32, -1, 1, s);
	d.d = gpu_alloc((size_t)(n ? 9 * n * d.parts : 1), RLX_F32, 0, 0, s);
	GPU_AGAINST_CPU(splat_blend_grad, d, (size_t)d.parts, rlx_k_splat_scratch(n), fd, s);
}

TEST(splats)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 6; i++)
		one_splat(i % 2, &seed);
}

TEST_MAIN()
