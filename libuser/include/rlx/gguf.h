/* SPDX-License-Identifier: MIT */
/*
 * GGUF: the model files of ggml and llama.cpp. Values by key and tensors by name, read where they
 * lie, and written.
 */
#ifndef RLX_GGUF_H
#define RLX_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rlx/scheme.h"
#include "rlx/status.h"
#include "rlx/type.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One open file; immutable, so that any number of threads may use it. */
struct rlx_gguf;

/* What a value is; the numbers are the file's. */
enum rlx_gguf_type {
	RLX_GGUF_U8, RLX_GGUF_I8, RLX_GGUF_U16, RLX_GGUF_I16, RLX_GGUF_U32, RLX_GGUF_I32,
	RLX_GGUF_F32, RLX_GGUF_BOOL, RLX_GGUF_STRING, RLX_GGUF_ARRAY, RLX_GGUF_U64, RLX_GGUF_I64,
	RLX_GGUF_F64,
};

/**
 * struct rlx_gguf_value - a value.
 * @type: what it is; @of: of an array, what its elements are
 * @u:    of U8 to U64, BOOL; @i: of I8 to I64; @f: of F32, F64
 * @n:    bytes of a string, elements of an array
 * @data: a string's bytes, not 0-ended. Of an array from a reader its elements as they lie,
 *        little-endian, aligned to nothing; for a writer numbers of the type, bools as bytes,
 *        strings as 0-ended const char *
 */
struct rlx_gguf_value {
	enum rlx_gguf_type type, of;
	union {
		uint64_t u;
		int64_t	 i;
		double	 f;
	};
	uint64_t	   n;
	const void	  *data;
};

/* How elements are stored, as the file numbers it; others are told apart by their numbers. */
enum rlx_gguf_format {
	RLX_GGUF_AS_F32 = 0, RLX_GGUF_AS_F16 = 1, RLX_GGUF_AS_Q4_0 = 2, RLX_GGUF_AS_Q8_0 = 8,
	RLX_GGUF_AS_I8 = 24, RLX_GGUF_AS_I16, RLX_GGUF_AS_I32, RLX_GGUF_AS_I64, RLX_GGUF_AS_F64,
	RLX_GGUF_AS_BF16 = 30,
};

/**
 * struct rlx_gguf_tensor - one tensor.
 * @name:   0-ended UTF-8
 * @type:   row-major: dimensions in the opposite order of the file's. From a reader its dtype is
 *          that of the elements, RLX_NODTYPE of blocks; for a writer it is what @data holds
 * @format: of enum rlx_gguf_format, or another number
 * @data:   from a reader aligned to nothing (files align it to 32)
 * @bytes:  of the data in the file; ignored by the writer
 * @offset: of the data in the file; ignored by the writer
 */
struct rlx_gguf_tensor {
	const char	*name;
	struct rlx_type	 type;
	uint32_t	 format;
	const void	*data;
	uint64_t	 bytes, offset;
};

/**
 * rlx_gguf_open - map a file of version 2 or 3 and check all that stands before its data.
 * @path:  a regular file; it must not be cut short while open
 * @out_f: the file
 * @err:   may be NULL
 *
 * Refused besides what is malformed: keys and names that come twice or are not UTF-8, tensors
 * that do not follow each other as ggml wants them, arrays of arrays.
 *
 * Context: any thread; allocates, maps. Ownership: rlx_gguf_close() ends @out_f and all that
 * came from it. Return: RLX_ENOENT, RLX_EACCES, RLX_EBADFD for the file; RLX_EPARSE, naming
 * byte, key or tensor; RLX_ENOSUP for a version, order of bytes, rank or format of elements
 * that is not known; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_gguf_open(const char *path, struct rlx_gguf **out_f, struct rlx_error *err);

/* As rlx_gguf_open(), of the @len bytes at @p, which must stay and not change until closed. */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_gguf_open_mem(const void *p, size_t len, struct rlx_gguf **out_f, struct rlx_error *err);

/* NULL is fine. Context: any thread. */
RLX_EXPORT void rlx_gguf_close(struct rlx_gguf *f);

/* How many tensors, and tensor @i in the file's order, or of a name; NULL if there is none. */
RLX_EXPORT uint32_t rlx_gguf_count(const struct rlx_gguf *f);
RLX_EXPORT const struct rlx_gguf_tensor *rlx_gguf_at(const struct rlx_gguf *f, uint32_t i);
RLX_EXPORT const struct rlx_gguf_tensor *rlx_gguf_find(const struct rlx_gguf *f,
						       const char *name);

/**
 * rlx_gguf_key, rlx_gguf_get - walk the keys; the value of one.
 * @i: 0, 1, ... until it returns NULL
 * Context: any; no allocation. Return: NULL; false if there is no such key.
 */
RLX_EXPORT const char *rlx_gguf_key(const struct rlx_gguf *f, uint32_t i);
RLX_EXPORT bool rlx_gguf_get(const struct rlx_gguf *f, const char *key,
			     struct rlx_gguf_value *out);

/**
 * rlx_gguf_next - take the first element off an array.
 * @array: becomes the array of those behind it
 * Return: false if there is none, or @array is no array from a reader.
 */
RLX_EXPORT bool rlx_gguf_next(struct rlx_gguf_value *array, struct rlx_gguf_value *out);

/**
 * rlx_gguf_read - the elements of a tensor as floats.
 * @to: as many as the type has
 * Context: any thread; no allocation. Return: RLX_ENOSUP unless it is stored as F32, F16, BF16,
 * F64, or in blocks that rlx_gguf_scheme() knows.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_gguf_read(const struct rlx_gguf_tensor *t, float *to, struct rlx_error *err);

/**
 * rlx_gguf_scheme - the scheme of dequant_matmul and dequantize_packed by which a tensor's
 * bytes are read as they lie
 * @format: of struct rlx_gguf_tensor
 * Context: any; no allocation. Return: RLX_SCHEME_Q4_0 to RLX_SCHEME_NVFP4; -1: another format.
 */
RLX_EXPORT int rlx_gguf_scheme(uint32_t format);

/* A key and its value, for the writer. */
struct rlx_gguf_pair {
	const char		*key;
	struct rlx_gguf_value	 value;
};

/**
 * rlx_gguf_write - write a file of version 3.
 * @path:  replaced once all is written; on failure what was there stays
 * @kv:    @n_kv of them; keys must differ. "general.alignment" is the writer's: 32
 * @v:     @n tensors of up to 4 dimensions; names must differ and have up to 63 bytes. Each is
 *         stored as its format says: f32 as F32, F16, BF16 or Q8_0 (rounded to nearest, in
 *         blocks of 32 of the last dimension), other dtypes as themselves
 *
 * Context: any thread; allocates, blocks on the file.
 * Return: RLX_EINVAL for a malformed pair or tensor; RLX_EEXIST for a key or name that comes
 * twice; RLX_ENOSUP for a dtype in that format; RLX_ESHAPE for over 4 dimensions, or blocks that
 * the last one is no multiple of; RLX_ERANGE for numbers that Q8_0 cannot hold (not finite, above
 * 127 x 65504), or f32 that is finite and not so as F16; RLX_ENOENT, RLX_EACCES, RLX_EIO for the
 * file, RLX_EBADFD if @path is a device, FIFO or folder; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_gguf_write(const char *path, const struct rlx_gguf_pair *kv, uint32_t n_kv,
	       const struct rlx_gguf_tensor *v, uint32_t n, struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
