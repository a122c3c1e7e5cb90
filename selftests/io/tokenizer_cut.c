// SPDX-License-Identifier: MIT
/*
 * Texts read a window at a time give the tokens of the whole, whatever the tokenizer is
 * made of and wherever windows end; and memory does not grow with what is not wanted.
 */
#include "io/tokenizer/impl.h"
#include "io/tokenizer/share.h"
#include "rlx/tokenizer.h"
#include "selftests/lib/rlx_test.h"

enum { MAX = 4096, TEXT = 600 };

static const char vocab_txt[] =
	"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nab\n##a\n##b\n##ab\n.\n,\n[\n]\nmask\n1\n"
	"##1\ne\n##e\n\xe4\xb8\xad\n\xe5\x9b\xbd\n\xc3\xa9\n";

#define VOCAB \
	"\"vocab\": {\"<unk>\": 0, \"a\": 1, \"b\": 2, \"ab\": 3, \".\": 4, \",\": 5, \"1\": 6, " \
	"\"e\": 7, \"\xc3\xa9\": 8, \"[\": 9, \"]\": 10, \"\xe4\xb8\xad\": 11}"
#define LEVEL "\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"<unk>\", " VOCAB "}}"
#define BPE \
	"\"model\": {\"type\": \"BPE\", \"unk_token\": \"<unk>\", " VOCAB \
	", \"merges\": [\"a b\"]}}"
#define BERT_PRE "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}"
#define TOKEN(t, more) \
	"{\"id\": 20, \"content\": \"" t "\", \"special\": true, \"single_word\": false, " more "}"

/* With what they may be cut at; those that may not are read whole, whatever comes. */
static const struct {
	const char	*json;
	bool		 cuts;
} kinds[] = {
	{ "{\"normalizer\": {\"type\": \"NFKC\"}, \"pre_tokenizer\": {\"type\": \"Whitespace\"}, "
	  LEVEL, true },
	{ "{\"normalizer\": {\"type\": \"Lowercase\"}, \"pre_tokenizer\": "
	  "{\"type\": \"WhitespaceSplit\"}, " LEVEL, true },
	{ "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", "
	  "\"individual_digits\": true}, {\"type\": \"BertPreTokenizer\"}]}, " LEVEL, true },
	{ "{\"added_tokens\": [" TOKEN("[MASK]", "\"lstrip\": true, \"rstrip\": false, "
	  "\"normalized\": true") "], " BERT_PRE ", " LEVEL,
	  true },
	{ "{\"added_tokens\": [" TOKEN("[MASK]", "\"lstrip\": false, \"rstrip\": true, "
	  "\"normalized\": false") "], " BERT_PRE ", " LEVEL,
	  true },
	{ "{\"added_tokens\": [" TOKEN("[MASK]", "\"lstrip\": false, \"rstrip\": true, "
	  "\"normalized\": true") "], " BERT_PRE ", " LEVEL,
	  false },
	{ "{\"normalizer\": {\"type\": \"Prepend\", \"prepend\": \"a\"}, \"pre_tokenizer\": "
	  "{\"type\": \"Whitespace\"}, " LEVEL, false },
	{ "{\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \"ab\"}, "
	  "\"content\": \" \"}, " BERT_PRE ", " LEVEL, true },
	{ "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", "
	  "\"prepend_scheme\": \"always\", \"split\": true}, " LEVEL, true },
	{ "{\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", "
	  "\"prepend_scheme\": \"first\", \"split\": true}, " LEVEL, true },
	{ "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, "
	  "\"use_regex\": true}, " BPE, true },
	{ "{" LEVEL, false },
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static uint32_t below(uint64_t *seed, uint32_t n)
{
	return (uint32_t)(rlx_test_rand(seed) % n);
}

/* Characters next to each other in every way. */
static uint32_t make_text(uint64_t *seed, char *to)
{
	static const char *const parts[] = {
		"a", "b", "ab", "1", ".", ",", "[", "]", " ", " ", " ", "  ", "\t", "\n", "\r\n",
		"\xc3\xa9", "e\xcc\x81", "\xcc\x81", "\xe4\xb8\xad", "\xe4\xb8\xad\xcc\x81",
		"\xe5\x9b\xbd", "\xe2\x80\x83", "[MASK]", " [MASK] ", "E", "\xef\xb7\xba", "\x01",
	};
	uint32_t n = 0, most = below(seed, TEXT - 32);
	const char *p;

	while (n < most) {
		p = parts[below(seed, sizeof(parts) / sizeof(parts[0]))];
		memcpy(to + n, p, strlen(p));
		n += (uint32_t)strlen(p);
	}
	return n;
}

struct read {
	int64_t			ids[MAX];
	struct rlx_token_span	spans[MAX];
	struct rlx_encoding	enc;
};

static void encode(struct rlx_tokenizer_scratch *s, const char *text, uint32_t n,
		   const struct rlx_encode_opts *o, struct read *out)
{
	struct rlx_error err = { 0 };

	out->enc = (struct rlx_encoding){ .ids = out->ids, .spans = out->spans, .capacity = MAX };
	CHECKF(!rlx_tokenizer_encode(s, text, n, o, &out->enc, &err), "%s", err.text);
}

static void same_in_windows(const struct rlx_tokenizer *t, unsigned int times)
{
	static struct read whole, windows;
	struct rlx_tokenizer_scratch *a, *b;
	uint64_t seed = rlx_test_seed();
	struct rlx_encode_opts o = { .max_tokens = MAX }, stop = { .stop = true };
	char text[TEXT];
	uint32_t n;

	CHECK_EQ(rlx_tokenizer_scratch_new(t, &a, NULL), RLX_OK);
	CHECK_EQ(rlx_tokenizer_scratch_new(t, &b, NULL), RLX_OK);
	while (times--) {
		n = make_text(&seed, text);
		b->window = 1 + below(&seed, 24);
		stop.max_tokens = o.max_tokens = below(&seed, 2) ? MAX :
						 3 + below(&seed, 40);
		encode(a, text, n, &o, &whole);
		encode(b, text, n, &stop, &windows);
		CHECK_EQ(windows.enc.n, whole.enc.n);
		CHECK_EQ(!windows.enc.cut, !whole.enc.cut);
		if (memcmp(whole.ids, windows.ids, whole.enc.n * sizeof(whole.ids[0])) ||
		    memcmp(whole.spans, windows.spans, whole.enc.n * sizeof(whole.spans[0])))
			CHECKF(false, "windows of %u change the tokens of '%.*s'", b->window,
			       (int)n, text);
	}
	rlx_tokenizer_scratch_free(a);
	rlx_tokenizer_scratch_free(b);
}

static struct rlx_tokenizer *load(const char *text)
{
	struct rlx_error err = { 0 };
	struct rlx_tokenizer *t;

	CHECKF(!rlx_tokenizer_new_mem(text, strlen(text), NULL, &t, &err), "%s", err.text);
	return t;
}

TEST(windows_give_the_tokens_of_the_whole)
{
	struct rlx_tokenizer *t = load(vocab_txt);
	unsigned int i;

	CHECK(t->cuts);
	same_in_windows(t, 4000);
	rlx_tokenizer_free(t);
	for (i = 0; i < KINDS; i++) {
		t = load(kinds[i].json);
		CHECKF(!t->cuts == !kinds[i].cuts, "kind %u: cuts %u", i, t->cuts);
		same_in_windows(t, 1000);
		rlx_tokenizer_free(t);
	}
}

/* Megabytes of what yields tokens, or none, or one; as rlxd reads them. */
TEST(memory_does_not_grow_with_what_is_cut)
{
	static const struct {
		const char	*part;
		bool		 more;
	} texts[] = {
		{ "\xe4\xb8\xad\xcc\x81", true }, { "ab ", true }, { "....", true }, { " ", false },
		{ "[MASK]", true },
	};
	const uint32_t bytes = 8 << 20;
	struct rlx_tokenizer *t = load(vocab_txt);
	struct rlx_encode_opts o = { .max_tokens = 128, .stop = true };
	struct rlx_tokenizer_scratch *s;
	char *text = malloc(bytes);
	struct read out;
	unsigned int i;
	uint32_t n;

	CHECK(text != NULL);
	CHECK_EQ(rlx_tokenizer_scratch_new(t, &s, NULL), RLX_OK);
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const uint32_t k = (uint32_t)strlen(texts[i].part);

		for (n = 0; n + k <= bytes; n += k)
			memcpy(text + n, texts[i].part, k);
		encode(s, text, n, &o, &out);
		CHECK_EQ(out.enc.cut > 0, texts[i].more);
		CHECK_EQ(out.enc.n, texts[i].more ? 128 : 2);
	}
	CHECKF(rlx_tokenizer_scratch_bytes(s) < 4 << 20, "%zu bytes",
	       rlx_tokenizer_scratch_bytes(s));
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
	free(text);
}

TEST(text_without_a_place_to_cut_is_refused)
{
	struct rlx_encode_opts o = { .max_tokens = 16, .stop = true };
	struct rlx_encode_opts bad = { .stop = true };
	struct rlx_tokenizer *t = load(vocab_txt);
	struct rlx_tokenizer_scratch *s;
	struct rlx_encoding enc = { 0 };
	struct rlx_error err = { 0 };
	const uint32_t n = 1 << 20;
	char *text = malloc(n);

	CHECK(text != NULL);
	memset(text, 'a', n);
	CHECK_EQ(rlx_tokenizer_scratch_new(t, &s, NULL), RLX_OK);
	CHECK_EQ(rlx_tokenizer_encode(s, text, n, &o, &enc, &err), RLX_ERANGE);
	CHECKF(strstr(err.text, "from byte 0 on") != NULL, "%s", err.text);
	CHECK_EQ(rlx_tokenizer_encode(s, text, TK_WINDOW_MAX, &o, &enc, NULL), RLX_OK);
	CHECK_EQ(enc.n, 3);	/* a word of more than 100 characters is unknown */
	CHECK_EQ(rlx_tokenizer_encode(s, text, 4, &bad, &enc, NULL), RLX_EINVAL);
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
	free(text);
}

TEST_MAIN()
