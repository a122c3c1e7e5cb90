/* SPDX-License-Identifier: MIT */
/* An ONNX model that is being written: what its file and its rules by op share. */
#ifndef RLX_IO_ONNX_WRITE_H
#define RLX_IO_ONNX_WRITE_H

#include "ir/graph.h"

/* Bytes of a message that grow; without memory @bad stays. */
struct onnx_buf {
	uint8_t		*p;
	uint32_t	 n, cap;
	bool		 bad;
};

/* A tensor in the file: its bytes follow its header. @own: to be freed. */
struct onnx_init {
	struct onnx_buf	 head;
	const void	*data;
	uint64_t	 bytes;
	void		*own;
};

struct onnx_writer {
	const struct rlx_graph	*g;
	struct rlx_error	*err;
	enum rlx_status		 st;		/* the first failure stays */
	struct onnx_buf		 nodes, inputs, outputs;
	struct onnx_init	*init;
	uint32_t		 n_init, cap_init;
	uint32_t		 fresh;		/* names of values that the graph has not */
	const char		**name;		/* by value id: a leaf's; NULL: its number */
};

/* A name of up to 31 letters: of a value made here, or of value @id. */
struct onnx_name {
	char		s[32];
	const char	*leaf;		/* instead, if it is one */
};
struct onnx_name onnxw_fresh(struct onnx_writer *w);
struct onnx_name onnxw_value(const struct onnx_writer *w, uint32_t id);

/* ---- nodes ---- */

/* One node under way: its inputs, outputs and attributes in turn, then its end. */
struct onnx_put {
	struct onnx_writer	*w;
	struct onnx_buf		 b;
};
struct onnx_put onnxw_begin(struct onnx_writer *w);
void onnxw_put_in(struct onnx_put *q, struct onnx_name v);	/* an empty name: absent */
void onnxw_put_out(struct onnx_put *q, struct onnx_name v);
void onnxw_put_i(struct onnx_put *q, const char *attr, int64_t v);
void onnxw_put_f(struct onnx_put *q, const char *attr, float v);
void onnxw_put_s(struct onnx_put *q, const char *attr, const char *v);
void onnxw_put_ints(struct onnx_put *q, const char *attr, const int64_t *v, uint32_t n);
void onnxw_end(struct onnx_put *q, const char *op);

/* A tensor that this file has and the graph has not; the numbers are copied. */
struct onnx_name onnxw_list(struct onnx_writer *w, const int64_t *v, uint32_t n);
/* @data: of rlx_malloc(), taken; NULL: out of memory. */
struct onnx_name onnxw_tensor_owned(struct onnx_writer *w, struct rlx_type t, void *data);

/* What TensorProto calls a dtype; 0 if nothing. */
int64_t onnx_dtype_of(enum rlx_dtype dt);

/* ---- write_ops.c ---- */

/* Does a rule say it as it is? Others are to be expanded first. */
bool onnx_can_write(void *ctx, const struct rlx_node *n);
/* Write a node that is no leaf; w->st has why it cannot be said. */
void onnx_write_node(struct onnx_writer *w, const struct rlx_node *n);

#endif
