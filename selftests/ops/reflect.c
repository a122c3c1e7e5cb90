// SPDX-License-Identifier: MIT
/* The ops as data: every row can be read, and every sample emitted by names is the same. */
#include "base/alloc.h"
#include "ir/graph.h"
#include "rlx/reflect.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

TEST(rows)
{
	struct rlx_op_info o = { .size = sizeof(o) };
	struct rlx_field_info f = { .size = sizeof(f) };
	uint32_t i, k, at;

	CHECK_EQ(rlx_ops_count(), rlx_op_count);
	for (i = 0; i < rlx_ops_count(); i++) {
		CHECK(!rlx_ops_info(i, &o));
		CHECK(o.name && o.doc && o.doc[0] && o.n_field == rlx_op_defs[i]->n_field);
		CHECK(!rlx_ops_find(o.name, &at, NULL) && at == i);
		for (k = 0; k < o.n_field; k++) {
			CHECK(!rlx_ops_field(i, k, &f));
			CHECK(f.name && f.type);
			CHECK(!f.hint || f.required);
		}
		CHECK_EQ(rlx_ops_field(i, k, &f), RLX_ERANGE);
	}
	CHECK_EQ(rlx_ops_info(i, &o), RLX_ERANGE);
	CHECK(!rlx_ops_find("softmax", &at, NULL) && !rlx_ops_info(at, &o));
	CHECK(o.gradient && !o.fused && !o.leaf && o.n_field == 2);
	CHECK(!rlx_ops_field(at, 0, &f) && !strcmp(f.name, "x") && !strcmp(f.type, "input"));
	CHECK(f.required && !rlx_ops_field(at, 1, &f) && f.required && f.hint);
	CHECK(!strcmp(f.name, "axis") && !strcmp(f.type, "i32"));
	CHECK(!rlx_ops_find("conv", &at, NULL) && !rlx_ops_field(at, 2, &f));
	CHECK(!strcmp(f.type, "optional") && !f.required);
	CHECK(!rlx_ops_field(at, 6, &f) && !strcmp(f.name, "groups") && f.def == 1 && f.zero_too);
	CHECK(!rlx_ops_find("concat", &at, NULL) && !rlx_ops_field(at, 1, &f));
	CHECK(!strcmp(f.type, "inputs"));
	CHECK(!rlx_ops_find("input", &at, NULL) && !rlx_ops_info(at, &o) && o.leaf);
	/* a caller that knows less */
	o = (struct rlx_op_info){ .size = offsetof(struct rlx_op_info, n_field), .n_field = 77 };
	CHECK(!rlx_ops_info(at, &o) && !strcmp(o.name, "input") && o.n_field == 77);
	o.size = 0;
	CHECK_EQ(rlx_ops_info(at, &o), RLX_EINVAL);
}

/* An attribute as an argument by value, or as text if it has one. */
static bool arg_of(const struct rlx_field *f, const void *p, bool as_text, struct rlx_op_arg *a,
		   char *text, size_t size)
{
	const struct rlx_ints *l = p;
	size_t at = 0;
	uint32_t i;

	*a = (struct rlx_op_arg){ .name = f->name };
	switch (f->kind) {
	case RLX_K_i32: a->kind = RLX_ARG_INT; a->i = *(const int32_t *)p; break;
	case RLX_K_i64: a->kind = RLX_ARG_INT; a->i = *(const int64_t *)p; break;
	case RLX_K_bool: a->kind = RLX_ARG_INT; a->i = *(const bool *)p; break;
	case RLX_K_f32: a->kind = RLX_ARG_REAL; a->f = (double)*(const float *)p; break;
	case RLX_K_f64: a->kind = RLX_ARG_REAL; a->f = *(const double *)p; break;
	case RLX_K_ints: a->kind = RLX_ARG_INTS; a->ints = *l; break;
	case RLX_K_floats:
		a->kind = RLX_ARG_REALS;
		a->floats = *(const struct rlx_floats *)p;
		break;
	case RLX_K_type: a->kind = RLX_ARG_TYPE; a->type = *(const struct rlx_type *)p; break;
	case RLX_K_dtype:
		a->kind = RLX_ARG_TYPE;
		a->type.dtype = *(const enum rlx_dtype *)p;
		return a->type.dtype;
	case RLX_K_blob: a->kind = RLX_ARG_BLOB; a->blob = *(struct rlx_blob *const *)p; break;
	case RLX_K_graph: a->kind = RLX_ARG_GRAPH; a->graph = *(struct rlx_graph *const *)p; break;
	default: return false;
	}
	if (!as_text || a->kind == RLX_ARG_BLOB || a->kind == RLX_ARG_GRAPH ||
	    f->kind == RLX_K_type)
		return true;
	if (f->kind == RLX_K_bool)
		snprintf(text, size, "%s", a->i ? "true" : "false");
	else if (a->kind == RLX_ARG_INT)
		snprintf(text, size, "%lld", (long long)a->i);
	else if (a->kind == RLX_ARG_REAL)
		snprintf(text, size, "%.17g", a->f);
	else {
		at = (size_t)snprintf(text, size, "[");
		for (i = 0; i < l->n && at < size; i++)
			at += (size_t)(a->kind == RLX_ARG_INTS ?
				snprintf(text + at, size - at, i ? ", %lld" : "%lld",
					 (long long)l->v[i]) :
				snprintf(text + at, size - at, i ? ",%.17g" : "%.17g",
					 a->floats.v[i]));
		snprintf(text + at, size - at, "]");
	}
	a->kind = RLX_ARG_TEXT;
	a->text = text;
	return true;
}

static struct rlx_graph *named(const struct op_case *c, bool as_text)
{
	static char text[RLX_MAX_FIELDS][2048];
	struct rlx_op_arg args[RLX_MAX_FIELDS];
	rlx_value in[RLX_SAMPLE_IN] = { 0 }, v;
	struct rlx_graph *g = rlx_graph_new(c->def->name);
	uint32_t i, k = 0, n = 0;
	char name[16];

	for (i = 0; i < c->s.n_in; i++) {
		snprintf(name, sizeof(name), "%u", i);
		if (c->s.in[i].dtype)
			in[i] = rlx_input(g, name, c->s.in[i]);
	}
	for (i = 0; i < c->def->n_field; i++) {
		const struct rlx_field *f = &c->def->field[i];

		if (f->role == RLX_FIELD_IN || f->role == RLX_FIELD_OPT)
			args[n++] = (struct rlx_op_arg){ .name = f->name, .kind = RLX_ARG_VALUE,
							 .value = in[k++] };
		else if (f->role == RLX_FIELD_INS)
			args[n++] = (struct rlx_op_arg){
				.name = f->name, .kind = RLX_ARG_VALUES,
				.values = { in + c->def->n_fixed, c->s.n_in - c->def->n_fixed } };
		else if (arg_of(f, (uint8_t *)c->args + f->offset, as_text, &args[n], text[n],
				sizeof(text[n])))
			n++;
	}
	v = rlx_emit_named(g, c->def->name, args, n, __FILE__, __LINE__);
	for (i = 0; rlx_out(g, v, i).id; i++) {
		snprintf(name, sizeof(name), "%u", i);
		rlx_output(g, name, rlx_out(g, v, i));
	}
	if (rlx_graph_finish(g))
		printf("# %s: %s\n", c->def->name, rlx_graph_error(g)->text);
	return g;
}

TEST(every_sample)
{
	uint64_t seed = rlx_test_seed(), want;
	unsigned int d, i, k, cases = 0;
	struct rlx_graph *g;
	struct op_case c;

	for (d = 0; d < rlx_op_count; d++)
		for (i = 0; op_case_init(&c, rlx_op_defs[d], i, 0, &seed); i++) {
			g = op_case_graph(&c);
			CHECK(!rlx_graph_error(g)->status);
			want = rlx_graph_hash(g);
			rlx_graph_put(g);
			for (k = 0; k < 2; k++, cases++) {
				g = named(&c, k);
				CHECKF(!rlx_graph_error(g)->status && rlx_graph_hash(g) == want,
				       "%s sample %u is another graph by %s", c.def->name, i,
				       k ? "text" : "value");
				rlx_graph_put(g);
			}
			op_case_fini(&c);
		}
	CHECKF(cases > 600, "%u cases", cases);
}

static void refused(const char *op, struct rlx_op_arg a, enum rlx_status st, const char *want)
{
	struct rlx_graph *g = rlx_graph_new("refused");
	struct rlx_op_arg args[3] = { { .name = "x", .kind = RLX_ARG_VALUE }, a, a };
	const struct rlx_error *e = rlx_graph_error(g);

	args[0].value = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	CHECK(!rlx_emit_named(g, op, args, a.name ? 2 : 1, "here.c", 7).id);
	CHECKF(e->status == st && strstr(e->text, want) && e->line == 7 &&
	       !strcmp(e->file, "here.c"), "%d %s:%u '%s', not '%s'", e->status, e->file, e->line,
	       e->text, want);
	rlx_graph_put(g);
}

#define TEXT(n, t)	((struct rlx_op_arg){ .name = n, .kind = RLX_ARG_TEXT, .text = t })
#define INT(n, v)	((struct rlx_op_arg){ .name = n, .kind = RLX_ARG_INT, .i = v })

TEST(errors)
{
	struct rlx_error err = { 0 };
	struct rlx_op_arg none = { 0 };
	uint32_t at;

	CHECK_EQ(rlx_ops_find("sofmax", &at, &err), RLX_ENOENT);
	CHECK(!strcmp(err.text, "there is no op 'sofmax'; is it 'softmax'"));
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_ops_find("qwertyuiop", &at, &err), RLX_ENOENT);
	CHECK(!strcmp(err.text, "there is no op 'qwertyuiop'"));
	CHECK_EQ(rlx_ops_find(NULL, &at, NULL), RLX_ENOENT);
	refused("layernorm", none, RLX_ENOENT, "is it 'layer_norm'");
	refused("softmax", none, RLX_EINVAL, "softmax: attribute 'axis' is missing; write axis");
	refused("softmax", INT("axes", 1), RLX_ENOENT,
		"softmax: there is no argument 'axes'; is it 'axis'");
	refused("softmax", TEXT("axis", "last"), RLX_EINVAL, "'axis' is i32 ('last')");
	refused("softmax", TEXT("axis", "1.5"), RLX_EINVAL, "'axis' is i32");
	refused("softmax", TEXT("axis", ""), RLX_EINVAL, "'axis' is i32");
	refused("softmax", INT("axis", 1ll << 40), RLX_EINVAL, "out of range");
	refused("cast", TEXT("to", "f33"), RLX_EINVAL, "'to' is dtype ('f33')");
	refused("reduce", INT("keep_dims", 2), RLX_EINVAL, "'keep_dims' is bool");
	refused("reduce", TEXT("axes", "[0, 1"), RLX_EINVAL, "'axes' is ints");
	refused("reduce", TEXT("axes", "0,1]"), RLX_EINVAL, "'axes' is ints");
	refused("reduce", TEXT("axes", "[0,]"), RLX_EINVAL, "'axes' is ints");
	refused("reduce", TEXT("axes", "[0 1]"), RLX_EINVAL, "'axes' is ints");
	refused("param", none, RLX_EINVAL, "param: made by rlx_input()");
	CHECK(!rlx_emit_named(NULL, "neg", NULL, 0, NULL, 0).id);
}

TEST(inputs)
{
	struct rlx_graph *g = rlx_graph_new("twice");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2));
	struct rlx_op_arg a[2] = { { .name = "x", .kind = RLX_ARG_VALUE, .value = x } };

	a[1] = a[0];
	CHECK(!rlx_emit_named(g, "neg", a, 2, NULL, 0).id);
	CHECK_EQ(rlx_graph_error(g)->status, RLX_EINVAL);
	CHECK(strstr(rlx_graph_error(g)->text, "neg: 'x' is given twice"));
	rlx_graph_put(g);
	g = rlx_graph_new("a number");
	a[0] = INT("x", 3);
	CHECK(!rlx_emit_named(g, "neg", a, 1, NULL, 0).id);
	CHECK(strstr(rlx_graph_error(g)->text, "neg: 'x' is input, which"));
	rlx_graph_put(g);
}

TEST_MAIN()
