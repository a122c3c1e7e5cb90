// SPDX-License-Identifier: MIT
/*
 * RLX_COMPILE_STRICT_BITS on a GPU: what it does has the bits that the CPU gives, and what it does
 * not do so is refused by name.
 */
#include "selftests/lib/op_case.h"
#include "selftests/lib/strict_bits.h"

static struct rlx_graph *graph(const char *body)
{
	const struct part p = { .name = body, .text = body };

	return graph_of(&p, 0);
}

/* What @body gives on the device is what it gives on the CPU; all its inputs are f32. */
static void alike(const char *body)
{
	const struct way cpu = { .threads = 1 }, gpu = { .device = op_case_gpu() };
	const struct part p = { .name = body, .text = body };
	struct rlx_graph *g = graph(body);
	struct inputs in = { 0 };
	struct outputs a, b;

	inputs_of(&p, &in);
	run(g, in.data, &cpu, 0, &a);
	run(g, in.data, &gpu, 0, &b);
	CHECKF(!a.status && !b.status, "%s: %s%s", body, a.why, b.why);
	CHECKF(same(&a, &b), "%s", body);
	outputs_free(&a);
	outputs_free(&b);
	for (unsigned int k = 0; k < in.n; k++)
		free(in.data[k]);
	rlx_graph_put(g);
}

TEST(what_moves_is_done)
{
	alike("%1 = input(name=\"x\", type=f32[7,30])\n%2 = transpose(x=%1, perm=[1,0])\n"
	      "%3 = concat(xs=[%2, %2], axis=1)\n%4 = pad(x=%3, pads=[1,2,0,3])\n"
	      "return \"y\"=%4\n");
}

static void refused(const char *body, const char *const *words)
{
	struct rlx_compile_opts opts = { .size = sizeof(opts), .device = op_case_gpu(),
					 .flags = RLX_COMPILE_STRICT_BITS };
	struct rlx_graph *g = graph(body);
	struct rlx_program *p = NULL;
	struct rlx_error err = { 0 };

	CHECK_EQ(rlx_compile(g, &opts, &p, &err), RLX_ENOSUP);
	for (; *words; words++)
		CHECKF(strstr(err.text, *words), "no '%s' in: %s", *words, err.text);
	CHECK(!p);
	rlx_graph_put(g);
}

TEST(what_adds_up_otherwise_is_refused_by_name)
{
	refused("%1 = input(name=\"x\", type=f32[4,70])\n%2 = asin(x=%1)\nreturn \"y\"=%2\n",
		(const char *const[]){ op_case_gpu(), "asin", "node ", "f32[4,70]",
				       "compile for cpu", NULL });
}

TEST_MAIN()
