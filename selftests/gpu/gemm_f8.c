// SPDX-License-Identifier: MIT
/* GEMM with operands in fp8 on the emulator, against sums in double. */
#include "base/half.h"
#include "rlx/run.h"
#include "selftests/gpu/against_cpu.h"

#include "kernels/gemv_stream_f8.h"

static double f8_value(uint8_t v, bool e5m2)
{
	return rlx_minifloat_to(e5m2 ? RLX_MF_F8E5M2 : RLX_MF_F8E4M3, v);
}

/* Bytes of which few are large; @special: some are NaN or, in e5m2, infinite. */
static uint8_t *f8_alloc(size_t n, bool special, uint64_t *seed)
{
	uint8_t *p = malloc(n + 64);

	CHECK(p);
	for (size_t i = 0; i < n; i++) {
		uint64_t r = rlx_test_rand(seed);

		p[i] = (uint8_t)(r & 0x80) | (uint8_t)(r >> 8 & (r >> 32 & 7 ? 0x3f : 0x47));
	}
	for (int i = 0; i < 3 && special; i++)
		p[rlx_test_rand(seed) % n] = (uint8_t)(0x7c + rlx_test_rand(seed) % 4);
	return p;
}

/* What a product is made of, and where its result has come. */
struct product {
	int64_t		m, n, k;
	int		ta, tc;		/* enum rlx_dtype; ta of 0: a is in fp8 as well */
	bool		e5m2, a_e5m2, cols;
	const void	*a;
	const uint8_t	*b;
	const float	*scales, *bias;
	bool		one_scale;
	bool		act_relu;
	double		tol, rel;	/* of the result, of the terms */
};

/* The result as it is, and as near as its type comes to @sum. */
static double result(const struct product *p, const void *c, size_t at)
{
	if (p->tc != RLX_F8E4M3 && p->tc != RLX_F8E5M2)
		return gpu_value(c, at, p->tc);
	return f8_value(((const uint8_t *)c)[at], p->tc == RLX_F8E5M2);
}

static double nearest(const struct product *p, double sum, double *size)
{
	double most = p->tc == RLX_F8E5M2 ? 57344 : 448;

	if (p->tc != RLX_F8E4M3 && p->tc != RLX_F8E5M2)
		return sum;
	*size += p->tc == RLX_F8E5M2 ? 0x1p-17 : 0x1p-10;	/* half of the least there is */
	return sum > most ? most : sum < -most ? -most : sum;
}

static void check_all(const struct product *p, const void *c)
{
	for (int64_t i = 0; i < p->m; i++)
		for (int64_t j = 0; j < p->n; j++) {
			double sum = 0, size = 0, got = result(p, c, (size_t)(i * p->n + j));

			for (int64_t k = 0; k < p->k; k++) {
				size_t at = (size_t)(i * p->k + k);
				double x = p->ta ? gpu_value(p->a, at, p->ta) :
					   f8_value(((const uint8_t *)p->a)[at], p->a_e5m2);
				double y = f8_value(p->b[p->cols ? j * p->k + k : k * p->n + j],
						    p->e5m2);

				sum += x * y;
				size += fabs(x * y);
			}
			if (p->scales) {
				sum *= (double)p->scales[p->one_scale ? 0 : j];
				size *= (double)p->scales[p->one_scale ? 0 : j];
			}
			if (p->bias)
				sum += (double)p->bias[j];
			sum = p->act_relu && sum < 0 ? 0 : sum;
			size = p->rel * (size + 1) + p->tol * fabs(sum);
			sum = nearest(p, sum, &size);
			if (fabs(got - sum) <= size || (got != got && sum != sum) ||
			    (isinf(sum) && got == sum))
				continue;
			rlx_test_fail(__FILE__, __LINE__, "m %lld n %lld k %lld %s %s: (%lld, %lld) "
				      "is %.9g, not %.9g", (long long)p->m, (long long)p->n,
				      (long long)p->k, p->e5m2 ? "e5m2" : "e4m3", p->cols ? "cols" :
				      "rows", (long long)i, (long long)j, got, sum);
		}
}

static double rounding(int type)
{
	return type == RLX_BF16 ? 4e-3 : type == RLX_F16 ? 5e-4 : type == RLX_F8E4M3 ?
	       0.0626 : type == RLX_F8E5M2 ? 0.1251 : 0;
}

/* What the chip's own sums of fp8 lose of their terms: see gemm_wgmma.cu. */
#define SUM_F8	2e-3

static uint32_t processors;

static void few_launch(const void *args, struct rlx_g_launch *l)
{
	l->processors = processors;
	rlx_g_gemv_stream_f8_launch(args, l);
}

static void one_few(int64_t m, int64_t n, int64_t k, uint64_t *seed)
{
	enum rlx_dtype type = kc_pick(seed, 0, 1) ? RLX_F16 : RLX_BF16;
	int wide = (int)kc_pick(seed, 0, 1);
	struct product p = { .m = m, .n = n, .k = k, .ta = type,
			     .tc = wide ? RLX_F32 : type, .e5m2 = kc_pick(seed, 0, 1),
			     .cols = kc_pick(seed, 0, 1), .one_scale = kc_pick(seed, 0, 1) };
	struct rlx_k_gemv_stream_f8 a = { .e5m2 = p.e5m2, .g = {
		.m = (size_t)m, .n = (size_t)n, .k = (size_t)k, .lda = (size_t)k,
		.ldb = (size_t)(p.cols ? k : n), .ldc = (size_t)n, .alpha = 1,
		.b_form = p.cols ? RLX_B_COLS : RLX_B_ROWS, .a_type = type,
		.c_type = wide ? RLX_F32 : type, .b_fixed = kc_pick(seed, 0, 1),
		.one_scale = p.one_scale, .scale_type = RLX_F32 } };
	size_t bytes = (size_t)(m * n) * rlx_k_type_size(p.tc);
	void *c = gpu_alloc((size_t)(m * n), p.tc, 0, 0, seed);
	float *scales = gpu_alloc((size_t)n, RLX_F32, 0.1, 2, seed);
	float *bias = gpu_alloc((size_t)n, RLX_F32, -1, 1, seed);

	p.tol = rounding(p.tc);
	p.rel = 2e-6;
	p.a = gpu_alloc((size_t)(m * k), p.ta, -1, 1, seed);
	p.b = f8_alloc((size_t)(n * k), kc_pick(seed, 0, 1), seed);
	if (kc_pick(seed, 0, 1)) {
		p.scales = scales;
		a.g.scales = dev_of(scales, (size_t)n * 4);
	}
	if (kc_pick(seed, 0, 1)) {
		p.bias = bias;
		a.g.bias = dev_of(bias, (size_t)n * 4);
	}
	a.g.a = dev_of(p.a, (size_t)(m * k) * 2);
	a.g.b = dev_of(p.b, (size_t)(n * k));
	a.g.c = dev_of(c, bytes);
	gpu_run_kernel(few_launch, &a,
		       &(struct rlx_g_env){ 0 });
	dev_read(c, a.g.c, bytes);
	check_all(&p, c);
	dev_free(a.g.a);
	dev_free(a.g.b);
	dev_free(a.g.c);
}

TEST(few_rows)
{
	static const int shared[] = { SHARED_90, SHARED_AMD, SHARED_86, SHARED_80 };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 24; i++) {
		gpu_plan_shared(shared[i < 16 ? 0 : i % 4]);
		processors = (uint32_t)kc_pick(&seed, 1, 9);
		one_few(kc_pick(&seed, 1, i % 3 ? 16 : 64), 16 * kc_pick(&seed, 1, 12),
			16 * kc_pick(&seed, 1, 90), &seed);
	}
	gpu_plan_shared(SHARED_90);
}

/* By warpgroups, both in fp8. */
static bool by_groups;

static void groups_launch(const void *args, struct rlx_g_launch *l)
{
	by_groups = l->arch == 90;
	l->processors = processors;
	rlx_g_gemm_wgmma_f8_launch(args, l);
}

static void one_group(int64_t m, int64_t n, int64_t k, uint64_t *seed)
{
	static const enum rlx_dtype types[] = { RLX_F32, RLX_BF16, RLX_F16, RLX_F8E4M3,
						RLX_F8E5M2 };
	int out = (int)kc_pick(seed, 0, 3);
	struct product p = { .m = m, .n = n, .k = k, .cols = true, .e5m2 = kc_pick(seed, 0, 1),
			     .a_e5m2 = kc_pick(seed, 0, 1), .act_relu = kc_pick(seed, 0, 1),
			     .rel = SUM_F8 };
	struct rlx_k_gemm a = { .m = (size_t)m, .n = (size_t)n, .k = (size_t)k, .lda = (size_t)k,
		.ldb = (size_t)k, .ldc = (size_t)n, .alpha = 1, .b_form = RLX_B_COLS,
		.b_fixed = kc_pick(seed, 0, 1), .scale_type = RLX_F32,
		.act = p.act_relu ? RLX_ACT_RELU : RLX_ACT_NONE };
	float *scales = gpu_alloc((size_t)n, RLX_F32, 0.1, 2, seed);
	size_t bytes;
	void *c;

	if (out == 3)
		p.a_e5m2 = p.e5m2;
	out += out == 3 && p.e5m2;
	p.tc = types[out];
	p.tol = rounding(p.tc);
	a.c_type = types[out];
	a.a_type = p.a_e5m2 ? RLX_F8E5M2 : RLX_F8E4M3;
	a.b_type = p.e5m2 ? RLX_F8E5M2 : RLX_F8E4M3;
	bytes = (size_t)(m * n) * rlx_k_type_size(p.tc);
	c = gpu_alloc((size_t)(m * n), p.tc, 0, 0, seed);
	p.a = f8_alloc((size_t)(m * k), false, seed);
	p.b = f8_alloc((size_t)(n * k), false, seed);
	if (kc_pick(seed, 0, 1)) {
		p.scales = scales;
		a.scales = dev_of(scales, (size_t)n * 4);
	}
	a.a = dev_of(p.a, (size_t)(m * k));
	a.b = dev_of(p.b, (size_t)(n * k));
	a.c = dev_of(c, bytes);
	gpu_run_kernel(groups_launch, &a, &(struct rlx_g_env){ 0 });
	dev_read(c, a.c, bytes);
	check_all(&p, c);
	dev_free(a.a);
	dev_free(a.b);
	dev_free(a.c);
}

TEST(groups)
{
	uint64_t seed = rlx_test_seed();

	gpu_start();
	if (gpu_launch_for(gpu, 0).arch != 90)
		rlx_test_skip("the chip has no such products");
	for (int i = 0; i < 10; i++) {
		processors = (uint32_t)kc_pick(&seed, 1, 9);
		one_group(kc_pick(&seed, 1, 300), kc_pick(&seed, 1, 300),
			  16 * kc_pick(&seed, 1, 60), &seed);
	}
	CHECK(by_groups);
}

/* All bytes there are, in pieces of 16 and what is left. */
TEST(widen)
{
	static const struct { int from, to; } forms[] = {
		{ RLX_F8E4M3, RLX_BF16 }, { RLX_F8E4M3, RLX_F16 },
		{ RLX_F8E5M2, RLX_BF16 }, { RLX_F8E5M2, RLX_F16 },
	};
	uint8_t src[1000];
	uint16_t dst[1001];

	for (int i = 0; i < 1000; i++)
		src[i] = (uint8_t)(i * 7);
	for (int f = 0; f < 8; f++) {
		int odd = f / 4, n = odd ? 993 : 256;
		struct rlx_k_cast a = { .n = n, .src_type = (uint8_t)forms[f % 4].from,
					.dst_type = (uint8_t)forms[f % 4].to };

		memset(dst, 0xa5, sizeof(dst));
		a.src = (char *)dev_of(src, 1000) + odd;
		a.dst = dev_of(dst, sizeof(dst));
		gpu_run_kernel(rlx_g_widen_f8_launch, &a,
			       &(struct rlx_g_env){ 0 });
		dev_read(dst, a.dst, sizeof(dst));
		CHECK_EQ(dst[n], 0xa5a5);
		for (int i = 0; i < n; i++) {
			double want = f8_value(src[i + odd], a.src_type == RLX_F8E5M2);
			double got = gpu_value(dst, (size_t)i, a.dst_type);

			CHECKF(got == want || (got != got && want != want),
			       "%#x as form %d is %g, not %g", src[i + odd], f, got, want);
		}
	}
}

/* ---- programs ---- */

enum form { DEQUANT, WRITTEN, MATMUL, TRANS, BOTH_F8, SAME_F8, SAME_TRANS, FORMS };

/* As ONNX has it: all of the weight made f16 or bf16, of which nothing is to be left. */
static rlx_value written(struct rlx_graph *g, const struct product *p, rlx_value x, rlx_value w)
{
	enum rlx_dtype half = p->ta == RLX_F16 ? RLX_F16 : RLX_BF16;
	enum rlx_dtype f8 = p->e5m2 ? RLX_F8E5M2 : RLX_F8E4M3;
	int64_t n = p->one_scale ? 1 : p->n;
	uint16_t *scale = calloc((size_t)n, 2);
	uint8_t zero = 0;
	rlx_value v;

	for (int64_t i = 0; i < n; i++)
		scale[i] = (uint16_t)rlx_minifloat_from(half == RLX_F16 ? RLX_MF_F16 : RLX_MF_BF16,
							(double)p->scales[i], 0);
	v = rlx_emit(g, dequantize, .x = w, .axis = 1,
		     .scale = rlx_constant(g, n == 1 ? rlx_scalar(half) : rlx_type(half, n), scale),
		     .zp = n == 1 ? rlx_constant(g, rlx_scalar(f8), &zero) : RLX_NONE);
	free(scale);
	return rlx_emit(g, matmul, .a = x, .b = v);
}

/* The product as a graph says it; b is a constant or an input. */
static rlx_value product_of(struct rlx_graph *g, const struct product *p, enum form form,
			    rlx_value x, rlx_value w, bool bias)
{
	rlx_value b = bias ? rlx_constant(g, rlx_type(RLX_F32, p->n), p->bias) : RLX_NONE;
	rlx_value s = p->scales ? rlx_constant(g, rlx_type(RLX_F32, p->one_scale ? 1 : p->n),
					       p->scales) : RLX_NONE;

	if (form == DEQUANT)
		return rlx_emit(g, dequant_matmul, .x = x, .w = w, .scale = s, .n = p->n,
				.scheme = p->e5m2 ? RLX_SCHEME_F8E5M2 : RLX_SCHEME_F8E4M3);
	if (form == WRITTEN)
		return written(g, p, x, w);
	if (form == MATMUL || form == BOTH_F8 || form == SAME_F8)
		return rlx_emit(g, matmul, .a = x, .b = w);
	return rlx_emit(g, fused_matmul, .a = x, .b = w, .bias = b, .trans_b = true);
}

static void one_program(enum form form, int64_t m, int64_t n, int64_t k, uint64_t *seed)
{
	bool f16 = form < BOTH_F8 && kc_pick(seed, 0, 1), fixed = kc_pick(seed, 0, 1);
	struct product p = { .m = m, .n = n, .k = k, .cols = form == TRANS || form == SAME_TRANS,
			     .ta = form >= BOTH_F8 ? 0 : f16 ? RLX_F16 : RLX_BF16,
			     .tc = f16 ? RLX_F16 : RLX_BF16, .e5m2 = kc_pick(seed, 0, 1),
			     .one_scale = kc_pick(seed, 0, 1) };
	enum rlx_dtype half = f16 ? RLX_F16 : RLX_BF16, f8 = p.e5m2 ? RLX_F8E5M2 : RLX_F8E4M3;
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cuda",
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_type tx = rlx_type(half, m, k);
	struct rlx_type tw = form == DEQUANT ? rlx_type(RLX_U8, k * n) : p.cols ?
			     rlx_type(f8, n, k) : rlx_type(f8, k, n);
	struct rlx_graph *g = rlx_graph_new("product");
	struct rlx_program_info info;
	struct rlx_error err = { 0 };
	struct rlx_program *prog;
	struct rlx_session *s;
	void *y;

	p.tol = rounding(p.tc);
	p.rel = form >= BOTH_F8 ? SUM_F8 : 2e-6;
	p.a = p.ta ? gpu_alloc((size_t)(m * k), p.ta, -1, 1, seed) :
	      f8_alloc((size_t)(m * k), false, seed);
	p.b = f8_alloc((size_t)(n * k), false, seed);
	if (form == WRITTEN || (form == DEQUANT && kc_pick(seed, 0, 2)))
		p.scales = gpu_alloc((size_t)n, RLX_F32, 0.1, 2, seed);
	for (int64_t i = 0; i < n && form == WRITTEN; i++)	/* of 4 bits */
		((float *)(uintptr_t)p.scales)[i] = (float)(rlx_test_rand(seed) % 15 + 1) / 8;
	if (p.cols && kc_pick(seed, 0, 1))
		p.bias = gpu_alloc((size_t)n, RLX_F32, -1, 1, seed);
	if (form == BOTH_F8) {	/* the one e4m3, the other e5m2: their product is bf16 */
		tx.dtype = p.e5m2 ? RLX_F8E4M3 : RLX_F8E5M2;
		p.a_e5m2 = !p.e5m2;
	} else if (form > BOTH_F8) {
		tx.dtype = f8;
		p.a_e5m2 = p.e5m2;
		p.tc = p.e5m2 ? RLX_F8E5M2 : RLX_F8E4M3;
		p.tol = rounding(p.tc);
	}
	rlx_output(g, "y", product_of(g, &p, form, rlx_input(g, "x", tx), fixed ?
				      rlx_constant(g, tw, p.b) : rlx_input(g, "w", tw), p.bias));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &prog, &err), "%s", err.text);
	rlx_program_info(prog, &info);
	CHECKF(!fixed || info.const_bytes <= (uint64_t)(n * k + 8 * n + 256), "%llu bytes of "
	       "constants for %lld weights", (unsigned long long)info.const_bytes,
	       (long long)(n * k));
	CHECKF(!rlx_session_new(prog, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", tx, p.a));
	if (!fixed)
		CHECK(!rlx_session_set(s, RLX_IO_INPUT, "w", tw, p.b));
	y = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "y"));
	memset(y, 0xa5, (size_t)(m * n) * rlx_k_type_size(p.tc));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	check_all(&p, y);
	rlx_session_free(s);
	rlx_program_put(prog);
	rlx_graph_put(g);
}

/* Few rows and many, in pieces of 16 bytes and not. */
TEST(programs)
{
	uint64_t seed = rlx_test_seed();

	for (int form = 0; form < FORMS; form++) {
		for (int i = 0; i < 3; i++) {
			one_program((enum form)form, kc_pick(&seed, 1, 64),
				    16 * kc_pick(&seed, 1, 9), 16 * kc_pick(&seed, 1, 20), &seed);
			one_program((enum form)form, kc_pick(&seed, 1, 200),
				    kc_pick(&seed, 1, 90), kc_pick(&seed, 1, 90), &seed);
		}
		one_program((enum form)form, 130, 136, 264, &seed);
		one_program((enum form)form, 131, 144, 272, &seed);
	}
}

TEST_MAIN()
