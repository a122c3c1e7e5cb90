/* SPDX-License-Identifier: MIT */
/* What tests of strict bits share: programs, their inputs, and running them one way or another. */
#ifndef RLX_TEST_STRICT_BITS_H
#define RLX_TEST_STRICT_BITS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "ir/element.h"
#include "selftests/lib/fuzz_case.h"
#include "selftests/lib/rlx_test.h"

enum { STRICT_OUTPUTS = 8, STRICT_ROWS = 19, STRICT_INPUTS = 8 };

/* A way to run: a level of the CPU by its name, and threads; or another device. */
struct way {
	const char	*isa;
	unsigned int	threads;
	const char	*device;	/* NULL: cpu */
};

/* The bytes that a NaN has in comparisons. */
static inline void one_nan(struct rlx_tensor *t)
{
	int64_t n = rlx_type_count(&t->type), i;
	uint32_t *bits = t->data;

	for (i = 0; t->type.dtype == RLX_F32 && i < n; i++)
		if (isnan(((float *)t->data)[i]))
			bits[i] = 0x7fc00000;
}

struct outputs {
	enum rlx_status	status;
	char		why[512];	/* it was not compiled */
	unsigned int	n;
	struct rlx_tensor t[STRICT_OUTPUTS];
};

static inline void outputs_free(struct outputs *o)
{
	for (unsigned int k = 0; k < o->n; k++)
		free(o->t[k].data);
}

/* @in: what the graph's inputs are set to, in their order. */
static inline void run(struct rlx_graph *g, void *const *in, const struct way *w, uint32_t flags,
		struct outputs *o)
{
	struct rlx_compile_opts opts = { .size = sizeof(opts), .threads = w->threads,
					 .device = w->device ? w->device : "cpu",
					 .flags = flags | RLX_COMPILE_STRICT_BITS };
	struct rlx_program *p = NULL;
	struct rlx_session *ss = NULL;
	struct rlx_error err = { 0 };
	unsigned int k, n;

	if (w->isa)
		setenv("RLX_ISA", w->isa, 1);
	*o = (struct outputs){ .status = rlx_compile(g, &opts, &p, &err) };
	unsetenv("RLX_ISA");
	snprintf(o->why, sizeof(o->why), "%s", err.text);
	if (!o->status)
		o->status = rlx_session_new(p, NULL, &ss, &err);
	n = rlx_program_io_count(p, RLX_IO_INPUT);
	for (k = 0; k < n && !o->status; k++)
		o->status = rlx_session_set(ss, RLX_IO_INPUT,
					    rlx_program_io_name(p, RLX_IO_INPUT, k),
					    *rlx_program_io_type(p, RLX_IO_INPUT, k), in[k]);
	if (!o->status)
		o->status = rlx_session_run(ss);
	n = rlx_program_io_count(p, RLX_IO_OUTPUT);
	for (k = 0; k < n && k < STRICT_OUTPUTS && !o->status; k++) {
		struct rlx_tensor *t = &o->t[o->n++];

		t->type = *rlx_program_io_type(p, RLX_IO_OUTPUT, k);
		t->data = calloc(1, (size_t)rlx_type_bytes(&t->type) + 64);
		CHECK(t->data);
		o->status = rlx_session_get(ss, RLX_IO_OUTPUT,
					    rlx_program_io_name(p, RLX_IO_OUTPUT, k), t->type,
					    t->data);
		one_nan(t);
	}
	rlx_session_free(ss);
	rlx_program_put(p);
}

static inline bool same(const struct outputs *a, const struct outputs *b)
{
	if (a->status != b->status || a->n != b->n)
		return false;
	for (unsigned int k = 0; k < a->n; k++)
		if (memcmp(a->t[k].data, b->t[k].data, (size_t)rlx_type_bytes(&a->t[k].type)))
			return false;
	return true;
}

static inline bool is_f32(const struct fuzz_case *c)
{
	uint32_t k, o;

	for (k = 0; k < c->n_leaf; k++)
		if (!el_is_int(c->leaf[k].type.dtype) && c->leaf[k].type.dtype != RLX_F32)
			return false;
	for (k = 0; k < c->n_node; k++)
		for (o = 0; o < c->node[k].n_out; o++)
			if (!el_is_int(c->node[k].out[o].dtype) &&
			    c->node[k].out[o].dtype != RLX_F32)
				return false;
	return true;
}

/* ---- what networks are made of ---- */

/* "%d" is the batch, which comes first in inputs and outputs; other inputs are the same for all. */
static const struct part {
	const char	*name, *text;
	uint64_t	digest;		/* of what STRICT_ROWS rows give; 0: compilers round there */
} strict_parts[] = {
	{ "mlp", "%1 = input(name=\"x\", type=f32[%d,200])\n"
	  "%2 = input(name=\"w\", type=f32[200,77])\n%3 = input(name=\"b\", type=f32[77])\n"
	  "%4 = input(name=\"v\", type=f32[77,10])\n"
	  "%5 = matmul(a=%1, b=%2)\n%6 = add(a=%5, b=%3)\n%7 = gelu(x=%6)\n"
	  "%8 = matmul(a=%7, b=%4)\n%9 = softmax(x=%8, axis=-1)\nreturn \"y\"=%9\n",
	  0x4be1dc82c5c4d39f },
	{ "columns", "%1 = input(name=\"x\", type=f32[%d,300])\n"
	  "%2 = input(name=\"w\", type=f32[50,300])\n"
	  "%3 = fused_matmul(a=%1, b=%2, trans_b=true)\n%4 = silu(x=%3)\nreturn \"y\"=%4\n",
	  0x3d1ef68301455713 },
	{ "few columns", "%1 = input(name=\"x\", type=f32[%d,700])\n"
	  "%2 = input(name=\"w\", type=f32[700,3])\n%3 = matmul(a=%1, b=%2)\nreturn \"y\"=%3\n",
	  0xc60f36f873983a23 },
	{ "norms", "%1 = input(name=\"x\", type=f32[%d,1037])\n"
	  "%2 = input(name=\"g\", type=f32[1037])\n"
	  "%3 = layer_norm(x=%1, gamma=%2, beta=%2, axis=-1, eps=1e-05)\n"
	  "%4 = rms_norm(x=%3, gamma=%2, axis=-1, eps=1e-05)\n"
	  "%5 = log_softmax(x=%4, axis=-1)\n%6 = reduce(x=%5, axes=[1], kind=1)\n"
	  "return \"y\"=%5, \"z\"=%6\n",
	  0x0c1ac22eef30b639 },
	{ "reductions", "%1 = input(name=\"x\", type=f32[%d,200,300])\n"
	  "%2 = reduce(x=%1, axes=[1], kind=1)\n%3 = reduce(x=%1, axes=[2])\n"
	  "%4 = cumsum(x=%2, axis=1)\n%5 = group_norm(x=%1, groups=20, eps=1e-05)\n"
	  "%6 = softmax(x=%5, axis=1)\nreturn \"y\"=%4, \"z\"=%3, \"v\"=%6\n",
	  0xf1cea57bf79f623d },
	{ "attention", "%1 = input(name=\"q\", type=f32[%d,9,4,40])\n"
	  "%2 = input(name=\"k\", type=f32[%d,150,2,40])\n"
	  "%3 = input(name=\"v\", type=f32[%d,150,2,40])\n"
	  "%4 = attention(q=%1, k=%2, v=%3, mask=1, kv_heads=2)\nreturn \"y\"=%4\n",
	  0x62504376e2fbb3db },
	{ "convolutions", "%1 = input(name=\"x\", type=f32[%d,3,33,29])\n"
	  "%2 = input(name=\"a\", type=f32[24,3,3,3])\n%3 = input(name=\"b\", type=f32[24,1,3,3])\n"
	  "%4 = input(name=\"c\", type=f32[64,24,1,1])\n"
	  "%5 = input(name=\"d\", type=f32[48,64,3,3])\n"
	  "%6 = conv(x=%1, w=%2, stride=[2,2], pad=[1,1,1,1])\n%7 = hard_swish(x=%6)\n"
	  "%8 = conv(x=%7, w=%3, groups=24, pad=[1,1,1,1])\n%9 = relu(x=%8)\n"
	  "%10 = conv(x=%9, w=%4)\n%11 = conv(x=%10, w=%5, pad=[1,1,1,1])\n"
	  "%12 = pool(x=%11, kind=1, kernel=[2,2], stride=[2,2])\n"
	  "%13 = reduce(x=%11, axes=[2,3], kind=1)\nreturn \"y\"=%12, \"z\"=%13\n",
	  0xbb31cd9ecf088d72 },
	{ "resize", "%1 = input(name=\"x\", type=f32[%d,5,17,16])\n"
	  "%2 = resize(x=%1, sizes=[%d,5,29,40], mode=1)\nreturn \"y\"=%2\n",
	  0x767324561b629acf },
	{ "transforms", "%1 = input(name=\"x\", type=f32[%d,360])\n%2 = rfft(x=%1)\n"
	  "return \"y\"=%2\n",
	  0 },
	{ "recurrent", "%1 = input(name=\"x\", type=f32[%d,7,40])\n"
	  "%2 = input(name=\"w\", type=f32[1,120,40])\n%3 = input(name=\"r\", type=f32[1,120,40])\n"
	  "%4 = input(name=\"u\", type=f32[1,40,40])\n"
	  "%5 = transpose(x=%1, perm=[1,0,2])\n%6, %7 = gru(x=%5, w=%2, r=%3)\n"
	  "%8, %9 = rnn(x=%5, w=%4, r=%4)\n"
	  "%10 = transpose(x=%6, perm=[2,0,1,3])\n%11 = transpose(x=%8, perm=[2,0,1,3])\n"
	  "return \"y\"=%10, \"z\"=%11\n",
	  0x30f2fe91c7881ee9 },
	{ "solve", "%1 = input(name=\"a\", type=f32[%d,60,60])\n"
	  "%2 = input(name=\"b\", type=f32[%d,60,2])\n%3 = solve(a=%1, b=%2)\nreturn \"y\"=%3\n",
	  0 },
};

/* The graph for a batch of @n. */
static inline struct rlx_graph *graph_of(const struct part *p, int n)
{
	char text[2048] = "graph \"t\" {\n";
	struct rlx_error err = { 0 };
	struct rlx_graph *g = NULL;
	const char *at = p->text;
	size_t len = strlen(text);

	for (; *at; at++)
		if (at[0] == '%' && at[1] == 'd') {
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%d", n);
			at++;
		} else {
			text[len++] = *at;
		}
	text[len++] = '}';
	text[len++] = '\n';
	CHECKF(!rlx_graph_parse(text, len, &g, &err), "%s: %s", p->name, err.text);
	return g;
}

/* Numbers of [-1, 1), the same on each machine. */
static inline void fill(float *x, int64_t n, uint64_t seed)
{
	for (int64_t i = 0; i < n; i++) {
		seed = seed * 6364136223846793005 + 1442695040888963407;
		x[i] = (float)(int32_t)(seed >> 32) * 0x1p-31f;
	}
}

/*
 * Numbers of which some are 0, -0 and, of some seeds, tiny, so that signs of zeros and underflow
 * count; @infinite: now and then one is. The caller frees them.
 */
static inline float *strict_numbers(const struct rlx_type *t, uint64_t seed, bool infinite)
{
	int64_t n = rlx_type_count(t), i;
	float *x = malloc((size_t)(n + 1) * sizeof(*x));
	bool tiny = seed % 5 == 0, wild = infinite && seed % 7 == 0;

	CHECK(x);
	fill(x, n, seed);
	for (i = 0; i < n; i++) {
		uint64_t r = rlx_test_rand(&seed);

		if (r % 16 == 0)
			x[i] = r & 256 ? 0.0f : -0.0f;
		else if (r % 16 == 1 || (tiny && r % 16 < 4))
			x[i] *= 0x1p-80f;
		else if (wild && r % 1024 == 2)
			x[i] = INFINITY;
	}
	return x;
}

/* Inputs of a whole batch, and the bytes of a row of each; 0: all rows have the same. */
struct inputs {
	unsigned int	n;
	void		*data[STRICT_INPUTS];
	size_t		row[STRICT_INPUTS];
	int64_t		count[STRICT_INPUTS];	/* elements of the whole batch */
};

static inline void inputs_of(const struct part *p, struct inputs *in)
{
	struct rlx_graph *g = graph_of(p, STRICT_ROWS), *one = graph_of(p, 1);
	struct rlx_compile_opts opts = { .size = sizeof(opts), .device = "ref" };
	struct rlx_program *all = NULL, *alone = NULL;

	CHECK(!rlx_compile(g, &opts, &all, NULL) && !rlx_compile(one, &opts, &alone, NULL));
	in->n = rlx_program_io_count(all, RLX_IO_INPUT);
	CHECK(in->n <= STRICT_INPUTS);
	for (unsigned int k = 0; k < in->n; k++) {
		const struct rlx_type *t = rlx_program_io_type(all, RLX_IO_INPUT, k);
		const struct rlx_type *u = rlx_program_io_type(alone, RLX_IO_INPUT, k);

		in->data[k] = malloc((size_t)rlx_type_bytes(t));
		CHECK(in->data[k]);
		in->row[k] = t->dim[0] != u->dim[0] ? (size_t)rlx_type_bytes(u) : 0;
		in->count[k] = rlx_type_count(t);
		fill(in->data[k], in->count[k], k + 1);
	}
	rlx_program_put(all);
	rlx_program_put(alone);
	rlx_graph_put(g);
	rlx_graph_put(one);
}

/* Rows [@first, @first + @n) by themselves give what they give in @whole. */
static inline void check_rows(const struct part *p, const struct inputs *in, const struct way *w,
		       int first, int n, const struct outputs *whole)
{
	struct rlx_graph *g = graph_of(p, n);
	struct outputs o;
	void *from[STRICT_INPUTS];

	for (unsigned int k = 0; k < in->n; k++)
		from[k] = (char *)in->data[k] + (size_t)first * in->row[k];
	run(g, from, w, 0, &o);
	CHECKF(!o.status && o.n == whole->n, "%s: %s: %s", p->name, rlx_status_name(o.status),
	       o.why);
	for (unsigned int k = 0; k < o.n; k++) {
		const size_t bytes = (size_t)rlx_type_bytes(&o.t[k].type), row = bytes / (size_t)n;

		CHECKF(!memcmp(o.t[k].data, (char *)whole->t[k].data + (size_t)first * row, bytes),
		       "%s, output %u: rows %d to %d by %s and %u threads", p->name, k, first,
		       first + n - 1, w->device ? w->device : w->isa, w->threads);
	}
	outputs_free(&o);
	rlx_graph_put(g);
}

static inline uint64_t digest_of(const struct outputs *o)
{
	uint64_t h = 1;

	for (unsigned int k = 0; k < o->n; k++)
		h = rlx_hash_bytes(o->t[k].data, (size_t)rlx_type_bytes(&o->t[k].type), h);
	return h;
}

/*
 * Which of zeros of either sign are largest, of windows over rows of @width, which may be a block
 * of channels to one way and not to the other?
 */
static inline bool maxima_of_zeros_alike(const struct way *v, const struct way *w, int width)
{
	const struct part p = { "zeros", "%1 = input(name=\"x\", type=f32[1,2,6,6,%d])\n"
				"%2 = pool(x=%1, kernel=[2,2,1])\nreturn \"y\"=%2\n", 0 };
	struct rlx_graph *g = graph_of(&p, width);
	float *x = calloc((size_t)(72 * width), sizeof(*x));
	void *in[] = { x };
	struct outputs a, b;
	bool alike;

	CHECK(x);
	fill(x, 72 * width, 1);
	for (int i = 0; i < 72 * width; i++)
		x[i] *= 0;
	run(g, in, v, 0, &a);
	run(g, in, w, 0, &b);
	alike = !a.status && same(&a, &b);
	outputs_free(&a);
	outputs_free(&b);
	free(x);
	rlx_graph_put(g);
	return alike;
}

#endif
