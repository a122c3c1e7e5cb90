// SPDX-License-Identifier: MIT
/*
 * Graphs written as ONNX and read back give what they gave: every sample of every op that can be
 * said, and nets of many. What cannot be said is refused by name, and no file is left.
 */
#include <unistd.h>

#include "rlx/model.h"
#include "rlx/onnx.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

enum { MOST = RLX_SAMPLE_IN };

/* The case's graph under names that differ: leaves "x0" .., outputs "y0" .. */
static struct rlx_graph *renamed(const struct op_case *c)
{
	struct rlx_inline how = { .size = sizeof(how), .prefix = "x" };
	struct rlx_graph *g = op_case_graph(c), *to = rlx_graph_new("case");
	rlx_value out[RLX_MAX_OUT];
	char name[16];
	unsigned int i;

	rlx_graph_inline(to, g, &how, out);
	for (i = 0; i < rlx_graph_io_count(g, RLX_IO_OUTPUT); i++) {
		snprintf(name, sizeof(name), "y%u", i);
		rlx_output(to, name, out[i]);
	}
	CHECKF(!rlx_graph_finish(to), "%s: %s", c->def->name, rlx_graph_error(to)->text);
	rlx_graph_put(g);
	return to;
}

/* Run @g, whose inputs are among @in, on the reference; false: it failed, with @err. */
static bool run(struct rlx_graph *g, const struct rlx_named_tensor *in, unsigned int n,
		struct op_result *out, struct rlx_error *err)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "ref" };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	bool ok = !rlx_compile(g, &o, &p, err) && !rlx_session_new(p, NULL, &s, err);
	unsigned int i;

	for (i = 0; ok && i < n; i++)
		if (rlx_program_io_find(p, RLX_IO_INPUT, in[i].name) >= 0)
			ok = !rlx_session_set(s, RLX_IO_INPUT, in[i].name, in[i].type, in[i].data);
	ok = ok && !rlx_session_run(s);
	out->n_out = ok ? rlx_program_io_count(p, RLX_IO_OUTPUT) : 0;
	for (i = 0; i < out->n_out; i++) {
		out->type[i] = *rlx_program_io_type(p, RLX_IO_OUTPUT, i);
		out->data[i] = malloc((size_t)rlx_type_bytes(&out->type[i]) + 1);
		CHECK(!rlx_session_get_at(s, RLX_IO_OUTPUT, i, out->type[i], out->data[i]));
	}
	if (!ok && s && !err->status)
		*err = *rlx_session_error(s);
	rlx_session_free(s);
	rlx_program_put(p);
	return ok;
}

/* The file at @path as a graph for inputs of these types. */
static struct rlx_graph *read_back(const char *path, const struct rlx_named_tensor *in,
				   unsigned int n, struct rlx_error *err)
{
	struct rlx_named_tensor bare[MOST];
	struct rlx_model *m = NULL;
	struct rlx_graph *g = NULL;
	unsigned int i;

	for (i = 0; i < n; i++)
		bare[i] = (struct rlx_named_tensor){ in[i].name, in[i].type, NULL };
	if (!rlx_model_open(path, &m, err) && rlx_model_graph(m, bare, n, &g, err))
		g = NULL;
	rlx_model_put(m);
	return g;
}

/* 1: it came back; 0: ONNX cannot say it. */
static int check_case(const struct op_case *c, unsigned int i)
{
	char path[] = "/tmp/rlx-onnx-XXXXXX", name[MOST][16];
	struct rlx_named_tensor in[MOST];
	struct op_result truth = { 0 }, got = { 0 };
	struct rlx_graph *g = renamed(c), *back;
	struct rlx_error err = { 0 }, quiet = { 0 };
	enum rlx_status st;
	unsigned int k, n = 0;

	close(mkstemp(path));
	for (k = 0; k < c->s.n_in; k++)
		if (c->s.in[k].dtype) {
			snprintf(name[n], sizeof(name[n]), "x%u", k);
			in[n] = (struct rlx_named_tensor){ name[n], c->s.in[k], c->data[k] };
			n++;
		}
	st = rlx_onnx_write(path, g, NULL, 0, &err);
	WANT(!st || (st == RLX_ENOSUP && strstr(err.text, "onnx: ")), "%s sample %u: %s",
	     c->def->name, i, err.text);
	if (st || !run(g, in, n, &truth, &quiet)) {
		op_result_fini(&truth);
		rlx_graph_put(g);
		unlink(path);
		return 0;
	}
	back = read_back(path, in, n, &err);
	WANT(back, "%s sample %u does not come back: %s", c->def->name, i, err.text);
	if (back)
		WANT(run(back, in, n, &got, &err), "%s sample %u: %s", c->def->name, i, err.text);
	WANT(!got.n_out || got.n_out == truth.n_out, "%s sample %u: %u outputs", c->def->name, i,
	     got.n_out);
	for (k = 0; k < got.n_out; k++) {
		double off = rlx_type_equal(&got.type[k], &truth.type[k]) ?
			     op_result_error(&got, &truth, k) : INFINITY;

		WANT(off <= 2 * op_result_bound(&truth, k, c->s.tol) + 1e-6,
		     "%s sample %u output %u: off by %g", c->def->name, i, k, off);
	}
	op_result_fini(&got);
	op_result_fini(&truth);
	rlx_graph_put(back);
	rlx_graph_put(g);
	unlink(path);
	return 1;
}

TEST(every_sample)
{
	uint64_t seed = rlx_test_seed();
	unsigned int d, i, n = 0, came = 0, ops = 0;
	struct op_case c;

	for (d = 0; d < rlx_op_count; d++) {
		unsigned int before = came;

		for (i = 0; op_case_init(&c, rlx_op_defs[d], i, 0, &seed); i++, n++) {
			came += (unsigned int)check_case(&c, i);
			op_case_fini(&c);
		}
		ops += came > before;
	}
	printf("# %u of %u samples, of %u ops\n", came, n, ops);
	CHECK(!op_case_failures && ops > 90 && came > 350);
}

/* ---- models ---- */

static void check_near(const struct op_result *a, const struct op_result *b)
{
	unsigned int k;

	CHECK_EQ(a->n_out, b->n_out);
	for (k = 0; k < a->n_out; k++)
		CHECKF(op_result_error(b, a, k) < 1e-5, "output %u: off by %g", k,
		       op_result_error(b, a, k));
}

/* Params as initializers; inputs stay inputs. */
TEST(net)
{
	static float x[2 * SMALL_SEQ * SMALL_DIM], img[2 * SMALL_CH * SMALL_SIDE * SMALL_SIDE];
	static float shift[SMALL_DIM];
	struct rlx_named_tensor in[3] = {
		{ "x", rlx_type(RLX_F32, 2, SMALL_SEQ, SMALL_DIM), x },
		{ "img", rlx_type(RLX_F32, 2, SMALL_CH, SMALL_SIDE, SMALL_SIDE), img },
		{ "shift", rlx_type(RLX_F32, SMALL_DIM), shift },
	};
	struct rlx_graph *g = small_net(SMALL_NET_NATIVE, 2), *back, *bound = rlx_graph_new("net");
	char path[] = "/tmp/rlx-onnx-XXXXXX", *names[1] = { "shift" };
	struct op_result truth = { 0 }, got = { 0 };
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	rlx_value out[RLX_MAX_OUT], v;
	unsigned int i;

	for (i = 0; i < sizeof(x) / sizeof(*x); i++)
		x[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < sizeof(img) / sizeof(*img); i++)
		img[i] = (float)rlx_test_uniform(&seed, -1, 1);
	for (i = 0; i < SMALL_DIM; i++)
		shift[i] = (float)rlx_test_uniform(&seed, -1, 1);
	close(mkstemp(path));
	CHECKF(!rlx_onnx_write(path, g, &in[2], 1, &err), "%s", err.text);
	/* the truth has the param as a constant */
	v = rlx_constant(bound, in[2].type, shift);
	rlx_graph_inline(bound, g, &(struct rlx_inline){ .size = sizeof(struct rlx_inline),
			 .name = (const char *const *)names, .value = &v, .n = 1 }, out);
	for (i = 0; i < rlx_graph_io_count(g, RLX_IO_OUTPUT); i++)
		rlx_output(bound, rlx_graph_io_name(g, RLX_IO_OUTPUT, i), out[i]);
	CHECKF(!rlx_graph_finish(bound), "%s", rlx_graph_error(bound)->text);
	CHECKF(run(bound, in, 2, &truth, &err), "%s", err.text);
	back = read_back(path, in, 2, &err);
	CHECKF(back, "%s", err.text);
	CHECK_EQ(rlx_graph_io_count(back, RLX_IO_INPUT), 2);
	CHECKF(run(back, in, 2, &got, &err), "%s", err.text);
	for (i = 0; i < truth.n_out; i++)
		CHECK_STR(rlx_graph_io_name(back, RLX_IO_OUTPUT, i),
			  rlx_graph_io_name(g, RLX_IO_OUTPUT, i));
	check_near(&truth, &got);
	op_result_fini(&truth);
	op_result_fini(&got);
	rlx_graph_put(back);
	rlx_graph_put(bound);
	rlx_graph_put(g);
	unlink(path);
}

/* ---- what is refused ---- */

static void refuse(struct rlx_graph *g, const struct rlx_named_tensor *t, enum rlx_status want,
		   const char *text)
{
	char path[] = "/tmp/rlx-onnx-XXXXXX";
	struct rlx_error err = { 0 };
	enum rlx_status st;

	close(mkstemp(path));
	unlink(path);
	st = rlx_onnx_write(path, g, t, t ? 1 : 0, &err);
	CHECKF(st == want && strstr(err.text, text), "%d, %s; not %d, %s", (int)st, err.text,
	       (int)want, text);
	CHECK(access(path, F_OK));
}

/* A graph of y = x + w and the like, under these names. */
static struct rlx_graph *sum(const char *x, const char *w, const char *y)
{
	struct rlx_type t = rlx_type(RLX_F32, 3);
	struct rlx_graph *g = rlx_graph_new("sum");

	rlx_output(g, y, rlx_emit(g, add, .a = rlx_input(g, x, t), .b = rlx_param(g, w, t)));
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

TEST(refused)
{
	float v[3] = { 0 };
	struct rlx_named_tensor t = { "w", rlx_type(RLX_F32, 4), v };
	struct rlx_graph *g = sum("x", "w", "y"), *open = rlx_graph_new("open");

	refuse(g, &t, RLX_ESHAPE, "'w' is f32[3]; the tensor that is given is f32[4]");
	t.type.dim[0] = 3;
	t.data = NULL;
	refuse(g, &t, RLX_ESHAPE, "without data");
	t.name = "z";
	refuse(g, &t, RLX_ENOENT, "no leaf 'z'");
	t.name = NULL;
	refuse(g, &t, RLX_ENOENT, "no leaf ''");
	rlx_graph_put(g);
	g = sum("x", "w", "x");
	refuse(g, NULL, RLX_EINVAL, "'x' is an output and a leaf");
	rlx_graph_put(g);
	g = sum("x", ".7", "y");
	refuse(g, NULL, RLX_EINVAL, "'.7' is no UTF-8, or called like a value");
	rlx_graph_put(g);
	g = sum("\xff", "w", "y");
	refuse(g, NULL, RLX_EINVAL, "no UTF-8");
	rlx_graph_put(g);
	refuse(open, NULL, RLX_EINVAL, "a finished graph");
	rlx_graph_put(open);
	g = rlx_graph_new("rng");
	rlx_output(g, "y", rlx_emit(g, rng, .type = rlx_type(RLX_F32, 3), .a = 0, .b = 1));
	CHECK(!rlx_graph_finish(g));
	refuse(g, NULL, RLX_ENOSUP, "op 'rng' cannot be said in ONNX");
	CHECK(rlx_onnx_write("/nowhere/at/all", g, NULL, 0, NULL) == RLX_ENOSUP);
	rlx_graph_put(g);
	g = sum("x", "w", "y");
	CHECK(rlx_onnx_write("/nowhere/at/all", g, NULL, 0, NULL) == RLX_ENOENT);
	rlx_graph_put(g);
}

/* ---- memory ---- */

struct oom {
	struct rlx_graph *g;
	char		  path[32];
};

static enum rlx_status write_net(void *ctx)
{
	struct oom *o = ctx;

	return rlx_onnx_write(o->path, o->g, NULL, 0, NULL);
}

TEST(out_of_memory)
{
	struct oom o = { small_net(SMALL_NET_ATTN | SMALL_NET_CONV, 1), "/tmp/rlx-onnx-XXXXXX" };

	close(mkstemp(o.path));
	CHECK(rlx_oom_sweep(write_net, &o) > 100);
	unlink(o.path);
	rlx_graph_put(o.g);
}

TEST_MAIN()
