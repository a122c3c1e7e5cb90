// SPDX-License-Identifier: MIT
/*
 * What programs meet of the public API, point by point, by public headers alone: built as C by
 * the test build and as C++ by selftests/scripts/headers.sh.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rlx/reflect.h"
#include "rlx/run.h"

static unsigned int points, failed;

static void point(bool ok, const char *name, const char *text)
{
	points++;
	if (!ok) {
		failed++;
		printf("# \"%s\"\n", text);
	}
	printf("%sok %u %s\n", ok ? "" : "not ", points, name);
}

/* The text of the failure that a call left, "" if it is not of @want or lacks @word. */
static bool told(struct rlx_session *s, enum rlx_status st, enum rlx_status want, const char *word)
{
	const struct rlx_error *e = rlx_session_error(s);

	return st == want && e->status == want && strstr(e->text, word);
}

/* "x", "state" -> "y" = x + state, "next" = state * 2; of 2 x 3 f32. */
static struct rlx_session *make(const char *device, bool strict)
{
	struct rlx_type t = rlx_type(RLX_F32, 2, 3);
	struct rlx_graph *g = rlx_graph_new("points");
	rlx_value x = rlx_input(g, "x", t), state = rlx_input(g, "state", t);
	struct rlx_compile_opts co;
	struct rlx_session_opts so;
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err;

	memset(&co, 0, sizeof(co));
	memset(&so, 0, sizeof(so));
	memset(&err, 0, sizeof(err));
	co.size = sizeof(co);
	co.device = device;
	so.size = sizeof(so);
	so.strict = strict;
	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = state));
	rlx_output(g, "next", rlx_emit(g, mul, .a = state, .b = rlx_scalar_const(g, RLX_F32, 2)));
	if (rlx_graph_finish(g) || rlx_compile(g, &co, &p, &err) ||
	    rlx_session_new(p, &so, &s, &err)) {
		printf("# %s %s\n", rlx_graph_error(g)->text, err.text);
		exit(1);
	}
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

static const float numbers[6] = { 1, 2, 3, 4, 5, 6 };

static void set(struct rlx_session *s, const char *name)
{
	point(!rlx_session_set(s, RLX_IO_INPUT, name, rlx_type(RLX_F32, 2, 3), numbers),
	      "set", rlx_session_error(s)->text);
}

/* Element @i of an output. */
static float result(struct rlx_session *s, const char *name, int i)
{
	float y[6] = { NAN, NAN, NAN, NAN, NAN, NAN };

	if (rlx_session_get(s, RLX_IO_OUTPUT, name, rlx_type(RLX_F32, 2, 3), y))
		printf("# %s\n", rlx_session_error(s)->text);
	return y[i];
}

/* Attributes whose zero was a trap are missed; zero is a value; defaults have names. */
static void attributes(void)
{
	struct rlx_graph *g = rlx_graph_new("attributes");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	const char *text;

	rlx_emit(g, softmax, .x = x);
	text = rlx_graph_error(g)->text;
	point(strstr(text, "softmax: attribute 'axis' is missing") != NULL, "softmax", text);
	rlx_graph_put(g);
	g = rlx_graph_new("attributes");
	x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	rlx_emit(g, rms_norm, .x = x, .axis = -1);
	text = rlx_graph_error(g)->text;
	point(strstr(text, "rms_norm: attribute 'eps' is missing") != NULL, "rms_norm", text);
	rlx_graph_put(g);
	g = rlx_graph_new("attributes");
	x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	rlx_emit(g, layer_norm, .x = x, .eps = 1e-5f);
	text = rlx_graph_error(g)->text;
	point(strstr(text, "layer_norm: attribute 'axis' is missing") != NULL, "layer_norm", text);
	rlx_graph_put(g);
	g = rlx_graph_new("attributes");
	x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	x = rlx_emit(g, softmax, .x = rlx_emit(g, rms_norm, .x = x, .axis = 0, .eps = 0),
		     .axis = 0);
	point(x.id && !rlx_graph_error(g)->status, "zero is a value", rlx_graph_error(g)->text);
	rlx_graph_put(g);
}

static void reflection(void)
{
	struct rlx_graph *g = rlx_graph_new("reflection");
	struct rlx_op_arg a[2];
	struct rlx_op_info op;
	struct rlx_field_info f;
	uint32_t i = 0, documented = 0;
	rlx_value y;

	for (op.size = sizeof(op); !rlx_ops_info(i, &op); i++)
		documented += op.doc && *op.doc;
	point(i == rlx_ops_count() && documented == i && i > 100, "ops", "some op lacks a text");
	point(!rlx_ops_find("softmax", &i, NULL), "find", "softmax");
	f.size = sizeof(f);
	point(!rlx_ops_field(i, 1, &f) && !strcmp(f.name, "axis") && f.required && f.hint,
	      "required", f.name);
	point(!rlx_ops_find("iota", &i, NULL) && !rlx_ops_info(i, &op), "iota", "iota");
	for (uint32_t k = 0; k < op.n_field; k++)
		if (!rlx_ops_field(i, k, &f) && !strcmp(f.name, "step"))
			break;
	point(!strcmp(f.name, "step") && !f.required && f.def == 1, "default", f.name);
	memset(a, 0, sizeof(a));
	a[0].name = "x";
	a[0].kind = RLX_ARG_VALUE;
	a[0].value = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	a[1].name = "axis";
	a[1].kind = RLX_ARG_TEXT;
	a[1].text = "-1";
	y = rlx_emit_named(g, "softmax", a, 2, __FILE__, __LINE__);
	point(y.id != 0, "emit by name", rlx_graph_error(g)->text);
	a[1].name = "axes";
	rlx_emit_named(g, "softmax", a, 2, __FILE__, __LINE__);
	point(strstr(rlx_graph_error(g)->text, "axis") != NULL, "the nearest name",
	      rlx_graph_error(g)->text);
	rlx_graph_put(g);
}

/* By index; at any address of the CPU's; by strides; looking changes nothing. */
static void binding(void)
{
	struct rlx_session *s = make("cpu", false);
	struct rlx_arena_opts ao;
	struct rlx_arena *a = NULL;
	struct rlx_view v;
	struct rlx_buf odd;
	float *p;
	int i;

	memset(&ao, 0, sizeof(ao));
	memset(&v, 0, sizeof(v));
	ao.size = 4096;
	point(!rlx_arena_new(&ao, &a, NULL), "arena", "");
	odd.arena = a;
	odd.offset = 4;
	odd.bytes = 24;
	point(!rlx_session_bound(s, RLX_IO_INPUT, "x").arena && !rlx_session_error(s)->status,
	      "a look makes nothing", rlx_session_error(s)->text);
	point(told(s, rlx_session_run(s), RLX_EINVAL, "input 'x' has no value"),
	      "a look gives no value", rlx_session_error(s)->text);
	set(s, "state");
	point(!rlx_session_bind_at(s, RLX_IO_INPUT, 0, odd), "4 bytes past a line",
	      rlx_session_error(s)->text);
	memcpy(rlx_buf_ptr(odd), numbers, sizeof(numbers));
	point(!rlx_session_run(s) && result(s, "y", 5) == 12, "read where it lies",
	      rlx_session_error(s)->text);
	point(told(s, rlx_session_bind_at(s, RLX_IO_INPUT, 9, odd), RLX_ENOENT, "index 9"),
	      "an index too many", rlx_session_error(s)->text);
	v.buf = rlx_buf_whole(a);
	v.first = 100;
	v.stride[0] = -1;
	v.stride[1] = 4;
	p = (float *)rlx_buf_ptr(v.buf);
	for (i = 0; i < 6; i++)
		p[25 - i / 3 + 4 * (i % 3)] = (float)(10 * i);
	point(!rlx_session_bind_view(s, RLX_IO_INPUT, "x", &v) && !rlx_session_run(s) &&
	      result(s, "y", 4) == 45, "strides", rlx_session_error(s)->text);
	rlx_session_free(s);
	s = make("cpu", true);
	point(told(s, rlx_session_bind_view(s, RLX_IO_INPUT, "x", &v), RLX_EACCES, "strict"),
	      "a strict session copies nothing", rlx_session_error(s)->text);
	rlx_session_free(s);
	rlx_arena_put(a);
}

/* Calls that fail leave what there was, and say why. */
static void failures(void)
{
	struct rlx_session *s = make("cpu", false);
	uint64_t at = 77;

	set(s, "x");
	set(s, "state");
	point(!rlx_session_feed(s, "next", "state"), "feed", rlx_session_error(s)->text);
	point(!rlx_session_run(s) && result(s, "y", 1) == 4, "fed once",
	      rlx_session_error(s)->text);
	point(told(s, rlx_session_feed(s, "none", "state"), RLX_ENOENT, "'none'"),
	      "a feed that fails", rlx_session_error(s)->text);
	point(!rlx_session_run(s) && result(s, "y", 1) == 6, "leaves the old one",
	      rlx_session_error(s)->text);
	point(told(s, rlx_session_extent(s, 3, 7), RLX_ESHAPE, "7"),
	      "rows that no input has", rlx_session_error(s)->text);
	point(told(s, rlx_session_wait(s, at, -1), RLX_EINVAL, "nothing was submitted"),
	      "a point before any", rlx_session_error(s)->text);
	point(!rlx_session_submit(s, &at) && !rlx_session_wait(s, at, -1), "submit",
	      rlx_session_error(s)->text);
	point(told(s, rlx_session_wait(s, at + 5, -1), RLX_EINVAL, "point"),
	      "a point that nobody gave", rlx_session_error(s)->text);
	rlx_session_free(s);
}

/* What crosses between host and device is counted, all of it, and on a CPU nothing does. */
static void transfers(void)
{
	const char *gpu = getenv("RLX_TEST_GPU");
	struct rlx_session *s = make("cpu", false);
	struct rlx_transfers t;

	set(s, "x");
	set(s, "state");
	point(!rlx_session_run(s), "run", rlx_session_error(s)->text);
	t = rlx_session_transfers(s);
	point(!t.in && !t.in_bytes && !t.out && !t.out_bytes, "nothing crosses on a CPU", "");
	rlx_session_free(s);
	if (!gpu || !*gpu)
		return;
	s = make(gpu, false);
	set(s, "x");
	set(s, "state");
	point(!rlx_session_feed(s, "next", "state") && !rlx_session_run(s), "on the device",
	      rlx_session_error(s)->text);
	point(result(s, "y", 5) == 12, "its result", "");
	t = rlx_session_transfers(s);
	printf("# %llu in, %llu bytes; %llu out, %llu bytes\n", (unsigned long long)t.in,
	       (unsigned long long)t.in_bytes, (unsigned long long)t.out,
	       (unsigned long long)t.out_bytes);
	point((t.in_bytes == 0) == (t.in == 0) && (t.out_bytes == 0) == (t.out == 0),
	      "counts and bytes", "");
	rlx_session_free(s);
}

int main(void)
{
	attributes();
	reflection();
	binding();
	failures();
	transfers();
	printf("1..%u\n", points);
	return failed != 0;
}
