// SPDX-License-Identifier: MIT
/*
 * libFuzzer entry for the ONNX reader: the first byte picks the root message.
 * Every slice of an accepted file is read, so a bad bound shows under ASan.
 */
#include "io/onnx/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static volatile uint64_t sink;

static void touch(const void *p, uint64_t n)
{
	const uint8_t *s = p;
	uint64_t i, v = 0;

	for (i = 0; i < n; i++)
		v += s[i];
	sink += v;
}

static void touch_str(struct rlx_str s)
{
	touch(s.p, s.n);
}

static void touch_tensor(const struct onnx_tensor *t)
{
	size_t i;

	touch_str(t->name);
	touch(t->data, t->data ? t->nbytes : 0);
	for (i = 0; i < t->nstrings; i++)
		touch_str(t->strings[i]);
}

static void touch_graph(const struct onnx_graph *g);

static void touch_attr(const struct onnx_attr *a)
{
	size_t i;

	touch_str(a->name);
	touch_str(a->s);
	touch(a->ints, a->nints * sizeof(*a->ints));
	touch(a->floats, a->nfloats * sizeof(*a->floats));
	for (i = 0; i < a->nstrings; i++)
		touch_str(a->strings[i]);
	for (i = 0; i < a->ntensors; i++)
		touch_tensor(&a->tensors[i]);
	for (i = 0; i < a->ngraphs; i++)
		touch_graph(&a->graphs[i]);
	if (a->t)
		touch_tensor(a->t);
	if (a->g)
		touch_graph(a->g);
}

static void touch_graph(const struct onnx_graph *g)
{
	size_t i, k;

	for (i = 0; i < g->ninitializers; i++)
		touch_tensor(&g->initializers[i]);
	for (i = 0; i < g->nnodes; i++) {
		const struct onnx_node *n = &g->nodes[i];

		touch_str(n->op_type);
		for (k = 0; k < n->ninputs; k++)
			touch_str(n->inputs[k]);
		for (k = 0; k < n->noutputs; k++)
			touch_str(n->outputs[k]);
		for (k = 0; k < n->nattrs; k++)
			touch_attr(&n->attrs[k]);
	}
	for (i = 0; i < g->ninputs; i++)
		touch_str(g->inputs[i].name);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct rlx_error err = { 0 };
	struct onnx_file *f;
	size_t i;

	if (!n)
		return 0;
	if (onnx_open_mem(p + 1, n - 1, "fuzz", p[0] & 3, &f, &err)) {
		if (!err.text[0])
			__builtin_trap();
		return 0;
	}
	if (onnx_file_model(f))
		touch_graph(onnx_file_model(f)->graph);
	if (onnx_file_tensor(f))
		touch_tensor(onnx_file_tensor(f));
	if (onnx_file_sequence(f))
		for (i = 0; i < onnx_file_sequence(f)->ntensors; i++)
			touch_tensor(&onnx_file_sequence(f)->tensors[i]);
	onnx_put(f);
	return 0;
}
