/* SPDX-License-Identifier: MIT */
/* Tokenizers of several processes with one set of tables. */
#ifndef RLX_IO_TOKENIZER_SHARE_H
#define RLX_IO_TOKENIZER_SHARE_H

struct rlx_store;
struct rlx_tokenizer;

/*
 * Put the vocabulary of @t into @s, or take it from there if it is the same, and free
 * its own. It stays as it is where @s has no room or is NULL. @s must outlive @t; nobody
 * may use @t meanwhile.
 */
void rlx_tokenizer_share(struct rlx_tokenizer *t, struct rlx_store *s);

#endif
