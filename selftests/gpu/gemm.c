// SPDX-License-Identifier: MIT
/* GPU matrix products on the emulator, against sums in double. */
#include "selftests/gpu/against_cpu.h"

#include "kernels/gemm.h"

static const int num_type[3] = { RLX_K_F32, RLX_K_BF16, RLX_K_F16 };

static double act_of(const struct rlx_k_gemm *a, double x)
{
	switch (a->act) {
	case RLX_K_ACT_RELU: return x > 0 ? x : 0;
	case RLX_K_ACT_GELU_ERF: return 0.5 * x * (1 + erf(x * sqrt(0.5)));
	case RLX_K_ACT_GELU_TANH:
		return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
	case RLX_K_ACT_SILU: return x / (1 + exp(-x));
	case RLX_K_ACT_SIGMOID: return 1 / (1 + exp(-x));
	case RLX_K_ACT_TANH: return tanh(x);
	case RLX_K_ACT_HARD_SWISH: return x * fmax(0, fmin(1, x / 6 + 0.5));
	case RLX_K_ACT_CLIP: return fmax(a->lo, fmin(a->hi, x));
	default: return x;
	}
}

struct gemm_case {
	gpu_launch_fn	*launch;
	const char	*file, *name;
	int		ta, tb, tc, tbias;	/* enum rlx_k_type */
	double		tol;			/* of the sum of |a b| */
	bool		to_bf16;		/* operands are rounded */
};

struct gemm_data {
	void	*a, *b, *r, *bias, *row, *c;	/* host */
};

/* What a product reads: its element, rounded as the kernel may. */
static double operand(const struct gemm_case *t, const void *p, size_t i, int type)
{
	double v = gpu_value(p, i, type);

	return t->to_bf16 ? (double)kc_from_bf16(kc_to_bf16((float)v)) : v;
}

static void check_one(const struct gemm_case *t, const struct rlx_k_gemm *a,
		      const struct gemm_data *d, size_t batch, const size_t at[2])
{
	size_t row = at[0], col = at[1];
	double sum = 0, size = 0, want, got;

	for (size_t k = 0; k < a->k; k++) {
		double x = operand(t, d->a, batch * a->a_step[1] +
			(a->trans_a ? k * a->lda + row : row * a->lda + k), t->ta);
		double y = operand(t, d->b, batch * a->b_step[1] +
			(a->b_form == RLX_B_COLS ? col * a->ldb + k : k * a->ldb + col), t->tb);

		sum += x * y;
		size += fabs(x * y);
	}
	want = a->alpha * sum;
	if (d->bias)
		want += gpu_value(d->bias, col, t->tbias);
	if (d->row)
		want += gpu_value(d->row, row, t->tbias);
	if (d->r)
		want += a->beta * gpu_value(d->r, batch * a->r_step[1] + row * a->ldr + col, t->tc);
	size = 1.5 * t->tol * (fabs(a->alpha) * size + 1);
	want = act_of(a, want);
	/* one rounding to the type of c */
	size += (t->tc == RLX_K_BF16 ? 4e-3 : t->tc == RLX_K_F16 ? 5e-4 : 0) * fabs(want) + 1e-7;
	got = gpu_value(d->c, batch * a->c_step[1] + row * a->ldc + col, t->tc);
	CHECKF(fabs(got - want) <= size,
	       "%s m %zu n %zu k %zu form %d%d: (%zu, %zu, %zu) is %.9g, not %.9g", t->name,
	       a->m, a->n, a->k, a->trans_a, a->b_form, batch, row, col, got, want);
}

static void one_gemm(const struct gemm_case *t, size_t m, size_t n, size_t k, uint64_t *seed)
{
	size_t batch = (size_t)kc_pick(seed, 1, 2), pad = (size_t)kc_pick(seed, 0, 1) * 8;
	struct rlx_k_gemm a = { .m = m, .n = n, .k = k, .alpha = 0.7, .beta = -0.5,
		.lo = -1, .hi = 2, .act = (enum rlx_k_act)kc_pick(seed, 0, 8),
		.trans_a = kc_pick(seed, 0, 1), .batch = { 1, batch } };
	struct gemm_data d = { 0 };
	struct rlx_k_gemm dev;
	size_t na, nb, nc;

	a.b_form = kc_pick(seed, 0, 1) ? RLX_B_COLS : RLX_B_ROWS;
	for (int i = 0; i < 3; i++) {
		if (num_type[i] == t->ta)
			a.a_num = (enum rlx_k_num)i;
		if (num_type[i] == t->tb)
			a.b_num = (enum rlx_k_num)i;
		if (num_type[i] == t->tc)
			a.c_num = (enum rlx_k_num)i;
	}
	a.lda = (a.trans_a ? m : k) + pad;
	a.ldb = (a.b_form == RLX_B_COLS ? k : n) + pad;
	a.ldc = a.ldr = n + pad;
	a.a_step[1] = (a.trans_a ? k : m) * a.lda;
	a.b_step[1] = (a.b_form == RLX_B_COLS ? n : k) * a.ldb;
	a.c_step[1] = a.r_step[1] = m * a.ldc;
	na = batch * a.a_step[1];
	nb = batch * a.b_step[1];
	nc = batch * a.c_step[1];
	d.a = gpu_alloc(na, t->ta, -1, 1, seed);
	d.b = gpu_alloc(nb, t->tb, -1, 1, seed);
	d.c = gpu_alloc(nc, t->tc, 0, 0, seed);
	if (kc_pick(seed, 0, 1))
		d.r = gpu_alloc(nc, t->tc, -1, 1, seed);
	if (kc_pick(seed, 0, 1))
		d.bias = gpu_alloc(n, t->tbias, -1, 1, seed);
	if (kc_pick(seed, 0, 1))
		d.row = gpu_alloc(m, t->tbias, -1, 1, seed);
	dev = a;
	dev.a = dev_of(d.a, na * rlx_k_type_size((enum rlx_k_type)t->ta));
	dev.b = dev_of(d.b, nb * rlx_k_type_size((enum rlx_k_type)t->tb));
	dev.c = dev_of(d.c, nc * rlx_k_type_size((enum rlx_k_type)t->tc));
	dev.residual = d.r ? dev_of(d.r, nc * rlx_k_type_size((enum rlx_k_type)t->tc)) : NULL;
	dev.bias = d.bias ? dev_of(d.bias, n * rlx_k_type_size((enum rlx_k_type)t->tbias)) : NULL;
	dev.row_bias = d.row ? dev_of(d.row, m * rlx_k_type_size((enum rlx_k_type)t->tbias)) : NULL;
	gpu_run_file(t->file, t->name, t->launch, &dev, (struct rlx_g_launch){ 0 });
	dev_read(d.c, dev.c, nc * rlx_k_type_size((enum rlx_k_type)t->tc));
	for (size_t b = 0; b < batch; b++)
		for (size_t i = 0; i < m; i++)
			for (size_t j = 0; j < n; j++)
				check_one(t, &a, &d, b, (size_t[]){ i, j });
	for (size_t i = 0; i < batch * m && pad; i++)
		CHECKF(((unsigned char *)d.c)[(i * a.ldc + n) *
					      rlx_k_type_size((enum rlx_k_type)t->tc)] == 0xa5,
		       "%s writes beside row %zu", t->name, i);
}

/* @large: a shape whose tiles are the large ones. */
static void all_shapes(const struct gemm_case *t, int shapes, bool large)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < shapes; i++)
		one_gemm(t, (size_t)kc_pick(&seed, 1, 100), (size_t)kc_pick(&seed, 1, 100),
			 (size_t)kc_pick(&seed, 1, 150), &seed);
	for (int i = 0; i < shapes; i++)
		one_gemm(t, (size_t)kc_pick(&seed, 1, 8), (size_t)kc_pick(&seed, 1, 90),
			 (size_t)kc_pick(&seed, 1, 700), &seed);
	one_gemm(t, 3, 5, 0, &seed);
	one_gemm(t, 13, 5, 0, &seed);
	if (large)
		one_gemm(t, 48 * 128 - 5, 129, 33, &seed);
}

TEST(gemm_f32)
{
	all_shapes(&(struct gemm_case){ rlx_g_gemm_f32_launch, "gemm_simt", "gemm_f32",
		RLX_K_F32, RLX_K_F32, RLX_K_F32, RLX_K_F32, 1e-6, false }, 6, true);
}

TEST(gemm_f64)
{
	all_shapes(&(struct gemm_case){ rlx_g_gemm_f64_launch, "gemm_simt", "gemm_f64",
		RLX_K_F64, RLX_K_F64, RLX_K_F64, RLX_K_F64, 1e-14, false }, 4, false);
}

TEST(gemm_bf16)
{
	all_shapes(&(struct gemm_case){ rlx_g_gemm_bf16_launch, "gemm_mma", "gemm_bf16",
		RLX_K_BF16, RLX_K_BF16, RLX_K_BF16, RLX_K_F32, 1e-6, false }, 8, true);
}

TEST(gemm_f16)
{
	all_shapes(&(struct gemm_case){ rlx_g_gemm_bf16_launch, "gemm_mma", "gemm_bf16",
		RLX_K_F16, RLX_K_F16, RLX_K_F32, RLX_K_F32, 1e-6, false }, 6, false);
}

TEST(gemm_mixed)
{
	all_shapes(&(struct gemm_case){ rlx_g_gemm_bf16_launch, "gemm_mma", "gemm_bf16",
		RLX_K_F32, RLX_K_BF16, RLX_K_F16, RLX_K_F32, 1e-6, true }, 4, false);
	all_shapes(&(struct gemm_case){ rlx_g_gemm_bf16_launch, "gemm_mma", "gemm_bf16",
		RLX_K_F32, RLX_K_F32, RLX_K_F32, RLX_K_F32, 1e-6, true }, 3, false);
}

TEST_MAIN()
