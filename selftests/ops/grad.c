// SPDX-License-Identifier: MIT
/*
 * Gradient rules against central differences in f64: for every sample of every
 * op the loss is a random weighting of all float outputs. Then the same of every op that takes
 * c64, by real and imaginary parts.
 */
#include <float.h>

#include "ad/control.h"
#include "ir/eval.h"
#include "ir/graph.h"
#include "ir/element.h"
#include "rlx/grad.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

enum { MAX_IO = 2 * RLX_MAX_OUT + 2 * RLX_SAMPLE_IN };

static unsigned int checked, refused;

static bool is_number(const struct rlx_type *t)
{
	return rlx_dtype_is_float(t->dtype) || t->dtype == RLX_C64;
}

/* What a tensor has of real numbers, of c64 two for each element, and number @i of them. */
static int64_t reals(const struct rlx_type *t)
{
	return rlx_type_count(t) * (t->dtype == RLX_C64 ? 2 : 1);
}

static double get(const struct rlx_tensor *t, int64_t i)
{
	return t->type.dtype == RLX_C64 ? (double)((const float *)t->data)[i] : el_get(t, i);
}

static void put(struct rlx_tensor *t, int64_t i, double x)
{
	if (t->type.dtype == RLX_C64)
		((float *)t->data)[i] = (float)x;
	else
		el_set(t, i, x);
}

/* By how much the numbers of a dtype are off at 1. */
static double rounding(enum rlx_dtype dt)
{
	return dt == RLX_F64 ? DBL_EPSILON : dt == RLX_F16 ? 1e-3 : dt == RLX_BF16 ? 8e-3 :
	       rlx_dtype_size(dt) == 1 ? 0.25 : (double)FLT_EPSILON;
}

static struct rlx_tensor tensor_new(struct rlx_type t)
{
	struct rlx_tensor x = { t, NULL };
	size_t n = (size_t)rlx_type_bytes(&t) + 64;

	CHECK(!posix_memalign(&x.data, 64, n));
	memset(x.data, 0xa5, n);
	return x;
}

/* A graph with tensors for its inputs and outputs, in their order. */
struct bench {
	struct rlx_graph	*g;
	struct rlx_tensor	 in[MAX_IO], out[MAX_IO];
	unsigned int		 n_in, n_out;
};

static void bench_init(struct bench *b, struct rlx_graph *g)
{
	unsigned int i;

	*b = (struct bench){ .g = g, .n_in = rlx_graph_io_count(g, RLX_IO_INPUT),
			     .n_out = rlx_graph_io_count(g, RLX_IO_OUTPUT) };
	CHECK(b->n_in <= MAX_IO && b->n_out <= MAX_IO);
	for (i = 0; i < b->n_out; i++)
		b->out[i] = tensor_new(*rlx_type_of(g,
				rlx_graph_io_value(g, RLX_IO_OUTPUT, i)));
}

static void bench_fini(struct bench *b)
{
	unsigned int i;

	for (i = 0; i < b->n_out; i++)
		free(b->out[i].data);
}

/*
 * Sum of the outputs that have gradients, each number weighed; *@size: by how much rounding may
 * put it off.
 */
static double loss(struct bench *b, const struct rlx_tensor *weight, double *size)
{
	struct rlx_error err = { 0 };
	double sum = 0, one;
	unsigned int k;
	int64_t i;

	CHECKF(!rlx_graph_eval(b->g, b->in, b->out, &err), "%s", err.text);
	for (k = 0; k < b->n_out; k++) {
		if (!is_number(&b->out[k].type))
			continue;
		for (i = 0; i < reals(&b->out[k].type); i++) {
			one = get(&weight[k], i) * get(&b->out[k], i);
			sum += one;
			*size += fabs(one) * rounding(b->out[k].type.dtype);
		}
	}
	return sum;
}

/* One sample with the weights of its loss. */
struct trial {
	const struct op_case	*c;
	unsigned int		 i;
	struct bench		*b;
	struct rlx_tensor	 weight[MAX_IO];
	uint64_t		*seed;
	bool			 complex_values;
};

/* Fill dir[] at random, or with one 1 at a random place. */
static void draw(const struct trial *t, double *dir, int64_t n, bool single)
{
	int64_t only = (int64_t)(rlx_test_rand(t->seed) % (uint64_t)n), j;

	for (j = 0; j < n; j++)
		dir[j] = single ? j == only : rlx_test_uniform(t->seed, -1, 1);
}

/*
 * The slope of the loss along @dir from input @k, over steps of @h. *@noise: what the rounding
 * of the terms of both losses makes of it.
 */
static double slope(struct trial *t, unsigned int k, const double *dir, double h, double *noise)
{
	struct rlx_tensor *x = &t->b->in[k], keep = *x, moved = tensor_new(x->type);
	int64_t n = reals(&x->type), j;
	double up, down, size = 0;

	*x = moved;
	for (j = 0; j < n; j++)
		put(x, j, get(&keep, j) + h * dir[j]);
	up = loss(t->b, t->weight, &size);
	for (j = 0; j < n; j++)
		put(x, j, get(&keep, j) - h * dir[j]);
	down = loss(t->b, t->weight, &size);
	*x = keep;
	free(moved.data);
	*noise = 4 * size / h;
	return (up - down) / (2 * h);
}

/* That slope against <gradient, direction>; one element alone if @single. */
static void check_direction(struct trial *t, unsigned int k,
			    const struct rlx_tensor *grad, bool single)
{
	/* c64 is linear or quadratic in them: differences are right over any step */
	bool is_complex = t->complex_values;
	int64_t n = reals(&grad->type), j;
	double *dir, want = NAN, got = 0, size = 0, tol, noise = 0, h = is_complex ? 0.5 : 1e-5;

	if (!n)
		return;
	dir = calloc((size_t)n, sizeof(*dir));
	CHECK(dir);
	draw(t, dir, n, single);
	for (j = 0; j < n; j++) {
		got += dir[j] * get(grad, j);
		size += fabs(dir[j] * get(grad, j));
	}
	tol = t->c->s.grad_tol > 0 ? t->c->s.grad_tol : 1e-6;
	/* a step may cross a kink of max or an exchange of sort: then a smaller one */
	tol = is_complex ? fmax(tol, 1e-5) : tol;
	for (; h > 0.5e-7; h /= is_complex ? 1e9 : 10) {
		want = slope(t, k, dir, h, &noise);
		if (fabs(got - want) <= tol * fmax(size, fabs(want)) + noise)
			break;
	}
	WANT(fabs(got - want) <= tol * fmax(fmax(size, fabs(want)), 1e-2) + noise,
	     "%s sample %u input %u: gradient %.8g, difference %.8g", t->c->def->name,
	     t->i, k, got, want);
	checked++;
	free(dir);
}

/* Whether anything of this case can have a gradient at all. */
static bool has_numbers(const struct op_case *c, const struct bench *b)
{
	bool in = false, out = false;
	unsigned int k;

	for (k = 0; k < c->s.n_in; k++)
		in = in || is_number(&c->s.in[k]);
	for (k = 0; k < b->n_out; k++)
		out = out || is_number(&b->out[k].type);
	return in && out;
}

static bool has_complex(const struct op_case *c, const struct bench *b)
{
	bool found = false;
	unsigned int k;

	for (k = 0; k < c->s.n_in; k++)
		found = found || c->s.in[k].dtype == RLX_C64;
	for (k = 0; k < b->n_out; k++)
		found = found || b->out[k].type.dtype == RLX_C64;
	return found;
}

static void compare(const struct op_case *c, unsigned int i, struct bench *b,
		    struct rlx_graph *vjp, uint64_t *seed, bool complex_values)
{
	struct trial t = { .c = c, .i = i, .b = b, .seed = seed,
			   .complex_values = complex_values };
	struct rlx_tensor *weight = t.weight;
	struct rlx_error err = { 0 };
	unsigned int k, n = 0, got;
	struct bench v;
	int64_t j;

	bench_init(&v, vjp);
	memcpy(v.in, b->in, sizeof(b->in));
	for (k = 0; k < b->n_out; k++) {
		weight[k] = tensor_new(b->out[k].type);
		for (j = 0; j < reals(&weight[k].type); j++)
			put(&weight[k], j, rlx_test_uniform(seed, -1, 1));
		if (is_number(&weight[k].type))
			v.in[b->n_in + n++] = weight[k];
	}
	WANT(v.n_in == b->n_in + n, "%s: inputs of the gradient", c->def->name);
	WANT(!rlx_graph_eval(vjp, v.in, v.out, &err), "%s sample %u: %s", c->def->name, i,
	     err.text);
	for (k = 0, got = b->n_out; !err.status && k < b->n_in; k++) {
		if (!is_number(&b->in[k].type))
			continue;
		if (rlx_dtype_size(b->in[k].type.dtype) == 1) {
			got++;	/* f8: no small steps to take differences by */
			continue;
		}
		check_direction(&t, k, &v.out[got], false);
		check_direction(&t, k, &v.out[got], true);
		check_direction(&t, k, &v.out[got], true);
		got++;
	}
	for (k = 0; k < b->n_out; k++)
		free(weight[k].data);
	bench_fini(&v);
}

/* The case's tensors for @b, and in @wrt those of numbers; their number. */
static unsigned int take_inputs(const struct op_case *c, struct rlx_graph *g, struct bench *b,
				rlx_value wrt[RLX_SAMPLE_IN])
{
	unsigned int k, n = 0, in = 0;

	for (k = 0; k < c->s.n_in; k++) {
		if (!c->s.in[k].dtype)
			continue;
		b->in[in] = (struct rlx_tensor){ c->s.in[k], c->data[k] };
		if (is_number(&c->s.in[k]))
			wrt[n++] = rlx_graph_io_value(g, RLX_IO_INPUT, in);
		in++;
	}
	return n;
}

static void check_case(const struct op_case *c, unsigned int i, uint64_t *seed)
{
	const struct rlx_op_impl *im = c->def->impl;
	struct rlx_graph *g = op_case_graph(c), *vjp = NULL;
	rlx_value wrt[RLX_SAMPLE_IN];
	struct rlx_error err = { 0 };
	enum rlx_status st;
	unsigned int n;
	struct bench b;

	if (rlx_graph_error(g)->status) {	/* an op that fixes f32 */
		WANT(c->s.grad_tol < 0 || c->def->traits & RLX_T_NODIFF || c->s.f32_only,
		     "%s sample %u in f64: %s", c->def->name, i, rlx_graph_error(g)->text);
		goto out_put;
	}
	bench_init(&b, g);
	n = take_inputs(c, g, &b, wrt);
	if (!has_numbers(c, &b) || has_complex(c, &b))
		goto out_fini;
	st = rlx_graph_vjp(g, wrt, n, &vjp, &err);
	if (!im->vjp && !im->expand && !im->grad_expand && !rlx_ad_is_control(c->def) &&
	    !(c->def->traits & RLX_T_NODIFF)) {
		WANT(st == RLX_ENOSUP && strstr(err.text, c->def->name),
		     "%s has no rule, but: %s", c->def->name, err.text);
		refused++;
		goto out_fini;
	}
	/* there is a rule, but not for this form */
	if (st == RLX_ENOSUP && im->grad_expand && c->s.grad_tol < 0) {
		WANT(strstr(err.text, c->def->name), "%s has no rule, but: %s", c->def->name,
		     err.text);
		refused++;
		goto out_fini;
	}
	WANT(!st, "%s sample %u: %s", c->def->name, i, err.text);
	if (!st && c->s.grad_tol >= 0 && !(c->def->traits & RLX_T_NODIFF))
		compare(c, i, &b, vjp, seed, false);
out_fini:
	bench_fini(&b);
out_put:
	rlx_graph_put(vjp);
	rlx_graph_put(g);
}

TEST(differences)
{
	uint64_t seed = rlx_test_seed();
	struct op_case c;
	unsigned int d, i;

	for (d = 0; d < rlx_op_count; d++)
		for (i = 0; op_case_init(&c, rlx_op_defs[d], i, RLX_F64, &seed); i++) {
			check_case(&c, i, &seed);
			op_case_fini(&c);
		}
	CHECKF(checked > 1000 && refused, "only %u directions checked, %u ops refused",
	       checked, refused);
	CHECKF(!op_case_failures, "%u of %u directions are wrong", op_case_failures, checked);
}

static void draw_imaginary(struct op_case *c, uint64_t *seed)
{
	unsigned int k;
	int64_t i;

	for (k = 0; k < c->s.n_in; k++)
		for (i = 0; c->s.in[k].dtype == RLX_C64 && i < rlx_type_count(&c->s.in[k]); i++)
			((float *)c->data[k])[2 * i + 1] = (float)rlx_test_uniform(seed, -2, 2);
}

/* Whether differences were taken. */
static bool check_complex_case(struct op_case *c, unsigned int i, uint64_t *seed)
{
	const struct rlx_op_impl *im = c->def->impl;
	struct rlx_graph *g = op_case_graph(c), *vjp = NULL;
	rlx_value wrt[RLX_SAMPLE_IN];
	struct rlx_error err = { 0 };
	struct bench b = { 0 };
	bool ok = false, may;
	enum rlx_status st;
	unsigned int n;

	if (rlx_graph_error(g)->status)		/* no c64 is taken */
		goto out_put;
	bench_init(&b, g);
	n = take_inputs(c, g, &b, wrt);
	if (!has_complex(c, &b) || !has_numbers(c, &b) || c->def->index == RLX_OP_stop_gradient)
		goto out_put;
	draw_imaginary(c, seed);
	st = rlx_graph_vjp(g, wrt, n, &vjp, &err);
	/* what it expands into may have rules, or be what is refused */
	may = !im->vjp && (im->expand || im->grad_expand);
	ok = !st && (im->complex_vjp || may);
	WANT(ok || (st == RLX_ENOSUP && !im->complex_vjp &&
		    (strstr(err.text, c->def->name) || may)),
	     "%s sample %u of c64: status %d, %s", c->def->name, i, st, err.text);
	if (ok)
		compare(c, i, &b, vjp, seed, true);
	refused += !ok;
out_put:
	bench_fini(&b);
	rlx_graph_put(vjp);
	rlx_graph_put(g);
	return ok;
}

/* Samples of every op as they are, and with c64 in the place of f32: right, or refused by name. */
TEST(complex_differences)
{
	const enum rlx_dtype real[] = { 0, RLX_C64 };
	uint64_t seed = rlx_test_seed();
	struct op_case c;
	unsigned int d, i, k, n;

	checked = refused = 0;
	for (d = 0; d < rlx_op_count; d++) {
		for (n = 0, k = 0; k < 2; k++)
			for (i = 0; op_case_init(&c, rlx_op_defs[d], i, real[k], &seed); i++) {
				n += check_complex_case(&c, i, &seed);
				op_case_fini(&c);
			}
		WANT(n || !rlx_op_defs[d]->impl->complex_vjp, "%s: no sample is of c64",
		     rlx_op_defs[d]->name);
	}
	CHECKF(checked > 300, "only %u directions checked", checked);
	CHECKF(!op_case_failures, "%u of %u directions are wrong", op_case_failures, checked);
}

/* loss = sum((x w + b)^2) with x used twice and w a param */
static struct rlx_graph *small_loss(rlx_value wrt[4])
{
	struct rlx_graph *g = rlx_graph_new("loss");
	rlx_value y;

	wrt[0] = rlx_input(g, "x", rlx_type(RLX_F64, 2, 2));
	wrt[1] = rlx_param(g, "w", rlx_type(RLX_F64, 2, 2));
	wrt[2] = rlx_input(g, "unused", rlx_type(RLX_F32, 3));
	y = rlx_emit(g, matmul, .a = wrt[0], .b = wrt[1]);
	y = rlx_emit(g, add, .a = y, .b = wrt[0]);
	wrt[3] = y;
	y = rlx_emit(g, mul, .a = y, .b = y);
	rlx_output(g, "loss", rlx_emit(g, reduce, .x = y));
	return g;
}

TEST(names_and_zeros)
{
	struct rlx_graph *v = NULL, *g;
	struct rlx_error err = { 0 };
	rlx_value wrt[4];

	g = small_loss(wrt);
	CHECK_EQ(rlx_graph_grad(g, wrt, 4, &v, &err), RLX_EINVAL);	/* not finished */
	CHECK(!rlx_graph_finish(g));
	err = (struct rlx_error){ 0 };
	CHECKF(!rlx_graph_grad(g, wrt, 4, &v, &err), "%s", err.text);
	CHECK_EQ(rlx_graph_io_count(v, RLX_IO_INPUT), 2);
	CHECK_EQ(rlx_graph_io_count(v, RLX_IO_OUTPUT), 5);
	CHECK_STR(rlx_graph_io_name(v, RLX_IO_OUTPUT, 0), "loss");
	CHECK_STR(rlx_graph_io_name(v, RLX_IO_OUTPUT, 1), "d_x");
	CHECK_STR(rlx_graph_io_name(v, RLX_IO_OUTPUT, 2), "d_w");
	CHECK_STR(rlx_graph_io_name(v, RLX_IO_OUTPUT, 3), "d_unused");
	CHECK_STR(rlx_graph_io_name(v, RLX_IO_OUTPUT, 4), "d_wrt_3");
	CHECK_EQ(rlx_type_of(v, rlx_graph_io_value(v, RLX_IO_OUTPUT, 3))->dtype, RLX_F32);
	rlx_graph_put(v);

	v = NULL;
	CHECKF(!rlx_graph_vjp(g, wrt, 1, &v, &err), "%s", err.text);
	CHECK_STR(rlx_graph_io_name(v, RLX_IO_INPUT, 2), "d_loss");
	rlx_graph_put(v);
	rlx_graph_put(g);
}

TEST(refusals)
{
	struct rlx_graph *g = rlx_graph_new("g"), *v = NULL;
	struct rlx_error err = { 0 };
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 3, 3));
	rlx_value i = rlx_input(g, "i", rlx_scalar(RLX_I64)), none = RLX_NONE;
	rlx_value far = { 1000 }, roi = rlx_emit(g, reshape, .x = x, .shape =
						 RLX_INTS(1, 1, 3, 3));

	roi = rlx_emit(g, roi_align, .x = roi,
		       .rois = rlx_input(g, "r", rlx_type(RLX_F32, 1, 4)),
		       .batch_indices = rlx_emit(g, reshape, .x = i, .shape = RLX_INTS(1)),
		       .out_h = 1, .out_w = 1);
	rlx_output(g, "y", roi);
	rlx_output(g, "z", x);
	rlx_output(g, "i", i);
	CHECK(!rlx_graph_finish(g));
	CHECK_EQ(rlx_graph_vjp(NULL, &x, 1, &v, &err), RLX_EINVAL);
	CHECK_EQ(rlx_graph_vjp(g, &none, 1, &v, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_graph_vjp(g, &far, 1, &v, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_graph_vjp(g, NULL, 1, &v, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_graph_vjp(g, &i, 1, &v, NULL), RLX_ETYPE);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_graph_vjp(g, &x, 1, &v, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "roi_align has a gradient only with sampling"), "%s", err.text);
	CHECK(err.file && strstr(err.file, "grad.c"));
	CHECK(!v);
	rlx_graph_put(g);

	g = rlx_graph_new("g");
	x = rlx_input(g, "x", rlx_type(RLX_F32, 3));
	rlx_output(g, "y", x);
	rlx_output(g, "d_x", rlx_emit(g, exp, .x = x));
	CHECK(!rlx_graph_finish(g));
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_graph_vjp(g, &x, 1, &v, &err), RLX_EEXIST);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_graph_grad(g, &x, 1, &v, &err), RLX_ESHAPE);
	rlx_graph_put(g);
}

/* Rules that allocate constants of their own, and expansion, all in one graph. */
static enum rlx_status build_and_differentiate(void *ctx)
{
	struct rlx_graph *g = rlx_graph_new("g"), *v = NULL;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1, 2, 6, 6)), y;
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 3, 2, 3, 3)), wrt[2] = { x, w };
	enum rlx_status st;

	y = rlx_emit(g, conv, .x = x, .w = w);
	y = rlx_emit(g, pad, .x = y, .pads = RLX_INTS(0, 0, 1, 1, 0, 0, 1, 1),
		     .mode = RLX_PAD_REFLECT);
	y = rlx_emit(g, pool, .x = y, .kind = RLX_POOL_AVG, .kernel = RLX_INTS(2, 2),
		     .pad = RLX_INTS(1, 1, 0, 0));
	y = rlx_emit(g, resize, .x = y, .sizes = RLX_INTS(1, 3, 4, 4),
		     .mode = RLX_RESIZE_CUBIC);
	y = rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(3, 4, 4));
	y = rlx_emit(g, attention, .q = y, .k = y, .v = y, .heads = 2,
		     .mask = RLX_MASK_CAUSAL);
	y = rlx_emit(g, layer_norm, .x = y, .axis = -1, .eps = 1e-5f);
	y = rlx_emit(g, slice, .x = y, .starts = RLX_INTS(2), .ends = RLX_INTS(-9),
		     .steps = RLX_INTS(-2));
	y = rlx_emit(g, cast, .x = y, .to = RLX_C64);
	y = rlx_emit(g, norm_sq, .x = rlx_emit(g, tile, .x = y, .repeats = RLX_INTS(2, 1, 1)));
	rlx_output(g, "loss", rlx_emit(g, reduce, .x = y));
	st = rlx_graph_finish(g);
	if (!st)
		st = rlx_graph_grad(g, wrt, 2, &v, NULL);
	rlx_graph_put(v);
	rlx_graph_put(g);
	return st;
}

TEST(no_memory)
{
	CHECK(rlx_oom_sweep(build_and_differentiate, NULL) > 100);
}

/* Evaluation of one op in every way it takes memory: scratch, expansion, calls. */
static enum rlx_status evaluate_all(void *ctx)
{
	const struct rlx_graph *const *g = ctx;
	struct rlx_tensor in[4] = { 0 }, out = { 0 };
	static float data[64];
	enum rlx_status st = RLX_OK;
	unsigned int k;

	for (k = 0; g[k] && !st; k++) {
		in[0] = (struct rlx_tensor){ *rlx_type_of(g[k],
				rlx_graph_io_value(g[k], RLX_IO_INPUT, 0)), data };
		out = tensor_new(*rlx_type_of(g[k],
				 rlx_graph_io_value(g[k], RLX_IO_OUTPUT, 0)));
		st = rlx_graph_eval(g[k], in, &out, NULL);
		free(out.data);
	}
	return st;
}

static struct rlx_graph *conjugation(void)
{
	struct rlx_graph *g = rlx_graph_new("conjugation");

	rlx_output(g, "y", rlx_emit(g, conjugate, .x = rlx_input(g, "x", rlx_type(RLX_C64, 2))));
	CHECK(!rlx_graph_finish(g));
	return g;
}

/* An op that takes c64 and has no rule for it is refused by its name: not a silent 0. */
TEST(complex_values)
{
	struct rlx_graph *one = conjugation();
	unsigned int k;

	for (k = 0; k < 4; k++) {
		struct rlx_graph *g = rlx_graph_new("complex"), *d = NULL;
		rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2)), z, y;
		rlx_value other = rlx_input(g, "other", rlx_type(RLX_F32, 2));
		struct rlx_error err = { 0 };
		enum rlx_status st;

		z = rlx_emit(g, cast, .x = k == 2 ? other : x, .to = RLX_C64);
		if (k == 3)
			z = rlx_emit(g, stop_gradient, .x = z);
		if (k == 1)
			z = rlx_emit(g, scan, .body_g = one, .n_carry = 1, .length = 3,
				     .xs = RLX_VALUES(z));
		else
			z = rlx_emit(g, if, .pred = rlx_input(g, "p", rlx_scalar(RLX_BOOL)),
				     .then_g = one, .else_g = one, .xs = RLX_VALUES(z));
		y = rlx_emit(g, norm_sq, .x = z);
		rlx_output(g, "y", rlx_emit(g, mul, .a = rlx_emit(g, exp, .x = y), .b = x));
		CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
		st = rlx_graph_vjp(g, &x, 1, &d, &err);
		if (k < 2)
			CHECKF(st == RLX_ENOSUP && err.line && !strncmp(err.text, k ? "scan has" :
			       "if has", 6), "case %u: %d '%s'", k, st, err.text);
		else	/* nothing asked for goes through them */
			CHECKF(!st, "%s", err.text);
		rlx_graph_put(d);
		rlx_graph_put(g);
	}
	rlx_graph_put(one);
}

TEST(no_memory_to_evaluate)
{
	struct rlx_graph *g[3] = { rlx_graph_new("a"), rlx_graph_new("b") };
	rlx_value x = rlx_input(g[0], "x", rlx_type(RLX_F32, 4, 8));

	rlx_output(g[0], "y", rlx_emit(g[0], fused_swiglu, .x =
		   rlx_emit(g[0], topk, .x = x, .k = 4, .axis = 0)));
	CHECK(!rlx_graph_finish(g[0]));
	x = rlx_input(g[1], "x", rlx_type(RLX_F32, 4, 8));
	rlx_output(g[1], "y", rlx_emit(g[1], scan, .body_g = g[0], .n_xs = 1, .length = 2,
		   .xs = RLX_VALUES(rlx_emit(g[1], reshape, .x =
			rlx_emit(g[1], tile, .x = x, .repeats = RLX_INTS(2, 1)),
			.shape = RLX_INTS(2, 4, 8)))));
	CHECKF(!rlx_graph_finish(g[1]), "%s", rlx_graph_error(g[1])->text);
	CHECK(rlx_oom_sweep(evaluate_all, g) > 10);
	rlx_graph_put(g[1]);
	rlx_graph_put(g[0]);
}

TEST_MAIN()
