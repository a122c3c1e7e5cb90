// SPDX-License-Identifier: MIT
/* Floats as replies tell them: whoever reads one has the same float. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "selftests/lib/rlx_test.h"
#include "tools/rlxd/obuf.h"

enum { CASES = 300000, LONGEST = 16 };

static void check_text(struct obuf *o, float v)
{
	char *end;
	size_t n;

	o->n = 0;
	obuf_float(o, v);
	n = o->n;
	obuf_put(o, "", 1);
	CHECK(!o->failed);
	CHECKF(strtof(o->p, &end) == v && !*end, "%a is told as %s", (double)v, o->p);
	CHECKF((o->p[0] == '-') == !!signbit(v), "%a is told as %s", (double)v, o->p);
	CHECKF(n <= LONGEST, "%a takes %zu bytes: %s", (double)v, n, o->p);
}

TEST(floats_read_back)
{
	/* Around powers of ten, and where the form changes. */
	static const float edge[] = { 0, 1e-4f, 1e-3f, 1e-2f, 0.1f, 1, 10, 1e5f, 1e6f, 123456, 0.5f,
				      3, 16777216, 1e-45f, 3.4028235e38f };
	uint64_t state = rlx_test_seed();
	struct obuf o = { 0 };
	uint32_t bits;
	unsigned int i;
	float v;

	for (i = 0; i < sizeof(edge) / sizeof(edge[0]); i++) {
		check_text(&o, edge[i]);
		check_text(&o, -edge[i]);
		check_text(&o, nextafterf(edge[i], 0));
		check_text(&o, -nextafterf(edge[i], 1e38f));
	}
	for (i = 0; i < CASES; i++) {
		bits = (uint32_t)rlx_test_rand(&state);
		memcpy(&v, &bits, sizeof(v));
		/* Half of them of the sizes that tensors have. */
		if (i % 2)
			v = (float)((double)bits / 4294967296. - 0.5) *
			    powf(10, (float)((int)(rlx_test_rand(&state) % 12) - 5));
		if (isfinite(v))
			check_text(&o, v);
	}
	obuf_fini(&o);
}

TEST(no_numbers_are_null)
{
	struct obuf o = { 0 };

	obuf_float(&o, NAN);
	obuf_float(&o, -INFINITY);
	CHECK(o.n == 8 && !memcmp(o.p, "nullnull", 8));
	obuf_fini(&o);
}

TEST_MAIN()
