// SPDX-License-Identifier: MIT
/* Runners over graphs whose sizes come with the inputs, and their params. */
#include <sys/resource.h>

#include "rlx/dims.h"
#include "rlx/model.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

static struct rlx_graph *finished(struct rlx_graph *g)
{
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	return g;
}

/* y[b, s, 8] = x[b, s, 4] w[4, 8], and z[b, 8], the sum over s of that by the rows of m[b]. */
static struct rlx_graph *layer(bool mask)
{
	struct rlx_graph *g = rlx_graph_new("layer");
	int64_t b = rlx_dim(g, "b", 1, 64), s = rlx_dim(g, "s", 1, 512);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, b, s, 4));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 4, 8));
	rlx_value y = rlx_emit(g, matmul, .a = x, .b = w), m;

	rlx_output(g, "y", y);
	if (mask) {
		m = rlx_input(g, "m", rlx_type(RLX_F32, b, 1, 1));
		rlx_output(g, "z", rlx_emit(g, mul, .a = y, .b = m));
	}
	return finished(g);
}

/* Compiles, by calls for the pass that comes first. */
struct compiles {
	const char	*first;
	unsigned int	 n;
};

static void seen(void *ctx, const char *pass, const struct rlx_graph *g)
{
	struct compiles *c = ctx;

	(void)g;
	if (!c->first)
		c->first = pass;
	c->n += !strcmp(pass, c->first);
}

static struct rlx_model *model_of(struct rlx_graph *g)
{
	struct rlx_model *m = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_model_from_graph(g, &m, &err), "%s", err.text);
	rlx_graph_put(g);
	return m;
}

static struct rlx_runner *runner_of(struct rlx_model *m, const char *device, struct compiles *c)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device, .threads = 1,
				      .dump = c ? seen : NULL, .dump_ctx = c };
	struct rlx_runner *r = NULL;

	CHECK_EQ(rlx_runner_new(m, &o, &r, NULL), 0);
	return r;
}

enum { MOST = 64 * 64 * 4 };

/* Run "x" of b x s x 4 random numbers; the result must be its product with @w. */
static void run(struct rlx_runner *r, int64_t b, int64_t s, const float w[32], uint64_t *seed)
{
	static float x[MOST];
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, b, s, 4), x }, y;
	struct rlx_error err = { 0 };
	int64_t i, j, k;

	CHECK(b * s * 4 <= MOST);
	for (i = 0; i < b * s * 4; i++)
		x[i] = (float)(rlx_test_rand(seed) % 17) - 8;
	CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
	CHECK(rlx_runner_output_count(r) == 1 && rlx_runner_output(r, 0, &y));
	CHECK(y.type.rank == 3 && y.type.dim[0] == b && y.type.dim[1] == s && y.type.dim[2] == 8);
	for (i = 0; i < b * s; i++)
		for (j = 0; j < 8; j++) {
			double sum = 0;

			for (k = 0; k < 4; k++)
				sum += (double)x[i * 4 + k] * (double)w[k * 8 + j];
			CHECK(((const float *)y.data)[i * 8 + j] == (float)sum);
		}
}

static void fill(float *w, int n, uint64_t *seed)
{
	int i;

	for (i = 0; i < n; i++)
		w[i] = (float)(rlx_test_rand(seed) % 9) - 4;
}

static void r155_on(const char *device)
{
	uint64_t seed = rlx_test_seed();
	struct compiles c = { 0 };
	struct rlx_model *m = model_of(layer(false));
	struct rlx_runner *r = runner_of(m, device, &c);
	float w[32], v[32];

	fill(w, 32, &seed);
	fill(v, 32, &seed);
	CHECK_EQ(rlx_runner_set(r, "w", rlx_type(RLX_F32, 4, 8), w, NULL), 0);
	run(r, 2, 16, w, &seed);
	CHECK_EQ(c.n, 1);
	run(r, 3, 16, w, &seed);
	CHECK_EQ(c.n, 2);
	run(r, 2, 16, w, &seed);
	CHECK_EQ(c.n, 2);
	/* set anew: in both, and without compiling */
	CHECK_EQ(rlx_runner_set(r, "w", rlx_type(RLX_F32, 4, 8), v, NULL), 0);
	run(r, 3, 16, v, &seed);
	run(r, 2, 16, v, &seed);
	CHECK_EQ(c.n, 2);
	rlx_runner_free(r);
	rlx_model_put(m);
}

TEST(r155_sizes_come_with_the_run)
{
	r155_on("cpu");
	r155_on("ref");
}

static enum rlx_status run_pair(struct rlx_runner *r, struct rlx_type x, struct rlx_type m,
				struct rlx_error *err)
{
	static const float data[MOST];
	struct rlx_named_tensor in[] = { { "x", x, data }, { "m", m, data } };

	*err = (struct rlx_error){ 0 };
	return rlx_runner_run(r, in, 2, err);
}

TEST(r155_sizes_must_agree)
{
	struct rlx_model *m = model_of(layer(true));
	struct rlx_runner *r = runner_of(m, "cpu", NULL);
	struct rlx_error err;
	float w[32] = { 0 };

	CHECK_EQ(rlx_runner_set(r, "w", rlx_type(RLX_F32, 4, 8), w, NULL), 0);
	CHECK_EQ(run_pair(r, rlx_type(RLX_F32, 2, 16, 4), rlx_type(RLX_F32, 2, 1, 1), &err), 0);
	CHECK_EQ(run_pair(r, rlx_type(RLX_F32, 2, 16, 4), rlx_type(RLX_F32, 3, 1, 1), &err),
		 RLX_ESHAPE);
	CHECKF(strstr(err.text, "'b' is 2 by 'x' and 3 by 'm'"), "%s", err.text);
	CHECK_EQ(run_pair(r, rlx_type(RLX_F32, 65, 1, 4), rlx_type(RLX_F32, 65, 1, 1), &err),
		 RLX_ERANGE);
	CHECKF(strstr(err.text, "'b' is 65") && strstr(err.text, "1 to 64"), "%s", err.text);
	CHECK_EQ(run_pair(r, rlx_type(RLX_F32, 2, 0, 4), rlx_type(RLX_F32, 2, 1, 1), &err),
		 RLX_ERANGE);
	CHECK_EQ(run_pair(r, rlx_type(RLX_F32, 2, 16, 5), rlx_type(RLX_F32, 2, 1, 1), &err),
		 RLX_ESHAPE);
	CHECKF(strstr(err.text, "'x' is f32[2,16,5]") && strstr(err.text, "f32[b,s,4]"), "%s",
	       err.text);
	CHECK_EQ(run_pair(r, rlx_type(RLX_F32, 2, 16), rlx_type(RLX_F32, 2, 1, 1), &err),
		 RLX_ESHAPE);
	CHECK_EQ(run_pair(r, rlx_type(RLX_F32, 2, 16, -4), rlx_type(RLX_F32, 2, 1, 1), &err),
		 RLX_EINVAL);
	CHECK_EQ(run_pair(r, (struct rlx_type){ RLX_F32, 99, { 0 } }, rlx_type(RLX_F32, 2, 1, 1),
			  &err), RLX_EINVAL);
	CHECK_EQ(run_pair(r, rlx_type(RLX_F32, 2, INT64_MAX, 4), rlx_type(RLX_F32, 2, 1, 1), &err),
		 RLX_EINVAL);
	CHECK_EQ(run_pair(r, rlx_type(RLX_F32, 2, 16, 4), rlx_type(RLX_F32, 2, 1, 1), &err), 0);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* Inputs in another order are the same ones. */
TEST(order_is_no_size)
{
	static const float data[MOST];
	struct rlx_named_tensor in[] = {
		{ "m", rlx_type(RLX_F32, 2, 1, 1), data },
		{ "x", rlx_type(RLX_F32, 2, 3, 4), data },
	}, back[] = { in[1], in[0] };
	struct compiles c = { 0 };
	struct rlx_model *m = model_of(layer(true));
	struct rlx_runner *r = runner_of(m, "cpu", &c);

	CHECK_EQ(rlx_runner_set(r, "w", rlx_type(RLX_F32, 4, 8), data, NULL), 0);
	CHECK_EQ(rlx_runner_run(r, in, 2, NULL), 0);
	CHECK_EQ(rlx_runner_run(r, back, 2, NULL), 0);
	CHECK_EQ(c.n, 1);
	rlx_runner_free(r);
	rlx_model_put(m);
}

TEST(inputs_by_name)
{
	static const float data[MOST];
	struct rlx_named_tensor in[] = {
		{ "m", rlx_type(RLX_F32, 2, 1, 1), data },
		{ "x", rlx_type(RLX_F32, 2, 3, 4), data },
		{ "x", rlx_type(RLX_F32, 2, 3, 4), data }, { "q", rlx_type(RLX_F32, 1), data },
		{ "w", rlx_type(RLX_F32, 4, 8), data },
	};
	struct rlx_model *m = model_of(layer(true));
	struct rlx_runner *r = runner_of(m, "cpu", NULL);
	struct rlx_error err = { 0 };

	CHECK_EQ(rlx_runner_run(r, in, 2, &err), RLX_EINVAL);
	CHECKF(strstr(err.text, "'w'"), "%s", err.text);
	CHECK_EQ(rlx_runner_set(r, "w", rlx_type(RLX_F32, 4, 8), data, NULL), 0);
	CHECK_EQ(rlx_runner_run(r, in, 2, NULL), 0);
	CHECK_EQ(rlx_runner_run(r, in, 1, NULL), RLX_ENOENT);
	CHECK_EQ(rlx_runner_run(r, in, 3, NULL), RLX_EINVAL);
	in[2] = in[3];
	CHECK_EQ(rlx_runner_run(r, in, 3, NULL), RLX_ENOENT);
	in[2] = in[4];		/* no input */
	CHECK_EQ(rlx_runner_run(r, in, 3, NULL), RLX_ENOENT);
	rlx_runner_free(r);
	rlx_model_put(m);
}

TEST(r157_params_before_sizes)
{
	uint64_t seed = rlx_test_seed();
	struct rlx_model *m = model_of(layer(false));
	struct rlx_runner *r = runner_of(m, "cpu", NULL), *c = NULL, *d = NULL;
	struct rlx_error err = { 0 };
	float w[32], v[32];
	double wide[32];
	int i;

	fill(w, 32, &seed);
	fill(v, 32, &seed);
	CHECK_EQ(rlx_runner_set(r, "w", rlx_type(RLX_F32, 4, 7), w, &err), RLX_ESHAPE);
	CHECKF(strstr(err.text, "'w' is f32[4,7]") && strstr(err.text, "f32[4,8]"), "%s", err.text);
	CHECK_EQ(rlx_runner_set(r, "w", rlx_type(RLX_F32, 32), w, NULL), RLX_ESHAPE);
	CHECK_EQ(rlx_runner_set(r, "w", rlx_type(RLX_I32, 4, 8), w, NULL), RLX_ETYPE);
	CHECK_EQ(rlx_runner_set(r, "x", rlx_type(RLX_F32, 4, 8), w, NULL), RLX_ENOENT);
	CHECK_EQ(rlx_runner_set(r, NULL, rlx_type(RLX_F32, 4, 8), w, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_runner_set(r, "w", rlx_type(RLX_F32, 4, 8), NULL, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_runner_set(NULL, "w", rlx_type(RLX_F32, 4, 8), w, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_runner_set(r, "w", rlx_type(RLX_F32, 4, -8), w, NULL), RLX_EINVAL);
	for (i = 0; i < 32; i++)
		wide[i] = (double)w[i];
	CHECK_EQ(rlx_runner_set(r, "w", rlx_type(RLX_F64, 4, 8), wide, NULL), 0);
	CHECK_EQ(rlx_runner_clone(r, &c, NULL), 0);	/* before the first run */
	CHECK_EQ(rlx_runner_clone(NULL, &d, NULL), RLX_EINVAL);
	run(c, 5, 3, w, &seed);
	CHECK_EQ(rlx_runner_set(c, "w", rlx_type(RLX_F32, 4, 8), v, NULL), 0);
	run(r, 5, 3, w, &seed);		/* the clone's new value is the clone's */
	run(c, 5, 3, v, &seed);
	CHECK_EQ(rlx_runner_clone(c, &d, NULL), 0);
	rlx_runner_free(c);
	rlx_runner_free(r);
	run(d, 1, 9, v, &seed);
	rlx_runner_free(d);
	rlx_model_put(m);
}

TEST(r157_types_before_sizes)
{
	struct rlx_model *m = model_of(layer(true));
	struct rlx_model_io io;

	CHECK(rlx_model_io_at(m, RLX_IO_INPUT, 0, &io) && io.rank == 3 && io.dtype == RLX_F32);
	CHECK(io.dim[0] == -1 && !strcmp(io.dim_name[0], "b") && !strcmp(io.dim_name[1], "s"));
	CHECK(io.dim[2] == 4 && !strcmp(io.dim_name[2], ""));
	CHECK(rlx_model_io_at(m, RLX_IO_OUTPUT, 1, &io) && !strcmp(io.name, "z"));
	CHECK(io.dim[1] == -1 && !strcmp(io.dim_name[1], "s") && io.dim[2] == 8);
	rlx_model_put(m);
}

TEST(models_of_graphs)
{
	struct rlx_graph *g = rlx_graph_new("g"), *b = NULL;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 4)), s;
	float data[4] = { -1, 2, -3, 4 };
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 4), data }, y;
	struct rlx_model *m = NULL;
	struct rlx_runner *r;

	/* not finished; then one without names */
	CHECK_EQ(rlx_model_from_graph(g, &m, NULL), RLX_EINVAL);
	rlx_output(g, "y", rlx_emit(g, relu, .x = x));
	m = model_of(finished(rlx_graph_get(g)));
	r = runner_of(m, "cpu", NULL);
	CHECK_EQ(rlx_runner_run(r, &in, 1, NULL), 0);
	CHECK(rlx_runner_output(r, 0, &y) && !memcmp(y.data, (float[]){ 0, 2, 0, 4 }, 16));
	CHECK_EQ(rlx_runner_set(r, "w", in.type, data, NULL), RLX_ENOENT);
	CHECK_EQ(rlx_model_graph(m, &in, 1, &b, NULL), 0);
	CHECK(b == g);
	in.type.dim[0] = 3;
	CHECK_EQ(rlx_runner_run(r, &in, 1, NULL), RLX_ESHAPE);
	rlx_graph_put(b);
	rlx_graph_put(g);
	rlx_runner_free(r);
	rlx_model_put(m);
	/* states are a session's; what failed says why */
	g = rlx_graph_new("s");
	s = rlx_state(g, "s", rlx_type(RLX_F32, 4));
	rlx_state_next(g, s, rlx_emit(g, relu, .x = s));
	rlx_output(g, "y", s);
	CHECK_EQ(rlx_model_from_graph(finished(g), &m, NULL), RLX_ENOSUP);
	rlx_graph_put(g);
	g = rlx_graph_new("f");
	rlx_graph_fail(g, RLX_ETYPE, "why");
	CHECK_EQ(rlx_model_from_graph(g, &m, NULL), RLX_ETYPE);
	rlx_graph_put(g);
}

/* An input that is as large as what a convolution makes: it is known once that is. */
TEST(inputs_of_sizes_that_ops_tell)
{
	static float data[64];
	struct rlx_graph *g = rlx_graph_new("g");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1, 1, 1, rlx_dim(g, "w", 3, 60)));
	rlx_value k = rlx_input(g, "k", rlx_type(RLX_F32, 1, 1, 1, 3));
	rlx_value y = rlx_emit(g, conv, .x = x, .w = k), z;
	struct rlx_named_tensor in[] = {
		{ "x", rlx_type(RLX_F32, 1, 1, 1, 9), data }, { "k", rlx_type(RLX_F32, 1, 1, 1, 3),
		  data }, { "z", rlx_type(RLX_F32, 7), data },
	};
	struct rlx_error err = { 0 };
	struct rlx_model *m;
	struct rlx_runner *r;

	z = rlx_input(g, "z", rlx_type(RLX_F32, rlx_type_of(g, y)->dim[3]));
	rlx_output(g, "y", rlx_emit(g, add, .a = y, .b = z));
	m = model_of(finished(g));
	r = runner_of(m, "cpu", NULL);
	CHECKF(!rlx_runner_run(r, in, 3, &err), "%s", err.text);
	in[2].type.dim[0] = 8;
	CHECK_EQ(rlx_runner_run(r, in, 3, &err), RLX_ESHAPE);
	CHECKF(strstr(err.text, "'z' is f32[8]") && strstr(err.text, "f32[7]"), "%s", err.text);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* Sizes are found in expressions, of one name or of several where the others are known. */
TEST(expressions_are_solved)
{
	static const float data[512];
	struct rlx_graph *g = rlx_graph_new("g");
	int64_t a = rlx_dim(g, "a", 0, 9), b = rlx_dim(g, "b", 1, 9);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, rlx_dim_mul(g, a, b)));
	rlx_value y = rlx_input(g, "y", rlx_type(RLX_F32, rlx_dim_add(g, rlx_dim_mul(g, 2, b),
								      -1)));
	struct rlx_named_tensor in[] = {
		{ "x", rlx_type(RLX_F32, 12), data }, { "y", rlx_type(RLX_F32, 5), data },
	}, out;
	struct rlx_error err = { 0 };
	struct rlx_model *m;
	struct rlx_runner *r;

	rlx_output(g, "z", rlx_emit(g, concat, .xs = RLX_VALUES(x, y), .axis = 0));
	rlx_output(g, "m", rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(a, b)));
	m = model_of(finished(g));
	r = runner_of(m, "cpu", NULL);
	CHECKF(!rlx_runner_run(r, in, 2, &err), "%s", err.text);
	CHECK(rlx_runner_output(r, 0, &out) && out.type.dim[0] == 17);
	CHECK(rlx_runner_output(r, 1, &out) && out.type.dim[0] == 4 && out.type.dim[1] == 3);
	in[0].type.dim[0] = 0;
	CHECKF(!rlx_runner_run(r, in, 2, &err), "%s", err.text);	/* a is 0 */
	in[0].type.dim[0] = 11;
	CHECK_EQ(rlx_runner_run(r, in, 2, &err), RLX_ESHAPE);	/* no multiple of 3 */
	CHECKF(strstr(err.text, "'x' is f32[11]") && strstr(err.text, "f32[(a*b)]"), "%s",
	       err.text);
	in[1].type.dim[0] = 6;
	CHECK_EQ(rlx_runner_run(r, in, 2, NULL), RLX_ESHAPE);
	rlx_runner_free(r);
	rlx_model_put(m);
	/* nobody tells c */
	g = rlx_graph_new("g");
	a = rlx_dim(g, "c", 1, 9);
	x = rlx_input(g, "x", rlx_type(RLX_F32, rlx_dim_mul(g, a, rlx_dim(g, "d", 1, 9))));
	rlx_output(g, "y", rlx_emit(g, relu, .x = x));
	m = model_of(finished(g));
	r = runner_of(m, "cpu", NULL);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_runner_run(r, in, 1, &err), RLX_EINVAL);
	CHECKF(strstr(err.text, "'c'") && strstr(err.text, "follows from no input"), "%s",
	       err.text);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* 8 - b: a factor of -1 is inverted as others are. */
TEST(a_difference_is_solved)
{
	static const float data[16];
	struct rlx_graph *g = rlx_graph_new("g");
	int64_t b = rlx_dim(g, "b", 1, 8);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, rlx_dim_add(g, 8, rlx_dim_mul(g, b,
											-1))));
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 5), data }, y;
	struct rlx_error err = { 0 };
	struct rlx_model *m;
	struct rlx_runner *r;

	rlx_output(g, "x", rlx_emit(g, relu, .x = x));
	rlx_output(g, "y", rlx_emit(g, iota, .type = rlx_type(RLX_F32, b)));
	m = model_of(finished(g));
	r = runner_of(m, "cpu", NULL);
	CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
	CHECK(rlx_runner_output(r, 1, &y) && y.type.dim[0] == 3);
	in.type.dim[0] = 9;	/* b would be -1 */
	CHECK_EQ(rlx_runner_run(r, &in, 1, NULL), RLX_ERANGE);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* A session that is run without the runner has what is set; what others have it does not write. */
TEST(lent_sessions_have_what_is_set)
{
	static const char *const device[] = { "cpu", "ref" };
	struct rlx_model *m = model_of(layer(false));
	float w[32], v[32], x[4] = { 1, 0, 0, 0 }, y[8];
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 1, 1, 4), x };
	struct rlx_type type = rlx_type(RLX_F32, 4, 8);
	uint64_t seed = rlx_test_seed();
	struct rlx_runner *r, *c = NULL;
	struct rlx_session *s;
	int i;

	for (i = 0; i < 32; i++) {
		w[i] = (float)i;
		v[i] = (float)(100 + i);
	}
	for (i = 0; i < 2; i++) {
		r = runner_of(m, device[i], NULL);
		CHECK_EQ(rlx_runner_set(r, "w", type, w, NULL), 0);
		CHECK_EQ(rlx_runner_clone(r, &c, NULL), 0);
		s = rlx_runner_session(r, &in, 1, NULL);
		CHECK(s);
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", in.type, x), 0);
		CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "w", type, v), RLX_EACCES);
		run(c, 2, 3, w, &seed);
		CHECK_EQ(rlx_session_run(s), 0);
		CHECK_EQ(rlx_runner_set(r, "w", type, v, NULL), 0);
		CHECK_EQ(rlx_session_run(s), 0);
		CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, 1, 1, 8), y), 0);
		CHECKF(!memcmp(y, v, sizeof(y)), "%s: y[0] is %g, not %g", device[i],
		       (double)y[0], (double)v[0]);
		run(r, 1, 1, v, &seed);
		run(c, 1, 1, w, &seed);
		rlx_runner_free(c);
		rlx_runner_free(r);
	}
	rlx_model_put(m);
}

/* Its param is as long as s, so it tells s, and the inputs have to agree. */
TEST(params_of_named_sizes)
{
	struct rlx_graph *g = rlx_graph_new("table");
	int64_t s = rlx_dim(g, "s", 1, 16);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, s));
	rlx_value t = rlx_param(g, "t", rlx_type(RLX_F32, s));
	rlx_value u = rlx_param(g, "u", rlx_type(RLX_F32, s));
	float a[16] = { 1, 2, 3 }, b[16] = { 10, 20, 30, 40 };
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 3), a }, y;
	struct rlx_error err = { 0 };
	struct rlx_model *m;
	struct rlx_runner *r;

	rlx_output(g, "y", rlx_emit(g, add, .a = rlx_emit(g, add, .a = x, .b = t), .b = u));
	m = model_of(finished(g));
	r = runner_of(m, "cpu", NULL);
	CHECK_EQ(rlx_runner_set(r, "t", rlx_type(RLX_F32, 17), a, NULL), RLX_ERANGE);
	CHECK_EQ(rlx_runner_set(r, "t", rlx_type(RLX_F32, 3), b, NULL), 0);
	CHECK_EQ(rlx_runner_set(r, "u", rlx_type(RLX_F32, 4), b, &err), RLX_ESHAPE);
	CHECKF(strstr(err.text, "'s' is 3 by 't' and 4 by 'u'"), "%s", err.text);
	CHECK_EQ(rlx_runner_set(r, "u", rlx_type(RLX_F32, 3), b, NULL), 0);
	CHECK_EQ(rlx_runner_run(r, &in, 1, NULL), 0);
	CHECK(rlx_runner_output(r, 0, &y) && ((const float *)y.data)[2] == 63);
	in.type.dim[0] = 4;
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_runner_run(r, &in, 1, &err), RLX_ESHAPE);
	CHECKF(strstr(err.text, "'s'") && strstr(err.text, "'x'") && strstr(err.text, "'t'"),
	       "%s", err.text);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* A session for a shape that the param no longer has keeps what it had. */
TEST(lent_sessions_of_other_shapes)
{
	struct rlx_graph *g = rlx_graph_new("table");
	int64_t s = rlx_dim(g, "s", 1, 16);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, s));
	rlx_value t = rlx_param(g, "t", rlx_type(RLX_F32, s));
	float a[4] = { 1, 2, 3 }, b[4] = { 10, 20, 30, 40 }, c[4] = { 5, 6, 7, 8 }, y[3];
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 3), a };
	struct rlx_session *lent;
	struct rlx_model *m;
	struct rlx_runner *r;

	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = t));
	m = model_of(finished(g));
	r = runner_of(m, "cpu", NULL);
	CHECK_EQ(rlx_runner_set(r, "t", rlx_type(RLX_F32, 3), b, NULL), 0);
	lent = rlx_runner_session(r, &in, 1, NULL);
	CHECK(lent && !rlx_session_set(lent, RLX_IO_INPUT, "x", in.type, a));
	CHECK_EQ(rlx_runner_set(r, "t", rlx_type(RLX_F32, 4), c, NULL), 0);
	CHECK_EQ(rlx_session_run(lent), 0);
	CHECK_EQ(rlx_session_get(lent, RLX_IO_OUTPUT, "y", in.type, y), 0);
	CHECK(y[0] == 11 && y[1] == 22 && y[2] == 33);
	CHECK_EQ(rlx_runner_set(r, "t", rlx_type(RLX_F32, 3), c, NULL), 0);
	CHECK_EQ(rlx_session_run(lent), 0);
	CHECK_EQ(rlx_session_get(lent, RLX_IO_OUTPUT, "y", in.type, y), 0);
	CHECK(y[0] == 6 && y[1] == 8 && y[2] == 10);
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* More biases than a process may have open files. */
TEST(small_params_take_no_descriptors)
{
	enum { MANY = 300, EACH = 16 };
	struct rlx_graph *g = rlx_graph_new("biases");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, rlx_dim(g, "b", 1, 8), EACH));
	float w[EACH], data[2 * EACH], sum[2 * EACH];
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 2, EACH), data }, y;
	uint64_t seed = rlx_test_seed();
	struct rlx_error err = { 0 };
	struct rlimit was, few;
	struct rlx_model *m;
	struct rlx_runner *r;
	char name[16];
	int i, k;

	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "w%d", i);
		x = rlx_emit(g, add, .a = x, .b = rlx_param(g, name, rlx_type(RLX_F32, EACH)));
	}
	rlx_output(g, "y", x);
	m = model_of(finished(g));
	r = runner_of(m, "cpu", NULL);
	fill(data, 2 * EACH, &seed);
	memcpy(sum, data, sizeof(sum));
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = was;
	few.rlim_cur = 256;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (i = 0; i < MANY; i++) {
		fill(w, EACH, &seed);
		for (k = 0; k < 2 * EACH; k++)
			sum[k] += w[k % EACH];
		snprintf(name, sizeof(name), "w%d", i);
		CHECKF(!rlx_runner_set(r, name, rlx_type(RLX_F32, EACH), w, &err), "%s: %s", name,
		       err.text);
	}
	CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &was), 0);
	CHECK(rlx_runner_output(r, 0, &y) && !memcmp(y.data, sum, sizeof(sum)));
	rlx_runner_free(r);
	rlx_model_put(m);
}

/* A param that comes in many shapes is kept in none but those of now and of the last run. */
TEST(params_of_other_shapes_go)
{
	enum { LEAST = 1 << 16, SHAPES = 8 };
	struct rlx_graph *g = rlx_graph_new("g");
	int64_t n = rlx_dim(g, "n", 1, 2 * LEAST);
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1, n));
	static float w[(LEAST + SHAPES) * 8], data[LEAST + SHAPES];
	struct compiles c = { 0 };
	struct rlx_error err = { 0 };
	unsigned int fds = 0, i;
	struct rlx_model *m;
	struct rlx_runner *r;
	int64_t k;

	rlx_output(g, "y", rlx_emit(g, matmul, .a = x,
				    .b = rlx_param(g, "w", rlx_type(RLX_F32, n, 8))));
	m = model_of(finished(g));
	r = runner_of(m, "cpu", &c);
	for (i = 0; i < 2 * SHAPES; i++) {	/* each twice: it is compiled once */
		struct rlx_named_tensor in = {
			"x", rlx_type(RLX_F32, 1, LEAST + i % SHAPES), data,
		}, y;

		for (k = 0; k < 8; k++)
			w[k] = (float)(i + k);
		data[0] = 2;
		CHECKF(!rlx_runner_set(r, "w", rlx_type(RLX_F32, in.type.dim[1], 8), w, &err),
		       "%s", err.text);
		if (i)		/* of the last run, still */
			CHECK(rlx_runner_output(r, 0, &y) &&
			      ((const float *)y.data)[1] == 2 * (float)i);
		CHECKF(!rlx_runner_run(r, &in, 1, &err), "%s", err.text);
		CHECK(rlx_runner_output(r, 0, &y));
		for (k = 0; k < 8; k++)
			CHECK(((const float *)y.data)[k] == 2 * (float)(i + k));
		if (i == 1)
			fds = rlx_oom_fds();
		CHECKF(i < 2 || rlx_oom_fds() <= fds, "%u descriptors, %u before", rlx_oom_fds(),
		       fds);
	}
	CHECK_EQ(c.n, SHAPES);
	rlx_runner_free(r);
	rlx_model_put(m);
}

TEST_MAIN()
