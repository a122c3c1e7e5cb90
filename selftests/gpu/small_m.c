// SPDX-License-Identifier: MIT
/*
 * Small-M GEMM that share a launch, with the norm or the attention before them:
 * the same results as in f32 or double, whichever outputs are wanted, and as few launches
 * as there can be.
 */
#include "backends/gpu/gpu.h"
#include "kernels/gpu/gemm_horizontal.h"
#include "rt/session.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

enum { ROWS = 16, MANY = 50, WIDTH = 128, MOST = MANY * WIDTH, MOST_WEIGHTS = 384 * 72 };

static const struct {
	const char	*name;
	int64_t		 n;
} outs[3] = { { "k", 24 }, { "v", 40 }, { "o", WIDTH } };

static rlx_value numbers(struct rlx_graph *g, int64_t d0, int64_t d1, uint64_t *seed)
{
	struct rlx_type t = d1 ? rlx_type(RLX_F32, d0, d1) : rlx_type(RLX_F32, d0);
	static float v[MOST_WEIGHTS];
	int64_t i;

	CHECK(rlx_type_count(&t) <= MOST_WEIGHTS);

	for (i = 0; i < rlx_type_count(&t); i++)
		v[i] = (float)rlx_test_uniform(seed, -0.2, 0.2);
	return rlx_constant(g, t, v);
}

static bool exact, by_rows;	/* all is f32; weights are by rows, not by columns */

static rlx_value product(struct rlx_graph *g, rlx_value x, int64_t n, rlx_value residual,
			 uint64_t *seed)
{
	const struct rlx_type *t = rlx_type_of(g, x);
	int64_t k = t->dim[t->rank - 1];

	if (by_rows)
		return rlx_emit(g, fused_matmul, .a = x, .b = numbers(g, k, n, seed),
				.bias = numbers(g, n, 0, seed), .residual = residual);

	return rlx_emit(g, fused_matmul, .a = x, .b = numbers(g, n, k, seed),
			.bias = numbers(g, n, 0, seed), .residual = residual, .trans_b = true);
}

static struct rlx_session *session_of(struct rlx_graph *g, const char *device,
				      enum rlx_precision precision)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device,
				      .precision = precision };
	struct rlx_error err = { 0 };
	struct rlx_session *s;
	struct rlx_program *p;

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

/* q, k and v of normalised rows; o adds the rows that were normalised to q's product. */
static struct rlx_session *session_on(const char *device, enum rlx_precision precision,
				      int64_t rows, uint64_t seed)
{
	struct rlx_graph *g = rlx_graph_new("thin");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, rows, WIDTH)), q, y;

	if (exact)		/* an input would stay where it is, and be read once */
		x = rlx_emit(g, abs, .x = x);
	y = rlx_emit(g, layer_norm, .x = x, .gamma = numbers(g, WIDTH, 0, &seed),
		     .beta = numbers(g, WIDTH, 0, &seed), .axis = -1, .eps = 1e-5f);
	q = product(g, y, WIDTH, RLX_NONE, &seed);
	rlx_output(g, "k", product(g, y, outs[0].n, RLX_NONE, &seed));
	rlx_output(g, "v", product(g, y, outs[1].n, RLX_NONE, &seed));
	rlx_output(g, "o", product(g, q, WIDTH, y, &seed));
	return session_of(g, device, precision);
}

static void *buf(struct rlx_session *s, enum rlx_io io, const char *name)
{
	void *p = rlx_buf_ptr(rlx_session_buf(s, io, name));

	CHECK(p);
	return p;
}

static void run(struct rlx_session *s, const float *x, int64_t rows)
{
	memcpy(buf(s, RLX_IO_INPUT, "x"), x, (size_t)(rows * WIDTH) * sizeof(*x));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
}

/* @n numbers of an output of @s against those of @t. */
static void compare(struct rlx_session *s, struct rlx_session *t, const char *name, int64_t n)
{
	const float *a = buf(s, RLX_IO_OUTPUT, name), *b = buf(t, RLX_IO_OUTPUT, name);
	float tol = exact ? 2e-6f : 0.02f;
	int64_t k;

	for (k = 0; k < n; k++)
		CHECKF(fabsf(a[k] - b[k]) <= tol * (1 + fabsf(b[k])), "%s[%lld] is %g, not %g",
		       name, (long long)k, (double)a[k], (double)b[k]);
}

static void check(enum rlx_precision precision, int64_t rows)
{
	uint64_t seed = rlx_test_seed(), weights = seed;
	struct rlx_session *s = session_on(op_case_gpu(), precision, rows, weights);
	struct rlx_session *t = session_on("cpu", RLX_PRECISION_AS_WRITTEN, rows, weights);
	static float x[MOST];
	int turn, i;

	for (turn = 0; turn < 5; turn++) {
		/* all; then one, another, the third, and all again */
		const char *want = turn > 0 && turn < 4 ? outs[turn - 1].name : NULL;

		for (i = 0; i < MOST; i++)
			x[i] = (float)rlx_test_uniform(&seed, -2, 3);
		for (i = 0; i < 3; i++)
			memset(buf(s, RLX_IO_OUTPUT, outs[i].name), 0xff,
			       (size_t)(rows * outs[i].n) * sizeof(float));
		CHECK(!rlx_session_want(s, want ? &want : NULL, 1));
		run(s, x, rows);
		run(t, x, rows);
		for (i = 0; i < 3; i++)
			if (!want || i == turn - 1)
				compare(s, t, outs[i].name, rows * outs[i].n);
	}
	/* x to f16, or its magnitudes; norm, q, k and v; o; three results to f32 */
	CHECK_EQ(((const struct gpu_code *)s->exec->code)->calls.n_call, exact ? 3 : 6);
	rlx_session_free(s);
	rlx_session_free(t);
}

TEST(bf16)
{
	check(RLX_PRECISION_MIXED_BF16, ROWS);
	check(RLX_PRECISION_MIXED_BF16, MANY);
}

TEST(f16)
{
	check(RLX_PRECISION_MIXED_F16, ROWS);
	check(RLX_PRECISION_MIXED_F16, MANY);
}

TEST(f32)
{
	exact = true;
	check(RLX_PRECISION_AS_WRITTEN, ROWS);
	by_rows = true;
	check(RLX_PRECISION_AS_WRITTEN, ROWS);
	exact = by_rows = false;
}

/* The bias of the second product is all that the first one made: not in one launch. */
static struct rlx_session *adding(const char *device, enum rlx_precision precision,
				  uint64_t seed)
{
	struct rlx_graph *g = rlx_graph_new("adding");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, 64)), y;

	y = rlx_emit(g, fused_matmul, .a = x, .b = numbers(g, 24, 64, &seed), .trans_b = true);
	y = rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(ROWS * 24));
	rlx_output(g, "y", rlx_emit(g, fused_matmul, .a = x, .trans_b = true, .bias = y,
				    .b = numbers(g, ROWS * 24, 64, &seed)));
	return session_of(g, device, precision);
}

TEST(a_product_added_to_the_next)
{
	uint64_t seed = rlx_test_seed(), weights = seed;
	struct rlx_session *s = adding(op_case_gpu(), RLX_PRECISION_BF16, weights);
	struct rlx_session *t = adding("ref", RLX_PRECISION_AS_WRITTEN, weights);
	float x[MOST];
	int i;

	for (i = 0; i < MOST; i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	memcpy(buf(s, RLX_IO_INPUT, "x"), x, ROWS * 64 * sizeof(*x));
	memcpy(buf(t, RLX_IO_INPUT, "x"), x, ROWS * 64 * sizeof(*x));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECKF(!rlx_session_run(t), "%s", rlx_session_error(t)->text);
	compare(s, t, "y", ROWS * ROWS * 24);
	/* x, which both read, to the device; two products */
	CHECK_EQ(((const struct gpu_code *)s->exec->code)->calls.n_call, 3);
	rlx_session_free(s);
	rlx_session_free(t);
}

/* ---- in tiles of warpgroups ---- */

static const char *const qkv[3] = { "q", "k", "v" };

/* Products of one x, of which k has no bias; v ends in another activation if they @differ. */
static struct rlx_session *one_a(const char *device, enum rlx_precision precision, int64_t rows,
				  int64_t n, bool differ, uint64_t seed)
{
	struct rlx_graph *g = rlx_graph_new("beside");
	rlx_value x = rlx_emit(g, abs, .x = rlx_input(g, "x", rlx_type(RLX_F32, rows, 64))), y;

	for (int i = 0; i < 3; i++) {
		y = rlx_emit(g, fused_matmul, .a = x, .b = numbers(g, n, 64, &seed),
			     .bias = i == 1 ? RLX_NONE : numbers(g, n, 0, &seed), .trans_b = true,
			     .act = differ && i == 2 ? RLX_ACT_RELU : RLX_ACT_GELU);
		rlx_output(g, qkv[i], y);
	}
	return session_of(g, device, precision);
}

static void check_horizontal(enum rlx_precision precision, int64_t rows, int64_t n, bool differ)
{
	uint64_t seed = rlx_test_seed(), weights = seed;
	struct rlx_session *s = one_a(op_case_gpu(), precision, rows, n, differ, weights);
	struct rlx_session *t = one_a("ref", RLX_PRECISION_AS_WRITTEN, rows, n, differ, weights);
	const struct gpu_code *c = (const void *)s->exec->code;
	const bool sm_90 = gpu_launch_for(gpu_device_of(s->exec->code), 0).arch == 90;
	uint64_t joined = 0;

	for (uint32_t i = 0; i < c->calls.n_call; i++) {
		const struct gpu_call *call = &gpu_calls(c)[i];
		const struct rlx_g_horizontal_tiled *a =
			(const void *)(c->calls.args + call->base.args);

		if (call->launch.variant == RLX_G_gemm_wgmma_horizontal)
			joined += a->g.batch[0];
	}
	CHECK_EQ(joined, !sm_90 ? 0 : differ ? 2 : 3);
	for (int turn = 0; turn < 2; turn++) {
		float *x = buf(s, RLX_IO_INPUT, "x");

		for (int64_t i = 0; i < rows * 64; i++)
			x[i] = (float)rlx_test_uniform(&seed, -2, 2);
		memcpy(buf(t, RLX_IO_INPUT, "x"), x, (size_t)(rows * 64) * sizeof(*x));
		for (int i = 0; i < 3; i++)
			memset(buf(s, RLX_IO_OUTPUT, qkv[i]), 0xff,
			       (size_t)(rows * n) * sizeof(float));
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECKF(!rlx_session_run(t), "%s", rlx_session_error(t)->text);
		for (int i = 0; i < 3; i++)
			compare(s, t, qkv[i], rows * n);
	}
	rlx_session_free(s);
	rlx_session_free(t);
}

TEST(products_of_one_a_in_tiles)
{
	check_horizontal(RLX_PRECISION_MIXED_F16, 200, 128, false);
	check_horizontal(RLX_PRECISION_MIXED_BF16, 130, 328, false);
	check_horizontal(RLX_PRECISION_MIXED_F16, 65, 72, true);
}

/* ---- attention ---- */

enum rank { FLAT, BY_ROWS, BY_HEADS };	/* of q, k, v: 3, 4 in both layouts */
enum bias { NO_BIAS, ADDED, KEPT };

struct form {
	bool		joins;
	int64_t		batch, q_len, kv_len, heads, kv_heads, width, v_width;
	enum rank	rank;
	enum bias	bias;
	int32_t		mask;
	float		softcap, scale;
	bool		lens, twice;	/* twice: what attends is an output as well */
};

static rlx_value heads(struct rlx_graph *g, const char *name, const struct form *f, int64_t len,
		       int64_t n, int64_t width)
{
	return rlx_input(g, name,
			 f->rank == FLAT ? rlx_type(RLX_F32, f->batch, len, n * width) :
			 f->rank == BY_ROWS ? rlx_type(RLX_F32, f->batch, len, n, width) :
			 rlx_type(RLX_F32, f->batch, n, len, width));
}

static rlx_value bias_of(struct rlx_graph *g, const struct form *f, struct rlx_type t,
			 uint64_t *seed)
{
	static float added[ROWS * 64];
	static uint8_t keep[ROWS * 64];
	int64_t i;

	CHECK(rlx_type_count(&t) <= ROWS * 64);
	for (i = 0; i < rlx_type_count(&t); i++) {
		added[i] = (float)rlx_test_uniform(seed, -2, 2);
		keep[i] = rlx_test_uniform(seed, 0, 3) > 1;
	}
	return rlx_constant(g, t, f->bias == ADDED ? (void *)added : keep);
}

/* Attention, the product of what comes out by weights, and tanh(x) added to that. */
static struct rlx_session *attending(const struct form *f, const char *device,
				     enum rlx_precision precision, uint64_t seed)
{
	int64_t n = 8 + (int64_t)(seed % 8) * 8, k = f->heads * f->v_width;
	struct rlx_graph *g = rlx_graph_new("attending");
	rlx_value bias = RLX_NONE, lens = RLX_NONE, y;
	rlx_value x = rlx_emit(g, tanh, .x = rlx_input(g, "x", rlx_type(RLX_F32, f->batch,
									f->q_len, n)));

	if (f->bias)	/* for all heads alike, or for all queries */
		bias = bias_of(g, f, rlx_type(f->bias == ADDED ? RLX_F32 : RLX_BOOL, f->batch,
					      seed & 1 ? f->heads : 1, seed & 1 ? 1 : f->q_len,
					      f->kv_len), &seed);
	if (f->lens)
		lens = rlx_input(g, "lens", rlx_type(RLX_I64, f->batch));
	y = rlx_emit(g, attention, .q = heads(g, "q", f, f->q_len, f->heads, f->width),
		     .k = heads(g, "k", f, f->kv_len, f->kv_heads, f->width),
		     .v = heads(g, "v", f, f->kv_len, f->kv_heads, f->v_width),
		     .bias = bias, .lens = lens, .heads = (int32_t)f->heads,
		     .kv_heads = (int32_t)f->kv_heads, .mask = f->mask,
		     .window = f->mask == RLX_MASK_SLIDING ? 5 : 0, .softcap = f->softcap,
		     .layout = f->rank == BY_HEADS ? RLX_BHSD : RLX_BSHD, .scale = f->scale);
	if (f->rank == BY_HEADS)
		y = rlx_emit(g, transpose, .x = y, .perm = RLX_INTS(0, 2, 1, 3));
	if (f->rank != FLAT)
		y = rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(f->batch, f->q_len, k));
	if (f->twice)
		rlx_output(g, "attended", y);
	rlx_output(g, "y", product(g, y, n, x, &seed));
	return session_of(g, device, precision);
}

/* The same numbers for every input of both sessions; integers are lengths. */
static void fill_inputs(struct rlx_session *s, struct rlx_session *t, int64_t kv_len,
			uint64_t *seed)
{
	const struct rlx_plan *plan = s->p->plan;
	uint32_t i;
	int64_t k;

	for (i = 0; i < plan->n_io[RLX_IO_INPUT]; i++) {
		const struct rlx_plan_io *io = &plan->io[RLX_IO_INPUT][i];
		const struct rlx_type *type = &plan->val[io->val].type;
		void *p = buf(s, RLX_IO_INPUT, io->name);

		for (k = 0; k < rlx_type_count(type); k++)
			if (type->dtype == RLX_F32)
				((float *)p)[k] = (float)rlx_test_uniform(seed, -2, 2);
			else
				((int64_t *)p)[k] = (int64_t)rlx_test_uniform(seed, 0,
									     (double)kv_len + 1);
		memcpy(buf(t, RLX_IO_INPUT, io->name), p, (size_t)rlx_type_bytes(type));
	}
}

static void check_attention(const struct form *f, enum rlx_precision precision)
{
	uint64_t seed = rlx_test_seed(), weights = rlx_test_rand(&seed);
	struct rlx_session *s = attending(f, op_case_gpu(), precision, weights);
	struct rlx_session *t = attending(f, "ref", precision, weights);
	int64_t rows = f->batch * f->q_len, n = 8 + (int64_t)(weights % 8) * 8;
	const struct gpu_code *c = (const void *)s->exec->code;
	uint32_t joined = 0, i;

	for (i = 0; i < c->calls.n_call; i++)
		joined += gpu_calls(c)[i].launch.variant == RLX_G_gemm_horizontal &&
			  gpu_calls(c)[i].launch.param.gemm_horizontal.PROLOGUE_ATTENTION;
	CHECKF(joined == f->joins, "%lld x %lld queries, %lld keys, %lld heads of %lld: %u joined",
	       (long long)f->batch, (long long)f->q_len, (long long)f->kv_len,
	       (long long)f->heads, (long long)f->width, joined);
	for (i = 0; i < 2; i++) {	/* what was left in shared memory is not read again */
		fill_inputs(s, t, f->kv_len, &seed);
		memset(buf(s, RLX_IO_OUTPUT, "y"), 0xff, (size_t)(rows * n) * sizeof(float));
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECKF(!rlx_session_run(t), "%s", rlx_session_error(t)->text);
		compare(s, t, "y", rows * n);
		if (f->twice)
			compare(s, t, "attended", rows * f->heads * f->v_width);
	}
	rlx_session_free(s);
	rlx_session_free(t);
}

TEST(attention_before_a_product)
{
	uint64_t seed = rlx_test_seed();
	int64_t len = 11 + (int64_t)(seed % 6), keys = 33 + (int64_t)(seed % 32);
	const struct form forms[] = {
		{ true, 1, len, len, 12, 12, 32, 32, .lens = true },
		/* heads share keys, and warps have more than one of them */
		{ true, 2, 8, 8, 6, 2, 16, 16, .mask = RLX_MASK_CAUSAL },
		{ true, 3, 5, 5, 3, 3, 24, 24, BY_ROWS, .lens = true, .scale = 0.3f },
		/* scores with more to them */
		{ true, 1, len, len, 4, 4, 16, 8, .bias = ADDED, .softcap = 2.5f },
		{ true, 1, 10, keys, 2, 1, 32, 32, .bias = KEPT, .mask = RLX_MASK_SLIDING },
		{ true, 3, 4, len, 2, 2, 64, 40, .lens = true },
		/* tiles of rows, one batch row's or of several */
		{ true, 1, 17, 16, 2, 2, 32, 32 },
		{ true, 3, 21, 40, 2, 2, 32, 32, .lens = true },
		{ true, 2, 32, 32, 4, 2, 32, 32, .mask = RLX_MASK_CAUSAL },
		{ true, 5, 7, 9, 3, 1, 24, 24, BY_ROWS, .lens = true },
		/*
		 * by launches of their own: rows that cannot be read by 16 bytes, too many
		 * of them or heads, or needed twice
		 */
		{ false, 1, len, len, 4, 4, 12, 6 },
		{ false, 1, 65, 16, 2, 2, 32, 32 },
		{ false, 16, 1, 12, 12, 12, 32, 32 },
		{ false, 1, len, len, 2, 2, 32, 32, BY_HEADS },
		{ false, 1, len, len, 2, 2, 32, 32, .twice = true },
		{ false, 1, len, len, 3, 3, 12, 12 },
	};
	size_t i;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		check_attention(&forms[i], i % 2 ? RLX_PRECISION_MIXED_BF16 :
						   RLX_PRECISION_MIXED_F16);
	check_attention(&forms[0], RLX_PRECISION_MIXED_BF16);
}

/* ---- rows of a table ---- */

enum { TABLE = 50 };

/* Rows of a table and what is added to them, normalised; two products, one read twice. */
static struct rlx_session *picking(const char *device, enum rlx_precision precision,
				   bool each, uint64_t seed)
{
	struct rlx_graph *g = rlx_graph_new("picking");
	rlx_value idx = rlx_input(g, "idx", rlx_type(RLX_I64, ROWS)), x, y, q;

	x = rlx_emit(g, gather, .x = numbers(g, TABLE, WIDTH, &seed), .indices = idx);
	y = rlx_emit(g, fused_residual_norm, .x = x,
		     .residual = numbers(g, each ? ROWS : 1, WIDTH, &seed),
		     .gamma = numbers(g, WIDTH, 0, &seed), .beta = numbers(g, WIDTH, 0, &seed),
		     .kind = RLX_NORM_LAYER, .eps = 1e-5f);
	q = product(g, y, WIDTH, RLX_NONE, &seed);
	rlx_output(g, "v", product(g, y, outs[1].n, RLX_NONE, &seed));
	rlx_output(g, "o", product(g, q, WIDTH, y, &seed));
	return session_of(g, device, precision);
}

/* Is what the step of that op gives as output @k stored by nobody? */
static bool lies_nowhere(const struct rlx_session *s, const char *op, unsigned int k)
{
	const struct rlx_program *p = rlx_session_program(s);
	struct rlx_value_place at = { .size = sizeof(at) };
	struct rlx_program_step st = { .size = sizeof(st) };
	unsigned int i;

	for (i = 0; !rlx_program_step(p, i, &st); i++)
		if (!strcmp(st.op, op)) {
			CHECK(k < st.n_out);
			CHECK(!rlx_program_place(p, (rlx_value){ st.out[k] }, &at));
			return at.kind == RLX_PLACE_NONE && !at.bytes;
		}
	CHECKF(false, "no step is %s", op);
	return false;
}

static void check_rows(enum rlx_precision precision, bool each)
{
	uint64_t seed = rlx_test_seed(), weights = seed;
	struct rlx_session *s = picking(op_case_gpu(), precision, each, weights);
	struct rlx_session *t = picking("ref", RLX_PRECISION_AS_WRITTEN, each, weights);
	int64_t *idx = buf(s, RLX_IO_INPUT, "idx");
	int i;

	fill_inputs(s, t, TABLE - 1, &seed);
	for (i = 1; i < 3; i++)
		memset(buf(s, RLX_IO_OUTPUT, outs[i].name), 0xff,
		       (size_t)(ROWS * outs[i].n) * sizeof(float));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECKF(!rlx_session_run(t), "%s", rlx_session_error(t)->text);
	for (i = 1; i < 3; i++)
		compare(s, t, outs[i].name, ROWS * outs[i].n);
	/* the indices to the device; rows, norm, q and v; o; two results to f32 */
	CHECK_EQ(((const struct gpu_code *)s->exec->code)->calls.n_call, 5);
	/* the sum that is normalised, which nobody reads */
	CHECK(lies_nowhere(s, "fused_residual_norm", 1));
	CHECK(!lies_nowhere(s, "fused_residual_norm", 0));
	idx[ROWS - 1] = TABLE;
	CHECK_EQ(rlx_session_run(s), RLX_ERANGE);
	CHECKF(strstr(rlx_session_error(s)->text, "gather"), "%s", rlx_session_error(s)->text);
	CHECK(!rlx_session_extent(s, ROWS - 1, ROWS));	/* nobody looks at that one */
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	for (i = 1; i < 3; i++)
		compare(s, t, outs[i].name, (ROWS - 1) * outs[i].n);
	CHECK(!rlx_session_extent(s, ROWS, ROWS));
	idx[ROWS - 1] = -TABLE;		/* the first row */
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	rlx_session_free(s);
	rlx_session_free(t);
}

TEST(rows_of_a_table_before_products)
{
	check_rows(RLX_PRECISION_MIXED_F16, true);
	check_rows(RLX_PRECISION_MIXED_BF16, false);
}

/* ---- the end of an encoder ---- */

struct end_form {
	int64_t		batch, len, heads, width;
	bool		mean, lens, layer, wide;	/* wide: in f32 to the end */
	uint32_t	calls;
};

/* Normalised rows, what a query sees of them, and the norm of that. */
static struct rlx_session *ending(const char *device, const struct end_form *f,
				  enum rlx_dtype halves, uint64_t seed)
{
	struct rlx_graph *g = rlx_graph_new("ending");
	int64_t n = f->heads * f->width;
	struct rlx_type t = rlx_type(RLX_F32, f->batch, f->len, n);
	rlx_value x = rlx_emit(g, cast, .x = rlx_input(g, "x", t), .to = halves);
	rlx_value q, y, lens = RLX_NONE, gamma = numbers(g, n, 0, &seed);

	if (f->mean)
		q = rlx_emit(g, expand, .x = rlx_scalar_const(g, RLX_F32, 0),
			     .shape = RLX_INTS(f->batch, 1, n));
	else
		q = rlx_input(g, "q", rlx_type(RLX_F32, f->batch, 1, n));
	q = rlx_emit(g, cast, .x = q, .to = halves);
	y = rlx_emit(g, layer_norm, .x = x, .gamma = numbers(g, n, 0, &seed),
		     .beta = numbers(g, n, 0, &seed), .axis = -1, .eps = 1e-5f);
	if (f->lens)
		lens = rlx_input(g, "lens", rlx_type(RLX_I64, f->batch));
	y = rlx_emit(g, attention, .q = q, .k = y, .v = y, .lens = lens,
		     .heads = (int32_t)f->heads);
	y = rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(f->batch, n));
	if (f->layer)
		y = rlx_emit(g, layer_norm, .x = y, .gamma = gamma, .beta = gamma, .axis = -1,
			     .eps = 1e-5f);
	else
		y = rlx_emit(g, rms_norm, .x = y, .gamma = gamma, .axis = -1, .eps = 1e-5f);
	y = rlx_emit(g, cast, .x = y, .to = RLX_F32);
	rlx_output(g, "y", f->wide ? y : rlx_emit(g, tanh, .x = y));
	return session_of(g, device, RLX_PRECISION_AS_WRITTEN);
}

static void check_end(const struct end_form *f, enum rlx_dtype halves)
{
	uint64_t seed = rlx_test_seed(), weights = seed;
	struct rlx_session *s = ending(op_case_gpu(), f, halves, weights);
	struct rlx_session *t = ending("ref", f, halves, weights);
	size_t n = (size_t)(f->batch * f->heads * f->width);
	int i;

	for (i = 0; i < 2; i++) {
		fill_inputs(s, t, f->len, &seed);
		memset(buf(s, RLX_IO_OUTPUT, "y"), 0xff, n * sizeof(float));
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECKF(!rlx_session_run(t), "%s", rlx_session_error(t)->text);
		compare(s, t, "y", (int64_t)n);
	}
	if (f->batch > 1) {	/* nobody looks at the last row */
		fill_inputs(s, t, f->len, &seed);
		CHECK(!rlx_session_extent(s, f->batch - 1, f->batch));
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECKF(!rlx_session_run(t), "%s", rlx_session_error(t)->text);
		compare(s, t, "y", (int64_t)n - f->heads * f->width);
	}
	CHECKF(((const struct gpu_code *)s->exec->code)->calls.n_call == f->calls,
	       "%lld x %lld, %lld heads of %lld: %u calls", (long long)f->batch, (long long)f->len,
	       (long long)f->heads, (long long)f->width,
	       ((const struct gpu_code *)s->exec->code)->calls.n_call);
	rlx_session_free(s);
	rlx_session_free(t);
}

TEST(end_of_an_encoder)
{
	static const struct end_form forms[] = {
		{ 1, 16, 12, 32, .mean = true, .lens = true, .wide = true, .calls = 2 },
		{ 3, 21, 2, 64, .mean = true, .lens = true, .calls = 3 },
		{ 2, 40, 3, 8, .lens = true, .wide = true, .calls = 3 },
		{ 4, 5, 5, 16, .layer = true, .calls = 4 },
		{ 1, 100, 3, 256, .wide = true, .calls = 3 },
		/* more than a block has room for, or a lane can share out */
		{ 1, 7, 7, 128, .wide = true, .calls = 5 },
		{ 2, 7, 2, 24, .wide = true, .calls = 5 },
		{ 1, 129, 2, 16, .wide = true, .calls = 5 },
	};
	size_t i;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		check_end(&forms[i], i % 2 ? RLX_BF16 : RLX_F16);
}

/* ---- a norm's result in another type ---- */

struct cast_form {
	enum rlx_dtype	from, to;
	int64_t		rows;
	uint32_t	calls;
};

static struct rlx_session *casting(const char *device, const struct cast_form *f, int kind,
				   uint64_t seed)
{
	struct rlx_graph *g = rlx_graph_new("casting");
	rlx_value x = rlx_emit(g, cast, .x = rlx_input(g, "x", rlx_type(RLX_F32, f->rows, WIDTH)),
			       .to = f->from), y;
	rlx_value gamma = numbers(g, WIDTH, 0, &seed), beta = numbers(g, WIDTH, 0, &seed);

	if (kind == 0)
		y = rlx_emit(g, layer_norm, .x = x, .gamma = gamma, .beta = beta, .axis = -1,
			     .eps = 1e-5f);
	else if (kind == 1)
		y = rlx_emit(g, rms_norm, .x = x, .gamma = gamma, .axis = -1, .eps = 1e-5f);
	else
		y = rlx_emit(g, fused_residual_norm, .x = x,
			     .residual = rlx_emit(g, cast, .x = numbers(g, 1, WIDTH, &seed),
						  .to = f->from),
			     .gamma = gamma, .kind = RLX_NORM_RMS, .eps = 1e-5f);
	y = rlx_emit(g, transpose, .x = rlx_emit(g, cast, .x = y, .to = f->to));
	rlx_output(g, "y", f->to == RLX_F32 ? y : rlx_emit(g, cast, .x = y, .to = RLX_F32));
	return session_of(g, device, RLX_PRECISION_AS_WRITTEN);
}

static void check_cast(const struct cast_form *f, int kind)
{
	uint64_t seed = rlx_test_seed(), weights = seed;
	struct rlx_session *s = casting(op_case_gpu(), f, kind, weights);
	struct rlx_session *t = casting("ref", f, kind, weights);

	fill_inputs(s, t, 0, &seed);
	memset(buf(s, RLX_IO_OUTPUT, "y"), 0xff, (size_t)(f->rows * WIDTH) * sizeof(float));
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECKF(!rlx_session_run(t), "%s", rlx_session_error(t)->text);
	compare(s, t, "y", f->rows * WIDTH);
	CHECK_EQ(((const struct gpu_code *)s->exec->code)->calls.n_call, f->calls);
	rlx_session_free(s);
	rlx_session_free(t);
}

TEST(norm_and_cast)
{
	static const struct cast_form forms[] = {
		/* a cast, the norm with what it is cast to, transpose, a cast at the end */
		{ RLX_F16, RLX_F32, 5, 3 },
		{ RLX_BF16, RLX_F32, 100, 3 },
		{ RLX_F32, RLX_BF16, 9, 3 },
		{ RLX_F16, RLX_BF16, 9, 4 },
		/* what the cast makes could take the place of what the norm reads, by steps */
		{ RLX_F16, RLX_BF16, 700, 4 },
	};
	size_t i;
	int kind;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		for (kind = 0; kind < 3; kind++)
			check_cast(&forms[i], kind);
}

/* What attention gives is added to its product by weights: then it has to be somewhere. */
TEST(attention_that_is_added_too)
{
	static const char *const in[] = { "q", "k", "v" };
	enum { KEYS = 16, HEADS = 4, ALL = KEYS * 64 };
	uint64_t seed = rlx_test_seed(), weights = rlx_test_rand(&seed), same;
	struct rlx_session *s[2];
	int i, k, j;

	for (i = 0; i < 2; i++) {
		struct rlx_type t = rlx_type(RLX_F32, 1, KEYS, 64);
		struct rlx_graph *g = rlx_graph_new("added");
		rlx_value v[3], y;

		for (k = 0; k < 3; k++)
			v[k] = rlx_input(g, in[k], t);
		y = rlx_emit(g, attention, .q = v[0], .k = v[1], .v = v[2], .heads = HEADS);
		same = weights;
		rlx_output(g, "y", product(g, y, 64, y, &same));
		s[i] = session_of(g, i ? "ref" : op_case_gpu(),
				  i ? RLX_PRECISION_AS_WRITTEN : RLX_PRECISION_MIXED_F16);
	}
	for (k = 0; k < 3; k++)
		for (j = 0; j < ALL; j++)
			((float *)buf(s[0], RLX_IO_INPUT, in[k]))[j] =
				((float *)buf(s[1], RLX_IO_INPUT, in[k]))[j] =
				(float)rlx_test_uniform(&seed, -2, 2);
	for (i = 0; i < 2; i++)
		CHECKF(!rlx_session_run(s[i]), "%s", rlx_session_error(s[i])->text);
	compare(s[0], s[1], "y", ALL);
	for (i = 0; i < 2; i++)
		rlx_session_free(s[i]);
}

/* What a norm makes is added to its product, or to what is added to it: blocks write it. */
TEST(norm_that_is_added_too)
{
	enum { ALL = 16 * WIDTH };
	uint64_t seed = rlx_test_seed(), weights = rlx_test_rand(&seed), same;
	struct rlx_session *s[2];
	int i, j;

	for (i = 0; i < 2; i++) {
		struct rlx_graph *g = rlx_graph_new("added");
		rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 16, WIDTH)), y;

		same = weights;
		y = rlx_emit(g, layer_norm, .x = rlx_emit(g, tanh, .x = x),
			     .gamma = numbers(g, WIDTH, 0, &same),
			     .beta = numbers(g, WIDTH, 0, &same), .axis = -1, .eps = 1e-5f);
		rlx_output(g, "y", product(g, y, WIDTH, y, &same));
		s[i] = session_of(g, i ? "ref" : op_case_gpu(),
				  i ? RLX_PRECISION_AS_WRITTEN : RLX_PRECISION_MIXED_F16);
	}
	for (j = 0; j < ALL; j++)
		((float *)buf(s[0], RLX_IO_INPUT, "x"))[j] =
			((float *)buf(s[1], RLX_IO_INPUT, "x"))[j] =
			(float)rlx_test_uniform(&seed, -2, 2);
	for (i = 0; i < 2; i++)
		CHECKF(!rlx_session_run(s[i]), "%s", rlx_session_error(s[i])->text);
	compare(s[0], s[1], "y", ALL);
	for (i = 0; i < 2; i++)
		rlx_session_free(s[i]);
}

TEST_MAIN()
