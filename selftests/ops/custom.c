// SPDX-License-Identifier: MIT
/*
 * Custom ops: what is computed, on the evaluator and each device; their gradients; the text
 * form; what registering, infer, eval and vjp may do wrong; how long they live; many threads.
 */
#include <pthread.h>

#include "base/alloc.h"
#include "ir/graph.h"
#include "rlx/compile.h"
#include "rlx/grad.h"
#include "rlx/reflect.h"
#include "rlx/run.h"
#include "selftests/lib/custom_axpb.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_oom.h"

static const struct axpb two_one = { 2, 1 };

#define axpb(g, x, p)	rlx_custom(g, "t.axpb", RLX_VALUES(x), (p), sizeof(struct axpb))

EVERYWHERE(values)
{
	struct axpb half = { 0.5, -3 };
	rlx_value x, y;
	int64_t i;

	axpb_register("t.axpb");
	x = rig_random(r, rlx_type(RLX_F32, 3, 7), -2, 2);
	y = axpb(r->g, x, &two_one);
	rig_output(r, rlx_emit(r->g, exp, .x = y));
	x = rig_random(r, rlx_type(RLX_F64, 5), -2, 2);
	rig_output(r, axpb(r->g, x, &half));
	rig_run(r);
	for (i = 0; i < 21; i++)
		rig_want(r, 0, i, exp((double)(float)(2 * rig_in(r, 0, i) + 1)), 1e-5);
	for (i = 0; i < 5; i++)
		rig_want(r, 1, i, 0.5 * rig_in(r, 1, i) - 3, 0);
	CHECK_EQ(rlx_custom_unregister("t.axpb", NULL), RLX_EBUSY);
	rig_reset(r);
	CHECK_EQ(rlx_custom_unregister("t.axpb", NULL), RLX_OK);
	CHECK_EQ(rlx_custom_unregister("t.axpb", NULL), RLX_ENOENT);
}

/* A split into sum and difference of halves, with a scratch line. */
static enum rlx_status halves_infer(const struct rlx_custom_call *c, const struct rlx_type *in,
				    struct rlx_type *out)
{
	(void)c;
	out[0] = rlx_type(RLX_F32, in[0].dim[0] / 2);
	out[1] = out[0];
	out[1].dtype = RLX_I32;
	return RLX_OK;
}

static size_t halves_scratch(const struct rlx_custom_call *c, const struct rlx_type *in)
{
	(void)c;
	return (size_t)in[0].dim[0] * 4;
}

static enum rlx_status halves_eval(const struct rlx_custom_call *c, const struct rlx_tensor *in,
				   const struct rlx_tensor *out, void *scratch)
{
	int64_t n = out[0].type.dim[0], i;
	float *s = scratch;

	(void)c;
	if (c->attrs || (uintptr_t)scratch % 64)
		return rlx_fail(c->err, RLX_EBUG, "attributes, or scratch that is not aligned");
	memcpy(s, in[0].data, (size_t)(2 * n) * 4);
	for (i = 0; i < n; i++) {
		((float *)out[0].data)[i] = s[i] + s[n + i];
		((int32_t *)out[1].data)[i] = s[i] > s[n + i];
	}
	return RLX_OK;
}

static const struct rlx_custom_op halves = {
	.size = sizeof(halves), .name = "t:halves", .n_in = 1, .n_out = 2, .infer = halves_infer,
	.scratch = halves_scratch, .eval = halves_eval,
};

EVERYWHERE(outputs_and_scratch)
{
	rlx_value x, y;
	int64_t i;

	CHECK(!rlx_custom_register(&halves, NULL));
	x = rig_random(r, rlx_type(RLX_F32, 34), -2, 2);
	y = rlx_custom(r->g, "t:halves", RLX_VALUES(x), NULL, 0);
	rig_output(r, rlx_out(r->g, y, 0));
	rig_output(r, rlx_out(r->g, y, 1));
	rig_run(r);
	for (i = 0; i < 17; i++) {
		rig_want(r, 0, i, rig_in(r, 0, i) + rig_in(r, 0, 17 + i), 1e-6);
		rig_want(r, 1, i, rig_in(r, 0, i) > rig_in(r, 0, 17 + i), 0);
	}
	rig_reset(r);
	CHECK(!rlx_custom_unregister("t:halves", NULL));
}

/* In the body of a loop, which is compiled for the CPU. */
EVERYWHERE(in_a_loop)
{
	struct rlx_graph *body = rlx_graph_new("body");
	rlx_value x, y, c;

	axpb_register("t.axpb");
	c = rlx_input(body, "c", rlx_type(RLX_F32, 4));
	rlx_output(body, "next", axpb(body, c, &two_one));
	CHECK(!rlx_graph_finish(body));
	x = rig_random(r, rlx_type(RLX_F32, 4), -1, 1);
	y = rlx_emit(r->g, scan, .xs = RLX_VALUES(x), .n_carry = 1, .length = 3, .body_g = body);
	rig_output(r, y);
	rig_run(r);
	rig_want(r, 0, 2, 8 * rig_in(r, 0, 2) + 7, 1e-6);
	rlx_graph_put(body);
	rig_reset(r);
	CHECK(!rlx_custom_unregister("t.axpb", NULL));
}

/* Between products of which each policy makes something: the op keeps its dtypes. */
TEST(precisions)
{
	enum rlx_precision k;

	axpb_register("t.axpb");
	for (k = RLX_PRECISION_AS_WRITTEN; k <= RLX_PRECISION_TF32; k++) {
		struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .precision = k };
		struct rlx_graph *g = rlx_graph_new("policy");
		rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 64, 64)), y;
		static float in[64 * 64], out[64 * 64];
		struct rlx_error err = { 0 };
		struct rlx_session *s;
		struct rlx_program *p;
		int i;

		y = axpb(g, rlx_emit(g, matmul, .a = x, .b = x), &two_one);
		rlx_output(g, "y", rlx_emit(g, matmul, .a = rlx_emit(g, relu, .x = y), .b = x));
		CHECK(!rlx_graph_finish(g));
		CHECKF(!rlx_compile(g, &o, &p, &err) || err.status == RLX_ENOSUP, "%d: %s", k,
		       err.text);
		rlx_graph_put(g);
		if (err.status)		/* f16, where there are no products of it */
			continue;
		CHECK(!rlx_session_new(p, NULL, &s, NULL));
		rlx_program_put(p);
		for (i = 0; i < 64; i++)	/* (2 (x x) + 1) x, x = 2 I */
			in[65 * i] = 2;
		CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 64, 64), in));
		CHECK(!rlx_session_run(s));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 64, 64), out));
		for (i = 0; i < 64 * 64; i++)
			CHECKF(out[i] == (i % 65 ? 2 : 18), "%d: %d is %g", k, i, (double)out[i]);
		rlx_session_free(s);
	}
	CHECK(!rlx_custom_unregister("t.axpb", NULL));
}

/* A step of training: w' = w - lr dL/dw, L = mean((axpb(x w) - t)^2), by its rule. */
EVERYWHERE(training_step)
{
	rlx_value x, w, y, t, d, loss;
	double dw[3] = { 0 }, e;
	int64_t i, k;

	axpb_register("t.axpb");
	x = rig_random(r, rlx_type(RLX_F32, 5, 3), -1, 1);
	w = rig_random(r, rlx_type(RLX_F32, 3, 1), -1, 1);
	t = rig_random(r, rlx_type(RLX_F32, 5, 1), -1, 1);
	y = rlx_emit(r->g, matmul, .a = x, .b = w);
	y = axpb(r->g, y, &two_one);
	y = rlx_emit(r->g, sub, .a = y, .b = t);
	loss = rlx_emit(r->g, reduce, .x = rlx_emit(r->g, mul, .a = y, .b = y),
			.axes = RLX_INTS(0, 1), .kind = RLX_REDUCE_MEAN);
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(loss),
					.wrt = RLX_VALUES(w) }, &d);
	d = rlx_emit(r->g, mul, .a = d, .b = rlx_scalar_const(r->g, RLX_F32, 0.1));
	rig_output(r, rlx_emit(r->g, sub, .a = w, .b = d));
	rig_run(r);
	for (i = 0; i < 5; i++) {
		e = 1 - rig_in(r, 2, i);
		for (k = 0; k < 3; k++)
			e += 2 * rig_in(r, 0, 3 * i + k) * rig_in(r, 1, k);
		for (k = 0; k < 3; k++)
			dw[k] += 2 * e / 5 * 2 * rig_in(r, 0, 3 * i + k);
	}
	for (k = 0; k < 3; k++)
		rig_want(r, 0, k, rig_in(r, 1, k) - 0.1 * dw[k], 1e-5);
	rig_reset(r);
	CHECK(!rlx_custom_unregister("t.axpb", NULL));
}

TEST(without_a_gradient)
{
	struct rlx_custom_op op = AXPB("t.axpb");
	struct rlx_graph *g = rlx_graph_new("no rule");
	rlx_value x = rlx_input(g, "x", rlx_scalar(RLX_F32)), y, d;
	unsigned int line;

	op.vjp = NULL;
	CHECK(!rlx_custom_register(&op, NULL));
	line = __LINE__ + 1;
	y = axpb(g, x, &two_one);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(y),
				     .wrt = RLX_VALUES(x) }, &d);
	CHECK(!d.id);
	CHECK_EQ(rlx_graph_error(g)->status, RLX_ENOSUP);
	CHECK(strstr(rlx_graph_error(g)->text, "'t.axpb' was registered without a gradient rule"));
	CHECK_EQ(rlx_graph_error(g)->line, line);
	rlx_graph_put(g);
}

static enum rlx_status bad_vjp(const struct rlx_custom_call *c, struct rlx_graph *g,
			       const rlx_value *in, const rlx_value *out, const rlx_value *d_out,
			       rlx_value *d_in)
{
	(void)out;
	switch (*(int *)c->ctx) {
	case 0: d_in[0] = rlx_emit(g, reduce, .x = d_out[0]); break;
	case 1: d_in[0] = (rlx_value){ 12345 }; break;
	case 2: return rlx_fail(c->err, RLX_ERANGE, "not today");
	case 3: d_in[0] = rlx_emit(g, cast, .x = in[0], .to = RLX_F64); break;
	}
	return RLX_OK;
}

TEST(bad_gradients)
{
	static const char *const want[] = { "vjp's d_in[0] is f32[], its input f32[3]",
					    "vjp's d_in[0] is no value", "vjp: not today",
					    "vjp's d_in[0] is f64[3]" };
	struct rlx_custom_op op = AXPB("t.axpb");
	int kind;

	op.vjp = bad_vjp;
	op.ctx = &kind;
	CHECK(!rlx_custom_register(&op, NULL));
	for (kind = 0; kind < 4; kind++) {
		struct rlx_graph *g = rlx_graph_new("bad rule");
		rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 3)), d;
		rlx_value y = rlx_emit(g, reduce, .x = axpb(g, x, &two_one));

		rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(y),
					     .wrt = RLX_VALUES(x) }, &d);
		CHECKF(rlx_graph_error(g)->status && strstr(rlx_graph_error(g)->text, want[kind]),
		       "%d: '%s'", kind, rlx_graph_error(g)->text);
		rlx_graph_put(g);
	}
}

/* ---- the text form ---- */

TEST(text_form)
{
	struct rlx_graph *g = rlx_graph_new("text"), *back;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 3));
	struct rlx_error err = { 0 };
	char *text = NULL;
	size_t size;
	FILE *f;

	axpb_register("t.axpb");
	rlx_output(g, "y", axpb(g, x, &two_one));
	CHECK(!rlx_graph_finish(g));
	f = open_memstream(&text, &size);
	CHECK(f && !rlx_graph_print(g, f, false) && !fclose(f));
	CHECKF(strstr(text, "custom(in=[%1], op=\"t.axpb\", attrs=hex\"00"), "%s", text);
	CHECKF(!rlx_graph_parse(text, size, &back, &err), "%s", err.text);
	CHECK(rlx_graph_hash(back) == rlx_graph_hash(g));
	rlx_graph_put(back);
	rlx_graph_put(g);
	CHECK(!rlx_custom_unregister("t.axpb", NULL));
	CHECK_EQ(rlx_graph_parse(text, size, &back, &err), RLX_ENOENT);
	CHECKF(strstr(err.text, "line 3") && strstr(err.text, "no custom op 't.axpb'"), "%s",
	       err.text);
	free(text);
}

TEST(by_names)
{
	struct rlx_graph *g = rlx_graph_new("named");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4)), y;
	struct rlx_op_arg a[] = {
		{ .name = "in", .kind = RLX_ARG_VALUES, .values = { &x, 1 } },
		{ .name = "op", .kind = RLX_ARG_TEXT, .text = "t:halves" },
	};

	CHECK(!rlx_custom_register(&halves, NULL));
	y = rlx_emit_named(g, "custom", a, 2, __FILE__, __LINE__);
	CHECK(y.id && rlx_out(g, y, 1).id && rlx_type_of(g, y)->dim[0] == 2);
	CHECK_EQ(rlx_custom_unregister("t:halves", NULL), RLX_EBUSY);
	CHECK(!rlx_emit_named(g, "custom", a, 1, __FILE__, __LINE__).id);
	CHECK(strstr(rlx_graph_error(g)->text, "attribute 'op' is missing"));
	rlx_graph_put(g);
	CHECK(!rlx_custom_unregister("t:halves", NULL));
}

/* ---- what goes wrong ---- */

static void refused(struct rlx_custom_op op, enum rlx_status st, const char *want)
{
	struct rlx_error err = { 0 };

	CHECK_EQ(rlx_custom_register(&op, &err), st);
	CHECKF(strstr(err.text, want), "'%s', not '%s'", err.text, want);
	CHECK(!op.name || rlx_custom_unregister(op.name, NULL) == RLX_ENOENT);
}

TEST(registering)
{
	const struct rlx_custom_op good = AXPB("t.axpb");
	struct rlx_custom_kernel k = axpb_kernel[0];
	struct { struct rlx_custom_op op; uint64_t more; } newer = { good, 1 };
	struct rlx_custom_op op = good;
	struct rlx_error err = { 0 };
	char name[80];

	memset(name, 'n', sizeof(name));
	name[64] = 0;
	op.size = 0;
	refused(op, RLX_EINVAL, "size is not set");
	op = good, op.name = NULL;
	refused(op, RLX_EINVAL, "a name has 1 to 63");
	op = good, op.name = "";
	refused(op, RLX_EINVAL, "a name has");
	op = good, op.name = "with blank";
	refused(op, RLX_EINVAL, "a name has");
	op = good, op.name = name;
	refused(op, RLX_EINVAL, "a name has");
	op = good, op.name = "softmax";
	refused(op, RLX_EEXIST, "the library has an op of that name");
	op = good, op.infer = NULL;
	refused(op, RLX_EINVAL, "infer is missing");
	op = good, op.eval = NULL;
	refused(op, RLX_EINVAL, "eval is missing");
	op = good, op.n_out = 0;
	refused(op, RLX_EINVAL, "1 inputs and 0 outputs");
	op = good, op.n_out = RLX_CUSTOM_OUT + 1;
	refused(op, RLX_EINVAL, "at most 16 and 1 to 8");
	op = good, op.n_in = RLX_CUSTOM_IN + 1;
	refused(op, RLX_EINVAL, "17 inputs");
	op = good, op.kernel = NULL;
	refused(op, RLX_EINVAL, "2 kernels at NULL");
	op = good, op.kernel = &k, op.n_kernel = 1;
	k.backend = "vulkan";
	refused(op, RLX_ENOSUP, "no kernels for backend 'vulkan'");
	k = axpb_kernel[0], k.entry = "1st";
	refused(op, RLX_EINVAL, "kernel 0 has no text, or");
	k = axpb_kernel[0], k.text = NULL;
	refused(op, RLX_EINVAL, "kernel 0 has no text, or");
	newer.op.size = sizeof(newer);
	CHECK_EQ(rlx_custom_register(&newer.op, &err), RLX_ENOSUP);
	newer.more = 0;
	CHECK_EQ(rlx_custom_register(&newer.op, NULL), RLX_OK);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_custom_register(&good, &err), RLX_EEXIST);
	CHECK(strstr(err.text, "'t.axpb' is registered; unregister it before"));
	name[63] = 0;
	op = good, op.name = name;
	CHECK_EQ(rlx_custom_register(&op, NULL), RLX_OK);
	CHECK_EQ(rlx_custom_register(NULL, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_custom_unregister(NULL, NULL), RLX_EINVAL);
}

static enum rlx_status hostile_infer(const struct rlx_custom_call *c, const struct rlx_type *in,
				     struct rlx_type *out)
{
	*out = *in;
	switch (*(int *)c->ctx) {
	case 0: out->rank = RLX_MAX_RANK + 1; break;
	case 1: out->rank = UINT32_MAX; break;
	case 2: out->dtype = RLX_NODTYPE; break;
	case 3: out->dtype = (enum rlx_dtype)200; break;
	case 4: out->dim[0] = -1; break;
	case 5: out->dim[0] = INT64_MAX; out->dim[1] = INT64_MAX; break;
	case 6: return rlx_fail(c->err, RLX_ESHAPE, "odd");
	case 7: return RLX_ETYPE;
	case 8: return (enum rlx_status)77;
	case 9: memset(out, 0, sizeof(*out)); break;
	}
	return RLX_OK;
}

TEST(hostile_infers)
{
	static const struct { enum rlx_status st; const char *text; } want[] = {
		{ RLX_ESHAPE, "output 0 rank 9, the most is 8" },
		{ RLX_ESHAPE, "output 0 rank 4294967295" }, { RLX_ETYPE, "output 0 no dtype" },
		{ RLX_ETYPE, "output 0 no dtype" }, { RLX_ESHAPE, "dimension below 0" },
		{ RLX_ESHAPE, "over 2^63 bytes" }, { RLX_ESHAPE, "'t.axpb': infer: odd" },
		{ RLX_ETYPE, "infer failed and gave no reason" },
		{ RLX_EINVAL, "infer returned 77, which is no status" },
		{ RLX_ETYPE, "no dtype" },
	};
	struct rlx_custom_op op = AXPB("t.axpb");
	unsigned int line;
	int kind;

	op.infer = hostile_infer;
	op.ctx = &kind;
	CHECK(!rlx_custom_register(&op, NULL));
	for (kind = 0; kind < (int)(sizeof(want) / sizeof(want[0])); kind++) {
		struct rlx_graph *g = rlx_graph_new("hostile");
		const struct rlx_error *e = rlx_graph_error(g);
		rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 3, 2));

		line = __LINE__ + 1;
		CHECK(!axpb(g, x, &two_one).id);
		CHECKF(e->status == want[kind].st && strstr(e->text, want[kind].text) &&
		       e->line == line && e->file, "%d: %d '%s' at %u", kind, e->status, e->text,
		       e->line);
		rlx_graph_put(g);
	}
	CHECK(!rlx_custom_unregister("t.axpb", NULL));
}

TEST(emitting)
{
	struct rlx_graph *g = rlx_graph_new("emitting");
	rlx_value x[2] = { rlx_input(g, "x", rlx_type(RLX_F32, 3)) };

	CHECK(!axpb(g, x[0], &two_one).id);
	CHECK_EQ(rlx_graph_error(g)->status, RLX_ENOENT);
	rlx_graph_put(g);
	axpb_register("t.axpb");
	g = rlx_graph_new("two");
	x[0] = x[1] = rlx_input(g, "x", rlx_type(RLX_F32, 3));
	CHECK(!rlx_custom(g, "t.axpb", RLX_VALUES(x[0], x[1]), &two_one, sizeof(two_one)).id);
	CHECK(strstr(rlx_graph_error(g)->text, "'t.axpb' takes 1 inputs, 2 are given"));
	rlx_graph_put(g);
	g = rlx_graph_new("absent");
	x[0] = RLX_NONE;
	CHECK(!axpb(g, x[0], &two_one).id);
	CHECK_EQ(rlx_graph_error(g)->status, RLX_EINVAL);
	rlx_graph_put(g);
	g = rlx_graph_new("attributes");
	x[0] = rlx_input(g, "x", rlx_type(RLX_F32, 3));
	CHECK(!rlx_custom(g, "t.axpb", RLX_VALUES(x[0]), NULL, 4).id);
	CHECK(strstr(rlx_graph_error(g)->text, "attributes at NULL"));
	rlx_graph_put(g);
	CHECK(!rlx_custom(NULL, "t.axpb", RLX_VALUES(x[0]), NULL, 0).id);
	CHECK(!rlx_custom_unregister("t.axpb", NULL));
}

static enum rlx_status failing_eval(const struct rlx_custom_call *c, const struct rlx_tensor *in,
				    const struct rlx_tensor *out, void *scratch)
{
	if (((const float *)in[0].data)[0] < 0)
		return rlx_fail(c->err, RLX_ERANGE, "x[0] is below 0");
	return axpb_eval(c, in, out, scratch);
}

EVERYWHERE(failing_evals)
{
	struct rlx_custom_op op = AXPB("t.axpb");
	const float bad[3] = { -1, 2, 3 };
	unsigned int line;
	rlx_value x, y;

	op.eval = failing_eval;
	op.n_kernel = 0;	/* GPUs run it, too, on the host */
	CHECK(!rlx_custom_register(&op, NULL));
	x = rig_input(r, rlx_type(RLX_F32, 3), bad);
	line = __LINE__ + 1;
	y = axpb(r->g, x, &two_one);
	rig_output(r, y);
	CHECK_EQ(rig_try(r), RLX_ERANGE);
	CHECKF(strstr(r->err.text, "custom op 't.axpb': eval: x[0] is below 0"), "%s", r->err.text);
	if (r->device)
		CHECKF(r->err.line == line && !strcmp(r->err.file, __FILE__), "%s:%u", r->err.file,
		       r->err.line);
	rig_reset(r);
	CHECK(!rlx_custom_unregister("t.axpb", NULL));
}

/* ---- lives ---- */

static void count_release(void *ctx)
{
	++*(int *)ctx;
}

static enum rlx_status five_eval(const struct rlx_custom_call *c, const struct rlx_tensor *in,
				 const struct rlx_tensor *out, void *scratch)
{
	int64_t i;

	(void)c;
	(void)in;
	(void)scratch;
	for (i = 0; i < rlx_type_count(&out[0].type); i++)
		((float *)out[0].data)[i] = 5;
	return RLX_OK;
}

static float first_of(struct rlx_session *s)
{
	static float y[2048];

	CHECK(!rlx_session_run(s));
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 2048), y));
	return y[0];
}

/* What was computed of one registration, and still is in use, is not the next one's. */
TEST(registered_again)
{
	static float zeros[2048];
	struct rlx_custom_op op = AXPB("t.axpb");
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	struct rlx_session *s[2];
	int released = 0, i;

	op.ctx = &released;
	op.release = count_release;
	for (i = 0; i < 2; i++) {
		struct rlx_graph *g = rlx_graph_new("folded");
		rlx_value x = rlx_constant(g, rlx_type(RLX_F32, 2048), zeros);

		CHECK(!rlx_custom_register(&op, NULL));
		rlx_output(g, "y", axpb(g, x, &two_one));
		s[i] = rig_session(g, &o);
		CHECK(first_of(s[i]) == (i ? 5 : 1));
		/* it was computed when compiling: the program has it no more */
		CHECK_EQ(rlx_custom_unregister("t.axpb", NULL), RLX_OK);
		CHECK_EQ(released, i + 1);
		op.eval = five_eval;
	}
	CHECK(first_of(s[0]) == 1);
	rlx_session_free(s[0]);
	rlx_session_free(s[1]);
}

TEST(programs_keep_it)
{
	static float zeros[2048];
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu",
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_graph *g = rlx_graph_new("kept"), *other;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2048));
	struct rlx_error err = { 0 };
	struct rlx_session *s;

	axpb_register("t.axpb");
	rlx_output(g, "y", axpb(g, x, &two_one));
	s = rig_session(g, &o);		/* the graph is gone */
	CHECK_EQ(rlx_custom_unregister("t.axpb", &err), RLX_EBUSY);
	CHECK(strstr(err.text, "'t.axpb' stands in graphs or programs"));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 2048), zeros));
	CHECK(first_of(s) == 1);
	rlx_session_free(s);
	other = rlx_graph_new("failed");
	x = rlx_input(other, "x", rlx_type(RLX_I8, 3));
	CHECK(!axpb(other, x, &two_one).id);
	CHECK_EQ(rlx_custom_unregister("t.axpb", NULL), RLX_OK);
	rlx_graph_put(other);
}

/* ---- many threads ---- */

enum { THREADS = 8, RUNS = 200 };

static void *run_often(void *arg)
{
	struct rlx_session *s;
	float x[64], y[64];
	int i, k;

	CHECK(!rlx_session_new(arg, NULL, &s, NULL));
	for (i = 0; i < RUNS; i++) {
		for (k = 0; k < 64; k++)
			x[k] = (float)(i + k);
		CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 64), x));
		CHECK(!rlx_session_run(s));
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 64), y));
		for (k = 0; k < 64; k++)
			CHECK(y[k] == 2 * x[k] + 1);
	}
	rlx_session_free(s);
	return NULL;
}

static void *register_often(void *arg)
{
	struct rlx_custom_op op = AXPB("t.other");
	enum rlx_status st;
	struct rlx_graph *g;
	rlx_value x;
	int i;

	(void)arg;
	for (i = 0; i < RUNS; i++) {
		st = rlx_custom_register(&op, NULL);
		CHECK(st == RLX_OK || st == RLX_EEXIST);
		g = rlx_graph_new("other");
		x = rlx_input(g, "x", rlx_scalar(RLX_F32));
		x = rlx_custom(g, "t.other", RLX_VALUES(x), &two_one, sizeof(two_one));
		CHECK(x.id || rlx_graph_error(g)->status == RLX_ENOENT);
		rlx_custom_unregister("t.other", NULL);
		rlx_graph_put(g);
	}
	return NULL;
}

TEST(threads)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	struct rlx_graph *g = rlx_graph_new("threads");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 64));
	pthread_t run[THREADS], reg[2];
	struct rlx_program *p;
	enum rlx_status st;
	int i;

	axpb_register("t.axpb");
	rlx_output(g, "y", axpb(g, x, &two_one));
	CHECK(!rlx_graph_finish(g) && !rlx_compile(g, &o, &p, NULL));
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&run[i], NULL, run_often, p));
	for (i = 0; i < 2; i++)
		CHECK(!pthread_create(&reg[i], NULL, register_often, NULL));
	for (i = 0; i < THREADS; i++)
		pthread_join(run[i], NULL);
	for (i = 0; i < 2; i++)
		pthread_join(reg[i], NULL);
	rlx_program_put(p);
	rlx_graph_put(g);
	CHECK_EQ(rlx_custom_unregister("t.axpb", NULL), RLX_OK);
	st = rlx_custom_unregister("t.other", NULL);
	CHECK(st == RLX_OK || st == RLX_ENOENT);
}

/* ---- memory runs out ---- */

static enum rlx_status all_of_it(void *ctx)
{
	struct rlx_custom_op op = AXPB("t.axpb");
	struct rlx_error err = { 0 };
	struct rlx_graph *g, *back = NULL;
	enum rlx_status st;
	char text[] = "graph \"g\" { %1 = input(name=\"x\", type=f32[2]) %2 = custom(in=[%1], "
		      "op=\"t.axpb\", attrs=hex\"0000000000000000000000000000f03f\") "
		      "return \"y\"=%2 }";
	rlx_value x;

	(void)ctx;
	st = rlx_custom_register(&op, &err);
	if (st)
		return st;
	g = rlx_graph_new("oom");
	x = rlx_input(g, "x", rlx_type(RLX_F32, 3));
	rlx_output(g, "y", axpb(g, x, &two_one));
	st = g ? rlx_graph_finish(g) : RLX_ENOMEM;
	if (!st)
		st = rlx_graph_parse(text, strlen(text), &back, &err);
	rlx_graph_put(back);
	rlx_graph_put(g);
	CHECK_EQ(rlx_custom_unregister("t.axpb", NULL), RLX_OK);
	return st;
}

TEST(out_of_memory)
{
	CHECK(!all_of_it(NULL));
	CHECK(rlx_oom_sweep(all_of_it, NULL) > 10);
}

TEST_MAIN()
