// SPDX-License-Identifier: MIT
/*
 * Attributes that are not given: refused with a text that says what to write, or the
 * default that the op's row names, whoever builds the node: rlx_emit(), a struct filled
 * in by hand, the text form.
 */
#include "ir/eval.h"
#include "ir/graph.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

/* The sample as a graph whose field @f is @how: as it is, zero, or not given. */
enum how { AS_IT_IS, ZERO, UNSET };

static void bend(const struct op_case *c, const struct rlx_field *f, enum how how)
{
	unsigned char was[4096] = { 0 };
	uint8_t *at = (uint8_t *)c->args + f->offset;
	uint32_t size = f->kind == RLX_K_i32 || f->kind == RLX_K_f32 ? 4 : 8;

	if (how == ZERO)
		memset(at, 0, size);
	if (how != UNSET)
		return;
	memcpy(was, c->args, c->def->args_size);
	memset(c->args, 0, c->def->args_size);
	rlx_args_init(c->def, c->args);
	memcpy(was + f->offset, at, size);
	memcpy(c->args, was, c->def->args_size);
}

static uint64_t hash_of(const struct op_case *c, struct rlx_error *err)
{
	struct rlx_graph *g = op_case_graph(c);
	uint64_t hash = rlx_graph_hash(g);

	*err = *rlx_graph_error(g);
	rlx_graph_put(g);
	return hash;
}

static bool is_number(const struct rlx_field *f)
{
	return f->kind == RLX_K_i32 || f->kind == RLX_K_i64 || f->kind == RLX_K_f32 ||
	       f->kind == RLX_K_f64;
}

/* A required number: not given, it is refused by name; zero is a value like others. */
static void check_required(const struct rlx_op_def *def, const struct rlx_field *f)
{
	struct rlx_error err, zero;
	struct op_case c;
	char want[160];
	uint64_t seed = 1;

	CHECK(f->hint && f->hint[0]);
	if (!is_number(f))
		return;
	CHECK(op_case_init(&c, def, 0, 0, &seed));
	bend(&c, f, ZERO);
	hash_of(&c, &zero);
	bend(&c, f, UNSET);
	hash_of(&c, &err);
	snprintf(want, sizeof(want), "%s: attribute '%s' is missing; write %s = %s",
		 def->name, f->name, f->name, f->hint);
	WANT(err.status == RLX_EINVAL && !strcmp(err.text, want), "%s: status %d '%s'",
	     want, err.status, err.text);
	WANT(!zero.status || !strstr(zero.text, "is missing"), "%s of 0: %s", f->name, zero.text);
	op_case_fini(&c);
}

/* A default: the node is the one that it makes when it is written. */
static void check_default(const struct rlx_op_def *def, const struct rlx_field *f)
{
	struct rlx_error err, plain;
	struct op_case c;
	uint64_t seed = 1, written, absent;
	uint8_t *at;

	CHECK(is_number(f));
	CHECK(op_case_init(&c, def, 0, 0, &seed));
	at = (uint8_t *)c.args + f->offset;
	if (f->kind == RLX_K_i32)
		*(int32_t *)(void *)at = (int32_t)f->def;
	else if (f->kind == RLX_K_i64)
		*(int64_t *)(void *)at = (int64_t)f->def;
	else if (f->kind == RLX_K_f32)
		*(float *)(void *)at = f->def;
	else
		*(double *)(void *)at = (double)f->def;
	written = hash_of(&c, &plain);
	bend(&c, f, f->absent == RLX_ABSENT_NZ ? ZERO : UNSET);
	absent = hash_of(&c, &err);
	WANT(!err.status && !plain.status && written == absent,
	     "%s: %s not given is not %g: %s%s", def->name, f->name, (double)f->def,
	     plain.text, err.text);
	op_case_fini(&c);
}

static void every_row(void)
{
	unsigned int d, i, required = 0, defaults = 0;

	for (d = 0; d < rlx_op_count; d++)
		for (i = 0; i < rlx_op_defs[d]->n_field; i++) {
			const struct rlx_field *f = &rlx_op_defs[d]->field[i];

			if (f->role != RLX_FIELD_ATTR || f->absent == RLX_ABSENT_ZERO)
				continue;
			required += f->absent == RLX_ABSENT_REQ;
			defaults += f->absent != RLX_ABSENT_REQ;
			if (f->absent == RLX_ABSENT_REQ)
				check_required(rlx_op_defs[d], f);
			else
				check_default(rlx_op_defs[d], f);
		}
	printf("# %u required, %u with a default\n", required, defaults);
	CHECK(required > 30 && defaults > 8);
}

static struct rlx_graph *start(rlx_value *x)
{
	struct rlx_graph *g = rlx_graph_new("attributes");

	*x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	return g;
}

/* Not given fails with a text, at the line of the call. */
static void refused(struct rlx_graph *g, unsigned int line, const char *want)
{
	const struct rlx_error *e = rlx_graph_error(g);

	WANT(e->status == RLX_EINVAL && strstr(e->text, want) && e->line == line,
	     "%s: status %d, line %u (%u), '%s'", want, e->status, e->line, line, e->text);
	rlx_graph_put(g);
}

static void taken(struct rlx_graph *g, const char *what)
{
	WANT(!rlx_graph_error(g)->status, "%s: %s", what, rlx_graph_error(g)->text);
	rlx_graph_put(g);
}

#define REFUSED(want, op, ...)						\
	(g = start(&x), rlx_emit(g, op, .x = x, ##__VA_ARGS__), refused(g, __LINE__, want))
#define TAKEN(op, ...)							\
	(g = start(&x), rlx_emit(g, op, .x = x, ##__VA_ARGS__), taken(g, #op))

static void emitted(void)
{
	struct rlx_op_softmax a = { 0 };
	struct rlx_graph *g;
	rlx_value x;

	REFUSED("softmax: attribute 'axis' is missing; write axis = -1", softmax);
	REFUSED("log_softmax: attribute 'axis' is missing", log_softmax);
	REFUSED("layer_norm: attribute 'axis' is missing", layer_norm, .eps = 1e-5f);
	REFUSED("rms_norm: attribute 'eps' is missing", rms_norm, .axis = -1);
	REFUSED("layer_norm: attribute 'eps' is missing", layer_norm, .axis = -1);
	REFUSED("cumsum: attribute 'axis' is missing", cumsum);
	REFUSED("topk: attribute 'k' is missing", topk, .axis = -1);
	REFUSED("cast: attribute 'to' is missing", cast);
	TAKEN(softmax, .axis = 0);
	TAKEN(rms_norm, .axis = 0, .eps = 0);
	TAKEN(layer_norm, .eps = 0, .axis = 0);
	TAKEN(topk, .k = 0, .axis = 0);
	/* who fills in the struct has given its zeros: so do programs of older headers */
	g = start(&x);
	a.x = x;
	CHECK(rlx_emit_raw(g, &rlx_op_softmax, &a, sizeof(a), __FILE__, __LINE__).id);
	rlx_graph_put(g);
}

/* The text form says axis 0, and what it leaves out is refused or the default. */
static void text_form(void)
{
	static const char none[] = "graph \"t\" {\n  %1 = input(name=\"x\", type=f32[2,3])\n"
				   "  %2 = softmax(x=%1)\n  return \"y\"=%2\n}\n";
	struct rlx_error err = { 0 };
	struct rlx_graph *g, *back = NULL;
	char *out = NULL;
	size_t len = 0;
	rlx_value x;
	FILE *f;

	g = start(&x);
	x = rlx_emit(g, softmax, .x = x, .axis = 0);
	x = rlx_emit(g, iota, .type = rlx_type(RLX_F32, 3), .step = 0);
	rlx_output(g, "z", rlx_emit(g, iota, .type = rlx_type(RLX_F32, 3)));
	rlx_output(g, "y", x);
	CHECK(!rlx_graph_finish(g));
	f = open_memstream(&out, &len);
	CHECK(f && !rlx_graph_print(g, f, false) && !fclose(f));
	WANT(strstr(out, "axis=0") && strstr(out, "step=0"), "%s", out);
	WANT(!rlx_graph_parse(out, len, &back, &err), "%s", err.text);
	CHECK(rlx_graph_hash(back) == rlx_graph_hash(g));
	rlx_graph_put(back);
	rlx_graph_put(g);
	free(out);
	CHECK(rlx_graph_parse(none, sizeof(none) - 1, &back, &err));
	WANT(strstr(err.text, "softmax: attribute 'axis' is missing"), "%s", err.text);
}

/* A default's zero is a value where kernels read it, too: of cubic weights 0 cuts the tails. */
static void zero_is_zero(void)
{
	static const struct { float a; double want; } row[] = {
		{ 0, 2.3125 }, { -0.75f, 2.41796875 },
	};
	float x[4] = { 1, 2, 4, 8 }, y[8];
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct rlx_graph *g = rlx_graph_new("cubic");
		struct rlx_tensor in = { rlx_type(RLX_F32, 4), x };
		struct rlx_tensor out = { rlx_type(RLX_F32, 8), y };
		struct rlx_error err = { 0 };

		rlx_output(g, "y", rlx_emit(g, resize, .x = rlx_input(g, "x", in.type),
					    .sizes = RLX_INTS(8), .cubic_a = row[i].a,
					    .mode = RLX_RESIZE_CUBIC));
		CHECK(!rlx_graph_finish(g) && !rlx_graph_eval(g, &in, &out, &err));
		WANT((double)y[3] == row[i].want, "cubic_a %g: %g, not %g", (double)row[i].a,
		     (double)y[3], row[i].want);
		rlx_graph_put(g);
	}
}

TEST(every_row) { every_row(); CHECKF(!op_case_failures, "%u failures", op_case_failures); }
TEST(emitted) { emitted(); CHECKF(!op_case_failures, "%u failures", op_case_failures); }
TEST(text_form) { text_form(); CHECKF(!op_case_failures, "%u failures", op_case_failures); }

TEST(zero_is_zero)
{
	zero_is_zero();
	CHECKF(!op_case_failures, "%u failures", op_case_failures);
}

TEST_MAIN()
