// SPDX-License-Identifier: MIT
/* GPU kernels that quantise and back, on the emulator. */
#include "kernels/blocks.h"
#include "kernels/cast.h"
#include "kernels/gemm.h"
#include "kernels/quant.h"
#include "selftests/gpu/against_cpu.h"

static const int small_float[3] = { RLX_F32, RLX_BF16, RLX_F16 };
static const int quantised[6] = {
	RLX_I8, RLX_U8, RLX_I16, RLX_U16, RLX_F8E4M3, RLX_F8E5M2,
};

/* One scale, one for each place of the axis, or one for each block of it. */
static int64_t shape(struct rlx_k_quant *a, uint64_t *seed)
{
	a->outer = kc_pick(seed, 1, 3);
	a->axis = kc_pick(seed, 1, 5) * 4;
	a->inner = kc_pick(seed, 0, 1) ? 1 : kc_pick(seed, 2, 40);
	a->block = 1;
	switch (kc_pick(seed, 0, 2)) {
	case 0:
		return 1;
	case 1:
		a->stride[1] = 1;
		return a->axis;
	}
	a->block = 4;
	a->stride[0] = a->axis / 4 * a->inner;
	a->stride[1] = a->inner;
	a->stride[2] = 1;
	return a->outer * a->stride[0];
}

static void one_quantize(uint64_t *seed)
{
	struct rlx_k_quant a = {
		.x_type = (uint8_t)small_float[kc_pick(seed, 0, 2)],
		.y_type = (uint8_t)quantised[kc_pick(seed, 0, 5)],
		.scale_type = (uint8_t)small_float[kc_pick(seed, 0, 2)],
	};
	int64_t scales = shape(&a, seed), n = a.outer * a.axis * a.inner;
	bool whole = !rlx_k_type_float((enum rlx_dtype)a.y_type);
	struct gpu_field f[] = {
		GPU_IN(struct rlx_k_quant, x, a.x_type, n),
		GPU_IN(struct rlx_k_quant, scale, a.scale_type, scales),
		GPU_IN(struct rlx_k_quant, zp, a.y_type, scales),
		GPU_OUT(struct rlx_k_quant, y, a.y_type, n, 0),
	};

	a.x = gpu_alloc((size_t)n, a.x_type, -300, 300, seed);
	a.scale = gpu_alloc((size_t)scales, a.scale_type, 0.5, 2, seed);
	if (whole && kc_pick(seed, 0, 1))
		a.zp = gpu_alloc((size_t)scales, a.y_type, 0, 100, seed);
	if (a.x_type == RLX_F32)
		((float *)(uintptr_t)a.x)[kc_pick(seed, 0, n - 1)] = NAN;
	a.y = gpu_alloc((size_t)n, a.y_type, 0, 0, seed);
	GPU_AGAINST_CPU(quantize, a, rlx_k_quant_units(&a), 0, f, seed);
}

TEST(quantize)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 12; i++)
		one_quantize(&seed);
}

static void one_dequantize(uint64_t *seed)
{
	int k = (int)kc_pick(seed, 0, 6);
	struct rlx_k_quant a = {
		.x_type = (uint8_t)(k == 6 ? RLX_I32 : quantised[k]),
		.y_type = (uint8_t)small_float[kc_pick(seed, 0, 2)],
		.scale_type = (uint8_t)small_float[kc_pick(seed, 0, 2)],
	};
	int64_t scales = shape(&a, seed), n = a.outer * a.axis * a.inner;
	bool f8 = rlx_k_type_float((enum rlx_dtype)a.x_type);
	struct gpu_field f[] = {
		GPU_IN(struct rlx_k_quant, x, a.x_type, n),
		GPU_IN(struct rlx_k_quant, scale, a.scale_type, scales),
		GPU_IN(struct rlx_k_quant, zp, a.x_type, scales),
		GPU_OUT(struct rlx_k_quant, y, a.y_type, n, 1e-6),
	};

	/* as bytes, fp8 are any of its numbers, NaN too */
	a.x = gpu_alloc((size_t)n, f8 ? RLX_U8 : a.x_type, 0, 120, seed);
	a.scale = gpu_alloc((size_t)scales, a.scale_type, 0.5, 2, seed);
	if (!f8 && kc_pick(seed, 0, 1))
		a.zp = gpu_alloc((size_t)scales, a.x_type, 0, 100, seed);
	a.y = gpu_alloc((size_t)n, a.y_type, 0, 0, seed);
	GPU_AGAINST_CPU(dequantize, a, rlx_k_quant_units(&a), 0, f, seed);
}

TEST(dequantize)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 12; i++)
		one_dequantize(&seed);
}

TEST(dequant_blocks)
{
	uint64_t seed = rlx_test_seed();

	for (int s = RLX_SCHEME_Q4_0; s < RLX_SCHEME_COUNT; s++) {
		int64_t n = kc_pick(&seed, 1, 5);
		struct rlx_k_dequant_blocks a = {
			.scheme = (uint8_t)s, .n = n * rlx_block_elements(s),
			.y_type = (uint8_t)small_float[kc_pick(&seed, 0, 2)],
		};
		struct gpu_field f[] = {
			GPU_IN(struct rlx_k_dequant_blocks, x, RLX_U8, n * rlx_block_bytes(s)),
			GPU_OUT(struct rlx_k_dequant_blocks, y, a.y_type, a.n, 0),
		};

		/* scales that are floats are finite */
		a.x = gpu_alloc((size_t)(n * rlx_block_bytes(s)), RLX_U8, 0, 120, &seed);
		a.y = gpu_alloc((size_t)a.n, a.y_type, 0, 0, &seed);
		GPU_AGAINST_CPU(dequant_blocks, a, rlx_k_dequant_blocks_units(&a), 0, f, &seed);
	}
}

TEST(quant_range_and_params)
{
	uint64_t seed = rlx_test_seed();
	int64_t n = kc_pick(&seed, 1, 50000);
	int64_t pieces = (n + RLX_K_RANGE_UNIT - 1) / RLX_K_RANGE_UNIT;
	struct rlx_k_quant_range r = {
		.x = gpu_alloc((size_t)n, RLX_F32, -2, 5, &seed),
		.range = gpu_alloc((size_t)pieces * 2, RLX_F32, 0, 0, &seed), .n = n,
	};
	struct rlx_k_quant_params p = {
		.range = r.range, .pieces = pieces,
		.scale = gpu_alloc(1, RLX_F32, 0, 0, &seed),
		.zp = gpu_alloc(1, RLX_U8, 0, 0, &seed),
	};
	struct gpu_field rf[] = {
		GPU_IN(struct rlx_k_quant_range, x, RLX_F32, n),
		GPU_OUT(struct rlx_k_quant_range, range, RLX_F32, pieces * 2, 0),
	};
	struct gpu_field pf[] = {
		GPU_IN(struct rlx_k_quant_params, range, RLX_F32, pieces * 2),
		GPU_OUT(struct rlx_k_quant_params, scale, RLX_F32, 1, 1e-7),
		GPU_OUT(struct rlx_k_quant_params, zp, RLX_U8, 1, 0),
	};

	GPU_AGAINST_CPU(quant_range, r, (size_t)pieces, 0, rf, &seed);
	/* the CPU's kernel has filled the ranges */
	GPU_AGAINST_CPU(quant_params, p, 1, 0, pf, &seed);
}

TEST(quant_rows)
{
	uint64_t seed = rlx_test_seed();
	int64_t rows = kc_pick(&seed, 1, 9), n = kc_pick(&seed, 1, 700);
	struct rlx_k_quant_rows a = {
		.x = gpu_alloc((size_t)(rows * n), RLX_F32, -2, 5, &seed),
		.y = gpu_alloc((size_t)(rows * n), RLX_I8, 0, 0, &seed),
		.scale = gpu_alloc((size_t)rows, RLX_F32, 0, 0, &seed),
		.rows = rows, .n = n,
	};
	struct gpu_field f[] = {
		GPU_IN(struct rlx_k_quant_rows, x, RLX_F32, rows * n),
		GPU_OUT(struct rlx_k_quant_rows, y, RLX_I8, rows * n, 0),
		GPU_OUT(struct rlx_k_quant_rows, scale, RLX_F32, rows, 1e-7),
	};

	GPU_AGAINST_CPU(quant_rows, a, (size_t)rows, 0, f, &seed);
}

/* @align: of rows of a and b, which whole pieces of 16 bytes may be read of then. */
static void one_gemm_i8(size_t m, size_t n, size_t k, size_t align, uint64_t *seed)
{
	size_t batch = (size_t)kc_pick(seed, 1, 2), cols = (size_t)kc_pick(seed, 0, 1);
	size_t lda = (k + align - 1) / align * align, ldb = cols ? lda : (n + align - 1) /
		     align * align, b_rows = cols ? n : k;
	struct rlx_k_gemm_i8 a = {
		.g = { .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = n, .ldr = n,
		       .alpha = 1.0 / 1024, .beta = 0.5,
		       .b_form = cols ? RLX_B_COLS : RLX_B_ROWS,
		       .act = (enum rlx_act)kc_pick(seed, 0, 1), .batch = { 1, batch },
		       .a_step = { 0, m * lda }, .b_step = { 0, b_rows * ldb },
		       .c_step = { 0, m * n }, .r_step = { 0, m * n } },
		.out = (enum rlx_k_i8_out)kc_pick(seed, 0, 3),
		.a_signed = kc_pick(seed, 0, 1), .b_signed = kc_pick(seed, 0, 1),
		.a_zero = (int32_t)kc_pick(seed, 0, 1) * (int32_t)kc_pick(seed, 0, 128),
		.b_zero = (int32_t)kc_pick(seed, 0, 1) * (int32_t)kc_pick(seed, 0, 128),
		.c_zero = (int32_t)kc_pick(seed, 0, 20), .requant = 0.5f,
	};
	bool real = a.out == RLX_I8_OUT_F32;	/* others are to the bit: no rounding before */
	int ct = a.out == RLX_I8_OUT_I32 ? RLX_I32 : a.out == RLX_I8_OUT_F32 ? RLX_F32 :
		 a.out == RLX_I8_OUT_U8 ? RLX_U8 : RLX_I8;
	struct gpu_field f[] = {
		GPU_IN(struct rlx_k_gemm_i8, g.a, RLX_U8, batch * a.g.a_step[1]),
		GPU_IN(struct rlx_k_gemm_i8, g.b, RLX_U8, batch * a.g.b_step[1]),
		GPU_IN(struct rlx_k_gemm_i8, g.bias, RLX_F32, n),
		GPU_IN(struct rlx_k_gemm_i8, g.residual, RLX_F32, batch * m * n),
		GPU_IN(struct rlx_k_gemm_i8, a_zeros, RLX_I32, m),
		GPU_IN(struct rlx_k_gemm_i8, b_zeros, RLX_I32, n),
		GPU_IN(struct rlx_k_gemm_i8, ibias, RLX_I32, n),
		GPU_IN(struct rlx_k_gemm_i8, scales, RLX_F32, n),
		GPU_IN(struct rlx_k_gemm_i8, row_scales, RLX_F32, m),
		GPU_OUT(struct rlx_k_gemm_i8, g.c, ct, batch * m * n, real ? 1e-5 : 0),
	};

	a.g.a = gpu_alloc(batch * a.g.a_step[1], RLX_U8, 0, 256, seed);
	a.g.b = gpu_alloc(batch * a.g.b_step[1], RLX_U8, 0, 256, seed);
	a.g.bias = real && kc_pick(seed, 0, 1) ? gpu_alloc(n, RLX_F32, -9, 9, seed) : NULL;
	if (real && kc_pick(seed, 0, 1))
		a.g.residual = gpu_alloc(batch * m * n, RLX_F32, -9, 9, seed);
	a.a_zeros = kc_pick(seed, 0, 1) ? gpu_alloc(m, RLX_I32, -128, 127, seed) : NULL;
	a.b_zeros = kc_pick(seed, 0, 1) ? gpu_alloc(n, RLX_I32, -128, 127, seed) : NULL;
	a.ibias = kc_pick(seed, 0, 1) ? gpu_alloc(n, RLX_I32, -9999, 9999, seed) : NULL;
	a.scales = real && kc_pick(seed, 0, 1) ? gpu_alloc(n, RLX_F32, 0.1, 2, seed) : NULL;
	a.row_scales = real && kc_pick(seed, 0, 1) ? gpu_alloc(m, RLX_F32, 0.1, 2, seed) : NULL;
	a.g.c = gpu_alloc(batch * m * n, ct, 0, 0, seed);
	GPU_AGAINST_CPU(gemm_i8, a, rlx_k_gemm_low_units(&a.g, RLX_ISA_BASE),
			rlx_k_gemm_low_scratch(&a.g, RLX_ISA_BASE), f, seed);
}

TEST(gemm_i8)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 24; i++)	/* as it comes, and by whole pieces */
		one_gemm_i8((size_t)kc_pick(&seed, 1, 90), (size_t)kc_pick(&seed, 1, 90),
			    (size_t)kc_pick(&seed, 1, 300), i % 2 ? 16 : 1, &seed);
	for (int i = 0; i < 2; i++)	/* by large tiles */
		one_gemm_i8(48 * 128 - 5, 129, 33, i ? 16 : 1, &seed);
}

TEST(cast)
{
	static const int type[] = { RLX_I8, RLX_U8 };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 2; i++) {
		struct rlx_k_cast a = { .n = kc_pick(&seed, 1, 999), .dst_type = RLX_I32,
					.src_type = (uint8_t)type[i] };
		struct gpu_field f[] = {
			GPU_IN(struct rlx_k_cast, src, type[i], a.n),
			GPU_OUT(struct rlx_k_cast, dst, RLX_I32, a.n, 0),
		};

		a.src = gpu_alloc((size_t)a.n, type[i], i ? 0 : -128, i ? 256 : 128, &seed);
		a.dst = gpu_alloc((size_t)a.n, RLX_I32, 0, 0, &seed);
		GPU_AGAINST_CPU(cast, a, rlx_k_cast_units(&a), 0, f, &seed);
	}
}

TEST_MAIN()
