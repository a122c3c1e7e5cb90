// SPDX-License-Identifier: MIT
/* The PJRT device: plugins that are none, what is copied, params, precision, text of modules. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "backends/pjrt/pjrt.h"
#include "base/alloc.h"
#include "rlx/device.h"
#include "rlx/ops.h"
#include "rlx/run.h"
#include "selftests/lib/comma.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/pjrt/fake/answers.h"

enum { N = 1000 };

static void need_plugin(void)
{
	if (!getenv("RLX_PJRT_PLUGIN"))
		rlx_test_skip("no RLX_PJRT_PLUGIN");
}

static void check_why(const char *plugin, const char *says)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "pjrt" };
	struct rlx_graph *g = rlx_graph_new("g");
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	setenv("RLX_PJRT_PLUGIN", plugin, 1);
	CHECKF(strstr(rlx_device_why("pjrt"), says), "%s", rlx_device_why("pjrt"));
	rlx_output(g, "y", rlx_emit(g, relu, .x = rlx_input(g, "x", rlx_type(RLX_F32, 4))));
	CHECK(!rlx_graph_finish(g));
	CHECK_EQ(rlx_compile(g, &o, &p, &err), RLX_ENODEV);
	CHECKF(strstr(err.text, says), "%s", err.text);
	rlx_graph_put(g);
}

TEST(without_a_plugin)
{
	unsetenv("RLX_PJRT_PLUGIN");
	CHECK(strstr(rlx_device_why("pjrt"), "set RLX_PJRT_PLUGIN"));
	check_why("/nowhere/plugin.so", "/nowhere/plugin.so");
	check_why("/dev/null", "/dev/null");
	check_why("libm.so.6", "no path");
	check_why("/proc/self/../self/exe", "exe");
}

/* Beside this program; opened anew, by the number @i, it has a new path each time. */
static void fake_plugin(const char *mode, unsigned int i, char path[static 512])
{
	char self[400];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	CHECK(n > 0);
	self[n] = 0;
	*strrchr(self, '/') = 0;
	snprintf(path, 512, "%s/%.*sfake_plugin.so", self, (int)(2 * i), "./././././././");
	setenv("RLX_TEST_FAKE", mode, 1);
}

TEST(plugins_that_cannot_be_used)
{
	static const struct { const char *mode, *says; } t[] = {
		{ "none", "GetPjrtApi" }, { "old", "API 0.89" }, { "short", "a table of" },
		{ "holes", "lacks function 10" }, { "mute", "opening its device: " },
		{ "message", "opening its device: hello" }, { "empty", "no device" },
	};
	char path[512];
	unsigned int i;

	for (i = 0; i < sizeof(t) / sizeof(*t); i++) {
		fake_plugin(t[i].mode, i, path);
		check_why(path, t[i].says);
		CHECK(!strstr(rlx_device_why("pjrt"), "?!"));
	}
}

static struct rlx_program *must_compile(struct rlx_graph *g)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "pjrt",
				      .flags = RLX_COMPILE_NATIVE };
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	CHECK(!rlx_graph_finish(g));
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	rlx_graph_put(g);
	return p;
}

/* At an address that the plugin does not use in place: 3 runs bring it once, a touch again. */
TEST(stable_inputs_are_brought_once)
{
	struct rlx_type t = rlx_type(RLX_F32, N);
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	struct rlx_arena *a = NULL;
	struct rlx_program *p;
	struct rlx_graph *g;
	float *x, y[N];
	uint32_t at;
	int run, i;

	need_plugin();
	g = rlx_graph_new("line");
	rlx_output(g, "y", rlx_emit(g, mul, .a = rlx_input(g, "x", t),
				    .b = rlx_scalar_const(g, RLX_F32, 2)));
	p = must_compile(g);
	CHECK(!rlx_session_new(p, NULL, &s, &err));
	CHECK(!rlx_arena_new(&(struct rlx_arena_opts){ .size = 4 * N + 64 }, &a, &err));
	x = (float *)rlx_arena_base(a) + 1;
	CHECK(!rlx_session_bind_stable(s, RLX_IO_INPUT, "x", (struct rlx_buf){ a, 4, 4 * N }));
	for (run = 0; run < 6; run++) {
		for (i = 0; i < N && run % 3 == 0; i++)
			x[i] = (float)(i + run);
		if (run == 3)
			CHECK(!rlx_session_touch(s, RLX_IO_INPUT, "x"));
		CHECK(!rlx_session_where(s, RLX_IO_INPUT, "x", &at));
		CHECK_EQ(at, RLX_WHERE_HOST | (run % 3 ? RLX_WHERE_DEVICE : 0));
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y));
		for (i = 0; i < N; i++)
			CHECK_EQ(y[i], 2 * (float)(i + run / 3 * 3));
		CHECK_EQ(rlx_session_transfers(s).in, run / 3 + 1);
	}
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_arena_put(a);
}

/* y = x w + w; a param that is set again is brought again, and else stays. */
TEST(params_are_brought_once)
{
	struct rlx_type t = rlx_type(RLX_F32, N);
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	static float x[N], w[N], y[N];
	uint64_t moved[3];
	struct rlx_program *p;
	struct rlx_graph *g;
	rlx_value vx, vw;
	int run, i;

	need_plugin();
	g = rlx_graph_new("line");
	vx = rlx_input(g, "x", t);
	vw = rlx_param(g, "w", t);
	rlx_output(g, "y", rlx_emit(g, add, .a = rlx_emit(g, mul, .a = vx, .b = vw), .b = vw));
	p = must_compile(g);
	CHECK(!rlx_session_new(p, NULL, &s, &err));
	for (run = 0; run < 3; run++) {
		for (i = 0; i < N; i++) {
			x[i] = (float)(i * run);
			w[i] = (float)(run < 2 ? 3 : 5);
		}
		if (run != 1)
			CHECK(!rlx_session_set(s, RLX_IO_PARAM, "w", t, w));
		CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, x));
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y));
		for (i = 0; i < N; i++)
			CHECK_EQ(y[i], x[i] * w[i] + w[i]);
		moved[run] = rlx_session_transfers(s).out_bytes;
	}
	CHECK_EQ(moved[2], 3 * sizeof(y));
	CHECK(rlx_session_transfers(s).in <= 5);
	rlx_session_free(s);
	rlx_program_put(p);
}

/* f32 is not rounded to bf16 on the way, in sums or products. */
TEST(r057_f32_stays_f32)
{
	struct rlx_type t = rlx_type(RLX_F32, 1, 1);
	float x = 1.00390625f, one = 1, y = 0;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_graph *g;
	rlx_value v;

	need_plugin();
	g = rlx_graph_new("one");
	v = rlx_emit(g, add, .a = rlx_input(g, "x", t), .b = rlx_input(g, "zero", t));
	rlx_output(g, "y", rlx_emit(g, matmul, .a = v, .b = rlx_input(g, "one", t)));
	p = must_compile(g);
	CHECK(!rlx_session_new(p, NULL, &s, &err));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", t, &x));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "zero", t, &y));
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "one", t, &one));
	CHECK(!rlx_session_run(s));
	CHECK(!rlx_session_get(s, RLX_IO_OUTPUT, "y", t, &y));
	CHECK_EQ(y, x);
	rlx_session_free(s);
	rlx_program_put(p);
}

static int live_buffers;

/* Not in place, and the copy is on its way. */
static struct pjrt_error *from_host(void *args)
{
	struct pjrt_from_host *a = args;

	if (a->semantics == PJRT_ZERO_COPY)
		return (struct pjrt_error *)&object;
	a->done = (struct pjrt_event *)&object;
	a->buffer = (struct pjrt_buffer *)&object;
	live_buffers++;
	return NULL;
}

static struct pjrt_error *drop_buffer(void *args)
{
	(void)args;
	live_buffers--;
	return NULL;
}

/* A copy that fails on its way leaves no buffer for the next run to find. */
TEST(an_import_that_fails_leaves_nothing)
{
	const struct rlx_type t = rlx_type(RLX_F32, 4);
	static const float x[4];
	struct pjrt_api *api = calloc(1, sizeof(*api) + PJRT_NEEDED * sizeof(api->fn[0]));
	struct pjrt_plugin p = { .api = api, .platform = "fake" };
	struct pjrt_buffer *b = NULL;
	struct rlx_error err = { 0 };
	bool in_place = true;
	int i;

	CHECK(api);
	api->head.size = sizeof(*api) + PJRT_NEEDED * sizeof(api->fn[0]);
	for (i = 0; i < PJRT_NEEDED; i++)
		api->fn[i] = works;
	api->fn[PJRT_CLIENT_BUFFER_FROM_HOST] = from_host;
	api->fn[PJRT_BUFFER_DESTROY] = drop_buffer;
	api->fn[PJRT_EVENT_AWAIT] = fails;
	CHECK_EQ(pjrt_import(&p, &t, x, &b, &in_place, &err), RLX_EIO);
	CHECKF(strstr(err.text, "copying to the device"), "%s", err.text);
	CHECK(!b && !live_buffers);
	api->fn[PJRT_EVENT_AWAIT] = works;
	CHECK(!pjrt_import(&p, &t, x, &b, &in_place, &err));
	CHECK(b && live_buffers == 1 && !in_place);
	free(api);
}

static double compile_ms(int n)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "pjrt" };
	struct timespec from, to;
	double best = 1e9, ms;
	int i, k;

	for (i = 0; i < 3; i++) {
		struct rlx_graph *g = rlx_graph_new("chain");
		rlx_value y = rlx_input(g, "x", rlx_type(RLX_F32, 2, 2));
		struct rlx_program *p = NULL;
		struct rlx_error err = { 0 };

		for (k = 0; k < n; k++)
			y = rlx_emit(g, matmul, .a = y, .b = y);
		rlx_output(g, "y", y);
		CHECK(!rlx_graph_finish(g));
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
		CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
		ms = 1e3 * (double)(to.tv_sec - from.tv_sec) +
		     1e-6 * (double)(to.tv_nsec - from.tv_nsec);
		best = ms < best ? ms : best;
		rlx_program_put(p);
		rlx_graph_put(g);
	}
	return best;
}

/* By a plugin that takes every program at once */
TEST(long_chains_are_said_in_linear_time)
{
	double small, large;
	char path[512];

	fake_plugin("compiles", 0, path);
	setenv("RLX_PJRT_PLUGIN", path, 1);
	setenv("RLX_DEBUG", "", 1);	/* verifying takes longer than what it verifies */
	small = compile_ms(2000);
	large = compile_ms(16000);
	printf("# 2000 compiled in %.1f ms, 16000 in %.1f ms\n", small, large);
	CHECKF(large < 16 * small, "%.1f ms for 2000, %.1f for 16000", small, large);
}

/* What is said of an op with one result, without a plugin; freed with rlx_free() */
static char *text_of(const struct rlx_op_def *def, const void *args, const struct rlx_type *in,
		     uint32_t n_in, struct rlx_type out)
{
	struct hlo_emit *e = rlx_calloc(1, sizeof(*e));
	uint32_t k;
	char *text;

	CHECK(e);
	e->def = def;
	e->args = args;
	e->n_in = n_in;
	e->n_out = 1;
	for (k = 0; k < n_in; k++)
		e->in[k] = (struct hlo){ ++e->last, hlo_type(&in[k]) };
	e->type[0] = out;
	CHECKF(hlo_step(e), "%s: %s", def->name, e->why);
	text = e->text.p;
	rlx_free(e);
	return text;
}

TEST(text_of_a_product)
{
	struct rlx_type in[2] = { rlx_type(RLX_F32, 2, 3), rlx_type(RLX_F32, 3, 4) };
	struct rlx_op_matmul none = { 0 };
	char *text = text_of(rlx_op_matmul.def, &none, in, 2, rlx_type(RLX_F32, 2, 4));

	CHECK_STR(text, "  %3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [0], "
		  "precision = [HIGHEST, HIGHEST] : (tensor<2x3xf32>, tensor<3x4xf32>) -> "
		  "tensor<2x4xf32>\n");
	rlx_free(text);
}

/* Its length does not follow from that of an axis. */
TEST(text_of_a_long_pad)
{
	const struct rlx_type in[1] = { rlx_type(RLX_F32, 1 << 20) };
	struct rlx_op_pad a = { .pads = RLX_INTS(5, 7) };

	for (a.mode = RLX_PAD_REFLECT; a.mode <= RLX_PAD_WRAP; a.mode++) {
		char *text = text_of(rlx_op_pad.def, &a, in, 1, rlx_type(RLX_F32, (1 << 20) + 12));

		CHECKF(strlen(text) < 4096, "mode %d: %zu bytes", a.mode, strlen(text));
		rlx_free(text);
	}
}

/*
 * What a printf() cannot write is not left out in silence: over 2 GiB, which take it 5 seconds, as
 * a character that the locale lacks.
 */
TEST(text_that_cannot_be_written)
{
	struct hlo_text t = { 0 }, whole = { 0 };

	hlo_put(&t, "%d", 1);
	hlo_put_text(&whole, &t);
	hlo_put_text(&whole, &t);
	CHECK_STR(whole.p, "11");
	hlo_put(&t, "%lc", (wint_t)0x10ffff);
	CHECK(t.failed);
	hlo_put_text(&whole, &t);
	CHECK(whole.failed);
	rlx_free(whole.p);
	rlx_free(t.p);
}

/* Numbers are read and written with a point. */
TEST(text_with_a_decimal_comma)
{
	struct rlx_type t = rlx_type(RLX_F32, 4);
	char dir[] = "/tmp/rlx-comma-XXXXXX";
	char *want = text_of(rlx_op_gelu.def, NULL, &t, 1, t), *have;

	CHECKF(strstr(want, "dense<5.0"), "%s", want);
	comma_begin(dir);
	have = text_of(rlx_op_gelu.def, NULL, &t, 1, t);
	comma_end(dir);
	CHECK_STR(have, want);
	rlx_free(want);
	rlx_free(have);
}

TEST_MAIN()
