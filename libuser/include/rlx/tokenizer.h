/* SPDX-License-Identifier: MIT */
/*
 * Tokenizers: text to ids and back, as a tokenizer.json or vocab.txt beside a
 * model says. Ids and spans equal those of the reference implementation.
 *
 *	rlx_tokenizer_new_file("tokenizer.json", NULL, &t, &err);
 *	rlx_tokenizer_scratch_new(t, &s, &err);
 *	rlx_tokenizer_encode(s, text, len, NULL, &enc, &err);
 */
#ifndef RLX_TOKENIZER_H
#define RLX_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rlx/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Immutable once loaded: any number of threads may use one. */
struct rlx_tokenizer;

/* Working memory of one thread; grows to the longest text seen, then rests. */
struct rlx_tokenizer_scratch;

/**
 * struct rlx_tokenizer_opts - how to load. Zero is the default of all members.
 * @cased: of vocab.txt, which does not say: keep case and accents
 */
struct rlx_tokenizer_opts {
	bool	cased;
};

/**
 * rlx_tokenizer_new_file - load a tokenizer from a file.
 * @path:  tokenizer.json, or a vocab.txt with one WordPiece token a line; told
 *         apart by the first byte that is no space: '{' is JSON
 * @opts:  may be NULL
 * @out_t: the tokenizer
 * @err:   may be NULL
 *
 * Context: any thread; reads the file, allocates. Ownership: the caller frees
 * @out_t with rlx_tokenizer_free().
 * Return: RLX_ENOENT, RLX_EACCES, RLX_EIO for the file; RLX_EPARSE if it is not
 * what it claims to be (the text names byte or key); RLX_ENOSUP, naming the
 * component, for one that this library lacks; RLX_ERANGE above 1 GiB;
 * RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_tokenizer_new_file(const char *path, const struct rlx_tokenizer_opts *opts,
		       struct rlx_tokenizer **out_t, struct rlx_error *err);

/**
 * rlx_tokenizer_new_mem - as rlx_tokenizer_new_file(), from @len bytes at
 * @data, which are not referred to later.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_tokenizer_new_mem(const void *data, size_t len,
		      const struct rlx_tokenizer_opts *opts,
		      struct rlx_tokenizer **out_t, struct rlx_error *err);

/* Free @t; no scratch of it may be in use. NULL is fine. Context: any thread. */
RLX_EXPORT void rlx_tokenizer_free(struct rlx_tokenizer *t);

/**
 * struct rlx_tokenizer_info - what the file said.
 * @model:      "WordPiece", "BPE", "Unigram" or "WordLevel"; lives with the tokenizer
 * @vocab_size: one more than the largest id, added tokens included
 * @unk_id:     id for what the vocabulary lacks, -1 if it has none
 * @pad_id:     id to pad with, -1 if the file and the vocabulary name none
 * @max_tokens: the length the file truncates to, 0 if none. Only reported:
 *              what is done is what struct rlx_encode_opts says
 * @pad_to:     the length the file pads to, 0 if none. Only reported
 */
struct rlx_tokenizer_info {
	const char	*model;
	uint32_t	 vocab_size;
	int64_t		 unk_id, pad_id;
	uint32_t	 max_tokens, pad_to;
};

/* Fill @out_info. Context: any thread; no allocation. */
RLX_EXPORT void rlx_tokenizer_info(const struct rlx_tokenizer *t,
				   struct rlx_tokenizer_info *out_info);

/**
 * rlx_tokenizer_id - the id of the token spelled @text (@len bytes).
 * Context: any thread; no allocation. Return: -1 if there is none.
 */
RLX_EXPORT int64_t rlx_tokenizer_id(const struct rlx_tokenizer *t,
				    const char *text, size_t len);

/**
 * rlx_tokenizer_token - the spelling of token @id, as the file has it.
 * @out_len: its bytes
 * Context: any thread; no allocation. Ownership: @t's; not 0-ended.
 * Return: NULL if no token has that id.
 */
RLX_EXPORT const char *rlx_tokenizer_token(const struct rlx_tokenizer *t,
					   int64_t id, size_t *out_len);

/**
 * rlx_tokenizer_scratch_new - working memory for calls with @t.
 *
 * Context: any thread; allocates. Ownership: the caller frees @out_s with
 * rlx_tokenizer_scratch_free() before @t; one thread at a time may use it.
 * Return: RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_tokenizer_scratch_new(const struct rlx_tokenizer *t,
			  struct rlx_tokenizer_scratch **out_s,
			  struct rlx_error *err);

/* NULL is fine. Context: any thread. */
RLX_EXPORT void rlx_tokenizer_scratch_free(struct rlx_tokenizer_scratch *s);

/**
 * struct rlx_encode_opts - how to encode one text. Zero is the default.
 *
 * @pair:          a second text to go behind the first, or NULL
 * @pair_len:      its bytes
 * @max_tokens:    cut to that many, added special ones included; 0: do not cut.
 *                 Of a pair the longer text is cut first
 * @pad_to:        pad to at least that many; 0: do not pad
 * @pad_multiple:  pad to a multiple of that; 0: do not
 * @no_special:    leave out what the tokenizer would add ([CLS], <s>, ...)
 * @truncate_left: cut at the beginning instead of the end
 * @pad_left:      pad at the beginning instead of the end
 * @stop:          read no further than max_tokens wants, a window of some KiB at a
 *                 time, so that neither time nor memory grows with what is cut; cut
 *                 then tells that there is more, not how much. Needs max_tokens, no
 *                 pair, no truncate_left
 */
struct rlx_encode_opts {
	const char	*pair;
	size_t		 pair_len;
	uint32_t	 max_tokens, pad_to, pad_multiple;
	bool		 no_special, truncate_left, pad_left, stop;
};

/* A range of bytes of the text that a token came from. */
struct rlx_token_span {
	uint32_t	begin, end;
};

/**
 * struct rlx_encoding - where the result goes; may be arena memory that is
 * bound to a program's inputs. Each array is @capacity long or NULL; if all are
 * NULL, tokens are only counted.
 *
 * @ids:      token ids
 * @type_ids: which text a token belongs to, as models want it (0, 1)
 * @mask:     1 for tokens, 0 for padding
 * @spans:    bytes of the text, or of the pair, a token stands for; empty for
 *            added special tokens and padding
 * @capacity: in: elements in each array
 * @n:        out: tokens, padding included
 * @cut:      out: tokens left out because of max_tokens
 */
struct rlx_encoding {
	int64_t			*ids, *type_ids, *mask;
	struct rlx_token_span	*spans;
	uint32_t		 capacity, n, cut;
};

/**
 * rlx_tokenizer_encode - text to ids.
 * @s:    the scratch, which knows its tokenizer
 * @text: UTF-8, may be NULL if @len is 0
 * @len:  its bytes, at most 512 MiB
 * @opts: may be NULL
 * @enc:  arrays to fill; n and cut are set
 * @err:  may be NULL
 *
 * Context: one thread at a time for one @s; allocates only to let @s grow.
 * Return: RLX_ERANGE if the arrays are too short (@enc->n then says how many
 * are needed, and nothing was written) or a text is too long; RLX_EPARSE if it
 * is not UTF-8 (the text names the byte); RLX_EINVAL if max_tokens leaves no
 * room for the special tokens, padding is asked for and there is no pad token, or
 * @stop has not what it needs; RLX_ERANGE also if with @stop a text has no place to
 * cut it within 64 KiB, or this tokenizer allows none and it has more than 256 KiB;
 * RLX_ENOSUP if a pattern takes too many steps, or on its way a text grows by 64 KiB and
 * to over 64 times its bytes; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_tokenizer_encode(struct rlx_tokenizer_scratch *s, const char *text,
		     size_t len, const struct rlx_encode_opts *opts,
		     struct rlx_encoding *enc, struct rlx_error *err);

/**
 * struct rlx_decoding - ids to turn into text, and where it goes.
 * @ids:          @n of them
 * @skip_special: leave special tokens out
 * @text:         @capacity bytes; not 0-ended
 * @len:          out: bytes of text
 */
struct rlx_decoding {
	const int64_t	*ids;
	size_t		 n;
	bool		 skip_special;
	char		*text;
	size_t		 capacity, len;
};

/**
 * rlx_tokenizer_decode - ids to text, by the file's decoder. Ids that no token
 * has are left out; bytes that are not UTF-8 become U+FFFD.
 *
 * Context: as rlx_tokenizer_encode(). Return: RLX_ERANGE if @d->text is too
 * short (@d->len then says how many bytes are needed); RLX_ENOSUP as there; RLX_ENOMEM.
 */
RLX_EXPORT enum rlx_status __rlx_must_check
rlx_tokenizer_decode(struct rlx_tokenizer_scratch *s, struct rlx_decoding *d,
		     struct rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
