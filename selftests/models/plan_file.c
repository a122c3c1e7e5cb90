// SPDX-License-Identifier: MIT
/* Real models give the bits from a plan file that they give as they were compiled. */
#include <unistd.h>

#include "rlx/aot.h"
#include "rlx/run.h"
#include "selftests/lib/rlx_models.h"

static struct rlx_program *loaded(const struct rlx_program *p)
{
	struct rlx_load_opts o = { .size = sizeof(o), .threads = 2, .flags = RLX_LOAD_VERIFY };
	char path[] = "/tmp/rlx-plan-file-XXXXXX";
	struct rlx_error err = { 0 };
	struct rlx_program *q;
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	close(fd);
	CHECKF(!rlx_program_save(p, path, &err), "%s", err.text);
	CHECKF(!rlx_program_load(path, &o, &q, &err), "%s", err.text);
	unlink(path);
	return q;
}

static void same_outputs(struct rlx_session *a, struct rlx_session *b)
{
	struct rlx_program *p = rlx_session_program(a);
	unsigned int i, n = rlx_program_io_count(p, RLX_IO_OUTPUT);

	CHECK(n && rlx_program_io_count(rlx_session_program(b), RLX_IO_OUTPUT) == n);
	for (i = 0; i < n; i++) {
		const char *name = rlx_program_io_name(p, RLX_IO_OUTPUT, i);
		struct rlx_buf x = rlx_session_buf(a, RLX_IO_OUTPUT, name);
		struct rlx_buf y = rlx_session_buf(b, RLX_IO_OUTPUT, name);

		CHECK(x.bytes == y.bytes && !memcmp(rlx_buf_ptr(x), rlx_buf_ptr(y), x.bytes));
	}
}

static void round_trip(const struct rlx_model *m, const struct rlx_compile_opts *o)
{
	struct rlx_segment seg = { 0 };
	struct rlx_error err = { 0 };
	struct rlx_session *a, *b;
	struct rlx_program *p, *q;
	void *data[RLX_MODEL_INPUTS];
	unsigned int i;

	rlx_model_fill(m, rlx_test_seed(), data);
	CHECKF(!rlx_model_import(m, data, &seg, &err), "%s: %s", m->file, err.text);
	a = rlx_model_run(m, data, seg.g, o);
	p = rlx_session_program(a);
	q = loaded(p);
	CHECKF(!rlx_session_new(q, NULL, &b, &err), "%s", err.text);
	for (i = 0; i < rlx_program_io_count(p, RLX_IO_INPUT); i++) {
		const char *name = rlx_program_io_name(p, RLX_IO_INPUT, i);

		CHECK(!rlx_session_set(b, RLX_IO_INPUT, name,
				       *rlx_program_io_type(p, RLX_IO_INPUT, i),
				       rlx_buf_ptr(rlx_session_buf(a, RLX_IO_INPUT, name))));
	}
	CHECKF(!rlx_session_run(b), "%s", rlx_session_error(b)->text);
	same_outputs(a, b);
	rlx_session_free(b);
	rlx_program_put(q);
	rlx_session_free(a);
	rlx_segment_fini(&seg);
	rlx_model_drop(m, data);
}

static void all_ways(const struct rlx_model *m)
{
	static const enum rlx_precision precision[] = {
		RLX_PRECISION_AS_WRITTEN, RLX_PRECISION_MIXED_BF16, RLX_PRECISION_MIXED_F16,
	};
	unsigned int i;

	for (i = 0; i < 3; i++) {
		struct rlx_compile_opts o = { .size = sizeof(o), .device = "cpu", .threads = 2,
					      .precision = precision[i] };

		round_trip(m, &o);
	}
}

#define MODEL(name, ...)						\
	TEST(name)							\
	{								\
		static const struct rlx_model m = __VA_ARGS__;		\
									\
		all_ways(&m);						\
	}

MODEL(minilm, RLX_MODEL_BERT("", "minilm.onnx", 2, 33))
MODEL(ppocr_det, RLX_MODEL_PAGE("", "ppocr_det.onnx", "x", 96, 128))
MODEL(ppocr_rec, RLX_MODEL_IMAGE("", "ppocr_rec.onnx", "x", 48, 320))
MODEL(ppocr_cls, RLX_MODEL_IMAGE("", "ppocr_cls.onnx", "x", 48, 192))
MODEL(magika, RLX_MODEL_MAGIKA("", 2))
MODEL(silero_vad, RLX_MODEL_VAD("", "silero_vad.onnx"))
MODEL(silero_vad_ifless, RLX_MODEL_VAD("", "silero_vad_ifless.onnx"))

TEST_MAIN()
