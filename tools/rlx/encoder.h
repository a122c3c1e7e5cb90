/* SPDX-License-Identifier: MIT */
/*
 * Texts to vectors: one program for each of a few sequence lengths, over one set
 * of weights, in one arena. Token ids are written where a program reads them,
 * and vectors are read where it wrote them.
 */
#ifndef RLX_TOOLS_ENCODER_H
#define RLX_TOOLS_ENCODER_H

#include "rlx/bert.h"
#include "rlx/model.h"
#include "rlx/tokenizer.h"

enum { ENCODER_BUCKETS = 8 };

struct encoder_bucket {
	int64_t			 seq;
	bool			 wanted;
	struct rlx_program	*program;
	struct rlx_session	*session;
	struct rlx_type		 out_type;
	const char		*out_name;
	int64_t			*ids, *types, *mask, *length;	/* in the arena; NULL: no such input */
};

struct encoder {
	struct rlx_bert		*bert;		/* one of these two */
	struct rlx_model	*model;
	struct rlx_runner	*runner;
	struct rlx_tokenizer	*tok;
	struct rlx_tokenizer_scratch *scratch;
	struct rlx_compile_opts	 opts;
	struct encoder_bucket	 bucket[ENCODER_BUCKETS];
	struct rlx_arena	*arena;
	struct rlx_buf		 rows;		/* [n_rows, row_bytes] */
	uint64_t		 n_rows, row_bytes;
	int64_t			 width;		/* of a vector */
	uint32_t		 max_tokens;
	uint64_t		 compile_ns, pack_ns;
};

/*
 * @model: a folder for rlx_bert_open() with a tokenizer beside it, or an ONNX file
 * @tokenizer: NULL: the folder's tokenizer.json, else its vocab.txt
 */
enum rlx_status __rlx_must_check
encoder_open(struct encoder *e, const char *model, const char *tokenizer,
	     const struct rlx_compile_opts *opts, uint32_t max_tokens,
	     struct rlx_error *err);

/* The tokenizer in @path, or NULL: that of folder @dir; with its scratch. */
enum rlx_status __rlx_must_check
encoder_tokenizer(const char *dir, const char *path, struct rlx_tokenizer **tok,
		  struct rlx_tokenizer_scratch **scratch, struct rlx_error *err);

/* Tokens that a text will take, at most max_tokens; notes that its bucket is wanted. */
enum rlx_status __rlx_must_check
encoder_count(struct encoder *e, const char *text, size_t len, uint32_t *out_tokens,
	      struct rlx_error *err);

/* Compile the wanted buckets and take memory for @n_rows vectors. */
enum rlx_status __rlx_must_check
encoder_load(struct encoder *e, uint64_t n_rows, struct rlx_error *err);

/* The vector of a text, of length 1, into row @row. */
enum rlx_status __rlx_must_check
encoder_run(struct encoder *e, const char *text, size_t len, uint32_t tokens,
	    uint64_t row, struct rlx_error *err);
const float *encoder_row(const struct encoder *e, uint64_t row);
void encoder_close(struct encoder *e);

#endif
