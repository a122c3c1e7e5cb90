// SPDX-License-Identifier: MIT
/*
 * Each op by numbers that a person can check: rows R058 to R119 of docs/surface.md, and what
 * they say of forms. On the evaluator, "ref", "cpu" and $RLX_TEST_GPU.
 */
#include "ir/element.h"
#include "ir/graph.h"
#include "rlx/grad.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

enum { MOST = 32 };

/* What the outputs of a row are to be. */
static struct { double v[MOST]; unsigned int n; double tol; } wanted[RIG_MAX];
static unsigned int n_wanted;

#define D(...)		(const double[]){ __VA_ARGS__ }
#define N(...)		(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double))
#define IN(t, ...)	in(r, t, D(__VA_ARGS__))
#define F(dims, ...)	IN(rlx_type(RLX_F32, RLX_UNPACK dims), __VA_ARGS__)
#define RLX_UNPACK(...)	__VA_ARGS__
#define EMIT(op, ...)	rlx_emit(r->g, op, __VA_ARGS__)
/* Output @x is these numbers, exactly or up to 2e-6 (1 + |number|). */
#define EXACT(x, ...)	want(r, x, D(__VA_ARGS__), N(__VA_ARGS__), 0)
#define NEAR(x, ...)	want(r, x, D(__VA_ARGS__), N(__VA_ARGS__), 2e-6)

static rlx_value in(struct rig *r, struct rlx_type t, const double *v)
{
	_Alignas(16) unsigned char data[8 * MOST] = { 0 };
	struct rlx_tensor x = { t, data };
	int64_t i;

	CHECK(rlx_type_count(&t) <= MOST);
	for (i = 0; i < rlx_type_count(&t); i++)
		if (rlx_dtype_is_float(t.dtype) || t.dtype == RLX_BOOL)
			el_set(&x, i, v[i]);
		else
			el_seti(&x, i, (int64_t)v[i]);
	return rig_input(r, t, data);
}

static void want(struct rig *r, rlx_value x, const double *v, unsigned int n, double tol)
{
	memcpy(wanted[n_wanted].v, v, n * sizeof(*v));
	wanted[n_wanted].tol = tol;
	wanted[n_wanted++].n = n;
	rig_output(r, x);
}

static void check(struct rig *r)
{
	unsigned int k, i;

	rig_run(r);
	for (k = 0; k < n_wanted; k++) {
		CHECK_EQ(rlx_type_count(&r->out[k].type), wanted[k].n);
		for (i = 0; i < wanted[k].n; i++)
			rig_want(r, k, i, wanted[k].v[i], wanted[k].tol);
	}
}

#define ROW(n)								\
	static void row_##n(struct rig *r);				\
	EVERYWHERE(n)							\
	{								\
		n_wanted = 0;						\
		row_##n(r);						\
		check(r);						\
	}								\
	static void row_##n(struct rig *r)

/* dy of @y's sum by @x. */
static rlx_value d_by(struct rig *r, rlx_value y, rlx_value seed, rlx_value x)
{
	rlx_value d;

	rlx_vjp(r->g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = RLX_VALUES(y),
					.seed = RLX_VALUES(seed), .wrt = RLX_VALUES(x) }, &d);
	return d;
}

ROW(r058_input)
{
	EXACT(F((4), 1, 2, 3, 4), 1, 2, 3, 4);
}

ROW(r060_constant)
{
	const int64_t big = ((int64_t)1 << 40) + 1;
	const uint8_t bits[3] = { 1, 0, 1 };
	const uint16_t half = 0x3e00;

	EXACT(rlx_constant(r->g, rlx_type(RLX_I64, 1), &big), 1099511627777.0);
	EXACT(rlx_constant(r->g, rlx_type(RLX_BOOL, 3), bits), 1, 0, 1);
	EXACT(rlx_constant(r->g, rlx_type(RLX_F16, 1), &half), 1.5);
}

ROW(r061_activation)
{
	rlx_value x = F((1), 0.5);

	NEAR(EMIT(gelu, .x = x), 0.345731);
	NEAR(EMIT(gelu_tanh, .x = x), 0.345714);
	NEAR(EMIT(silu, .x = x), 0.311230);
	NEAR(EMIT(sigmoid, .x = x), 0.622459);
	EXACT(EMIT(round, .x = F((2), 2.5, 3.5)), 2, 4);
	EXACT(EMIT(gelu, .x = F((1), INFINITY)), INFINITY);
}

ROW(r062_cast)
{
	EXACT(EMIT(cast, .x = F((4), 2.7, -2.7, NAN, 3e9), .to = RLX_I32), 2, -2, 0, 2147483647);
}

ROW(r063_binary)
{
	EXACT(EMIT(add, .a = F((2), 1, 2), .b = F((2, 1), 10, 20)), 11, 12, 21, 22);
	EXACT(EMIT(is_nan, .x = EMIT(max, .a = F((1), 1), .b = F((1), NAN))), 1);
}

ROW(r064_compare)
{
	EXACT(EMIT(lt, .a = F((2), 1, 2), .b = F((2, 1), 2, 1)), 1, 0, 0, 0);
}

ROW(r065_where)
{
	EXACT(EMIT(where, .cond = IN(rlx_type(RLX_BOOL, 2), 1, 0), .a = F((1), 5),
		   .b = F((2, 1), 1, 2)), 5, 1, 5, 2);
}

ROW(r067_matmul)
{
	EXACT(EMIT(matmul, .a = F((1, 2, 3), 1, 1, 1, 1, 1, 1),
		   .b = EMIT(expand, .x = F((1), 1), .shape = RLX_INTS(4, 3, 2))),
	      3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3);
}

ROW(r068_dot_general)
{
	EXACT(EMIT(dot_general, .a = F((2, 3), 1, 2, 3, 4, 5, 6),
		   .b = F((2, 4), 1, 0, 0, 1, 0, 1, 0, 1), .lhs_contract = RLX_INTS(0),
		   .rhs_contract = RLX_INTS(0)), 1, 4, 0, 5, 2, 5, 0, 7, 3, 6, 0, 9);
}

ROW(r069_layer_norm)
{
	NEAR(EMIT(layer_norm, .x = F((4), 1, 2, 3, 4), .axis = -1, .eps = 0),
	     -1.341641, -0.447214, 0.447214, 1.341641);
}

ROW(r070_layer_norm_2d)
{
	NEAR(EMIT(layer_norm_2d, .x = F((1, 2, 1, 1), 1, 3), .eps = 0), -1, 1);
}

ROW(r071_group_norm)
{
	NEAR(EMIT(group_norm, .x = F((2, 2, 2, 1), 1, 3, 5, 7, 1, 3, 5, 7), .groups = 1, .eps = 0),
	     -1.341641, -0.447214, 0.447214, 1.341641, -1.341641, -0.447214, 0.447214, 1.341641);
}

ROW(r072_rms_norm)
{
	NEAR(EMIT(rms_norm, .x = F((2), 3, 4), .axis = -1, .eps = 0), 0.848528, 1.131371);
}

ROW(r073_resize_nearest)
{
	EXACT(EMIT(resize, .x = F((1, 1, 2, 2), 1, 2, 3, 4), .sizes = RLX_INTS(1, 1, 4, 4),
		   .mode = RLX_RESIZE_NEAREST),
	      1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4);
}

ROW(r074_axial_rope)
{
	NEAR(EMIT(axial_rope, .x = F((1, 2, 4), 1, 0, 1, 0, 1, 0, 1, 0), .heads = 1, .end_x = 2,
		  .end_y = 1, .theta = 10000), 1, 0, 1, 0, 0.540302, 0.841471, 1, 0);
}

ROW(r075_attention)
{
	NEAR(EMIT(attention, .q = F((1, 1, 2, 1), 1, 1), .k = F((1, 1, 2, 1), 0, log(3)),
		  .v = F((1, 1, 2, 1), 1, 5), .layout = RLX_BHSD, .mask = RLX_MASK_CAUSAL), 1, 4);
}

ROW(r076_rope)
{
	rlx_value x = F((1, 1, 1, 4), 1, 2, 3, 4), cos = F((1, 2), 0, 1), sin = F((1, 2), 1, 0);

	NEAR(EMIT(rope, .x = x, .cos = cos, .sin = sin, .style = RLX_ROPE_NEOX), -3, 2, 1, 4);
}

ROW(r077_reshape)
{
	rlx_value y = EMIT(reshape, .x = F((2, 3), 1, 2, 3, 4, 5, 6), .shape = RLX_INTS(-1, 2));

	CHECK(rlx_type_of(r->g, y)->dim[0] == 3);
	EXACT(y, 1, 2, 3, 4, 5, 6);
}

ROW(r078_transpose)
{
	EXACT(EMIT(transpose, .x = F((2, 3), 1, 2, 3, 4, 5, 6)), 1, 4, 2, 5, 3, 6);
}

ROW(r079_slice)
{
	EXACT(EMIT(slice, .x = F((1, 3), 1, 2, 3), .axes = RLX_INTS(1), .starts = RLX_INTS(1),
		   .ends = RLX_INTS(3)), 2, 3);
	EXACT(EMIT(slice, .x = F((1, 3), 1, 2, 3), .axes = RLX_INTS(1), .starts = RLX_INTS(1),
		   .ends = RLX_INTS(99)), 2, 3);
}

ROW(r080_concat)
{
	rlx_value none = rig_input(r, rlx_type(RLX_F32, 1, 0), "");

	EXACT(EMIT(concat, .xs = RLX_VALUES(F((1, 1), 1), none, F((1, 2), 2, 3)), .axis = 1),
	      1, 2, 3);
}

ROW(r081_expand)
{
	EXACT(EMIT(expand, .x = F((2, 1), 1, 2), .shape = RLX_INTS(2, 2)), 1, 1, 2, 2);
}

ROW(r082_gather)
{
	rlx_value i = IN(rlx_type(RLX_I64, 2), 2, 0), last = IN(rlx_type(RLX_I32, 1), -1);

	EXACT(EMIT(gather, .x = F((1, 3), 1, 2, 3), .indices = i, .axis = 1), 3, 1);
	EXACT(EMIT(gather, .x = F((1, 3), 1, 2, 3), .indices = last, .axis = 1), 3);
}

ROW(r083_reduce)
{
	EXACT(EMIT(reduce, .x = F((2, 2, 2), 1, 2, 3, 4, 5, 6, 7, 8), .axes = RLX_INTS(0, 2)),
	      14, 22);
}

ROW(r084_softmax)
{
	NEAR(EMIT(softmax, .x = F((2, 2), 0, log(3), 0, 0), .axis = 0), 0.5, 0.75, 0.5, 0.25);
}

ROW(r085_cumsum)
{
	rlx_value x = F((3), 1, 2, 3);

	EXACT(EMIT(cumsum, .x = x, .axis = 0), 1, 3, 6);
	EXACT(EMIT(cumsum, .x = x, .axis = 0, .exclusive = true), 0, 1, 3);
	EXACT(EMIT(cumsum, .x = x, .axis = 0, .reverse = true), 6, 5, 3);
	EXACT(EMIT(cumsum, .x = F((2, 2), 1, 2, 3, 4), .axis = 0), 1, 2, 4, 6);
}

ROW(r086_topk)
{
	rlx_value v = EMIT(topk, .x = F((4), 3, 1, 3, 2), .k = 2, .axis = 0);

	EXACT(v, 3, 3);
	EXACT(rlx_out(r->g, v, 1), 0, 2);
	CHECK_EQ(rlx_type_of(r->g, rlx_out(r->g, v, 1))->dtype, RLX_I64);
}

#define NINE	F((1, 1, 3, 3), 1, 2, 3, 4, 5, 6, 7, 8, 9)
#define ONES	F((1, 1, 2, 2), 1, 1, 1, 1)

ROW(r088_conv)
{
	EXACT(EMIT(conv, .x = NINE, .w = ONES), 12, 16, 24, 28);
}

ROW(r089_conv_transpose)
{
	EXACT(EMIT(conv_transpose, .x = F((1, 1, 1, 2), 1, 2), .w = F((1, 1, 1, 2), 1, 1)),
	      1, 3, 2);
}

ROW(r090_pool)
{
	EXACT(EMIT(pool, .x = NINE, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(2, 2),
		   .stride = RLX_INTS(1, 1)), 5, 6, 8, 9);
	EXACT(EMIT(pool, .x = NINE, .kind = RLX_POOL_AVG, .kernel = RLX_INTS(2, 2),
		   .stride = RLX_INTS(1, 1)), 3, 4, 6, 7);
}

ROW(r091_scatter_add)
{
	EXACT(EMIT(scatter_elements, .x = F((3), 0, 0, 0),
		   .indices = IN(rlx_type(RLX_I32, 3), 1, 0, 1), .updates = F((3), 1, 2, 4),
		   .axis = 0, .reduction = RLX_SCATTER_ADD), 2, 5, 0);
}

ROW(r092_lora_matmul)
{
	EXACT(EMIT(lora_matmul, .x = F((1, 2), 1, 1), .w = F((2, 2), 1, 0, 0, 1),
		   .a = F((2, 1), 1, 1), .b = F((1, 2), 1, 2), .scale = 0.5f), 2, 3);
}

ROW(r093_fused_swiglu)
{
	NEAR(EMIT(fused_swiglu, .x = F((1, 2), 2, 1)), 1.462117);
	NEAR(EMIT(fused_swiglu, .x = F((1, 2), 1, 2), .gate_first = true), 1.462117);
}

/* The product is an output, too: it stays as it is. */
ROW(r094_matmul_bias_activation)
{
	rlx_value x = F((2, 4), 1, 0, 0, 0, 0, 1, 0, 0);
	rlx_value w = F((4, 3), 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0);
	rlx_value y = EMIT(matmul, .a = x, .b = w);

	EXACT(y, 1, 0, 0, 0, 1, 0);
	y = EMIT(add, .a = y, .b = F((3), 0.5, -0.5, 0));
	NEAR(EMIT(gelu, .x = y), 1.399789, -0.154269, 0, 0.345731, 0.345731, 0);
}

ROW(r095_residual_layer_norm)
{
	rlx_value y = EMIT(fused_residual_norm, .x = F((1, 2), 1, 2), .residual = F((1, 2), 0, 2),
			   .kind = RLX_NORM_LAYER, .eps = 0);

	NEAR(y, -1, 1);
	EXACT(rlx_out(r->g, y, 1), 1, 4);
}

ROW(r096_residual_rms_norm)
{
	rlx_value y = EMIT(fused_residual_norm, .x = F((1, 2), 3, 4), .residual = F((1, 2), 0, 0),
			   .kind = RLX_NORM_RMS, .eps = 0);

	NEAR(y, 0.848528, 1.131371);
	EXACT(rlx_out(r->g, y, 1), 3, 4);
}

ROW(r097_relu_backward)
{
	rlx_value x = F((3), -1, 0, 2);

	EXACT(d_by(r, EMIT(relu, .x = x), F((3), 1, 1, 1), x), 0, 0, 1);
}

ROW(r098_activation_backward)
{
	rlx_value x = F((1), 0.5), y = F((1), 1);

	NEAR(d_by(r, EMIT(gelu, .x = x), y, x), 0.867495);
	NEAR(d_by(r, EMIT(silu, .x = y), y, y), 0.927671);
}

ROW(r099_fake_quantize)
{
	NEAR(EMIT(fake_quantize, .x = F((3), -1, 0.3, 0.7), .bits = 4), -1, 0.285714, 0.714286);
}

ROW(r101_max_pool_backward)
{
	rlx_value x = NINE, y = EMIT(pool, .x = x, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(2, 2),
				     .stride = RLX_INTS(1, 1));

	EXACT(d_by(r, y, ONES, x), 0, 0, 0, 0, 1, 1, 0, 1, 1);
}

ROW(r102_r103_conv_backward)
{
	rlx_value x = NINE, w = ONES, y = EMIT(conv, .x = x, .w = w);

	EXACT(d_by(r, y, ONES, x), 1, 2, 1, 2, 4, 2, 1, 2, 1);
	EXACT(d_by(r, y, ONES, w), 12, 16, 24, 28);
}

ROW(r104_r105_cross_entropy)
{
	rlx_value x = F((1, 2), 0, log(3));
	rlx_value y = EMIT(cross_entropy, .logits = x, .labels = IN(rlx_type(RLX_I32, 1), 0));

	NEAR(y, 1.386294);
	NEAR(d_by(r, y, F((1), 1), x), -0.75, 0.75);
}

ROW(r106_attention_backward)
{
	rlx_value v = F((1, 1, 2, 1), 1, 5);
	rlx_value y = EMIT(attention, .q = F((1, 1, 2, 1), 1, 1), .k = F((1, 1, 2, 1), 0, log(3)),
			   .v = v, .layout = RLX_BHSD, .mask = RLX_MASK_CAUSAL);

	NEAR(d_by(r, y, F((1, 1, 2, 1), 1, 1), v), 1.25, 0.75);
}

ROW(r107_r108_layer_norm_backward)
{
	rlx_value x = F((1, 3), 1, 2, 4), gamma = F((3), 1, 1, 1), dy = F((1, 3), 1, 0, 0);
	rlx_value y = EMIT(layer_norm, .x = x, .gamma = gamma, .axis = -1, .eps = 0);

	NEAR(d_by(r, y, dy, x), 0.229081, -0.343622, 0.114541);
	NEAR(d_by(r, y, dy, gamma), -1.069045, 0, 0);
}

ROW(r109_r110_r111_rms_norm_backward)
{
	rlx_value x = F((1, 2), 3, 4), gamma = F((2), 1, 1), beta = F((2), 0, 0);
	rlx_value dy = F((1, 2), 1, 0);
	rlx_value y = EMIT(rms_norm, .x = x, .gamma = gamma, .beta = beta, .axis = -1, .eps = 0);

	NEAR(d_by(r, y, dy, x), 0.181019, -0.135765);
	NEAR(d_by(r, y, dy, gamma), 0.848528, 0);
	NEAR(d_by(r, y, dy, beta), 1, 0);
}

/* dy is what R076 gives: back comes what went in. */
ROW(r112_rope_backward)
{
	rlx_value x = F((1, 1, 1, 4), 1, 2, 3, 4), cos = F((1, 2), 0, 1), sin = F((1, 2), 1, 0);
	rlx_value y = EMIT(rope, .x = x, .cos = cos, .sin = sin, .style = RLX_ROPE_NEOX);

	NEAR(d_by(r, y, F((1, 1, 1, 4), -3, 2, 1, 4), x), 1, 2, 3, 4);
}

ROW(r113_cumsum_backward)
{
	rlx_value x = F((3), 1, 2, 3);

	EXACT(d_by(r, EMIT(cumsum, .x = x, .axis = 0), F((3), 1, 1, 1), x), 3, 2, 1);
}

ROW(r114_gather_backward)
{
	rlx_value x = F((3, 1), 0, 0, 0), i = IN(rlx_type(RLX_I64, 1, 3), 2, 0, 2);
	rlx_value y = EMIT(gather, .x = x, .indices = i, .axis = 0);

	EXACT(d_by(r, y, F((1, 3, 1), 1, 2, 4), x), 2, 0, 5);
}

ROW(r115_r123_complex)
{
	const float z[2] = { 3, 4 };
	rlx_value c = rig_input(r, rlx_type(RLX_C64, 1), z);

	EXACT(EMIT(norm_sq, .x = c), 25);
	EXACT(EMIT(norm_sq, .x = EMIT(conjugate, .x = c)), 25);
}

/* The gradient of a real loss by z = a + ib is that by a plus i times that by b. */
ROW(r143_complex_gradients)
{
	const float z[2] = { 3, 4 };
	rlx_value c = rig_input(r, rlx_type(RLX_C64, 1), z), x = F((2), 3, -5), y, d;

	d = d_by(r, EMIT(norm_sq, .x = c), F((1), 1), c);
	EXACT(EMIT(view_as_real, .x = d), 6, 8);
	y = EMIT(norm_sq, .x = EMIT(cast, .x = x, .to = RLX_C64));
	EXACT(d_by(r, y, F((2), 1, 1), x), 6, -10);
	y = EMIT(view_as_real, .x = EMIT(conjugate, .x = c));
	d = d_by(r, EMIT(reduce, .x = y), EMIT(reshape, .x = F((1), 1)), c);
	EXACT(EMIT(view_as_real, .x = d), 1, -1);
}

ROW(r116_qmatmul)
{
	rlx_value y = EMIT(qmatmul, .a = IN(rlx_type(RLX_U8, 1, 2), 1, 2),
			   .b = IN(rlx_type(RLX_U8, 2, 1), 3, 4), .a_scale = F((1), 0.5),
			   .a_zp = IN(rlx_type(RLX_U8, 1), 1), .b_scale = F((1), 1),
			   .b_zp = IN(rlx_type(RLX_U8, 1), 2), .y_scale = F((1), 1),
			   .y_zp = IN(rlx_type(RLX_U8, 1), 3),
			   .bias = IN(rlx_type(RLX_I32, 1), 10));

	EXACT(y, 9);
}

ROW(r117_qconv)
{
	rlx_value y = EMIT(qconv, .x = IN(rlx_type(RLX_U8, 1, 2, 1, 1), 1, 2),
			   .w = IN(rlx_type(RLX_U8, 1, 2, 1, 1), 3, 4),
			   .bias = IN(rlx_type(RLX_I32, 1), 10), .x_scale = F((1), 0.5),
			   .x_zp = IN(rlx_type(RLX_U8, 1), 1), .w_scale = F((1), 1),
			   .w_zp = IN(rlx_type(RLX_U8, 1), 2), .y_scale = F((1), 1),
			   .y_zp = IN(rlx_type(RLX_U8, 1), 3));

	EXACT(y, 9);
}

ROW(r118_r119_quantize)
{
	rlx_value s = F((1), 0.5), zp = IN(rlx_type(RLX_I8, 1), 1);
	rlx_value q = EMIT(quantize, .x = F((3), 0.25, 0.75, -200), .scale = s, .zp = zp);

	EXACT(q, 1, 3, -128);
	EXACT(EMIT(dequantize, .x = IN(rlx_type(RLX_I8, 3), 1, 3, -128), .scale = s, .zp = zp),
	      0, 1, -64.5);
}

ROW(r186_conv_of_any_rank)
{
	EXACT(EMIT(conv, .x = F((1, 1, 3), 1, 2, 3), .w = F((1, 1, 2), 1, 1)), 3, 5);
	EXACT(EMIT(conv, .x = F((1, 1, 2, 2, 2), 1, 1, 1, 1, 1, 1, 1, 1),
		   .w = F((1, 1, 2, 2, 2), 1, 1, 1, 1, 1, 1, 1, 1)), 8);
}

ROW(r187_pool_of_one_dimension)
{
	EXACT(EMIT(pool, .x = F((1, 1, 3), 1, 3, 2), .kind = RLX_POOL_MAX, .kernel = RLX_INTS(2),
		   .stride = RLX_INTS(1)), 3, 3);
}

ROW(r193_attention_scores)
{
	rlx_value q = F((1, 1, 1, 1), 1), k = F((1, 1, 2, 1), 1, 0), v = F((1, 1, 2, 1), 1, 0);

	/* softmax of [s, 0] weighs v = [1, 0] */
	NEAR(EMIT(attention, .q = q, .k = k, .v = v, .layout = RLX_BHSD, .scale = 0.5f),
	     1 / (1 + exp(-0.5)));
	NEAR(EMIT(attention, .q = q, .k = k, .v = v, .layout = RLX_BHSD, .softcap = 2),
	     1 / (1 + exp(-0.924234)));
	NEAR(EMIT(attention, .q = q, .k = k, .v = v, .layout = RLX_BHSD,
		  .bias = F((1, 1, 1, 2), -INFINITY, 0)), 0);
	NEAR(EMIT(attention, .q = q, .k = k, .v = v, .layout = RLX_BHSD,
		  .bias = F((1, 1, 1, 2), 0, 0)), 1 / (1 + exp(-1)));
}

TEST_MAIN()
