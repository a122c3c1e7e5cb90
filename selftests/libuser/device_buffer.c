// SPDX-License-Identifier: MIT
/*
 * Device buffers (rlx/device_buffer.h) on devices that use the host's memory, where the same calls
 * do the same; and on all others there are, that they work or say why not.
 */
#include <stdlib.h>

#include "rlx/device.h"
#include "rlx/device_buffer.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_oom.h"
#include "selftests/lib/rlx_test.h"

enum { N = 1000, BYTES = 4 * N };

/* y = 2 x + 1 */
static struct rlx_session *open_line(const char *device)
{
	struct rlx_graph *g = rlx_graph_new("line");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, N));

	x = rlx_emit(g, mul, .a = x, .b = rlx_scalar_const(g, RLX_F32, 2));
	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = rlx_scalar_const(g, RLX_F32, 1)));
	return rig_session(g, &(struct rlx_compile_opts){
		.size = sizeof(struct rlx_compile_opts), .device = device });
}

static void run(struct rlx_session *s)
{
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
}

static void bind(struct rlx_session *s, enum rlx_io io, const char *name,
		 struct rlx_device_buffer *b, uint64_t at)
{
	CHECKF(!rlx_session_bind_device(s, io, name, b, at), "%s", rlx_session_error(s)->text);
}

static struct rlx_device_buffer *buffer(const char *device, uint64_t bytes)
{
	struct rlx_device_buffer *b = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_device_buffer_new(device, bytes, &b, &err), "%s", err.text);
	return b;
}

/* Two programs in turn, and then in place; what they leave in @b. */
static void chain(const char *device)
{
	struct rlx_session *first = open_line(device), *second = open_line(device);
	struct rlx_device_buffer *b = buffer(device, 3 * 4096);
	struct rlx_transfers t;
	float x[N], y[N];
	int i, r;

	CHECK(!rlx_device_buffer_read(b, 4096, BYTES, y, NULL));
	for (i = 0; i < N; i++) {
		CHECK(y[i] == 0);
		x[i] = (float)i;
	}
	bind(first, RLX_IO_INPUT, "x", b, 0);
	bind(first, RLX_IO_OUTPUT, "y", b, 4096);
	bind(second, RLX_IO_INPUT, "x", b, 4096);
	bind(second, RLX_IO_OUTPUT, "y", b, 8192);
	for (r = 0; r < 2; r++) {
		CHECK(!rlx_device_buffer_write(b, 0, BYTES, x, NULL));
		run(first);
		run(second);
		CHECK(!rlx_device_buffer_read(b, 8192, BYTES, y, NULL));
		for (i = 0; i < N; i++)
			CHECKF(y[i] == 4 * (float)i + 3, "%s: y[%d] is %g", device, i,
			       (double)y[i]);
	}
	t = rlx_session_transfers(second);
	CHECKF(!t.in_bytes && !t.out_bytes, "%s: bytes cross", device);
	bind(second, RLX_IO_OUTPUT, "y", b, 4096);
	run(second);
	CHECK(!rlx_session_get(second, RLX_IO_OUTPUT, "y", rlx_type(RLX_F32, N), y));
	rlx_device_buffer_put(b);		/* sessions have it */
	for (i = 0; i < N; i++)
		CHECK(y[i] == 4 * (float)i + 3);
	run(second);
	rlx_session_free(first);
	rlx_session_free(second);
}

/* They have such memory or say that they have none. */
TEST(every_device)
{
	struct rlx_dev_info info[8];
	unsigned int n = rlx_device_list(info, 8), i;

	for (i = 0; i < n && i < 8; i++) {
		struct rlx_device_buffer *b = NULL;
		struct rlx_error err = { 0 };
		enum rlx_status st = rlx_device_buffer_new(info[i].backend, 64, &b, &err);

		if (st == RLX_ENOSUP)
			CHECKF(strstr(err.text, info[i].backend), "%s", err.text);
		else
			CHECKF(!st, "%s: %s", info[i].backend, err.text);
		rlx_device_buffer_put(b);
	}
	chain("cpu");
	chain("ref");
}

TEST(host_memory_as_a_handle)
{
	struct rlx_device_buffer *b = buffer("cpu", BYTES), *e = rlx_device_buffer_get(b);
	struct rlx_session *s = open_line("cpu"), *strict = NULL;
	struct rlx_session_opts o = { .size = sizeof(o), .strict = true };
	struct rlx_device_buffer_info i;
	uint32_t at;

	rlx_device_buffer_put(e);
	rlx_device_buffer_info(NULL, &i);
	CHECK(!i.device && !i.bytes && !i.at);
	rlx_device_buffer_info(b, &i);
	CHECK_STR(i.device, "cpu");
	CHECK(i.bytes == BYTES && i.at % 64 == 0 && !i.rdonly);
	((float *)(uintptr_t)i.at)[5] = 20;
	bind(s, RLX_IO_INPUT, "x", b, 0);
	CHECK(!rlx_session_where(s, RLX_IO_INPUT, "x", &at) && at == RLX_WHERE_HOST);
	run(s);
	CHECK(((float *)rlx_buf_ptr(rlx_session_bound(s, RLX_IO_OUTPUT, "y")))[5] == 41);
	CHECK(rlx_buf_ptr(rlx_session_bound(s, RLX_IO_INPUT, "x")) == (void *)(uintptr_t)i.at);
	/* any address that fits the elements, as bound by rlx_session_bind(); and no copy */
	CHECK(!rlx_session_new(rlx_session_program(s), &o, &strict, NULL));
	CHECK_EQ(rlx_session_bind_device(strict, RLX_IO_INPUT, "x", b, 2), RLX_ERANGE);
	bind(strict, RLX_IO_INPUT, "x", b, 0);
	bind(strict, RLX_IO_OUTPUT, "y", b, 0);
	CHECK_EQ(rlx_session_run(strict), RLX_EACCES);
	rlx_session_free(strict);
	rlx_session_free(s);
	rlx_device_buffer_put(b);
}

static int deleted;

static void on_delete(struct rlx_dl_managed *dl)
{
	deleted++;
}

TEST(dlpack_of_host_memory)
{
	static float data[N];
	struct rlx_type t, want = rlx_type(RLX_F32, 10, N / 10);
	struct rlx_dl_managed dl = {
		.tensor = { .data = data, .device = { RLX_DL_CPU, 0 }, .ndim = 2,
			    .shape = want.dim, .dtype = { RLX_DL_FLOAT, 32, 1 } },
		.deleter = on_delete,
	}, *out = NULL;
	struct rlx_device_buffer *b = NULL;
	struct rlx_session *s = open_line("cpu");
	struct rlx_error err = { 0 };

	CHECKF(!rlx_dl_import_device(&dl, &t, &b, &err), "%s", err.text);
	CHECK(rlx_type_equal(&t, &want));
	bind(s, RLX_IO_OUTPUT, "y", b, 0);
	CHECK(!rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F32, N), (float[N]){ 3 }));
	run(s);
	CHECK(data[0] == 7 && data[1] == 1);
	CHECKF(!rlx_dl_export_device(b, 40, &(struct rlx_type){ .dtype = RLX_F32 }, &out, &err),
	       "%s", err.text);
	CHECK(out->tensor.data == data + 10 && out->tensor.device.device_type == RLX_DL_CPU);
	rlx_device_buffer_put(b);
	rlx_session_free(s);
	CHECK_EQ(deleted, 0);
	out->deleter(out);
	CHECK_EQ(deleted, 1);
	/* of no elements: nothing of it can be used */
	want.dim[1] = 0;
	CHECKF(!rlx_dl_import_device(&dl, &t, &b, &err), "%s", err.text);
	CHECK_EQ(rlx_device_buffer_write(b, 0, 1, data, &err), RLX_ERANGE);
	rlx_device_buffer_put(b);
	CHECK_EQ(deleted, 2);
}

static enum rlx_status take_and_run(void *ctx)
{
	struct rlx_device_buffer *b = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };
	enum rlx_status st = rlx_device_buffer_new("cpu", BYTES, &b, &err);

	if (!st)
		st = rlx_session_new(ctx, NULL, &s, &err);
	if (!st)
		st = rlx_session_bind_device(s, RLX_IO_INPUT, "x", b, 0);
	if (!st)
		st = rlx_session_run(s);
	rlx_device_buffer_put(b);
	rlx_session_free(s);
	return st;
}

TEST(allocations_that_fail)
{
	struct rlx_session *s = open_line("cpu");

	CHECK(!take_and_run(rlx_session_program(s)));
	CHECK(rlx_oom_sweep(take_and_run, rlx_session_program(s)) > 0);
	rlx_session_free(s);
}

TEST_MAIN()
