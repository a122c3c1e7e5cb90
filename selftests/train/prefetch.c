// SPDX-License-Identifier: MIT
/*
 * Batches that are brought to the device beside the step before: the same ones in the same order,
 * whatever the depth and layout, and a position that counts none of them before its run.
 */
#include <stdlib.h>

#include "rlx/graph.h"
#include "rlx/run.h"
#include "selftests/lib/data_set.h"

enum { ROWS = 20, RECORDS = 130, IMAGE = 16384 };

static const struct rlx_field fields[1] = { { "image", { RLX_U8, 1, { IMAGE } } } };

static struct rlx_loader *open_ok(const struct rlx_loader_opts *o)
{
	struct rlx_loader *ld = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_loader_open(o, &ld, &err), "%s", err.text);
	return ld;
}

/* y: the batch's bytes, each other than it was. */
static struct rlx_session *open_session(struct rlx_loader *ld, const char *device)
{
	struct rlx_compile_opts co = { .size = sizeof(co), .device = device };
	struct rlx_graph *g = rlx_graph_new("prefetched");
	static const uint8_t flip = 0x5a;
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	rlx_value x = rlx_loader_input(ld, g, "image");

	x = rlx_emit(g, bit_xor, .a = x, .b = rlx_constant(g, rlx_scalar(RLX_U8), &flip));
	rlx_output(g, "y", x);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &co, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	rlx_program_put(p);
	rlx_graph_put(g);
	return s;
}

/* The last run was of the batch that @twin gives out next. */
static void check_run(struct rlx_session *s, struct rlx_loader *twin)
{
	const uint8_t *y = rlx_buf_ptr(rlx_session_bound(s, RLX_IO_OUTPUT, "y")), *x;
	struct rlx_batch b;
	unsigned int row, i;

	CHECK(!rlx_loader_next(twin, &b, -1));
	for (row = 0; row < b.rows; row++) {
		x = rlx_batch_row(twin, &b, "image", row);
		for (i = 0; i < IMAGE && y[row * IMAGE + i] == (x[i] ^ 0x5a); i++)
			;
		CHECKF(i == IMAGE, "batch %llu: row %u differs", (unsigned long long)b.sequence,
		       row);
	}
	rlx_loader_done(twin, &b);
}

/* @n steps, the last of which leaves a batch that is on its way, or fed. */
static void steps(struct rlx_loader *ld, struct rlx_loader *twin, struct rlx_session *s, int n,
		  bool ahead)
{
	uint64_t run;
	int i;

	for (i = 0; i < n; i++) {
		CHECKF(!rlx_loader_feed(ld, s), "%s", rlx_loader_error(ld)->text);
		CHECK(!rlx_session_submit(s, &run));
		if (ahead)
			CHECKF(!rlx_loader_prefetch(ld, s), "%s", rlx_loader_error(ld)->text);
		CHECKF(!rlx_session_wait(s, run, -1), "%s", rlx_session_error(s)->text);
		check_run(s, twin);
	}
}

static void one(const char *device, unsigned int depth, int layout, bool keep_last)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o), .path = data_path("p.rlxr"), .batch = ROWS, .seed = 4,
		.shuffle = true, .window = 2, .depth = depth, .layout = layout,
		.keep_last = keep_last,
	};
	struct rlx_loader *ld, *twin;
	struct rlx_loader_pos begin, with, without;
	struct rlx_session *s;

	data_record(o.path, fields, 1, RECORDS, 1 << 20);
	ld = open_ok(&o);
	twin = open_ok(&o);
	s = open_session(ld, device);
	rlx_loader_tell(ld, &begin);
	steps(ld, twin, s, 9, false);
	rlx_loader_tell(ld, &without);
	CHECK(!rlx_loader_seek(ld, &begin) && !rlx_loader_seek(twin, &begin));
	steps(ld, twin, s, 9, true);
	rlx_loader_tell(ld, &with);
	CHECKF(!memcmp(&with, &without, sizeof(with)), "depth %u: position %llu, not %llu", depth,
	       (unsigned long long)with.position, (unsigned long long)without.position);
	CHECK(!rlx_loader_seek(ld, &begin) && !rlx_loader_seek(twin, &begin));
	steps(ld, twin, s, 3, true);	/* what was ahead was forgotten */
	rlx_session_free(s);
	rlx_loader_close(ld);
	rlx_loader_close(twin);
}

TEST(the_same_batches)
{
	const char *gpu = getenv("RLX_TEST_GPU"), *device[] = { "cpu", "ref", gpu };
	unsigned int d, depth;
	int layout;

	for (d = 0; d < (gpu ? 3 : 2); d++)
		for (layout = RLX_LAYOUT_RESIDENT; layout <= RLX_LAYOUT_ROWS; layout++)
			for (depth = 1; depth < 5; depth++)
				one(device[d], depth, layout, depth % 2);
}

/* A batch that does not fit is ahead no more, and told of by whoever asks. */
TEST(sessions_that_do_not_fit)
{
	struct rlx_loader_opts o = { .size = sizeof(o), .path = data_path("p.rlxr"),
				     .batch = ROWS, .layout = RLX_LAYOUT_ROWS };
	struct rlx_loader *ld, *other;
	struct rlx_session *s;

	data_record(o.path, fields, 1, RECORDS, 1 << 20);
	other = open_ok(&o);
	s = open_session(other, "cpu");
	o.batch = ROWS / 2;
	ld = open_ok(&o);
	for (int i = 0; i < 3; i++) {
		while (!rlx_loader_prefetch(ld, s))	/* until it is there */
			;
		CHECK_EQ(rlx_loader_error(ld)->status, RLX_ERANGE);
		CHECK_EQ(rlx_loader_feed(ld, s), RLX_ERANGE);
	}
	CHECK_EQ(rlx_loader_prefetch(NULL, s), RLX_EINVAL);
	rlx_session_free(s);
	rlx_loader_close(ld);
	rlx_loader_close(other);
}

TEST_MAIN()
