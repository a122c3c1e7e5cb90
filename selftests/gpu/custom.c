// SPDX-License-Identifier: MIT
/*
 * Custom ops on GPUs: by the text of a kernel, beside kernels of the library and in a training
 * step; on the host where there is none or it does not take the dtype; what launch and text may
 * do wrong.
 */
#include "rlx/compile.h"
#include "rlx/grad.h"
#include "rlx/run.h"
#include "selftests/lib/custom_axpb.h"
#include "selftests/lib/rig.h"

static const struct axpb two_one = { 2, 1 };

static rlx_value axpb(struct rlx_graph *g, rlx_value x)
{
	return rlx_custom(g, "t.axpb", RLX_VALUES(x), &two_one, sizeof(two_one));
}

static const char *gpu(void)
{
	return getenv("RLX_TEST_GPU") ? getenv("RLX_TEST_GPU") : "cuda";
}

/* Compile @g for the GPU with @flags. */
static enum rlx_status compile(struct rlx_graph *g, uint32_t flags, struct rlx_program **out,
			       struct rlx_error *err)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = gpu(), .flags = flags };

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return rlx_compile(g, &o, out, err);
}

static struct rlx_graph *one(enum rlx_dtype dt, int64_t n)
{
	struct rlx_graph *g = rlx_graph_new("one");
	rlx_value x = rlx_input(g, "x", rlx_type(dt, n));

	rlx_output(g, "y", axpb(g, x));
	return g;
}

/* Between kernels of ours; more than a block, and none that is full at the end. */
TEST(by_its_text)
{
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *g;
	struct rig r;
	rlx_value x;
	int64_t i;

	axpb_register("t.axpb");
	g = one(RLX_F32, 7);
	CHECKF(!compile(g, RLX_COMPILE_NATIVE, &p, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
	rig_init(&r, gpu());
	x = rig_random(&r, rlx_type(RLX_F32, 13, 31), -2, 2);
	x = rlx_emit(r.g, softmax, .x = x, .axis = 1);
	x = axpb(r.g, x);
	rig_output(&r, x);
	x = rlx_emit(r.g, reduce, .x = x, .axes = RLX_INTS(1));
	rig_output(&r, rlx_emit(r.g, sqrt, .x = axpb(r.g, x)));
	rig_run(&r);
	for (i = 0; i < 13; i++)	/* a row's sum is 2 + 31 */
		rig_want(&r, 1, i, sqrt(2 * 33 + 1), 1e-5);
	rig_fini(&r);
	CHECK(!rlx_custom_unregister("t.axpb", NULL));
}

TEST(training_step)
{
	double dw[3] = { 0 }, e;
	rlx_value x, w, y, d, loss;
	struct rig r;
	int64_t i, k;

	axpb_register("t.axpb");
	rig_init(&r, gpu());
	x = rig_random(&r, rlx_type(RLX_F32, 5, 3), -1, 1);
	w = rig_random(&r, rlx_type(RLX_F32, 3, 1), -1, 1);
	y = axpb(r.g, rlx_emit(r.g, matmul, .a = x, .b = w));
	loss = rlx_emit(r.g, reduce, .x = rlx_emit(r.g, mul, .a = y, .b = y),
			.axes = RLX_INTS(0, 1), .kind = RLX_REDUCE_MEAN);
	rlx_vjp(r.g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(loss),
				       .wrt = RLX_VALUES(w) }, &d);
	d = rlx_emit(r.g, mul, .a = d, .b = rlx_scalar_const(r.g, RLX_F32, 0.1));
	rig_output(&r, rlx_emit(r.g, sub, .a = w, .b = d));
	rig_run(&r);
	for (i = 0; i < 5; i++) {
		e = 1;
		for (k = 0; k < 3; k++)
			e += 2 * rig_in(&r, 0, 3 * i + k) * rig_in(&r, 1, k);
		for (k = 0; k < 3; k++)
			dw[k] += 2 * e / 5 * 2 * rig_in(&r, 0, 3 * i + k);
	}
	for (k = 0; k < 3; k++)
		rig_want(&r, 0, k, rig_in(&r, 1, k) - 0.1 * dw[k], 1e-5);
	rig_fini(&r);
}

/* A dtype that the kernel refuses, and an op without kernels: right, counted, or refused. */
TEST(on_the_host)
{
	struct rlx_custom_op plain = AXPB("t.plain");
	struct rlx_program_info info;
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	struct rlx_graph *g;
	struct rig r;
	rlx_value x;
	int64_t i;
	int kind;

	axpb_register("t.axpb");
	plain.n_kernel = 0;
	CHECK(!rlx_custom_register(&plain, NULL));
	for (kind = 0; kind < 2; kind++) {
		g = rlx_graph_new("host");
		x = rlx_input(g, "x", rlx_type(kind ? RLX_F32 : RLX_F64, 5));
		rlx_output(g, "y", kind ? rlx_custom(g, "t.plain", RLX_VALUES(x), &two_one, 16) :
			   axpb(g, x));
		err = (struct rlx_error){ 0 };
		CHECK_EQ(compile(g, RLX_COMPILE_NATIVE, &p, &err), RLX_ENOSUP);
		CHECKF(strstr(err.text, kind ? "it has no kernel for this device" :
			      "the kernel is for f32") &&
		       strstr(err.text, kind ? "t.plain of f32" : "t.axpb of f64"), "%s", err.text);
		err = (struct rlx_error){ 0 };
		CHECKF(!compile(g, 0, &p, &err), "%s", err.text);
		rlx_program_info(p, &info);
		CHECK_EQ(info.host, 1);
		rlx_program_put(p);
		rlx_graph_put(g);
	}
	rig_init(&r, gpu());
	x = rig_random(&r, rlx_type(RLX_F64, 3, 5), -2, 2);
	x = rlx_emit(r.g, exp, .x = axpb(r.g, rlx_emit(r.g, neg, .x = x)));
	rig_output(&r, x);
	rig_run(&r);
	for (i = 0; i < 15; i++)
		rig_want(&r, 0, i, exp(1 - 2 * rig_in(&r, 0, i)), 1e-9);
	rig_fini(&r);
}

static enum rlx_status bad_launch(const struct rlx_custom_call *c, const struct rlx_type *in,
				  const struct rlx_type *out, struct rlx_custom_launch *l)
{
	(void)in;
	(void)out;
	switch (*(int *)c->ctx) {
	case 0: l->block[0] = 0; break;
	case 1: l->block[0] = l->block[1] = 64; break;
	case 2: l->block[0] = UINT32_MAX; l->block[1] = UINT32_MAX; l->block[2] = 2; break;
	case 3: l->grid[1] = 65536; break;
	case 4: return rlx_fail(c->err, RLX_ERANGE, "no way");
	case 5: return RLX_ENOMEM;
	}
	return RLX_OK;
}

TEST(bad_launches)
{
	static const char *const want[] = {
		"launch asks for 1 x 1 x 1 blocks of 0 x 1 x 1 threads", "of 64 x 64 x 1 threads",
		"4294967295 x 4294967295 x 2", "1 x 65536 x 1 blocks", "'t.axpb': launch: no way",
		"launch failed and gave no reason",
	};
	struct rlx_custom_kernel k = axpb_kernel[!strncmp(gpu(), "rocm", 4)];
	struct rlx_custom_op op = AXPB("t.axpb");
	struct rlx_program *p = NULL;
	int kind;

	k.launch = bad_launch;
	op.kernel = &k;
	op.n_kernel = 1;
	op.ctx = &kind;
	CHECK(!rlx_custom_register(&op, NULL));
	for (kind = 0; kind < 6; kind++) {
		struct rlx_graph *g = one(RLX_F32, 300);
		struct rlx_error err = { 0 };
		enum rlx_status st = compile(g, 0, &p, &err);

		CHECKF(st == (kind < 5 ? RLX_ERANGE : RLX_ENOMEM) && strstr(err.text, want[kind]),
		       "%d: %d %s", kind, st, err.text);
		rlx_graph_put(g);
	}
	CHECK(!rlx_custom_unregister("t.axpb", NULL));
}

/* The usual launch, several outputs, and inputs of other dtypes. */
static const char halves_text[] =
	"typedef const float *floats;\n"
	"static __device__ inline float at(const void *p, long long i) { return floats(p)[i]; }\n"
	"__device__ void halves_of(const void *const *in, void *const *out, const long long *n)\n"
	"{\n"
	"	long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
	"	if (i >= *n)\n"
	"		return;\n"
	"	((float *)out[0])[i] = at(in[0], i) + at(in[0], *n + i);\n"
	"	((int *)out[1])[i] = at(in[0], i) > ((const int *)in[1])[i];\n"
	"}\n";

static enum rlx_status halves_infer(const struct rlx_custom_call *c, const struct rlx_type *in,
				    struct rlx_type *out)
{
	(void)c;
	out[0] = rlx_type(RLX_F32, in[0].dim[0] / 2);
	out[1] = rlx_type(RLX_I32, in[0].dim[0] / 2);
	return RLX_OK;
}

TEST(usual_launch)
{
	const struct rlx_custom_kernel k[2] = { { "cuda", halves_text, "halves_of", NULL },
						{ "rocm", halves_text, "halves_of", NULL } };
	struct rlx_custom_op op = { .size = sizeof(op), .name = "t/halves", .n_in = 2, .n_out = 2,
				    .infer = halves_infer, .eval = axpb_eval, .kernel = k,
				    .n_kernel = 2 };
	struct rig r;
	rlx_value in[2], y;
	int64_t i;

	CHECK(!rlx_custom_register(&op, NULL));
	rig_init(&r, gpu());
	in[0] = rig_random(&r, rlx_type(RLX_F32, 1402), -2, 2);
	in[1] = rig_random(&r, rlx_type(RLX_I32, 701), -2, 2);
	y = rlx_custom(r.g, "t/halves", ((struct rlx_values){ in, 2 }), NULL, 0);
	rig_output(&r, rlx_out(r.g, y, 0));
	rig_output(&r, rlx_out(r.g, y, 1));
	rig_run(&r);
	for (i = 0; i < 701; i++) {
		rig_want(&r, 0, i, rig_in(&r, 0, i) + rig_in(&r, 0, 701 + i), 1e-6);
		rig_want(&r, 1, i, rig_in(&r, 0, i) > rig_in(&r, 1, i), 0);
	}
	rig_fini(&r);
}

TEST(text_that_does_not_compile)
{
	struct rlx_custom_kernel k = axpb_kernel[!strncmp(gpu(), "rocm", 4)];
	struct rlx_custom_op op = AXPB("t.axpb");
	struct rlx_graph *g;
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st;

	k.text = "__device__ void axpb(const void *const *in) { nonsense; }\n";
	op.kernel = &k;
	op.n_kernel = 1;
	CHECK(!rlx_custom_register(&op, NULL));
	g = one(RLX_F32, 3);
	st = compile(g, 0, &p, &err);
	if (!st)
		st = rlx_session_new(p, NULL, &s, &err);
	CHECKF(st && strstr(err.text, "nonsense"), "%d: %s", st, err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
	CHECK(!rlx_custom_unregister("t.axpb", NULL));
}

TEST_MAIN()
