// SPDX-License-Identifier: MIT
/*
 * Reference evaluation of every op's samples: narrow floats against f64 on the
 * same inputs, what a fused op stands for against its own evaluation, and no
 * byte written outside the outputs.
 */
#include "ir/element.h"
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

enum { GUARD = 64 };

static unsigned int compared;

static void outputs_new(const struct rlx_infer *q, struct op_result *r)
{
	uint32_t k;

	memset(r, 0, sizeof(*r));
	r->n_out = q->n_out;
	for (k = 0; k < q->n_out; k++) {
		size_t n = (size_t)rlx_type_bytes(&q->out[k]) + GUARD;

		r->type[k] = q->out[k];
		CHECK(!posix_memalign(&r->data[k], 64, n));
		memset(r->data[k], 0xa5, n);
	}
}

static bool guards_whole(const struct op_result *r)
{
	uint32_t k;
	int i;

	for (k = 0; k < r->n_out; k++)
		for (i = 0; i < GUARD; i++)
			if (((unsigned char *)r->data[k])[rlx_type_bytes(&r->type[k]) + i] !=
			    0xa5)
				return false;
	return true;
}

/* Every byte of every output was written (a bool or float of 0xa5 bytes is rare). */
static bool all_written(const struct op_result *r)
{
	uint32_t k;
	int64_t n, i, j;
	size_t el;

	for (k = 0; k < r->n_out; k++) {
		n = rlx_type_count(&r->type[k]);
		el = rlx_dtype_size(r->type[k].dtype);
		for (i = 0; i < n && el >= 4; i++) {
			for (j = 0; j < (int64_t)el; j++)
				if (((unsigned char *)r->data[k])[i * (int64_t)el + j] != 0xa5)
					break;
			if (j == (int64_t)el)
				return false;
		}
	}
	return true;
}

/* Infer and evaluate; @expand: not the op itself but what it stands for. */
static enum rlx_status evaluate(const struct op_case *c, bool expand,
				struct op_result *out, struct rlx_error *err)
{
	struct rlx_op_def def = *c->def;
	struct rlx_op_impl impl = *c->def->impl;
	const struct rlx_type *types[RLX_SAMPLE_IN] = { 0 };
	struct rlx_tensor in[RLX_SAMPLE_IN] = { 0 }, res[RLX_MAX_OUT];
	struct rlx_infer q = { .err = err, .def = &def, .args = c->s.args,
			       .n_in = c->s.n_in, .in = types };
	enum rlx_status st;
	uint32_t k;

	def.impl = &impl;
	if (expand)
		impl.eval = NULL;
	for (k = 0; k < c->s.n_in; k++)
		if (c->s.in[k].dtype) {
			types[k] = &c->s.in[k];
			in[k] = (struct rlx_tensor){ c->s.in[k], c->data[k] };
		}
	memset(out, 0, sizeof(*out));
	*err = (struct rlx_error){ 0 };
	st = rlx_op_infer(&q);
	if (st)
		return st;
	outputs_new(&q, out);
	for (k = 0; k < q.n_out; k++)
		res[k] = (struct rlx_tensor){ out->type[k], out->data[k] };
	return rlx_op_eval(&(struct rlx_eval){
			.err = err, .def = &def, .args = c->s.args, .n_in = c->s.n_in,
			.in = in, .n_out = q.n_out, .out = res });
}

/* What an output in a dtype of its own is held to, in whatever the case was drawn. */
static double bound(const struct op_case *c, enum rlx_dtype dt, double tol)
{
	return dt == RLX_F32 || rlx_dtype_size(dt) == 2 ? fmax(tol, c->s.tol) : tol;
}

static void compare(const struct op_case *c, unsigned int i, const char *what,
		    const struct op_result *got, const struct op_result *truth, double tol)
{
	uint32_t k;
	double e;

	WANT(got->n_out == truth->n_out, "%s sample %u %s: outputs", c->def->name, i, what);
	for (k = 0; k < got->n_out && k < truth->n_out; k++) {
		/* integers that a rounded float decides are f32's own business */
		if (!rlx_dtype_is_float(got->type[k].dtype) && tol > 1e-3 && tol > c->s.tol)
			continue;
		e = op_result_error(got, truth, k);
		WANT(e <= op_result_bound(truth, k, bound(c, got->type[k].dtype, tol)),
		     "%s sample %u %s: output %u off by %.3g, over %.3g",
		     c->def->name, i, what, k, e, tol);
		compared++;
	}
}

/* The dtype that the case was drawn in against f64 of the same numbers. */
static void check_narrow(const struct op_case *c, unsigned int i, enum rlx_dtype real)
{
	double unit = real == RLX_BF16 ? 0x1p-7 : real == RLX_F16 ? 0x1p-10 : 0;
	struct op_result got, truth;
	struct rlx_error err;
	struct op_case wide;

	op_case_convert(&wide, c, real, RLX_F64);
	if (evaluate(&wide, false, &truth, &err) == RLX_ETYPE)
		goto out_fini;	/* an op that fixes a dtype: covered by its expansion */
	WANT(!err.status, "%s sample %u in f64: %s", c->def->name, i, err.text);
	evaluate(c, false, &got, &err);
	WANT(!err.status, "%s sample %u in %s: %s", c->def->name, i, rlx_dtype_name(real),
	     err.text);
	WANT(guards_whole(&got), "%s sample %u writes past an output", c->def->name, i);
	WANT(all_written(&got), "%s sample %u leaves an output unwritten", c->def->name, i);
	if (!err.status)
		compare(c, i, rlx_dtype_name(real), &got, &truth, c->s.tol + 2 * unit);
	op_result_fini(&got);
out_fini:
	op_result_fini(&truth);
	op_case_fini(&wide);
}

/* In f64 both ways round so little that a wrong constant shows. */
static void check_expansion(const struct op_case *c, unsigned int i, enum rlx_dtype real)
{
	struct op_result got, truth;
	struct rlx_error err;
	double tol = real == RLX_F64 ? 1e-9 : c->s.tol;

	if (!c->def->impl->eval || !c->def->impl->expand)
		return;
	if (evaluate(c, false, &truth, &err) == RLX_ETYPE)
		goto out_fini;
	WANT(!err.status, "%s sample %u: %s", c->def->name, i, err.text);
	evaluate(c, true, &got, &err);
	WANT(!err.status, "%s sample %u expanded: %s", c->def->name, i, err.text);
	if (!err.status)
		compare(c, i, "expanded", &got, &truth, tol);
	op_result_fini(&got);
out_fini:
	op_result_fini(&truth);
}

static void all_samples(enum rlx_dtype real, void (*check)(const struct op_case *,
							  unsigned int, enum rlx_dtype))
{
	uint64_t seed = rlx_test_seed();
	struct op_case c;
	unsigned int d, i;

	for (d = 0; d < rlx_op_count; d++)
		for (i = 0; op_case_init(&c, rlx_op_defs[d], i, real, &seed); i++) {
			if (!c.s.f32_only || real == RLX_F32 || real == RLX_F64)
				check(&c, i, real);
			op_case_fini(&c);
		}
	CHECKF(compared, "nothing was compared");
	CHECKF(!op_case_failures, "%u failures in %u comparisons", op_case_failures, compared);
}

TEST(f32) { all_samples(RLX_F32, check_narrow); }
TEST(f16) { all_samples(RLX_F16, check_narrow); }
TEST(bf16) { all_samples(RLX_BF16, check_narrow); }
TEST(expansion_f64) { all_samples(RLX_F64, check_expansion); }
TEST(expansion_f32) { all_samples(RLX_F32, check_expansion); }

/* A def must be usable: evaluable, sampled unless a leaf or made by the compiler. */
TEST(definitions)
{
	unsigned int d, k;

	for (d = 0; d < rlx_op_count; d++) {
		const struct rlx_op_def *o = rlx_op_defs[d];
		bool leaf = o->traits & RLX_T_LEAF;

		CHECKF(o->impl->infer, "%s has no infer", o->name);
		CHECKF(leaf || o->impl->eval || o->impl->expand,
		       "%s has neither eval nor expand", o->name);
		CHECKF(rlx_op_has_samples(o) || leaf || o->index == RLX_OP_custom ||
		       o->index == RLX_OP_region, "%s has no samples", o->name);
		CHECKF(o->doc && *o->doc && o->index == d, "%s: doc or index", o->name);
		CHECKF(rlx_op_find(o->name, strlen(o->name)) == o, "%s is not found", o->name);
		CHECKF(!(o->traits & RLX_T_FUSED) || o->impl->expand, "%s is fused without expand",
		       o->name);
		for (k = 0; k < o->n_field; k++)
			CHECKF(o->field[k].offset < o->args_size, "%s: field %s", o->name,
			       o->field[k].name);
	}
	CHECK(!rlx_op_find("nonsense", 8));
	CHECK(!rlx_op_find("", 0));
}

TEST_MAIN()
