/* SPDX-License-Identifier: MIT */
/* What reading and writing of GGUF share: how elements are stored. */
#ifndef RLX_IO_GGUF_H
#define RLX_IO_GGUF_H

#include "rlx/gguf.h"

enum { GGUF_ALIGN = 32, GGUF_MAX_DIMS = 4, GGUF_Q_BLOCK = 32 };

/* @block elements take @bytes; @dtype: of elements that stand alone, else RLX_NODTYPE. */
struct gguf_format {
	uint16_t	number, block, bytes;
	uint8_t		dtype;
	const char	*name;
};

/* NULL: not known. */
const struct gguf_format *gguf_format_of(uint32_t number);

/* The bytes, which stay the file's. */
struct rlx_file;
const struct rlx_file *gguf_file(const struct rlx_gguf *f);

/* Bytes of one element of a value; 0 for strings and arrays. */
uint32_t gguf_scalar_bytes(uint32_t type);

#endif
