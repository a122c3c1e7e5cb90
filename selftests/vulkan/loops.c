// SPDX-License-Identifier: MIT
/*
 * Long loops. Mesa's llvmpipe ends all loops of a thread once they took 65535 turns together,
 * and what they had not come to is missing from the result. Kernels whose loops grow with
 * their operands, at the largest size that has the kernel and at the next, which the host or
 * other kernels do: what the last turn adds is most of the result. Devices that end no loop
 * early run all sizes alike.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/conv.h"
#include "selftests/vulkan/line.h"

enum { FEW = 64, MOST = 1 << 20 };	/* what every device has; what is looked at */

/* A graph of inputs a and b over a loop of so many turns, or a part of it. */
typedef rlx_value build_fn(struct rlx_graph *g, int64_t n);

struct form {
	const char	*name;
	build_fn	*build;
	int64_t		 a, b;		/* elements from one turn's to the next one's */
};

#define A(...)	rlx_input(g, "a", rlx_type(RLX_F32, __VA_ARGS__))
#define B(...)	rlx_input(g, "b", rlx_type(RLX_F32, __VA_ARGS__))
#define LIST(...)	{ (const int64_t[]){ __VA_ARGS__ }, sizeof((int64_t[]){ __VA_ARGS__ }) / 8 }
#define FORM(name, ...)							\
	static rlx_value build_##name(struct rlx_graph *g, int64_t n) { return __VA_ARGS__; }

FORM(sum, rlx_emit(g, reduce, .x = A(n, 3), .axes = LIST(0)))
FORM(sum_shared, rlx_emit(g, reduce, .x = A(3, n), .axes = LIST(1)))
FORM(sum_parts, rlx_emit(g, reduce, .x = A(4, n, 3), .axes = LIST(0, 1)))
FORM(arg_reduce, rlx_emit(g, arg_reduce, .x = A(n, 3), .axis = 0))
FORM(cumsum, rlx_emit(g, cumsum, .x = A(n, 3), .axis = 0))
FORM(softmax, rlx_emit(g, softmax, .x = A(n, 3), .axis = 0))
FORM(softmax_shared, rlx_emit(g, softmax, .x = A(3, n), .axis = 1))
FORM(layer_norm, rlx_emit(g, layer_norm, .x = A(3, n), .axis = -1, .eps = 1e-5f))
FORM(group_norm, rlx_emit(g, group_norm, .x = A(1, 4, n), .groups = 2, .eps = 1e-5f))
FORM(channels, rlx_emit(g, group_norm, .x = A(1, n, 3), .groups = 1, .eps = 1e-5f))
FORM(topk, rlx_emit(g, topk, .x = A(3, n), .k = 50, .axis = -1))
FORM(sort, rlx_emit(g, sort, .x = A(3, n), .axis = -1))
FORM(matmul, rlx_emit(g, matmul, .a = A(3, n), .b = B(n, 5)))
FORM(matmul_ints, rlx_emit(g, matmul, .a = rlx_emit(g, cast, .x = A(3, n), .to = RLX_I32),
			   .b = rlx_emit(g, cast, .x = B(n, 5), .to = RLX_I32)))
FORM(conv, rlx_emit(g, conv, .x = A(1, n, 4), .w = B(2, n, 2)))
FORM(conv_taps, rlx_emit(g, conv, .x = A(1, 2, 2, n), .w = B(1, 2, 2, n)))
FORM(pool, rlx_emit(g, pool, .x = A(1, 1, n), .kernel = LIST(n)))
FORM(pool_norm, rlx_emit(g, pool, .x = A(1, 1, 2, n), .kind = 2, .p = 2, .kernel = LIST(2, n)))
FORM(gather, rlx_emit(g, gather, .x = A(3, n),
		      .indices = rlx_emit(g, iota, .type = rlx_type(RLX_I64, 3))))
FORM(scatter, rlx_emit(g, scatter_elements, .x = A(n, 3), .axis = 0, .reduction = 1,
		       .indices = rlx_emit(g, iota, .type = rlx_type(RLX_I64, n, 3)),
		       .updates = B(n, 3)))

static rlx_value build_attention(struct rlx_graph *g, int64_t n)
{
	rlx_value k = B(1, n, 64);

	return rlx_emit(g, attention, .q = A(1, 2, 64), .k = k, .v = k, .heads = 1);
}

static const struct form forms[] = {
	{ "sum", build_sum, 3 }, { "sum_shared", build_sum_shared, 1 },
	{ "sum_parts", build_sum_parts, 3 },
	{ "arg_reduce", build_arg_reduce, 3 }, { "cumsum", build_cumsum, 3 },
	{ "softmax", build_softmax, 3 }, { "softmax_shared", build_softmax_shared, 1 },
	{ "layer_norm", build_layer_norm, 1 }, { "group_norm", build_group_norm, 1 },
	{ "channels", build_channels, 3 }, { "topk", build_topk, 1 }, { "sort", build_sort, 1 },
	{ "matmul", build_matmul, 1, 5 }, { "matmul_ints", build_matmul_ints, 1, 5 },
	{ "conv", build_conv, 4, 2 }, { "conv_taps", build_conv_taps, 1, 1 },
	{ "pool", build_pool, 1 }, { "pool_norm", build_pool_norm, 1 },
	{ "attention", build_attention, 64, 64 }, { "gather", build_gather, 1 },
	{ "scatter", build_scatter, 3, 3 },
};

static struct rlx_program *compile(const struct form *f, int64_t n, const char *device)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device };
	struct rlx_graph *g = rlx_graph_new(f->name);
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;
	rlx_value y = f->build(g, n);

	rlx_output(g, "y", rlx_emit(g, cast, .x = y, .to = RLX_F32));
	CHECKF(!rlx_graph_finish(g), "%s: %s", f->name, rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s of %lld: %s", f->name, (long long)n, err.text);
	rlx_graph_put(g);
	return p;
}

/* Small numbers, but for what the last turn reads; @apart as in struct form. */
static void set(struct rlx_session *s, const char *name, int64_t n, int64_t apart)
{
	const struct rlx_plan *p = s->p->plan;
	uint64_t seed = 7;
	uint32_t i;
	int64_t k;

	for (i = 0; i < p->n_io[RLX_IO_INPUT]; i++) {
		const struct rlx_type *t = &p->val[p->io[RLX_IO_INPUT][i].val].type;
		float *v;

		if (strcmp(p->io[RLX_IO_INPUT][i].name, name))
			continue;
		v = malloc((size_t)rlx_type_count(t) * sizeof(*v));
		CHECK(v);
		for (k = 0; k < rlx_type_count(t); k++)
			v[k] = k / apart % n == n - 1 ? 64 :
			       (float)(rlx_test_rand(&seed) % 1024) / (1 << 20);
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, name, *t, v), RLX_OK);
		free(v);
	}
}

/* @f's result, to be freed */
static float *result(const struct form *f, int64_t n, const char *device, int64_t *count)
{
	struct rlx_program *p = compile(f, n, device);
	const struct rlx_plan *plan = p->plan;
	const struct rlx_type *t = &plan->val[plan->io[RLX_IO_OUTPUT][0].val].type;
	struct rlx_session *s = session(p);
	float *y;

	*count = rlx_type_count(t);
	y = malloc((size_t)*count * sizeof(*y));
	CHECK(y);
	set(s, "a", n, f->a);
	set(s, "b", n, f->b);
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", *t, y), RLX_OK);
	rlx_session_free(s);
	rlx_program_put(p);
	return y;
}

static void check(const struct form *f, int64_t n)
{
	int64_t count, i;
	float *got = result(f, n, "vulkan", &count), *want = result(f, n, "cpu", &count);
	double top = 0;

	for (i = 0; i < count; i++)
		top = fmax(top, fabs(want[i]));
	for (i = 0; i < count; i++)
		CHECKF(fabs(got[i] - want[i]) <= 1e-2 * top,
		       "%s of %lld: element %lld is %g, not %g", f->name, (long long)n,
		       (long long)i, got[i], want[i]);
	free(got);
	free(want);
}

/* Steps by kernels: others where one became several, as well as where the host has one */
static uint32_t native(const struct form *f, int64_t n)
{
	struct rlx_program *p = compile(f, n, "vulkan");
	uint32_t steps = p->code->native;

	rlx_program_put(p);
	return steps;
}

static void ignore(void *ctx, enum rlx_log_level level, const char *text)
{
	(void)ctx;
	(void)level;
	(void)text;
}

TEST(at_the_limit)
{
	const bool ends = vk_driver_get(NULL) &&
			  vk_driver_get(NULL)->device[0].most_turns < UINT64_MAX;
	int64_t n, step;
	size_t k;

	rlx_log_set(ignore, NULL);	/* that the host is slow */
	for (k = 0; k < sizeof(forms) / sizeof(forms[0]); k++) {
		for (n = FEW, step = MOST; step; step /= 2)
			if (ends && n + step <= MOST &&
			    native(&forms[k], n + step) == native(&forms[k], FEW))
				n += step;
		printf("# %s: %lld\n", forms[k].name, (long long)n);
		check(&forms[k], ends ? n : 1 << 16);
		check(&forms[k], n + 1);
	}
	rlx_log_set(NULL, NULL);
}

/* A dilation that is -1 as 32 bits, and of which a product wraps as 64 */
TEST(long_dimensions_are_refused)
{
	struct rlx_k_conv_nd a = {
		.n = 1, .ic = 1, .oc = 1, .groups = 1, .type = RLX_F32, .in = { 1, 1, 2 },
		.out = { 1, 1, 1 }, .k = { 1, 1, 2 }, .s = { 1, 1, 1 }, .d = { 1, 1, 1 },
	};
	struct vk_launch l = { .can = true, .subgroup = 8 };

	vk_launch_of(RLX_KERNEL_conv_nd)(&a, &l);
	CHECKF(l.can, "%s", l.why);
	a.d[2] = INT64_MAX;
	vk_launch_of(RLX_KERNEL_conv_nd)(&a, &l);
	CHECK(!l.can && strstr(l.why, "so long dimensions"));
}

TEST_MAIN()
