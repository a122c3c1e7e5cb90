/* SPDX-License-Identifier: MIT */
/* Tokenizers of several processes with one set of tables; what their scratch takes. */
#ifndef RLX_IO_TOKENIZER_SHARE_H
#define RLX_IO_TOKENIZER_SHARE_H

#include <stddef.h>

struct rlx_store;
struct rlx_tokenizer;
struct rlx_tokenizer_scratch;

/*
 * Put the vocabulary of @t into @s, or take it from there if it is the same, and free
 * its own. It stays as it is where @s has no room or is NULL. @s must outlive @t; nobody
 * may use @t meanwhile.
 */
void rlx_tokenizer_share(struct rlx_tokenizer *t, struct rlx_store *s);

/* Bytes of memory that grew with the texts it was used for. */
size_t rlx_tokenizer_scratch_bytes(const struct rlx_tokenizer_scratch *s);

#endif
