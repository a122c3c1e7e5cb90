// SPDX-License-Identifier: MIT
/* GPU kernels of positions, windows and random numbers, on the emulator. */
#include "selftests/gpu/against_cpu.h"

#include "kernels/grid.h"
#include "kernels/pool_layout.h"
#include "kernels/random.h"
#include "kernels/resize.h"
#include "kernels/roi.h"
#include "kernels/rope.h"

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

static void one_pool(uint64_t *s)
{
	struct rlx_k_pool a = { .planes = (size_t)kc_pick(s, 1, 4), .type = RLX_F32,
		.lp = (unsigned int)kc_pick(s, 1, 3),
		.kind = (enum rlx_k_pool_kind)kc_pick(s, 0, 2),
		.include_pad = kc_pick(s, 0, 1), .column_major = kc_pick(s, 0, 1) };
	int64_t in = (int64_t)a.planes, out = in;

	for (int d = 0; d < 3; d++) {
		a.in[d] = (size_t)kc_pick(s, 1, d ? 14 : 4);
		a.k[d] = (size_t)kc_pick(s, 1, 4);
		a.s[d] = (size_t)kc_pick(s, 1, 3);
		a.d[d] = (size_t)kc_pick(s, 1, 2);
		a.p[d] = (size_t)kc_pick(s, 0, 2);
		a.p_end[d] = (size_t)kc_pick(s, 0, 2);
		a.out[d] = (size_t)kc_pick(s, 1, 9);
		in *= (int64_t)a.in[d];
		out *= (int64_t)a.out[d];
	}
	{
		struct gpu_field f[] = { GPU_IN(struct rlx_k_pool, x, RLX_F32, in),
			GPU_OUT(struct rlx_k_pool, index, RLX_I64, out, 0),
			GPU_OUT(struct rlx_k_pool, y, RLX_F32, out, 1e-5) };

		a.x = gpu_alloc((size_t)in, RLX_F32, -2, 2, s);
		a.y = gpu_alloc((size_t)out, RLX_F32, 0, 0, s);
		if (a.kind == RLX_K_POOL_MAX)
			a.index = gpu_alloc((size_t)out, RLX_I64, 0, 0, s);
		GPU_AGAINST_CPU(pool_f32, a, a.planes * a.out[0] * a.out[1],
				rlx_k_pool_scratch(&a, 4), f, s);
	}
}

TEST(pool)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 16; i++)
		one_pool(&seed);
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

TEST_MAIN()
