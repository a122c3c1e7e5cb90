// SPDX-License-Identifier: MIT
/* GEMM of the GPU backend on the emulator, against sums in double. */
#include "rlx/run.h"
#include "selftests/gpu/against_cpu.h"
#include "selftests/lib/rig.h"

#include "kernels/gemm.h"

static double act_of(const struct rlx_k_gemm *a, double x)
{
	switch (a->act) {
	case RLX_ACT_RELU: return x > 0 ? x : 0;
	case RLX_ACT_GELU: return 0.5 * x * (1 + erf(x * sqrt(0.5)));
	case RLX_ACT_GELU_TANH:
		return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
	case RLX_ACT_SILU: return x / (1 + exp(-x));
	case RLX_ACT_SIGMOID: return 1 / (1 + exp(-x));
	case RLX_ACT_TANH: return tanh(x);
	case RLX_ACT_HARD_SWISH: return x * fmax(0, fmin(1, x / 6 + 0.5));
	case RLX_ACT_HARD_SIGMOID: return fmax(0, fmin(1, a->lo * x + a->hi));
	case RLX_ACT_CLIP: return fmax(a->lo, fmin(a->hi, x));
	default: return x;
	}
}

struct gemm_case {
	gpu_launch_fn	*launch;
	int		ta, tb, tc, tbias;	/* enum rlx_dtype */
	double		tol;			/* of the sum of |a b| */
	bool		to_bf16;		/* operands are rounded */
	size_t		align;			/* of rows of a and b; 0: none */
	bool		gemv_stream;			/* the kernel of that name */
	bool		to_tf32;		/* operands are rounded */
	int		form;			/* 1 + trans_a + 2 by columns; 0: any */
	bool		anywhere;		/* a and b begin at any element; one may be shared */
	size_t		batch;			/* 0: one or two */
};

struct gemm_data {
	void	*a, *b, *r, *bias, *row, *c;	/* host */
};

/* What a product reads: its element, rounded as the kernel may. */
static double operand(const struct gemm_case *t, const void *p, size_t i, int type)
{
	double v = gpu_value(p, i, type);
	int e = 0;

	if (t->to_tf32) {	/* to 11 bits of significand */
		v = frexp(v, &e);
		return ldexp(round(ldexp(v, 11)), e - 11);
	}
	return t->to_bf16 ? (double)kc_from_bf16(kc_to_bf16((float)v)) : v;
}

static int bias_type(const struct gemm_case *t, const struct rlx_k_gemm *a)
{
	return a->bias_as_c ? t->tc : t->tbias;
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
		want += gpu_value(d->bias, col, bias_type(t, a));
	if (d->row)
		want += gpu_value(d->row, row, t->tbias);
	if (d->r)
		want += a->beta * gpu_value(d->r, batch * a->r_step[1] + row * a->ldr + col, t->tc);
	size = 1.5 * t->tol * (fabs(a->alpha) * size + 1);
	want = act_of(a, want);
	/* one rounding to the type of c */
	size += (t->tc == RLX_BF16 ? 4e-3 : t->tc == RLX_F16 ? 5e-4 : 0) * fabs(want) + 1e-7;
	got = gpu_value(d->c, batch * a->c_step[1] + row * a->ldc + col, t->tc);
	CHECKF(fabs(got - want) <= size,
	       "%s m %zu n %zu k %zu form %d%d: (%zu, %zu, %zu) is %.9g, not %.9g", gpu_ran,
	       a->m, a->n, a->k, a->trans_a, a->b_form, batch, row, col, got, want);
}

/* The device's copy of @n elements; it and *@host from element @off on. */
static void *begins_at(void **host, size_t n, size_t off, int type)
{
	size_t size = rlx_k_type_size((enum rlx_dtype)type);
	char *dev = dev_of(*host, n * size);

	*host = (char *)*host + off * size;
	return dev + off * size;
}

static void one_gemm(const struct gemm_case *t, size_t m, size_t n, size_t k, uint64_t *seed)
{
	size_t batch = t->gemv_stream ? 1 : t->batch ? t->batch : (size_t)kc_pick(seed, 1, 2);
	size_t pad = (size_t)kc_pick(seed, 0, 1) * (t->anywhere ? 3 : 8), off[2] = { 0, 0 };
	int form = t->form ? t->form - 1 : (int)kc_pick(seed, 0, 3);
	struct rlx_k_gemm a = { .m = m, .n = n, .k = k, .alpha = 0.7, .beta = -0.5,
		.lo = -1, .hi = 2, .act = (enum rlx_act)kc_pick(seed, 0, RLX_ACT_CLIP),
		.trans_a = !t->gemv_stream && form % 2, .batch = { 1, batch },
		.b_fixed = kc_pick(seed, 0, 1) };
	struct gemm_data d = { 0 };
	struct rlx_k_gemv_stream all = { .eps = 0 };	/* of which others see the product alone */
	struct rlx_k_gemm *dev = &all.g;
	static uint32_t zeros[RLX_G_ZEROS];
	struct rlx_g_env env = { 0 };
	uint64_t place;
	size_t na, nb, nc;

	a.b_form = form / 2 ? RLX_B_COLS : RLX_B_ROWS;
	a.a_type = t->ta;
	a.b_type = t->tb;
	a.c_type = t->tc;
	a.lda = (a.trans_a ? m : k) + pad;
	a.ldb = (a.b_form == RLX_B_COLS ? k : n) + pad;
	if (t->align) {
		a.lda += (t->align - a.lda % t->align) % t->align;
		a.ldb += (t->align - a.ldb % t->align) % t->align;
	}
	a.ldc = a.ldr = n + pad;
	a.bias_as_c = rlx_k_type_size((enum rlx_dtype)t->tc) == 2 && kc_pick(seed, 0, 1);
	a.a_step[1] = (a.trans_a ? k : m) * a.lda;
	a.b_step[1] = (a.b_form == RLX_B_COLS ? n : k) * a.ldb;
	a.c_step[1] = a.r_step[1] = m * a.ldc;
	if (t->anywhere) {
		off[0] = (size_t)kc_pick(seed, 0, 9);
		off[1] = (size_t)kc_pick(seed, 0, 9);
	}
	na = off[0] + batch * a.a_step[1];
	nb = off[1] + batch * a.b_step[1];
	nc = batch * a.c_step[1];
	if (t->anywhere && kc_pick(seed, 0, 2) == 0)
		*(kc_pick(seed, 0, 1) ? &a.a_step[1] : &a.b_step[1]) = 0;
	d.a = gpu_alloc(na, t->ta, -1, 1, seed);
	d.b = gpu_alloc(nb, t->tb, -1, 1, seed);
	d.c = gpu_alloc(nc, t->tc, 0, 0, seed);
	if (kc_pick(seed, 0, 1))
		d.r = gpu_alloc(nc, t->tc, -1, 1, seed);
	if (kc_pick(seed, 0, 1))
		d.bias = gpu_alloc(n, bias_type(t, &a), -1, 1, seed);
	if (kc_pick(seed, 0, 1))
		d.row = gpu_alloc(m, t->tbias, -1, 1, seed);
	*dev = a;
	dev->a = begins_at(&d.a, na, off[0], t->ta);
	dev->b = begins_at(&d.b, nb, off[1], t->tb);
	dev->c = dev_of(d.c, nc * rlx_k_type_size((enum rlx_dtype)t->tc));
	place = (uint64_t)(uintptr_t)dev->c;
	if (kc_pick(seed, 0, 1)) {	/* a buffer that a run binds */
		env.table = dev_of(&place, sizeof(place));
		dev->c = (void *)(uintptr_t)RLX_G_INDIRECT;
	}
	dev->residual = d.r ? dev_of(d.r, nc * rlx_k_type_size((enum rlx_dtype)t->tc)) : NULL;
	dev->bias = d.bias ? dev_of(d.bias, n * rlx_k_type_size((enum rlx_dtype)
								bias_type(t, &a))) : NULL;
	dev->row_bias = d.row ? dev_of(d.row, m * rlx_k_type_size((enum rlx_dtype)t->tbias)) :
			NULL;
	env.zeros = dev_of(zeros, sizeof(zeros));
	gpu_run_kernel(t->launch, &all, &env);
	dev_read(zeros, env.zeros, sizeof(zeros));
	for (size_t i = 0; i < RLX_G_ZEROS; i++)
		CHECK_EQ(zeros[i], 0);
	dev_read(d.c, (void *)(uintptr_t)place, nc * rlx_k_type_size((enum rlx_dtype)t->tc));
	for (size_t b = 0; b < batch; b++)
		for (size_t i = 0; i < m; i++)
			for (size_t j = 0; j < n; j++)
				check_one(t, &a, &d, b, (size_t[]){ i, j });
	for (size_t i = 0; i < batch * m && pad; i++)
		CHECKF(((unsigned char *)d.c)[(i * a.ldc + n) *
					      rlx_k_type_size((enum rlx_dtype)t->tc)] == 0xa5,
		       "%s writes beside row %zu", gpu_ran, i);
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
	for (int i = 0; i < 2 * shapes; i++)
		one_gemm(t, (size_t)kc_pick(&seed, 9, 64), (size_t)kc_pick(&seed, 1, 40),
			 (size_t)kc_pick(&seed, 1, 1500), &seed);
	for (int i = 0; i < shapes; i++)	/* by wide blocks */
		one_gemm(t, (size_t)kc_pick(&seed, 9, 16), (size_t)kc_pick(&seed, 8200, 8300),
			 (size_t)kc_pick(&seed, 1, 40), &seed);
	one_gemm(t, 3, 5, 0, &seed);
	one_gemm(t, 13, 5, 0, &seed);
	if (large)
		one_gemm(t, 48 * 128 - 5, 129, 33, &seed);
}

TEST(gemm_f32)
{
	all_shapes(&(struct gemm_case){ rlx_g_gemm_f32_launch,
		RLX_F32, RLX_F32, RLX_F32, RLX_F32, 1e-6, false }, 6, true);
}

/* By each of the tiles, whether or not it is the one that a chip would take. */
static struct rlx_g_tiling tiling;
static uint32_t warps;

static void tile_launch(const void *args, struct rlx_g_launch *l)
{
	const struct rlx_k_gemm *a = (const struct rlx_k_gemm *)args;
	struct rlx_g_tiling other = { { 64, 64 }, 1, tiling.shares };

	if (warps && !a->trans_a)
		rlx_g_gemm_small_m_f32_by(a, tiling.tile, warps, l);
	else
		rlx_g_gemm_tiled_by(a, warps ? other : tiling, l);
}

TEST(gemm_f32_tiles)
{
	static const struct {
		struct rlx_g_gemm_tile	tile;
		int32_t			teams;
		uint32_t		warps;
	} tiles[] = {
		{ { 16, 8 }, 0, 12 }, { { 16, 16 }, 0, 4 }, { { 16, 32 }, 0, 8 },
		{ { 32, 32 }, 0, 12 }, { { 8, 16 }, 0, 12 }, { { 8, 32 }, 0, 8 },
		{ { 128, 128 }, 1, 0 }, { { 128, 64 }, 1, 0 }, { { 64, 128 }, 1, 0 },
		{ { 64, 64 }, 1, 0 }, { { 64, 64 }, 2, 0 }, { { 64, 64 }, 4, 0 },
		{ { 64, 32 }, 1, 0 }, { { 64, 32 }, 2, 0 }, { { 64, 32 }, 4, 0 },
		{ { 64, 32 }, 8, 0 },
	};
	struct gemm_case c = { tile_launch, RLX_F32, RLX_F32,
			       RLX_F32, RLX_F32, 1e-6, false };
	uint64_t seed = rlx_test_seed();

	for (size_t i = 0; i < sizeof(tiles) / sizeof(tiles[0]); i++)
		for (int k = 0; k < 8; k++) {
			tiling.tile = tiles[i].tile;
			tiling.teams = tiles[i].teams;
			tiling.shares = kc_pick(&seed, 1, k < 4 ? 7 : 1);
			warps = tiles[i].warps;
			c.align = k % 2 ? 4 : 0;
			if (k % 4 == 0)
				c.form = (int)kc_pick(&seed, 1, 4);
			one_gemm(&c, (size_t)kc_pick(&seed, 1, 200), (size_t)kc_pick(&seed, 1, 200),
				 (size_t)kc_pick(&seed, 1, k < 2 ? 700 : 100), &seed);
		}
}

/* ---- whatever can be chosen ---- */

/* Each kernel that can do it in any of its tiles does, whether or not it is the fastest. */
static void any_ways(gpu_launch_fn *how, int type_in, int type_out, int n)
{
	struct gemm_case t = { how, type_in, type_in, type_out, RLX_F32, 1e-6 };
	uint64_t seed = rlx_test_seed();

	gpu_judge = &any_candidate;
	for (int i = 0; i < n; i++) {
		t.align = i % 3 ? 8 : 0;
		one_gemm(&t, (size_t)kc_pick(&seed, 1, i % 2 ? 16 : 150),
			 (size_t)kc_pick(&seed, 1, 150), (size_t)kc_pick(&seed, 1, 200), &seed);
	}
	gpu_judge = NULL;
}

TEST(any_candidate)
{
	any_ways(rlx_g_gemm_f32_launch, RLX_F32, RLX_F32, 12);
	any_ways(rlx_g_gemm_bf16_launch, RLX_BF16, RLX_BF16, 10);
	any_ways(rlx_g_gemm_bf16_launch, RLX_F16, RLX_F32, 10);
}

/* Many small products of lines that begin anywhere, by what takes least and by whatever can. */
TEST(gemm_small_batches)
{
	static const struct gemm_case cases[] = {
		{ rlx_g_gemm_16bit_launch, RLX_F16, RLX_F16, RLX_F16, RLX_F32, 1e-6,
		  .anywhere = true },
		{ rlx_g_gemm_16bit_launch, RLX_BF16, RLX_BF16, RLX_BF16, RLX_F32, 1e-6,
		  .anywhere = true },
		{ rlx_g_gemm_f32_launch, RLX_F32, RLX_F32, RLX_F32, RLX_F32, 1e-6,
		  .anywhere = true },
	};
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 24; i++) {
		struct gemm_case t = cases[i % 6 == 5 ? 2 : i % 2];

		gpu_judge = i % 4 == 3 ? &any_candidate : NULL;
		t.batch = (size_t)kc_pick(&seed, 2, 40);
		one_gemm(&t, (size_t)kc_pick(&seed, 1, i % 3 ? 50 : 8),
			 (size_t)kc_pick(&seed, 1, i % 3 == 1 ? 20 : 200),
			 (size_t)kc_pick(&seed, 1, 70), &seed);
	}
	gpu_judge = NULL;
}

TEST(gemm_f64)
{
	all_shapes(&(struct gemm_case){ rlx_g_gemm_f64_launch,
		RLX_F64, RLX_F64, RLX_F64, RLX_F64, 1e-14, false }, 4, false);
}

TEST(gemm_bf16)
{
	all_shapes(&(struct gemm_case){ rlx_g_gemm_bf16_launch,
		RLX_BF16, RLX_BF16, RLX_BF16, RLX_F32, 1e-6, false }, 5, true);
}

TEST(gemm_f16)
{
	all_shapes(&(struct gemm_case){ rlx_g_gemm_bf16_launch,
		RLX_F16, RLX_F16, RLX_F32, RLX_F32, 1e-6, false }, 4, false);
}

/* By warpgroups, in each tile in turn, as if the chip were smaller. */
static uint32_t processors;
static bool by_groups;

static void group_launch(const void *args, struct rlx_g_launch *l)
{
	static unsigned int turn;

	by_groups = l->arch == 90;
	l->processors = processors;
	if (!by_groups) {
		rlx_g_gemm_bf16_launch(args, l);
		return;
	}
	CHECK(!rlx_g_gemm_wgmma_why_not(args, l));
	CHECK(rlx_g_gemm_wgmma_plan(args, turn++ % RLX_G_GEMM_TILES, l));
}

/* By warpgroups with split-K, in each tile that has room for it in turn. */
static void split_launch(const void *args, struct rlx_g_launch *l)
{
	static unsigned int turn;
	unsigned int i;

	by_groups = l->arch == 90;
	if (!by_groups) {
		rlx_g_gemm_bf16_launch(args, l);
		return;
	}
	for (i = 0, l->can = false; i < 2 * RLX_G_GEMM_TILES && !l->can; i++, turn++)
		CHECK(rlx_g_gemm_wgmma_plan(args, RLX_G_GEMM_TILES +
					    turn % (2 * RLX_G_GEMM_TILES), l));
	CHECK(l->can && l->param.gemm_wgmma.GEMM_SPLIT_K);
}

static void all_groups(const struct gemm_case *t, int shapes)
{
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < shapes; i++) {
		processors = (uint32_t)kc_pick(&seed, 1, 9);
		one_gemm(t, (size_t)kc_pick(&seed, 65, 400), (size_t)kc_pick(&seed, 1, 400),
			 (size_t)kc_pick(&seed, 1, 700), &seed);
	}
	processors = 1;		/* all of the stages, more than once */
	one_gemm(t, 129, 300, 1000, &seed);
}

TEST(gemm_wgmma)
{
	all_groups(&(struct gemm_case){ group_launch,
		RLX_BF16, RLX_BF16, RLX_BF16, RLX_F32, 1e-6, false, 8 }, 4);
	all_groups(&(struct gemm_case){ group_launch,
		RLX_F16, RLX_F16, RLX_F16, RLX_F32, 1e-6, false, 8 }, 4);
	all_groups(&(struct gemm_case){ group_launch,
		RLX_BF16, RLX_BF16, RLX_F32, RLX_F32, 1e-6, false, 8 }, 2);
	if (!by_groups)
		rlx_test_skip("the chip has no such products: others took their place");
}

/* Few tiles and a long k, of lines that begin anywhere or at 16 bytes. */
TEST(gemm_split_k)
{
	static const struct gemm_case cases[] = {
		{ split_launch, RLX_BF16, RLX_BF16, RLX_BF16, RLX_F32, 1e-6, false, 8 },
		{ split_launch, RLX_F16, RLX_F16, RLX_F32, RLX_F32, 1e-6, false },
	};
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 6; i++)
		one_gemm(&cases[i % 2], (size_t)kc_pick(&seed, 1, 200),
			 (size_t)kc_pick(&seed, 1, 200), (size_t)kc_pick(&seed, 257, 900), &seed);
	if (!by_groups)
		rlx_test_skip("the chip has no such products: others took their place");
}

/* Lines that begin anywhere, in each tile in turn. */
TEST(gemm_repacked)
{
	static const struct gemm_case cases[] = {
		{ group_launch, RLX_BF16, RLX_BF16, RLX_BF16, RLX_F32, 1e-6, .anywhere = true },
		{ group_launch, RLX_F16, RLX_F16, RLX_F32, RLX_F32, 1e-6, .anywhere = true },
	};
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 8; i++) {
		processors = (uint32_t)kc_pick(&seed, 1, 9);
		one_gemm(&cases[i % 2], (size_t)kc_pick(&seed, 1, i % 3 ? 150 : 300),
			 (size_t)kc_pick(&seed, 1, 150), (size_t)kc_pick(&seed, 1, 300), &seed);
	}
	if (!by_groups)
		rlx_test_skip("the chip has no such products: others took their place");
}

TEST(gemm_mixed)
{
	all_shapes(&(struct gemm_case){ rlx_g_gemm_bf16_launch,
		RLX_F32, RLX_BF16, RLX_F16, RLX_F32, 1e-6, true }, 4, false);
	all_shapes(&(struct gemm_case){ rlx_g_gemm_bf16_launch,
		RLX_F32, RLX_F32, RLX_F32, RLX_F32, 1e-6, true }, 3, false);
}

/* Edges of 64 and 128. */
static void tf32_launch(const void *args, struct rlx_g_launch *l)
{
	static unsigned int turn;
	struct rlx_k_gemm a = *(const struct rlx_k_gemm *)args;

	CHECK(rlx_g_gemm_tf32_why_not(&a, l));	/* nobody allowed it */
	a.tf32 = true;
	CHECK(!rlx_g_gemm_tf32_why_not(&a, l));
	CHECK(rlx_g_gemm_tf32_plan(&a, turn++ % 2, l));
}

TEST(gemm_tf32)
{
	static const struct gemm_case c = { tf32_launch, RLX_F32, RLX_F32, RLX_F32, RLX_F32, 1e-6,
					    .to_tf32 = true };
	struct gemm_case wide = c;
	uint64_t seed = rlx_test_seed();

	gpu_start();
	if (gpu_launch_for(gpu, 0).arch < 80)
		rlx_test_skip("the chip has no TF32: products are exact there");
	wide.align = 4;
	for (int i = 0; i < 16; i++)
		one_gemm(i % 2 ? &c : &wide, (size_t)kc_pick(&seed, 9, 100),
			 (size_t)kc_pick(&seed, 1, 100), (size_t)kc_pick(&seed, 1, 150), &seed);
	one_gemm(&c, 13, 5, 0, &seed);
	one_gemm(&wide, 48 * 128 - 5, 129, 33, &seed);
}

enum { XM = 1024, XK = 64, XN = 1024 };	/* of a product that is TF32's, where it may */

/* y = x w, of types @t, in @precision; runs are to give the same bits. */
static void program_of(enum rlx_precision precision, const struct rlx_type t[2], const void *x,
		       const void *w, void *y)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cuda",
				      .precision = precision, .flags = RLX_COMPILE_NATIVE };
	struct rlx_graph *g = rlx_graph_new("product");
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	struct rlx_buf out;

	rlx_output(g, "y", rlx_emit(g, matmul, .a = rlx_input(g, "x", t[0]),
				    .b = rlx_input(g, "w", t[1])));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t[0], x));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "w", t[1], w));
	out = rlx_session_buf(s, RLX_IO_OUTPUT, "y");
	for (int run = 0; run < 3; run++) {
		memset(rlx_buf_ptr(out), 0xa5, out.bytes);
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		if (run)
			CHECKF(!memcmp(y, rlx_buf_ptr(out), out.bytes), "run %d differs", run);
		memcpy(y, rlx_buf_ptr(out), out.bytes);
	}
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

/* Repacked operands, and split-K, in a program. */
TEST(unaligned_in_a_program)
{
	static const size_t size[][3] = { { 300, 126, 701 }, { 70, 44, 2506 }, { 100, 250, 9 } };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 3; i++) {
		size_t m = size[i][0], n = size[i][1], k = size[i][2];
		struct rlx_type t[2] = { rlx_type(RLX_F16, (int64_t)m, (int64_t)k),
					 rlx_type(RLX_F16, (int64_t)k, (int64_t)n) };
		struct gemm_case c = { .ta = RLX_F16, .tb = RLX_F16, .tc = RLX_F16, .tol = 1e-6 };
		struct rlx_k_gemm a = { .m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n,
					.alpha = 1, .a_type = RLX_F16, .b_type = RLX_F16,
					.c_type = RLX_F16 };
		struct gemm_data d = { .a = gpu_alloc(m * k, RLX_F16, -1, 1, &seed),
				       .b = gpu_alloc(k * n, RLX_F16, -1, 1, &seed),
				       .c = gpu_alloc(m * n, RLX_F16, 0, 0, &seed) };

		gpu_ran = "a program";
		program_of(RLX_PRECISION_AS_WRITTEN, t, d.a, d.b, d.c);
		for (size_t e = 0; e < m * n; e++)
			check_one(&c, &a, &d, 0, (size_t[]){ e / n, e % n });
	}
}

/* A program rounds by 2^-11 of either operand where it is let, and shows that it does. */
TEST(tf32_where_allowed)
{
	static float x[XM * XK], w[XK * XN], y[2][XM * XN];
	struct rlx_type t[2] = { rlx_type(RLX_F32, XM, XK), rlx_type(RLX_F32, XK, XN) };
	uint64_t seed = rlx_test_seed();
	double most[2] = { 0, 0 };

	gpu_fill(x, XM * XK, RLX_F32, -1, 1, &seed);
	gpu_fill(w, XK * XN, RLX_F32, -1, 1, &seed);
	program_of(RLX_PRECISION_AS_WRITTEN, t, x, w, y[0]);
	program_of(RLX_PRECISION_TF32, t, x, w, y[1]);
	for (int i = 0; i < XM * XN; i++) {
		double sum = 0, size = 0;

		for (int k = 0; k < XK; k++) {
			double v = (double)x[i / XN * XK + k] * (double)w[k * XN + i % XN];

			sum += v;
			size += fabs(v);
		}
		for (int k = 0; k < 2; k++)
			most[k] = fmax(most[k], fabs((double)y[k][i] - sum) / size);
	}
	CHECKF(most[0] < 1e-6, "as written: off by %g", most[0]);
	CHECKF(most[1] < 0x1p-10 + 0x1p-22 + 1e-6, "as TF32: off by %g", most[1]);
	gpu_start();
	CHECKF(gpu_launch_for(gpu, 0).arch < 80 || most[1] > 1e-5, "no TF32: off by %g", most[1]);
}

/*
 * Rows of which each chooses one of @groups matrices; @wrong: one row a number that none
 * has, which is told, and the row left alone.
 */
static void one_grouped(const struct gemm_case *t, size_t m, size_t groups, bool wrong,
		       uint64_t *seed)
{
	size_t n = (size_t)kc_pick(seed, 1, 20) * 8 - (size_t)kc_pick(seed, 0, 1);
	size_t k = (size_t)kc_pick(seed, 1, 12) * 8 - (size_t)kc_pick(seed, 0, 1);
	size_t size[2] = { rlx_k_type_size(t->ta), rlx_k_type_size(t->tc) };
	struct rlx_g_grouped a = {
		.g = { .m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n, .alpha = 1,
		       .a_type = t->ta, .b_step = { k * n } },
		.live = (int64_t)m, .groups = groups, .idx_type = RLX_I32 };
	struct gemm_data d = { .a = gpu_alloc(m * k, t->ta, -1, 1, seed),
			       .c = gpu_alloc(m * n, t->tc, 0, 0, seed) };
	char *b = gpu_alloc(groups * k * n, t->tb, -1, 1, seed);
	int32_t *idx = gpu_alloc(m, RLX_I32, 0, 0, seed), bad = 0;
	size_t left = wrong ? (size_t)kc_pick(seed, 0, (int64_t)m - 1) : m;

	a.g.b_type = a.g.a_type;
	a.g.c_type = t->tc;
	for (size_t i = 0; i < m; i++)
		idx[i] = (int32_t)kc_pick(seed, -(int64_t)((groups + 1) / 2),
					  (int64_t)(groups - 1) / 2);
	if (wrong)
		idx[left] = kc_pick(seed, 0, 1) ? (int32_t)groups : -(int32_t)groups - 1;
	a.g.a = dev_of(d.a, m * k * size[0]);
	a.g.b = dev_of(b, groups * k * n * size[0]);
	a.g.c = dev_of(d.c, m * n * size[1]);
	a.idx = dev_of(idx, m * 4);
	a.bad = dev_of(&bad, 4);
	gpu_run_kernel(t->launch, &a, &(struct rlx_g_env){ 0 });
	dev_read(d.c, a.g.c, m * n * size[1]);
	dev_read(&bad, a.bad, 4);
	CHECK_EQ(bad, wrong);
	for (size_t i = 0; i < m; i++) {
		size_t group = (size_t)(idx[i] < 0 ? idx[i] + (int32_t)groups : idx[i]);

		d.b = i == left ? NULL : b + group * k * n * size[0];
		for (size_t j = 0; j < n && d.b; j++)
			check_one(t, &a.g, &d, 0, (size_t[]){ i, j });
		for (size_t j = 0; j < n * size[1] && !d.b; j++)
			CHECK_EQ(((unsigned char *)d.c)[i * n * size[1] + j], 0xa5);
	}
}

TEST(gemm_grouped)
{
	static const struct gemm_case cases[] = {
		{ rlx_g_grouped_halves_launch, RLX_BF16, RLX_BF16, RLX_BF16, 0, 1e-6, false },
		{ rlx_g_grouped_halves_launch, RLX_F16, RLX_F16, RLX_F16, 0, 1e-6, false },
		{ rlx_g_grouped_f32_launch, RLX_F32, RLX_F32, RLX_F32, 0, 1e-6, false },
		{ rlx_g_grouped_f64_launch, RLX_F64, RLX_F64, RLX_F64, 0, 1e-14, false },
	};
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 4; i++) {
		for (int k = 0; k < 6; k++)	/* more groups than a block has threads */
			one_grouped(&cases[i], (size_t)kc_pick(&seed, 1, 200),
				   (size_t)kc_pick(&seed, 1, k ? 9 : 600), k == 5, &seed);
		if (i % 2 == 0)	/* by large tiles */
			one_grouped(&cases[i], 48 * 128 * 2 - 77, 3, false, &seed);
	}
}

static void gemv_stream_launch(const void *args, struct rlx_g_launch *l)
{
	l->processors = processors;
	rlx_g_gemv_stream_launch(args, l);
}

/* Few rows, and what it takes of them: pieces of 16 bytes. */
TEST(gemv_stream)
{
	static const struct gemm_case cases[] = {
		{ gemv_stream_launch, RLX_BF16, RLX_BF16,
		  RLX_BF16, RLX_F32, 1e-6, false, 8, true },
		{ gemv_stream_launch, RLX_F16, RLX_F16, RLX_F32,
		  RLX_F32, 1e-6, false, 8, true },
	};
	static const int shared[] = { SHARED_90, SHARED_AMD, SHARED_86, SHARED_80 };
	uint64_t seed = rlx_test_seed();

	for (int i = 0; i < 16; i++) {
		gpu_plan_shared(shared[i < 8 ? 0 : i % 4]);
		processors = (uint32_t)kc_pick(&seed, 1, 9);
		one_gemm(&cases[i % 2], (size_t)kc_pick(&seed, 1, 16),
			 (size_t)kc_pick(&seed, 1, 30) * 8, (size_t)kc_pick(&seed, 1, 300) * 8,
			 &seed);
	}
	gpu_plan_shared(SHARED_90);
}

/* Every form asks for what the chip's blocks have, and keeps two stages. */
TEST(gemv_stream_fits)
{
	static const uint32_t shared[] = { SHARED_AMD, SHARED_86, SHARED_80, SHARED_90 };
	struct rlx_k_gemv_stream a = { .g = { .m = 1, .k = 4096, .lda = 4096, .a_type = RLX_BF16,
					 .b_type = RLX_BF16, .c_type = RLX_BF16 } };

	for (int form = 0; form < 16 * 64; form++)
		for (int i = 0; i < 4; i++) {
			struct rlx_g_launch l = { .processors = 132, .most_shared = shared[i] };

			a.g.m = form & 1 ? 1 : 16;
			a.g.b_form = form & 2 ? RLX_B_COLS : RLX_B_ROWS;
			a.gate = form & 4 && form & 2 ? RLX_GATE_LAST : RLX_GATE_NONE;
			a.g.n = (size_t)(form / 16) * 256 + 8;
			a.g.k = a.g.lda = form & 8 ? 512 : 16384;
			a.g.ldb = form & 2 ? a.g.k : a.g.n;
			rlx_g_gemv_stream_launch(&a, &l);
			CHECKF(l.can && l.shared <= shared[i] &&
			       l.param.gemv_stream.STREAM_STAGES >= 2,
			       "form %d of %zu columns: %u of %u bytes, %d stages", form, a.g.n,
			       l.shared, shared[i], l.param.gemv_stream.STREAM_STAGES);
		}
}

static int64_t draw(uint64_t *seed, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(rlx_test_rand(seed) % (uint64_t)(hi - lo + 1));
}

/* Rows [@from, @from + @n) of @x. */
static rlx_value rows_of(struct rig *r, rlx_value x, int64_t from, int64_t n)
{
	return rlx_emit(r->g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(from),
			.ends = RLX_INTS(from + n));
}

/* The columns of @x back to front, as a launch makes them. */
static rlx_value turned(struct rig *r, rlx_value x, int64_t n)
{
	int32_t at[160];

	for (int64_t i = 0; i < n; i++)
		at[i] = (int32_t)(n - 1 - i);
	return rlx_emit(r->g, gather, .x = x, .axis = 1,
			.indices = rlx_constant(r->g, rlx_type(RLX_I32, n), at));
}

/* Operands that are rows of what a launch made, from any one on: lines at odd places. */
TEST(rows_of_others)
{
	static const enum rlx_dtype types[] = { RLX_F32, RLX_F16, RLX_BF16, RLX_F64 };
	static const double tol[] = { 1e-5, 5e-3, 4e-2, 1e-12 };
	uint64_t seed = rlx_test_seed();

	for (unsigned int i = 0; i < 12; i++) {
		const int64_t m = draw(&seed, 1, 140), n = draw(&seed, 1, 140);
		const int64_t k = draw(&seed, 1, 70), at = draw(&seed, 0, 9);
		const int64_t bt[2] = { draw(&seed, 0, 9), draw(&seed, 0, 9) };
		rlx_value x, w;
		struct rig r;

		rig_init(&r, "cuda");
		x = rig_random(&r, rlx_type(types[i % 4], m + 9, k), -1, 1);
		w = turned(&r, rig_random(&r, rlx_type(types[i % 4], k + 9, n), -1, 1), n);
		x = rows_of(&r, turned(&r, x, k), at, m);
		rig_output(&r, rlx_emit(r.g, matmul, .a = x, .b = rows_of(&r, w, bt[0], k)));
		rig_output(&r, rlx_emit(r.g, matmul, .a = x, .b = rows_of(&r, w, bt[1], k)));
		rig_run(&r);
		for (int64_t e = 0; e < 2 * m * n; e++) {
			const int64_t o = e / (m * n), row = e / n % m, col = e % n;
			double sum = 0;

			for (int64_t j = 0; j < k; j++)
				sum += rig_in(&r, 0, (at + row) * k + k - 1 - j) *
				       rig_in(&r, 1, (bt[o] + j) * n + n - 1 - col);
			rig_want(&r, (unsigned int)o, e % (m * n), sum, tol[i % 4]);
		}
		rig_fini(&r);
	}
}

TEST_MAIN()
