// SPDX-License-Identifier: MIT
/*
 * Policies and a graph's programs by device: r206 to r228 of the surface that programs of
 * this kind have. "null" computes nothing and "ref" is exact, so that both can be told
 * from "cpu".
 */
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "rlx/devices.h"
#include "rt/policy.h"
#include "selftests/lib/host_op.h"
#include "selftests/lib/rlx_test.h"

static const char *const variables[] = {
	"RLX_DEVICES", "RLX_DENY_DEVICES", "RLX_PREFER_DEVICES", "RLX_DEVICE_CHAIN", "RLX_DEVICE",
	"RLX_BENCHMARK_PICK",
};

static void no_env(void)
{
	size_t i;

	for (i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		unsetenv(variables[i]);
}

static struct rlx_policy *policy(const char *text)
{
	struct rlx_error err = { 0 };
	struct rlx_policy *p = NULL;

	CHECKF(!rlx_policy_new(text, &p, &err), "%s", err.text);
	return p;
}

/* y = x + w, of two floats. */
static struct rlx_graph *sum_graph(void)
{
	struct rlx_graph *g = rlx_graph_new("sum");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2));
	rlx_value w = rlx_param(g, "w", rlx_type(RLX_F32, 2));

	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = w));
	CHECK_EQ(rlx_graph_finish(g), 0);
	return g;
}

static struct rlx_devices *devices_of(struct rlx_graph *g, const char *text)
{
	struct rlx_error err = { 0 };
	struct rlx_policy *p = policy(text);
	struct rlx_devices *ds = NULL;

	CHECKF(!rlx_devices_new(g, p, NULL, &ds, &err), "%s", err.text);
	rlx_policy_put(p);
	rlx_graph_put(g);
	return ds;
}

static void set_w(struct rlx_devices *ds, float a, float b)
{
	const float w[2] = { a, b };
	struct rlx_error err = { 0 };

	CHECKF(!rlx_devices_set(ds, "w", rlx_type(RLX_F32, 2), w, &err), "%s", err.text);
}

struct ran {
	float			y[2];
	struct rlx_attempt	at[8];
	unsigned int		n;
	struct rlx_error	err;
	enum rlx_status		st;
};

static struct ran run(struct rlx_devices *ds, const char *hint, float a, float b)
{
	const float x[2] = { a, b };
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 2), x };
	struct ran r = { .y = { -99, -99 } };
	struct rlx_named_result out = { "y", rlx_type(RLX_F32, 2), r.y };

	struct rlx_devices_io io = { &in, 1, &out, 1 };
	struct rlx_attempts tries = { r.at, 8, 0 };

	r.st = rlx_devices_run(ds, hint, &io, &tries, &r.err);
	r.n = tries.n;
	return r;
}

#define GIVES(ds, hint, p, q) do {					\
	struct ran r_ = run(ds, hint, 3, 4);				\
	CHECKF(!r_.st, "%s", r_.err.text);				\
	CHECKF(r_.y[0] == (p) && r_.y[1] == (q), "%g %g", (double)r_.y[0], (double)r_.y[1]); \
} while (0)

static void prints(const char *text, const char *want)
{
	struct rlx_policy *p = policy(text);
	char *buf = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&buf, &n);

	CHECK_EQ(rlx_policy_print(p, f), 0);
	fclose(f);
	CHECK_STR(buf, want);
	free(buf);
	rlx_policy_put(p);
}

TEST(r207_text_reads_and_prints)
{
	prints(NULL, "pick=cost\n");
	prints("  allow=CUDA,cpu;hip deny=amd:1 \n prefer=nvidia:1",
	       "allow=cuda,cpu,rocm deny=rocm:1 prefer=cuda:1 pick=cost\n");
	prints("chain=gpu,cpu pick=order native=yes", "chain=gpu,cpu pick=order native=yes\n");
	prints("pick=measure:0 device=ref", "device=ref pick=measure:1\n");
	prints("pick=measure native=no deny=pci:0000:3B:00.0",
	       "deny=pci:0000:3b:00.0 pick=measure:11\n");
}

static void refuses(const char *text, const char *says)
{
	struct rlx_error err = { 0 };
	struct rlx_policy *p = (void *)1;

	CHECK_EQ(rlx_policy_new(text, &p, &err), RLX_EINVAL);
	CHECK(!p);
	CHECKF(strstr(err.text, says), "%s: %s", text, err.text);
}

TEST(r207_bad_text_is_named)
{
	char many[200] = "allow=cpu";
	int i;

	refuses("alow=cpu", "alow");
	refuses("cpu", "'cpu' is none of");
	refuses("allow=", "a name of a device is missing");
	refuses("allow=,;", "a name of a device is missing");
	refuses("allow=cpu allow=ref", "twice");
	refuses("deny=cdua", "cdua");
	refuses("deny=cpu:", "cpu:");
	refuses("deny=cpu:1x", "cpu:1x");
	refuses("deny=cpu:9999999", "9999999");
	refuses("deny=a-name-that-is-longer-than-any-device-has", "longer");
	refuses("pick=fast", "fast");
	refuses("pick=measure:", "number of runs");
	refuses("pick=measure:-1", "-1");
	refuses("pick=measure:1000001", "1000001");
	refuses("native=maybe", "maybe");
	refuses("device=cpu,ref", "chain=");
	refuses("device=cpu chain=cpu,ref", "both");
	for (i = 0; i < 16; i++)
		strcat(many, ",cpu");
	refuses(many, "more than 16");
}

static void env_prints(const char *want)
{
	struct rlx_error err = { 0 };
	struct rlx_policy *p = NULL;
	char *buf = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&buf, &n);

	CHECKF(!rlx_policy_env(NULL, &p, &err), "%s", err.text);
	CHECK_EQ(rlx_policy_print(p, f), 0);
	fclose(f);
	CHECK_STR(buf, want);
	free(buf);
	rlx_policy_put(p);
}

static void env_refuses(const char *says, const char *too)
{
	struct rlx_error err = { 0 };
	struct rlx_policy *p;

	CHECK_EQ(rlx_policy_env(NULL, &p, &err), RLX_EINVAL);
	CHECKF(strstr(err.text, says) && strstr(err.text, too), "%s", err.text);
}

TEST(r208_environment)
{
	struct rlx_error err = { 0 };
	struct rlx_policy *p;
	struct rlx_dev_info cpu = { .backend = "cpu" };

	no_env();
	env_prints("pick=cost\n");
	setenv("RLX_DEVICES", "CPU; ref", 1);
	setenv("RLX_PREFER_DEVICES", " ", 1);
	env_prints("allow=cpu,ref pick=cost\n");
	setenv("RLX_DEVICES", "cdua", 1);
	env_refuses("RLX_DEVICES", "cdua");
	unsetenv("RLX_DEVICES");
	setenv("RLX_BENCHMARK_PICK", "0", 1);
	setenv("RLX_DENY_DEVICES", "cuda rocm", 1);
	env_prints("deny=cuda,rocm pick=measure:1\n");
	setenv("RLX_BENCHMARK_PICK", "often", 1);
	env_refuses("RLX_BENCHMARK_PICK", "often");
	no_env();
	setenv("RLX_DEVICE", "cuda,cpu", 1);
	env_prints("chain=cuda,cpu pick=cost\n");
	setenv("RLX_DEVICE_CHAIN", "cuda cpu", 1);
	env_prints("chain=cuda,cpu pick=cost\n");
	setenv("RLX_DEVICE_CHAIN", "cpu,cuda", 1);
	env_refuses("RLX_DEVICE", "RLX_DEVICE_CHAIN");
	no_env();
	setenv("MINE_DEVICES", "ref", 1);
	CHECK_EQ(rlx_policy_env("MINE", &p, &err), 0);
	CHECK(rlx_policy_allows(p, &cpu, &err));
	rlx_policy_put(p);
	unsetenv("MINE_DEVICES");
}

TEST(r206_identity_on_any_device)
{
	const float x[4] = { 1, 2, 3, 4 };
	struct rlx_graph *g = rlx_graph_new("same"), *open = rlx_graph_new("open");
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 4), x };
	float y[4] = { 0 };
	struct rlx_named_result out = { "y", rlx_type(RLX_F32, 4), y };
	struct rlx_devices_io io = { &in, 1, &out, 1 };
	struct rlx_error err = { 0 };
	struct rlx_devices *ds;

	no_env();
	CHECK_EQ(rlx_devices_new(open, NULL, NULL, &ds, &err), RLX_EINVAL);
	CHECKF(strstr(err.text, "not finished"), "%s", err.text);
	rlx_graph_put(open);
	rlx_output(g, "y", rlx_emit(g, relu, .x = rlx_input(g, "x", in.type)));
	CHECK_EQ(rlx_graph_finish(g), 0);
	ds = devices_of(g, NULL);
	CHECK_EQ(rlx_devices_run(ds, NULL, &io, NULL, &err), 0);
	CHECK(!memcmp(x, y, sizeof(x)));
	memset(y, 0, sizeof(y));
	CHECK_EQ(rlx_devices_run(ds, "cpu", &io, NULL, &err), 0);
	CHECK(!memcmp(x, y, sizeof(x)));
	rlx_devices_free(ds);
	rlx_devices_free(NULL);
}

static const struct rlx_device_fit *fit_of(const struct rlx_device_fit *f, unsigned int n,
					   const char *name)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (!strcmp(f[i].device, name))
			return &f[i];
	CHECKF(false, "no row of %s", name);
	return NULL;
}

TEST(r209_r210_fit_says_what_is_in_the_way)
{
	struct rlx_devices *ds = devices_of(sum_graph(), "allow=cpu,ref deny=ref");
	struct rlx_device_fit f[16], *none = NULL;
	unsigned int n = rlx_devices_fit(ds, f, 16), i;

	CHECK(n >= 3 && n <= 16);
	CHECK_EQ(rlx_devices_fit(ds, none, 0), n);
	CHECK_STR(f[0].device, "cpu");
	CHECK(f[0].present && f[0].allowed && f[0].runs && f[0].chosen);
	CHECK(f[0].native == 1 && !f[0].host && f[0].cost_ns > 0 && f[0].compile_ns > 0);
	CHECK(!f[0].why.status);
	CHECK(strstr(fit_of(f, n, "ref")->why.text, "denies"));
	CHECK(strstr(fit_of(f, n, "null")->why.text, "allows others"));
	CHECK(!fit_of(f, n, "ref")->runs && fit_of(f, n, "ref")->present);
	for (i = 0; i < n; i++) {
		const char *why = rlx_device_why(f[i].device);

		CHECK_EQ(!f[i].present, why && *why);
		if (f[i].present)
			continue;
		CHECK_EQ(f[i].why.status, RLX_ENODEV);
		CHECKF(strstr(f[i].why.text, why), "%s: %s", f[i].device, f[i].why.text);
	}
	rlx_devices_free(ds);
}

TEST(r207_order_prefers)
{
	char device[24];
	struct rlx_error err = { 0 };
	struct rlx_devices *ds = devices_of(sum_graph(), "allow=cpu,ref prefer=ref pick=order");

	CHECK_EQ(rlx_devices_pick(ds, NULL, NULL, 0, device, &err), 0);
	CHECK_STR(device, "ref");
	rlx_devices_free(ds);
	ds = devices_of(sum_graph(), "deny=cpu,gpu");
	CHECK_EQ(rlx_devices_pick(ds, NULL, NULL, 0, device, &err), RLX_ENODEV);
	CHECKF(strstr(err.text, "cpu: the policy denies it") && strstr(err.text, "ref: it is used"),
	       "%s", err.text);
	rlx_devices_free(ds);
}

static double estimate(int n, const struct rlx_device_model *m)
{
	struct rlx_graph *g = rlx_graph_new("mm");
	rlx_value a = rlx_input(g, "a", rlx_type(RLX_F32, n, n));
	rlx_value b = rlx_input(g, "b", rlx_type(RLX_F32, n, n));
	struct rlx_error err = { 0 };
	double ns;

	rlx_output(g, "y", rlx_emit(g, matmul, .a = a, .b = b));
	CHECK_EQ(rlx_graph_finish(g), 0);
	ns = rlx_cost_estimate(g, m, &err);
	CHECKF(ns > 0, "%s", err.text);
	rlx_graph_put(g);
	return ns;
}

TEST(r211_cost_is_a_pure_function)
{
	struct rlx_device_model a = { sizeof(a), 2000, 1000, 0, 1e10, 1e10,
				      { { 1e11, 1e11 }, { 1e11, 1e11 } } };
	struct rlx_device_model b = { sizeof(b), 50000, 5000, 0, 1e11, 1e10,
				      { { 1e12, 1e12 }, { 1e12, 1e12 } } };
	struct rlx_graph *g = sum_graph(), *open = rlx_graph_new("open");
	struct rlx_error err = { 0 };

	CHECK(fabs(estimate(64, &a) - 8242.88) < 1e-6);
	CHECK(fabs(estimate(64, &b) - 55524.288) < 1e-6);
	CHECK(fabs(estimate(1024, &a) - 21477836.48) < 1e-3);
	CHECK(fabs(estimate(1024, &b) - 2202483.648) < 1e-3);
	CHECK(rlx_cost_estimate(open, &a, &err) < 0);
	a.rate[RLX_COST_OTHER][1] = 0;
	CHECK(rlx_cost_estimate(g, &a, &err) < 0);
	CHECK(rlx_cost_estimate(g, NULL, &err) < 0);
	rlx_graph_put(open);
	rlx_graph_put(g);
}

TEST(r212_a_hint_binds)
{
	struct rlx_devices *ds = devices_of(sum_graph(), "allow=cpu");
	char device[24];
	struct rlx_error err = { 0 };
	struct ran r;

	CHECK_EQ(rlx_devices_pick(ds, "cpu", NULL, 0, device, &err), 0);
	CHECK_STR(device, "cpu");
	CHECK_EQ(rlx_devices_pick(ds, "ref", NULL, 0, device, &err), RLX_ENODEV);
	CHECKF(strstr(err.text, "allows others"), "%s", err.text);
	err = (struct rlx_error){ 0 };
	CHECK_EQ(rlx_devices_pick(ds, "nonsense", NULL, 0, device, &err), RLX_EINVAL);
	CHECKF(strstr(err.text, "nonsense") && strstr(err.text, "cpu"), "%s", err.text);
	set_w(ds, 1, 2);
	r = run(ds, "cpu:7", 3, 4);
	CHECK_EQ(r.st, RLX_ENODEV);
	rlx_devices_free(ds);
}

TEST(r213_r224_a_chain_goes_on)
{
	struct rlx_devices *ds;
	char device[24];
	struct rlx_error err = { 0 };
	struct ran r;

	if (!*rlx_device_why("rocm"))
		return;		/* there is one, and nothing to go on from */
	ds = devices_of(sum_graph(), "chain=rocm,ref,cpu");
	set_w(ds, 1, 2);
	CHECK_EQ(rlx_devices_pick(ds, NULL, NULL, 0, device, &err), 0);
	CHECK_STR(device, "ref");
	r = run(ds, NULL, 3, 4);
	CHECKF(!r.st, "%s", r.err.text);
	CHECK_EQ(r.n, 2);
	CHECK_STR(r.at[0].device, "rocm");
	CHECK_EQ(r.at[0].why.status, RLX_ENODEV);
	CHECKF(strstr(r.at[0].why.text, rlx_device_why("rocm")), "%s", r.at[0].why.text);
	CHECK_STR(r.at[1].device, "ref");
	CHECK_EQ(r.at[1].why.status, RLX_OK);
	CHECK(r.y[0] == 4 && r.y[1] == 6);
	/* A hint is no chain. */
	r = run(ds, "rocm", 3, 4);
	CHECK_EQ(r.st, RLX_ENODEV);
	rlx_devices_free(ds);
	ds = devices_of(sum_graph(), "chain=rocm");
	set_w(ds, 1, 2);
	r = run(ds, NULL, 3, 4);
	CHECK_EQ(r.st, RLX_ENODEV);
	CHECK_EQ(r.n, 1);
	rlx_devices_free(ds);
}

TEST(r224_a_bad_request_is_tried_once)
{
	struct rlx_devices *ds = devices_of(sum_graph(), "chain=ref,cpu");
	const float x[3] = { 1, 2, 3 };
	struct rlx_named_tensor in = { "x", rlx_type(RLX_F32, 3), x };
	float y[2];
	struct rlx_named_result out = { "y", rlx_type(RLX_F32, 2), y };
	struct rlx_devices_io io = { &in, 1, &out, 1 }, none = { NULL, 0, &out, 1 };
	struct rlx_attempts tries = { 0 };
	struct rlx_error err = { 0 };
	struct ran r;

	r = run(ds, NULL, 3, 4);
	CHECK_EQ(r.st, RLX_EINVAL);
	CHECK_EQ(r.n, 1);
	CHECKF(strstr(r.err.text, "param 'w' has no value"), "%s", r.err.text);
	set_w(ds, 1, 2);
	CHECK_EQ(rlx_devices_run(ds, NULL, &io, &tries, &err), RLX_ESHAPE);
	CHECK_EQ(tries.n, 1);
	in.name = "z";
	CHECK_EQ(rlx_devices_run(ds, NULL, &io, &tries, &err), RLX_ENOENT);
	CHECK_EQ(rlx_devices_run(ds, NULL, &none, &tries, &err), RLX_EINVAL);
	in = (struct rlx_named_tensor){ "x", rlx_type(RLX_F32, 2), x };
	out.name = "z";
	CHECK_EQ(rlx_devices_run(ds, NULL, &io, &tries, &err), RLX_ENOENT);
	GIVES(ds, NULL, 4, 6);
	rlx_devices_free(ds);
}

/* The first device's compile runs out of memory, the second has it. */
TEST(r220_a_chain_goes_on_when_compiling_fails)
{
	struct rlx_devices *ds = devices_of(sum_graph(), "chain=ref,cpu");
	bool seen = false;
	struct ran r;
	unsigned int i;

	set_w(ds, 1, 2);
	for (i = 0; i < 400 && !seen; i++) {
		rlx_devices_forget(ds, NULL);
		rlx_alloc_fail_nth(i + 1);
		r = run(ds, NULL, 3, 4);
		rlx_alloc_fail_nth(0);
		if (r.st)
			CHECKF(r.st == RLX_ENOMEM, "%d: %s", r.st, r.err.text);
		else
			CHECK(r.y[0] == 4 && r.y[1] == 6);
		seen = !r.st && r.n == 2 && r.at[0].why.status == RLX_ENOMEM;
	}
	CHECK(seen);
	rlx_devices_free(ds);
}

TEST(r214_r216_params_follow_every_device)
{
	struct rlx_devices *ds = devices_of(sum_graph(), "allow=cpu,ref");
	const uint16_t half[2] = { 0x3c00, 0x4000 };
	struct rlx_error err = { 0 };
	struct rlx_arena_opts o = { .size = 4096 };
	struct rlx_arena *a;
	struct rlx_buf buf;

	set_w(ds, 1, 2);
	GIVES(ds, "cpu", 4, 6);
	GIVES(ds, "ref", 4, 6);
	set_w(ds, 10, 20);
	GIVES(ds, "ref", 13, 24);
	GIVES(ds, "cpu", 13, 24);
	rlx_devices_forget(ds, "cpu");
	GIVES(ds, "cpu", 13, 24);
	CHECK_EQ(rlx_devices_set(ds, "w", rlx_type(RLX_F16, 2), half, &err), 0);
	GIVES(ds, "cpu", 4, 6);
	CHECK_EQ(rlx_devices_set(ds, "v", rlx_type(RLX_F16, 2), half, &err), RLX_ENOENT);
	CHECK_EQ(rlx_devices_set(ds, "w", rlx_type(RLX_F16, 3), half, NULL), RLX_ESHAPE);
	CHECK_EQ(rlx_devices_set(ds, "w", rlx_type(RLX_I16, 2), half, NULL), RLX_ETYPE);
	CHECK_EQ(rlx_devices_set(ds, "w", rlx_type(RLX_F16, 2), NULL, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_arena_new(&o, &a, NULL), 0);
	CHECK_EQ(rlx_buf_new(a, 64, 64, &buf, NULL), 0);
	memcpy(rlx_buf_ptr(buf), (float[]){ 5, 6 }, 8);
	CHECK_EQ(rlx_devices_bind(ds, "w", buf, NULL), 0);
	rlx_arena_put(a);
	GIVES(ds, "cpu", 8, 10);
	GIVES(ds, "ref", 8, 10);
	buf.bytes = 4;
	CHECK_EQ(rlx_devices_bind(ds, "w", buf, NULL), RLX_ERANGE);
	GIVES(ds, "ref", 8, 10);
	rlx_devices_free(ds);
}

/* Its folder is the test's own. */
static char *cache_home(void)
{
	static char dir[] = "/tmp/rlx-devices-XXXXXX";

	CHECK(mkdtemp(dir));
	setenv("XDG_CACHE_HOME", dir, 1);
	return dir;
}

static unsigned int files_in(const char *dir)
{
	char path[128];
	struct dirent *e;
	unsigned int n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "%s/rlx/pick", dir);
	d = opendir(path);
	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

TEST(r217_measured_once_for_a_graph)
{
	const char *dir = cache_home();
	struct rlx_devices *ds = devices_of(sum_graph(), "allow=ref,null pick=measure:3");
	struct rlx_device_fit f[16];
	char device[24], cmd[128];
	struct rlx_error err = { 0 };
	unsigned int n;

	CHECK_EQ(rlx_devices_pick(ds, NULL, NULL, 0, device, &err), RLX_EINVAL);
	CHECKF(strstr(err.text, "no value"), "%s", err.text);
	set_w(ds, 1, 2);
	err = (struct rlx_error){ 0 };
	CHECKF(!rlx_devices_pick(ds, NULL, NULL, 0, device, &err), "%s", err.text);
	CHECK_STR(device, "null");
	CHECK_EQ(files_in(dir), 1);
	n = rlx_devices_fit(ds, f, 16);
	CHECK(fit_of(f, n, "ref")->measured_ns > fit_of(f, n, "null")->measured_ns);
	rlx_devices_free(ds);

	/* Another object needs no run: it has not even got the param. */
	ds = devices_of(sum_graph(), "allow=ref,null pick=measure:3");
	err = (struct rlx_error){ 0 };
	CHECKF(!rlx_devices_pick(ds, NULL, NULL, 0, device, &err), "%s", err.text);
	CHECK_STR(device, "null");
	rlx_devices_free(ds);

	/* A file of lies, or damaged, is none. */
	snprintf(cmd, sizeof(cmd), "for f in %s/rlx/pick/*; do echo x >>$f; done", dir);
	CHECK_EQ(system(cmd), 0);
	ds = devices_of(sum_graph(), "allow=ref,null pick=measure:3");
	CHECK(rlx_devices_pick(ds, NULL, NULL, 0, device, NULL));
	set_w(ds, 1, 2);
	setenv("RLX_PICK_CACHE", "off", 1);
	CHECK(!rlx_devices_pick(ds, NULL, NULL, 0, device, NULL));
	CHECK_EQ(files_in(dir), 0);
	unsetenv("RLX_PICK_CACHE");
	rlx_devices_free(ds);
	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	CHECK_EQ(system(cmd), 0);
}

static atomic_uint passes;

static void count(void *ctx, const char *pass, const struct rlx_graph *g)
{
	(void)ctx;
	(void)g;
	if (!strcmp(pass, ctx))
		atomic_fetch_add(&passes, 1);
}

static char first_pass[64];

static void note_first(void *ctx, const char *pass, const struct rlx_graph *g)
{
	(void)ctx;
	(void)g;
	if (!first_pass[0])
		snprintf(first_pass, sizeof(first_pass), "%s", pass);
}

static struct rlx_devices *counted(const char *text)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .dump = note_first };
	struct rlx_graph *g = sum_graph();
	struct rlx_policy *p = policy(text);
	struct rlx_devices *ds = NULL;
	struct rlx_program *prog = NULL;

	o.device = "cpu";
	CHECK_EQ(rlx_compile(g, &o, &prog, NULL), 0);
	rlx_program_put(prog);
	CHECK(first_pass[0]);
	o.device = NULL;
	o.dump = count;
	o.dump_ctx = first_pass;
	atomic_store(&passes, 0);
	CHECK_EQ(rlx_devices_new(g, p, &o, &ds, NULL), 0);
	rlx_policy_put(p);
	rlx_graph_put(g);
	return ds;
}

static void *ask_cpu(void *arg)
{
	struct rlx_program *p = NULL;

	CHECK_EQ(rlx_devices_program(arg, "cpu", &p, NULL), 0);
	return p;
}

TEST(r218_r219_compiled_once_however_many_ask)
{
	struct rlx_devices *ds = counted("allow=cpu,ref");
	struct rlx_program_info info;
	struct rlx_program *p[8], *picked;
	pthread_t t[8];
	char device[24];
	int i;

	for (i = 0; i < 8; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, ask_cpu, ds), 0);
	for (i = 0; i < 8; i++)
		CHECK_EQ(pthread_join(t[i], (void **)&p[i]), 0);
	CHECK_EQ(atomic_load(&passes), 1);
	for (i = 0; i < 8; i++) {
		CHECK(p[i] == p[0]);
		rlx_program_put(p[i]);
	}
	CHECK_EQ(rlx_devices_pick(ds, NULL, NULL, 0, device, NULL), 0);
	CHECK_EQ(rlx_devices_program(ds, device, &picked, NULL), 0);
	rlx_program_info(picked, &info);
	CHECK_STR(info.device, device);
	rlx_program_put(picked);
	rlx_devices_free(ds);
}

TEST(r226_r227_forgotten_is_compiled_anew_and_what_stays_is_not)
{
	struct rlx_devices *ds = counted("allow=cpu");
	struct rlx_policy *both = policy("allow=cpu,ref"), *one = policy("allow=ref");
	struct rlx_program *p;

	set_w(ds, 1, 2);
	GIVES(ds, "cpu", 4, 6);
	GIVES(ds, "cpu", 4, 6);
	CHECK_EQ(atomic_load(&passes), 1);
	CHECK_EQ(rlx_devices_set_policy(ds, both, NULL), 0);
	GIVES(ds, "cpu", 4, 6);
	CHECK_EQ(atomic_load(&passes), 1);
	rlx_devices_forget(ds, "cpu");
	GIVES(ds, "cpu", 4, 6);
	CHECK_EQ(atomic_load(&passes), 2);
	CHECK_EQ(rlx_devices_set_policy(ds, one, NULL), 0);
	CHECK_EQ(rlx_devices_program(ds, "cpu", &p, NULL), RLX_ENODEV);
	CHECK_EQ(rlx_devices_set_policy(ds, NULL, NULL), RLX_EINVAL);
	rlx_policy_put(both);
	rlx_policy_put(one);
	rlx_devices_free(ds);
}

TEST(r221_r222_warm_and_bench)
{
	struct rlx_devices *ds = devices_of(sum_graph(), "allow=cpu,ref,null");
	struct rlx_attempt at[4];
	struct rlx_device_fit f[4];
	unsigned int n, i;

	CHECK_EQ(rlx_devices_warm(ds, at, 4), 0);	/* no param yet */
	CHECK(strstr(at[0].why.text, "no value"));
	set_w(ds, 1, 2);
	CHECK_EQ(rlx_devices_warm(ds, at, 4), 3);
	n = rlx_devices_bench(ds, NULL, 0, 5, f, 4);
	CHECK_EQ(n, 3);
	for (i = 0; i < n; i++)
		CHECK(f[i].measured_ns > 0 && (!i || f[i].measured_ns >= f[i - 1].measured_ns));
	rlx_devices_free(ds);
}

TEST(r209_native_alone)
{
	struct rlx_graph *g = rlx_graph_new("host");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2, 3));
	struct rlx_device_fit f[16];
	struct rlx_error err = { 0 };
	struct rlx_devices *ds;
	char device[24];
	unsigned int n;

	rlx_output(g, "y", host_op(g, x));
	CHECK_EQ(rlx_graph_finish(g), 0);
	rlx_graph_get(g);
	ds = devices_of(g, "allow=cpu native=yes");
	CHECK_EQ(rlx_devices_pick(ds, NULL, NULL, 0, device, &err), RLX_ENOSUP);
	CHECKF(strstr(err.text, "native=yes") && strstr(err.text, "on_host"), "%s",
	       err.text);
	n = rlx_devices_fit(ds, f, 16);
	CHECK(!fit_of(f, n, "cpu")->runs && fit_of(f, n, "cpu")->allowed);
	rlx_devices_free(ds);
	ds = devices_of(g, "allow=cpu");
	n = rlx_devices_fit(ds, f, 16);
	CHECK(fit_of(f, n, "cpu")->runs && fit_of(f, n, "cpu")->host == 1);
	rlx_devices_free(ds);
}

TEST(r228_compile_follows_the_environment)
{
	struct rlx_graph *g = sum_graph();
	struct rlx_program_info info;
	struct rlx_program *p;
	struct rlx_error err = { 0 };

	no_env();
	setenv("RLX_DEVICE", "rocm,ref", 1);
	if (*rlx_device_why("rocm")) {
		CHECKF(!rlx_compile(g, NULL, &p, &err), "%s", err.text);
		rlx_program_info(p, &info);
		CHECK_STR(info.device, "ref");
		rlx_program_put(p);
		setenv("RLX_DEVICE", "rocm", 1);
		CHECK_EQ(rlx_compile(g, NULL, &p, &err), RLX_ENODEV);
		CHECKF(strstr(err.text, rlx_device_why("rocm")), "%s", err.text);
	}
	setenv("RLX_DEVICE", "nonsense", 1);
	CHECK_EQ(rlx_compile(g, NULL, &p, NULL), RLX_EINVAL);
	no_env();
	CHECK_EQ(rlx_compile(g, NULL, &p, NULL), 0);
	rlx_program_info(p, &info);
	CHECK_STR(info.device, "cpu");
	rlx_program_put(p);
	rlx_graph_put(g);
	CHECK_STR(rlx_device_why("cpu"), "");
	CHECK(!rlx_device_why("nonsense"));
}

static void *run_many(void *arg)
{
	int i;

	for (i = 0; i < 200; i++) {
		struct ran r = run(arg, i % 3 ? "cpu" : "ref", (float)i, 1);

		CHECKF(!r.st, "%s", r.err.text);
		CHECK(r.y[0] == (float)i + 1 && r.y[1] == 3);
	}
	return NULL;
}

TEST(threads_run_side_by_side)
{
	struct rlx_devices *ds = devices_of(sum_graph(), "allow=cpu,ref");
	pthread_t t[4];
	int i;

	set_w(ds, 1, 2);
	for (i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, run_many, ds), 0);
	for (i = 0; i < 20; i++)
		rlx_devices_forget(ds, "cpu");
	for (i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	rlx_devices_free(ds);
}

TEST_MAIN()
