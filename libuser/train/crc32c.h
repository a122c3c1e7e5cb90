/* SPDX-License-Identifier: MIT */
/* CRC-32C (Castagnoli; RFC 3720): of records, chunks, indexes and files. */
#ifndef RLX_TRAIN_CRC32C_H
#define RLX_TRAIN_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of @n bytes behind those that gave @crc; 0 begins. */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);
/* The same without the processor's instruction, for those that lack it and for tests. */
uint32_t crc32c_portable(uint32_t crc, const void *p, size_t n);
/* Of two pieces, the second of @n bytes: what crc32c() of them together would give. */
uint32_t crc32c_join(uint32_t first, uint32_t second, uint64_t n);

#endif
