// SPDX-License-Identifier: MIT
/* Graphs whose sizes are known later: names, expressions, binding, text, bodies. */
#include <unistd.h>

#include "ir/graph.h"
#include "rlx/blocks.h"
#include "rlx/cache.h"
#include "rlx/custom.h"
#include "rlx/devices.h"
#include "rlx/dims.h"
#include "rlx/grad.h"
#include "rlx/lora.h"
#include "rlx/onnx.h"
#include "rlx/quant.h"
#include "rlx/train.h"
#include "selftests/lib/rlx_test.h"

static struct rlx_graph *finished(struct rlx_graph *g)
{
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

/* reshape to [b * s, 4], and a concat over s: what R156 asks for. */
static struct rlx_graph *shapes(void)
{
	struct rlx_graph *g = rlx_graph_new("shapes");
	int64_t b = rlx_dim(g, "b", 1, 100), s = rlx_dim(g, "s", 1, 100);
	int64_t t = rlx_dim(g, "t", 1, 100);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, b, s, 4));
	rlx_value y = rlx_input(g, "y", rlx_type(RLX_F32, b, t, 4));

	rlx_output(g, "flat", rlx_emit(g, reshape, .x = x,
				       .shape = RLX_INTS(rlx_dim_mul(g, b, s), 4)));
	rlx_output(g, "long", rlx_emit(g, concat, .xs = RLX_VALUES(x, y), .axis = 1));
	return finished(g);
}

static void check_dims(const struct rlx_graph *g, unsigned int i, int64_t a, int64_t b, int64_t c)
{
	const struct rlx_type *t = rlx_type_of(g, rlx_graph_io_value(g, RLX_IO_OUTPUT, i));
	char text[96];

	rlx_type_print(t, text, sizeof(text));
	CHECKF(t->dim[0] == a && t->dim[1] == b && (t->rank == 2 || t->dim[2] == c), "%s", text);
}

TEST(r156_bind)
{
	struct rlx_graph *g = shapes(), *one = NULL, *two = NULL;
	struct rlx_binding b[] = { { "t", 5 }, { "b", 2 }, { "s", 16 }, { "s", 16 } };
	struct rlx_error err = { 0 };

	CHECKF(!rlx_graph_bind(g, b, 3, &one, &err), "%s", err.text);
	check_dims(one, 0, 32, 4, 0);
	check_dims(one, 1, 2, 21, 4);
	CHECK_EQ(rlx_graph_dim_count(one), 0);
	b[0].size = 1;
	b[2].size = 7;
	CHECKF(!rlx_graph_bind(g, b, 3, &two, &err), "%s", err.text);
	check_dims(two, 0, 14, 4, 0);
	check_dims(two, 1, 2, 8, 4);
	check_dims(one, 0, 32, 4, 0);
	rlx_graph_put(two);
	two = (void *)1;
	CHECK_EQ(rlx_graph_bind(g, b, 2, &two, &err), RLX_EINVAL);
	CHECKF(strstr(err.text, "'s'") && !two, "%s", err.text);
	CHECK_EQ(rlx_graph_bind(g, b, 4, &two, NULL), RLX_EINVAL);
	b[3] = (struct rlx_binding){ "q", 1 };
	CHECK_EQ(rlx_graph_bind(g, b, 4, &two, NULL), RLX_ENOENT);
	b[3].name = NULL;
	CHECK_EQ(rlx_graph_bind(g, b, 4, &two, NULL), RLX_ENOENT);
	b[2].size = 101;
	CHECK_EQ(rlx_graph_bind(g, b, 3, &two, NULL), RLX_ERANGE);
	b[2].size = 0;
	CHECK_EQ(rlx_graph_bind(g, b, 3, &two, NULL), RLX_ERANGE);
	b[2].size = -1;
	CHECK_EQ(rlx_graph_bind(g, b, 3, &two, NULL), RLX_ERANGE);
	CHECK_EQ(rlx_graph_bind(NULL, b, 3, &two, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_graph_bind(g, NULL, 3, &two, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_graph_bind(g, b, 3, NULL, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_graph_bind(one, NULL, 0, &two, NULL), 0);
	CHECK(two == one);		/* as it is */
	rlx_graph_put(two);
	CHECK_EQ(rlx_graph_bind(one, b, 1, &two, NULL), RLX_ENOENT);
	rlx_graph_put(one);
	rlx_graph_put(g);
}

static const char *sticky(struct rlx_graph *g, enum rlx_status st)
{
	static struct rlx_error err;

	err = *rlx_graph_error(g);
	rlx_graph_put(g);
	CHECKF(err.status == st, "%s: %s", rlx_status_name(err.status), err.text);
	return err.text;
}

TEST(names_are_looked_at)
{
	static const char *const bad[] = {
		"", "1b", "b-c", "b c", "b\"", "%1", "b\n", "\xc3\xa4",
		"a23456789012345678901234567890ab", NULL,
	};
	static const int64_t range[][2] = { { -1, 3 }, { 3, 2 }, { INT64_MIN, INT64_MAX } };
	struct rlx_graph *g;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		g = rlx_graph_new("bad");
		CHECK_EQ(rlx_dim(g, bad[i], 1, 2), -1);
		CHECK_EQ(rlx_dim(g, "fine", 1, 2), -1);		/* it sticks */
		sticky(g, RLX_EINVAL);
	}
	for (i = 0; i < 3; i++) {
		g = rlx_graph_new("bad");
		CHECK_EQ(rlx_dim(g, "b", range[i][0], range[i][1]), -1);
		sticky(g, RLX_ERANGE);
	}
	g = rlx_graph_new("twice");
	CHECK(rlx_dim(g, "a2345678901234567890123456_7890", 0, INT64_MAX) < -1);
	CHECK(rlx_dim(g, "b", 1, 8) == rlx_dim(g, "b", 1, 8));
	CHECK_EQ(rlx_graph_dim_count(g), 2);
	CHECK_EQ(rlx_dim(g, "b", 1, 9), -1);
	CHECK(strstr(sticky(g, RLX_EEXIST), "'b' is there, from 1 to 8"));
	CHECK_EQ(rlx_dim(NULL, "b", 1, 8), -1);
	CHECK_EQ(rlx_dim_add(NULL, 1, 8), -1);
	CHECK_EQ(rlx_graph_dim_count(NULL), 0);
	CHECK(!rlx_graph_dim_at(NULL, 0, &(struct rlx_dim_info){ 0 }));
	g = shapes();
	CHECK_EQ(rlx_dim(g, "late", 1, 8), -1);
	sticky(g, RLX_EINVAL);
}

TEST(names_are_so_many)
{
	struct rlx_graph *g = rlx_graph_new("many");
	char name[16];
	int i;

	for (i = 0; i <= 1024; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		CHECK((rlx_dim(g, name, 1, 100) == -1) == (i == 1024));
	}
	CHECK_EQ(rlx_graph_dim_count(g), 1024);
	CHECK(strstr(sticky(g, RLX_ERANGE), "'n1024'"));
}

/* Sizes of small ranges: what a convolution makes of w is neither b nor c, though it may be. */
TEST(sizes_of_small_ranges)
{
	struct rlx_graph *g, *out;
	struct rlx_error err = { 0 };
	struct rlx_binding size[] = { { "b", 1 }, { "c", 2 }, { "w", 6 } };
	int64_t b, c, w, turn;
	rlx_value x, k;

	for (turn = 0; turn < 6; turn++) {	/* names before it change what is tried */
		g = rlx_graph_new("small");
		for (b = 0; b < turn; b++)
			rlx_dim(g, (char[]){ (char)('n' + b), 0 }, 1, 1);
		b = rlx_dim(g, "b", 1, 4);
		c = rlx_dim(g, "c", 1, 4);
		w = rlx_dim(g, "w", 3, 6);
		x = rlx_input(g, "x", rlx_type(RLX_F32, b, 1, 1, w));
		k = rlx_input(g, "k", rlx_type(RLX_F32, 1, 1, 1, 3));
		rlx_output(g, "c", rlx_input(g, "y", rlx_type(RLX_F32, c)));
		x = rlx_emit(g, conv, .x = x, .w = k);
		rlx_output(g, "z", rlx_emit(g, relu, .x = x));
		finished(g);
		c = rlx_type_of(g, x)->dim[3];
		CHECK(rlx_type_of(g, x)->dim[0] == b && c < -1 && c != b);
		if (!turn) {
			CHECKF(!rlx_graph_bind(g, size, 3, &out, &err), "%s", err.text);
			CHECK_EQ(rlx_type_of(out, rlx_graph_io_value(out, RLX_IO_OUTPUT,
								     1))->dim[3], 4);
			rlx_graph_put(out);
		}
		rlx_graph_put(g);
	}
}

/* A number that stands for a size is none where a graph has no names, nor in its text. */
TEST(numbers_of_other_graphs)
{
	static const char text[] = "graph \"g\" {\n %%1 = input(name=\"x\", type=f32[4])\n %%2 = "
		"slice(x=%%1, axes=[0], starts=[%lld], ends=[4], steps=[1]) : f32[4]\n "
		"dim b[1,8]\n return \"y\"=%%2\n}";
	struct rlx_graph *g = rlx_graph_new("g");
	struct rlx_error err = { 0 };
	char line[256];
	int n;

	rlx_emit(g, rng, .type = rlx_type(RLX_F32, 4), .seed = -((int64_t)1 << 62));
	CHECK(strstr(sticky(g, RLX_EINVAL), "seed"));
	g = rlx_graph_new("g");
	rlx_emit(g, rng, .type = rlx_type(RLX_F32, 4), .seed = -((int64_t)1 << 62) - 1);
	CHECK(!rlx_graph_error(g)->status);
	rlx_graph_put(g);
	n = snprintf(line, sizeof(line), text, -(1ll << 62));
	CHECK_EQ(rlx_graph_parse(line, (size_t)n, &g, &err), RLX_EPARSE);
	CHECKF(strstr(err.text, "-4611686018427387904"), "%s", err.text);
}

TEST(expressions)
{
	struct rlx_graph *g = rlx_graph_new("e"), *h;
	int64_t b = rlx_dim(g, "b", 0, 100), x = b, i;

	CHECK_EQ(rlx_dim_add(g, 3, 4), 7);
	CHECK_EQ(rlx_dim_mul(g, 3, -4), -12);
	CHECK_EQ(rlx_dim_div(g, -7, 2), -4);
	CHECK(rlx_dim_add(g, b, 1) == rlx_dim_add(g, b, 1));
	CHECK(rlx_dim_add(g, b, 1) != rlx_dim_add(g, 1, b));
	for (i = 0; i < 15; i++)
		x = rlx_dim_add(g, x, 1);
	CHECK(x < -1);
	CHECK_EQ(rlx_dim_add(g, x, 1), -1);
	CHECK(strstr(sticky(g, RLX_ERANGE), "16 operands"));
	g = rlx_graph_new("e");
	CHECK_EQ(rlx_dim_div(g, rlx_dim(g, "b", 0, 9), 0), -1);
	sticky(g, RLX_EINVAL);
	g = rlx_graph_new("e");
	CHECK_EQ(rlx_dim_mul(g, INT64_MAX, 2), -1);
	sticky(g, RLX_ERANGE);
	g = rlx_graph_new("e");
	b = rlx_dim(g, "b", INT64_MAX - 1, INT64_MAX);
	CHECK_EQ(rlx_dim_mul(g, b, b), -1);
	sticky(g, RLX_ERANGE);
	/* another graph's */
	g = rlx_graph_new("e");
	rlx_dim(g, "a", 1, 2);
	b = rlx_dim(g, "b", 1, 2);
	h = rlx_graph_new("h");
	CHECK_EQ(rlx_dim_add(h, b, 1), -1);
	sticky(h, RLX_EINVAL);
	h = rlx_graph_new("h");
	rlx_dim(h, "a", 1, 2);
	rlx_input(h, "x", rlx_type(RLX_F32, b));
	sticky(h, RLX_EINVAL);
	h = rlx_graph_new("h");
	rlx_input(h, "x", rlx_type(RLX_F32, b));
	CHECK(rlx_graph_error(h)->status);
	rlx_graph_put(h);
	rlx_graph_put(g);
}

/* Sizes beyond 64 bits are told where the graph is bound, and so are types of over 2^63 bytes. */
TEST(overflow)
{
	struct rlx_graph *g = rlx_graph_new("large"), *out = NULL;
	int64_t b = rlx_dim(g, "b", 1, INT64_MAX), s = rlx_dim(g, "s", 1, INT64_MAX);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, b, s));
	struct rlx_binding z[] = { { "b", INT64_MAX }, { "s", 2 } };

	rlx_output(g, "y", rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(rlx_dim_mul(g, b, s))));
	finished(g);
	CHECK_EQ(rlx_graph_bind(g, z, 2, &out, NULL), RLX_ESHAPE);	/* of x */
	z[0].size = 1;
	z[1].size = (int64_t)1 << 61;
	CHECK_EQ(rlx_graph_bind(g, z, 2, &out, NULL), RLX_ESHAPE);
	z[1].size = (int64_t)1 << 40;
	CHECK_EQ(rlx_graph_bind(g, z, 2, &out, NULL), 0);
	rlx_graph_put(out);
	rlx_graph_put(g);
	g = rlx_graph_new("product");
	b = rlx_dim(g, "b", 1, INT64_MAX);
	rlx_output(g, "y", rlx_emit(g, iota, .type = rlx_type(RLX_F32, rlx_dim_mul(g, b, 8))));
	finished(g);
	z[0] = (struct rlx_binding){ "b", INT64_MAX / 4 };
	CHECK_EQ(rlx_graph_bind(g, z, 1, &out, NULL), RLX_ERANGE);
	CHECK(!out);
	rlx_graph_put(g);
}

/* What an op refuses for sizes of the range is refused where it is emitted, with these sizes. */
TEST(refused_where_it_is_emitted)
{
	struct rlx_graph *g = rlx_graph_new("b"), *out = NULL;
	int64_t b = rlx_dim(g, "b", 1, 64), c = rlx_dim(g, "c", 1, 64);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, b)), y;
	struct rlx_binding z = { "s", 3 };
	unsigned int line;

	y = rlx_input(g, "y", rlx_type(RLX_F32, c));
	line = __LINE__ + 1;
	rlx_emit(g, add, .a = x, .b = y);
	CHECK_EQ(rlx_graph_error(g)->line, line);
	CHECK(strstr(sticky(g, RLX_ESHAPE), "tried with b = "));
	/* a slice that ends where the shorter ones do not reach: so much is said of the range */
	g = rlx_graph_new("s");
	b = rlx_dim(g, "s", 1, 64);
	x = rlx_input(g, "x", rlx_type(RLX_F32, b));
	rlx_output(g, "y", rlx_emit(g, slice, .x = x, .axes = RLX_INTS(0), .starts = RLX_INTS(0),
				    .ends = RLX_INTS(5), .steps = RLX_INTS(1)));
	finished(g);
	CHECK_EQ(rlx_graph_bind(g, &z, 1, &out, NULL), RLX_ESHAPE);
	z.size = 5;
	CHECK_EQ(rlx_graph_bind(g, &z, 1, &out, NULL), 0);
	rlx_graph_put(out);
	rlx_graph_put(g);
}

static char *print(const struct rlx_graph *g, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	CHECK(f && !rlx_graph_print(g, f, false));
	fclose(f);
	return text;
}

static void round_trip(struct rlx_graph *g)
{
	struct rlx_graph *back = NULL;
	struct rlx_error err = { 0 };
	size_t n, m;
	char *text = print(g, &n), *again;

	CHECKF(!rlx_graph_parse(text, n, &back, &err), "%s in\n%s", err.text, text);
	again = print(back, &m);
	CHECKF(n == m && !memcmp(text, again, n), "printed\n%sthen\n%s", text, again);
	CHECKF(rlx_graph_hash(g) == rlx_graph_hash(back), "the hash moved:\n%s", text);
	rlx_graph_put(back);
	free(again);
	free(text);
}

/* A convolution, one of whose sizes is its own: it stands in what is made of it. */
static struct rlx_graph *image(int64_t min)
{
	struct rlx_graph *g = rlx_graph_new("image");
	int64_t h = rlx_dim(g, "h", min, 300);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1, 3, h, rlx_dim_mul(g, h, 2)));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 8, 3, 3, 3));
	rlx_value y = rlx_emit(g, conv, .x = x, .w = w, .stride = RLX_INTS(2, 2),
			       .pad = RLX_INTS(1, 1, 1, 1));
	const struct rlx_type *t = rlx_type_of(g, y);
	int64_t rows = t->dim[2], cols = t->dim[3];

	CHECK(t->dim[1] == 8 && rows < -1 && cols < -1);
	y = rlx_emit(g, reshape, .x = y, .shape = RLX_INTS(8, rlx_dim_mul(g, rows, cols)));
	rlx_output(g, "y", rlx_emit(g, softmax, .x = y, .axis = 1));
	return finished(g);
}

TEST(sizes_that_ops_tell)
{
	struct rlx_graph *g = image(3), *out = NULL;
	struct rlx_binding b = { "h", 7 };
	struct rlx_error err = { 0 };

	CHECKF(!rlx_graph_bind(g, &b, 1, &out, &err), "%s", err.text);
	check_dims(out, 0, 8, 4 * 7, 0);
	rlx_graph_put(out);
	b.size = 224;
	CHECKF(!rlx_graph_bind(g, &b, 1, &out, &err), "%s", err.text);
	check_dims(out, 0, 8, 112 * 224, 0);
	rlx_graph_put(out);
	rlx_graph_put(g);
}

TEST(text_round_trips)
{
	struct rlx_graph *g[] = { shapes(), image(3), image(0) };
	size_t i, n;
	char *text;

	for (i = 0; i < 3; i++)
		round_trip(g[i]);
	CHECK(rlx_graph_hash(g[1]) != rlx_graph_hash(g[2]));	/* of another range */
	text = print(g[0], &n);
	CHECKF(strstr(text, "dim s[1,100]\n") && strstr(text, "f32[b,s,4]") &&
	       strstr(text, "shape=[(b*s),4]"), "%s", text);
	free(text);
	text = print(g[1], &n);
	CHECKF(strstr(text, "f32[1,8,%3[2],h]") && strstr(text, "shape=[8,(%3[2]*h)]"),
	       "%s", text);
	free(text);
	for (i = 0; i < 3; i++)
		rlx_graph_put(g[i]);
}

#define HEAD "graph \"g\" {\n dim b[1,8]\n "
#define TAIL "\n return \"y\"=%1\n}"

TEST(hostile_text)
{
	static const char *const bad[] = {
		"graph \"g\" { dim b" TAIL, "graph \"g\" { dim b[1]" TAIL,
		"graph \"g\" { dim b[1,2" TAIL, "graph \"g\" { dim 1[1,2]" TAIL,
		"graph \"g\" { dim b[2,1] %1 = input(name=\"x\", type=f32[b])" TAIL,
		HEAD "dim b[1,9] %1 = input(name=\"x\", type=f32[b])" TAIL,
		HEAD "%1 = input(name=\"x\", type=f32[c])" TAIL,
		HEAD "%1 = input(name=\"x\", type=f32[(b])" TAIL,
		HEAD "%1 = input(name=\"x\", type=f32[(b-1)])" TAIL,
		HEAD "%1 = input(name=\"x\", type=f32[(b/0)])" TAIL,
		HEAD "%1 = input(name=\"x\", type=f32[(b+)])" TAIL,
		HEAD "%1 = input(name=\"x\", type=f32[%1[0]])" TAIL,
		HEAD "%1 = input(name=\"x\", type=f32[-4611686018427387904])" TAIL,
		HEAD "%1 = input(name=\"x\", type=f32[((((((((((((((((((b)])" TAIL,
		HEAD "%1 = input(name=\"x\", type=f32[b]) %2 = relu(x=%1) : f32[%1[1]]" TAIL,
		HEAD "%1 = input(name=\"x\", type=f32[b]) %2 = relu(x=%1) : f32[(b+0)]" TAIL,
		"graph \"g\" { %1 = input(name=\"x\", type=f32[-4611686018427387904])" TAIL,
		"graph \"g\" { %1 = input(name=\"x\", type=f32[b]) dim b[1,8]" TAIL,
	};
	struct rlx_graph *g = NULL;
	struct rlx_error err;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		err = (struct rlx_error){ 0 };
		CHECKF(rlx_graph_parse(bad[i], strlen(bad[i]), &g, &err), "taken: %s", bad[i]);
		CHECKF(!g && strstr(err.text, "line ") && err.status != RLX_EBUG, "%s: %s", bad[i],
		       err.text);
	}
}

/* A plan file's graphs are planned as they are read: all sizes are known. */
TEST(plan_files_have_none)
{
	static const char text[] =
		HEAD "%1 = input(name=\"x\", type=f32[b])\n return \"y\"=%1\n}\n";
	const struct rlx_blob_list none = { 0 };
	struct rlx_graph *g = NULL;
	struct rlx_error err = { 0 };

	CHECK_EQ(rlx_graph_parse(text, sizeof(text) - 1, &g, NULL), 0);
	rlx_graph_put(g);
	CHECK_EQ(rlx_graph_parse_listed(text, sizeof(text) - 1, &none, &g, &err), RLX_EPARSE);
	CHECKF(!g && strstr(err.text, "plan file"), "%s", err.text);
}

/* y[n, i] = the sum of x's rows up to i, by a scan whose body knows n, too. */
static struct rlx_graph *sums(const char *name)
{
	struct rlx_graph *body = rlx_graph_new("step"), *g = rlx_graph_new("sums");
	int64_t n = rlx_dim(body, name, 1, 40), m = rlx_dim(g, "n", 1, 40);
	rlx_value c = rlx_input(body, "c", rlx_type(RLX_F32, n));
	rlx_value v = rlx_input(body, "v", rlx_type(RLX_F32, n)), x, zero;
	int64_t t = rlx_dim(g, "t", 1, 40);

	v = rlx_emit(body, add, .a = c, .b = v);
	rlx_output(body, "c", v);
	rlx_output(body, "y", v);
	finished(body);
	x = rlx_input(g, "x", rlx_type(RLX_F32, t, m));
	zero = rlx_input(g, "zero", rlx_type(RLX_F32, m));
	x = rlx_emit(g, scan, .body_g = body, .n_carry = 1, .n_xs = 1, .length = t,
		     .xs = RLX_VALUES(zero, x));
	rlx_output(g, "y", rlx_out(g, x, 1));
	rlx_graph_put(body);
	return g;
}

TEST(bodies)
{
	struct rlx_graph *g = finished(sums("n")), *out = NULL;
	struct rlx_binding b[] = { { "n", 3 }, { "t", 5 } };
	struct rlx_error err = { 0 };

	CHECKF(!rlx_graph_bind(g, b, 2, &out, &err), "%s", err.text);
	check_dims(out, 0, 5, 3, 0);
	round_trip(g);
	rlx_graph_put(out);
	rlx_graph_put(g);
	CHECK(strstr(sticky(sums("q"), RLX_EINVAL), "'q'"));
}

/* A body with names in a graph without any. */
TEST(bodies_need_their_graph)
{
	struct rlx_graph *body = rlx_graph_new("b"), *g = rlx_graph_new("g");
	rlx_value c = rlx_input(g, "c", rlx_scalar(RLX_BOOL));

	rlx_output(body, "y", rlx_emit(body, iota, .type = rlx_type(RLX_F32,
								    rlx_dim(body, "n", 1, 4))));
	finished(body);
	rlx_emit(g, if, .pred = c, .then_g = body, .else_g = body);
	rlx_graph_put(body);
	CHECK(strstr(sticky(g, RLX_EINVAL), "'n'"));
}

/* A layer of attention and experts over batches and sequences of any length. */
static struct rlx_graph *block(int64_t batch, int64_t seq)
{
	struct rlx_graph *g = rlx_graph_new("block");
	int64_t b = batch ? batch : rlx_dim(g, "b", 1, 64), s = seq ? seq : rlx_dim(g, "s", 1, 64);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, b, s, 8));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 8, 8));
	rlx_value e = rlx_param(g, "e", rlx_type(RLX_F32, 8, 8, 8));
	struct rlx_attention_block a = {
		.size = sizeof(a), .heads = 2, .kv_heads = 2, .q = { .w = w }, .k = { .w = w },
		.v = { .w = w }, .out = { .w = w },
		.q_norm = { .gamma = rlx_param(g, "n", rlx_type(RLX_F32, 4)), .eps = 1e-5f },
	};
	struct rlx_moe_block m = {
		.size = sizeof(m), .router = { .w = w }, .chosen = 2,
		.experts = { .size = sizeof(m.experts), .up = { .w = e }, .down = { .w = e } },
	};

	x = rlx_block_attention(g, x, &a, x);
	rlx_output(g, "y", rlx_block_moe(g, x, &m, x));
	return finished(g);
}

TEST(blocks_of_models)
{
	struct rlx_graph *t = block(0, 0), *g = block(3, 5), *out = NULL;
	struct rlx_binding b[] = { { "b", 3 }, { "s", 5 } };
	struct rlx_error err = { 0 };
	size_t n, m;
	char *x, *y;

	CHECKF(!rlx_graph_bind(t, b, 2, &out, &err), "%s", err.text);
	x = print(g, &n);
	y = print(out, &m);
	CHECKF(n == m && !memcmp(x, y, n), "%sis not\n%s", y, x);
	free(x);
	free(y);
	rlx_graph_put(out);
	rlx_graph_put(g);
	rlx_graph_put(t);
}

static enum rlx_status refusal(struct rlx_error *err, struct rlx_error *own)
{
	CHECKF(strstr(err->text, "'b'") || strstr(err->text, "'h'"), "%s", err->text);
	*own = *err;
	*err = (struct rlx_error){ 0 };
	return own->status;
}

TEST(others_take_bound_graphs)
{
	struct rlx_graph *g = shapes(), *h = rlx_graph_new("h"), *out = NULL;
	struct rlx_device_model dm = { .size = sizeof(dm) };
	struct rlx_lora lora = { .size = sizeof(lora), .weight = &(struct rlx_lora_weight){ "x" },
				 .n = 1, .rank = 1, .alpha = 1 };
	struct rlx_cache *cache = rlx_cache_new(0);
	struct rlx_error err = { 0 }, own;
	struct rlx_program *p = NULL;
	struct rlx_devices *ds = NULL;
	rlx_value x = rlx_graph_io_value(g, RLX_IO_INPUT, 0);
	char path[] = "/tmp/rlx-dims-XXXXXX";
	int fd = mkstemp(path);

	CHECK_EQ(rlx_compile(g, NULL, &p, &err), RLX_EINVAL);
	CHECK_EQ(refusal(&err, &own), RLX_EINVAL);
	CHECK_EQ(rlx_cache_compile(cache, g, NULL, &p, &err), RLX_EINVAL);
	CHECK_EQ(refusal(&err, &own), RLX_EINVAL);
	CHECK_EQ(rlx_graph_vjp(g, &x, 1, &out, &err), RLX_EINVAL);
	CHECK_EQ(refusal(&err, &own), RLX_EINVAL);
	CHECK_EQ(rlx_onnx_write(path, g, NULL, 0, &err), RLX_EINVAL);
	CHECK_EQ(refusal(&err, &own), RLX_EINVAL);
	CHECK_EQ(rlx_devices_new(g, NULL, NULL, &ds, &err), RLX_EINVAL);
	CHECK_EQ(refusal(&err, &own), RLX_EINVAL);
	CHECK(rlx_cost_estimate(g, &dm, &err) < 0);
	CHECK_EQ(refusal(&err, &own), RLX_EINVAL);
	CHECK_EQ(rlx_graph_lora(g, &lora, &out, &err), RLX_EINVAL);
	CHECK_EQ(refusal(&err, &own), RLX_EINVAL);
	CHECK_EQ(rlx_graph_inline(h, g, NULL, NULL), RLX_EINVAL);
	sticky(h, RLX_EINVAL);
	rlx_cache_free(cache);
	rlx_graph_put(g);
	close(fd);
	unlink(path);
}

/* Derivatives and maps emit sizes that they compute: not in a template that is open. */
TEST(open_templates_are_not_derived)
{
	struct rlx_graph *g = rlx_graph_new("d");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, rlx_dim(g, "b", 1, 9))), d, y;
	struct rlx_ad a = { .size = sizeof(a), .wrt = { &x, 1 }, .of = { &y, 1 } };
	struct rlx_vmap v = { .size = sizeof(v), .of = { &y, 1 } };

	y = rlx_emit(g, relu, .x = x);
	rlx_vjp(g, &a, &d);
	sticky(g, RLX_EINVAL);
	g = rlx_graph_new("m");
	x = rlx_input(g, "x", rlx_type(RLX_F32, rlx_dim(g, "b", 1, 9)));
	y = rlx_emit(g, relu, .x = x);
	rlx_vmap(g, &v, &d);
	sticky(g, RLX_EINVAL);
}

static struct rlx_graph *cross_entropy(int64_t batch, int64_t seq, bool swap)
{
	struct rlx_graph *g = rlx_graph_new("loss");
	int64_t b = batch ? batch : rlx_dim(g, "b", 1, 9), s = seq ? seq : rlx_dim(g, "s", 1, 9);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, b, s, 5));
	rlx_value y = rlx_input(g, "y", swap ? rlx_type(RLX_I32, s, b) : rlx_type(RLX_I32, b, s));

	rlx_output(g, "loss", rlx_loss_ce(g, x, y, NULL));
	return g;
}

/* Losses of as many rows as there come, each with its label. */
TEST(losses)
{
	struct rlx_graph *t = finished(cross_entropy(0, 0, false)), *out = NULL;
	struct rlx_graph *g = finished(cross_entropy(2, 3, false));
	struct rlx_binding b[] = { { "b", 2 }, { "s", 3 } };
	struct rlx_error err = { 0 };

	CHECKF(!rlx_graph_bind(t, b, 2, &out, &err), "%s", err.text);
	CHECK(rlx_graph_hash(out) == rlx_graph_hash(g));
	rlx_graph_put(out);
	rlx_graph_put(g);
	rlx_graph_put(t);
	sticky(cross_entropy(2, 3, true), RLX_EINVAL);
	sticky(cross_entropy(0, 0, true), RLX_EINVAL);
}

/* The running variance has a factor of the number of elements. */
TEST(batch_norm_knows_its_sizes)
{
	struct rlx_graph *g;
	struct rlx_vars *v;
	rlx_value x;
	int train;

	for (train = 0; train < 2; train++) {
		g = rlx_graph_new("bn");
		v = rlx_vars_new();
		x = rlx_input(g, "x", rlx_type(RLX_F32, rlx_dim(g, "b", 2, 9), 3, 4));
		x = rlx_batch_norm(g, v, x, train, NULL);
		rlx_vars_free(v);
		if (train)
			CHECK(strstr(sticky(g, RLX_EINVAL), "axis 0 "));
		else
			CHECK(x.id && !rlx_graph_error(g)->status);
		if (!train)
			rlx_graph_put(g);
	}
}

TEST_MAIN()
