/* SPDX-License-Identifier: MIT */
/* Tensors by name in .safetensors files: read where they lie, and written. */
#ifndef RLX_SAFETENSORS_H
#define RLX_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rlx/status.h"
#include "rlx/type.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One open file; immutable, so that any number of threads may use it. */
struct rlx_safetensors;

/**
 * struct rlx_safetensor - one tensor.
 * @name:   0-ended UTF-8
 * @type:   dense, row-major
 * @data:   rlx_type_bytes() bytes, aligned to an element; never NULL from a
 *          reader, may be NULL for a writer if the type has no elements
 * @offset: of the data in the file; ignored by the writer
 */
struct rlx_safetensor {
	const char	*name;
	struct rlx_type	 type;
	const void	*data;
	uint64_t	 offset;
};

/**
 * rlx_safetensors_open - map a file and check all of its header.
 * @path:  a regular file; it must not be cut short while open
 * @out_f: the file
 * @err:   may be NULL
 *
 * Data is used in place; a tensor that is not aligned to its elements is copied
 * (writers align, so this is rare). Refused besides what is malformed: tensors
 * that overlap or leave holes, names that come twice, data that the shape does
 * not explain, bools other than 0 and 1.
 *
 * Context: any thread; allocates, maps. Ownership: rlx_safetensors_close() ends
 * @out_f and all that came from it.
 * Return: RLX_ENOENT, RLX_EACCES, RLX_EBADFD for the file; RLX_EPARSE, naming
 * byte or tensor; RLX_ENOSUP for a dtype or rank that rlx/type.h lacks;
 * RLX_ERANGE for a header above 100 MB; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_safetensors_open(const char *path, struct rlx_safetensors **out_f,
		     struct rlx_error *err);

/**
 * rlx_safetensors_open_mem - as rlx_safetensors_open(), of the @len bytes of a
 * file at @p, which must stay and not change until rlx_safetensors_close().
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_safetensors_open_mem(const void *p, size_t len,
			 struct rlx_safetensors **out_f, struct rlx_error *err);

/**
 * rlx_safetensors_source - the file as rlx_blob_set_source() wants it told; 0 for
 * one in memory. Context: any.
 */
RLX_EXPORT uint64_t rlx_safetensors_source(const struct rlx_safetensors *f);

/* NULL is fine. Context: any thread. */
RLX_EXPORT void rlx_safetensors_close(struct rlx_safetensors *f);

/* How many tensors. Context: any. */
RLX_EXPORT uint32_t rlx_safetensors_count(const struct rlx_safetensors *f);

/**
 * rlx_safetensors_at - tensor @i, in the order of their data; all are one array.
 * Context: any. Ownership: @f's. Return: NULL if @i is not below the count.
 */
RLX_EXPORT const struct rlx_safetensor *
rlx_safetensors_at(const struct rlx_safetensors *f, uint32_t i);

/**
 * rlx_safetensors_find - the tensor of that name.
 * Context: any; no allocation. Ownership: @f's. Return: NULL if there is none.
 */
RLX_EXPORT const struct rlx_safetensor *
rlx_safetensors_find(const struct rlx_safetensors *f, const char *name);

/**
 * rlx_safetensors_meta - walk the file's metadata.
 * @i:         0, 1, ... until it returns false
 * @out_key:   0-ended UTF-8
 * @out_value: likewise
 * Context: any; no allocation. Ownership: @f's.
 */
RLX_EXPORT bool rlx_safetensors_meta(const struct rlx_safetensors *f, uint32_t i,
				     const char **out_key,
				     const char **out_value);

/**
 * rlx_safetensors_write - write tensors to a file.
 * @path: replaced once all is written; on failure what was there stays
 * @v:    @n tensors; names must differ
 * @meta: keys and values in turn, ended by NULL; or NULL
 * @err:  may be NULL
 *
 * Larger elements come first, so that all are aligned; of equal size in the
 * order of @v.
 *
 * Context: any thread; allocates, blocks on the file.
 * Return: RLX_EINVAL for a malformed tensor; RLX_EEXIST for a name that comes
 * twice; RLX_ENOENT, RLX_EACCES, RLX_EIO for the file, RLX_EBADFD if @path is a device, FIFO or
 * folder; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_safetensors_write(const char *path, const struct rlx_safetensor *v,
		      uint32_t n, const char *const *meta,
		      struct rlx_error *err);

/**
 * struct rlx_safetensors_head - a header, for who writes the data in own ways.
 * @meta:   as for rlx_safetensors_write()
 * @align:  of the first byte of data in the file: a power of two from 8 on
 * @buf:    the header is written there; NULL: only @bytes and @offset are told
 * @room:   of @buf
 * @bytes:  (result) of the header: where the data begins
 * @offset: (result) for each tensor, in the caller's order, where its data lies in the
 *          file; may be NULL. The last one ends the file
 */
struct rlx_safetensors_head {
	const char *const	*meta;
	uint64_t		 align;
	void			*buf;
	size_t			 room;
	uint64_t		 bytes, *offset;
};

/**
 * rlx_safetensors_header - the bytes of a file of these tensors that come before the data.
 * @v: names and types of @n tensors; data and offset are not looked at
 * @h: what is asked for, and the results
 *
 * Context: any thread; allocates. Return: RLX_EINVAL, RLX_EEXIST as
 * rlx_safetensors_write(); RLX_ERANGE if @room is too small: @bytes is what it takes;
 * RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_safetensors_header(const struct rlx_safetensor *v, uint32_t n,
		       struct rlx_safetensors_head *h, struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
