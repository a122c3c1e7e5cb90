/* SPDX-License-Identifier: MIT */
/*
 * Exchange of tensors with other libraries by the DLPack structures, without
 * copying. The structures are declared here under names of ours; they have the
 * layout of DLPack 1.x, so pointers are passed by a cast from and to
 * DLManagedTensor and DLManagedTensorVersioned of <dlpack/dlpack.h>.
 */
#ifndef RLX_DLPACK_H
#define RLX_DLPACK_H

#include <stdint.h>

#include "rlx/arena.h"
#include "rlx/status.h"
#include "rlx/type.h"
#include "rlx/view.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * DLDeviceType. Of CUDA's and ROCm's own memory see rlx/device_buffer.h; the calls here take what
 * the CPU reaches.
 */
enum rlx_dl_device_type {
	RLX_DL_CPU		= 1,
	RLX_DL_CUDA		= 2,
	RLX_DL_CUDA_HOST	= 3,
	RLX_DL_ROCM		= 10,
	RLX_DL_ROCM_HOST	= 11,
	RLX_DL_CUDA_MANAGED	= 13,
};

/* DLDataTypeCode, those with an enum rlx_dtype. */
enum rlx_dl_code {
	RLX_DL_INT		= 0,
	RLX_DL_UINT		= 1,
	RLX_DL_FLOAT		= 2,
	RLX_DL_BFLOAT		= 4,
	RLX_DL_COMPLEX		= 5,
	RLX_DL_BOOL		= 6,
	RLX_DL_F8E4M3FN		= 10,
	RLX_DL_F8E5M2		= 12,
};

/* Flags of the versioned form. */
enum rlx_dl_flags {
	RLX_DL_READ_ONLY	= 1 << 0,
	RLX_DL_IS_COPIED	= 1 << 1,
};

/** struct rlx_dl_device - DLDevice. */
struct rlx_dl_device {
	int32_t	device_type;
	int32_t	device_id;
};

/** struct rlx_dl_dtype - DLDataType. */
struct rlx_dl_dtype {
	uint8_t		code;
	uint8_t		bits;
	uint16_t	lanes;
};

/**
 * struct rlx_dl_tensor - DLTensor.
 * @data:        start of the memory
 * @shape:       @ndim sizes
 * @strides:     in elements, or NULL for dense row-major
 * @byte_offset: of the first element from @data
 */
struct rlx_dl_tensor {
	void			*data;
	struct rlx_dl_device	 device;
	int32_t			 ndim;
	struct rlx_dl_dtype	 dtype;
	int64_t			*shape;
	int64_t			*strides;
	uint64_t		 byte_offset;
};

/** struct rlx_dl_managed - DLManagedTensor. @deleter may be NULL. */
struct rlx_dl_managed {
	struct rlx_dl_tensor	 tensor;
	void			*manager_ctx;
	void			(*deleter)(struct rlx_dl_managed *self);
};

/** struct rlx_dl_versioned - DLManagedTensorVersioned. */
struct rlx_dl_versioned {
	struct {
		uint32_t	 major, minor;
	}			 version;
	void			*manager_ctx;
	void			(*deleter)(struct rlx_dl_versioned *self);
	uint64_t		 flags;
	struct rlx_dl_tensor	 tensor;
};

/**
 * rlx_dl_import - use a tensor of another library in place.
 * @dl:       a DLManagedTensor
 * @out_type: its dtype and dimensions
 * @out_buf:  its bytes; @out_buf->arena is a new arena with one reference
 *
 * Context: any thread; allocates. Ownership: on success @dl is ours: its
 * deleter is called by the last rlx_arena_put() of @out_buf->arena. On failure
 * it stays the caller's. A tensor without elements gives an empty buffer.
 * Return: RLX_EINVAL for NULL, a rank over RLX_MAX_RANK or a negative size;
 * RLX_ETYPE for a dtype without enum rlx_dtype; RLX_ENOSUP for memory of a
 * device, for strides that are not dense row-major (rlx_dl_import_view() takes
 * those), or for elements at odd addresses (copy it first);
 * RLX_ERANGE if its size overflows; RLX_ENOMEM.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_dl_import(struct rlx_dl_managed *dl, struct rlx_type *out_type,
	      struct rlx_buf *out_buf, struct rlx_error *err);

/**
 * rlx_dl_import_versioned - as rlx_dl_import(), of a DLManagedTensorVersioned.
 *
 * A tensor flagged read-only gives an arena with RLX_ARENA_RDONLY.
 * Return: also RLX_ENOSUP for a major version other than 1.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_dl_import_versioned(struct rlx_dl_versioned *dl,
			struct rlx_type *out_type, struct rlx_buf *out_buf,
			struct rlx_error *err);

/**
 * rlx_dl_import_view, rlx_dl_import_view_versioned - the same of a tensor with any strides:
 * a slice, a transposed or reversed one, one that repeats.
 * @out: where its elements are, for rlx_session_bind_view(); @out->buf has all memory from
 *       the lowest to the highest, and a new arena with one reference
 *
 * Context, ownership, errors: as rlx_dl_import(), but for strides; RLX_ERANGE if by them an
 * element lies outside the address space.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_dl_import_view(struct rlx_dl_managed *dl, struct rlx_type *out_type,
		   struct rlx_view *out, struct rlx_error *err);
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_dl_import_view_versioned(struct rlx_dl_versioned *dl, struct rlx_type *out_type,
			     struct rlx_view *out, struct rlx_error *err);

/**
 * rlx_dl_export - lend a buffer to another library, in place.
 * @buf:  at least as long as @type
 * @type: what it holds
 * @out:  a DLManagedTensor
 *
 * Context: any thread; allocates. Ownership: @out is the receiver's, who calls
 * its deleter once, in any thread; until then it holds a reference to the
 * arena. What is written to a buffer that is lent is seen by both.
 * Return: RLX_EACCES for a read-only arena: this form cannot say so, the
 * versioned one can; RLX_ERANGE if @buf is shorter than @type or outside its
 * arena; RLX_EINVAL for NULL or a malformed type; RLX_ENOMEM.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_dl_export(struct rlx_buf buf, const struct rlx_type *type,
	      struct rlx_dl_managed **out, struct rlx_error *err);

/**
 * rlx_dl_export_versioned - as rlx_dl_export(), as a DLManagedTensorVersioned
 * of version 1.0; an arena that is read-only is flagged so.
 */
RLX_EXPORT __rlx_must_check enum rlx_status
rlx_dl_export_versioned(struct rlx_buf buf, const struct rlx_type *type,
			struct rlx_dl_versioned **out, struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
