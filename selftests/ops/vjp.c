// SPDX-License-Identifier: MIT
/*
 * Derivatives inside open graphs: rlx_vjp() composes and is derived itself, emits nothing
 * that was not asked for, and stops where it is told to; rlx_jvp() and rlx_hvp() agree with
 * it and with differences; rlx_graph_inline() makes a graph a part of another.
 */
#include "ir/eval.h"
#include "ir/graph.h"
#include "ir/element.h"
#include "rlx/grad.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

enum { MOST = 8 };

/* Evaluate @g, whose inputs and outputs are f64, all of @in and @out in order. */
static void eval(struct rlx_graph *g, double *const *in, double *const *out)
{
	struct rlx_tensor ti[MOST], to[MOST];
	struct rlx_error err = { 0 };
	unsigned int i;

	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	for (i = 0; i < rlx_graph_io_count(g, RLX_IO_INPUT); i++)
		ti[i] = (struct rlx_tensor){
			*rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_INPUT, i)), in[i] };
	for (i = 0; i < rlx_graph_io_count(g, RLX_IO_OUTPUT); i++)
		to[i] = (struct rlx_tensor){
			*rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_OUTPUT, i)), out[i] };
	CHECKF(!rlx_graph_eval(g, ti, to, &err), "%s", err.text);
}

static unsigned int count(const struct rlx_graph *g, unsigned int op)
{
	unsigned int n, k = 0;

	for (n = 0; n < g->n_node; n++)
		k += g->node[n].def->index == op;
	return k;
}

static rlx_value total(struct rlx_graph *g, rlx_value x)
{
	return rlx_emit(g, reduce, .x = x);
}

/* x^4 twice differentiated in one graph: 4 x^3, then 12 x^2. */
TEST(vjp_of_vjp)
{
	struct rlx_graph *g = rlx_graph_new("powers");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, 3)), y, d, d2;
	double in[3] = { 1, -2, 3 }, loss, first[3], second[3];
	int i;

	y = rlx_emit(g, mul, .a = x, .b = x);
	y = total(g, rlx_emit(g, mul, .a = y, .b = y));
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &y, 1 },
				     .wrt = { &x, 1 } }, &d);
	d2 = total(g, d);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &d2, 1 },
				     .wrt = { &x, 1 } }, &d2);
	rlx_output(g, "loss", y);
	rlx_output(g, "d", d);
	rlx_output(g, "d2", d2);
	eval(g, (double *[]){ in }, (double *[]){ &loss, first, second });
	for (i = 0; i < 3; i++)
		CHECKF(first[i] == 4 * in[i] * in[i] * in[i] && second[i] == 12 * in[i] * in[i],
		       "%g, %g", first[i], second[i]);
	rlx_graph_put(g);
}

/* Of a b alone d b is asked: no product for d a; and of a constant branch none at all. */
TEST(need)
{
	struct rlx_graph *g = rlx_graph_new("need");
	rlx_value a = rlx_input(g, "a", rlx_type(RLX_F64, 4, 6, 5));
	rlx_value b = rlx_input(g, "b", rlx_type(RLX_F64, 5, 7)), y, d, other;
	unsigned int before, n, i;

	y = rlx_emit(g, tanh, .x = rlx_emit(g, matmul, .a = a, .b = b));
	/* reaches nothing */
	other = rlx_emit(g, exp, .x = rlx_emit(g, matmul, .a = a, .b = b));
	y = total(g, y);
	before = g->n_node;
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &y, 1 },
				     .wrt = { &b, 1 } }, &d);
	CHECKF(!rlx_graph_error(g)->status, "%s", rlx_graph_error(g)->text);
	CHECK_EQ(count(g, RLX_OP_fused_matmul), 1);
	CHECK_EQ(count(g, RLX_OP_transpose), 0);
	/* one product over all rows, none for each matrix of the batch */
	for (n = before; n < g->n_node; n++)
		for (i = 0; i < g->node[n].n_out; i++)
			CHECK(rlx_type_count(&g->val[g->node[n].out + i].type) <= 4 * 6 * 7);
	rlx_output(g, "d", d);
	rlx_output(g, "other", other);
	CHECK(!rlx_graph_finish(g));
	rlx_graph_put(g);
}

/* y = x stop(x) + x^2 outside of gradients: what passes is stop(x) alone. */
TEST(stops)
{
	struct rlx_graph *g = rlx_graph_new("stop");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, 2)), y, z, d, none;
	double in[2] = { 3, -5 }, got[2], zero[2];

	y = rlx_emit(g, mul, .a = x, .b = rlx_emit(g, stop_gradient, .x = x));
	rlx_scope_begin(g, RLX_SCOPE_NOGRAD);
	z = rlx_emit(g, mul, .a = x, .b = x);
	rlx_scope_end(g);
	y = total(g, rlx_emit(g, add, .a = y, .b = z));
	z = total(g, z);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &y, 1 },
				     .wrt = { &x, 1 } }, &d);
	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &z, 1 },
				     .wrt = { &x, 1 } }, &none);
	rlx_output(g, "d", d);
	rlx_output(g, "none", none);
	eval(g, (double *[]){ in }, (double *[]){ got, zero });
	CHECKF(got[0] == 3 && got[1] == -5 && !zero[0] && !zero[1], "%g %g %g %g", got[0], got[1],
	       zero[0], zero[1]);
	rlx_graph_put(g);
}

/* A small net with attention and norms, whose rules are those of what they stand for. */
static rlx_value net(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	rlx_value y = rlx_emit(g, matmul, .a = x, .b = w);

	y = rlx_emit(g, layer_norm, .x = y, .axis = -1, .eps = 1e-2f);
	y = rlx_emit(g, attention, .q = y, .k = x, .v = y, .heads = 2, .mask = RLX_MASK_CAUSAL);
	y = rlx_emit(g, gelu, .x = rlx_emit(g, add, .a = x, .b = y));
	return total(g, rlx_emit(g, log_softmax, .x = y, .axis = -1));
}

enum { NX = 2 * 3 * 4, NW = 4 * 4 };

/* A point and a direction; then loss, gradient, derivative along it, Hessian times it. */
struct at {
	double	x[NX], w[NW], vx[NX], vw[NW];
	double	loss, dx[NX], dw[NW], dot, hx[NX], hw[NW];
};

static void derive_all(struct at *p)
{
	struct rlx_graph *g = rlx_graph_new("net");
	struct rlx_ad a = { .size = sizeof(a) };
	rlx_value in[4], y, d[2], t, h[2];

	in[0] = rlx_input(g, "x", rlx_type(RLX_F64, 2, 3, 4));
	in[1] = rlx_input(g, "w", rlx_type(RLX_F64, 4, 4));
	in[2] = rlx_input(g, "vx", rlx_type(RLX_F64, 2, 3, 4));
	in[3] = rlx_input(g, "vw", rlx_type(RLX_F64, 4, 4));
	y = net(g, in[0], in[1]);
	a.of = (struct rlx_values){ &y, 1 };
	a.wrt = (struct rlx_values){ in, 2 };
	a.tangent = (struct rlx_values){ in + 2, 2 };
	rlx_vjp(g, &a, d);
	rlx_jvp(g, &a, &t);
	rlx_hvp(g, &a, h);
	rlx_output(g, "loss", y);
	rlx_output(g, "dx", d[0]);
	rlx_output(g, "dw", d[1]);
	rlx_output(g, "dot", t);
	rlx_output(g, "hx", h[0]);
	rlx_output(g, "hw", h[1]);
	eval(g, (double *[]){ p->x, p->w, p->vx, p->vw },
	     (double *[]){ &p->loss, p->dx, p->dw, &p->dot, p->hx, p->hw });
	rlx_graph_put(g);
}

static double inner(const double *a, const double *b, unsigned int n)
{
	double s = 0;

	while (n--)
		s += a[n] * b[n];
	return s;
}

static void draw(double *v, unsigned int n, uint64_t *seed)
{
	while (n--)
		v[n] = rlx_test_uniform(seed, -1, 1);
}

/* @to is @from moved by @h along its direction. */
static void moved(struct at *to, const struct at *from, double h)
{
	unsigned int k;

	*to = *from;
	for (k = 0; k < NX; k++)
		to->x[k] += h * from->vx[k];
	for (k = 0; k < NW; k++)
		to->w[k] += h * from->vw[k];
	derive_all(to);
}

TEST(forward_and_hessian)
{
	struct at p, other, up, down;
	double near, want, h = 1e-5, a, b;
	uint64_t seed = rlx_test_seed();
	unsigned int i;

	draw(p.x, NX, &seed);
	draw(p.w, NW, &seed);
	draw(p.vx, NX, &seed);
	draw(p.vw, NW, &seed);
	derive_all(&p);
	want = inner(p.dx, p.vx, NX) + inner(p.dw, p.vw, NW);
	CHECKF(fabs(p.dot - want) <= 1e-10 * fmax(fabs(want), 1e-3), "jvp %.15g, <vjp, v> %.15g",
	       p.dot, want);
	/* the Hessian is symmetric: <u, H v> = <v, H u> */
	other = p;
	draw(other.vx, NX, &seed);
	draw(other.vw, NW, &seed);
	derive_all(&other);
	a = inner(other.vx, p.hx, NX) + inner(other.vw, p.hw, NW);
	b = inner(p.vx, other.hx, NX) + inner(p.vw, other.hw, NW);
	CHECKF(fabs(a - b) <= 1e-9 * fmax(fabs(a), 1), "u H v %.15g, v H u %.15g", a, b);
	/* and differences of losses and gradients */
	moved(&up, &p, h);
	moved(&down, &p, -h);
	near = (up.loss - down.loss) / (2 * h);
	CHECKF(fabs(p.dot - near) <= 1e-6 * fmax(fabs(p.dot), 1), "jvp %.12g, difference %.12g",
	       p.dot, near);
	for (i = 0; i < NX; i++) {
		near = (up.dx[i] - down.dx[i]) / (2 * h);
		CHECKF(fabs(p.hx[i] - near) <= 1e-5 * fmax(fabs(near), 1),
		       "H v [%u] %.12g, difference %.12g", i, p.hx[i], near);
	}
	for (i = 0; i < NW; i++) {
		near = (up.dw[i] - down.dw[i]) / (2 * h);
		CHECKF(fabs(p.hw[i] - near) <= 1e-5 * fmax(fabs(near), 1),
		       "H v of w [%u] %.12g, difference %.12g", i, p.hw[i], near);
	}
}

/* Gradients cost at most 3.3 times the forward pass of products, and few nodes. */
TEST(cost)
{
	struct rlx_graph *g = rlx_graph_new("mlp"), *d = NULL;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 8, 16, 64)), wrt[4];
	struct rlx_error err = { 0 };
	char name[8];
	int i;

	for (i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		wrt[i] = rlx_param(g, name, rlx_type(RLX_F32, 64, 64));
		x = rlx_emit(g, relu, .x = rlx_emit(g, matmul, .a = x, .b = wrt[i]));
	}
	rlx_output(g, "loss", total(g, x));
	CHECK(!rlx_graph_finish(g));
	CHECKF(!rlx_graph_grad(g, wrt, 4, &d, &err), "%s", err.text);
	CHECKF(rlx_graph_flops(d) <= 3.3 * rlx_graph_flops(g), "%g of %g", rlx_graph_flops(d),
	       rlx_graph_flops(g));
	CHECKF(d->n_node <= 20 * g->n_node, "%u nodes of %u", d->n_node, g->n_node);
	rlx_graph_put(d);
	rlx_graph_put(g);
}

static void bad(struct rlx_ad a, enum rlx_status want, const char *text)
{
	struct rlx_graph *g = rlx_graph_new("bad");
	rlx_value d[2] = { { 7 }, { 7 } };

	rlx_input(g, "x", rlx_type(RLX_F32, 3));	/* value 1 */
	rlx_input(g, "i", rlx_type(RLX_I32, 3));	/* value 2 */
	a.size = sizeof(a);
	rlx_vjp(g, &a, d);
	CHECKF(rlx_graph_error(g)->status == want && strstr(rlx_graph_error(g)->text, text),
	       "%d '%s', not %d '%s'", rlx_graph_error(g)->status, rlx_graph_error(g)->text, want,
	       text);
	rlx_graph_put(g);
}

TEST(refusals)
{
	static const rlx_value x = { 1 }, i = { 2 }, far = { 99 };
	struct rlx_graph *g;

	bad((struct rlx_ad){ .of = { &x, 1 }, .wrt = { &x, 1 } }, RLX_ESHAPE, "without seeds");
	bad((struct rlx_ad){ .of = { &i, 1 }, .wrt = { &x, 1 } }, RLX_ETYPE, "of 0 is i32");
	bad((struct rlx_ad){ .of = { &x, 1 }, .wrt = { &i, 1 } }, RLX_ETYPE, "wrt 0 is i32");
	bad((struct rlx_ad){ .of = { &far, 1 }, .wrt = { &x, 1 } }, RLX_EINVAL, "is not in graph");
	bad((struct rlx_ad){ .of = { &x, 1 }, .seed = { &i, 1 }, .wrt = { &x, 1 } }, RLX_ESHAPE,
	    "seed 0 is i32[3]");
	bad((struct rlx_ad){ .of = { &x, 1 }, .seed = { &x, 2 }, .wrt = { &x, 1 } }, RLX_EINVAL,
	    "2 of list 'seed' for 1");
	bad((struct rlx_ad){ .of = { NULL, 1 }, .wrt = { &x, 1 } }, RLX_EINVAL, "is NULL");
	g = rlx_graph_new("scopes");
	rlx_scope_end(g);
	CHECK_EQ(rlx_graph_error(g)->status, RLX_EINVAL);
	rlx_graph_put(g);
	g = rlx_graph_new("scopes");
	rlx_scope_begin(g, 64);
	CHECK_EQ(rlx_graph_error(g)->status, RLX_EINVAL);
	rlx_graph_put(g);
	rlx_vjp(NULL, NULL, NULL);
}

/* y = w x, w being trained elsewhere. */
static struct rlx_graph *part(void)
{
	struct rlx_graph *g = rlx_graph_new("part");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, 2)), n;

	n = rlx_state(g, "n", rlx_type(RLX_F64, 2));
	rlx_output(g, "y", rlx_emit(g, mul, .a = x, .b = rlx_param(g, "w", rlx_type(RLX_F64, 2))));
	rlx_state_next(g, n, rlx_emit(g, add, .a = n, .b = x));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

TEST(inlined)
{
	static const char *const x[] = { "x" }, *const no[] = { "q" };
	struct rlx_graph *p = part(), *g = rlx_graph_new("whole"), *back = NULL;
	rlx_value v = rlx_input(g, "in", rlx_type(RLX_F64, 2)), y;
	struct rlx_inline how = { .size = sizeof(how), .prefix = "a.", .name = x, .value = &v,
				  .n = 1, .flags = RLX_INLINE_TRAIN };
	struct rlx_error err = { 0 };
	char *text = NULL;
	size_t len = 0;
	FILE *f;

	CHECKF(!rlx_graph_inline(g, p, &how, &y), "%s", rlx_graph_error(g)->text);
	how.prefix = "b.";
	how.value = &y;
	how.flags = 0;
	CHECKF(!rlx_graph_inline(g, p, &how, &y), "%s", rlx_graph_error(g)->text);
	rlx_output(g, "y", y);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECK_EQ(rlx_graph_io_count(g, RLX_IO_INPUT), 1);
	CHECK_EQ(rlx_graph_io_count(g, RLX_IO_OUTPUT), 1);
	CHECK_EQ(rlx_graph_io_count(g, RLX_IO_PARAM), 1);
	CHECK_EQ(rlx_graph_io_count(g, RLX_IO_STATE), 3);
	CHECK_STR(rlx_graph_io_name(g, RLX_IO_STATE, 0), "a.n");
	CHECK_STR(rlx_graph_io_name(g, RLX_IO_STATE, 1), "a.w");
	CHECK_STR(rlx_graph_io_name(g, RLX_IO_STATE, 2), "b.n");
	CHECK_STR(rlx_graph_io_name(g, RLX_IO_PARAM, 0), "b.w");
	/* the text form has states and their next values */
	f = open_memstream(&text, &len);
	CHECK(f && !rlx_graph_print(g, f, false));
	fclose(f);
	CHECKF(!rlx_graph_parse(text, len, &back, &err), "%s\n%s", err.text, text);
	CHECK_EQ(rlx_graph_hash(back), rlx_graph_hash(g));
	CHECK_EQ(rlx_graph_io_count(back, RLX_IO_STATE), 3);
	CHECK_EQ(rlx_graph_io_count(back, RLX_IO_OUTPUT), 1);
	free(text);
	rlx_graph_put(back);
	rlx_graph_put(g);

	g = rlx_graph_new("whole");
	how.name = no;
	v = rlx_input(g, "in", rlx_type(RLX_F64, 2));
	how.value = &v;
	CHECK_EQ(rlx_graph_inline(g, p, &how, &y), RLX_ENOENT);
	CHECK(strstr(rlx_graph_error(g)->text, "no leaf 'q'"));
	rlx_graph_put(g);
	g = rlx_graph_new("whole");
	v = rlx_input(g, "in", rlx_type(RLX_F32, 2));
	how.name = x;
	CHECK_EQ(rlx_graph_inline(g, p, &how, &y), RLX_ESHAPE);
	rlx_graph_put(g);
	rlx_graph_put(p);
}

TEST(next_values)
{
	struct rlx_graph *g = rlx_graph_new("next");
	rlx_value w = rlx_state(g, "w", rlx_type(RLX_F32, 2)), x, r;

	r = rlx_emit(g, reduce, .x = w);
	rlx_state_next(g, w, r);
	CHECK_EQ(rlx_graph_error(g)->status, RLX_ESHAPE);
	CHECK(strstr(rlx_graph_error(g)->text, "state 'w' is f32[2], its next value f32[]"));
	rlx_graph_put(g);
	g = rlx_graph_new("next");
	w = rlx_state(g, "w", rlx_type(RLX_F32, 2));
	x = rlx_emit(g, exp, .x = w);
	rlx_state_next(g, x, x);
	CHECK_EQ(rlx_graph_error(g)->status, RLX_EINVAL);
	rlx_graph_put(g);
	g = rlx_graph_new("next");
	w = rlx_state(g, "w", rlx_type(RLX_F32, 2));
	x = rlx_emit(g, exp, .x = w);
	rlx_state_next(g, w, x);
	rlx_state_next(g, w, x);
	CHECK_EQ(rlx_graph_error(g)->status, RLX_EEXIST);
	rlx_graph_put(g);
}

/* Emitting and inlining at every failed allocation. */
static enum rlx_status build(void *ctx)
{
	struct rlx_graph *p = rlx_graph_new("p"), *g = rlx_graph_new("g");
	rlx_value x = rlx_input(p, "x", rlx_type(RLX_F32, 2, 3, 4)), y[2], w, d[2];
	rlx_value s = rlx_state(p, "s", rlx_type(RLX_F32, 2, 3, 4));
	enum rlx_status st;

	w = rlx_param(p, "w", rlx_type(RLX_F32, 4, 4));
	rlx_output(p, "y", net(p, x, w));
	rlx_state_next(p, s, x);
	st = rlx_graph_finish(p);
	if (!st)
		st = rlx_graph_inline(g, p, NULL, y);
	if (!st) {
		w = rlx_graph_io_value(g, RLX_IO_PARAM, 0);
		rlx_hvp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { y, 1 },
					     .wrt = { &w, 1 }, .tangent = { &w, 1 } }, d);
		rlx_output(g, "d", d[0]);
		st = rlx_graph_finish(g);
	}
	rlx_graph_put(g);
	rlx_graph_put(p);
	return st;
}

TEST(no_memory)
{
	CHECK(rlx_oom_sweep(build, NULL) > 100);
}

TEST_MAIN()
