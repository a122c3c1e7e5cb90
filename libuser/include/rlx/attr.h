/* SPDX-License-Identifier: MIT */
/* Attribute value types and the named constants that attributes take. */
#ifndef RLX_ATTR_H
#define RLX_ATTR_H

#include <stdbool.h>
#include <stdint.h>

#include "rlx/act.h"
#include "rlx/scheme.h"
#include "rlx/type.h"

struct rlx_graph;
struct rlx_blob;
struct rlx_custom;

/* A value in a graph: an id, stable for the graph's life; {0} is "none". */
typedef struct rlx_value { uint32_t id; } rlx_value;
#ifndef __cplusplus
#define RLX_NONE	((rlx_value){ 0 })
#else
#define RLX_NONE	(rlx_value{ 0 })
#endif

/*
 * Lists passed as attributes or variadic inputs; copied by the call. What the macros
 * make lives, in C++, as long as the full expression it stands in: a call.
 */
struct rlx_values { const rlx_value *v; uint32_t n; };
struct rlx_ints   { const int64_t *v; uint32_t n; };
struct rlx_floats { const double *v; uint32_t n; };

#ifndef __cplusplus
#define RLX_INTS(...)							\
	((struct rlx_ints){ (const int64_t[]){ __VA_ARGS__ },		\
		sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t) })
#define RLX_FLOATS(...)							\
	((struct rlx_floats){ (const double[]){ __VA_ARGS__ },		\
		sizeof((double[]){ __VA_ARGS__ }) / sizeof(double) })
#define RLX_VALUES(...)							\
	((struct rlx_values){ (const rlx_value[]){ __VA_ARGS__ },	\
		sizeof((rlx_value[]){ __VA_ARGS__ }) / sizeof(rlx_value) })
#else
#define RLX_INTS(...)	(rlx_cxx::list<struct rlx_ints, int64_t>({ __VA_ARGS__ }))
#define RLX_FLOATS(...)	(rlx_cxx::list<struct rlx_floats, double>({ __VA_ARGS__ }))
#define RLX_VALUES(...)	(rlx_cxx::list<struct rlx_values, rlx_value>({ __VA_ARGS__ }))

namespace rlx_cxx {
template <class LIST, class T> inline LIST list(std::initializer_list<T> l)
{
	return { l.begin(), (uint32_t)l.size() };
}
}
#endif

/*
 * "Not given", for attributes whose zero means something else: what rlx_emit() starts
 * from. The op's table (rlx/ops.h) says whether it is then refused or has a default.
 */
#define RLX_UNSET_i32	INT32_MIN
#define RLX_UNSET_i64	INT64_MIN
#define RLX_UNSET_f32	(-__FLT_MAX__)
#define RLX_UNSET_f64	(-__DBL_MAX__)
#define RLX_UNSET_dtype	RLX_NODTYPE
#define RLX_UNSET_custom NULL

typedef int32_t			 rlx_attr_i32;
typedef int64_t			 rlx_attr_i64;
typedef float			 rlx_attr_f32;
typedef double			 rlx_attr_f64;
typedef bool			 rlx_attr_bool;
typedef enum rlx_dtype		 rlx_attr_dtype;
typedef const char		*rlx_attr_str;
typedef struct rlx_ints		 rlx_attr_ints;
typedef struct rlx_floats	 rlx_attr_floats;
typedef struct rlx_type		 rlx_attr_type;
typedef struct rlx_blob		*rlx_attr_blob;
typedef struct rlx_graph	*rlx_attr_graph;
typedef struct rlx_custom	*rlx_attr_custom;

enum rlx_reduce_kind {
	RLX_REDUCE_SUM, RLX_REDUCE_MEAN, RLX_REDUCE_MAX, RLX_REDUCE_MIN,
	RLX_REDUCE_PROD, RLX_REDUCE_COUNT,
};

enum rlx_pad_mode {
	RLX_PAD_CONSTANT, RLX_PAD_REFLECT, RLX_PAD_EDGE, RLX_PAD_WRAP,
};

enum rlx_scatter_reduction {
	RLX_SCATTER_NONE, RLX_SCATTER_ADD, RLX_SCATTER_MUL, RLX_SCATTER_MAX,
	RLX_SCATTER_MIN,
};

/* A convolution's block: all channels of a pixel side by side. */
enum { RLX_CHANNELS_LAST = -1 };
enum rlx_pool_kind { RLX_POOL_MAX, RLX_POOL_AVG, RLX_POOL_LP };

enum rlx_resize_mode { RLX_RESIZE_NEAREST, RLX_RESIZE_LINEAR, RLX_RESIZE_CUBIC };

enum rlx_coord {
	RLX_COORD_HALF_PIXEL, RLX_COORD_HALF_PIXEL_SYMMETRIC,
	RLX_COORD_PYTORCH_HALF_PIXEL, RLX_COORD_ALIGN_CORNERS,
	RLX_COORD_ASYMMETRIC, RLX_COORD_TF_CROP_AND_RESIZE,
	RLX_COORD_TF_HALF_PIXEL_NN,
};

enum rlx_nearest {
	RLX_NEAREST_ROUND_PREFER_FLOOR, RLX_NEAREST_ROUND_PREFER_CEIL,
	RLX_NEAREST_FLOOR, RLX_NEAREST_CEIL, RLX_NEAREST_SIMPLE,
};

/* How far two points are from each other. */
enum rlx_knn_metric { RLX_KNN_L2, RLX_KNN_L2SQ, RLX_KNN_IP, RLX_KNN_COS };

enum rlx_grid_padding { RLX_GRID_ZEROS, RLX_GRID_BORDER, RLX_GRID_REFLECTION };

enum rlx_norm_kind { RLX_NORM_LAYER, RLX_NORM_RMS };

enum rlx_head_layout {
	RLX_BSHD,	/* [batch, sequence, heads, head_dim] */
	RLX_BHSD,	/* [batch, heads, sequence, head_dim] */
};

enum rlx_mask { RLX_MASK_NONE, RLX_MASK_CAUSAL, RLX_MASK_SLIDING };

enum rlx_rope_style {
	RLX_ROPE_NEOX,	/* element i pairs with i + n_rot/2 */
	RLX_ROPE_GPTJ,	/* element 2i pairs with 2i + 1 */
};

/* Which halves of a product's columns one multiplies with the silu of the other. */
enum rlx_swiglu {
	RLX_SWIGLU_NONE,
	RLX_SWIGLU_LAST,	/* [up | gate] */
	RLX_SWIGLU_FIRST,	/* [gate | up] */
};

enum rlx_rnn_direction { RLX_RNN_FORWARD, RLX_RNN_REVERSE, RLX_RNN_BIDI };

enum rlx_rng_kind { RLX_RNG_UNIFORM, RLX_RNG_NORMAL };

/* Which of the two is scaled: by 1 / n the inverse, the other, or both by 1 / sqrt(n). */
enum rlx_fft_norm { RLX_FFT_BACKWARD, RLX_FFT_FORWARD, RLX_FFT_ORTHO };

enum rlx_ste {
	RLX_STE_IDENTITY, RLX_STE_CLIPPED, RLX_STE_TANH, RLX_STE_HARD_TANH,
};

enum rlx_scale_mode { RLX_SCALE_BATCH, RLX_SCALE_EMA, RLX_SCALE_FIXED };

#endif
