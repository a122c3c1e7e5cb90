/* SPDX-License-Identifier: MIT */
/*
 * The models that tests and benchmarks run: their files below $BUILD/models, how
 * to fill their inputs, and the way from a file to a graph.
 */
#ifndef RLX_TEST_MODELS_H
#define RLX_TEST_MODELS_H

#include "io/onnx/build.h"
#include "rlx/run.h"
#include "selftests/lib/rlx_test.h"
#include "tools/rlx/peer_ort.h"

enum { RLX_MODEL_INPUTS = 3 };

/*
 * How to fill an input: uniform in [lo, hi), whole numbers if it is integral. A
 * page has dark strokes in lines on light ground: on noise a detector of text
 * gives probabilities so near 0 that the peer's exp() is not exact enough.
 */
struct rlx_model_input {
	const char	*name;
	struct rlx_type	 type;
	double		 lo, hi;
	bool		 page;
};

struct rlx_model {
	const char		*label, *file;
	struct rlx_model_input	 in[RLX_MODEL_INPUTS];
};

/* The rows of one model, by file and dimensions. */
#define RLX_MODEL_BERT(label, file, batch, seq)				\
	{ label, file, {						\
		{ "input_ids", { RLX_I64, 2, { batch, seq } }, 0, 30522 }, \
		{ "attention_mask", { RLX_I64, 2, { batch, seq } }, 1, 2 }, \
		{ "token_type_ids", { RLX_I64, 2, { batch, seq } }, 0, 2 } } }
#define RLX_MODEL_IMAGE(label, file, input, h, w)			\
	{ label, file, { { input, { RLX_F32, 4, { 1, 3, h, w } }, -1, 1 } } }
#define RLX_MODEL_PAGE(label, file, input, h, w)			\
	{ label, file, {						\
		{ input, { RLX_F32, 4, { 1, 3, h, w } }, -0.1, 0.1, true } } }
#define RLX_MODEL_VAD(label, file)					\
	{ label, file, {						\
		{ "input", { RLX_F32, 2, { 1, 576 } }, -0.5, 0.5 },	\
		{ "state", { RLX_F32, 3, { 2, 1, 128 } }, -0.5, 0.5 },	\
		{ "sr", { RLX_I64, 0, { 0 } }, 16000, 16001 } } }
#define RLX_MODEL_MAGIKA(label, batch)					\
	{ label, "magika.onnx", {					\
		{ "bytes", { RLX_I32, 2, { batch, 2048 } }, 0, 257 } } }

unsigned int rlx_model_inputs(const struct rlx_model *m);

/* $BUILD/models/@name into @buf of 512 bytes. */
const char *rlx_model_path(char *buf, const char *name);

/* Random contents of each input; freed with rlx_model_drop(). */
void rlx_model_fill(const struct rlx_model *m, uint64_t seed, void **data);
void rlx_model_drop(const struct rlx_model *m, void **data);

/* The peer with @m loaded and @data bound. */
enum rlx_status rlx_model_peer(const struct rlx_model *m, void *const *data,
			       int threads, struct rlx_peer **out,
			       struct rlx_error *err);

/*
 * @m as one graph, with inputs whose contents shape it folded in. @seg owns the
 * graph. RLX_ENOSUP if it takes more than one graph.
 */
enum rlx_status rlx_model_import(const struct rlx_model *m, void *const *data,
				 struct rlx_segment *seg, struct rlx_error *err);

/* @g compiled, its inputs set to @data, run once; a failure fails the test. */
struct rlx_session *rlx_model_run(const struct rlx_model *m, void *const *data,
				  struct rlx_graph *g, const struct rlx_compile_opts *opts);

/* The worst of |a - b| / (|b| + rms(b)), and the cosine. */
struct rlx_distance {
	double	relative, cosine;
};

/* @slack: by how much a value of @b may be off on its own. */
struct rlx_distance rlx_model_distance(const float *a, const float *b, int64_t n,
				       double slack);

/* What a session of a model was made of. */
struct rlx_model_case {
	const struct rlx_model		*m;
	void *const			*data;
	struct rlx_graph		*g;
	const struct rlx_compile_opts	*opts;
};

/*
 * Fails the test unless output @name of @s, computed in 16-bit precision, has a cosine above
 * 0.9999 with @want or, since rounding alone takes some models further, with what the
 * reference evaluator gives in double for the graph as the precision policy left it for the
 * device; nothing but operands of GEMMs, convolutions and attention may be rounded in that.
 */
void rlx_model_check_rounded(const struct rlx_model_case *c, struct rlx_session *s,
			     const char *name, const float *want);

#endif
