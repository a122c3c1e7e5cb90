// SPDX-License-Identifier: MIT
/*
 * Convolutions with strict bits on a GPU: drawn shapes, plain and in the CPU's blocks, alone and
 * one behind the other, have the bits that the CPU gives, and so have images alone.
 */
#include <inttypes.h>

#include "ir/graph.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/strict_bits.h"

/* A convolution as it is drawn, and what stands behind it. */
struct shape {
	uint32_t nd;
	int64_t	n, ic, oc, groups, in[3], k[3], s[3], d[3], p[6];
	bool	transposed, fixed, bias, residual, twice;
	int	act;		/* 0: none, 1: relu, 2: hard_swish, 3: silu, 4: gelu */
	uint64_t seed;
};

struct net {
	struct rlx_graph *g;
	void		*in[8];
	uint32_t	n_in;
};

static rlx_value leaf(struct net *n, const struct rlx_type *t, bool fixed, uint64_t seed)
{
	float *x = strict_numbers(t, seed, true);
	char name[8];
	rlx_value v;

	if (fixed) {
		v = rlx_constant(n->g, *t, x);
		free(x);
		return v;
	}
	snprintf(name, sizeof(name), "i%u", n->n_in);
	n->in[n->n_in++] = x;
	return rlx_input(n->g, name, *t);
}

static rlx_value acted(struct net *n, rlx_value y, int act)
{
	if (act == 1)
		return rlx_emit(n->g, relu, .x = y);
	if (act == 2)
		return rlx_emit(n->g, hard_swish, .x = y);
	if (act == 3)
		return rlx_emit(n->g, silu, .x = y);
	if (act == 4)
		return rlx_emit(n->g, gelu, .x = y);
	return y;
}

static struct rlx_type typed(uint32_t nd, int64_t a, int64_t b, const int64_t *dim)
{
	struct rlx_type t = { RLX_F32, nd + 2, { a, b } };

	memcpy(t.dim + 2, dim, nd * sizeof(*dim));
	return t;
}

static rlx_value conv(struct net *n, const struct shape *s, rlx_value x, rlx_value w, rlx_value b)
{
	const struct rlx_ints stride = { s->s, s->nd }, dilation = { s->d, s->nd };
	const struct rlx_ints pad = { s->p, 2 * s->nd };

	if (s->transposed)
		return rlx_emit(n->g, conv_transpose, .x = x, .w = w, .bias = b, .stride = stride,
				.dilation = dilation, .pad = pad, .groups = s->groups);
	return rlx_emit(n->g, conv, .x = x, .w = w, .bias = b, .stride = stride,
			.dilation = dilation, .pad = pad, .groups = s->groups);
}

static struct net net_of(const struct shape *s)
{
	const int64_t icg = s->ic / s->groups, ocg = s->oc / s->groups, one[3] = { 1, 1, 1 };
	struct net n = { .g = rlx_graph_new("conv") };
	struct rlx_type x = typed(s->nd, s->n, s->ic, s->in), bias = { RLX_F32, 1, { s->oc } };
	struct rlx_type w = s->transposed ? typed(s->nd, s->ic, ocg, s->k) :
					    typed(s->nd, s->oc, icg, s->k);
	rlx_value v[3], y;

	v[0] = leaf(&n, &x, false, s->seed);
	v[1] = leaf(&n, &w, s->fixed, s->seed + 1);
	v[2] = s->bias ? leaf(&n, &bias, s->fixed, s->seed + 2) : RLX_NONE;
	y = conv(&n, s, v[0], v[1], v[2]);
	if (s->residual && y.id) {
		struct rlx_type t = n.g->val[y.id].type;

		y = rlx_emit(n.g, add, .a = y, .b = leaf(&n, &t, false, s->seed + 3));
	}
	y = acted(&n, y, s->act);
	if (s->twice) {
		struct rlx_type u = typed(s->nd, 24, s->oc, one);

		y = rlx_emit(n.g, conv, .x = y, .w = leaf(&n, &u, true, s->seed + 4));
	}
	rlx_output(n.g, "y", y);
	CHECKF(!rlx_graph_finish(n.g), "%s", rlx_graph_error(n.g)->text);
	return n;
}

static void print(const struct shape *s)
{
	printf("# %ux: n %" PRId64 " ic %" PRId64 " oc %" PRId64 " groups %" PRId64 "%s%s%s%s%s "
	       "act %d seed %" PRIu64 ":", s->nd, s->n, s->ic, s->oc, s->groups,
	       s->transposed ? " transposed" : "", s->fixed ? " fixed" : "",
	       s->bias ? " bias" : "", s->residual ? " residual" : "", s->twice ? " twice" : "",
	       s->act, s->seed);
	for (uint32_t i = 0; i < s->nd; i++)
		printf(" in %" PRId64 " k %" PRId64 " s %" PRId64 " d %" PRId64 " p %" PRId64 "+%"
		       PRId64, s->in[i], s->k[i], s->s[i], s->d[i], s->p[i], s->p[s->nd + i]);
	printf("\n");
}

static bool agrees(const struct shape *s)
{
	const struct way cpu = { .threads = 1 }, gpu = { .device = op_case_gpu() };
	struct net n = net_of(s);
	struct outputs a, b;
	bool right;

	run(n.g, n.in, &cpu, 0, &a);
	run(n.g, n.in, &gpu, 0, &b);
	right = !a.status && !b.status && same(&a, &b);
	if (!right) {
		print(s);
		printf("# %s%s\n", a.why, b.why);
	}
	outputs_free(&a);
	outputs_free(&b);
	for (uint32_t k = 0; k < n.n_in; k++)
		free(n.in[k]);
	rlx_graph_put(n.g);
	return right;
}

static int64_t among(uint64_t *s, int64_t least, int64_t most)
{
	return least + (int64_t)(rlx_test_rand(s) % (uint64_t)(most - least + 1));
}

static struct shape drawn(uint64_t seed)
{
	static const int64_t ics[] = { 1, 3, 7, 8, 16, 20, 32, 70 };
	uint64_t s = seed, bits = rlx_test_rand(&s);
	struct shape c = {
		.nd = bits % 8 == 0 ? 3 : bits % 8 == 1 ? 1 : 2, .n = among(&s, 1, 2),
		.groups = 1, .transposed = bits & 8 && bits & 16, .fixed = bits & 32 || bits & 64,
		.bias = bits & 128, .residual = bits & 256 && bits & 512,
		.act = (int)((bits >> 10) % 5),
		.twice = bits & 4096, .seed = seed,
	};
	uint32_t i;

	c.ic = ics[rlx_test_rand(&s) % 8];
	c.oc = ics[rlx_test_rand(&s) % 8];
	if (bits & 8192 && bits & 16384) {
		c.oc = c.ic;
		c.groups = bits & 32768 && c.ic % 2 == 0 ? 2 : c.ic;
	}
	for (i = 0; i < c.nd; i++) {
		c.k[i] = among(&s, 1, c.nd == 3 ? 2 : 4);
		c.s[i] = among(&s, 1, 2);
		c.d[i] = among(&s, 1, 2);
		c.in[i] = among(&s, (c.k[i] - 1) * c.d[i] + 1, c.nd == 3 ? 6 : 12);
		c.p[i] = among(&s, 0, c.transposed ? 0 : c.k[i] - 1);
		c.p[c.nd + i] = among(&s, 0, c.transposed ? 0 : c.k[i] - 1);
	}
	return c;
}

TEST(convolutions_that_are_drawn)
{
	uint64_t seed = rlx_test_seed();
	unsigned int wrong = 0, n = 0;

	for (; n < 60 && wrong < 3; n++) {
		const struct shape s = drawn(rlx_test_rand(&seed));

		wrong += !agrees(&s);
	}
	CHECKF(!wrong, "%u of %u", wrong, n);
}

/* What the CPU does by planes of tiles: both sizes, several passes, infinite weights and inputs. */
TEST(winograds_filtering)
{
	static const int64_t channels[] = { 16, 24, 33, 70, 150 };
	uint64_t seed = rlx_test_seed(), s;
	unsigned int wrong = 0, n = 0;

	for (; n < 14 && wrong < 3; n++) {
		struct shape c = { .nd = 2, .groups = 1, .fixed = true, .bias = n & 1,
				   .twice = n & 2, .residual = n & 4, .act = n & 8 ? 1 : 0,
				   .seed = n % 3 ? rlx_test_rand(&seed) : 7 * (seed >> 16) };

		s = c.seed;
		c.n = among(&s, 1, 3);
		c.ic = n == 6 ? 1160 : channels[rlx_test_rand(&s) % 5];
		c.oc = n == 6 ? 16 : channels[rlx_test_rand(&s) % 5];
		for (int i = 0; i < 2; i++) {
			c.k[i] = 3;
			c.s[i] = c.d[i] = 1;
			c.in[i] = n == 6 ? 13 : among(&s, 4, n & 1 ? 6 : 17);
			c.p[i] = c.p[2 + i] = among(&s, 0, 1);
		}
		wrong += !agrees(&c);
	}
	CHECKF(!wrong, "%u of %u", wrong, n);
}

/* A pool, maybe of what a convolution gives in blocks of channels. */
static struct net pool_of(const struct shape *s, int kind, bool include_pad)
{
	const int64_t one[3] = { 1, 1, 1 };
	struct net n = { .g = rlx_graph_new("pool") };
	struct rlx_type x = typed(s->nd, s->n, s->ic, s->in), w = typed(s->nd, s->oc, s->ic, one);
	rlx_value v = leaf(&n, &x, false, s->seed);

	if (s->twice)
		v = rlx_emit(n.g, conv, .x = v, .w = leaf(&n, &w, true, s->seed + 1));
	v = rlx_emit(n.g, pool, .x = v, .kind = kind, .include_pad = include_pad,
		     .kernel = { s->k, s->nd }, .stride = { s->s, s->nd },
		     .dilation = { s->d, s->nd }, .pad = { s->p, 2 * s->nd });
	if (s->twice) {
		struct rlx_type u = typed(s->nd, 24, s->oc, one);

		v = rlx_emit(n.g, conv, .x = v, .w = leaf(&n, &u, true, s->seed + 4));
	}
	rlx_output(n.g, "y", v);
	CHECKF(!rlx_graph_finish(n.g), "%s", rlx_graph_error(n.g)->text);
	return n;
}

TEST(pools_that_are_drawn)
{
	const struct way cpu = { .threads = 1 }, gpu = { .device = op_case_gpu() };
	uint64_t seed = rlx_test_seed();
	unsigned int n;

	for (n = 0; n < 24; n++) {
		struct shape s = drawn(rlx_test_rand(&seed));
		struct outputs a, b;
		struct net net;

		for (uint32_t i = 0; i < 2 * s.nd; i++)
			s.p[i] %= s.k[i % s.nd];
		net = pool_of(&s, n & 1 ? RLX_POOL_MAX : RLX_POOL_AVG, n & 2);
		run(net.g, net.in, &cpu, 0, &a);
		run(net.g, net.in, &gpu, 0, &b);
		if (a.status || b.status || !same(&a, &b))
			print(&s);
		CHECKF(!a.status && !b.status && same(&a, &b), "pool %u: %s%s", n, a.why, b.why);
		outputs_free(&a);
		outputs_free(&b);
		for (uint32_t k = 0; k < net.n_in; k++)
			free(net.in[k]);
		rlx_graph_put(net.g);
	}
}

static rlx_value layer(struct net *n, rlx_value x, int64_t in, int64_t out, int64_t k, int64_t s)
{
	const int64_t kernel[2] = { k, k };
	const struct rlx_type w = typed(2, out, in, kernel), b = { RLX_F32, 1, { out } };
	const struct shape c = { .nd = 2, .groups = 1, .s = { s, s }, .d = { 1, 1 },
				 .p = { k / 2, k / 2, k / 2, k / 2 } };

	return conv(n, &c, x, leaf(n, &w, true, 3 * (uint64_t)(in + k)),
		    leaf(n, &b, true, 5 * (uint64_t)out));
}

/* Images of a residual network alone and among others give what the CPU gives. */
TEST(a_residual_network)
{
	const struct way cpu = { .threads = 1 }, gpu = { .device = op_case_gpu() };
	const int64_t side[2] = { 33, 29 };
	struct outputs all = { 0 }, one;

	for (int64_t images = 3; images > 0; images -= 2) {
		struct net n = { .g = rlx_graph_new("residual") };
		struct rlx_type x = typed(2, images, 3, side), w = { RLX_F32, 2, { 40, 11 } };
		struct outputs *o = images > 1 ? &all : &one, on_cpu;
		rlx_value v = leaf(&n, &x, false, 100), u;

		v = rlx_emit(n.g, relu, .x = layer(&n, v, 3, 40, 7, 2));
		v = rlx_emit(n.g, pool, .x = v, .kind = RLX_POOL_MAX, .kernel = RLX_INTS(3, 3),
			     .stride = RLX_INTS(2, 2), .pad = RLX_INTS(1, 1, 1, 1));
		u = rlx_emit(n.g, silu, .x = layer(&n, v, 40, 40, 3, 1));
		u = layer(&n, u, 40, 40, 1, 1);
		v = rlx_emit(n.g, relu, .x = rlx_emit(n.g, add, .a = v, .b = u));
		v = rlx_emit(n.g, reduce, .x = v, .axes = RLX_INTS(2, 3), .kind = 1);
		v = rlx_emit(n.g, matmul, .a = v, .b = leaf(&n, &w, true, 9));
		rlx_output(n.g, "y", rlx_emit(n.g, softmax, .x = v, .axis = -1));
		CHECKF(!rlx_graph_finish(n.g), "%s", rlx_graph_error(n.g)->text);
		run(n.g, n.in, &cpu, 0, &on_cpu);
		run(n.g, n.in, &gpu, 0, o);
		CHECKF(!o->status && same(&on_cpu, o), "%d images: %s", (int)images, o->why);
		outputs_free(&on_cpu);
		free(n.in[0]);
		rlx_graph_put(n.g);
	}
	CHECK(!memcmp(all.t[0].data, one.t[0].data, (size_t)rlx_type_bytes(&one.t[0].type)));
	outputs_free(&all);
	outputs_free(&one);
}

TEST_MAIN()
