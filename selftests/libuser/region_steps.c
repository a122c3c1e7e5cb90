// SPDX-License-Identifier: MIT
/*
 * Steps of a region that become one, on the CPU: products that are added to, and the two sides
 * of LeakyRelu. Each beside what looks like it.
 */
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/xy_net.h"

/* Against the graph as it is written, on the reference: off by @most of the greatest. */
static void check(struct xy_net *n, rlx_value y, double most, const char *what)
{
	struct rlx_compile_opts ref = { .size = sizeof(ref), .device = "ref",
					.flags = RLX_COMPILE_NO_FUSE };
	struct rlx_compile_opts cpu = { .size = sizeof(cpu), .device = "cpu",
					.flags = RLX_COMPILE_NATIVE };
	static float x[XY_MOST], want[XY_MOST], got[XY_MOST];
	double off, top;

	xy_end(n, y);
	xy_fill(n, x, -3, 3);
	xy_run(n, n->g, &ref, x, want, NULL);
	xy_run(n, n->g, &cpu, x, got, NULL);
	off = xy_off(n, want, got, &top);
	CHECKF(off <= most * top, "%s: off by %g of %g", what, off, top);
	rlx_graph_put(n->g);
}

static rlx_value number(struct xy_net *n, double v)
{
	return rlx_scalar_const(n->g, RLX_F32, v);
}

TEST(products_that_are_added_to)
{
	struct xy_net n;
	rlx_value x, a, b, y;
	unsigned int i;

	for (i = 0; i < 16; i++) {
		x = xy_begin(&n, rlx_type(RLX_F32, 7, 45));
		a = i & 1 ? number(&n, 0.7) : xy_floats(&n, rlx_type(RLX_F32, 45), -1, 1);
		b = i & 2 ? number(&n, -0.3) : xy_floats(&n, rlx_type(RLX_F32, 7, 1), -1, 1);
		y = rlx_emit(n.g, mul, .a = x, .b = a);
		b = i & 4 ? rlx_emit(n.g, add, .a = b, .b = y) : rlx_emit(n.g, add, .a = y, .b = b);
		if (i & 8)	/* the product is wanted as well */
			b = rlx_emit(n.g, sub, .a = rlx_emit(n.g, tanh, .x = b), .b = y);
		check(&n, rlx_emit(n.g, relu, .x = b), 1e-6, "a product");
	}
	x = xy_begin(&n, rlx_type(RLX_F32, 7, 45));
	y = rlx_emit(n.g, mul, .a = x, .b = x);
	y = rlx_emit(n.g, add, .a = y, .b = y);		/* read twice by one sum */
	check(&n, rlx_emit(n.g, relu, .x = y), 1e-6, "a sum of itself");
}

/* where(x >= t, p, q a), which is one step for t = 0 and p = q = x alone. */
static void leaky(struct xy_net *n, rlx_value x, unsigned int i)
{
	rlx_value a = i & 1 ? xy_floats(n, rlx_type(RLX_F32, 45), -1, 1) : number(n, 0.01);
	rlx_value t = number(n, i == 2 ? 0.5 : 0), other = rlx_emit(n->g, neg, .x = x);
	rlx_value p = i == 4 ? other : x, q = i == 6 ? other : x, side, ge;

	ge = rlx_emit(n->g, ge, .a = i == 8 ? other : x, .b = t);
	side = i & 1 ? rlx_emit(n->g, mul, .a = a, .b = q) : rlx_emit(n->g, mul, .a = q, .b = a);
	x = rlx_emit(n->g, where, .cond = ge, .a = p, .b = side);
	if (i == 10)
		x = rlx_emit(n->g, add, .a = x, .b = side);
	check(n, rlx_emit(n->g, tanh, .x = x), 1e-6, "leaky");
}

TEST(the_sides_of_leaky_relu)
{
	struct xy_net n;
	unsigned int i;

	for (i = 0; i < 12; i++) {
		rlx_value x = xy_begin(&n, rlx_type(RLX_F32, 7, 45));

		leaky(&n, i & 1 ? rlx_emit(n.g, sin, .x = x) : x, i);
	}
}

TEST_MAIN()
