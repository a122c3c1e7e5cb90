// SPDX-License-Identifier: MIT
/* Recurrent cells on the GPU or the emulator, against sums in double. */
#include "selftests/gpu/against_cpu.h"
#include "selftests/kernels/rnn_ref.h"
#include "selftests/lib/op_case.h"

/* A tensor in f32 for the reference, and in the kernel's type on the device. */
struct pair {
	float	*p;
	void	*dev;
	size_t	n;
	int	type;
};

static struct pair pair_new(int64_t n, int type, double range, uint64_t *seed)
{
	struct pair t = { .n = (size_t)n, .type = type };
	void *raw = gpu_alloc(t.n, type, -range, range, seed);

	t.p = malloc((t.n + 1) * sizeof(*t.p));
	CHECK(t.p);
	for (size_t i = 0; i < t.n; i++)
		t.p[i] = (float)gpu_value(raw, i, type);
	t.dev = dev_of(raw, t.n * rlx_k_type_size((enum rlx_dtype)type));
	free(raw);
	return t;
}

static void pair_read(struct pair *t)
{
	size_t bytes = t->n * rlx_k_type_size((enum rlx_dtype)t->type);
	void *raw = malloc(bytes + 1);

	CHECK(raw);
	dev_read(raw, t->dev, bytes);
	for (size_t i = 0; i < t->n; i++)
		t->p[i] = (float)gpu_value(raw, i, t->type);
	free(raw);
}

static void pair_free(struct pair *t)
{
	dev_free(t->dev);
	free(t->p);
}

/* As launch.h says for small weights, or each step in a launch of its own. */
static bool by_steps;

static void how(const void *args, struct rlx_g_launch *l)
{
	struct rlx_k_rnn a = *(const struct rlx_k_rnn *)args;
	uint64_t scratch;

	rlx_g_rnn_launch(args, l);
	scratch = l->scratch;
	if (!by_steps)
		return;
	a.hidden = 1 << 10;	/* large weights */
	rlx_g_rnn_launch(&a, l);
	l->grid[0] = (uint32_t)(a.dirs * rlx_g_ceil(a.batch, RLX_K_RNN_ROWS)) * 2;
	l->scratch = scratch;
}

enum { X, R, B, PEEP, H0, C0, Y, YH, YC, FIELDS };

/* @a's results, read into @t; the reference has the bias in x and rb, as CPUs have it. */
static void compare(const struct rlx_k_rnn *a, struct pair *t, const int32_t *lens, double tol)
{
	int64_t g = rlx_k_rnn_gates(a->cell), n = a->hidden, d, j;
	float *rb = calloc((size_t)(a->dirs * n), sizeof(*rb));
	struct rlx_k_rnn ref = *a;

	CHECK(rb);
	for (size_t i = 0; a->b && i < t[X].n; i++) {
		int64_t u = (int64_t)i % (g * n);
		bool late = a->cell == RLX_K_RNN_GRU && a->linear_before_reset && u >= 2 * n;

		d = (int64_t)i / (g * n) % a->dirs;
		t[X].p[i] += t[B].p[d * 2 * g * n + u] +
			     (late ? 0 : t[B].p[(d * 2 + 1) * g * n + u]);
	}
	for (d = 0; a->b && d < a->dirs; d++)
		for (j = 0; j < n && a->cell == RLX_K_RNN_GRU; j++)
			rb[d * n + j] = t[B].p[(d * 2 + 1) * g * n + 2 * n + j];
	ref.x = t[X].p;
	ref.rb = a->b ? rb : NULL;
	ref.peep = a->peep ? t[PEEP].p : NULL;
	ref.h0 = a->h0 ? t[H0].p : NULL;
	ref.c0 = a->c0 ? t[C0].p : NULL;
	ref.lens = lens;
	ref.y = t[Y].p;
	ref.yh = t[YH].p;
	ref.yc = t[YC].p;
	rnn_check(&(struct rnn_ref){ &ref, false, t[R].p, t[H0].p, t[C0].p, tol });
	free(rb);
}

/* What the kernel is given, the pointers to @t. */
static void one(struct rlx_k_rnn a, int type, bool rare, uint64_t *seed)
{
	int64_t g = rlx_k_rnn_gates(a.cell), n = a.hidden, db = a.dirs * a.batch;
	double size = rare ? 0.25 : 1, tol = type == RLX_F32 ? 2e-5 : type == RLX_F16 ?
		      2e-3 : 1.5e-2;
	int other = kc_pick(seed, 0, 1) ? type : RLX_F32;
	bool in_place = kc_pick(seed, 0, 1);
	struct pair t[FIELDS];
	struct rlx_g_env env = { .units = 0 };
	int32_t lens[9];

	t[X] = pair_new(a.steps * db * g * n, RLX_F32, size, seed);
	t[R] = pair_new(a.dirs * g * n * n, type, size / sqrt((double)n), seed);
	t[B] = pair_new(a.dirs * 2 * g * n, other, size, seed);
	t[PEEP] = pair_new(a.dirs * 3 * n, type, size, seed);
	for (int i = H0; i < FIELDS; i++)
		t[i] = pair_new(i == Y ? a.steps * db * n : db * n,
				i < Y && !in_place ? other : type, size, seed);
	for (int i = 0; i < 9; i++)
		lens[i] = (int32_t)kc_pick(seed, 0, a.steps);
	rnn_options(&a, rare, seed);
	a.r_type = (uint8_t)type;
	a.y_type = (uint8_t)t[Y].type;
	a.type.b = (uint8_t)t[B].type;
	a.type.peep = (uint8_t)t[PEEP].type;
	a.type.h0 = (uint8_t)t[H0].type;
	a.type.c0 = (uint8_t)t[C0].type;
	rnn_strides(&a, kc_pick(seed, 0, 1));
	a.x = t[X].dev;
	a.r = t[R].dev;
	a.b = kc_pick(seed, 0, 2) ? t[B].dev : NULL;
	a.peep = kc_pick(seed, 0, 1) ? t[PEEP].dev : NULL;
	a.h0 = kc_pick(seed, 0, 2) ? t[H0].dev : NULL;
	a.c0 = kc_pick(seed, 0, 2) ? t[C0].dev : NULL;
	a.lens_type = RLX_I32;
	a.lens = kc_pick(seed, 0, 1) ? dev_of(lens, sizeof(lens)) : NULL;
	a.y = t[Y].dev;
	a.yh = a.h0 && in_place ? t[H0].dev : t[YH].dev;
	a.yc = t[YC].dev;
	gpu_run_kernel(how, &a, &env);
	pair_read(&t[Y]);
	t[YH].dev = a.yh == t[H0].dev ? (dev_free(t[YH].dev), t[H0].dev) : t[YH].dev;
	pair_read(&t[YH]);
	pair_read(&t[YC]);
	compare(&a, t, a.lens ? lens : NULL, tol);
	if (t[YH].dev == t[H0].dev)
		t[H0].dev = dev_new(1);
	for (int i = 0; i < FIELDS; i++)
		pair_free(&t[i]);
	if (a.lens)
		dev_free(a.lens);
}

static void some(int64_t count)
{
	static const int type[3] = { RLX_F32, RLX_F16, RLX_BF16 };
	uint64_t seed = rlx_test_seed();

	for (int64_t i = 0; i < count; i++) {
		struct rlx_k_rnn a = {
			.cell = (uint8_t)(i % 3), .steps = kc_pick(&seed, 1, 5),
			.batch = kc_pick(&seed, 1, 9), .hidden = kc_pick(&seed, 1, 40),
			.dirs = kc_pick(&seed, 1, 2),
		};
		bool rare = kc_pick(&seed, 0, 2) == 0;

		/* rounding grows where gates have no bounds */
		one(a, rare ? RLX_F32 : type[i / 3 % 3], rare, &seed);
	}
}

TEST(all_steps_in_a_launch)
{
	by_steps = false;
	some(18);
}

TEST(a_launch_for_each_step)
{
	by_steps = true;
	some(18);
}

/* Programs, whose projections are GEMMs of these dtypes into f32. */
static void programs(enum rlx_dtype real, double tol)
{
	static const uint32_t ops[] = { RLX_OP_lstm, RLX_OP_gru, RLX_OP_rnn };
	uint64_t seed = rlx_test_seed();
	struct op_result got, truth;
	struct op_case c, wide;
	struct rlx_error err;

	for (unsigned int i = 0; i < 6; i++) {
		CHECK(op_case_init(&c, rlx_op_defs[ops[i / 2]], i % 2, real, &seed));
		op_case_convert(&wide, &c, real, RLX_F64);
		CHECKF(!op_case_run(&wide, "ref", &truth, &err), "%s", err.text);
		CHECKF(!op_case_run(&c, op_case_gpu(), &got, &err), "%s", err.text);
		for (unsigned int k = 0; k < got.n_out; k++)
			CHECKF(op_result_error(&got, &truth, k) <= c.s.tol + tol,
			       "%s sample %u output %u is %g off", c.def->name, i % 2, k,
			       op_result_error(&got, &truth, k));
		op_result_fini(&got);
		op_result_fini(&truth);
		op_case_fini(&wide);
		op_case_fini(&c);
	}
}

TEST(programs_of_f16)
{
	programs(RLX_F16, 0x1p-9);
}

TEST(programs_of_bf16)
{
	programs(RLX_BF16, 0x1p-6);
}

TEST_MAIN()
