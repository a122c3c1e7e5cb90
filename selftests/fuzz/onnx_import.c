// SPDX-License-Identifier: MIT
/*
 * libFuzzer entry for the ONNX importer: what parses is instantiated with small
 * dims, and asked-for contents and answers are zeros.
 */
#include <stdlib.h>
#include <string.h>

#include "io/onnx/build.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { INPUTS = 8, ROUNDS = 4, BYTES = 1 << 16 };

static const unsigned char zeros[BYTES];

/* A type for the input, false if it has none of a size worth trying. */
static bool type_of(const struct onnx_type *t, struct rlx_type *out)
{
	const struct onnx_shape *s;
	size_t i;

	if (!t || !t->tensor)
		return false;
	s = t->tensor->shape;
	*out = (struct rlx_type){
		.dtype = onnx_dtype_to_rlx(t->tensor->elem),
		.rank = s ? (uint32_t)s->ndims : 1, .dim = { 2 },
	};
	if (!out->dtype || (s && s->ndims > RLX_MAX_RANK))
		return false;
	for (i = 0; s && i < s->ndims; i++)
		out->dim[i] = s->dims[i].value > 0 ? s->dims[i].value : 2;
	return rlx_type_bytes(out) >= 0 && rlx_type_bytes(out) <= BYTES;
}

static uint32_t specs_of(const struct onnx_graph *g, struct rlx_spec *spec,
			 char (*name)[64])
{
	uint32_t n = 0;
	size_t i;

	for (i = 0; i < g->ninputs && n < INPUTS; i++) {
		const struct onnx_value_info *v = &g->inputs[i];

		if (!v->name.n || v->name.n > 63 || !type_of(v->type,
							     &spec[n].type))
			continue;
		memcpy(name[n], v->name.p, v->name.n);
		name[n][v->name.n] = 0;
		spec[n].name = name[n];
		spec[n++].kind = RLX_SPEC_TENSOR;
	}
	return n;
}

/* Zeros for the needed outputs; false if they are large. */
static bool answer_of(const struct rlx_segment *seg, struct rlx_tensor *v)
{
	uint32_t i;

	for (i = 0; i < seg->n_needed; i++) {
		v[i].type = *rlx_type_of(seg->g, rlx_graph_io_value(seg->g,
					 RLX_IO_OUTPUT, i));
		v[i].data = (void *)(uintptr_t)zeros;
		if (rlx_type_bytes(&v[i].type) > BYTES)
			return false;
	}
	return true;
}

static void import(struct onnx_file *f)
{
	struct rlx_answer answer[ROUNDS];
	struct rlx_spec spec[INPUTS] = { 0 };
	static struct rlx_tensor v[ROUNDS][32];
	static char name[INPUTS][64];
	struct rlx_instance in = { .spec = spec, .answer = answer };
	struct rlx_segment seg;
	uint32_t round, i;
	bool go = true;

	in.n_spec = specs_of(onnx_file_model(f)->graph, spec, name);
	for (round = 0; go && round < ROUNDS; round++) {
		struct rlx_error err = { 0 };

		if (onnx_build(f, &in, &seg, &err)) {
			if (!err.text[0])
				__builtin_trap();
			return;
		}
		go = seg.need != RLX_NEED_NOTHING;
		if (seg.need == RLX_NEED_INPUTS)
			for (i = 0; i < in.n_spec; i++)
				if (seg.inputs >> i & 1)
					spec[i].data = zeros;
		if (seg.need == RLX_NEED_VALUES) {
			go = seg.n_needed <= 32 &&
			     answer_of(&seg, v[in.n_answer]);
			answer[in.n_answer] = (struct rlx_answer){
				seg.n_needed, v[in.n_answer]
			};
			in.n_answer++;
		}
		rlx_segment_fini(&seg);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct onnx_file *f;

	if (onnx_open_mem(p, n, "fuzz", ONNX_ROOT_MODEL, &f, NULL))
		return 0;
	import(f);
	onnx_put(f);
	return 0;
}
