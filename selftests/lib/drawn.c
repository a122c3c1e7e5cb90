// SPDX-License-Identifier: MIT
/* Drawn graphs against the evaluator; see drawn.h. */
#include "selftests/lib/drawn.h"

#include <math.h>
#include <stdlib.h>

#include "ir/element.h"
#include "selftests/lib/rlx_test.h"

int64_t drawn_below(struct rig *r, int64_t n)
{
	return (int64_t)(rlx_test_rand(&r->seed) % (uint64_t)n);
}

rlx_value drawn_input(struct rig *r, struct rlx_type t)
{
	struct rlx_tensor x = { t, malloc((size_t)rlx_type_bytes(&t) + 1) };
	int64_t n = rlx_type_count(&t), i, q;
	rlx_value v;

	CHECK(x.data);
	for (i = 0; i < n; i++) {
		q = drawn_below(r, 65) - 32;
		if (el_is_int(t.dtype))
			el_seti(&x, i, t.dtype == RLX_BOOL ? q & 1 : q);
		else
			el_set(&x, i, drawn_below(r, 40) ? (double)q / 4 : q & 1 ? NAN : INFINITY);
	}
	v = rig_input(r, t, x.data);
	free(x.data);
	return v;
}

unsigned int drawn_cases(unsigned int cases)
{
	const char *given = getenv("RLX_FUZZ_CASES");

	return given ? (unsigned int)atoi(given) : cases;
}

static void same(const struct rig *r, const struct rig *want, const char *what, unsigned int at)
{
	unsigned int k;
	int64_t i;

	for (k = 0; k < r->n_out; k++)
		for (i = 0; i < rlx_type_count(&r->out[k].type); i++) {
			double a = rig_get(r, k, i), b = rig_get(want, k, i);

			CHECKF(a == b || (isnan(a) && isnan(b)),
			       "%s %u on %s: output %u, element %lld is %g, not %g", what, at,
			       r->device, k, (long long)i, a, b);
		}
}

void drawn_as_evaluated(const char *what, unsigned int cases, void (*draw)(struct rig *r))
{
	const char *device[RIG_DEVICES];
	unsigned int n = rig_devices(device), d, i;
	struct rig want, r;

	for (i = 0; i < cases; i++) {
		rig_init(&want, NULL);
		want.seed += i;
		draw(&want);
		rig_run(&want);
		for (d = 1; d < n; d++) {
			rig_init(&r, device[d]);
			r.seed += i;
			draw(&r);
			rig_run(&r);
			same(&r, &want, what, i);
			rig_fini(&r);
		}
		rig_fini(&want);
	}
}
