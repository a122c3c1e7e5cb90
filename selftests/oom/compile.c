// SPDX-License-Identifier: MIT
/* Every allocation of building, compiling and running fails once. */
#include "ir/graph.h"
#include "rlx/store.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

struct work {
	unsigned int	 parts;
	const char	*device;
	uint32_t	 flags;
	enum rlx_precision precision;
	bool		 run;
};

/* All that a case made is gone. Nothing but memory may have been the reason of @st, its result. */
static enum rlx_status ended(enum rlx_status st, struct rlx_session *s, struct rlx_program *p,
			     struct rlx_graph *g, const struct rlx_error *err)
{
	CHECKF(!st || st == RLX_ENOMEM, "%s: %s", rlx_status_name(st),
	       s ? rlx_session_error(s)->text : err->status ? err->text :
	       rlx_graph_error(g)->text);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	return st;
}

/* Build, compile, and if asked run in a session; free it all. */
static enum rlx_status whole(void *ctx)
{
	const struct work *w = ctx;
	struct rlx_graph *g = small_net(w->parts, 2);
	struct rlx_compile_opts o = {
		.size = sizeof(o), .device = w->device, .threads = 1,
		.flags = w->flags, .precision = w->precision,
	};
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_graph_error(g)->status;

	if (!st)
		st = rlx_compile(g, &o, &p, &err);
	if (!st && w->run) {
		st = rlx_session_new(p, NULL, &s, &err);
		if (!st)
			st = small_net_fill(s, 1);
		if (!st)
			st = rlx_session_run(s);
	}
	return ended(st, s, p, g, &err);
}

/* Once without a fault first, so that what a process keeps is there. */
static void sweep(struct work w)
{
	CHECK_EQ(whole(&w), 0);
	CHECK(rlx_oom_sweep(whole, &w) > 20);
}

#define EACH_PART(X)							\
	X(mlp, SMALL_NET_MLP) X(attn, SMALL_NET_ATTN)			\
	X(norm, SMALL_NET_NORM) X(conv, SMALL_NET_CONV)			\
	X(ew, SMALL_NET_EW) X(move, SMALL_NET_MOVE) X(sub, SMALL_NET_SUB)

#define COMPILE_ON_CPU(name, part)					\
	TEST(compile_##name##_for_cpu)					\
	{								\
		sweep((struct work){ .parts = part, .device = "cpu" });	\
	}
EACH_PART(COMPILE_ON_CPU)

TEST(compile_all_for_ref)
{
	sweep((struct work){ .parts = SMALL_NET_ALL, .device = "ref" });
}

TEST(compile_all_for_null)
{
	sweep((struct work){ .parts = SMALL_NET_ALL, .device = "null" });
}

TEST(compile_without_passes)
{
	sweep((struct work){ .parts = SMALL_NET_ALL, .device = "cpu",
			     .flags = RLX_COMPILE_NO_FUSE | RLX_COMPILE_NO_SIMPLIFY });
}

TEST(compile_in_bf16)
{
	sweep((struct work){ .parts = SMALL_NET_MLP | SMALL_NET_NORM, .device = "cpu",
			     .precision = RLX_PRECISION_BF16 });
}

TEST(compile_widened)
{
	sweep((struct work){ .parts = SMALL_NET_CONV | SMALL_NET_ATTN, .device = "cpu",
			     .precision = RLX_PRECISION_MIXED_F16 });
}

/* Chains that a concat joins, with a shared operand and ones of each part. */
static enum rlx_status joined(void *ctx)
{
	struct rlx_graph *g = rlx_graph_new("joined");
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 1 };
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	rlx_value v[4], c = rlx_input(g, "c", rlx_scalar(RLX_F32)), s;
	enum rlx_status st;
	char name[8];
	int i;

	for (i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "x%d", i);
		v[i] = rlx_input(g, name, rlx_type(RLX_F32, 1 + i, 5));
		snprintf(name, sizeof(name), "s%d", i);
		s = rlx_input(g, name, rlx_scalar(RLX_F32));
		v[i] = rlx_emit(g, mul, .a = rlx_emit(g, sub, .a = v[i], .b = c), .b = s);
	}
	rlx_output(g, "y", rlx_emit(g, concat, .xs = { v, 4 }));
	st = rlx_graph_finish(g);
	if (!st)
		st = rlx_compile(g, &o, &p, &err);
	*(bool *)ctx = !st && rlx_program_graph(p)->n_node == 10;	/* 9 inputs and a region */
	return ended(st, NULL, p, g, &err);
}

TEST(compile_joined_chains)
{
	bool one = false;

	CHECK_EQ(joined(&one), 0);
	CHECK(one);
	CHECK(rlx_oom_sweep(joined, &one) > 20);
}

/* A scan in the body of a while; NULL unless *@out_st is RLX_OK. */
static struct rlx_graph *nested(enum rlx_status *out_st)
{
	struct rlx_graph *b[3], *g = rlx_graph_new("nested");
	rlx_value i[3], x[3], w[3];
	float weight[9 * 9] = { 1 };
	unsigned int k;

	for (k = 0; k < 3; k++) {	/* of the scan; the while's condition and body */
		b[k] = rlx_graph_new("body");
		i[k] = rlx_input(b[k], "i", rlx_scalar(RLX_I64));
		x[k] = rlx_input(b[k], "x", k ? rlx_type(RLX_F32, 4, 9) : rlx_type(RLX_F32, 9));
		w[k] = rlx_input(b[k], "w", rlx_type(RLX_F32, 9, 9));
	}
	rlx_output(b[0], "i", i[0]);
	x[0] = rlx_emit(b[0], reshape, .x = x[0], .shape = RLX_INTS(1, 9));
	x[0] = rlx_emit(b[0], matmul, .a = x[0], .b = w[0]);
	rlx_output(b[0], "x", rlx_emit(b[0], reshape, .x = x[0], .shape = RLX_INTS(9)));
	rlx_output(b[1], "go", rlx_emit(b[1], lt, .a = i[1], .b = rlx_scalar_const(b[1], RLX_I64,
										   3)));
	*out_st = rlx_graph_finish(b[0]);
	if (!*out_st)
		*out_st = rlx_graph_finish(b[1]);
	if (!*out_st) {
		x[0] = rlx_emit(b[2], scan, .body_g = b[0], .n_carry = 1, .n_xs = 1, .length = 4,
				.xs = RLX_VALUES(i[2], x[2], w[2]));
		rlx_output(b[2], "i", rlx_emit(b[2], add, .a = i[2], .b =
					       rlx_scalar_const(b[2], RLX_I64, 1)));
		rlx_output(b[2], "x", rlx_out(b[2], x[0], 1));
		*out_st = rlx_graph_finish(b[2]);
	}
	if (!*out_st) {
		x[0] = rlx_emit(g, while, .cond_g = b[1], .body_g = b[2], .n_carry = 2, .xs =
				RLX_VALUES(rlx_scalar_const(g, RLX_I64, 0),
					   rlx_input(g, "x", rlx_type(RLX_F32, 4, 9)),
					   rlx_constant(g, rlx_type(RLX_F32, 9, 9), weight)));
		rlx_output(g, "y", rlx_out(g, x[0], 1));
		*out_st = rlx_graph_finish(g);
	}
	for (k = 0; k < 3; k++)
		rlx_graph_put(b[k]);
	if (!*out_st)
		return g;
	rlx_graph_put(g);
	return NULL;
}

static enum rlx_status control(void *ctx)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .threads = 1 };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *g;
	enum rlx_status st;

	(void)ctx;
	g = nested(&st);
	if (!st)
		st = rlx_compile(g, &o, &p, &err);
	if (!st)
		st = rlx_session_new(p, NULL, &s, &err);
	if (!st && !rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x")))
		st = rlx_session_error(s)->status;
	if (!st)
		st = rlx_session_run(s);
	return ended(st, s, p, g, &err);
}

TEST(nested_control_flow)
{
	CHECK_EQ(control(NULL), 0);
	CHECK(rlx_oom_sweep(control, NULL) > 100);
}

/*
 * Factors, a cell that is widened, sums of nothing, a param's step that runs once, and products
 * that share what is packed of one.
 */
static enum rlx_status factors(void *ctx)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 1,
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_graph *g = rlx_graph_new("factors");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, 2, 5, 4)), y;
	rlx_value none = rlx_input(g, "none", rlx_type(RLX_F32, 0, 3));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F16, 1, 12, 4));
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st;
	int i;

	(void)ctx;
	y = rlx_emit(g, svd, .x = x);
	rlx_output(g, "u", y);
	rlx_output(g, "s", rlx_out(g, y, 1));
	rlx_output(g, "y", rlx_emit(g, gru, .x = rlx_emit(g, cast, .x = x, .to = RLX_F16),
				    .w = w, .r = rlx_emit(g, neg, .x = w)));
	rlx_output(g, "n", rlx_emit(g, reduce, .x = none, .axes = RLX_INTS(0),
				    .kind = RLX_REDUCE_MAX));
	for (i = 0; i < 2; i++)
		rlx_output(g, i ? "p" : "q", rlx_emit(g, fused_matmul, .b = w, .trans_b = true,
						      .a = rlx_emit(g, cast, .x = x,
								    .to = RLX_F16),
						      .alpha = (float)(i + 1)));
	st = rlx_graph_finish(g);
	if (!st)
		st = rlx_compile(g, &o, &p, &err);
	if (!st)
		st = rlx_session_new(p, NULL, &s, &err);
	for (i = 0; i < 2 && !st; i++)
		st = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "x")) &&
		     rlx_session_buf(s, RLX_IO_INPUT, "none").arena &&
		     rlx_buf_ptr(rlx_session_buf(s, RLX_IO_PARAM, "w")) ?
		     rlx_session_run(s) : RLX_ENOMEM;
	return ended(st, s, p, g, &err);
}

TEST(factors_and_cells)
{
	CHECK_EQ(factors(NULL), 0);
	CHECK(rlx_oom_sweep(factors, NULL) > 50);
}

/* Make a store of what @g needs, or find it in @fd. */
static enum rlx_status stored(struct rlx_graph *g, int fd, struct rlx_store **out,
			      struct rlx_error *err)
{
	struct rlx_arena_opts o = { .size = 1 << 20, .provider = "memfd",
				    .flags = RLX_ARENA_LAZY | RLX_ARENA_NOLOCK };
	struct rlx_compile_opts c = { .size = sizeof(c), .threads = 1 };
	struct rlx_program *p = NULL;
	struct rlx_store *s = NULL;
	struct rlx_arena *a;
	enum rlx_status st;

	st = fd < 0 ? rlx_arena_new(&o, &a, err) :
	     rlx_arena_open_fd(fd, o.flags | RLX_ARENA_RDONLY, &a, err);
	if (st)
		return st;
	st = fd < 0 ? rlx_store_new(a, "cpu", &s, err) : rlx_store_open(a, "cpu", &s, err);
	rlx_arena_put(a);
	c.store = s;
	if (!st)
		st = rlx_compile(g, &c, &p, err);
	rlx_program_put(p);
	if (!st && fd < 0)
		st = rlx_store_seal(s, err);
	if (st)
		rlx_store_put(s);
	else
		*out = s;
	return st;
}

static enum rlx_status store_and_adopt(void *ctx)
{
	struct rlx_graph *g = small_net(*(unsigned int *)ctx, 2);
	struct rlx_store *s = NULL, *again = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_graph_error(g)->status;

	if (!st)
		st = stored(g, -1, &s, &err);
	if (!st)
		st = stored(g, rlx_arena_fd(rlx_store_arena(s)), &again, &err);
	CHECKF(!st || st == RLX_ENOMEM, "%s: %s", rlx_status_name(st), err.text);
	rlx_store_put(again);
	rlx_store_put(s);
	rlx_graph_put(g);
	return st;
}

TEST(store)
{
	unsigned int parts = SMALL_NET_MLP | SMALL_NET_CONV;

	CHECK_EQ(store_and_adopt(&parts), 0);
	CHECK(rlx_oom_sweep(store_and_adopt, &parts) > 20);
}

/* Convolutions of rows, whose strides and pads the blocked layout writes anew. */
static enum rlx_status rows(void *ctx)
{
	enum { CONVS = 24 };
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 1 };
	struct rlx_type t = rlx_type(RLX_F32, 1, 16, 16);
	struct rlx_graph *g = rlx_graph_new("rows");
	rlx_value x = rlx_input(g, "x", t), w = rlx_param(g, "w", rlx_type(RLX_F32, 16, 16, 3));
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st;
	int i;

	for (i = 0; i < CONVS; i++)
		x = rlx_emit(g, conv, .x = x, .w = w, .pad = RLX_INTS(1, 1));
	rlx_output(g, "y", x);
	st = rlx_graph_finish(g);
	if (!st)
		st = rlx_compile(g, &o, &p, &err);
	CHECKF(st || rlx_type_equal(rlx_program_io_type(p, RLX_IO_OUTPUT, 0), &t),
	       "the result has another shape");
	return ended(st, NULL, p, g, &err);
}

TEST(convolutions_of_rows)
{
	CHECK_EQ(rows(NULL), 0);
	CHECK(rlx_oom_sweep(rows, NULL) > 20);
}

TEST_MAIN()
