// SPDX-License-Identifier: MIT
/* What was trained as an ONNX model: the graph of its logits, the states as initializers. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "rlx/onnx.h"
#include "tools/rlx/train.h"

enum { PATH = 4096 };

/* The type of the images that a loader gives: seen by a graph that nobody keeps. */
static struct rlx_type image_type(const struct rlx_loader *ld)
{
	struct rlx_graph *g = rlx_graph_new("look");
	const struct rlx_type *t = rlx_type_of(g, rlx_loader_input(ld, g, "image"));
	struct rlx_type type = t ? *t : rlx_type(RLX_U8, 1, 1, 1);

	rlx_graph_put(g);
	return type;
}

static bool write_with(struct rlx_graph *g, const struct train_config *c,
		       const struct train_states *from, struct rlx_error *err)
{
	unsigned int n = rlx_graph_io_count(g, RLX_IO_STATE), i;
	struct rlx_named_tensor *w = rlx_calloc(n + 1ul, sizeof(*w));
	char path[PATH];
	bool ok = w;

	if (!w)
		rlx_fail(err, RLX_ENOMEM, "out of memory for the model");
	for (i = 0; ok && i < n; i++) {
		w[i].name = rlx_graph_io_name(g, RLX_IO_STATE, i);
		w[i].data = from->get(from->ctx, w[i].name, &w[i].type);
		ok = w[i].data;
		if (!ok)
			rlx_fail(err, RLX_ENOENT, "state %s is not to be had", w[i].name);
	}
	snprintf(path, sizeof(path), "%s/model.onnx", c->folder);
	ok = ok && !rlx_onnx_write(path, g, w, n, err);
	rlx_free(w);
	return ok;
}

bool train_onnx(const struct train_config *c, struct rlx_vars *v, const struct rlx_loader *ld,
		const struct train_states *from, struct rlx_error *err)
{
	struct rlx_graph *g = rlx_graph_new("model");
	rlx_value x;
	bool ok;

	if (c->kind == TRAIN_DECODER) {
		x = rlx_input(g, "tokens", rlx_type(RLX_I32, 1, (int64_t)c->context));
		x = train_decoder_logits(g, v, x, c, false);
	} else {
		x = train_classifier_logits(g, v, rlx_input(g, "image", image_type(ld)), c, false);
	}
	rlx_output(g, "logits", x);
	ok = !rlx_graph_finish(g);
	if (!ok)
		rlx_error_set(err, rlx_graph_error(g)->status, NULL, 0, "%s",
			      rlx_graph_error(g)->text);
	ok = ok && write_with(g, c, from, err);
	rlx_graph_put(g);
	return ok;
}
