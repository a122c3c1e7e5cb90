// SPDX-License-Identifier: MIT
/*
 * An op of the program's own, x + sin(a x)^2 / a ("snake"), with a gradient and the text of a
 * GPU kernel, in a net that learns a curve: a step of training is one program.
 *
 *	cc custom_op.c $(pkg-config --cflags --libs rlx) -lm && ./a.out [DEVICE]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <rlx/compile.h>
#include <rlx/custom.h>
#include <rlx/grad.h>
#include <rlx/run.h>

enum { ROWS = 128, WIDE = 32, STEPS = 2000 };

static void must(enum rlx_status st, const struct rlx_error *e)
{
	if (!st)
		return;
	fprintf(stderr, "custom_op: %s\n", e->text);
	exit(1);
}

static enum rlx_status infer(const struct rlx_custom_call *c, const struct rlx_type *in,
			     struct rlx_type *out)
{
	if (in[0].dtype != RLX_F32)
		return rlx_fail(c->err, RLX_ETYPE, "x is %s, not f32", rlx_dtype_name(in[0].dtype));
	out[0] = in[0];
	return RLX_OK;
}

static enum rlx_status eval(const struct rlx_custom_call *c, const struct rlx_tensor *in,
			    const struct rlx_tensor *out, void *scratch)
{
	int64_t n = rlx_type_count(&in[0].type), i;
	const float a = *(const float *)c->attrs, *x = in[0].data;
	float *y = out[0].data;

	for (i = 0; i < n; i++)
		y[i] = x[i] + sinf(a * x[i]) * sinf(a * x[i]) / a;
	return RLX_OK;
}

/* dx = dy (1 + sin(2 a x)) */
static enum rlx_status vjp(const struct rlx_custom_call *c, struct rlx_graph *g,
			   const rlx_value *in, const rlx_value *out, const rlx_value *d_out,
			   rlx_value *d_in)
{
	rlx_value k = rlx_scalar_const(g, RLX_F32, 2 * (double)*(const float *)c->attrs);
	rlx_value s = rlx_emit(g, sin, .x = rlx_emit(g, mul, .a = in[0], .b = k));

	s = rlx_emit(g, add, .a = s, .b = rlx_scalar_const(g, RLX_F32, 1));
	d_in[0] = rlx_emit(g, mul, .a = d_out[0], .b = s);
	return RLX_OK;
}

/* In the usual launch param[0] is the number of elements; a is what the example uses. */
static const char text[] =
	"__device__ void snake(const void *const *in, void *const *out, const long long *param)\n"
	"{\n"
	"	long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
	"	if (i >= param[0])\n"
	"		return;\n"
	"	float x = ((const float *)in[0])[i], s = sinf(2 * x);\n"
	"	((float *)out[0])[i] = x + s * s / 2;\n"
	"}\n";
static const struct rlx_custom_kernel kernel[] = {
	{ "cuda", text, "snake", NULL }, { "rocm", text, "snake", NULL },
};

static rlx_value dense(struct rlx_graph *g, rlx_value x, rlx_value w, rlx_value b)
{
	return rlx_emit(g, add, .a = rlx_emit(g, matmul, .a = x, .b = w), .b = b);
}

/* Weights are states, which each run replaces: plain gradient descent. */
static struct rlx_graph *net(void)
{
	static const char *const name[4] = { "w1", "b1", "w2", "b2" };
	const struct rlx_type type[4] = { rlx_type(RLX_F32, 1, WIDE), rlx_type(RLX_F32, WIDE),
					  rlx_type(RLX_F32, WIDE, 1), rlx_type(RLX_F32, 1) };
	struct rlx_graph *g = rlx_graph_new("snake net");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, ROWS, 1)), y, loss, w[4], d[4];
	float a = 2;
	int i;

	for (i = 0; i < 4; i++)
		w[i] = rlx_state(g, name[i], type[i]);
	y = dense(g, x, w[0], w[1]);
	y = rlx_custom(g, "example.snake", RLX_VALUES(y), &a, sizeof(a));
	y = rlx_emit(g, sub, .a = dense(g, y, w[2], w[3]),
		     .b = rlx_input(g, "wanted", rlx_type(RLX_F32, ROWS, 1)));
	loss = rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = y, .b = y), .axes = RLX_INTS(0, 1),
			.kind = RLX_REDUCE_MEAN);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(loss),
				     .wrt = { w, 4 } }, d);
	for (i = 0; i < 4; i++)
		rlx_state_next(g, w[i], rlx_emit(g, sub, .a = w[i], .b = rlx_emit(g, mul,
			       .a = d[i], .b = rlx_scalar_const(g, RLX_F32, 0.02))));
	rlx_output(g, "loss", loss);
	must(rlx_graph_finish(g), rlx_graph_error(g));
	return g;
}

int main(int argc, char **argv)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = argc > 1 ? argv[1] : NULL };
	struct rlx_custom_op op = { .size = sizeof(op), .name = "example.snake", .n_in = 1,
				    .n_out = 1, .infer = infer, .eval = eval, .vjp = vjp,
				    .kernel = kernel, .n_kernel = 2 };
	float x[ROWS], wanted[ROWS], w[WIDE], zeros[WIDE] = { 0 }, loss = 0, first = 0;
	struct rlx_program_info info;
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	int i;

	must(rlx_custom_register(&op, &err), &err);
	must(rlx_compile(net(), &o, &p, &err), &err);
	must(rlx_session_new(p, NULL, &s, &err), &err);
	for (i = 0; i < ROWS; i++) {
		x[i] = (float)i / ROWS * 4 - 2;
		wanted[i] = sinf(3 * x[i]) + x[i] / 2;
	}
	for (i = 0; i < WIDE; i++)
		w[i] = sinf((float)(i * i)) / 2;
	rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, ROWS, 1), x);
	rlx_session_set(s, RLX_IO_INPUT, "wanted", rlx_type(RLX_F32, ROWS, 1), wanted);
	rlx_session_set(s, RLX_IO_STATE, "w1", rlx_type(RLX_F32, 1, WIDE), w);
	rlx_session_set(s, RLX_IO_STATE, "b1", rlx_type(RLX_F32, WIDE), zeros);
	rlx_session_set(s, RLX_IO_STATE, "b2", rlx_type(RLX_F32, 1), zeros);
	rlx_session_set(s, RLX_IO_STATE, "w2", rlx_type(RLX_F32, WIDE, 1), w);
	for (i = 0; i < STEPS; i++) {
		must(rlx_session_run(s), rlx_session_error(s));
		rlx_session_get(s, RLX_IO_OUTPUT, "loss", rlx_scalar(RLX_F32), &loss);
		first = i ? first : loss;
	}
	rlx_program_info(p, &info);
	printf("loss %.4f -> %.4f on %s\n", (double)first, (double)loss, info.device);
	return !(loss < first / 10);
}
