// SPDX-License-Identifier: MIT
/* Real models give on a GPU what they give on the CPU, on fresh random inputs. */
#include "selftests/lib/op_case.h"
#include "selftests/lib/rlx_models.h"

/* As near as the CPU's must be to the peer; see selftests/models/parity.c. */
static const double f32_tolerance = 1e-4;

static void compare(const struct rlx_model_case *c, struct rlx_session *gpu,
		    struct rlx_session *cpu)
{
	struct rlx_program *p = rlx_session_program(cpu);
	unsigned int i, n = rlx_program_io_count(p, RLX_IO_OUTPUT);

	CHECK(n > 0);
	for (i = 0; i < n; i++) {
		const char *name = rlx_program_io_name(p, RLX_IO_OUTPUT, i);
		struct rlx_distance d = rlx_model_distance(
			rlx_buf_ptr(rlx_session_buf(gpu, RLX_IO_OUTPUT, name)),
			rlx_buf_ptr(rlx_session_buf(cpu, RLX_IO_OUTPUT, name)),
			rlx_type_count(rlx_program_io_type(p, RLX_IO_OUTPUT, i)), 0);

		printf("# %s %s: relative %.2g, cosine %.8f\n", c->m->file, name, d.relative,
		       d.cosine);
		if (c->opts->precision == RLX_PRECISION_AS_WRITTEN)
			CHECKF(d.relative <= f32_tolerance, "relative error %g > %g",
			       d.relative, f32_tolerance);
		else
			rlx_model_check_rounded(c, gpu, name,
				rlx_buf_ptr(rlx_session_buf(cpu, RLX_IO_OUTPUT, name)));
	}
}

/* In @precision on the GPU, as written on the CPU. */
static void on_both(const struct rlx_model *m, enum rlx_precision precision)
{
	struct rlx_compile_opts on_gpu = {
		.size = sizeof(on_gpu), .device = op_case_gpu(), .precision = precision,
	};
	struct rlx_compile_opts on_cpu = { .size = sizeof(on_cpu), .device = "cpu" };
	void *data[RLX_MODEL_INPUTS] = { NULL };
	struct rlx_segment seg = { 0 };
	struct rlx_error err = { 0 };
	struct rlx_session *gpu, *cpu;

	rlx_model_fill(m, rlx_test_seed(), data);
	CHECKF(!rlx_model_import(m, data, &seg, &err), "%s", err.text);
	gpu = rlx_model_run(m, data, seg.g, &on_gpu);
	cpu = rlx_model_run(m, data, seg.g, &on_cpu);
	compare(&(struct rlx_model_case){ m, data, seg.g, &on_gpu }, gpu, cpu);
	rlx_session_free(gpu);
	rlx_session_free(cpu);
	rlx_segment_fini(&seg);
	rlx_model_drop(m, data);
}

#define ON_BOTH(n, ...)							\
	static const struct rlx_model n = __VA_ARGS__;			\
	TEST(n##_f32) { on_both(&n, RLX_PRECISION_AS_WRITTEN); }		\
	TEST(n##_bf16) { on_both(&n, RLX_PRECISION_BF16); }

ON_BOTH(minilm, RLX_MODEL_BERT("", "minilm.onnx", 2, 33))
ON_BOTH(ppocr_det, RLX_MODEL_PAGE("", "ppocr_det.onnx", "x", 160, 256))
ON_BOTH(ppocr_rec, RLX_MODEL_IMAGE("", "ppocr_rec.onnx", "x", 48, 320))
ON_BOTH(ppocr_cls, RLX_MODEL_IMAGE("", "ppocr_cls.onnx", "x", 48, 192))
ON_BOTH(magika, RLX_MODEL_MAGIKA("", 2))
ON_BOTH(silero_vad, RLX_MODEL_VAD("", "silero_vad.onnx"))
ON_BOTH(silero_vad_ifless, RLX_MODEL_VAD("", "silero_vad_ifless.onnx"))

TEST_MAIN()
