// SPDX-License-Identifier: MIT
/*
 * Tokenizers against their definitions: naive merges, exhaustive search, and
 * ids worked out by hand; hostile files; no memory; no allocation once warm.
 */
#include <pthread.h>
#include <stdarg.h>

#include "base/alloc.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/utf8.h"
#include "rlx/tokenizer.h"
#include "selftests/lib/rlx_test.h"

enum { MAX = 4096 };

struct out {
	int64_t			ids[MAX], types[MAX], mask[MAX];
	struct rlx_token_span	spans[MAX];
	struct rlx_encoding	enc;
};

static struct rlx_tokenizer *load(const char *text)
{
	struct rlx_error err = { 0 };
	struct rlx_tokenizer *t;
	enum rlx_status st;

	st = rlx_tokenizer_new_mem(text, strlen(text), NULL, &t, &err);
	CHECKF(!st, "%s", err.text);
	return t;
}

static struct rlx_tokenizer_scratch *scratch(const struct rlx_tokenizer *t)
{
	struct rlx_tokenizer_scratch *s;

	CHECK_EQ(rlx_tokenizer_scratch_new(t, &s, NULL), RLX_OK);
	return s;
}

static enum rlx_status encode_n(struct rlx_tokenizer_scratch *s,
				const char *text, size_t len,
				const struct rlx_encode_opts *o, struct out *out,
				struct rlx_error *err)
{
	memset(out, 0xa5, sizeof(*out));
	out->enc = (struct rlx_encoding){
		.ids = out->ids, .type_ids = out->types, .mask = out->mask,
		.spans = out->spans, .capacity = MAX,
	};
	return rlx_tokenizer_encode(s, text, len, o, &out->enc, err);
}

static void encode(struct rlx_tokenizer_scratch *s, const char *text,
		   const struct rlx_encode_opts *o, struct out *out)
{
	struct rlx_error err = { 0 };

	CHECKF(!encode_n(s, text, strlen(text), o, out, &err), "%s", err.text);
}

/* Ids as "1 2 3". */
static const char *ids_text(const int64_t *v, uint32_t n)
{
	static char buf[8 * MAX];
	char *p = buf;
	uint32_t i;

	*p = 0;
	for (i = 0; i < n; i++)
		p += sprintf(p, "%s%lld", i ? " " : "", (long long)v[i]);
	return buf;
}

static void check_ids(struct rlx_tokenizer_scratch *s, const char *text,
		      const struct rlx_encode_opts *o, const char *want)
{
	static struct out out;

	encode(s, text, o, &out);
	CHECKF(!strcmp(ids_text(out.ids, out.enc.n), want),
	       "\"%s\": %s, not %s", text, ids_text(out.ids, out.enc.n), want);
}

static const char *decode(struct rlx_tokenizer_scratch *s, const int64_t *ids,
			  size_t n, bool skip)
{
	static char buf[16 * MAX];
	struct rlx_decoding d = { .ids = ids, .n = n, .skip_special = skip,
				  .text = buf, .capacity = sizeof(buf) - 1 };
	struct rlx_error err = { 0 };

	CHECKF(!rlx_tokenizer_decode(s, &d, &err), "%s", err.text);
	buf[d.len] = 0;
	return buf;
}

/* ids:     0     1     2     3     4      5  6     7     8   9 */
static const char vocab_txt[] =
	"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nthe\na\n"
/*	10  11  12    13   14  15   16   17 */
	",\n!\n##s\ncafe\n\xe4\xbd\xa0\n\xe5\xa5\xbd\nword\n##ffable\n";

TEST(wordpiece_from_vocab_txt)
{
	struct rlx_tokenizer *t = load(vocab_txt);
	struct rlx_tokenizer_scratch *s = scratch(t);
	struct rlx_tokenizer_info info;
	static struct out o;

	rlx_tokenizer_info(t, &info);
	CHECK_STR(info.model, "WordPiece");
	CHECK_EQ(info.vocab_size, 18);
	CHECK_EQ(info.unk_id, 1);
	CHECK_EQ(info.pad_id, 0);
	check_ids(s, "unaffable", NULL, "2 5 6 7 3");	/* longest first */
	check_ids(s, "", NULL, "2 3");
	check_ids(s, "The words, a CAF\xc3\x89!", NULL, "2 8 16 12 10 9 13 11 3");
	check_ids(s, "cafe\xcc\x81 \xe4\xbd\xa0\xe5\xa5\xbd", NULL, "2 13 14 15 3");
	check_ids(s, "unx the", NULL, "2 1 8 3");	/* no part of a word */
	check_ids(s, "the\t\n\xc2\xa0 \xe2\x80\x8b the\x07", NULL, "2 8 8 3");
	check_ids(s, "a[MASK]the [MASK].", NULL, "2 9 4 8 4 1 3");
	encode(s, "the CAF\xc3\x89s", NULL, &o);
	CHECK_EQ(o.enc.n, 5);
	CHECK(o.spans[1].begin == 0 && o.spans[1].end == 3);
	CHECK(o.spans[2].begin == 4 && o.spans[2].end == 9);
	CHECK(o.spans[3].begin == 9 && o.spans[3].end == 10);
	CHECK(o.spans[4].begin == 0 && o.spans[4].end == 0);
	CHECK_STR(decode(s, o.ids, o.enc.n, true), "the cafes");
	CHECK_STR(decode(s, o.ids, o.enc.n, false), "[CLS] the cafes [SEP]");
	CHECK_STR(decode(s, (int64_t[]){ 8, 10, 99, -1, 11 }, 5, true),
		  "the,!");
	CHECK_EQ(rlx_tokenizer_id(t, "##aff", 5), 6);
	CHECK_EQ(rlx_tokenizer_id(t, "nope", 4), -1);
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

TEST(words_of_a_hundred_characters)
{
	struct rlx_tokenizer *t = load("[UNK]\na\n##a\n");
	struct rlx_tokenizer_scratch *s = scratch(t);
	static struct out o;
	char text[128];

	memset(text, 'a', sizeof(text));
	text[100] = 0;
	encode(s, text, NULL, &o);
	CHECK_EQ(o.enc.n, 100);
	text[100] = 'a';
	text[101] = 0;
	encode(s, text, NULL, &o);
	CHECK_EQ(o.enc.n, 1);
	CHECK_EQ(o.ids[0], 0);
	CHECK(o.spans[0].begin == 0 && o.spans[0].end == 101);
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

TEST(pairs_truncation_padding)
{
	struct rlx_tokenizer *t = load(vocab_txt);
	struct rlx_tokenizer_scratch *s = scratch(t);
	struct rlx_encode_opts o = { .pair = "a a a a a", .pair_len = 9 };
	struct rlx_error err = { 0 };
	static struct out out;

	encode(s, "the the", &o, &out);
	CHECK_STR(ids_text(out.ids, out.enc.n), "2 8 8 3 9 9 9 9 9 3");
	CHECK_STR(ids_text(out.types, out.enc.n), "0 0 0 0 1 1 1 1 1 1");
	o.max_tokens = 8;	/* the longer one gives way */
	encode(s, "the the", &o, &out);
	CHECK_STR(ids_text(out.ids, out.enc.n), "2 8 8 3 9 9 9 3");
	CHECK_EQ(out.enc.cut, 2);
	o.max_tokens = 5;	/* both do */
	check_ids(s, "the the", &o, "2 8 3 9 3");
	o.max_tokens = 4;
	check_ids(s, "the the", &o, "2 3 9 3");
	o.max_tokens = 2;
	CHECK_EQ(encode_n(s, "the", 3, &o, &out, &err), RLX_EINVAL);
	CHECK(strstr(err.text, "no room for 3 special"));
	o = (struct rlx_encode_opts){ .max_tokens = 4, .truncate_left = true };
	check_ids(s, "a the , !", &o, "2 10 11 3");
	o = (struct rlx_encode_opts){ .pad_to = 5 };
	encode(s, "a", &o, &out);
	CHECK_STR(ids_text(out.ids, out.enc.n), "2 9 3 0 0");
	CHECK_STR(ids_text(out.mask, out.enc.n), "1 1 1 0 0");
	CHECK_EQ(out.ids[5], (int64_t)0xa5a5a5a5a5a5a5a5);
	o = (struct rlx_encode_opts){ .pad_multiple = 4, .pad_left = true };
	encode(s, "a a a", &o, &out);
	CHECK_STR(ids_text(out.ids, out.enc.n), "0 0 0 2 9 9 9 3");
	CHECK_STR(ids_text(out.mask, out.enc.n), "0 0 0 1 1 1 1 1");
	o = (struct rlx_encode_opts){ .no_special = true };
	check_ids(s, "a the", &o, "9 8");
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

TEST(arrays_too_short_or_absent)
{
	struct rlx_tokenizer *t = load(vocab_txt);
	struct rlx_tokenizer_scratch *s = scratch(t);
	struct rlx_encoding e = { 0 };
	struct rlx_error err = { 0 };
	int64_t ids[4] = { 7, 7, 7, 7 };

	CHECK_EQ(rlx_tokenizer_encode(s, "a a a", 5, NULL, &e, &err), RLX_OK);
	CHECK_EQ(e.n, 5);
	e = (struct rlx_encoding){ .ids = ids, .capacity = 4 };
	CHECK_EQ(rlx_tokenizer_encode(s, "a a a", 5, NULL, &e, &err), RLX_ERANGE);
	CHECK_EQ(e.n, 5);
	CHECK(ids[0] == 7 && ids[3] == 7);
	CHECK(strstr(err.text, "5 tokens, but arrays of 4"));
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

TEST(text_that_is_not_utf8)
{
	static const char *bad[] = { "abc\xff", "\xc0\x80", "a\xed\xa0\x80",
				     "\xf5\x80\x80\x80", "\xe2\x82" };
	static const size_t at[] = { 3, 0, 1, 0, 0 };
	struct rlx_tokenizer *t = load(vocab_txt);
	struct rlx_tokenizer_scratch *s = scratch(t);
	static struct out o;
	char want[32];
	size_t i;

	for (i = 0; i < 5; i++) {
		struct rlx_error err = { 0 };

		CHECK_EQ(encode_n(s, bad[i], strlen(bad[i]), NULL, &o, &err),
			 RLX_EPARSE);
		sprintf(want, "at byte %zu", at[i]);
		CHECKF(strstr(err.text, want), "%s", err.text);
	}
	CHECK_EQ(encode_n(s, NULL, 1, NULL, &o, NULL), RLX_EINVAL);
	CHECK_EQ(encode_n(s, NULL, 0, NULL, &o, NULL), RLX_OK);
	CHECK_EQ(encode_n(s, "a\0the", 5, NULL, &o, NULL), RLX_OK);
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

/* A growing text for tokenizer.json files made here. */
struct text {
	char	*p;
	size_t	 n, cap;
};

static void __attribute__((format(printf, 2, 3)))
add(struct text *x, const char *fmt, ...)
{
	va_list ap;
	int k;

	if (x->cap - x->n < 4096) {
		x->cap = 2 * x->cap + 8192;
		x->p = realloc(x->p, x->cap);
	}
	va_start(ap, fmt);
	k = vsnprintf(x->p + x->n, 4096, fmt, ap);
	va_end(ap);
	CHECK(k >= 0 && k < 4096);
	x->n += (size_t)k;
}

/* How GPT-2 spells byte @b, as JSON. */
static void add_byte(struct text *x, unsigned int b)
{
	unsigned int cp = b, i, k = 0;

	if (!((b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae)) {
		for (i = 0; i < b; i++)
			k += !((i >= 0x21 && i <= 0x7e) ||
			       (i >= 0xa1 && i <= 0xac) || i >= 0xae);
		cp = 0x100 + k;
	}
	add(x, "\\u%04x", cp);
}

/*
 * Byte-level BPE with @n random merges: token 256 + i joins left[i] and
 * right[i], older tokens. Returns its JSON.
 */
static char *random_bpe(uint64_t *seed, uint32_t n, uint32_t *left,
			uint32_t *right, const char *pre, bool as_pairs)
{
	static uint8_t spell[2048][64];
	static uint8_t len[2048];
	struct text x = { 0 };
	uint32_t i, k, m;

	for (i = 0; i < 256; i++) {
		spell[i][0] = (uint8_t)i;
		len[i] = 1;
	}
	for (i = 0; i < n;) {
		uint64_t r = rlx_test_rand(seed);
		/* few letters, so that merges are met */
		uint32_t a = r & 1 && i ? 256 + (uint32_t)(r >> 8) % i :
			     'a' + (uint32_t)(r >> 8) % 4;
		uint32_t b = r & 2 && i ? 256 + (uint32_t)(r >> 32) % i :
			     'a' + (uint32_t)(r >> 32) % 4;

		if (len[a] + len[b] > 12)
			continue;
		memcpy(spell[256 + i], spell[a], len[a]);
		memcpy(spell[256 + i] + len[a], spell[b], len[b]);
		len[256 + i] = (uint8_t)(len[a] + len[b]);
		for (k = 256; k < 256 + i; k++)
			if (len[k] == len[256 + i] &&
			    !memcmp(spell[k], spell[256 + i], len[k]))
				break;
		if (k < 256 + i)
			continue;
		left[i] = a;
		right[i++] = b;
	}
	add(&x, "{\"pre_tokenizer\":%s,\"decoder\":{\"type\":\"ByteLevel\"},"
		"\"model\":{\"type\":\"BPE\",\"vocab\":{", pre);
	for (i = 0; i < 256 + n; i++) {
		add(&x, "%s\"", i ? "," : "");
		for (k = 0; k < len[i]; k++)
			add_byte(&x, spell[i][k]);
		add(&x, "\":%u", i);
	}
	add(&x, "},\"merges\":[");
	for (i = 0; i < n; i++) {
		add(&x, "%s%s\"", i ? "," : "", as_pairs ? "[" : "");
		for (m = 0; m < 2; m++) {
			uint32_t side = m ? right[i] : left[i];

			if (m)
				add(&x, as_pairs ? "\",\"" : " ");
			for (k = 0; k < len[side]; k++)
				add_byte(&x, spell[side][k]);
		}
		add(&x, "\"%s", as_pairs ? "]" : "");
	}
	add(&x, "]}}");
	return x.p;
}

/* The definition: merge the leftmost pair of least rank until there is none. */
static uint32_t naive_bpe(int64_t *id, uint32_t n, const uint32_t *left,
			  const uint32_t *right, uint32_t merges)
{
	uint32_t i, k, at, best;

	for (;;) {
		best = merges;
		at = 0;
		for (i = 0; i + 1 < n; i++)
			for (k = 0; k < best; k++)
				if (id[i] == left[k] && id[i + 1] == right[k]) {
					best = k;
					at = i;
				}
		if (best == merges)
			return n;
		id[at] = 256 + best;
		memmove(id + at + 1, id + at + 2, (n - at - 2) * sizeof(*id));
		n--;
	}
}

TEST(bpe_equals_naive_merging)
{
	static const char pre[] = "{\"type\":\"ByteLevel\",\"use_regex\":false,"
				  "\"add_prefix_space\":false}";
	uint64_t seed = rlx_test_seed();
	uint32_t left[200], right[200], round, i, n;
	static int64_t want[MAX];
	static struct out o;
	char text[1024];

	for (round = 0; round < 4; round++) {
		char *json = random_bpe(&seed, 200, left, right, pre, round & 1);
		struct rlx_tokenizer *t = load(json);
		struct rlx_tokenizer_scratch *s = scratch(t);
		uint32_t texts;

		free(json);
		for (texts = 0; texts < 300; texts++) {
			/* short ones come from the cache, long from the heap */
			n = (uint32_t)(rlx_test_rand(&seed) %
				       (texts % 10 ? 30 : 500));
			for (i = 0; i < n; i++) {
				text[i] = (char)('a' + rlx_test_rand(&seed) % 4);
				want[i] = text[i];
			}
			text[n] = 0;
			n = naive_bpe(want, n, left, right, 200);
			encode(s, text, NULL, &o);
			CHECKF(o.enc.n == n && !memcmp(o.ids, want, n * 8),
			       "\"%s\": %s", text, ids_text(o.ids, o.enc.n));
			for (i = 0; i + 1 < n; i++)
				CHECK_EQ(o.spans[i].end, o.spans[i + 1].begin);
			CHECK_STR(decode(s, o.ids, o.enc.n, false), text);
		}
		rlx_tokenizer_scratch_free(s);
		rlx_tokenizer_free(t);
	}
}

/* Any UTF-8 text comes back from its bytes. */
TEST(bytes_round_trip)
{
	uint64_t seed = rlx_test_seed();
	uint32_t left[50], right[50], i, n, texts;
	char *json = random_bpe(&seed, 50, left, right,
				"{\"type\":\"ByteLevel\",\"add_prefix_space\":false}",
				false);
	struct rlx_tokenizer *t = load(json);
	struct rlx_tokenizer_scratch *s = scratch(t);
	static struct out o;
	char text[300];

	for (texts = 0; texts < 1000; texts++) {
		for (i = n = 0; i < 60; i++) {
			uint64_t r = rlx_test_rand(&seed);
			uint32_t cp = r & 1 ? 'a' + (uint32_t)(r >> 8) % 4 :
				      r & 2 ? (uint32_t)(r >> 8) % 0x800 :
				      (uint32_t)(r >> 8) % 0x110000;

			if (cp && !(cp >= 0xd800 && cp < 0xe000))
				n += rlx_utf8_put((uint8_t *)text + n, cp);
		}
		text[n] = 0;
		encode(s, text, NULL, &o);
		CHECK_STR(decode(s, o.ids, o.enc.n, false), text);
	}
	/* half a character is not one */
	CHECK_STR(decode(s, (int64_t[]){ 'a', 0xe2, 0x82, 'b', 0xff }, 5, false),
		  "a\xef\xbf\xbd" "b\xef\xbf\xbd");
	free(json);
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

/* Pieces a pattern finds, joined by '|'. */
static const char *pieces(const char *pattern, const char *text)
{
	struct tk_subject x = tk_subject((const uint8_t *)text,
					 (uint32_t)strlen(text));
	struct rlx_token_span m;
	struct rlx_error err = { 0 };
	static char buf[512];
	struct tk_regex *re;
	uint32_t at = 0;
	char *p = buf;

	rlx_uc_init();
	CHECKF(!tk_regex_new(pattern, strlen(pattern), "re", &re, &err), "%s",
	       err.text);
	for (; tk_regex_find(re, &x, at, &m) == TK_FOUND; at = m.end)
		p += sprintf(p, "%s%.*s", p == buf ? "" : "|",
			     (int)(m.end - m.begin), text + m.begin);
	*p = 0;
	tk_regex_free(re);
	return buf;
}

#define GPT2	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" \
		" ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3	"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" \
		"\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|" \
		"\\s+(?!\\S)|\\s+"

TEST(patterns_that_split_text)
{
	CHECK_STR(pieces(GPT2, "I'm here, it's 1234!"),
		  "I|'m| here|,| it|'s| 1234|!");
	CHECK_STR(pieces(GPT2, "a   b\n\n c "), "a|  | b|\n\n| c| ");
	CHECK_STR(pieces(GPT2, "\xc3\xa9t\xc3\xa9\xc2\xb2 \xe4\xbd\xa0"),
		  "\xc3\xa9t\xc3\xa9|\xc2\xb2| \xe4\xbd\xa0");
	CHECK_STR(pieces(LLAMA3, "IT'S 12345\r\n\n x (yes)"),
		  "IT|'S| |123|45|\r\n\n| x| (|yes|)");
	CHECK_STR(pieces(LLAMA3, "'\xc5\xbf ok"), "'\xc5\xbf| ok");
	CHECK_STR(pieces("a{2}|b{1,2}|c{2,}", "aaabbbccc"), "aa|bb|b|ccc");
	CHECK_STR(pieces("(ab)?c|ab", "abcabc c ab"), "abc|abc|c|ab");
	CHECK_STR(pieces("[a-c]++c|x", "abcx"), "x");	/* gives nothing back */
	CHECK_STR(pieces("[a-c]+c", "abcx"), "abc");
	CHECK_STR(pieces("[^(\\s|[.,!])]+", "a b.c(d|e)"), "a|b|c|d|e");
	CHECK_STR(pieces("a(?=b)", "abaac ab"), "a|a");
	CHECK_STR(pieces("\\x{4f60}|\\x41|\\.", "A.\xe4\xbd\xa0z"),
		  "A|.|\xe4\xbd\xa0");
	CHECK_STR(pieces(".+", "ab\ncd"), "ab|cd");
	CHECK_STR(pieces("[]a]+|[a-]+", "]a-"), "]a|-");
	CHECK_STR(pieces("x*", "axxb"), "xx");	/* empty matches are none */
	CHECK_STR(pieces("\\p{Lu}\\p{Ll}*|\\P{L}+", "FooBar12"), "Foo|Bar|12");
	CHECK_STR(pieces("\\p{Han}+", "a\xe4\xbd\xa0\xe5\xa5\xbd\xe3\x81\x82"),
		  "\xe4\xbd\xa0\xe5\xa5\xbd");
}

TEST(patterns_refused)
{
	static const struct {
		const char	*pattern, *message;
		enum rlx_status	 st;
	} bad[] = {
		{ "(ab)*", "repeated group", RLX_ENOSUP },
		{ "(a|b)+c", "repeated group", RLX_ENOSUP },
		{ "a+?", "lazy", RLX_ENOSUP },
		{ "(?<=a)b", "this kind of group", RLX_ENOSUP },
		{ "^a", "this character", RLX_ENOSUP },
		{ "\\bword", "this escape", RLX_ENOSUP },
		{ "\\p{Nope}", "unknown property", RLX_ENOSUP },
		{ "[a&&b]", "intersection", RLX_ENOSUP },
		{ "[abc", "set without end", RLX_EPARSE },
		{ "(abc", "group without end", RLX_EPARSE },
		{ "abc)", "')' without '('", RLX_EPARSE },
		{ "a{3,2}", "malformed {m,n}", RLX_EPARSE },
		{ "a{", "malformed {m,n}", RLX_EPARSE },
		{ "[z-a]", "malformed range", RLX_EPARSE },
		{ "a\\", "backslash", RLX_EPARSE },
		{ "((((((((((((((((((((((((((((((a))))))))))))))))))))))))))))))",
		  "nested too deeply", RLX_ENOSUP },
		{ "(?i:\xc3\xa9)", "other than ASCII", RLX_ENOSUP },
	};
	struct tk_regex *re;
	size_t i;

	rlx_uc_init();
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct rlx_error err = { 0 };

		CHECKF(tk_regex_new(bad[i].pattern, strlen(bad[i].pattern), "f",
				    &re, &err) == bad[i].st,
		       "%s: %s", bad[i].pattern, err.text);
		CHECKF(strstr(err.text, bad[i].message), "%s: %s", bad[i].pattern,
		       err.text);
		CHECK(!re);
	}
}

/* Work is bounded by the text, whatever the pattern. */
TEST(patterns_cannot_take_for_ever)
{
	static const char pattern[] = "a*a*a*a*a*a*a*a*a*a*b";
	struct rlx_token_span m;
	struct tk_subject x;
	struct tk_regex *re;
	uint8_t text[4000];

	rlx_uc_init();
	memset(text, 'a', sizeof(text));
	CHECK_EQ(tk_regex_new(pattern, strlen(pattern), "f", &re, NULL), RLX_OK);
	x = tk_subject(text, sizeof(text));
	CHECK_EQ(tk_regex_find(re, &x, 0, &m), TK_TOO_HARD);
	tk_regex_free(re);
}

/* What a normalizer makes of a text. */
static const char *normalized(const char *norm, const char *text)
{
	static const char frame[] =
		"{\"normalizer\":%s,\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}";
	struct rlx_tokenizer_scratch *s;
	struct rlx_tokenizer *t;
	struct text x = { 0 };
	static char buf[512];
	uint32_t i;

	add(&x, frame, norm);
	t = load(x.p);
	s = scratch(t);
	for (i = 0; text[i]; i++)
		CHECK(tk_buf_put(&s->seg, text + i, 1,
				 (struct rlx_token_span){ i, i + 1 }));
	CHECK_EQ(tk_normalize(s), RLX_OK);
	CHECK(s->seg.n < sizeof(buf));
	memcpy(buf, s->seg.b, s->seg.n);
	buf[s->seg.n] = 0;
	free(x.p);
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
	return buf;
}

#define NORM(n)	"{\"type\":\"" n "\"}"

TEST(normalizers)
{
	static const char marks[] = "s\xcc\x87\xcc\xa3";	/* dot above, below */

	CHECK_STR(normalized(NORM("NFD"), "\xe1\xb9\xa9x"), "s\xcc\xa3\xcc\x87x");
	CHECK_STR(normalized(NORM("NFD"), marks), "s\xcc\xa3\xcc\x87");
	CHECK_STR(normalized(NORM("NFC"), marks), "\xe1\xb9\xa9");
	CHECK_STR(normalized(NORM("NFC"), "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8"),
		  "\xea\xb0\x81");
	CHECK_STR(normalized(NORM("NFD"), "\xea\xb0\x81"),
		  "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8");
	CHECK_STR(normalized(NORM("NFC"), "\xef\xac\x81 \xe2\x84\xab"),
		  "\xef\xac\x81 \xc3\x85");
	CHECK_STR(normalized(NORM("NFKC"), "\xef\xac\x81\xe2\x91\xa0\xc2\xbd"),
		  "fi1" "1\xe2\x81\x84" "2");
	CHECK_STR(normalized(NORM("NFKD"), "\xef\xbc\xa1\xc3\xa9"), "Ae\xcc\x81");
	CHECK_STR(normalized(NORM("Lowercase"), "\xc3\x89\xc4\xb0\xce\xa3Z"),
		  "\xc3\xa9i\xcc\x87\xcf\x83z");
	CHECK_STR(normalized(NORM("StripAccents"), "e\xcc\x81\xc3\xa9"),
		  "e\xc3\xa9");
	CHECK_STR(normalized(NORM("Strip"), " \xc2\xa0 a b \n"), "a b");
	CHECK_STR(normalized("{\"type\":\"Strip\",\"strip_left\":false}", " a "),
		  " a");
	CHECK_STR(normalized("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},"
			     "\"content\":\"_\"}", "a  b c   "), "a_b c_");
	CHECK_STR(normalized("{\"type\":\"Sequence\",\"normalizers\":["
			     "{\"type\":\"Prepend\",\"prepend\":\"_\"},"
			     "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
			     "\"content\":\"_\"}]}", "a b"), "_a_b");
	CHECK_STR(normalized("{\"type\":\"BertNormalizer\"}",
			     "\xc3\x89\xe4\xbd\xa0\x01\t!\xef\xbf\xbd"),
		  "e \xe4\xbd\xa0  !");
	CHECK_STR(normalized("{\"type\":\"BertNormalizer\",\"lowercase\":false}",
			     "\xc3\x89"), "\xc3\x89");
	CHECK_STR(normalized("{\"type\":\"BertNormalizer\",\"lowercase\":false,"
			     "\"strip_accents\":true}", "\xc3\x89"), "E");
}

/* A text of nothing but marks is ordered in linear time. */
TEST(many_marks_are_not_quadratic)
{
	struct rlx_tokenizer *t = load("{\"normalizer\":{\"type\":\"NFC\"},"
		"\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}");
	struct rlx_tokenizer_scratch *s = scratch(t);
	struct rlx_encoding e = { 0 };
	size_t n = 1 << 20, i;
	char *text = malloc(2 * n);

	for (i = 0; i < n; i++)
		memcpy(text + 2 * i, i & 1 ? "\xcc\xa3" : "\xcc\x81", 2);
	CHECK_EQ(rlx_tokenizer_encode(s, text, 2 * n, NULL, &e, NULL), RLX_OK);
	free(text);
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

static const char added_json[] =
	"{\"added_tokens\":["
	"{\"id\":10,\"content\":\"<x>\",\"special\":true,\"normalized\":false},"
	"{\"id\":11,\"content\":\"<x>y\",\"normalized\":false},"
	"{\"id\":12,\"content\":\"AbC\",\"normalized\":true},"
	"{\"id\":13,\"content\":\"<l>\",\"lstrip\":true,\"normalized\":false},"
	"{\"id\":14,\"content\":\"<r>\",\"rstrip\":true,\"normalized\":false},"
	"{\"id\":15,\"content\":\"wd\",\"single_word\":true,\"normalized\":false}],"
	"\"normalizer\":{\"type\":\"Lowercase\"},"
	"\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},"
	"\"post_processor\":{\"type\":\"TemplateProcessing\","
	"\"single\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
	"{\"SpecialToken\":{\"id\":\"E\",\"type_id\":2}}],"
	"\"pair\":[{\"Sequence\":{\"id\":\"B\",\"type_id\":1}},"
	"{\"SpecialToken\":{\"id\":\"E\",\"type_id\":2}},"
	"{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
	"\"special_tokens\":{\"E\":{\"id\":\"E\",\"ids\":[10,10],"
	"\"tokens\":[\"<x>\",\"<x>\"]}}},"
	"\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\","
	"\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"y\":3}}}";

TEST(added_tokens_and_templates)
{
	struct rlx_tokenizer *t = load(added_json);
	struct rlx_tokenizer_scratch *s = scratch(t);
	struct rlx_encode_opts plain = { .no_special = true };
	struct rlx_encode_opts pair = { .pair = "b", .pair_len = 1 };
	static struct out o;
	size_t n;

	check_ids(s, "a", NULL, "1 10 10");
	encode(s, "a a", &pair, &o);
	CHECK_STR(ids_text(o.ids, o.enc.n), "2 10 10 1 1");
	CHECK_STR(ids_text(o.types, o.enc.n), "1 2 2 0 0");
	check_ids(s, "a<x>b", &plain, "1 10 2");
	check_ids(s, "<x>y<x><x>z", &plain, "11 10 10 0");	/* longest */
	check_ids(s, "<X> abc ABC", &plain, "0 12 12");	/* normalized */
	check_ids(s, "wd awd wd. wd_", &plain, "15 0 15 0 0");
	encode(s, "a  <l> <r>  b", &plain, &o);
	CHECK_STR(ids_text(o.ids, o.enc.n), "1 13 14 2");
	CHECK(o.spans[1].begin == 1 && o.spans[1].end == 6);
	CHECK(o.spans[2].begin == 7 && o.spans[2].end == 12);
	CHECK_STR(decode(s, (int64_t[]){ 1, 10, 12 }, 3, true), "a AbC");
	CHECK_EQ(rlx_tokenizer_id(t, "AbC", 3), 12);
	CHECK(!memcmp(rlx_tokenizer_token(t, 12, &n), "AbC", 3) && n == 3);
	CHECK(!rlx_tokenizer_token(t, 9, &n));
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

static const char meta_json[] =
	"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\","
	"\"prepend_scheme\":\"always\"},"
	"\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},"
	"{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\","
	"\"prepend_scheme\":\"always\"}]},"
	"\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],"
	"[\"\\u2581\",-3],[\"a\",-2.5],[\"b\",-3.5],[\"ab\",-4],[\"aba\",-7],"
	"[\"\\u2581a\",-4.5],[\"ba\",-4.25],[\"bb\",-9],[\"<0xC3>\",-12],"
	"[\"<0xA9>\",-12]],\"byte_fallback\":%s}}";

/* Try every cut of the word into vocabulary entries. */
static double best_cut(const char *w, size_t n)
{
	static const struct { const char *s; double x; } v[] = {
		{ "\xe2\x96\x81", -3 }, { "a", -2.5 }, { "b", -3.5 },
		{ "ab", -4 }, { "aba", -7 }, { "\xe2\x96\x81" "a", -4.5 },
		{ "ba", -4.25 }, { "bb", -9 },
	};
	double best = -INFINITY, x;
	size_t i, k;

	if (!n)
		return 0;
	for (i = 0; i < sizeof(v) / sizeof(*v); i++) {
		k = strlen(v[i].s);
		if (k > n || memcmp(w, v[i].s, k))
			continue;
		x = v[i].x + best_cut(w + k, n - k);
		best = x > best ? x : best;
	}
	return best;
}

TEST(unigram_finds_the_best_cut)
{
	static const double score[] = { 0, -3, -2.5, -3.5, -4, -7, -4.5, -4.25, -9 };
	char json[1024], text[32], word[40];
	struct rlx_tokenizer_scratch *s;
	uint64_t seed = rlx_test_seed();
	struct rlx_tokenizer *t;
	static struct out o;
	uint32_t i, n, k;
	double x;

	sprintf(json, meta_json, "false");
	t = load(json);
	s = scratch(t);
	for (i = 0; i < 500; i++) {
		n = 1 + (uint32_t)(rlx_test_rand(&seed) % 12);
		for (k = 0; k < n; k++)
			text[k] = rlx_test_rand(&seed) & 1 ? 'a' : 'b';
		text[n] = 0;
		sprintf(word, "\xe2\x96\x81%s", text);
		encode(s, text, NULL, &o);
		for (k = 0, x = 0; k < o.enc.n; k++)
			x += score[o.ids[k]];
		CHECKF(x == best_cut(word, n + 3), "%s: %g, not %g", text, x,
		       best_cut(word, n + 3));
		CHECK_STR(decode(s, o.ids, o.enc.n, false), text);
	}
	check_ids(s, "\xc3\xa9\xc3\xa9 a", NULL, "1 0 6");	/* one for both */
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
	sprintf(json, meta_json, "true");
	t = load(json);
	s = scratch(t);
	check_ids(s, "\xc3\xa9 a", NULL, "1 9 10 6");
	check_ids(s, "\xc3\xa8", NULL, "1 0");
	CHECK_STR(decode(s, (int64_t[]){ 6, 9, 10, 9, 2 }, 5, false),
		  "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" "a");
	CHECK_STR(decode(s, (int64_t[]){ 6, 9, 10, 2 }, 4, false),
		  "a\xc3\xa9" "a");
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

/* A charsmap with a hand-made double array: U+0041 'A' becomes "xy". */
TEST(charsmap)
{
	/* unit 0: offset 1; 'A' at 1 ^ 0x41 = 0x40; its leaf at 0x40 ^ 1 */
	uint8_t blob[4 + 4 * 0x42 + 6] = { 0 };
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn"
				     "opqrstuvwxyz0123456789+/";
	struct text x = { 0 };
	size_t i;

	blob[0] = 4 * 0x42 & 255;
	blob[1] = 4 * 0x42 >> 8;
	blob[4 + 1] = 4;				/* 1 << 10 */
	blob[4 + 4 * 0x40] = 'A';
	blob[4 + 4 * 0x40 + 1] = 4 | 1;			/* and a leaf */
	blob[4 + 4 * 0x41] = 2;				/* value: offset 2 */
	memcpy(blob + 4 + 4 * 0x42, "q\0xy", 5);
	add(&x, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
	for (i = 0; i + 2 < sizeof(blob); i += 3) {
		uint32_t v = (uint32_t)blob[i] << 16 | blob[i + 1] << 8 |
			     blob[i + 2];

		add(&x, "%c%c%c%c", digits[v >> 18], digits[v >> 12 & 63],
		    digits[v >> 6 & 63], digits[v & 63]);
	}
	CHECK_EQ(sizeof(blob) % 3, 1);
	add(&x, "%c%c==\"}", digits[blob[i] >> 2], digits[blob[i] << 4 & 63]);
	CHECK_STR(normalized(x.p, "bAAB\xc3\xa9"), "bxyxyB\xc3\xa9");
	free(x.p);
}

static enum rlx_status try_load(const char *text, size_t n,
				struct rlx_error *err)
{
	char *copy = malloc(n ? n : 1);
	struct rlx_tokenizer *t;
	enum rlx_status st;

	memset(err, 0, sizeof(*err));
	memcpy(copy, text, n);
	st = rlx_tokenizer_new_mem(copy, n, NULL, &t, err);
	free(copy);
	CHECK(!st == !!t);
	rlx_tokenizer_free(t);
	return st;
}

#define MODEL	"\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}"

TEST(files_refused_with_a_message)
{
	static const struct {
		const char	*text, *message;
		enum rlx_status	 st;
	} bad[] = {
		{ "", "empty", RLX_EPARSE },
		{ "hello\nworld\n", "[UNK]", RLX_EPARSE },
		{ "[UNK]\n\xff\n", "line 2 is not UTF-8", RLX_EPARSE },
		{ "{}", "not a tokenizer.json", RLX_EPARSE },
		{ "{\"model\":3}", "not a tokenizer.json", RLX_EPARSE },
		{ "{\"model\":{\"type\":\"Magic\"}}", "model \"Magic\"", RLX_ENOSUP },
		{ "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[\"a b\"]}}",
		  "the vocabulary lacks", RLX_EPARSE },
		{ "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}",
		  "merge into a token", RLX_EPARSE },
		{ "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}",
		  "neither", RLX_EPARSE },
		{ "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}",
		  "\"merges\"", RLX_EPARSE },
		{ "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[],\"dropout\":0.1}}",
		  "dropout", RLX_ENOSUP },
		{ "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}",
		  "unk_token", RLX_EPARSE },
		{ "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"b\":0}}}",
		  "came before", RLX_EPARSE },
		{ "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":-1}}}",
		  "negative or too large", RLX_EPARSE },
		{ "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":99999999999}}}",
		  "negative or too large", RLX_EPARSE },
		{ "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":\"b\"}}}",
		  "no integer", RLX_EPARSE },
		{ "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1e999]]}}",
		  "score", RLX_EPARSE },
		{ "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}",
		  "score", RLX_EPARSE },
		{ "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1]],\"unk_id\":1}}",
		  "unk_id", RLX_EPARSE },
		{ "{" MODEL ",\"normalizer\":{\"type\":\"Nmt\"}}",
		  "normalizer \"Nmt\" is not supported", RLX_ENOSUP },
		{ "{" MODEL ",\"normalizer\":{}}", "without a \"type\"", RLX_EPARSE },
		{ "{" MODEL ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}",
		  "pre-tokenizer \"UnicodeScripts\"", RLX_ENOSUP },
		{ "{" MODEL ",\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
		  "other than BPE", RLX_ENOSUP },
		{ "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
		  "{\"Regex\":\"(a)*\"},\"behavior\":\"Isolated\"}}",
		  "repeated group", RLX_ENOSUP },
		{ "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
		  "{\"String\":\"a\"},\"behavior\":\"Odd\"}}", "\"Odd\"", RLX_ENOSUP },
		{ "{" MODEL ",\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":0}}",
		  "length", RLX_EPARSE },
		{ "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Metaspace\","
		  "\"replacement\":\"ab\"}}", "one character", RLX_EPARSE },
		{ "{" MODEL ",\"decoder\":{\"type\":\"CTC\"}}",
		  "decoder \"CTC\"", RLX_ENOSUP },
		{ "{" MODEL ",\"post_processor\":{\"type\":\"What\"}}",
		  "post-processor \"What\"", RLX_ENOSUP },
		{ "{" MODEL ",\"post_processor\":{\"type\":\"TemplateProcessing\","
		  "\"single\":[],\"pair\":[]}}", "a text not once", RLX_ENOSUP },
		{ "{" MODEL ",\"post_processor\":{\"type\":\"BertProcessing\","
		  "\"sep\":[\"a\",-1],\"cls\":[\"b\",2]}}", "sep", RLX_EPARSE },
		{ "{" MODEL ",\"added_tokens\":[{\"content\":\"a\"}]}",
		  "without an \"id\"", RLX_EPARSE },
		{ "{" MODEL ",\"added_tokens\":[{\"content\":\"a\",\"id\":99999999}]}",
		  "too large an id", RLX_EPARSE },
		{ "{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\","
		  "\"precompiled_charsmap\":\"////\"}}", "charsmap", RLX_EPARSE },
	};
	struct rlx_error err;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		enum rlx_status st;

		st = try_load(bad[i].text, strlen(bad[i].text), &err);
		CHECKF(st == bad[i].st, "%s: %s (%s)", bad[i].text,
		       rlx_status_name(st), err.text);
		CHECKF(strstr(err.text, bad[i].message), "%s: %s", bad[i].text,
		       err.text);
	}
	CHECK_EQ(try_load("{" MODEL "}", strlen("{" MODEL "}"), &err), RLX_OK);
}

TEST(files_by_path)
{
	struct rlx_error err = { 0 };
	struct rlx_tokenizer *t;
	char path[] = "/tmp/rlx-tokenizer-XXXXXX";
	int fd = mkstemp(path);
	FILE *f = fdopen(fd, "w");

	fputs(vocab_txt, f);
	fclose(f);
	CHECK_EQ(rlx_tokenizer_new_file(path, NULL, &t, &err), RLX_OK);
	rlx_tokenizer_free(t);
	remove(path);
	CHECK_EQ(rlx_tokenizer_new_file(path, NULL, &t, &err), RLX_ENOENT);
	CHECK(!t && strstr(err.text, path));
	CHECK_EQ(rlx_tokenizer_new_file("/", NULL, &t, NULL), RLX_EBADFD);
	CHECK_EQ(rlx_tokenizer_new_file("/dev/null", NULL, &t, NULL), RLX_EBADFD);
	CHECK_EQ(rlx_tokenizer_new_file(NULL, NULL, &t, NULL), RLX_EINVAL);
	CHECK_EQ(rlx_tokenizer_new_mem("x", 1, NULL, NULL, NULL), RLX_EINVAL);
	rlx_tokenizer_free(NULL);
	rlx_tokenizer_scratch_free(NULL);
}

TEST(every_truncation_of_a_file)
{
	struct rlx_error err;
	size_t n;

	for (n = 1; n < sizeof(added_json) - 1; n++)
		CHECKF(try_load(added_json, n, &err) == RLX_EPARSE &&
		       strstr(err.text, "byte"), "%zu: %s", n, err.text);
}

static void sweep(const char *json, const char *text)
{
	int64_t ids[160];
	char buf[256];
	uint64_t n;

	for (n = 1; n < 20000; n++) {
		struct rlx_encoding e = { .ids = ids, .capacity = 160 };
		struct rlx_decoding d = { .ids = ids, .text = buf,
					  .capacity = sizeof(buf) };
		struct rlx_tokenizer_scratch *s = NULL;
		struct rlx_error err = { 0 };
		struct rlx_tokenizer *t;
		enum rlx_status st;

		rlx_alloc_fail_nth(n);
		st = rlx_tokenizer_new_mem(json, strlen(json), NULL, &t, &err);
		if (!st)
			st = rlx_tokenizer_scratch_new(t, &s, &err);
		if (!st)
			st = rlx_tokenizer_encode(s, text, strlen(text), NULL,
						  &e, &err);
		d.n = e.n;
		if (!st)
			st = rlx_tokenizer_decode(s, &d, &err);
		rlx_alloc_fail_nth(0);
		rlx_tokenizer_scratch_free(s);
		rlx_tokenizer_free(t);
		if (!st)
			break;
		CHECKF(st == RLX_ENOMEM && err.text[0], "%s: %s",
		       rlx_status_name(st), err.text);
	}
	CHECK(n > 10 && n < 20000);
}

TEST(no_memory_anywhere)
{
	uint64_t seed = rlx_test_seed();
	uint32_t left[20], right[20];
	char json[1024], *bpe;

	sweep(vocab_txt, "the un\xc3\xa9 a\xcc\x81\xcc\xa3 \xe4\xbd\xa0");
	sweep(added_json, "a <x> b ABC y");
	sprintf(json, meta_json, "true");
	sweep(json, "ab aba \xc3\xa9");
	bpe = random_bpe(&seed, 20, left, right, "{\"type\":\"ByteLevel\"}", false);
	sweep(bpe, "abab it's 12 \xc3\xa9 aaaabbbbccccddddaaaabbbbccccddddabcdabcdabcdabcdabcd");
	free(bpe);
}

TEST(no_allocation_once_warm)
{
	struct rlx_tokenizer *t = load(vocab_txt);
	struct rlx_tokenizer_scratch *s = scratch(t);
	static const char text[] = "the un\xc3\xa9 \xe4\xbd\xa0 word [MASK]";
	static struct out o;
	uint64_t before;
	int i;

	encode(s, text, NULL, &o);
	before = rlx_alloc_count();
	for (i = 0; i < 100; i++)
		encode(s, text, NULL, &o);
	CHECK_EQ(rlx_alloc_count(), before);
	rlx_tokenizer_scratch_free(s);
	rlx_tokenizer_free(t);
}

static void *thread_main(void *arg)
{
	const struct rlx_tokenizer *t = arg;
	struct rlx_tokenizer_scratch *s = scratch(t);
	struct out *o = malloc(sizeof(*o));
	int i;

	for (i = 0; i < 300; i++) {
		encode(s, "unaffable words, a caf\xc3\xa9", NULL, o);
		CHECK_EQ(o->enc.n, 10);
		CHECK_EQ(o->ids[2], 6);
	}
	rlx_tokenizer_scratch_free(s);
	free(o);
	return NULL;
}

TEST(one_tokenizer_many_threads)
{
	struct rlx_tokenizer *t = load(vocab_txt);
	pthread_t th[4];
	int i;

	for (i = 0; i < 4; i++)
		CHECK(!pthread_create(&th[i], NULL, thread_main, t));
	for (i = 0; i < 4; i++)
		pthread_join(th[i], NULL);
	rlx_tokenizer_free(t);
}

TEST_MAIN()
