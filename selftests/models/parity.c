// SPDX-License-Identifier: MIT
/* Real models give what ONNX Runtime gives, on fresh random inputs. */
#include <math.h>

#include "rlx/run.h"
#include "selftests/lib/rlx_models.h"

/* Of |a - b| / (|b| + rms(b)). */
static const double f32_tolerance = 1e-4;
/* The same, from the reference evaluator. */
static const double truth_tolerance = 1e-5;

static const struct rlx_model minilm = RLX_MODEL_BERT("", "minilm.onnx", 2, 33);
static const struct rlx_model bert = RLX_MODEL_BERT("", "bert-base.onnx", 1, 24);
static const struct rlx_model resnet =
	RLX_MODEL_IMAGE("", "resnet50.onnx", "input", 224, 224);
static const struct rlx_model det =
	RLX_MODEL_PAGE("", "ppocr_det.onnx", "x", 160, 256);
static const struct rlx_model rec =
	RLX_MODEL_IMAGE("", "ppocr_rec.onnx", "x", 48, 320);
static const struct rlx_model cls =
	RLX_MODEL_IMAGE("", "ppocr_cls.onnx", "x", 48, 192);
static const struct rlx_model magika = RLX_MODEL_MAGIKA("", 2);
static const struct rlx_model vad = RLX_MODEL_VAD("", "silero_vad.onnx");
static const struct rlx_model vad_ifless =
	RLX_MODEL_VAD("", "silero_vad_ifless.onnx");

static void must(enum rlx_status st, const struct rlx_error *err, const char *what)
{
	if (st)
		rlx_test_fail(__FILE__, __LINE__, "%s: %s: %s", what,
			      rlx_status_name(st), err->text);
}

static void check_outputs(const struct rlx_model_case *c, struct rlx_peer *peer,
			  struct rlx_session *s, double slack)
{
	bool exact = c->opts->precision == RLX_PRECISION_AS_WRITTEN;
	const struct rlx_model *m = c->m;
	const struct rlx_peer_value *decl;
	size_t k, n = rlx_peer_outputs(peer, &decl);
	struct rlx_error err = { 0 };
	struct rlx_peer_value want;
	const float *got;
	struct rlx_distance d;

	CHECK(n > 0);
	for (k = 0; k < n; k++) {
		struct rlx_program *p = rlx_session_program(s);
		int i = rlx_program_io_find(p, RLX_IO_OUTPUT, decl[k].name);

		must(rlx_peer_output(peer, k, &want, &err), &err, m->file);
		CHECKF(i >= 0, "%s: no output %s", m->file, decl[k].name);
		CHECKF(rlx_type_equal(rlx_program_io_type(p, RLX_IO_OUTPUT,
							  (unsigned int)i),
				      &want.type),
		       "%s: output %s has another type", m->file, decl[k].name);
		got = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, decl[k].name));
		d = rlx_model_distance(got, want.data, rlx_type_count(&want.type), slack);
		printf("# %s %s: relative %.2g, cosine %.8f\n", m->file,
		       decl[k].name, d.relative, d.cosine);
		if (exact)
			CHECKF(d.relative <= f32_tolerance, "relative error %g > %g",
			       d.relative, f32_tolerance);
		else
			rlx_model_check_rounded(c, s, decl[k].name, want.data);
	}
}

/* All outputs of @s against the reference evaluator, which computes in double. */
static void check_truth(const struct rlx_model *m, void *const *data,
			struct rlx_graph *g, struct rlx_session *s)
{
	static const struct rlx_compile_opts ref = {
		.size = sizeof(ref), .device = "ref",
	};
	struct rlx_session *t = rlx_model_run(m, data, g, &ref);
	struct rlx_program *p = rlx_session_program(s);
	unsigned int i;

	for (i = 0; i < rlx_program_io_count(p, RLX_IO_OUTPUT); i++) {
		const char *name = rlx_program_io_name(p, RLX_IO_OUTPUT, i);
		const float *got = rlx_buf_ptr(rlx_session_buf(s, RLX_IO_OUTPUT, name));
		const float *want = rlx_buf_ptr(rlx_session_buf(t, RLX_IO_OUTPUT, name));
		struct rlx_distance d = rlx_model_distance(got, want,
			rlx_type_count(rlx_program_io_type(p, RLX_IO_OUTPUT, i)), 0);

		printf("# %s %s: %.2g from the reference\n", m->file, name, d.relative);
		CHECKF(d.relative <= truth_tolerance, "relative error %g > %g",
		       d.relative, truth_tolerance);
	}
	rlx_session_free(t);
}

/* Runs @m here and in the peer on the same random inputs. */
static void parity_seed(const struct rlx_model *m, const struct rlx_compile_opts *opts,
			double slack, uint64_t seed)
{
	bool exact = opts->precision == RLX_PRECISION_AS_WRITTEN;
	void *data[RLX_MODEL_INPUTS] = { NULL };
	struct rlx_segment seg = { 0 };
	struct rlx_error err = { 0 };
	struct rlx_peer *peer = NULL;
	struct rlx_session *s;

	rlx_model_fill(m, seed, data);
	must(rlx_model_peer(m, data, 2, &peer, &err), &err, m->file);
	must(rlx_peer_run(peer, &err), &err, m->file);
	must(rlx_model_import(m, data, &seg, &err), &err, m->file);
	s = rlx_model_run(m, data, seg.g, opts);
	check_outputs(&(struct rlx_model_case){ m, data, seg.g, opts }, peer, s,
		      slack);
	if (exact && slack)
		check_truth(m, data, seg.g, s);
	rlx_session_free(s);
	rlx_segment_fini(&seg);
	rlx_peer_close(peer);
	rlx_model_drop(m, data);
}

static void parity_slack(const struct rlx_model *m, const struct rlx_compile_opts *opts,
			 double slack)
{
	parity_seed(m, opts, slack, rlx_test_seed());
}

static void parity(const struct rlx_model *m, const struct rlx_compile_opts *opts)
{
	parity_slack(m, opts, 0);
}

static const struct rlx_compile_opts f32_opts = { .size = sizeof(f32_opts) };
static const struct rlx_compile_opts bf16_opts = {
	.size = sizeof(bf16_opts), .precision = RLX_PRECISION_BF16,
};
static const struct rlx_compile_opts one_opts = {
	.size = sizeof(one_opts), .threads = 1,
};

TEST(minilm) { parity(&minilm, &f32_opts); }
TEST(minilm_one_thread) { parity(&minilm, &one_opts); }
TEST(minilm_bf16) { parity(&minilm, &bf16_opts); }
TEST(bert_base) { parity(&bert, &f32_opts); }
TEST(resnet50) { parity(&resnet, &f32_opts); }
TEST(resnet50_bf16) { parity(&resnet, &bf16_opts); }
TEST(ppocr_det) { parity(&det, &f32_opts); }
TEST(ppocr_det_bf16) { parity(&det, &bf16_opts); }
TEST(ppocr_rec) { parity(&rec, &f32_opts); }
TEST(ppocr_rec_bf16) { parity(&rec, &bf16_opts); }
/* Noise on which rounding turns the result further than usual, with AMX's convolutions. */
TEST(ppocr_rec_bf16_far) { parity_seed(&rec, &bf16_opts, 0, 1898796282676873170u); }
TEST(ppocr_cls) { parity(&cls, &f32_opts); }
TEST(magika) { parity(&magika, &f32_opts); }
TEST(magika_bf16) { parity(&magika, &bf16_opts); }

/*
 * The only output is one probability, often near 1e-4, and the peer's logistic function
 * is good to some 1e-7 of 1: up to 3e-4 of the value, where ours is 2e-6 from what
 * doubles give. So the peer has that much room, and the reference judges closely.
 */
static const double logistic_slack = 1e-7;

TEST(silero_vad) { parity_slack(&vad, &f32_opts, logistic_slack); }
TEST(silero_vad_bf16) { parity(&vad, &bf16_opts); }
TEST(silero_vad_ifless) { parity_slack(&vad_ifless, &f32_opts, logistic_slack); }

/* 16-bit products must show, or the precision was not applied. */
TEST(minilm_bf16_rounds)
{
	uint64_t seed = rlx_test_seed();
	void *data[RLX_MODEL_INPUTS] = { NULL };
	struct rlx_segment seg = { 0 };
	struct rlx_error err = { 0 };
	struct rlx_session *a, *b;
	const float *x, *y;
	struct rlx_distance d;

	rlx_model_fill(&minilm, seed, data);
	must(rlx_model_import(&minilm, data, &seg, &err), &err, "minilm");
	a = rlx_model_run(&minilm, data, seg.g, &f32_opts);
	b = rlx_model_run(&minilm, data, seg.g, &bf16_opts);
	x = rlx_buf_ptr(rlx_session_buf(a, RLX_IO_OUTPUT, "last_hidden_state"));
	y = rlx_buf_ptr(rlx_session_buf(b, RLX_IO_OUTPUT, "last_hidden_state"));
	d = rlx_model_distance(y, x, 2 * 33 * 384, 0);
	CHECKF(d.relative > 1e-4, "bf16 and f32 differ by %g only", d.relative);
	rlx_session_free(a);
	rlx_session_free(b);
	rlx_segment_fini(&seg);
	rlx_model_drop(&minilm, data);
}

TEST_MAIN()
