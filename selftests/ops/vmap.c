// SPDX-License-Identifier: MIT
/*
 * rlx_vmap() against a loop of single runs in f64: every sample of every op with one input
 * mapped, and with all; gradients of instances, gradients of what is mapped, twice mapped; what is
 * refused.
 */
#include "ir/element.h"
#include "ir/eval.h"
#include "ir/graph.h"
#include "rlx/grad.h"
#include "rlx/train.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

enum { N = 3, MOST = 2 * RLX_SAMPLE_IN };

/* Ops no form of which is mapped: control flow, random draws, sizes and orders that are data. */
static const char refused[] = " dynamic_quantize gru if lstm nms nms_count nonzero rng rnn "
			      "roi_align sample scan splat_blend splat_blend_grad "
			      "splat_render unique unique_count while ";

static unsigned int compared;

static struct rlx_tensor tensor_new(struct rlx_type t)
{
	struct rlx_tensor x = { t, NULL };

	CHECK(!posix_memalign(&x.data, 64, (size_t)rlx_type_bytes(&t) + 64));
	memset(x.data, 0xa5, (size_t)rlx_type_bytes(&t) + 64);
	return x;
}

/* Evaluate @g; @out is allocated here. */
static enum rlx_status eval(struct rlx_graph *g, const struct rlx_tensor *in,
			    struct rlx_tensor *out, struct rlx_error *err)
{
	unsigned int n = rlx_graph_io_count(g, RLX_IO_OUTPUT), i;

	for (i = 0; i < n; i++)
		out[i] = tensor_new(*rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_OUTPUT, i)));
	return rlx_graph_eval(g, in, out, err);
}

/* What is compared: sample @i of an op with the inputs of @mask mapped. */
struct trial {
	const char	*op;
	unsigned int	 i;
	uint32_t	 mask;
	double		 tol;
};

/* Entry @j of @all against @one, up to rounding. */
static void compare(const struct trial *t, const struct rlx_tensor *all, int64_t j,
		    const struct rlx_tensor *one)
{
	int64_t n = rlx_type_count(&one->type), k;
	double most = 1, got, want;

	CHECKF(rlx_type_count(&all->type) == N * n && all->type.dtype == one->type.dtype,
	       "%s: sample %u: type", t->op, t->i);
	for (k = 0; k < n; k++)
		most = isfinite(el_get(one, k)) ? fmax(most, fabs(el_get(one, k))) : most;
	for (k = 0; k < n; k++) {
		got = el_get(all, j * n + k);
		want = el_get(one, k);
		if (isnan(got) && isnan(want))
			continue;
		WANT(got == want || fabs(got - want) <= t->tol * most,
		     "%s: sample %u, inputs %x mapped, instance %lld: element %lld is %.17g, not "
		     "%.17g", t->op, t->i, t->mask, (long long)j, (long long)k, got, want);
		if (got != want && !(fabs(got - want) <= t->tol * most))
			return;
	}
	compared++;
}

/* @c[0] with the inputs of @mask mapped; its outputs are those of all. NULL: refused. */
static struct rlx_graph *mapped_graph(const struct op_case *c, uint32_t mask,
				      struct rlx_error *err)
{
	struct rlx_graph *g = rlx_graph_new("mapped");
	rlx_value over[RLX_SAMPLE_IN], with[RLX_SAMPLE_IN], of[RLX_MAX_OUT], v;
	uint32_t in[RLX_SAMPLE_IN] = { 0 }, k, n = 0, n_out;

	for (k = 0; k < c->s.n_in; k++)
		if (c->s.in[k].dtype)
			in[k] = rlx_input(g, rlx_name("x%u", k), c->s.in[k]).id;
	for (k = 0; k < c->s.n_in; k++) {
		struct rlx_type t = c->s.in[k];

		if (!t.dtype || !(mask >> k & 1))
			continue;
		memmove(t.dim + 1, t.dim, (RLX_MAX_RANK - 1) * sizeof(t.dim[0]));
		t.dim[0] = N;
		t.rank++;
		over[n] = (rlx_value){ in[k] };
		with[n++] = rlx_input(g, rlx_name("X%u", k), t);
	}
	k = c->s.n_in > c->def->n_fixed ? c->s.n_in : c->def->n_fixed;
	v = rlx_node_new(g, c->def, c->args, in, k, NULL);
	CHECKF(v.id, "%s", rlx_graph_error(g)->text);
	n_out = rlx_node_of(g, v.id)->n_out;
	for (k = 0; k < n_out; k++)
		of[k] = (rlx_value){ v.id + k };
	rlx_vmap(g, &(struct rlx_vmap){ .size = sizeof(struct rlx_vmap), .of = { of, n_out },
					.over = { over, n }, .with = { with, n } }, of);
	for (k = 0; k < n_out; k++)
		rlx_output(g, rlx_name("y%u", k), of[k]);
	if (!rlx_graph_finish(g))
		return g;
	*err = *rlx_graph_error(g);
	rlx_graph_put(g);
	return NULL;
}

/* Up to rounding in f64, or to what the sample says where it has other floats. */
static double tolerance(const struct op_case *c)
{
	uint32_t k;

	for (k = 0; k < c->s.n_in; k++)
		if (rlx_dtype_is_float(c->s.in[k].dtype) && c->s.in[k].dtype != RLX_F64)
			return fmax(c->s.tol, 1e-6);
	return 1e-9;
}

/* One sample, instances of which differ in the inputs of @mask. False: refused. */
static bool check_mask(struct op_case c[N], unsigned int i, uint32_t mask)
{
	struct rlx_tensor in[MOST], all[RLX_MAX_OUT], one[RLX_MAX_OUT], x;
	struct trial t = { c->def->name, i, mask, tolerance(c) };
	struct rlx_error err = { 0 };
	struct rlx_graph *g = mapped_graph(&c[0], mask, &err), *single = op_case_graph(&c[0]);
	unsigned int n_out = rlx_graph_io_count(single, RLX_IO_OUTPUT), k, n = 0, j;
	int64_t bytes;

	if (!g) {
		WANT(err.status == RLX_ENOSUP || strstr(err.text, "rank over") ||
		     strstr(err.text, "rank is over"), "%s: sample %u, inputs %x mapped: %s",
		     c->def->name, i, mask, err.text);
		rlx_graph_put(single);
		return false;
	}
	for (k = 0; k < c->s.n_in; k++)
		if (c->data[k])
			in[n++] = (struct rlx_tensor){ c->s.in[k], c->data[k] };
	for (k = 0; k < c->s.n_in; k++) {
		if (!c->data[k] || !(mask >> k & 1))
			continue;
		x = tensor_new(*rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_INPUT, n)));
		bytes = rlx_type_bytes(&c->s.in[k]);
		for (j = 0; j < N; j++)
			memcpy((char *)x.data + j * bytes, c[j].data[k], (size_t)bytes);
		in[n++] = x;
	}
	CHECKF(!eval(g, in, all, &err), "%s: sample %u: %s", c->def->name, i, err.text);
	while (n-- && in[n].type.rank && rlx_graph_io_name(g, RLX_IO_INPUT, n)[0] == 'X')
		free(in[n].data);
	for (j = 0; j < N; j++) {
		for (k = 0, n = 0; k < c->s.n_in; k++)
			if (c->data[k])
				in[n++] = (struct rlx_tensor){ c->s.in[k],
					c[mask >> k & 1 ? j : 0].data[k] };
		CHECKF(!eval(single, in, one, &err), "%s: %s", c->def->name, err.text);
		for (k = 0; k < n_out; k++) {
			compare(&t, &all[k], j, &one[k]);
			free(one[k].data);
		}
	}
	for (k = 0; k < n_out; k++)
		free(all[k].data);
	rlx_graph_put(single);
	rlx_graph_put(g);
	return true;
}

static bool has_room(const struct op_case *c, uint32_t mask)
{
	uint32_t k;

	for (k = 0; k < c->s.n_in; k++)
		if (mask >> k & 1 && c->s.in[k].rank == RLX_MAX_RANK)
			return false;
	return true;
}

/* All samples of an op. False: it has some, and each form of each was refused. */
static bool check_op(const struct rlx_op_def *def, uint64_t *seed)
{
	struct op_case c[N];
	unsigned int i, j, k;
	bool any = false, some = false;
	uint32_t given;

	for (i = 0; op_case_init(&c[0], def, i, RLX_F64, seed); i++) {
		bool f32 = c->s.f32_only;

		for (j = f32 ? 0 : 1; j < N; j++) {
			if (!j)
				op_case_fini(&c[0]);
			CHECK(op_case_init(&c[j], def, i, f32 ? RLX_F32 : RLX_F64, seed));
		}
		for (given = 0, k = 0; k < c->s.n_in; k++)
			given |= c->data[k] ? 1u << k : 0;
		some |= given != 0;
		for (k = 0; k < c->s.n_in; k++)
			if (given >> k & 1 && has_room(c, 1u << k))
				any |= check_mask(c, i, 1u << k);
		if ((given & (given - 1)) && has_room(c, given))
			any |= check_mask(c, i, given);
		for (j = 0; j < N; j++)
			op_case_fini(&c[j]);
	}
	return any || !some;
}

TEST(every_op)
{
	uint64_t seed = rlx_test_seed();
	char name[64];
	unsigned int i;

	for (i = 0; i < rlx_op_count; i++) {
		const struct rlx_op_def *def = rlx_op_defs[i];
		bool ok = check_op(def, &seed);

		snprintf(name, sizeof(name), " %s ", def->name);
		WANT(ok == !strstr(refused, name), "%s is %s", def->name,
		     ok ? "mapped" : "refused");
	}
	CHECK(compared > 1000);
	CHECK_EQ(op_case_failures, 0);
}

/* A small net's loss of one example: x[4], weight [4, 3]. */
static rlx_value loss(struct rlx_graph *g, rlx_value x, rlx_value w)
{
	rlx_value y = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(1, 4));

	y = rlx_emit(g, tanh, .x = rlx_emit(g, matmul, .a = y, .b = w));
	y = rlx_emit(g, log_softmax, .x = y, .axis = 1);
	return rlx_emit(g, reduce, .x = rlx_emit(g, mul, .a = y, .b = y));
}

static rlx_value vmap(struct rlx_graph *g, rlx_value of, rlx_value over, rlx_value with)
{
	rlx_value y = RLX_NONE;

	rlx_vmap(g, &(struct rlx_vmap){ .size = sizeof(struct rlx_vmap), .of = { &of, 1 },
					.over = { &over, 1 }, .with = { &with, 1 } }, &y);
	return y;
}

static rlx_value vjp(struct rlx_graph *g, rlx_value of, rlx_value wrt)
{
	rlx_value d = RLX_NONE;

	rlx_vjp(g, &(struct rlx_ad){ .size = sizeof(struct rlx_ad), .of = { &of, 1 },
				     .wrt = { &wrt, 1 } }, &d);
	return d;
}

/*
 * Gradients of each example by the weight, which vmap of vjp gives, add up to that of the sum of
 * the mapped losses, which is vjp of vmap; and each is what a single run gives. Mapped once more
 * over weights it is the same for each weight.
 */
TEST(composes)
{
	struct rlx_graph *g = rlx_graph_new("each"), *one = rlx_graph_new("one");
	struct rlx_type wt = rlx_type(RLX_F64, 4, 3);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, 4)), w = rlx_input(g, "w", wt);
	rlx_value xs = rlx_input(g, "xs", rlx_type(RLX_F64, N, 4)), y, each, total;
	rlx_value ws = rlx_input(g, "ws", rlx_type(RLX_F64, 2, 4, 3));
	struct rlx_tensor in[4], out[4], single;
	struct rlx_error err = { 0 };
	uint64_t seed = rlx_test_seed();
	int64_t i, j, k;
	double sum;

	y = loss(g, x, w);
	each = vmap(g, vjp(g, y, w), x, xs);
	total = rlx_emit(g, reduce, .x = vmap(g, y, x, xs));
	rlx_output(g, "each", each);
	rlx_output(g, "all", vjp(g, total, w));
	rlx_output(g, "twice", vmap(g, each, w, ws));
	rlx_output(g, "same", vmap(g, x, w, ws));	/* w does not go into it */
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	for (k = 0; k < 4; k++) {
		in[k] = tensor_new(*rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_INPUT,
								      (unsigned int)k)));
		for (i = 0; i < rlx_type_count(&in[k].type); i++)
			el_set(&in[k], i, rlx_test_uniform(&seed, -1, 1));
	}
	CHECKF(!eval(g, in, out, &err), "%s", err.text);
	x = rlx_input(one, "x", rlx_type(RLX_F64, 4));
	w = rlx_input(one, "w", wt);
	rlx_output(one, "d", vjp(one, loss(one, x, w), w));
	CHECK(!rlx_graph_finish(one));
	for (j = 0; j < 2 * N; j++) {
		struct rlx_tensor of[2] = {
			{ in[0].type, (double *)in[2].data + j % N * 4 },
			{ wt, (double *)in[3].data + j / N * 12 } };

		CHECK(!eval(one, of, &single, &err));
		for (i = 0; i < 12; i++)
			CHECK(fabs(el_get(&single, i) - el_get(&out[2], j * 12 + i)) < 1e-12);
		free(single.data);
	}
	for (i = 0; i < 12; i++) {
		for (sum = 0, j = 0; j < N; j++)
			sum += el_get(&out[0], j * 12 + i);
		CHECK(fabs(sum - el_get(&out[1], i)) < 1e-12);
	}
	for (i = 0; i < 8; i++)
		CHECK(el_get(&out[3], i) == el_get(&in[0], i % 4));
	for (k = 0; k < 4; k++) {
		free(in[k].data);
		free(out[k].data);
	}
	rlx_graph_put(one);
	rlx_graph_put(g);
}

static void want_error(rlx_value (*make)(struct rlx_graph *g, rlx_value x, rlx_value xs),
		       enum rlx_status st, const char *text)
{
	struct rlx_graph *g = rlx_graph_new("wrong");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, 4));
	rlx_value y = make(g, x, rlx_input(g, "xs", rlx_type(RLX_F64, N, 4)));

	CHECKF(!y.id && rlx_graph_error(g)->status == st &&
	       strstr(rlx_graph_error(g)->text, text), "%s", rlx_graph_error(g)->text);
	rlx_graph_put(g);
}

static rlx_value draws(struct rlx_graph *g, rlx_value x, rlx_value xs)
{
	rlx_value y = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(1, 4));

	y = rlx_emit(g, sample, .logits = y);
	return vmap(g, y, x, xs);
}

static rlx_value of_other_shape(struct rlx_graph *g, rlx_value x, rlx_value xs)
{
	return vmap(g, rlx_emit(g, exp, .x = x), xs, x);
}

static rlx_value foreign(struct rlx_graph *g, rlx_value x, rlx_value xs)
{
	return vmap(g, (rlx_value){ 77 }, x, xs);
}

static rlx_value over_nothing(struct rlx_graph *g, rlx_value x, rlx_value xs)
{
	rlx_value y = x;

	(void)xs;
	rlx_vmap(g, &(struct rlx_vmap){ .size = sizeof(struct rlx_vmap), .of = { &x, 1 } }, &y);
	return y;
}

static rlx_value without_args(struct rlx_graph *g, rlx_value x, rlx_value xs)
{
	(void)x;
	(void)xs;
	rlx_vmap(g, NULL, NULL);
	return RLX_NONE;
}

static enum rlx_status build(void *ctx)
{
	struct rlx_graph *g = rlx_graph_new("oom");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, 4));
	rlx_value w = rlx_input(g, "w", rlx_type(RLX_F64, 4, 3)), y;
	enum rlx_status st;

	(void)ctx;
	y = vmap(g, vjp(g, loss(g, x, w), w), x, rlx_input(g, "xs", rlx_type(RLX_F64, N, 4)));
	rlx_output(g, "y", y);
	st = g ? rlx_graph_finish(g) : RLX_ENOMEM;
	rlx_graph_put(g);
	return st;
}

TEST(out_of_memory)
{
	CHECK(rlx_oom_sweep(build, NULL) > 50);
}

TEST(refusals)
{
	want_error(draws, RLX_ENOSUP, "sample has no batching rule");
	want_error(of_other_shape, RLX_ESHAPE, "a batch axis in front");
	want_error(foreign, RLX_EINVAL, "value 77 (of 0)");
	want_error(over_nothing, RLX_EINVAL, "0 values of list 'with'");
	want_error(without_args, RLX_EINVAL, "no arguments");
	rlx_vmap(NULL, NULL, NULL);
}

TEST_MAIN()
