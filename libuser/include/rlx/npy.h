/* SPDX-License-Identifier: MIT */
/* Arrays in numpy's .npy files: read where they lie, and written. */
#ifndef RLX_NPY_H
#define RLX_NPY_H

#include <stddef.h>

#include "rlx/status.h"
#include "rlx/type.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One open array; immutable. */
struct rlx_npy;

/**
 * rlx_npy_open - map an array for reading. Format versions 1, 2 and 3.
 * @path:  a regular file; it must not be cut short while open
 * @out_f: the array
 * @err:   may be NULL
 *
 * Data is used in place. An array in Fortran order, of the other byte order, or
 * not aligned to its elements is converted into memory of its own instead.
 *
 * Context: any thread; allocates, maps. Ownership: rlx_npy_close() ends @out_f
 * and its data.
 * Return: RLX_ENOENT, RLX_EACCES, RLX_EBADFD for the file; RLX_EPARSE if it is
 * not what numpy writes, too short or too long (the text names the byte);
 * RLX_ENOSUP for a dtype or rank that rlx/type.h lacks; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_npy_open(const char *path, struct rlx_npy **out_f, struct rlx_error *err);

/**
 * rlx_npy_open_mem - as rlx_npy_open(), of the @len bytes of a file at @p, which
 * must stay and not change until rlx_npy_close().
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_npy_open_mem(const void *p, size_t len, struct rlx_npy **out_f,
		 struct rlx_error *err);

/**
 * struct rlx_npy_header - what a file says of its elements.
 * @type:    the array's
 * @offset:  of the first element in the file
 * @fortran: the first axis is the densest
 * @swapped: of the other byte order
 */
struct rlx_npy_header {
	struct rlx_type	 type;
	uint64_t	 offset;
	bool		 fortran, swapped;
};

/**
 * rlx_npy_header - read the header alone, for who reads the elements in own ways.
 * @p, @len: the file's first bytes; up to its elements is enough (numpy's headers have
 *           128 bytes, others up to 1 MiB)
 * @name:    for error texts
 *
 * Whether the file is long enough is for the caller to see. Context: any thread; no
 * allocation. Return: RLX_EPARSE, RLX_ENOSUP, RLX_ERANGE as rlx_npy_open().
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_npy_header(const void *p, size_t len, const char *name, struct rlx_npy_header *out,
	       struct rlx_error *err);

/* NULL is fine. Context: any thread. */
RLX_EXPORT void rlx_npy_close(struct rlx_npy *f);

/* The array's type. Context: any. Ownership: @f's. */
RLX_EXPORT const struct rlx_type *rlx_npy_type(const struct rlx_npy *f);

/**
 * rlx_npy_data - the elements, row-major, little-endian, aligned to their size;
 * rlx_type_bytes() of them. Context: any. Ownership: @f's. NULL of NULL alone.
 */
RLX_EXPORT const void *rlx_npy_data(const struct rlx_npy *f);

/**
 * rlx_npy_write - write an array, format version 1.
 * @path: replaced once all is written; on failure what was there stays
 * @type: not bf16 or an 8-bit float, which numpy has not: convert first
 * @data: dense, row-major; may be NULL if the type has no elements
 * @err:  may be NULL
 *
 * Context: any thread; allocates, blocks on the file.
 * Return: RLX_ENOSUP for such a dtype; RLX_EINVAL for a malformed type or no
 * data; RLX_ENOENT, RLX_EACCES, RLX_EIO for the file, RLX_EBADFD if @path is a device, FIFO or
 * folder; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_npy_write(const char *path, const struct rlx_type *type, const void *data,
	      struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
