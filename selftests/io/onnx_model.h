/* SPDX-License-Identifier: MIT */
/* Models written by tests, imported: opened, refused, or run by the reference evaluator. */
#ifndef RLX_SELFTESTS_ONNX_MODEL_H
#define RLX_SELFTESTS_ONNX_MODEL_H

#include "io/onnx/build.h"
#include "ir/eval.h"
#include "selftests/io/onnx_write.h"

static inline struct onnx_file *open_model(const struct out *o)
{
	struct rlx_error err = { 0 };
	struct onnx_file *f;

	CHECKF(!onnx_open_mem(keep_copy(o->b, o->n), o->n, "mem",
			      ONNX_ROOT_MODEL, &f, &err), "%s", err.text);
	return f;
}

static inline struct rlx_spec f32_spec(const char *name, int64_t a, int64_t b)
{
	return (struct rlx_spec){
		.kind = RLX_SPEC_TENSOR, .name = name, .type = rlx_type(RLX_F32, a, b),
	};
}

static inline void build(struct onnx_file *f, struct rlx_instance in,
		  struct rlx_segment *seg)
{
	struct rlx_error err = { 0 };

	CHECKF(!onnx_build(f, &in, seg, &err), "%s", err.text);
}

/* The model with these inputs is refused with @st and a text with @text. */
static inline void refuse(const struct out *g, int64_t opset, struct rlx_spec spec,
		   enum rlx_status st, const char *text)
{
	struct rlx_instance in = { .spec = &spec, .n_spec = 1 };
	struct rlx_error err = { 0 };
	struct rlx_segment seg;
	struct onnx_file *f;
	struct out o;

	model_of(&o, g, opset);
	f = open_model(&o);
	CHECKF(onnx_build(f, &in, &seg, &err) == st, "%s: %s",
	       rlx_status_name(err.status), err.text);
	CHECKF(strstr(err.text, text), "\"%s\" lacks \"%s\"", err.text, text);
	CHECK(!seg.g && !seg.mem);
	onnx_put(f);
}

static inline void put_attr_ints(struct out *n, const char *name, const int64_t *v, size_t count)
{
	struct out a = { .n = 0 };
	size_t i;

	put_str(&a, 1, name);
	for (i = 0; i < count; i++)
		put_int(&a, 8, (uint64_t)v[i]);
	put_int(&a, 20, ONNX_ATTR_INTS);
	put_msg(n, 5, &a);
}

/* Run a segment with f32 inputs given by name. */
static inline void run(const struct rlx_segment *seg, const char *const *name,
		const void *const *data, struct rlx_tensor *out)
{
	struct rlx_error err = { 0 };
	struct rlx_tensor in[8];
	unsigned int i, k;

	for (i = 0; i < rlx_graph_io_count(seg->g, RLX_IO_INPUT); i++) {
		const char *want = rlx_graph_io_name(seg->g, RLX_IO_INPUT, i);

		for (k = 0; name[k] && strcmp(name[k], want); k++)
			;
		CHECKF(name[k], "nobody gives '%s'", want);
		in[i].type = *rlx_type_of(seg->g, rlx_graph_io_value(seg->g,
					  RLX_IO_INPUT, i));
		in[i].data = (void *)(uintptr_t)data[k];
	}
	for (i = 0; i < rlx_graph_io_count(seg->g, RLX_IO_OUTPUT); i++) {
		out[i].type = *rlx_type_of(seg->g, rlx_graph_io_value(seg->g,
					   RLX_IO_OUTPUT, i));
		out[i].data = keep_copy(NULL, (size_t)
					rlx_type_bytes(&out[i].type));
		memset(out[i].data, 0xa5,
		       (size_t)rlx_type_bytes(&out[i].type));
	}
	CHECKF(!rlx_graph_eval(seg->g, in, out, &err), "%s", err.text);
}

#endif
