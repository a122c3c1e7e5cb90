// SPDX-License-Identifier: MIT
/*
 * Gradients of whole models in f64 against differences along random directions: a decoder
 * block, a convolutional net with batch norm, an LSTM, a mixture of experts, adapters of low
 * rank, each loss. And losses against their formulas.
 */
#include "rlx/grad.h"
#include "selftests/lib/train_rig.h"

enum { MOST = 40 };

/* A loss over variables, with data that stays. */
struct net {
	struct train_rig r;
	rlx_value	 loss, d[MOST];
	rlx_value	 w[MOST];
	unsigned int	 n;
};

typedef rlx_value model_fn(struct rlx_graph *g, struct rlx_vars *v);

static rlx_value var(struct rlx_graph *g, struct rlx_vars *v, const char *name, struct rlx_type t)
{
	return rlx_var(g, v, name, t, RLX_NORMAL(0.5), 0);
}

/* Numbers that depend on their place alone, within -1 and 1. */
static rlx_value data(struct rlx_graph *g, struct rlx_type t, int64_t id)
{
	return rlx_emit(g, rng, .type = t, .a = -1, .b = 1, .seed = id);
}

static rlx_value classes(struct rlx_graph *g, int64_t n, int64_t of)
{
	rlx_value x = rlx_emit(g, iota, .type = rlx_type(RLX_I64, n), .step = 3);

	return rlx_emit(g, mod, .a = x, .b = rlx_scalar_const(g, RLX_I64, (double)of));
}

static rlx_value norm(struct rlx_graph *g, struct rlx_vars *v, const char *name, rlx_value x)
{
	rlx_vars_enter(v, name);
	x = rlx_emit(g, layer_norm, .x = x, .axis = -1, .eps = 1e-5f,
		     .gamma = var(g, v, "gamma", rlx_type(RLX_F64, 8)),
		     .beta = var(g, v, "beta", rlx_type(RLX_F64, 8)));
	rlx_vars_leave(v);
	return x;
}

static rlx_value decoder(struct rlx_graph *g, struct rlx_vars *v)
{
	rlx_value x, h, p[3];

	x = rlx_emit(g, gather, .x = var(g, v, "tokens", rlx_type(RLX_F64, 7, 8)),
		     .indices = rlx_emit(g, reshape, .x = classes(g, 10, 7),
					 .shape = RLX_INTS(2, 5)));
	h = rlx_emit(g, matmul, .a = norm(g, v, "ln1", x),
		     .b = var(g, v, "qkv", rlx_type(RLX_F64, 8, 24)));
	rlx_split(g, h, -1, 3, p);
	h = rlx_emit(g, attention, .q = p[0], .k = p[1], .v = p[2], .heads = 2,
		     .mask = RLX_MASK_CAUSAL);
	x = rlx_emit(g, add, .a = x, .b = rlx_emit(g, matmul, .a = h,
						   .b = var(g, v, "proj", rlx_type(RLX_F64, 8, 8))));
	h = rlx_emit(g, matmul, .a = norm(g, v, "ln2", x),
		     .b = var(g, v, "fc", rlx_type(RLX_F64, 8, 16)));
	h = rlx_emit(g, add, .a = h, .b = var(g, v, "bias", rlx_type(RLX_F64, 16)));
	h = rlx_emit(g, matmul, .a = rlx_emit(g, gelu_tanh, .x = h),
		     .b = var(g, v, "out", rlx_type(RLX_F64, 16, 8)));
	x = rlx_emit(g, add, .a = x, .b = h);
	return rlx_loss_linear_ce(g, x, var(g, v, "head", rlx_type(RLX_F64, 8, 7)),
		rlx_emit(g, reshape, .x = classes(g, 10, 6), .shape = RLX_INTS(2, 5)),
		&(struct rlx_ce){ .size = sizeof(struct rlx_ce), .smooth = 0.1, .z = 0.01 });
}

static rlx_value conv_net(struct rlx_graph *g, struct rlx_vars *v)
{
	rlx_value x = data(g, rlx_type(RLX_F64, 3, 2, 8, 8), 1);

	x = rlx_emit(g, conv, .x = x, .w = var(g, v, "c1", rlx_type(RLX_F64, 4, 2, 3, 3)),
		     .pad = RLX_INTS(1, 1, 1, 1));
	rlx_vars_enter(v, "bn");
	x = rlx_batch_norm(g, v, x, true, NULL);
	rlx_vars_leave(v);
	x = rlx_emit(g, tanh, .x = x);
	x = rlx_emit(g, pool, .x = x, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(2, 2),
		     .stride = RLX_INTS(2, 2));
	x = rlx_emit(g, conv, .x = x, .w = var(g, v, "c2", rlx_type(RLX_F64, 6, 2, 3, 3)),
		     .bias = var(g, v, "b2", rlx_type(RLX_F64, 6)), .groups = 2,
		     .stride = RLX_INTS(2, 2), .pad = RLX_INTS(1, 1, 1, 1));
	x = rlx_emit(g, silu, .x = x);
	x = rlx_emit(g, reduce, .x = x, .axes = RLX_INTS(2, 3), .kind = RLX_REDUCE_MEAN);
	x = rlx_emit(g, matmul, .a = x, .b = var(g, v, "fc", rlx_type(RLX_F64, 6, 4)));
	return rlx_loss_ce(g, x, classes(g, 3, 4), NULL);
}

/* Cells by ops, unrolled: the state goes through eight steps. */
static rlx_value lstm(struct rlx_graph *g, struct rlx_vars *v)
{
	rlx_value x = data(g, rlx_type(RLX_F64, 8, 2, 3), 2), p[4], z, h, c;
	rlx_value w = var(g, v, "w", rlx_type(RLX_F64, 3, 20));
	rlx_value u = var(g, v, "u", rlx_type(RLX_F64, 5, 20));
	rlx_value b = var(g, v, "b", rlx_type(RLX_F64, 20));
	int64_t t;

	h = var(g, v, "h0", rlx_type(RLX_F64, 2, 5));
	c = var(g, v, "c0", rlx_type(RLX_F64, 2, 5));
	for (t = 0; t < 8; t++) {
		z = rlx_emit(g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(t),
			     .ends = RLX_INTS(t + 1));
		z = rlx_emit(g, reshape, .x = z, .shape = RLX_INTS(2, 3));
		z = rlx_emit(g, add, .a = rlx_emit(g, matmul, .a = z, .b = w),
			     .b = rlx_emit(g, matmul, .a = h, .b = u));
		rlx_split(g, rlx_emit(g, add, .a = z, .b = b), 1, 4, p);
		c = rlx_emit(g, add, .a = rlx_emit(g, mul, .a = c,
						   .b = rlx_emit(g, sigmoid, .x = p[1])),
			     .b = rlx_emit(g, mul, .a = rlx_emit(g, sigmoid, .x = p[0]),
					   .b = rlx_emit(g, tanh, .x = p[2])));
		h = rlx_emit(g, mul, .a = rlx_emit(g, sigmoid, .x = p[3]),
			     .b = rlx_emit(g, tanh, .x = c));
	}
	return rlx_loss_mse(g, h, data(g, rlx_type(RLX_F64, 2, 5), 3));
}

/* Each row goes to the best of three experts, weighed by the gate's softmax. */
static rlx_value experts(struct rlx_graph *g, struct rlx_vars *v)
{
	rlx_value x = rlx_emit(g, matmul, .a = data(g, rlx_type(RLX_F64, 7, 4), 4),
			       .b = var(g, v, "in", rlx_type(RLX_F64, 4, 6))), gate, top, at, y;

	gate = rlx_emit(g, matmul, .a = x, .b = var(g, v, "gate", rlx_type(RLX_F64, 6, 3)));
	gate = rlx_emit(g, softmax, .x = gate, .axis = 1);
	top = rlx_emit(g, topk, .x = gate, .k = 1, .axis = 1);
	at = rlx_emit(g, reshape, .x = rlx_out(g, top, 1), .shape = RLX_INTS(7));
	y = rlx_emit(g, grouped_matmul, .x = x, .idx = at,
		     .w = var(g, v, "experts", rlx_type(RLX_F64, 3, 6, 5)));
	y = rlx_emit(g, mul, .a = rlx_emit(g, tanh, .x = y), .b = top);
	return rlx_loss_huber(g, y, data(g, rlx_type(RLX_F64, 7, 5), 5), 0.3);
}

static rlx_value contrast(struct rlx_graph *g, struct rlx_vars *v)
{
	rlx_value a = var(g, v, "a", rlx_type(RLX_F64, 5, 4));
	rlx_value b = var(g, v, "b", rlx_type(RLX_F64, 5, 4));
	rlx_value t = rlx_emit(g, sigmoid, .x = data(g, rlx_type(RLX_F64, 5, 4), 6));

	return rlx_emit(g, add, .a = rlx_loss_info_nce(g, a, b, 0.5),
			.b = rlx_loss_bce(g, rlx_emit(g, mul, .a = a, .b = b), t));
}

/* A weight of a net that adapters are for, [out, in]. */
static rlx_value fixed(struct rlx_graph *g, struct rlx_lora_weight *w, const char *name,
		       int64_t out, int64_t in)
{
	static double room[3][64];
	static unsigned int at;
	double *p = room[at++ % 3];
	uint64_t seed = rlx_test_seed();
	int64_t i;

	CHECK(out * in <= 64);
	for (i = 0; i < out * in; i++)
		p[i] = rlx_test_uniform(&seed, -1, 1);
	*w = (struct rlx_lora_weight){ name, p };
	return rlx_constant_blob(g, rlx_type(RLX_F64, out, in),
				 rlx_blob_new(p, (size_t)(out * in) * sizeof(*p), NULL, NULL));
}

/* Adapters of rank 3 for weights behind a transpose, before an activation, of two products. */
static rlx_value adapted(struct rlx_graph *g, struct rlx_vars *v)
{
	static const int64_t size[3][2] = { { 8, 4 }, { 8, 8 }, { 4, 8 } };
	struct rlx_lora_weight w[3];
	struct rlx_lora how = { .size = sizeof(how), .weight = w, .n = 3, .rank = 3, .alpha = 2 };
	struct rlx_graph *part = rlx_graph_new("part"), *with = NULL;
	rlx_value x = rlx_input(part, "x", rlx_type(RLX_F64, 2, 5, 4)), h, y, at[3];
	struct rlx_error err = { 0 };
	char name[3][8];
	int i;

	for (i = 0; i < 3; i++) {
		snprintf(name[i], sizeof(name[i]), "w%d", i);
		at[i] = fixed(part, &w[i], name[i], size[i][0], size[i][1]);
		/* what is said first stays: B is not to be 0 here */
		rlx_var(g, v, rlx_name("w%d.lora_B.weight", i), rlx_type(RLX_F64, size[i][0], 3),
			RLX_NORMAL(0.5), 0);
	}
	h = rlx_emit(part, matmul, .a = x, .b = rlx_emit(part, transpose, .x = at[0]));
	y = rlx_emit(part, fused_matmul, .a = h, .b = at[1], .trans_b = true, .alpha = 0.7f,
		     .residual = h, .act = RLX_ACT_GELU);
	y = rlx_emit(part, fused_matmul, .a = y, .b = at[1], .trans_b = true, .act = RLX_ACT_TANH);
	rlx_output(part, "y", rlx_emit(part, fused_matmul, .a = y, .b = at[2], .trans_b = true));
	CHECKF(!rlx_graph_finish(part), "%s", rlx_graph_error(part)->text);
	CHECKF(!rlx_graph_lora(part, &how, &with, &err), "%s", err.text);
	x = data(g, rlx_type(RLX_F64, 2, 5, 4), 10);
	rlx_lora_inline(g, v, with, &(struct rlx_inline){ .size = sizeof(struct rlx_inline),
			.name = (const char *[]){ "x" }, .value = &x, .n = 1 }, &y);
	rlx_graph_put(with);
	rlx_graph_put(part);
	return rlx_loss_mse(g, y, data(g, rlx_type(RLX_F64, 2, 5, 4), 11));
}

static void net_open(struct net *n, model_fn *model)
{
	char name[32];
	unsigned int i;

	train_begin(&n->r);
	n->loss = model(n->r.g, n->r.v);
	n->n = 0;
	for (i = 0; i < rlx_graph_io_count(n->r.g, RLX_IO_STATE); i++)
		if (!strstr(rlx_graph_io_name(n->r.g, RLX_IO_STATE, i), "running_"))
			n->w[n->n++] = rlx_graph_io_value(n->r.g, RLX_IO_STATE, i);
	rlx_vjp(n->r.g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &n->loss, 1 },
					  .wrt = { n->w, n->n } }, n->d);
	rlx_output(n->r.g, "loss", n->loss);
	for (i = 0; i < n->n; i++) {
		snprintf(name, sizeof(name), "d%u", i);
		rlx_output(n->r.g, name, n->d[i]);
	}
	train_open(&n->r, "cpu", 1, NULL, 7);
}

static double loss_of(struct net *n)
{
	train_run(&n->r);
	return train_loss(&n->r);
}

static void check(const char *what, model_fn *model)
{
	uint64_t seed = rlx_test_seed();
	unsigned int i, k;
	struct net n;

	net_open(&n, model);
	for (i = 0, k = 0; k < rlx_program_io_count(n.r.p, RLX_IO_STATE); k++) {
		const char *state = rlx_program_io_name(n.r.p, RLX_IO_STATE, k);
		int64_t count = rlx_type_count(rlx_program_io_type(n.r.p, RLX_IO_STATE, k)), j;
		double *w, *d, dir[512], was[512], got = 0, size = 0, want, h = 1e-5;
		char name[32];

		if (strstr(state, "running_"))
			continue;
		CHECK(count <= 512);
		loss_of(&n);
		snprintf(name, sizeof(name), "d%u", i++);
		d = train_at(&n.r, RLX_IO_OUTPUT, name);
		w = train_at(&n.r, RLX_IO_STATE, state);
		for (j = 0; j < count; j++) {
			was[j] = w[j];
			dir[j] = rlx_test_uniform(&seed, -1, 1);
			got += dir[j] * d[j];
			size += fabs(dir[j] * d[j]);
		}
		for (j = 0; j < count; j++)
			w[j] = was[j] + h * dir[j];
		want = loss_of(&n);
		for (j = 0; j < count; j++)
			w[j] = was[j] - h * dir[j];
		want = (want - loss_of(&n)) / (2 * h);
		for (j = 0; j < count; j++)
			w[j] = was[j];
		CHECKF(size > 0, "%s: no gradient by %s", what, state);
		CHECKF(fabs(got - want) <= 1e-6 * fmax(size, 1e-3),
		       "%s by %s: %.12g, difference %.12g", what, state, got, want);
	}
	CHECK_EQ(i, n.n);
	train_end(&n.r);
}

TEST(decoder_block)
{
	check("decoder", decoder);
}

TEST(conv_net_with_batch_norm)
{
	check("conv net", conv_net);
}

TEST(lstm_unrolled)
{
	check("lstm", lstm);
}

TEST(mixture_of_experts)
{
	check("experts", experts);
}

TEST(adapters_of_low_rank)
{
	check("adapters", adapted);
}

TEST(contrast_and_bits)
{
	check("contrast", contrast);
}

/* Cross entropy, smoothing, z and rows that do not count, written out. */
static void ce_smoothed_by(double smooth)
{
	static const int64_t label[4] = { 2, -100, 0, 1 };
	struct rlx_ce how = { .size = sizeof(how), .smooth = smooth, .z = 0.05 };
	struct rlx_graph *g = rlx_graph_new("ce");
	rlx_value x = data(g, rlx_type(RLX_F64, 2, 2, 3), 9), l;
	double p[12], want = 0, got;
	struct rlx_program *prog;
	struct rlx_session *s;
	struct rlx_error err = { 0 };
	int i, j;

	l = rlx_constant(g, rlx_type(RLX_I64, 2, 2), label);
	rlx_output(g, "x", x);
	rlx_output(g, "loss", rlx_loss_ce(g, x, l, &how));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, NULL, &prog, &err), "%s", err.text);
	CHECKF(!rlx_session_new(prog, NULL, &s, &err), "%s", err.text);
	CHECK(!rlx_session_run(s));
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "x", rlx_type(RLX_F64, 2, 2, 3), p));
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "loss", rlx_scalar(RLX_F64), &got));
	for (i = 0; i < 4; i++) {
		double lse = 0, all = 0;

		if (label[i] < 0)
			continue;
		for (j = 0; j < 3; j++)
			lse += exp(p[3 * i + j]);
		lse = log(lse);
		for (j = 0; j < 3; j++)
			all += (lse - p[3 * i + j]) / 3;
		want += (1 - smooth) * (lse - p[3 * i + label[i]]) + smooth * all +
			0.05 * lse * lse;
	}
	want /= 3;
	CHECKF(fabs(got - want) < 1e-12, "%.15g, not %.15g", got, want);
	rlx_session_free(s);
	rlx_program_put(prog);
	rlx_graph_put(g);
}

TEST(cross_entropy)
{
	ce_smoothed_by(0);
	ce_smoothed_by(0.2);
	ce_smoothed_by(1);
}

/* Rows that are none, of a product with weights: what loss @which has of them */
static rlx_value of_nothing(struct rlx_graph *g, struct rlx_vars *v, int which)
{
	rlx_value w = var(g, v, "w", rlx_type(RLX_F64, 3, 4));
	rlx_value y = rlx_emit(g, matmul, .a = data(g, rlx_type(RLX_F64, 0, 3), 1), .b = w);
	rlx_value t = data(g, rlx_type(RLX_F64, 0, 4), 2);

	return which == 0 ? rlx_loss_mse(g, y, t) : which == 1 ? rlx_loss_huber(g, y, t, 1) :
	       which == 2 ? rlx_loss_bce(g, y, t) :
	       rlx_loss_ce(g, y, rlx_constant(g, rlx_type(RLX_I64, 0), ""), NULL);
}

static rlx_value mse_of_nothing(struct rlx_graph *g, struct rlx_vars *v)
{
	return of_nothing(g, v, 0);
}

static rlx_value huber_of_nothing(struct rlx_graph *g, struct rlx_vars *v)
{
	return of_nothing(g, v, 1);
}

static rlx_value bce_of_nothing(struct rlx_graph *g, struct rlx_vars *v)
{
	return of_nothing(g, v, 2);
}

static rlx_value ce_of_nothing(struct rlx_graph *g, struct rlx_vars *v)
{
	return of_nothing(g, v, 3);
}

/* A mean of no elements is NaN, which no gradient is. */
TEST(losses_of_nothing)
{
	static model_fn *const model[] = { mse_of_nothing, huber_of_nothing, bce_of_nothing,
					   ce_of_nothing };
	const double *d;
	struct net n;
	double loss;
	int i, j;

	for (i = 0; i < 4; i++) {
		net_open(&n, model[i]);
		loss = loss_of(&n);
		CHECKF(i < 3 ? isnan(loss) : loss == 0, "loss %d: %g", i, loss);
		d = train_at(&n.r, RLX_IO_OUTPUT, "d0");
		for (j = 0; j < 12; j++)
			CHECKF(d[j] == 0, "loss %d: gradient %g", i, d[j]);
		train_end(&n.r);
	}
}

TEST_MAIN()
