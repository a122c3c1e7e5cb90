// SPDX-License-Identifier: MIT
/* NULL and rubbish to the public calls: an error that names the thing, no crash. */
#include "rlx/device.h"
#include "rlx/model.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

static const char *const devices[] = { "cpu", "ref" };

TEST(null_graphs)
{
	struct rlx_graph *g = NULL;
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2));
	struct rlx_error err = { 0 };
	struct rlx_program *p = (void *)1;

	CHECK(!x.id && !rlx_param(g, "w", rlx_type(RLX_F32, 2)).id);
	CHECK(!rlx_emit(g, add, .a = x, .b = x).id);
	CHECK(!rlx_scalar_const(g, RLX_F32, 1).id);
	CHECK(!rlx_constant(g, rlx_type(RLX_F32, 2), NULL).id);
	CHECK(!rlx_constant_blob(g, rlx_type(RLX_F32, 2), NULL).id);
	rlx_output(g, "y", x);
	CHECK_EQ(rlx_graph_finish(g), RLX_ENOMEM);
	CHECK(!rlx_out(g, x, 0).id && !rlx_type_of(g, x));
	CHECK_EQ(rlx_graph_size(g), 0);
	CHECK_EQ(rlx_graph_io_count(g, RLX_IO_INPUT), 0);
	CHECK(!rlx_graph_io_name(g, RLX_IO_INPUT, 0));
	CHECK(!rlx_graph_io_value(g, RLX_IO_INPUT, 0).id);
	CHECK(rlx_graph_print(g, stdout, false));
	CHECK(rlx_graph_dot(g, stdout));
	CHECK(rlx_graph_svg(g, stdout));
	rlx_graph_hash(g);
	CHECK(!rlx_graph_get(g));
	rlx_graph_put(g);
	CHECK_EQ(rlx_compile(g, NULL, &p, &err), RLX_ENOMEM);
	CHECK(!p && err.text[0]);
	CHECK_EQ(rlx_graph_parse(NULL, 0, &g, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_graph_parse("x", 1, NULL, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_graph_parse("", 0, &g, NULL), RLX_EPARSE);
}

TEST(null_blobs_and_types)
{
	rlx_blob_put(NULL);
	CHECK(!rlx_blob_get(NULL));
	CHECK(!rlx_blob_data(NULL));
	CHECK_EQ(rlx_blob_bytes(NULL), 0);
	CHECK(rlx_status_name((enum rlx_status)12345));
	CHECK_EQ(rlx_error_set(NULL, RLX_EINVAL, NULL, 0, "%s", "nobody hears"), RLX_EINVAL);
}

TEST(null_programs_and_sessions)
{
	struct rlx_type t = rlx_type(RLX_F32, 1);
	struct rlx_program_info info;
	struct rlx_session *s = (void *)1;
	struct rlx_error err = { 0 };
	uint64_t point;
	float f;

	CHECK_EQ(rlx_program_io_count(NULL, RLX_IO_INPUT), 0);
	CHECK(!rlx_program_io_name(NULL, RLX_IO_INPUT, 0));
	CHECK(!rlx_program_io_type(NULL, RLX_IO_INPUT, 0));
	CHECK_EQ(rlx_program_io_find(NULL, RLX_IO_INPUT, "x"), -1);
	rlx_program_info(NULL, &info);
	CHECK_STR(info.device, "");
	CHECK_EQ(rlx_program_report(NULL, stdout), RLX_EINVAL);
	CHECK_EQ(rlx_program_print(NULL, stdout), RLX_EINVAL);
	CHECK_EQ(rlx_program_svg(NULL, stdout), RLX_EINVAL);
	CHECK_EQ(rlx_program_place(NULL, RLX_NONE, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_program_step(NULL, 0, NULL), RLX_EINVAL);
	CHECK(!rlx_program_graph(NULL) && !rlx_program_get(NULL));
	rlx_program_put(NULL);
	CHECK_EQ(rlx_session_new(NULL, NULL, &s, &err), RLX_EINVAL);
	CHECK(err.text[0]);
	CHECK_EQ(rlx_session_clone(NULL, &s, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_session_clone_with(NULL, 0, &s, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_session_bind(NULL, RLX_IO_INPUT, "x", (struct rlx_buf){ 0 }), RLX_EINVAL);
	CHECK(!rlx_session_buf(NULL, RLX_IO_INPUT, "x").arena);
	CHECK_EQ(rlx_session_set(NULL, RLX_IO_INPUT, "x", t, &f), RLX_EINVAL);
	CHECK_EQ(rlx_session_get(NULL, RLX_IO_INPUT, "x", t, &f), RLX_EINVAL);
	CHECK_EQ(rlx_session_rows(NULL, "x", 0, 1, &f, 4), RLX_EINVAL);
	CHECK_EQ(rlx_session_want(NULL, NULL, 0), RLX_EINVAL);
	CHECK_EQ(rlx_session_feed(NULL, "y", "x"), RLX_EINVAL);
	CHECK_EQ(rlx_session_run(NULL), RLX_EINVAL);
	CHECK_EQ(rlx_session_submit(NULL, &point), RLX_EINVAL);
	CHECK_EQ(rlx_session_wait(NULL, 1, -1), RLX_EINVAL);
	CHECK(!rlx_session_program(NULL));
	CHECK_EQ(rlx_session_error(NULL)->status, RLX_EINVAL);
	rlx_session_free(NULL);
}

TEST(null_arenas_and_models)
{
	struct rlx_model *m = (void *)1;
	struct rlx_runner *r = (void *)1;
	struct rlx_graph *g = (void *)1;
	struct rlx_arena *a = (void *)1;
	struct rlx_buf b = { 0 };
	struct rlx_error err = { 0 };
	struct rlx_model_io io;
	struct rlx_named_tensor out;

	CHECK_EQ(rlx_arena_new(NULL, &a, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_arena_open_fd(-1, 0, &a, NULL), RLX_EBADFD);
	CHECK_EQ(rlx_arena_wrap(NULL, &a, NULL), RLX_EINVAL);
	CHECK(!rlx_arena_get(NULL));
	rlx_arena_put(NULL);
	CHECK_EQ(rlx_buf_new(NULL, 1, 64, &b, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_buf_free(b, NULL), 0);	/* empty: nothing was taken */
	CHECK(!rlx_buf_ptr(b));
	CHECK_EQ(rlx_buf_slice(b, 0, 1, &b, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_device_list(NULL, 5), rlx_device_list(NULL, 0));
	CHECK(rlx_device_list(NULL, 0) >= 3);

	CHECK_EQ(rlx_model_open(NULL, &m, &err), RLX_EINVAL);
	CHECK_EQ(rlx_model_open("/nonexistent/model.onnx", &m, NULL), RLX_ENOENT);
	CHECK_EQ(rlx_model_io_count(NULL, RLX_IO_INPUT), 0);
	CHECK(!rlx_model_io_at(NULL, RLX_IO_INPUT, 0, &io));
	CHECK_EQ(rlx_model_graph(NULL, NULL, 0, &g, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_model_from_graph(NULL, &m, NULL), RLX_ENOMEM);	/* rlx_graph_new()'s */
	CHECK_EQ(rlx_model_from_graph(NULL, NULL, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_runner_new(NULL, NULL, &r, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_runner_set(NULL, "w", rlx_type(RLX_F32, 1), &b, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_runner_clone(NULL, &r, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_runner_run(NULL, NULL, 0, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_runner_prepare(NULL, NULL, 0, NULL, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_runner_wait(NULL, 1, -1, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_runner_output_count(NULL), 0);
	CHECK(!rlx_runner_output(NULL, 0, &out));
	CHECK(!rlx_runner_session(NULL, NULL, 0, NULL));
	rlx_runner_free(NULL);
	CHECK(!rlx_model_get(NULL));
	rlx_model_put(NULL);
}

/* The graph has the status, and the message has the word. */
static void refused(struct rlx_graph *g, enum rlx_status st, const char *word)
{
	const struct rlx_error *e = rlx_graph_error(g);

	CHECK(rlx_graph_finish(g));
	CHECKF(e->status == st, "%s, not %s: %s", rlx_status_name(e->status),
	       rlx_status_name(st), e->text);
	CHECKF(strstr(e->text, word), "'%s' is not in: %s", word, e->text);
	CHECK_EQ(rlx_graph_finish(g), st);
	rlx_graph_put(g);
}

static struct rlx_graph *start(rlx_value *x)
{
	struct rlx_graph *g = rlx_graph_new("g");

	*x = rlx_input(g, "x", rlx_type(RLX_F32, 4, 4));
	return g;
}

TEST(values_of_elsewhere)
{
	struct rlx_graph *g, *other;
	rlx_value x, y;

	g = start(&x);
	rlx_emit(g, add, .a = x, .b = { 77 });
	CHECK(rlx_graph_error(g)->line == __LINE__ - 1);
	CHECK(strstr(rlx_graph_error(g)->file, "api.c"));
	refused(g, RLX_EINVAL, "another graph");
	g = start(&x);
	rlx_emit(g, add, .a = x, .b = { UINT32_MAX });
	refused(g, RLX_EINVAL, "another graph");
	g = start(&x);
	rlx_emit(g, add, .a = x);
	refused(g, RLX_EINVAL, "'b' is missing");
	g = start(&x);
	rlx_output(g, "y", (rlx_value){ 99 });
	refused(g, RLX_EINVAL, "'y'");
	g = start(&x);
	rlx_output(g, NULL, x);
	refused(g, RLX_EINVAL, "name");
	g = start(&x);
	rlx_emit(g, transpose, .x = x, .perm = { NULL, 2 });
	refused(g, RLX_EINVAL, "'perm'");
	g = start(&x);
	rlx_emit(g, concat, .xs = { NULL, 3 });
	refused(g, RLX_EINVAL, "concat");
	/* ids run on: a value of a larger graph is not one of a smaller */
	other = start(&y);
	y = rlx_emit(other, neg, .x = rlx_emit(other, neg, .x = y));
	g = start(&x);
	rlx_emit(g, add, .a = x, .b = y);
	refused(g, RLX_EINVAL, "another graph");
	rlx_graph_put(other);
}

TEST(finished_and_empty_graphs)
{
	struct rlx_graph *g;
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	rlx_value x;

	g = start(&x);
	CHECK_EQ(rlx_compile(g, NULL, &p, &err), RLX_EINVAL);
	CHECK(strstr(err.text, "not finished"));
	refused(g, RLX_EINVAL, "outputs");
	g = start(&x);
	rlx_output(g, "y", x);
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECK(!rlx_emit(g, neg, .x = x).id);
	refused(g, RLX_EINVAL, "finished");
	g = start(&x);
	rlx_input(g, "x", rlx_type(RLX_F32, 1));
	refused(g, RLX_EEXIST, "'x'");
	g = start(&x);
	rlx_input(g, "", rlx_type(RLX_F32, 1));
	refused(g, RLX_EINVAL, "name");
	g = start(&x);
	rlx_output(g, "y", x);
	rlx_output(g, "y", x);
	refused(g, RLX_EEXIST, "'y'");
	g = start(&x);
	rlx_output(g, "y", x);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECK_EQ(rlx_compile(g, &(struct rlx_compile_opts){ .device = "cpu" }, &p, &err),
		 RLX_EINVAL);
	CHECK(strstr(err.text, "size"));
	CHECK_EQ(rlx_compile(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = "warp" }, &p, NULL),
		RLX_ENODEV);
	CHECK_EQ(rlx_compile(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts),
		.precision = (enum rlx_precision)99 }, &p, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_compile(g, NULL, NULL, NULL), RLX_EINVAL);
	rlx_graph_put(g);
}

static struct rlx_type shaped(enum rlx_dtype dt, uint32_t rank, int64_t dim)
{
	struct rlx_type t = { .dtype = dt, .rank = rank };
	uint32_t i;

	for (i = 0; i < rank && i < RLX_MAX_RANK; i++)
		t.dim[i] = dim;
	return t;
}

TEST(absurd_types)
{
	static const struct {
		enum rlx_dtype	dt;
		uint32_t	rank;
		int64_t		dim;
	} bad[] = {
		{ RLX_F32, 1, -1 }, { RLX_F32, 2, INT64_MIN }, { RLX_F32, 1, INT64_MAX },
		{ RLX_F32, 2, 1ll << 40 }, { RLX_F64, 1, 1ll << 62 },
		{ RLX_F32, RLX_MAX_RANK + 1, 1 }, { RLX_F32, UINT32_MAX, 1 },
		{ RLX_NODTYPE, 1, 1 }, { (enum rlx_dtype)200, 1, 1 },
		{ (enum rlx_dtype)-1, 1, 1 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct rlx_type t = shaped(bad[i].dt, bad[i].rank, bad[i].dim);
		struct rlx_graph *g = rlx_graph_new("bad");
		char byte[16] = { 0 };

		CHECKF(!rlx_input_at(g, "x", t, __FILE__, __LINE__).id, "type %u", i);
		CHECK(rlx_graph_error(g)->status && rlx_graph_error(g)->text[0]);
		rlx_graph_put(g);
		g = rlx_graph_new("bad");
		CHECKF(!rlx_constant(g, t, byte).id, "constant of type %u", i);
		CHECK(rlx_graph_error(g)->status && rlx_graph_error(g)->text[0]);
		rlx_graph_put(g);
	}
}

/* Inputs that exist, and results that no machine holds or that overflow. */
TEST(absurd_results)
{
	struct rlx_graph *g;
	rlx_value x;

	g = start(&x);
	rlx_emit(g, expand, .x = x, .shape = RLX_INTS(1ll << 40, 1ll << 40, 4, 4));
	CHECK(rlx_graph_error(g)->status);
	rlx_graph_put(g);
	g = start(&x);
	rlx_emit(g, tile, .x = x, .repeats = RLX_INTS(INT64_MAX, INT64_MAX));
	CHECK(rlx_graph_error(g)->status);
	rlx_graph_put(g);
	g = start(&x);
	rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(-1, -1));
	CHECK(rlx_graph_error(g)->status);
	rlx_graph_put(g);
	g = start(&x);
	rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(INT64_MIN, 2));
	CHECK(rlx_graph_error(g)->status);
	rlx_graph_put(g);
	g = start(&x);
	rlx_emit(g, softmax, .x = x, .axis = INT32_MIN);
	CHECK(rlx_graph_error(g)->status);
	rlx_graph_put(g);
	g = start(&x);
	rlx_emit(g, transpose, .x = x, .perm = RLX_INTS(1, 1));
	CHECK(rlx_graph_error(g)->status);
	rlx_graph_put(g);
	g = start(&x);
	rlx_emit(g, conv, .x = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(1, 1, 4, 4)),
		 .w = rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(4, 1, 2, 2)),
		 .pad = RLX_INTS(INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX),
		 .stride = RLX_INTS(0, -1), .dilation = RLX_INTS(INT64_MAX, 1));
	CHECK(rlx_graph_error(g)->status);
	rlx_graph_put(g);
	g = start(&x);
	rlx_emit(g, matmul, .a = x, .b = rlx_emit(g, reshape, .x = x,
						  .shape = RLX_INTS(2, 8)));
	refused(g, RLX_ESHAPE, "matmul");
	g = start(&x);
	x = rlx_emit(g, cast, .x = x, .to = RLX_BOOL);
	rlx_emit(g, matmul, .a = x, .b = x);
	refused(g, RLX_ETYPE, "matmul");
}

/* 2^60 bytes are a size; that they cannot be had is told at the session. */
TEST(a_workspace_no_machine_has)
{
	struct rlx_graph *g = rlx_graph_new("huge");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 1ll << 29, 1ll << 29));
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st;

	rlx_output(g, "y", rlx_emit(g, softmax, .x = rlx_emit(g, neg, .x = x), .axis = 0));
	CHECK_EQ(rlx_graph_finish(g), 0);
	st = rlx_compile(g, NULL, &p, &err);
	if (!st)
		st = rlx_session_new(p, NULL, &s, &err);
	CHECKF(st == RLX_ENOMEM || st == RLX_ERANGE, "%s", rlx_status_name(st));
	CHECK(err.text[0] && !s);
	rlx_program_put(p);
	rlx_graph_put(g);
}

static struct rlx_session *session(struct rlx_graph *g, const char *device)
{
	return rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = device });
}

static float *output(struct rlx_session *s, const char *name)
{
	float *p = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, name));

	CHECK(p);
	return p;
}

/* Tensors of no elements through everything; sums over nothing are 0. */
static struct rlx_graph *zero_graph(void)
{
	struct rlx_graph *g = rlx_graph_new("zero");
	rlx_value a = rlx_input(g, "a", rlx_type(RLX_F32, 3, 0));
	rlx_value b = rlx_input(g, "b", rlx_type(RLX_F32, 0, 5));
	rlx_value img = rlx_input(g, "img", rlx_type(RLX_F32, 0, 2, 6, 6));
	rlx_value w = rlx_input(g, "w", rlx_type(RLX_F32, 4, 2, 3, 3));
	rlx_value full = rlx_input(g, "full", rlx_type(RLX_F32, 3, 5));
	rlx_value none = rlx_emit(g, matmul, .a = b, .b = rlx_emit(g, transpose, .x = full));

	rlx_output(g, "ab", rlx_emit(g, matmul, .a = a, .b = b));
	rlx_output(g, "none", none);
	rlx_output(g, "conv", rlx_emit(g, relu, .x = rlx_emit(g, conv, .x = img, .w = w)));
	rlx_output(g, "pool", rlx_emit(g, pool, .x = img, .kind = RLX_POOL_MAX,
				       .kernel = RLX_INTS(2, 2)));
	rlx_output(g, "soft", rlx_emit(g, softmax, .x = b, .axis = -1));
	rlx_output(g, "soft0", rlx_emit(g, softmax, .x = b, .axis = 0));
	rlx_output(g, "norm", rlx_emit(g, layer_norm, .x = b, .axis = -1, .eps = 1e-5f));
	rlx_output(g, "sum", rlx_emit(g, reduce, .x = a, .axes = RLX_INTS(1),
				      .kind = RLX_REDUCE_SUM));
	rlx_output(g, "cat", rlx_emit(g, concat, .axis = 0, .xs = RLX_VALUES(b, full, b)));
	rlx_output(g, "ew", rlx_emit(g, exp, .x = rlx_emit(g, add, .a = b, .b = b)));
	rlx_output(g, "cast", rlx_emit(g, cast, .x = b, .to = RLX_I64));
	rlx_output(g, "slice", rlx_emit(g, slice, .x = full, .axes = RLX_INTS(0),
					.starts = RLX_INTS(2), .ends = RLX_INTS(1)));
	return g;
}

TEST(zero_size_tensors)
{
	unsigned int d, i;

	for (d = 0; d < 2; d++) {
		struct rlx_session *s = session(zero_graph(), devices[d]);
		float *full = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "full"));

		for (i = 0; i < 15; i++)
			full[i] = (float)i;
		CHECK(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "a")));
		CHECK(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "b")));
		CHECK(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "img")));
		memset(rlx_buf_ptr(rlx_session_buf(s, RLX_IO_INPUT, "w")), 0, 288);
		memset(output(s, "ab"), 0xa5, 60);
		memset(output(s, "sum"), 0xa5, 12);
		CHECKF(!rlx_session_run(s), "%s: %s", devices[d], rlx_session_error(s)->text);
		for (i = 0; i < 15; i++) {
			CHECKF(output(s, "ab")[i] == 0, "%s: ab[%u]", devices[d], i);
			CHECKF(output(s, "cat")[i] == (float)i, "%s: cat[%u]", devices[d], i);
		}
		for (i = 0; i < 3; i++)
			CHECKF(output(s, "sum")[i] == 0, "%s: sum[%u]", devices[d], i);
		rlx_session_free(s);
	}
}

TEST(rank_0)
{
	unsigned int d;

	for (d = 0; d < 2; d++) {
		struct rlx_graph *g = rlx_graph_new("scalar");
		rlx_value x = rlx_input(g, "x", rlx_scalar(RLX_F32));
		struct rlx_session *s;
		float f = 3, y = 0;

		rlx_output(g, "y", rlx_emit(g, add, .a = rlx_emit(g, mul, .a = x, .b = x),
					    .b = rlx_scalar_const(g, RLX_F32, 1)));
		rlx_output(g, "r", rlx_emit(g, reshape, .x = x, .shape = RLX_INTS(1, 1)));
		rlx_output(g, "s", rlx_emit(g, reduce, .x = x, .kind = RLX_REDUCE_SUM));
		s = session(g, devices[d]);
		CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_scalar(RLX_F32), &f), 0);
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_scalar(RLX_F32), &y), 0);
		CHECK_EQ(y, 10);
		CHECK_EQ(output(s, "r")[0], 3);
		CHECK_EQ(output(s, "s")[0], 3);
		CHECK_EQ(rlx_session_rows(s, "y", 0, 1, &y, 4), RLX_ERANGE);
		CHECK_EQ(rlx_session_extent(s, 1, 2), RLX_ESHAPE);
		CHECK_EQ(rlx_session_run(s), 0);
		CHECK_EQ(output(s, "y")[0], 10);
		rlx_session_free(s);
	}
}

TEST_MAIN()
