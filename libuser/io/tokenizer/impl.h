/* SPDX-License-Identifier: MIT */
/* The parts of a tokenizer, shared by the tokenizer_*.c files. */
#ifndef RLX_IO_TOKENIZER_IMPL_H
#define RLX_IO_TOKENIZER_IMPL_H

#include "base/json.h"
#include "rlx/backend.h"
#include "rlx/tokenizer.h"

enum {
	TK_TEXT_MAX	= 512 << 20,	/* bytes of one text */
	TK_VOCAB_MAX	= (1 << 24) - 1, /* ids */
	TK_NONE		= -1,
	TK_AFFIX_MAX	= 64,		/* bytes of a BPE prefix or suffix */
	/* Bytes read at a time where the rest may not be wanted; see cut.c. */
	TK_WINDOW	= 16 << 10,
	TK_WINDOW_MAX	= 64 << 10,	/* where none can be cut off sooner */
	TK_WHOLE_MAX	= 256 << 10,	/* where a text cannot be cut at all */
	/*
	 * How a text may grow on its way, in each direction: to so many times its bytes
	 * and some. U+FDFA, the longest in NFKC, grows to 11 times.
	 */
	TK_GROWTH	= 64,
	TK_GROWTH_MORE	= 64 << 10,
	/* Of what is looked for at each byte of a text: tokens of Unigram, added ones. */
	TK_SOUGHT_MAX	= 1024,
	/*
	 * Slots that a look into one of the hash tables passes. They are at most half full,
	 * and of keys that were not made for it, 16 M of them, the last lies 50 from its place.
	 */
	TK_PROBES_MAX	= 256,
	TK_PARTS_MAX	= 64,		/* normalizers; pre-tokenizers; decoders */
};

/* Bytes in the tokenizer's or another pool. */
struct tk_str {
	uint32_t	off, len;
};

/* A pool of bytes that grows. */
struct tk_pool {
	uint8_t		*b;
	uint32_t	 n, cap;
};

bool tk_pool_add(struct tk_pool *p, const void *s, size_t n,
		 struct tk_str *out);

/* id <-> spelling. Slots hold 8 bits of the hash above id + 1; 0 is empty. */
struct tk_vocab {
	struct tk_pool	 pool;
	struct tk_str	*tok;		/* by id; off UINT32_MAX: no such id */
	uint32_t	 n, cap;	/* largest id + 1; room in tok */
	uint32_t	 used;		/* slots taken */
	uint32_t	 longest;	/* bytes */
	uint32_t	*slot;
	uint32_t	 slots;		/* a power of two */
	bool		 shared;	/* the tables lie in a store */
};

#define TK_HASH0	0xcbf29ce484222325u

static inline uint64_t tk_hash_byte(uint64_t h, uint8_t b)
{
	return (h ^ b) * 0x100000001b3u;
}

static inline uint32_t tk_hash_end(uint64_t h)
{
	return (uint32_t)((h ^ h >> 32) * 0x9e3779b97f4a7c15u >> 32);
}

static inline uint64_t tk_hash(uint64_t h, const uint8_t *p, size_t n)
{
	while (n--)
		h = tk_hash_byte(h, *p++);
	return h;
}

/* @reserve: how many ids to expect. */
bool tk_vocab_init(struct tk_vocab *v, uint32_t reserve);
void tk_vocab_fini(struct tk_vocab *v);
/* Of a whole one, whose tables are to lie in @s from now on, if it can have them. */
void tk_vocab_share(struct tk_vocab *v, struct rlx_store *s);
/*
 * RLX_ENOMEM; RLX_ERANGE: @id is too large; RLX_EEXIST: one of them is taken;
 * RLX_ENOSUP: too many fall on one slot.
 */
enum rlx_status tk_vocab_add(struct tk_vocab *v, const void *s, size_t n,
			     int64_t id);
int64_t tk_vocab_get(const struct tk_vocab *v, const void *s, size_t n);
/* As tk_vocab_get() for @pre then @s; @hash is tk_hash() of both. */
int64_t tk_vocab_find(const struct tk_vocab *v, uint64_t hash,
		      const struct tk_str *pre, const uint8_t *s, size_t n);

static inline bool tk_vocab_has(const struct tk_vocab *v, int64_t id)
{
	return id >= 0 && id < v->n && v->tok[id].off != UINT32_MAX;
}

/* Byte strings to numbers, for the longest or for all that begin a text. */
struct tk_trie {
	struct tk_edge	*edge;
	uint32_t	 edges, used;	/* a power of two; taken */
	int32_t		*val;		/* by node: TK_NONE or the number */
	uint32_t	 n, cap;
	uint32_t	 first[256];	/* child of the root, 0 none */
};

struct tk_edge {
	uint32_t	from, child;	/* node << 8 | byte; 0 in child: empty */
};

/*
 * @val >= 0; a string put again keeps the first value. RLX_ENOMEM; RLX_ENOSUP: too many
 * edges fall on one slot.
 */
enum rlx_status tk_trie_put(struct tk_trie *t, const uint8_t *s, size_t n, int32_t val);
void tk_trie_fini(struct tk_trie *t);
uint32_t tk_trie_child(const struct tk_trie *t, uint32_t node, uint8_t b);

/* Working text: bytes, each with the span of the original it stands for. */
struct tk_buf {
	uint8_t			*b;
	struct rlx_token_span	*map;
	uint32_t		 n, cap;
	uint32_t		 most;	/* bytes it may grow to; 0: as there is memory */
	bool			 over;	/* it was to grow further than that */
};

/* What is made of a text of @n bytes from here on has a bound; none is over it. */
void tk_bound_growth(struct rlx_tokenizer_scratch *s, uint32_t n);
/* Was that bound the reason why there was no memory? */
bool tk_grew_over(const struct rlx_tokenizer_scratch *s);

bool tk_buf_reserve(struct tk_buf *b, size_t more);
bool tk_buf_put(struct tk_buf *b, const void *s, uint32_t n,
		struct rlx_token_span span);
bool tk_buf_put_cp(struct tk_buf *b, uint32_t cp, struct rlx_token_span span);
/* Append bytes [begin, end) of @from with their spans. */
bool tk_buf_copy(struct tk_buf *b, const struct tk_buf *from, uint32_t begin,
		 uint32_t end);

/* A stretch of working text, or an added token that stands for it. */
struct tk_piece {
	uint32_t	begin, end;
	int32_t		id;	/* TK_NONE: text */
};

struct tk_pieces {
	struct tk_piece	*v;
	uint32_t	 n, cap;
};

bool tk_piece_add(struct tk_pieces *p, uint32_t begin, uint32_t end, int32_t id);

struct tk_token {
	uint32_t		id;
	struct rlx_token_span	span;
};

struct tk_tokens {
	struct tk_token	*v;
	uint32_t	 n, cap;
};

bool tk_token_add(struct tk_tokens *p, uint32_t id, struct rlx_token_span span);

/* A regular expression; see regex_parse.c for what is understood. */
struct tk_regex;

enum rlx_status tk_regex_new(const char *pat, size_t len, const char *name,
			     struct tk_regex **out, struct rlx_error *err);
void tk_regex_free(struct tk_regex *re);

enum tk_found { TK_FOUND, TK_NOT_FOUND, TK_TOO_HARD };

/*
 * Text to search, valid UTF-8. @steps bounds the work over all searches in it, and in
 * the other pieces of one text, so that no pattern makes it cost more than linear time.
 */
struct tk_subject {
	const uint8_t	*s;
	uint32_t	 n;
	uint64_t	 steps;
};

/* Of a text of @n bytes. */
static inline uint64_t tk_steps(uint64_t n)
{
	return 65536 + 1024 * n;
}

static inline struct tk_subject tk_subject(const uint8_t *s, uint32_t n)
{
	return (struct tk_subject){ s, n, tk_steps(n) };
}

/* The leftmost match that begins in [from, n); it is not empty. */
enum tk_found tk_regex_find(const struct tk_regex *re, struct tk_subject *x,
			    uint32_t from, struct rlx_token_span *out);

/* What a Split or Replace looks for: a literal or a regular expression. */
struct tk_pattern {
	struct tk_str	 lit;	/* in the tokenizer's text pool */
	struct tk_regex	*re;	/* NULL: the literal */
};

enum tk_norm_kind {
	TK_NORM_BERT, TK_NORM_NFC, TK_NORM_NFD, TK_NORM_NFKC, TK_NORM_NFKD,
	TK_NORM_LOWER, TK_NORM_ACCENTS, TK_NORM_STRIP, TK_NORM_REPLACE,
	TK_NORM_PREPEND, TK_NORM_CHARSMAP,
};

struct tk_norm {
	enum tk_norm_kind	kind;
	bool			clean, cjk, accents, lower;	/* BERT */
	bool			left, right;			/* STRIP */
	struct tk_pattern	pat;				/* REPLACE */
	struct tk_str		text;	/* REPLACE by, PREPEND, CHARSMAP */
};

enum tk_pre_kind {
	TK_PRE_BERT, TK_PRE_WORDS, TK_PRE_SPACES, TK_PRE_PUNCT, TK_PRE_DIGITS,
	TK_PRE_SPLIT, TK_PRE_BYTES, TK_PRE_META, TK_PRE_CHAR, TK_PRE_FIXED,
};

enum tk_behavior {
	TK_REMOVED, TK_ISOLATED, TK_MERGE_PREV, TK_MERGE_NEXT, TK_CONTIGUOUS,
};

enum tk_scheme { TK_ALWAYS, TK_FIRST, TK_NEVER };

struct tk_pre {
	enum tk_pre_kind	kind;
	enum tk_behavior	behavior;
	enum tk_scheme		scheme;		/* META */
	bool			invert, prefix;
	bool			split;	/* false: only rewrites */
	uint32_t		cp, length;	/* META, CHAR; FIXED */
	struct tk_pattern	pat;
};

enum tk_dec_kind {
	TK_DEC_BYTES, TK_DEC_WORDPIECE, TK_DEC_META, TK_DEC_REPLACE,
	TK_DEC_FALLBACK, TK_DEC_FUSE, TK_DEC_STRIP, TK_DEC_BPE,
};

struct tk_dec {
	enum tk_dec_kind	kind;
	enum tk_scheme		scheme;
	bool			cleanup;
	uint32_t		start, stop;	/* STRIP */
	struct tk_pattern	pat;		/* REPLACE */
	struct tk_str		text;	/* prefix, suffix, by, what to strip */
};

/* One item of what the post-processor builds. */
struct tk_item {
	int32_t		id;	/* a special token, else -1: text A, -2: text B */
	uint32_t	type;
};

enum { TK_ITEM_A = -1, TK_ITEM_B = -2 };

struct tk_template {
	struct tk_item	*v;
	uint32_t	 n, cap, special;	/* how many are special tokens */
};

struct tk_added {
	struct tk_str	text;	/* in the pool of texts */
	int32_t		id;
	bool		special, single_word, lstrip, rstrip, normalized;
};

struct tk_merge {
	uint32_t	a, b, rank, id;	/* id UINT32_MAX: empty slot */
};

static inline uint32_t tk_merge_slot(uint32_t a, uint32_t b)
{
	return (uint32_t)(((uint64_t)a << 32 | b) * 0x9e3779b97f4a7c15u >> 32);
}

enum tk_model { TK_WORDPIECE, TK_BPE, TK_UNIGRAM, TK_WORDLEVEL };

struct rlx_tokenizer {
	enum tk_model	 model;
	struct tk_vocab	 vocab;		/* of the model */
	struct tk_vocab	 raw;		/* byte-level BPE: the bytes spelled */
	struct tk_pool	 text;		/* texts of all components */
	int64_t		 unk, pad;
	uint32_t	 max_tokens, pad_to;	/* what the file asks for */
	uint32_t	 ids;		/* largest id of all + 1 */

	struct tk_str	 prefix, suffix;	/* WordPiece, BPE */
	uint64_t	 prefix_hash;
	uint32_t	 max_chars;		/* WordPiece */
	bool		 fuse_unk, byte_fallback, ignore_merges, byte_level;
	int32_t		 byte_id[256];	/* <0xNN>, or one-byte tokens of raw */
	struct tk_merge	*merge;
	uint32_t	 merges;	/* slots, a power of two */

	double		*score;		/* Unigram, by id */
	double		 min_score;
	struct tk_trie	 trie;		/* Unigram */

	struct tk_added	*added;
	uint32_t	 n_added, cap_added;
	uint32_t	*by_id;		/* from id_from on: index into added[] + 1, or 0 */
	uint32_t	 id_from, id_span;
	struct tk_trie	 added_raw, added_norm;	/* to indices of added[] */

	struct tk_norm	*norm;
	struct tk_pre	*pre;
	struct tk_dec	*dec;
	uint32_t	 n_norm, cap_norm, n_pre, cap_pre, n_dec, cap_dec;
	bool		 no_decoder;	/* then tokens are joined by spaces */

	struct tk_template single, pair;
	unsigned int	 cuts;			/* where texts can be cut; 0: nowhere */
	bool		 trim, trim_prefix;	/* ByteLevel offsets */
	bool		 type_zero;	/* Roberta: all tokens are type 0 */
};

/* A code point on its way through normalization. */
struct tk_cp {
	uint32_t		cp, ccc;
	int32_t			more;	/* characters it adds to the text */
	struct rlx_token_span	span;
};

/* A symbol of a word while BPE merges it. */
struct tk_sym {
	uint32_t	id, begin, end;
	uint32_t	prev, next;	/* UINT32_MAX: none */
	uint32_t	rank, into;	/* of the pair with next */
};

struct tk_heap_item {
	uint32_t	rank, pos;
};

struct tk_best {			/* Unigram: best path to a byte */
	double		score;
	uint32_t	from;
	int32_t		id;
};

/* BPE words seen before: a direct-mapped cache, most words take one slot. */
enum { TK_CACHE_KEY = 23, TK_CACHE_IDS = 8, TK_CACHE_SLOTS = 4096 };

struct tk_cached {
	uint8_t		key_len, n;
	uint8_t		key[TK_CACHE_KEY];
	uint8_t		end[TK_CACHE_IDS];	/* of each token in the word */
	uint32_t	id[TK_CACHE_IDS];
};

struct rlx_tokenizer_scratch {
	const struct rlx_tokenizer *t;
	uint32_t		 window, window_max, whole_max;
	struct tk_buf		 text, seg, tmp;
	uint64_t		 steps;		/* left for this text: tk_steps() */
	struct tk_pieces	 pieces, pieces2, found;
	struct tk_tokens	 tokens, pair;
	struct tk_cp		*cps, *cps2;
	uint32_t		 cap_cps, cap_cps2, n_cps;
	struct tk_sym		*sym;
	uint32_t		 cap_sym;
	struct tk_heap_item	*heap;
	uint32_t		 cap_heap, n_heap;
	struct tk_best		*best;
	uint32_t		 cap_best;
	struct tk_cached	*cache;		/* BPE; NULL otherwise */
};

static inline const uint8_t *tk_text(const struct rlx_tokenizer *t,
				     struct tk_str s)
{
	return t->text.b + s.off;
}

/*
 * Loading. A loader reads one component from its JSON node; ENOSUP names what
 * is not there.
 */
struct tk_load {
	struct rlx_tokenizer	*t;
	const struct rlx_json	*j;
	struct rlx_error	*err;
};

enum rlx_status tk_load_json(struct rlx_tokenizer *t, const char *text,
			     size_t len, const char *name,
			     struct rlx_error *err);
enum rlx_status tk_load_vocab_txt(struct rlx_tokenizer *t, const char *text,
				  size_t len, const char *name,
				  const struct rlx_tokenizer_opts *opts,
				  struct rlx_error *err);
enum rlx_status tk_load_norm(struct tk_load *l, uint32_t i);
enum rlx_status tk_load_charsmap(struct tk_load *l, uint32_t i, void *norm);
enum rlx_status tk_load_pre(struct tk_load *l, uint32_t i);
enum rlx_status tk_load_post(struct tk_load *l, uint32_t i);
enum rlx_status tk_load_dec(struct tk_load *l, uint32_t i);
enum rlx_status tk_load_model(struct tk_load *l, uint32_t i);
/* What needs the whole file: tries, byte-level spellings, merges. */
enum rlx_status tk_load_merges(struct tk_load *l, uint32_t model);
enum rlx_status tk_add_template(struct rlx_tokenizer *t, struct tk_template *m,
				int32_t id, uint32_t type);

/* Helpers for the loaders; errors name file, byte and key. */
enum rlx_status tk_bad(struct tk_load *l, uint32_t i, const char *what);
enum rlx_status tk_nomem(struct tk_load *l);
/* RLX_ENOSUP of a table, of what stands at @i, or RLX_ENOMEM. */
enum rlx_status tk_no_room(struct tk_load *l, uint32_t i, enum rlx_status st);
enum rlx_status tk_no_such(struct tk_load *l, uint32_t i, const char *what);
/* The string "type" of component @i, or NULL having failed. */
const char *tk_type(struct tk_load *l, uint32_t i, const char *what);
enum rlx_status tk_get_bool(struct tk_load *l, uint32_t i, const char *key,
			    bool dflt, bool *out);
enum rlx_status tk_get_u32(struct tk_load *l, uint32_t i, const char *key,
			   uint32_t dflt, uint32_t *out);
/* A string member into the text pool; absent or null: @dflt, NULL refuses. */
enum rlx_status tk_get_text(struct tk_load *l, uint32_t i, const char *key,
			    const char *dflt, struct tk_str *out);
enum rlx_status tk_get_pattern(struct tk_load *l, uint32_t i, const char *key,
			       struct tk_pattern *out);
/* Walk a component or, of type Sequence, the members of its @key. */
enum rlx_status tk_each(struct tk_load *l, uint32_t i, const char *key,
			enum rlx_status (*one)(struct tk_load *l, uint32_t i));

/* The bytes a byte-level token spells; false if it has other characters. */
bool tk_unbyte(const uint8_t *s, size_t n, uint8_t *out, size_t *out_n);

/*
 * Running: RLX_ENOMEM, or RLX_ENOSUP if a pattern is too hard for the text. With @stop,
 * no more of it is read once there are more tokens than that; RLX_ERANGE if that would
 * take too much of it at a time.
 */
enum rlx_status tk_tokenize(struct rlx_tokenizer_scratch *s, const char *text,
			    size_t len, uint32_t stop, struct rlx_error *err);
/* Where texts can be cut, of a whole tokenizer. */
unsigned int tk_cuts(const struct rlx_tokenizer *t);
/* Where the window of b[begin, end) ends that begins there; 0: nowhere near. */
uint32_t tk_cut(const struct rlx_tokenizer_scratch *s, const uint8_t *b, uint32_t begin,
		uint32_t end);
const struct tk_added *tk_added_by_id(const struct rlx_tokenizer *t, int64_t id);
enum rlx_status tk_normalize(struct rlx_tokenizer_scratch *s);	/* s->seg */
bool tk_charsmap(struct rlx_tokenizer_scratch *s, const struct tk_norm *op,
		 struct tk_buf *out);
enum rlx_status tk_pretokenize(struct rlx_tokenizer_scratch *s);
enum rlx_status tk_wordpiece(struct rlx_tokenizer_scratch *s, uint32_t begin,
			     uint32_t end);
enum rlx_status tk_bpe(struct rlx_tokenizer_scratch *s, uint32_t begin,
		       uint32_t end);
enum rlx_status tk_unigram(struct rlx_tokenizer_scratch *s, uint32_t begin,
			   uint32_t end);
/* The next match of @pat that begins in [from, n) of @x. */
enum tk_found tk_pattern_find(const struct rlx_tokenizer *t,
			      const struct tk_pattern *pat,
			      struct tk_subject *x, uint32_t from,
			      struct rlx_token_span *out);
/* The span of the original that bytes [begin, end) of @b stand for. */
static inline struct rlx_token_span tk_span(const struct tk_buf *b,
					    uint32_t begin, uint32_t end)
{
	return (struct rlx_token_span){ b->map[begin].begin, b->map[end - 1].end };
}

#endif
