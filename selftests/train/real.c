// SPDX-License-Identifier: MIT
/* Data that people have: Fashion-MNIST as Debian packages it. */
#include "selftests/lib/data_set.h"

#define SETS	"/usr/share/datasets/fashion-mnist/"

/* 60,000 images and labels in gzip: decoded once, given to a program by numbers of rows. */
TEST(fashion_mnist_as_it_is_packaged)
{
	struct rlx_loader_opts o = {
		.size = sizeof(o), .batch = 250, .shuffle = true, .seed = 1,
		.path = "image=" SETS "train-images-idx3-ubyte.gz,label=" SETS
			"train-labels-idx1-ubyte.gz",
	};
	struct rlx_compile_opts co = { .size = sizeof(co), .device = "cpu" };
	struct rlx_session_opts so = { .size = sizeof(so), .strict = true };
	struct rlx_graph *g = rlx_graph_new("count");
	uint64_t count[10] = { 0 }, i, k, pixels = 0;
	struct rlx_loader_info info;
	struct rlx_loader *ld = NULL;
	struct rlx_error err = { 0 };
	struct rlx_program *p;
	struct rlx_session *s;
	rlx_value x, y;

	if (access(SETS "train-images-idx3-ubyte.gz", R_OK))
		rlx_test_skip("dataset-fashion-mnist is not installed");
	CHECKF(!rlx_loader_open(&o, &ld, &err), "%s", err.text);
	x = rlx_emit(g, cast, .x = rlx_loader_input(ld, g, "image"), .to = RLX_F32);
	y = rlx_loader_input(ld, g, "label");
	rlx_output(g, "sum", rlx_emit(g, reduce, .x = x, .kind = RLX_REDUCE_SUM));
	rlx_output(g, "labels", y);
	CHECKF(!rlx_graph_finish(g), "%s", rlx_graph_error(g)->text);
	CHECKF(!rlx_compile(g, &co, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, &so, &s, &err), "%s", err.text);
	for (i = 0; i < 240; i++) {
		const uint8_t *l;

		CHECKF(!rlx_loader_feed(ld, s), "%s", rlx_loader_error(ld)->text);
		CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
		l = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "labels"));
		for (k = 0; k < 250; k++)
			count[l[k] < 10 ? l[k] : 0]++;
		pixels += (uint64_t)*(float *)rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, "sum"));
	}
	for (k = 0; k < 10; k++)	/* the set has 6,000 of each */
		CHECK_EQ(count[k], 6000);
	/* and a mean of 72.94 of 255, as everybody finds who normalizes it */
	CHECKF(fabs((double)pixels / 60000 / 784 - 72.94) < 0.01, "mean %g",
	       (double)pixels / 60000 / 784);
	rlx_loader_info(ld, &info);
	CHECK_EQ(info.layout, RLX_LAYOUT_RESIDENT);
	CHECK_EQ(info.bytes_copied, 0);
	CHECKF(strstr(info.direct, "compressed"), "%s", info.direct);
	rlx_session_free(s);
	rlx_program_put(p);
	rlx_graph_put(g);
	rlx_loader_close(ld);
}

/* Licence texts as a stream of bytes: rows of any length, each token where it should be. */
TEST(licence_texts_as_bytes)
{
	struct rlx_record_opts ro = { .size = sizeof(ro), .flags = RLX_RECORD_STREAM };
	const struct rlx_field f = { "tokens", { RLX_U8, 0 } };
	struct rlx_loader_opts o = { .size = sizeof(o), .batch = 8, .sample = 257, .step = 256,
				     .layout = RLX_LAYOUT_ROWS };
	struct rlx_record_writer *w;
	struct rlx_loader *ld = NULL;
	struct rlx_error err = { 0 };
	struct rlx_batch b;
	unsigned int i, row;
	const void *data;
	uint8_t *text;
	size_t n;

	text = data_read("/usr/share/common-licenses/GPL-3", &n);
	data = text;
	CHECK(!rlx_record_create(data_path("gpl.rlxr"), &f, 1, &ro, &w, &err));
	CHECK(!rlx_record_add(w, &data, n, &err) && !rlx_record_commit(w, &err));
	o.path = data_path("gpl.rlxr");
	CHECKF(!rlx_loader_open(&o, &ld, &err), "%s", err.text);
	for (i = 0; i < (n - 257) / 256 / 8; i++) {
		CHECKF(!rlx_loader_next(ld, &b, -1), "%s", rlx_loader_error(ld)->text);
		for (row = 0; row < 8; row++)
			CHECK(!memcmp(rlx_batch_row(ld, &b, "tokens", row),
				      text + (8 * i + row) * 256, 257));
		rlx_loader_done(ld, &b);
	}
	rlx_loader_close(ld);
	free(text);
}

TEST_MAIN()
