/* SPDX-License-Identifier: MIT */
/* Handlers of ONNX ops, what their rows refer to, and what families share. */
#ifndef RLX_IO_ONNX_HANDLERS_H
#define RLX_IO_ONNX_HANDLERS_H

#include "io/onnx/imp.h"

/* Every handler of the table, each as often as it has rows. */
#define OP(dom, op, lo, hi, known, handler, what) \
	enum rlx_status handler(struct onnx_op *q);
#include "io/onnx/ops.def"
#undef OP

extern const int onnx_yes;
extern const struct onnx_row onnx_ms_floats[];
extern const int onnx_reduce_kinds[];
extern const int onnx_random_kinds[4][2];
extern const enum rlx_pool_kind onnx_pool_kinds[];
extern const double onnx_window_hann[], onnx_window_hamming[],
	onnx_window_blackman[];

/* Bounds for window attributes and the dims they are combined with. */
#define ONNX_MOST_ATTR	((int64_t)1 << 24)
#define ONNX_MOST_DIM	((int64_t)1 << 36)

/* x * k and x + k in x's dtype; nothing is emitted for 1 and 0. */
rlx_value onnx_scale(struct onnx_op *q, rlx_value x, double k);
rlx_value onnx_shift(struct onnx_op *q, rlx_value x, double k);
/* A scale or zero point of one element as a scalar. */
rlx_value onnx_scalar(struct onnx_op *q, rlx_value v);
rlx_value onnx_cut(struct onnx_op *q, rlx_value x, uint32_t axis, int64_t from,
		   int64_t to);
/* numpy's matmul, vectors included. */
rlx_value onnx_matmul_of(struct onnx_op *q, rlx_value a, rlx_value b);
/* Attributes of a window over spatial dims, with auto_pad made into pads. */
struct onnx_slide {
	struct rlx_ints	stride, dilation, kernel, pad;
	int64_t		pads[2 * RLX_MAX_RANK];
};
/* @kernel is used if the node gives none. */
enum rlx_status onnx_slide(struct onnx_op *q, const struct rlx_type *x,
			   const int64_t *kernel, struct onnx_slide *w);
/* The same of a convolution of @x by weights @k, whose spatial dims are the kernel. */
enum rlx_status onnx_slide_conv(struct onnx_op *q, rlx_value x, rlx_value k,
				struct onnx_slide *w);
/* A reduction by index into onnx_reduce_kinds[]. */
rlx_value onnx_reduce_as(struct onnx_op *q, rlx_value x, struct rlx_ints axes,
			 int kind, bool keep);
enum { ONNX_SUM, ONNX_MEAN, ONNX_MAX, ONNX_MIN, ONNX_PROD, ONNX_L1, ONNX_L2,
       ONNX_LOGSUM, ONNX_LOGSUMEXP, ONNX_SUMSQ };
enum rlx_status onnx_list(struct onnx_op *q, const char *name, uint32_t input,
			  int64_t since, struct rlx_ints *out);
/* Lengths of parts that are all of a dim, or it fails. */
enum rlx_status onnx_parts(struct onnx_op *q, struct rlx_ints parts, int64_t dim);
enum rlx_status onnx_axes(struct onnx_op *q, struct rlx_ints axes,
			  uint32_t rank, uint32_t *mask);
void onnx_fold_dims(const struct rlx_type *t, uint32_t axis, int64_t dim[2]);
bool onnx_broadcast(const struct rlx_type *a, const struct rlx_type *b,
		    struct rlx_type *out);

#endif
