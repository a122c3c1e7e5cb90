// SPDX-License-Identifier: MIT
/* Bits of flags that no release knows: RLX_EINVAL and a text, not a call that ignores them. */
#include "rlx/aot.h"
#include "rlx/devices.h"
#include "rlx/inspect.h"
#include "rlx/model.h"
#include "rlx/train.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static struct rlx_graph *graph(void)
{
	struct rlx_graph *g = rlx_graph_new("g");

	rlx_output(g, "y", rlx_emit(g, neg, .x = rlx_input(g, "x", rlx_type(RLX_F32, 4))));
	CHECK_EQ(rlx_graph_finish(g), 0);
	return g;
}

static void refused(enum rlx_status st, struct rlx_error *err, const char *word)
{
	CHECKF(st == RLX_EINVAL, "%s: %s", word, rlx_status_name(st));
	CHECKF(strstr(err->text, word) && strstr(err->text, "flag"), "%s", err->text);
	*err = (struct rlx_error){ 0 };
}

TEST(of_compile)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 1 };
	struct rlx_graph *g = graph();
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };
	unsigned int bit;

	for (bit = 0; bit < 32; bit++) {
		o.flags = 1u << bit;
		if (o.flags > RLX_COMPILE_STRICT_BITS) {
			refused(rlx_compile(g, &o, &p, &err), &err, "compile");
			continue;
		}
		CHECKF(!rlx_compile(g, &o, &p, &err), "bit %u: %s", bit, err.text);
		rlx_program_put(p);
	}
	o.flags = 1u << 20 | RLX_COMPILE_NATIVE;
	refused(rlx_compile(g, &o, &p, &err), &err, "0x100000");
	rlx_graph_put(g);
}

TEST(of_what_compiles_later)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .flags = 1u << 31 };
	struct rlx_graph *g = graph();
	struct rlx_devices *ds = NULL;
	struct rlx_runner *r = NULL;
	struct rlx_model *m = NULL;
	struct rlx_error err = { 0 };

	refused(rlx_devices_new(g, NULL, &o, &ds, &err), &err, "compile");
	CHECKF(!rlx_model_from_graph(g, &m, &err), "%s", err.text);
	refused(rlx_runner_new(m, &o, &r, &err), &err, "compile");
	o.flags = 0;
	o.precision = (enum rlx_precision)99;
	CHECK_EQ(rlx_devices_new(g, NULL, &o, &ds, &err), RLX_EINVAL);
	CHECK_EQ(rlx_runner_new(m, &o, &r, NULL), RLX_EINVAL);
	CHECK(!ds && !r && strstr(err.text, "precision"));
	rlx_model_put(m);
	rlx_graph_put(g);
}

TEST(of_plan_files)
{
	struct rlx_load_opts o = { .size = sizeof(o), .flags = RLX_LOAD_VERIFY };
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	CHECK_EQ(rlx_program_load("/nonexistent/plan", &o, &p, NULL), RLX_ENOENT);
	o.flags |= 1u << 1;
	refused(rlx_program_load("/nonexistent/plan", &o, &p, &err), &err, "program load");
}

TEST(of_inspections)
{
	struct rlx_graph *g = graph();
	struct rlx_session *s = rig_session(g, NULL);
	struct rlx_inspection *a = NULL;
	const struct rlx_inspected *in;
	struct rlx_error err = { 0 };
	float x[4] = { 0 };
	int64_t at;

	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, 4), x), 0);
	CHECKF(!rlx_session_inspect(s, &a, &err), "%s", err.text);
	CHECKF(!rlx_inspection_inside(a, rlx_inspection_at(a, 0), RLX_INSPECT_INF, &in, &at, &err),
	       "%s", err.text);
	refused(rlx_inspection_inside(a, rlx_inspection_at(a, 0), 2, &in, &at, &err), &err,
		"inspect");
	rlx_inspection_free(a);
	rlx_session_free(s);
}

TEST(of_variables)
{
	struct rlx_fill none = { 0 };
	struct rlx_vars *v = rlx_vars_new();
	unsigned int bit;

	for (bit = 0; bit < 32; bit++) {
		struct rlx_graph *g = rlx_graph_new("g");
		struct rlx_error err = { 0 };
		char name[8];

		snprintf(name, sizeof(name), "w%u", bit);
		rlx_var(g, v, name, rlx_type(RLX_F32, 2, 2), none, 1u << bit);
		err = *rlx_graph_error(g);
		if (1u << bit > RLX_VAR_BUFFER)
			refused(err.status, &err, "variable");
		CHECK(!err.status);
		rlx_graph_put(g);
	}
	rlx_vars_free(v);
}

TEST_MAIN()
