// SPDX-License-Identifier: MIT
/* Arenas that the driver imports are used by kernels where they lie, while others may write. */
#include <stdlib.h>
#include <string.h>

#include "selftests/lib/changing.h"
#include "selftests/vulkan/line.h"

enum { LINES = 8, LINE = 1024, BEST = 32, BEFORE = 4096, RUNS = 100 };

static struct rlx_session *topk_session(void)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = "vulkan" };
	struct rlx_graph *g = rlx_graph_new("topk");
	struct rlx_error err = { 0 };
	struct rlx_program *p = NULL;
	struct rlx_session *s;
	rlx_value v = rlx_emit(g, topk, .x = rlx_input(g, "x", rlx_type(RLX_F32, LINES, LINE)),
			       .axis = -1, .k = BEST);

	rlx_output(g, "v", v);
	rlx_output(g, "i", rlx_out(g, v, 1));
	CHECK_EQ(rlx_graph_finish(g), RLX_OK);
	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	s = session(p);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

/* What fell behind the last one found, or rose above it: still elements of its line. */
TEST(keys_of_topk)
{
	struct rlx_arena *a = arena(1 << 20, 0);
	float *all = rlx_arena_base(a), *v = all + BEFORE / 4 + LINES * LINE;
	int64_t *idx = (int64_t *)(v + LINES * BEST);
	/* 1 and 2, each for some readings of a line */
	struct changing w = { .n = LINES * LINE, .value = { 0x3f800000, 0x40000000 },
			      .pause_ns = 100000 };
	struct rlx_session *s;
	int run, i;

	setenv("LP_NUM_THREADS", "1", 0);	/* a processor is left for who writes */
	s = topk_session();
	for (i = 0; i < (1 << 20) / 4; i++)
		all[i] = -1;
	bind(s, RLX_IO_INPUT, "x", a, BEFORE, LINES * LINE * 4);
	bind(s, RLX_IO_OUTPUT, "v", a, BEFORE + LINES * LINE * 4, LINES * BEST * 4);
	bind(s, RLX_IO_OUTPUT, "i", a, BEFORE + LINES * (LINE + BEST) * 4, LINES * BEST * 8);
	for (i = 0; i < LINES * LINE; i++)
		all[BEFORE / 4 + i] = 1;
	w.at = (_Atomic uint32_t *)(all + BEFORE / 4);
	changing_begin(&w);
	for (run = 0; run < RUNS; run++) {
		CHECK_EQ(rlx_session_run(s), RLX_OK);
		for (i = 0; i < LINES * BEST; i++) {
			CHECKF(v[i] == 1 || v[i] == 2, "run %d, result %d: %g", run, i,
			       (double)v[i]);
			CHECKF(idx[i] >= 0 && idx[i] < LINE, "run %d, result %d: index %lld", run,
			       i, (long long)idx[i]);
		}
	}
	changing_end(&w);
	rlx_session_free(s);
	rlx_arena_put(a);
}

TEST_MAIN()
