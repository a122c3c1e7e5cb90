// SPDX-License-Identifier: MIT
/*
 * libFuzzer entry for tokenizers. The input is a tokenizer file and, behind the
 * first zero byte, a text; an empty file stands for one of those below, which
 * the first byte of the text picks.
 */
#include <stdlib.h>
#include <string.h>

#include "rlx/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { IDS = 4096, TEXT = 1 << 16 };

#define WORDS	"\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"?\"," \
		"\"vocab\":{\"?\":0,\"a\":1,\"##a\":2,\"ab\":3,\"##b\":4,"    \
		"\"e\":5,\"##\\u0301\":6,\".\":7}}"
#define BPE	"\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"	      \
		"\"unk_token\":\"?\",\"fuse_unk\":true,\"vocab\":{\"?\":0,"    \
		"\"a\":1,\"b\":2,\"ab\":3,\"abab\":4,\"\\u0120\":5,"	      \
		"\"\\u0120a\":6,\"<0xC3>\":7,\"\\u2581\":8},\"merges\":["     \
		"\"a b\",\"ab ab\",\"\\u0120 a\"]}"
#define UNI	"\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":["    \
		"[\"?\",0],[\"a\",-1],[\"aa\",-1.5],[\"\\u2581a\",-2],"	      \
		"[\"\\u2581\",-3],[\"ab\",-2.5]]}"

static const char *const files[] = {
	"{\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":"
	"{\"type\":\"BertPreTokenizer\"}," WORDS "}",
	"{\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":"
	"\"Whitespace\"}," WORDS "}",
	"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
	"\"NFKD\"},{\"type\":\"StripAccents\"},{\"type\":\"Strip\"},"
	"{\"type\":\"Lowercase\"}]},\"pre_tokenizer\":{\"type\":\"Sequence\","
	"\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":true},"
	"{\"type\":\"Punctuation\",\"behavior\":\"MergedWithPrevious\"},"
	"{\"type\":\"FixedLength\",\"length\":3}]}," WORDS "}",
	"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"decoder\":{\"type\":"
	"\"ByteLevel\"},\"post_processor\":{\"type\":\"ByteLevel\"}," BPE "}",
	"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
	"\"(?i:'s|'t)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?"
	"[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|"
	"\\\\s+(?!\\\\S)|\\\\s+\"},\"behavior\":\"Isolated\"},\"decoder\":"
	"{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},"
	"{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,"
	"\"stop\":0}]}," BPE "}",
	"{\"added_tokens\":[{\"id\":9,\"content\":\"<x>\",\"lstrip\":true,"
	"\"rstrip\":true},{\"id\":10,\"content\":\"aB\",\"normalized\":true,"
	"\"single_word\":true}],\"normalizer\":{\"type\":\"NFKC\"},"
	"\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\","
	"\"prepend_scheme\":\"first\"},\"decoder\":{\"type\":\"Metaspace\","
	"\"replacement\":\"\\u2581\",\"prepend_scheme\":\"first\"}," UNI "}",
};
enum { FILES = sizeof(files) / sizeof(*files) };

static void encode(const struct rlx_tokenizer *t, const uint8_t *text, size_t n)
{
	static int64_t ids[IDS], types[IDS], mask[IDS];
	static struct rlx_token_span spans[IDS];
	static char back[TEXT];
	struct rlx_encoding e = { ids, types, mask, spans, IDS, 0, 0 };
	struct rlx_encode_opts o = { .max_tokens = n & 1 ? IDS : 0 };
	struct rlx_decoding d = { .ids = ids, .text = back, .capacity = TEXT };
	struct rlx_tokenizer_scratch *s;
	struct rlx_tokenizer_info info;
	struct rlx_error err = { 0 };
	enum rlx_status st;
	uint32_t i;

	if (rlx_tokenizer_scratch_new(t, &s, NULL))
		return;
	rlx_tokenizer_info(t, &info);
	st = rlx_tokenizer_encode(s, (const char *)text, n, &o, &e, &err);
	if (st && !err.text[0])
		abort();
	for (i = 0; i < e.n && !st; i++)
		if (ids[i] < 0 || ids[i] >= info.vocab_size || mask[i] != 1 ||
		    spans[i].begin > spans[i].end || spans[i].end > n)
			abort();
	d.n = st ? 0 : e.n;
	err.text[0] = 0;
	st = rlx_tokenizer_decode(s, &d, &err);
	if (st && st != RLX_ERANGE && st != RLX_ENOSUP && st != RLX_ENOMEM)
		abort();
	rlx_tokenizer_scratch_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static struct rlx_tokenizer *made[FILES];
	const uint8_t *text = memchr(p, 0, n);
	struct rlx_error err = { 0 };
	struct rlx_tokenizer *t;
	size_t k;

	for (k = 0; k < FILES && !made[k]; k++)
		if (rlx_tokenizer_new_mem(files[k], strlen(files[k]), NULL,
					  &made[k], NULL))
			abort();
	if (text == p) {
		if (n > 1)
			encode(made[p[1] % FILES], p + 2, n - 2);
		return 0;
	}
	k = text ? (size_t)(text - p) : n;
	if (rlx_tokenizer_new_mem(p, k, NULL, &t, &err)) {
		if (!err.text[0] || t)
			abort();
		return 0;
	}
	encode(t, text ? text + 1 : p, text ? n - k - 1 : n);
	rlx_tokenizer_free(t);
	return 0;
}
