// SPDX-License-Identifier: MIT
/* Paragraphs of texts as pairs: the first half of the words and the second belong together. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/rlx/corpus.h"
#include "tools/rlx/encoder.h"
#include "tools/rlx/train_encoder.h"

enum { PATH = 4096, LETTERS = 100, LEAST_WORDS = 16, LEAST_PAIRS = 10 };

/* A writer under way, and the record that it is given. */
struct pairs {
	const struct train_config *c;
	struct rlx_tokenizer	*tok;
	struct rlx_tokenizer_scratch *scratch;
	struct corpus		 corpus;
	int64_t			*token;
	int32_t			*ids, length[2];	/* ids[2, context] */
};

/* Where the second half of the words of @p begins; 0: there are too few. */
static uint32_t middle(const struct para *p)
{
	uint32_t words = 0, at = 0, i, k;

	for (k = 0; k < 2; k++) {
		uint32_t n = 0;

		for (i = 0; i < p->len; i++) {
			if (isspace((unsigned char)p->text[i]) ||
			    (i && !isspace((unsigned char)p->text[i - 1])))
				continue;
			if (k && n == words / 2)
				at = i;
			n++;
		}
		words = n;
	}
	return words < LEAST_WORDS ? 0 : at;
}

static bool encode(struct pairs *q, unsigned int half, const char *text, size_t len,
		   struct rlx_error *err)
{
	uint32_t most = (uint32_t)q->c->context, i;
	struct rlx_encode_opts o = { .max_tokens = most };
	struct rlx_encoding enc = { .ids = q->token, .capacity = most };
	int32_t *to = q->ids + half * most;

	if (rlx_tokenizer_encode(q->scratch, text, len, &o, &enc, err))
		return false;
	for (i = 0; i < most; i++)
		to[i] = i < enc.n ? (int32_t)q->token[i] : 0;
	q->length[half] = (int32_t)enc.n;
	return true;
}

/* Pairs of paragraphs [@from, @to) into a record file. */
static bool write_pairs(struct pairs *q, const char *name, uint32_t from, uint32_t to,
			struct rlx_error *err)
{
	struct rlx_field field[2] = {
		{ .name = "ids", .type = rlx_type(RLX_I32, 2, (int64_t)q->c->context) },
		{ .name = "lengths", .type = rlx_type(RLX_I32, 2) },
	};
	struct rlx_record_writer *w = NULL;
	const void *data[2] = { q->ids, q->length };
	char path[PATH];
	uint32_t i;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", q->c->folder, name);
	ok = !rlx_record_create(path, field, 2, NULL, &w, err);
	for (i = from; ok && i < to; i++) {
		const struct para *p = &q->corpus.para[i];
		uint32_t half = middle(p);

		ok = !half || (encode(q, 0, p->text, half, err) &&
			       encode(q, 1, p->text + half, p->len - half, err) &&
			       !rlx_record_add(w, data, 1, err));
	}
	if (ok)
		return !rlx_record_commit(w, err);
	rlx_record_abort(w);
	return false;
}

bool train_pairs(const struct train_config *c, struct rlx_error *err)
{
	struct pairs q = { .c = c };
	uint32_t n, cut;
	bool ok = !encoder_tokenizer(c->base, NULL, &q.tok, &q.scratch, err) &&
		  !corpus_add(&q.corpus, c->text, err) &&
		  !corpus_split(&q.corpus, LETTERS, err);

	n = q.corpus.n_para;
	if (ok && n < LEAST_PAIRS) {
		rlx_fail(err, RLX_EINVAL, "%s has %u paragraphs; %d at least are needed", c->text,
			 n, LEAST_PAIRS);
		ok = false;
	}
	q.ids = rlx_calloc(2 * (size_t)c->context, sizeof(*q.ids));
	q.token = rlx_calloc((size_t)c->context, sizeof(*q.token));
	if (ok && (!q.ids || !q.token)) {
		rlx_fail(err, RLX_ENOMEM, "pairs: out of memory");
		ok = false;
	}
	cut = n - n / 5;
	ok = ok && write_pairs(&q, "pairs.rlxr", 0, cut, err) &&
	     write_pairs(&q, "pairs-test.rlxr", cut, n, err);
	rlx_free(q.ids);
	rlx_free(q.token);
	corpus_fini(&q.corpus);
	rlx_tokenizer_scratch_free(q.scratch);
	rlx_tokenizer_free(q.tok);
	return ok;
}
