// SPDX-License-Identifier: MIT
/* Every allocation of a graph's programs by device fails once. */
#include <stdlib.h>

#include "rlx/devices.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

static enum rlx_status use(struct rlx_devices *ds, struct rlx_error *err)
{
	static float x[2 * SMALL_SEQ * SMALL_DIM], y[2 * SMALL_SEQ * SMALL_DIM];
	struct rlx_type t = rlx_type(RLX_F32, 2, SMALL_SEQ, SMALL_DIM);
	struct rlx_named_tensor in = { "x", t, x };
	struct rlx_named_result out = { "y", t, y };
	struct rlx_devices_io io = { &in, 1, &out, 1 };
	struct rlx_attempt at[4];
	struct rlx_attempts tries = { at, 4, 0 };
	struct rlx_device_fit fit[8];
	enum rlx_status st;

	st = rlx_devices_set(ds, "w", rlx_type(RLX_F32, SMALL_DIM), x, err);
	if (!st)
		st = rlx_devices_run(ds, "cpu", &io, &tries, err);
	rlx_devices_fit(ds, fit, 8);
	rlx_devices_warm(ds, at, 4);
	rlx_devices_bench(ds, NULL, 0, 2, fit, 8);
	return st;
}

static enum rlx_status life(void *ctx)
{
	struct rlx_devices *ds = NULL;
	struct rlx_policy *p = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_policy_new("allow=cpu,ref pick=measure:2", &p, &err);

	if (!st)
		st = rlx_devices_new(ctx, p, NULL, &ds, &err);
	if (!st)
		st = use(ds, &err);
	CHECKF(!st || err.status == st, "%d, the message says %d: %s", st, err.status, err.text);
	rlx_devices_free(ds);
	rlx_policy_put(p);
	return st;
}

TEST(devices)
{
	struct rlx_type t = rlx_type(RLX_F32, 2, SMALL_SEQ, SMALL_DIM);
	struct rlx_graph *g = rlx_graph_new("sum");
	rlx_value x = rlx_input(g, "x", t), w = rlx_param(g, "w", rlx_type(RLX_F32, SMALL_DIM));

	setenv("RLX_PICK_CACHE", "off", 1);
	rlx_output(g, "y", rlx_emit(g, relu, .x = rlx_emit(g, add, .a = x, .b = w)));
	CHECK_EQ(rlx_graph_finish(g), 0);
	CHECK(rlx_oom_sweep(life, g) > 50);
	rlx_graph_put(g);
}

TEST_MAIN()
