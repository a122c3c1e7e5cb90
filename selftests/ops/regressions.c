// SPDX-License-Identifier: MIT
/*
 * One named test for each wrong result that the system we follow is known for (the
 * numbers are those of the list in the design notes): the same bodies run in the
 * reference evaluator and on every device, against results worked out here.
 */
#include "base/half.h"
#include "ir/eval.h"
#include "ops/philox.h"
#include "rlx/grad.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/xy_net.h"

/* 1 and 11: integer indices are integers, constant or not, of any size. */
EVERYWHERE(gather_constant_indices)
{
	const int32_t idx[3] = { 7, 0, -1 };
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 8, 3), -2, 2);
	int64_t i;

	rig_output(r, rlx_emit(r->g, gather, .x = x,
			       .indices = rlx_constant(r->g, rlx_type(RLX_I32, 3), idx)));
	rig_run(r);
	for (i = 0; i < 9; i++)
		rig_want(r, 0, i, rig_in(r, 0, (idx[i / 3] + 8) % 8 * 3 + i % 3), 0);
}

EVERYWHERE(gather_integer_indices)
{
	enum { N = (1 << 24) + 3 };	/* f32 cannot tell these apart */
	const int64_t wide[3] = { N - 2, N - 3, 1 };
	const uint32_t plain[2] = { N - 2, N - 1 };
	unsigned char *table = malloc(N);
	rlx_value x;
	int64_t i;

	CHECK(table);
	for (i = 0; i < N; i++)
		table[i] = (unsigned char)(i * 37 + 11);
	x = rig_input(r, rlx_type(RLX_U8, N), table);
	rig_output(r, rlx_emit(r->g, gather, .x = x,
			       .indices = rig_input(r, rlx_type(RLX_I64, 3), wide)));
	rig_output(r, rlx_emit(r->g, gather, .x = x,
			       .indices = rig_input(r, rlx_type(RLX_U32, 2), plain)));
	rig_run(r);
	for (i = 0; i < 3; i++)
		rig_want(r, 0, i, table[wide[i]], 0);
	for (i = 0; i < 2; i++)
		rig_want(r, 1, i, table[plain[i]], 0);
	free(table);
}

EVERYWHERE(gather_outside_is_an_error)
{
	const int64_t idx[2] = { 0, 5 };
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 5, 2), -2, 2);

	rig_output(r, rlx_emit(r->g, gather, .x = x,
			       .indices = rig_input(r, rlx_type(RLX_I64, 2), idx)));
	CHECK_EQ(rig_try(r), RLX_ERANGE);
	CHECKF(strstr(r->err.text, "gather"), "%s", r->err.text);
}

/* 2: softmax on an axis that is not the last. */
EVERYWHERE(softmax_any_axis)
{
	static const int32_t axes[] = { 0, 1, 2, -1, -2, -3 };
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 3, 4, 5), -5, 5);
	unsigned int k;
	int64_t i, j;

	for (k = 0; k < 6; k++)
		rig_output(r, rlx_emit(r->g, softmax, .x = x, .axis = axes[k]));
	rig_run(r);
	for (k = 0; k < 6; k++) {
		int ax = axes[k] < 0 ? axes[k] + 3 : axes[k];
		int64_t d = ax == 0 ? 3 : ax == 1 ? 4 : 5, s = ax == 0 ? 20 : ax == 1 ? 5 : 1;

		for (i = 0; i < 60; i++) {
			int64_t base = i - i / s % d * s;
			double sum = 0;

			for (j = 0; j < d; j++)
				sum += exp(rig_in(r, 0, base + j * s));
			rig_want(r, k, i, exp(rig_in(r, 0, i)) / sum, 2e-6);
		}
	}
}

/* 3: a negative axis means the same as its positive twin. */
EVERYWHERE(negative_axes)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 3, 4, 5), -2, 2);
	struct rlx_graph *g = r->g;
	unsigned int k;
	int64_t i;

	for (k = 0; k < 2; k++) {
		int32_t at = k ? -2 : 1;

		rig_output(r, rlx_emit(g, softmax, .x = x, .axis = at));
		rig_output(r, rlx_emit(g, layer_norm, .x = x, .axis = at, .eps = 1e-5f));
		rig_output(r, rlx_emit(g, rms_norm, .x = x, .axis = at, .eps = 1e-5f));
		rig_output(r, rlx_emit(g, cumsum, .x = x, .axis = at));
		rig_output(r, rlx_emit(g, reduce, .x = x, .axes = RLX_INTS(at),
				       .keep_dims = true));
	}
	rig_run(r);
	for (k = 0; k < 5; k++)
		for (i = 0; i < (k == 4 ? 15 : 60); i++)
			rig_want(r, 5 + k, i, rig_get(r, k, i), 1e-6);
}

/* 4: scale, softcap and bias all count, forwards and backwards. */
static double score(const struct rig *r, int64_t h, int64_t i, int64_t j)
{
	double s = 0;
	int64_t d;

	for (d = 0; d < 4; d++)
		s += rig_in(r, 0, (h * 3 + i) * 4 + d) * rig_in(r, 1, (h * 5 + j) * 4 + d);
	s = 0.8 * tanh(s * 0.3 / 0.8);
	return s + rig_in(r, 3, i * 5 + j);
}

EVERYWHERE(attention_scale_softcap_bias)
{
	rlx_value q = rig_random(r, rlx_type(RLX_F32, 1, 2, 3, 4), -2, 2);
	rlx_value k = rig_random(r, rlx_type(RLX_F32, 1, 2, 5, 4), -2, 2);
	rlx_value v = rig_random(r, rlx_type(RLX_F32, 1, 2, 5, 4), -2, 2);
	rlx_value b = rig_random(r, rlx_type(RLX_F32, 3, 5), -2, 2);
	int64_t h, i, j, d;

	rig_output(r, rlx_emit(r->g, attention, .q = q, .k = k, .v = v, .bias = b,
			       .heads = 2, .layout = RLX_BHSD, .scale = 0.3f,
			       .softcap = 0.8f));
	rig_run(r);
	for (h = 0; h < 2; h++)
		for (i = 0; i < 3; i++)
			for (d = 0; d < 4; d++) {
				double sum = 0, y = 0, p;

				for (j = 0; j < 5; j++) {
					p = exp(score(r, h, i, j));
					sum += p;
					y += p * rig_in(r, 2, (h * 5 + j) * 4 + d);
				}
				rig_want(r, 0, (h * 3 + i) * 4 + d, y / sum, 1e-5);
			}
}

/* Gradients of @loss by its first inputs against differences, on the device too. */
static void check_gradient(struct rig *r, rlx_value loss, unsigned int n, double tol)
{
	struct rlx_graph *plain = r->g, *grad = NULL;
	struct rlx_tensor one;
	rlx_value wrt[RIG_MAX];
	double h = 1e-5, up, down, value;
	unsigned int k;
	int64_t i;

	rlx_output(plain, "loss", loss);
	CHECK(!rlx_graph_finish(plain));
	for (k = 0; k < n; k++)
		wrt[k] = rlx_graph_io_value(plain, RLX_IO_INPUT, k);
	CHECKF(!rlx_graph_grad(plain, wrt, n, &grad, &r->err), "%s", r->err.text);
	r->g = grad;
	for (k = 0; k <= n; k++) {
		struct rlx_type t = *rlx_type_of(grad, rlx_graph_io_value(grad, RLX_IO_OUTPUT, k));

		r->out[k] = (struct rlx_tensor){ t, calloc((size_t)rlx_type_bytes(&t), 1) };
		r->n_out = k + 1;
	}
	rig_run(r);
	one = (struct rlx_tensor){ rlx_scalar(RLX_F64), &value };
	for (k = 0; k < n; k++)
		for (i = 0; i < rlx_type_count(&r->in[k].type); i++) {
			double *x = (double *)r->in[k].data + i, keep = *x;

			*x = keep + h;
			CHECK(!rlx_graph_eval(plain, r->in, &one, &r->err));
			up = value;
			*x = keep - h;
			CHECK(!rlx_graph_eval(plain, r->in, &one, &r->err));
			down = value;
			*x = keep;
			rig_want(r, 1 + k, i, (up - down) / (2 * h), tol);
		}
	rlx_graph_put(plain);
}

static rlx_value weighted_sum(struct rig *r, rlx_value y, rlx_value w)
{
	return rlx_emit(r->g, reduce, .x = rlx_emit(r->g, mul, .a = y, .b = w));
}

EVERYWHERE(attention_gradient)
{
	rlx_value q = rig_random(r, rlx_type(RLX_F64, 1, 3, 2, 4), -1, 1);
	rlx_value k = rig_random(r, rlx_type(RLX_F64, 1, 5, 1, 4), -1, 1);
	rlx_value v = rig_random(r, rlx_type(RLX_F64, 1, 5, 1, 4), -1, 1);
	rlx_value b = rig_random(r, rlx_type(RLX_F64, 2, 3, 5), -1, 1);
	rlx_value w = rig_random(r, rlx_type(RLX_F64, 1, 3, 2, 4), -1, 1), y;

	y = rlx_emit(r->g, attention, .q = q, .k = k, .v = v, .bias = b, .heads = 2,
		     .kv_heads = 1, .mask = RLX_MASK_CAUSAL, .scale = 0.7f,
		     .softcap = 0.9f);
	check_gradient(r, weighted_sum(r, y, w), 4, 1e-6);
}

/* 5: any set of axes. */
EVERYWHERE(reduce_separate_axes)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 3, 4, 5), -2, 2);
	int64_t i, j, k;

	rig_output(r, rlx_emit(r->g, reduce, .x = x, .axes = RLX_INTS(0, 2)));
	rig_output(r, rlx_emit(r->g, reduce, .x = x, .axes = RLX_INTS(2, 0),
			       .kind = RLX_REDUCE_MAX, .keep_dims = true));
	rig_run(r);
	for (j = 0; j < 4; j++) {
		double sum = 0, top = -INFINITY;

		for (i = 0; i < 3; i++)
			for (k = 0; k < 5; k++) {
				sum += rig_in(r, 0, (i * 4 + j) * 5 + k);
				top = fmax(top, rig_in(r, 0, (i * 4 + j) * 5 + k));
			}
		rig_want(r, 0, j, sum, 1e-5);
		rig_want(r, 1, j, top, 0);
	}
}

/* 6: convolution and pooling over one and three dimensions. */
EVERYWHERE(conv_1d)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 2, 3, 9), -2, 2);
	rlx_value w = rig_random(r, rlx_type(RLX_F32, 4, 3, 3), -2, 2);
	int64_t n, o, i, c, k, at;

	rig_output(r, rlx_emit(r->g, conv, .x = x, .w = w, .stride = RLX_INTS(2),
			       .pad = RLX_INTS(1, 1)));
	rig_run(r);
	for (n = 0; n < 2; n++)
		for (o = 0; o < 4; o++)
			for (i = 0; i < 5; i++) {
				double sum = 0;

				for (c = 0; c < 3; c++)
					for (k = 0; k < 3; k++) {
						at = 2 * i - 1 + k;
						if (at >= 0 && at < 9)
							sum += rig_in(r, 0, (n * 3 + c) * 9 + at) *
							       rig_in(r, 1, (o * 3 + c) * 3 + k);
					}
				rig_want(r, 0, (n * 4 + o) * 5 + i, sum, 1e-5);
			}
}

EVERYWHERE(pool_3d)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 1, 2, 4, 4, 6), -2, 2);
	int64_t c, i, k;

	rig_output(r, rlx_emit(r->g, pool, .x = x, .kernel = RLX_INTS(2, 2, 2),
			       .stride = RLX_INTS(2, 2, 2)));
	rig_output(r, rlx_emit(r->g, pool, .x = x, .kernel = RLX_INTS(2, 2, 2),
			       .stride = RLX_INTS(2, 2, 2), .kind = RLX_POOL_AVG));
	rig_run(r);
	for (c = 0; c < 2; c++)
		for (i = 0; i < 12; i++) {
			int64_t z = i / 6, y = i / 3 % 2, o = i % 3;
			double top = -INFINITY, sum = 0, v;

			for (k = 0; k < 8; k++) {
				v = rig_in(r, 0, ((c * 4 + 2 * z + k / 4) * 4 + 2 * y +
						  k / 2 % 2) * 6 + 2 * o + k % 2);
				top = fmax(top, v);
				sum += v;
			}
			rig_want(r, 0, c * 12 + i, top, 0);
			rig_want(r, 1, c * 12 + i, sum / 8, 1e-6);
		}
}

/* Rows as wide as their padding took gigabytes. The middle one of three windows has data. */
EVERYWHERE(pool_in_wide_padding)
{
	enum { WIDE = 1 << 24 };
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 1, 2, 3), -2, 2), y, d;
	rlx_value dy = rig_random(r, rlx_type(RLX_F32, 1, 2, 3), -2, 2);
	int64_t c, i;

	y = rlx_emit(r->g, pool, .x = x, .kernel = RLX_INTS(2), .stride = RLX_INTS(WIDE),
		     .pad = RLX_INTS(WIDE, WIDE), .indices = true);
	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(y),
					.seed = RLX_VALUES(dy), .wrt = RLX_VALUES(x) }, &d);
	rig_output(r, y);
	rig_output(r, rlx_out(r->g, y, 1));
	rig_output(r, d);
	rig_run(r);
	for (c = 0; c < 2; c++) {
		int64_t at = 3 * c + (rig_in(r, 0, 3 * c + 1) > rig_in(r, 0, 3 * c));

		for (i = 0; i < 3; i++) {
			rig_want(r, 0, 3 * c + i, i == 1 ? rig_in(r, 0, at) : -INFINITY, 0);
			rig_want(r, 1, 3 * c + i, i == 1 ? (double)at : -1, 0);
			rig_want(r, 2, 3 * c + i, 3 * c + i == at ? rig_in(r, 1, 3 * c + 1) : 0, 0);
		}
	}
}

/* Of 2^66 taps one is inside: the evaluator, which CPUs leave these to, took all in turn. */
TEST(pool_of_huge_windows)
{
	static const char *const device[] = { "ref", "cpu" };
	const int64_t k = 1 << 22, pad[6] = { k - 1, k - 1, k - 1, 0, 0, 0 };
	struct xy_net n;
	float x = 3, y;
	int i;

	for (i = 0; i < 4; i++) {
		struct rlx_compile_opts o = { .size = sizeof(o), .device = device[i % 2] };
		rlx_value v = xy_begin(&n, rlx_type(RLX_F32, 1, 1, 1, 1, 1));

		xy_end(&n, rlx_emit(n.g, pool, .x = v, .kernel = RLX_INTS(k, k, k),
				    .pad = { pad, 6 }, .kind = i / 2 ? RLX_POOL_AVG : RLX_POOL_MAX));
		xy_run(&n, n.g, &o, &x, &y, NULL);
		CHECKF(y == 3, "%s, kind %d: %g", device[i % 2], i / 2, (double)y);
		rlx_graph_put(n.g);
	}
}

/* 7: what is not known is an error that names it, never a silent nothing. */
TEST(unknown_op)
{
	static const char text[] = "graph g {\n  %1 = input(name \"x\", type f32[2])\n"
				   "  %2 = frobnicate(x %1)\n  output \"y\" %2\n}\n";
	struct rlx_graph *g = NULL;
	struct rlx_error err = { 0 };

	CHECK(rlx_graph_parse(text, strlen(text), &g, &err));
	CHECK(!g && err.status);
	CHECK(!rlx_op_find("frobnicate", 10));
}

/* 8: a cast converts, whatever the sizes of the two dtypes. */
EVERYWHERE(cast_sizes)
{
	static const enum rlx_dtype to[] = {
		RLX_I32, RLX_F16, RLX_U8, RLX_I64, RLX_F64, RLX_BOOL, RLX_BF16, RLX_I8,
	};
	enum { N = 1027 };
	rlx_value x = rig_random(r, rlx_type(RLX_F32, N), -200, 200);
	unsigned int k;
	int64_t i;

	for (k = 0; k < 8; k++)
		rig_output(r, rlx_emit(r->g, cast, .x = x, .to = to[k]));
	rig_run(r);
	for (i = 0; i < N; i++) {
		double v = rig_in(r, 0, i), t = trunc(v);

		rig_want(r, 0, i, t, 0);
		rig_want(r, 1, i, v, 0x1p-11);
		rig_want(r, 2, i, fmax(t, 0), 0);
		rig_want(r, 3, i, t, 0);
		rig_want(r, 4, i, v, 0);
		rig_want(r, 5, i, v != 0, 0);
		rig_want(r, 6, i, v, 0x1p-8);
		rig_want(r, 7, i, fmin(fmax(t, -128), 127), 0);
	}
}

/* 9 and 10: comparisons are one byte an element, and broadcast like where. */
EVERYWHERE(compare_bool_bytes)
{
	enum { N = 1003 };
	rlx_value a = rig_random(r, rlx_type(RLX_F32, N), -2, 2);
	rlx_value b = rig_random(r, rlx_type(RLX_F32, N), -2, 2);
	int64_t i;

	rig_output(r, rlx_emit(r->g, lt, .a = a, .b = b));
	rig_run(r);
	CHECK_EQ(rlx_type_bytes(&r->out[0].type), N);
	for (i = 0; i < N; i++)
		CHECK_EQ(((unsigned char *)r->out[0].data)[i],
			 rig_in(r, 0, i) < rig_in(r, 1, i));
}

EVERYWHERE(compare_and_where_broadcast)
{
	rlx_value a = rig_random(r, rlx_type(RLX_F32, 3, 1), -2, 2);
	rlx_value b = rig_random(r, rlx_type(RLX_F32, 1, 5), -2, 2);
	rlx_value c = rig_random(r, rlx_scalar(RLX_F32), -2, 2), m;
	int64_t i, j;

	m = rlx_emit(r->g, ge, .a = a, .b = b);
	rig_output(r, m);
	rig_output(r, rlx_emit(r->g, where, .cond = m, .a = b, .b = c));
	rig_output(r, rlx_emit(r->g, where, .cond = rlx_emit(r->g, gt, .a = a, .b = c),
			       .a = a, .b = b));
	rig_run(r);
	for (i = 0; i < 3; i++)
		for (j = 0; j < 5; j++) {
			double x = rig_in(r, 0, i), y = rig_in(r, 1, j), z = rig_in(r, 2, 0);

			rig_want(r, 0, i * 5 + j, x >= y, 0);
			rig_want(r, 1, i * 5 + j, x >= y ? y : z, 0);
			rig_want(r, 2, i * 5 + j, x > z ? x : y, 0);
		}
}

/* 12: batch dimensions broadcast from either side. */
EVERYWHERE(matmul_batch_broadcast)
{
	rlx_value a = rig_random(r, rlx_type(RLX_F32, 1, 3, 4), -2, 2);
	rlx_value b = rig_random(r, rlx_type(RLX_F32, 2, 4, 5), -2, 2);
	rlx_value c = rig_random(r, rlx_type(RLX_F32, 3, 1, 2, 3), -2, 2);
	int64_t n, i, j, k, m;

	rig_output(r, rlx_emit(r->g, matmul, .a = a, .b = b));
	rig_output(r, rlx_emit(r->g, matmul, .a = c, .b = a));
	rig_run(r);
	for (n = 0; n < 2; n++)
		for (i = 0; i < 3; i++)
			for (j = 0; j < 5; j++) {
				double sum = 0;

				for (k = 0; k < 4; k++)
					sum += rig_in(r, 0, i * 4 + k) *
					       rig_in(r, 1, (n * 4 + k) * 5 + j);
				rig_want(r, 0, (n * 3 + i) * 5 + j, sum, 1e-5);
			}
	for (m = 0; m < 3; m++)
		for (i = 0; i < 2; i++)
			for (j = 0; j < 4; j++) {
				double sum = 0;

				for (k = 0; k < 3; k++)
					sum += rig_in(r, 2, (m * 2 + i) * 3 + k) *
					       rig_in(r, 0, k * 4 + j);
				rig_want(r, 1, (m * 2 + i) * 4 + j, sum, 1e-5);
			}
}

/* 13: a wrong name, size or a missing input is an error; nothing is written. */
TEST(session_inputs_are_checked)
{
	struct rlx_graph *g = rlx_graph_new("g");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4));
	struct rlx_compile_opts o = { .size = sizeof(o) };
	float data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	const char *device[RIG_DEVICES];
	unsigned int d, n = rig_devices(device);

	rlx_output(g, "y", rlx_emit(g, neg, .x = x));
	CHECK(!rlx_graph_finish(g));
	for (d = 1; d < n; d++) {
		o.device = device[d];
		CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
		CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "z", rlx_type(RLX_F32, 4), data),
			 RLX_ENOENT);
		CHECK(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 8), data));
		CHECK(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 2), data));
		rlx_session_free(s);
		rlx_program_put(p);
	}
	rlx_graph_put(g);
}

/* 14: fusing a product with its bias must not eat the product's own output. */
EVERYWHERE(matmul_kept_as_output)
{
	const float x[4] = { 1, 2, 3, 4 }, eye[4] = { 1, 0, 0, 1 }, b[2] = { 10, 20 };
	const float y[4] = { 11, 22, 13, 24 };
	rlx_value m = rlx_emit(r->g, matmul, .a = rig_input(r, rlx_type(RLX_F32, 2, 2), x),
			       .b = rlx_constant(r->g, rlx_type(RLX_F32, 2, 2), eye));
	int64_t i;

	rig_output(r, m);
	rig_output(r, rlx_emit(r->g, add, .a = m,
			       .b = rlx_constant(r->g, rlx_type(RLX_F32, 2), b)));
	rig_run(r);
	for (i = 0; i < 4; i++) {
		rig_want(r, 0, i, x[i], 0);
		rig_want(r, 1, i, y[i], 0);
	}
}

/* 15: a residual that broadcasts stays one. */
EVERYWHERE(residual_norm_broadcast)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 4, 8), -2, 2);
	rlx_value b = rig_random(r, rlx_type(RLX_F32, 8), -2, 2);
	rlx_value s = rlx_emit(r->g, add, .a = x, .b = b);
	int64_t i, j;

	rig_output(r, rlx_emit(r->g, layer_norm, .x = s, .axis = -1, .eps = 1e-5f));
	rig_output(r, rlx_emit(r->g, rms_norm, .x = rlx_emit(r->g, add, .a = b, .b = x),
			       .axis = -1, .eps = 1e-5f));
	rig_run(r);
	for (i = 0; i < 4; i++) {
		double mean = 0, sq = 0, v;

		for (j = 0; j < 8; j++) {
			v = rig_in(r, 0, i * 8 + j) + rig_in(r, 1, j);
			mean += v / 8;
			sq += v * v / 8;
		}
		for (j = 0; j < 8; j++) {
			v = rig_in(r, 0, i * 8 + j) + rig_in(r, 1, j);
			rig_want(r, 0, i * 8 + j, (v - mean) / sqrt(sq - mean * mean + 1e-5),
				 1e-5);
			rig_want(r, 1, i * 8 + j, v / sqrt(sq + 1e-5), 1e-5);
		}
	}
}

/* 16 and 21: statistics are functions of x too. */
EVERYWHERE(layer_norm_gradient)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F64, 3, 5), -2, 2);
	rlx_value g = rig_random(r, rlx_type(RLX_F64, 5), -2, 2);
	rlx_value b = rig_random(r, rlx_type(RLX_F64, 5), -2, 2);
	rlx_value w = rig_random(r, rlx_type(RLX_F64, 3, 5), -1, 1);

	check_gradient(r, weighted_sum(r, rlx_emit(r->g, layer_norm, .x = x, .gamma = g,
			.beta = b, .axis = -1, .eps = 1e-5f), w), 3, 1e-6);
}

EVERYWHERE(rms_norm_gradient)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F64, 3, 5), -2, 2);
	rlx_value g = rig_random(r, rlx_type(RLX_F64, 5), -2, 2);
	rlx_value w = rig_random(r, rlx_type(RLX_F64, 3, 5), -1, 1);

	check_gradient(r, weighted_sum(r, rlx_emit(r->g, rms_norm, .x = x, .gamma = g,
			.axis = -1, .eps = 1e-5f), w), 2, 1e-6);
}

EVERYWHERE(max_min_gradient)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F64, 3, 5), -2, 2);
	rlx_value w = rig_random(r, rlx_type(RLX_F64, 3), -1, 1), y;

	y = rlx_emit(r->g, add,
		     .a = rlx_emit(r->g, reduce, .x = x, .axes = RLX_INTS(1),
				   .kind = RLX_REDUCE_MAX),
		     .b = rlx_emit(r->g, reduce, .x = x, .axes = RLX_INTS(1),
				   .kind = RLX_REDUCE_MIN));
	check_gradient(r, weighted_sum(r, y, w), 1, 1e-6);
}

EVERYWHERE(group_norm_gradient)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F64, 2, 4, 3), -2, 2);
	rlx_value g = rig_random(r, rlx_type(RLX_F64, 4), -2, 2);
	rlx_value b = rig_random(r, rlx_type(RLX_F64, 4), -2, 2);
	rlx_value w = rig_random(r, rlx_type(RLX_F64, 2, 4, 3), -1, 1);

	check_gradient(r, weighted_sum(r, rlx_emit(r->g, group_norm, .x = x, .gamma = g,
			.beta = b, .groups = 2, .eps = 1e-5f), w), 3, 1e-6);
}

EVERYWHERE(group_norm_batches)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 3, 4, 5), -2, 2);
	int64_t i, k;

	rig_output(r, rlx_emit(r->g, group_norm, .x = x, .groups = 2, .eps = 1e-5f));
	rig_run(r);
	for (i = 0; i < 6; i++) {
		double mean = 0, sq = 0;

		for (k = 0; k < 10; k++) {
			mean += rig_in(r, 0, i * 10 + k) / 10;
			sq += pow(rig_in(r, 0, i * 10 + k), 2) / 10;
		}
		for (k = 0; k < 10; k++)
			rig_want(r, 0, i * 10 + k, (rig_in(r, 0, i * 10 + k) - mean) /
				 sqrt(sq - mean * mean + 1e-5), 1e-5);
	}
}

/* 17: the published generator, and seed 0 is a seed like any other. */
TEST(philox_known_answers)
{
	static const struct { uint64_t seed, call, block; uint32_t out[4]; } kat[] = {
		{ 0, 0, 0, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
		{ ~0ull, ~0ull, ~0ull, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
		{ 0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88,
		  { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
	};
	uint32_t out[4];
	unsigned int i;

	for (i = 0; i < 3; i++) {
		rlx_philox(kat[i].seed, kat[i].call, kat[i].block, out);
		CHECK(!memcmp(out, kat[i].out, sizeof(out)));
	}
}

EVERYWHERE(rng_stream)
{
	static const uint32_t first[4] = { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 };
	const int64_t call = 1;
	uint32_t w[4];
	int64_t i;

	rig_output(r, rlx_emit(r->g, rng, .type = rlx_type(RLX_F32, 7), .b = 1));
	rig_output(r, rlx_emit(r->g, rng, .type = rlx_type(RLX_F32, 7), .b = 1,
			       .call = rig_input(r, rlx_scalar(RLX_I64), &call)));
	rig_run(r);
	for (i = 0; i < 7; i++) {
		if (i < 4)
			rig_want(r, 0, i, (double)(first[i] >> 8) * 0x1p-24, 0);
		rlx_philox(0, 1, (uint64_t)i / 4, w);
		rig_want(r, 1, i, (double)(w[i % 4] >> 8) * 0x1p-24, 0);
	}
}

EVERYWHERE(sample_seed_zero)
{
	enum { ROWS = 64, V = 1000 };
	const float zero[ROWS * V] = { 0 };
	rlx_value x = rig_input(r, rlx_type(RLX_F32, ROWS, V), zero);
	const int64_t call = 5;
	int64_t i, moved = 0;

	rig_output(r, rlx_emit(r->g, sample, .logits = x, .temperature = 1));
	rig_output(r, rlx_emit(r->g, sample, .logits = x, .temperature = 1,
			       .call = rig_input(r, rlx_scalar(RLX_I64), &call)));
	rig_run(r);
	for (i = 0; i < ROWS; i++)
		moved += rig_get(r, 0, i) != rig_get(r, 1, i);
	CHECKF(moved > ROWS / 2, "another call drew the same %lld of %d",
	       (long long)(ROWS - moved), ROWS);
}

/* 18: all 256 codes of both f8 formats, from their definition. */
static double f8_value(unsigned int code, int exp_bits, int man_bits)
{
	int bias = (1 << (exp_bits - 1)) - 1, e = (int)(code >> man_bits) & ((1 << exp_bits) - 1);
	int m = (int)code & ((1 << man_bits) - 1);
	double sign = code & 0x80 ? -1 : 1, one = (double)(1 << man_bits);

	if (man_bits == 3 && (code & 0x7f) == 0x7f)
		return NAN;
	if (man_bits == 2 && e == 31)
		return m ? NAN : sign * INFINITY;
	return e ? sign * ldexp(1 + m / one, e - bias) : sign * ldexp(m / one, 1 - bias);
}

EVERYWHERE(f8_decode)
{
	unsigned char code[256];
	unsigned int k;

	for (k = 0; k < 256; k++)
		code[k] = (unsigned char)k;
	rig_output(r, rlx_emit(r->g, cast, .to = RLX_F32, .x =
			       rig_input(r, rlx_type(RLX_F8E4M3, 256), code)));
	rig_output(r, rlx_emit(r->g, cast, .to = RLX_F32, .x =
			       rig_input(r, rlx_type(RLX_F8E5M2, 256), code)));
	rig_run(r);
	for (k = 0; k < 256; k++) {
		rig_want(r, 0, k, f8_value(k, 4, 3), 0);
		rig_want(r, 1, k, f8_value(k, 5, 2), 0);
	}
	rig_want(r, 0, 0x78, 256, 0);
	rig_want(r, 0, 0x7e, 448, 0);
}

/* 19: nibbles are signed or not as the scheme says; zero points and scales count. */
EVERYWHERE(int4_sign_and_zero_point)
{
	const float x[2] = { 1, 100 }, scale[2] = { 0.5f, 2 }, zp[2] = { 1, -2 };
	const unsigned char w[2] = { 0x9f, 0x28 };	/* 15 9 / 8 2, or -1 -7 / -8 2 */
	const unsigned char f8[4] = { 0x38, 0x40, 0x30, 0xc0 };	/* 1 2 / .5 -2 */
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 1, 2), x);
	rlx_value s = rig_input(r, rlx_type(RLX_F32, 1, 2), scale);
	rlx_value z = rig_input(r, rlx_type(RLX_F32, 1, 2), zp);
	rlx_value p = rig_input(r, rlx_type(RLX_U8, 2), w);

	rig_output(r, rlx_emit(r->g, dequant_matmul, .x = v, .w = p, .scale = s, .zp = z,
			       .scheme = RLX_SCHEME_INT4_BLOCK, .n = 2));
	rig_output(r, rlx_emit(r->g, dequant_matmul, .x = v, .w = p, .scale = s, .zp = z,
			       .scheme = RLX_SCHEME_UINT4_BLOCK, .n = 2));
	rig_output(r, rlx_emit(r->g, dequant_matmul, .x = v,
			       .w = rig_input(r, rlx_type(RLX_U8, 4), f8),
			       .scale = rig_input(r, rlx_type(RLX_F32, 2), scale),
			       .scheme = RLX_SCHEME_F8E4M3, .n = 2));
	rig_run(r);
	rig_want(r, 0, 0, (-1 - 1) * 0.5 + 100 * (-8 - 1) * 0.5, 1e-6);
	rig_want(r, 0, 1, (-7 + 2) * 2 + 100 * (2 + 2) * 2, 1e-6);
	rig_want(r, 1, 0, (15 - 1) * 0.5 + 100 * (8 - 1) * 0.5, 1e-6);
	rig_want(r, 1, 1, (9 + 2) * 2 + 100 * (2 + 2) * 2, 1e-6);
	rig_want(r, 2, 0, 1 * 0.5 + 100 * 0.5 * 0.5, 1e-6);
	rig_want(r, 2, 1, 2 * 2 - 100 * 2 * 2, 1e-6);
}

/* 20: folding a constant and computing it at run time use one formula. */
EVERYWHERE(gelu_folded)
{
	const float half = 0.5f;
	rlx_value c = rlx_constant(r->g, rlx_type(RLX_F32, 1), &half);
	rlx_value x = rig_input(r, rlx_type(RLX_F32, 1), &half);

	rig_output(r, rlx_emit(r->g, gelu, .x = c));
	rig_output(r, rlx_emit(r->g, gelu, .x = x));
	rig_output(r, rlx_emit(r->g, gelu_tanh, .x = c));
	rig_output(r, rlx_emit(r->g, gelu_tanh, .x = x));
	rig_run(r);
	rig_want(r, 0, 0, 0.25 * (1 + erf(0.5 / sqrt(2))), 1e-6);
	rig_want(r, 1, 0, rig_get(r, 0, 0), 1e-6);
	rig_want(r, 2, 0, 0.25 * (1 + tanh(sqrt(2 / M_PI) * (0.5 + 0.044715 * 0.125))), 1e-6);
	rig_want(r, 3, 0, rig_get(r, 2, 0), 1e-6);
}

/* 22: quantised ops run, and round ties to even. */
EVERYWHERE(quantised_ops)
{
	const float x[6] = { 0.5f, 1.5f, 2.5f, -0.5f, 300, -300 }, one = 1;
	static const int want[6] = { 0, 2, 2, 0, 127, -128 };
	const uint8_t a[4] = { 130, 7, 0, 255 };
	const int8_t b[4] = { -3, 100, 5, -128 };
	const uint8_t az = 128;
	rlx_value s = rlx_constant(r->g, rlx_scalar(RLX_F32), &one), q, p, va, vb;
	int64_t i, j;

	q = rlx_emit(r->g, quantize, .x = rig_input(r, rlx_type(RLX_F32, 6), x), .scale = s,
		     .to = RLX_I8);
	rig_output(r, q);
	rig_output(r, rlx_emit(r->g, dequantize, .x = q, .scale = s));
	va = rig_input(r, rlx_type(RLX_U8, 2, 2), a);
	vb = rig_input(r, rlx_type(RLX_I8, 2, 2), b);
	p = rlx_constant(r->g, rlx_scalar(RLX_U8), &az);
	rig_output(r, rlx_emit(r->g, qmatmul, .a = va, .b = vb, .a_zp = p));
	va = rlx_emit(r->g, reshape, .x = va, .shape = RLX_INTS(1, 2, 2, 1));
	vb = rlx_emit(r->g, reshape, .x = vb, .shape = RLX_INTS(2, 2, 1, 1));
	rig_output(r, rlx_emit(r->g, qconv, .x = va, .w = vb, .x_zp = p));
	rig_run(r);
	for (i = 0; i < 6; i++) {
		rig_want(r, 0, i, want[i], 0);
		rig_want(r, 1, i, want[i], 0);
	}
	for (i = 0; i < 2; i++)
		for (j = 0; j < 2; j++) {
			rig_want(r, 2, i * 2 + j, (a[i * 2] - 128) * b[j] +
				 (a[i * 2 + 1] - 128) * b[2 + j], 0);
			rig_want(r, 3, i * 2 + j, (a[j] - 128) * b[i * 2] +
				 (a[2 + j] - 128) * b[i * 2 + 1], 0);
		}
}

/* Sums of bytes and a bias are held in i32 before they are scaled, and wrap there. */
EVERYWHERE(accumulators_wrap)
{
	const uint8_t a[2] = { 200, 7 }, b[4] = { 3, 100, 5, 1 };
	const int32_t bias[2] = { INT32_MAX - 10, INT32_MIN + 1 };
	const float scale = 0.5f;
	rlx_value s = rlx_constant(r->g, rlx_scalar(RLX_F32), &scale), va, vb, vc;
	int64_t j;

	va = rig_input(r, rlx_type(RLX_U8, 1, 2), a);
	vb = rig_input(r, rlx_type(RLX_U8, 2, 2), b);
	vc = rig_input(r, rlx_type(RLX_I32, 2), bias);
	rig_output(r, rlx_emit(r->g, qmatmul, .a = va, .b = vb, .a_scale = s, .b_scale = s,
			       .bias = vc));
	va = rlx_emit(r->g, reshape, .x = va, .shape = RLX_INTS(1, 2, 1, 1));
	vb = rlx_emit(r->g, transpose, .x = vb, .perm = RLX_INTS(1, 0));
	vb = rlx_emit(r->g, reshape, .x = vb, .shape = RLX_INTS(2, 2, 1, 1));
	rig_output(r, rlx_emit(r->g, qconv, .x = va, .w = vb, .x_scale = s, .w_scale = s,
			       .bias = vc));
	rig_run(r);
	for (j = 0; j < 2; j++) {
		int64_t sum = (int64_t)a[0] * b[j] + a[1] * b[2 + j] + bias[j];
		double want = 0.25 * (double)(int32_t)(uint32_t)sum;

		rig_want(r, 0, j, want, 1e-6);
		rig_want(r, 1, j, want, 1e-6);
	}
}

/* 24: positions are rows of the sequence, in either layout of rank 4. */
EVERYWHERE(rope_rank_4)
{
	enum { S = 3, H = 5, D = 4 };
	rlx_value c = rig_random(r, rlx_type(RLX_F32, S, D / 2), -1, 1);
	rlx_value s = rig_random(r, rlx_type(RLX_F32, S, D / 2), -1, 1);
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 1, S, H, D), -2, 2), t;
	int64_t p, h, k;

	rig_output(r, rlx_emit(r->g, rope, .x = x, .cos = c, .sin = s));
	t = rlx_emit(r->g, transpose, .x = x, .perm = RLX_INTS(0, 2, 1, 3));
	rig_output(r, rlx_emit(r->g, rope, .x = t, .cos = c, .sin = s, .layout = RLX_BHSD));
	rig_run(r);
	for (p = 0; p < S; p++)
		for (h = 0; h < H; h++)
			for (k = 0; k < 2; k++) {
				int64_t at = (p * H + h) * D + k, to = (h * S + p) * D + k;
				double co = rig_in(r, 0, p * 2 + k), si = rig_in(r, 1, p * 2 + k);
				double u = rig_in(r, 2, at), v = rig_in(r, 2, at + 2);

				rig_want(r, 0, at, u * co - v * si, 1e-6);
				rig_want(r, 0, at + 2, v * co + u * si, 1e-6);
				rig_want(r, 1, to, u * co - v * si, 1e-6);
				rig_want(r, 1, to + 2, v * co + u * si, 1e-6);
			}
}

/* 26: running sums along any axis. */
EVERYWHERE(cumsum_off_last_axis)
{
	rlx_value x = rig_random(r, rlx_type(RLX_F32, 3, 4, 5), -2, 2);
	int64_t i, j, k, m;

	rig_output(r, rlx_emit(r->g, cumsum, .x = x, .axis = 1));
	rig_output(r, rlx_emit(r->g, cumsum, .x = x, .axis = 0, .exclusive = true,
			       .reverse = true));
	rig_run(r);
	for (i = 0; i < 3; i++)
		for (j = 0; j < 4; j++)
			for (k = 0; k < 5; k++) {
				double along = 0, back = 0;

				for (m = 0; m <= j; m++)
					along += rig_in(r, 0, (i * 4 + m) * 5 + k);
				for (m = i + 1; m < 3; m++)
					back += rig_in(r, 0, (m * 4 + j) * 5 + k);
				rig_want(r, 0, (i * 4 + j) * 5 + k, along, 1e-5);
				rig_want(r, 1, (i * 4 + j) * 5 + k, back, 1e-5);
			}
}

/* 27: a column inside a chain of pointwise ops is not a trailing broadcast. */
EVERYWHERE(region_column_broadcast)
{
	rlx_value a = rig_random(r, rlx_type(RLX_F32, 2, 6), -2, 2);
	rlx_value b = rig_random(r, rlx_type(RLX_F32, 2, 1), -2, 2);
	rlx_value c = rig_random(r, rlx_type(RLX_F32, 6), -2, 2), v;
	int64_t i;

	v = rlx_emit(r->g, add, .a = a, .b = b);
	v = rlx_emit(r->g, mul, .a = rlx_emit(r->g, tanh, .x = v), .b = c);
	rig_output(r, rlx_emit(r->g, sub, .a = v, .b = b));
	rig_run(r);
	for (i = 0; i < 12; i++)
		rig_want(r, 0, i, tanh(rig_in(r, 0, i) + rig_in(r, 1, i / 6)) *
			 rig_in(r, 2, i % 6) - rig_in(r, 1, i / 6), 1e-5);
}

/* 28: weights joined for a product are joined once, when compiling. */
TEST(weight_concat_is_folded)
{
	float w[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
	struct rig r;
	rlx_value x, a, b;

	rig_init(&r, "cpu");
	x = rig_random(&r, rlx_type(RLX_F32, 2, 3), -2, 2);
	a = rlx_constant(r.g, rlx_type(RLX_F32, 3, 2), w);
	b = rlx_constant(r.g, rlx_type(RLX_F32, 3, 2), w + 6);
	rig_output(&r, rlx_emit(r.g, matmul, .a = x, .b =
				rlx_emit(r.g, concat, .axis = 1, .xs = RLX_VALUES(a, b))));
	rig_run(&r);
	CHECK_EQ(r.steps, 1);
	rig_want(&r, 0, 2, rig_in(&r, 0, 0) * 7 + rig_in(&r, 0, 1) * 9 + rig_in(&r, 0, 2) * 11,
		 1e-5);
	rig_fini(&r);
}

/* 29: a precision policy never touches indices. */
EVERYWHERE(precision_keeps_indices)
{
	static const enum rlx_precision all[] = {
		RLX_PRECISION_BF16, RLX_PRECISION_MIXED_BF16, RLX_PRECISION_F16,
		RLX_PRECISION_MIXED_F16, RLX_PRECISION_TF32,
	};
	const int64_t idx[3] = { 3001, 2049, 4095 };
	unsigned int k;
	int64_t i;

	for (k = 0; r->device && k < sizeof(all) / sizeof(all[0]); k++) {
		rlx_value x, v;

		rig_reset(r);
		r->precision = all[k];
		x = rig_random(r, rlx_type(RLX_F32, 4096, 2), -2, 2);
		v = rig_input(r, rlx_type(RLX_I64, 3), idx);
		rig_output(r, rlx_emit(r->g, gather, .x = x, .indices = v));
		rig_output(r, rlx_emit(r->g, add, .a = v, .b = v));
		/* a device may not have f16; the others they all have, or as written */
		if (rig_try(r) == RLX_ENOSUP && (k == 2 || k == 3))
			continue;
		CHECKF(!r->err.status, "%s: %s", r->device, r->err.text);
		for (i = 0; i < 6; i++)
			rig_want(r, 0, i, rig_in(r, 0, idx[i / 2] * 2 + i % 2), 0x1p-8);
		for (i = 0; i < 3; i++)
			rig_want(r, 1, i, (double)(2 * idx[i]), 0);
	}
}

/* Ties of topk go to the smaller index: the decision behind its two outputs. */
EVERYWHERE(topk_ties)
{
	const float x[8] = { 3, 5, 5, 1, 5, 3, 9, 1 };
	static const int want[5] = { 6, 1, 2, 4, 0 }, low[5] = { 3, 7, 0, 5, 1 };
	rlx_value v = rig_input(r, rlx_type(RLX_F32, 8), x), y;
	int64_t i;

	y = rlx_emit(r->g, topk, .x = v, .k = 5, .axis = 0);
	rig_output(r, y);
	rig_output(r, rlx_out(r->g, y, 1));
	y = rlx_emit(r->g, topk, .x = v, .k = 5, .axis = 0, .smallest = true);
	rig_output(r, rlx_out(r->g, y, 1));
	rig_run(r);
	for (i = 0; i < 5; i++) {
		rig_want(r, 0, i, x[want[i]], 0);
		rig_want(r, 1, i, want[i], 0);
		rig_want(r, 2, i, low[i], 0);
	}
}

/* No batch at all: nothing is written behind an output of no bytes. */
TEST(a_product_of_no_batch)
{
	struct rlx_graph *g = rlx_graph_new("empty");
	rlx_value a = rlx_input(g, "a", rlx_type(RLX_F32, 0, 8, 8));
	rlx_value b = rlx_input(g, "b", rlx_type(RLX_F32, 0, 8, 8));
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu" };
	struct rlx_arena_opts ao = { .size = 4096 };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_arena *arena;
	unsigned char *bytes;
	int i;

	rlx_output(g, "y", rlx_emit(g, matmul, .a = a, .b = b));
	CHECK(!rlx_graph_finish(g) && !rlx_compile(g, &o, &p, NULL));
	CHECK(!rlx_session_new(p, NULL, &s, NULL) && !rlx_arena_new(&ao, &arena, NULL));
	bytes = rlx_arena_base(arena);
	memset(bytes, 0xa5, 4096);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "a", (struct rlx_buf){ arena, 0, 64 }), 0);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_INPUT, "b", (struct rlx_buf){ arena, 64, 64 }), 0);
	CHECK_EQ(rlx_session_bind(s, RLX_IO_OUTPUT, "y", (struct rlx_buf){ arena, 128, 64 }), 0);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	for (i = 0; i < 4096; i++)
		CHECKF(bytes[i] == 0xa5, "byte %d was written", i);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	rlx_arena_put(arena);
}

/* Kernels read bodies as programs over elements of one shape: of nothing else. */
TEST(regions_are_pointwise)
{
	static const struct {
		enum rlx_status st;
		const char *text;
	} want[] = {
		{ RLX_EINVAL, "region: the body has attention" },
		{ RLX_EINVAL, "region: the body has reshape" },
		{ RLX_ESHAPE, "region: the body's outputs 0 and 1 have not one shape" },
	};
	unsigned int i;

	for (i = 0; i < 3; i++) {
		struct rlx_graph *b = rlx_graph_new("body"), *g = rlx_graph_new("g");
		struct rlx_type t = rlx_type(RLX_F32, 1, 2, 3, 3);
		rlx_value x = rlx_input(b, "x", t), y = rlx_emit(b, relu, .x = x);

		if (i == 0)
			y = rlx_emit(b, attention, .q = x, .k = x, .v = x, .bias = y, .heads = 2,
				     .layout = RLX_BHSD);
		else if (i == 1)
			y = rlx_emit(b, reshape, .x = y, .shape = RLX_INTS(6, 3));
		rlx_output(b, "y", y);
		if (i == 2)
			rlx_output(b, "z", rlx_emit(b, expand, .x = x,
						    .shape = RLX_INTS(5, 2, 3, 3)));
		CHECK(!rlx_graph_finish(b));
		x = rlx_input(g, "x", t);
		rlx_emit(g, region, .body = b, .xs = RLX_VALUES(x));
		CHECKF(rlx_graph_error(g)->status == want[i].st &&
		       strstr(rlx_graph_error(g)->text, want[i].text), "%s",
		       rlx_graph_error(g)->text);
		rlx_graph_put(b);
		rlx_graph_put(g);
	}
}

TEST_MAIN()
