/* SPDX-License-Identifier: MIT */
/* Protocol buffers with a few fields changed, whatever their schema. */
#ifndef SELFTESTS_PROTO_MUTATE_H
#define SELFTESTS_PROTO_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/*
 * In @to, of @cap bytes and at least @n, message @p with one to three fields that are others, twice
 * there or gone; lengths fit, so that what is behind them is read. Return: its bytes.
 */
size_t proto_mutate(const uint8_t *p, size_t n, uint8_t *to, size_t cap, uint64_t *seed);

#endif
