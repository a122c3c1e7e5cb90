// SPDX-License-Identifier: MIT
/*
 * Every sample of every op on a device: f32, bf16 and f16 results against the
 * float64 evaluation of the same (rounded) inputs, on poisoned outputs.
 */
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_test.h"

static double tolerance(const struct op_case *c, enum rlx_dtype real)
{
	double unit = real == RLX_BF16 ? 0x1p-7 : real == RLX_F16 ? 0x1p-10 : 0;

	return c->s.tol + unit * 2;
}

/* Integer and bool results may differ where a rounded float decides; only f32. */
static void check_case(struct op_case *c, unsigned int i, const char *device,
		       enum rlx_dtype real, bool fixed)
{
	struct op_result got, truth;
	struct op_case wide;
	struct rlx_error err;
	unsigned int k;
	double e;

	op_case_convert(&wide, c, real, RLX_F64);
	/* some ops and sub-graphs fix a dtype: the truth is then evaluated in it */
	if (op_case_run(&wide, "ref", &truth, &err))
		op_case_run(c, "ref", &truth, &err);
	WANT(!err.status, "%s sample %u: ref: %s", c->def->name, i, err.text);
	if (err.status)
		goto out_fini;
	c->fixed = fixed;
	op_case_run(c, device, &got, &err);
	WANT(!err.status, "%s sample %u (%s): %s: %s", c->def->name, i,
	     rlx_dtype_name(real), device, err.text);
	if (err.status)
		goto out_fini_truth;
	WANT(got.n_out == truth.n_out, "%s sample %u: outputs", c->def->name, i);
	for (k = 0; k < got.n_out; k++) {
		if (!rlx_dtype_is_float(got.type[k].dtype) && real != RLX_F32)
			continue;
		e = op_result_error(&got, &truth, k);
		WANT(e <= tolerance(c, real),
		     "%s sample %u output %u (%s) on %s: error %.3g over %.3g",
		     c->def->name, i, k, rlx_dtype_name(real), device, e,
		     tolerance(c, real));
	}
	op_result_fini(&got);
out_fini_truth:
	op_result_fini(&truth);
out_fini:
	op_case_fini(&wide);
}

void op_case_all(const char *device, enum rlx_dtype real, bool fixed)
{
	uint64_t seed = rlx_test_seed();
	unsigned int d, i, n = 0;
	struct op_case c;

	for (d = 0; d < rlx_op_count; d++)
		for (i = 0; op_case_init(&c, rlx_op_defs[d], i, real, &seed); i++) {
			if (!c.s.f32_only || real == RLX_F32) {
				check_case(&c, i, device, real, fixed);
				n++;
			}
			op_case_fini(&c);
		}
	CHECKF(n > 100, "only %u samples", n);
	CHECKF(!op_case_failures, "%u of %u samples failed", op_case_failures, n);
}
