// SPDX-License-Identifier: MIT
/* The rlx command where there is a GPU: what it says of it, and of a model there. */
#include "selftests/cli/cli.h"
#include "selftests/lib/op_case.h"

static const char net[] =
	"graph \"t\" {\n"
	"  %1 = input(name=\"x\", type=f32[4,3])\n"
	"  %2 = relu(x=%1) : f32[4,3]\n"
	"  %3 = softmax(x=%2, axis=-1) : f32[4,3]\n"
	"  return \"y\"=%3\n"
	"}\n";

TEST(info)
{
	struct rlx_json *j;
	char name[64], text[96];
	int64_t v;
	uint32_t d;

	cli_begin();
	j = cli_json(RLX("info", "--json"));
	d = rlx_json_get(j, rlx_json_get(j, 0, "devices"), op_case_gpu());
	CHECK(d);
	CHECK(rlx_json_int(j, rlx_json_get(j, d, "memory"), &v) && v > 0);
	CHECK(rlx_json_int(j, rlx_json_get(j, d, "driver"), &v) && v > 0);
	CHECK(rlx_json_int(j, rlx_json_get(j, d, "numa_node"), &v) && v >= -1);
	CHECK(strchr(rlx_json_text(j, rlx_json_get(j, d, "pci")), ':'));
	snprintf(name, sizeof(name), "%s", rlx_json_text(j, rlx_json_get(j, d, "name")));
	CHECK(*name);
	snprintf(text, sizeof(text), "%s, kernels for ", name);
	ENDS(RLX("info"), 0, out, text);
}

/* It names the device, which has no threads of the host's. */
TEST(bench)
{
	struct rlx_json_iter it;
	struct rlx_json *j;
	const char *out;
	char label[32];
	double v;

	cli_begin();
	cli_write("net.rlx", net);
	out = RLX("bench", "net.rlx", "--device", op_case_gpu(), "--seconds", "0.05")->out;
	snprintf(label, sizeof(label), "%s (", op_case_gpu());
	CHECKF(!strncmp(out, label, strlen(label)) && !strstr(out, " thread;") &&
	       strstr(out, "of which bringing weights there"), "%s", out);
	j = cli_json(RLX("bench", "net.rlx", "--device", op_case_gpu(), "--seconds", "0.05",
			 "--format", "json"));
	it = rlx_json_iter(j, 0);
	CHECK(rlx_json_next(&it));
	CHECK(!rlx_json_double(j, rlx_json_get(j, it.val, "threads"), &v));
	CHECK(rlx_json_double(j, rlx_json_get(j, it.val, "p50_ms"), &v) && v > 0);
}

static const char product[] =
	"graph \"p\" {\n"
	"  %1 = input(name=\"x\", type=f16[100,64])\n"
	"  %2 = input(name=\"w\", type=f16[64,128])\n"
	"  %3 = matmul(a=%1, b=%2) : f16[100,128]\n"
	"  %4 = softmax(x=%3, axis=-1) : f16[100,128]\n"
	"  return \"y\"=%4\n"
	"}\n";

/* One launch of explain's JSON: its candidates, of which one is chosen and takes the least. */
static uint32_t check_launch(const struct rlx_json *j, uint32_t l, bool measured)
{
	struct rlx_json_iter it;
	double ns, least = 1e30, v;
	uint32_t n = 0, chosen = 0, c;

	CHECK(rlx_json_len(j, rlx_json_get(j, l, "ops")) > 0);
	CHECK(rlx_json_double(j, rlx_json_get(j, l, "measured_ns"), &v) == measured);
	for (it = rlx_json_iter(j, rlx_json_get(j, l, "candidates")); rlx_json_next(&it); n++) {
		c = it.val;
		CHECK(rlx_json_len(j, rlx_json_get(j, c, "kernel")) > 0);
		if (rlx_json_get(j, c, "why_not")) {
			CHECK(rlx_json_len(j, rlx_json_get(j, c, "why_not")) > 0);
			continue;
		}
		CHECK(rlx_json_double(j, rlx_json_get(j, c, "predicted_ns"), &ns) && ns > 0);
		if (!chosen++)
			least = ns;
		CHECKF(ns >= least * 0.9 - 60, "%g ns, not the %g that were chosen", ns, least);
	}
	CHECK(chosen);
	return n;
}

/* Of each launch what there was to choose from; measured if asked for. */
TEST(explain)
{
	struct rlx_json_iter it;
	struct rlx_json *j;
	uint32_t n = 0, most = 0, k;

	cli_begin();
	cli_write("p.rlx", product);
	for (int measure = 0; measure < 2; measure++) {
		j = cli_json(RLX("explain", "p.rlx", "--device", op_case_gpu(), "--json",
				 measure ? "--measure" : "--all", "--seconds", "0"));
		CHECK(rlx_json_len(j, rlx_json_get(j, 0, "chip")) > 0);
		for (it = rlx_json_iter(j, rlx_json_get(j, 0, "launches")); rlx_json_next(&it);
		     n++) {
			k = check_launch(j, it.val, measure);
			most = k > most ? k : most;
		}
		CHECK(n >= 2);
		CHECKF(most >= 5, "%u candidates at most", most);
	}
	ENDS(RLX("explain", "p.rlx", "--device", op_case_gpu()), 0, out, " us  ");
	ENDS(RLX("explain", "p.rlx", "--device", op_case_gpu()), 0, out, "M is over 8");
	ENDS(RLX("explain", "p.rlx"), 3, err, "has no kernels to choose from");
	ENDS(RLX("explain", "p.rlx", "--seconds", "-1"), 2, err, "--seconds");
	ENDS(RLX("explain", "none.rlx"), 3, err, "none.rlx");
}

/* Each kernel's time on the device, within the time of its run. */
TEST(trace)
{
	static char text[1 << 18];
	double run = 0, steps = 0, dur;
	struct rlx_json_iter it;
	struct rlx_error err;
	struct rlx_json j;
	size_t n;

	cli_begin();
	cli_write("net.rlx", net);
	setenv("RLX_TRACE", "trace.json", 1);
	ENDS(RLX("run", "net.rlx", "--device", op_case_gpu()), 0, err, "");
	n = cli_read("trace.json", text, sizeof(text));
	CHECKF(!rlx_json_parse(&j, text, n, NULL, "trace", &err), "%s", err.text);
	for (it = rlx_json_iter(&j, 0); rlx_json_next(&it);) {
		uint32_t kind = rlx_json_get(&j, it.val, "cat");

		CHECK(rlx_json_double(&j, rlx_json_get(&j, it.val, "dur"), &dur));
		if (rlx_json_str_is(&j, rlx_json_get(&j, it.val, "name"), "t"))
			run += dur;
		else if (rlx_json_str_is(&j, kind, "step"))
			steps += dur;
	}
	CHECKF(run > 0 && steps > 0 && steps <= run, "steps of %g us in a run of %g", steps, run);
	rlx_json_fini(&j);
}

TEST(ops)
{
	cli_begin();
	ENDS(RLX("ops", "softmax", "--device", op_case_gpu()), 0, out, "native");
}

TEST_MAIN()
