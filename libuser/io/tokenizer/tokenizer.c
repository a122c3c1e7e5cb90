// SPDX-License-Identifier: MIT
/* The tokenizer's public calls, and the way from a text to its tokens. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/formats/file.h"
#include "io/tokenizer/impl.h"
#include "io/tokenizer/share.h"
#include "io/tokenizer/utf8.h"

enum { FILE_MAX_BYTES = 1 << 30 };

static enum rlx_status load(const char *text, size_t len, const char *name,
			    const struct rlx_tokenizer_opts *opts,
			    struct rlx_tokenizer **out_t, struct rlx_error *err)
{
	static const struct rlx_tokenizer_opts none;
	struct rlx_tokenizer *t;
	enum rlx_status st;
	size_t i = 0;

	*out_t = NULL;
	if (len > FILE_MAX_BYTES)
		return rlx_fail(err, RLX_ERANGE, "%s: %zu bytes, at most %d",
				name, len, FILE_MAX_BYTES);
	rlx_uc_init();
	t = rlx_calloc(1, sizeof(*t));
	if (!t)
		return rlx_fail(err, RLX_ENOMEM, "%s: no memory", name);
	t->unk = t->pad = -1;
	while (i < len && strchr(" \t\r\n", text[i]))
		i++;
	if (i < len && text[i] == '{')
		st = tk_load_json(t, text, len, name, err);
	else
		st = tk_load_vocab_txt(t, text, len, name, opts ? opts : &none,
				       err);
	if (st) {
		rlx_tokenizer_free(t);
		return st;
	}
	t->cuts = tk_cuts(t);
	*out_t = t;
	return RLX_OK;
}

static enum rlx_status read_all(int fd, char *buf, size_t len, const char *path,
				struct rlx_error *err)
{
	size_t got = 0;
	ssize_t n;

	while (got < len) {
		n = read(fd, buf + got, len - got);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return rlx_fail(err, RLX_EIO, "%s: read at byte %zu: %s",
					path, got,
					n ? strerror(errno) : "file ends early");
		got += (size_t)n;
	}
	return RLX_OK;
}

enum rlx_status rlx_tokenizer_new_file(const char *path,
				       const struct rlx_tokenizer_opts *opts,
				       struct rlx_tokenizer **out_t,
				       struct rlx_error *err)
{
	enum rlx_status st;
	struct stat sb;
	char *buf;
	int fd;

	if (!out_t)
		return rlx_fail(err, RLX_EINVAL, "tokenizer: out_t is NULL");
	*out_t = NULL;
	if (!path)
		return rlx_fail(err, RLX_EINVAL, "tokenizer: path is NULL");
	st = rlx_file_open(path, &fd, &sb, err);
	if (st)
		return st;
	if (sb.st_size > FILE_MAX_BYTES) {
		st = rlx_fail(err, RLX_ERANGE, "%s: %lld bytes, at most %d",
			      path, (long long)sb.st_size, FILE_MAX_BYTES);
		goto out_close;
	}
	buf = rlx_malloc((size_t)sb.st_size + 1);
	if (!buf) {
		st = rlx_fail(err, RLX_ENOMEM, "%s: no memory for %lld bytes",
			      path, (long long)sb.st_size);
		goto out_close;
	}
	st = read_all(fd, buf, (size_t)sb.st_size, path, err);
	if (!st)
		st = load(buf, (size_t)sb.st_size, path, opts, out_t, err);
	rlx_free(buf);
out_close:
	close(fd);
	return st;
}

enum rlx_status rlx_tokenizer_new_mem(const void *data, size_t len,
				      const struct rlx_tokenizer_opts *opts,
				      struct rlx_tokenizer **out_t,
				      struct rlx_error *err)
{
	if (!out_t)
		return rlx_fail(err, RLX_EINVAL, "tokenizer: out_t is NULL");
	*out_t = NULL;
	if (!data && len)
		return rlx_fail(err, RLX_EINVAL, "tokenizer: data is NULL");
	return load(data ? data : "", len, "tokenizer in memory", opts, out_t,
		    err);
}

void rlx_tokenizer_free(struct rlx_tokenizer *t)
{
	uint32_t i;

	if (!t)
		return;
	for (i = 0; i < t->n_norm; i++)
		tk_regex_free(t->norm[i].pat.re);
	for (i = 0; i < t->n_pre; i++)
		tk_regex_free(t->pre[i].pat.re);
	for (i = 0; i < t->n_dec; i++)
		tk_regex_free(t->dec[i].pat.re);
	rlx_free(t->norm);
	rlx_free(t->pre);
	rlx_free(t->dec);
	tk_vocab_fini(&t->vocab);
	tk_vocab_fini(&t->raw);
	tk_trie_fini(&t->trie);
	tk_trie_fini(&t->added_raw);
	tk_trie_fini(&t->added_norm);
	rlx_free(t->text.b);
	rlx_free(t->merge);
	rlx_free(t->score);
	rlx_free(t->added);
	rlx_free(t->by_id);
	rlx_free(t->single.v);
	rlx_free(t->pair.v);
	rlx_free(t);
}

void rlx_tokenizer_share(struct rlx_tokenizer *t, struct rlx_store *s)
{
	tk_vocab_share(&t->vocab, s);
}

void rlx_tokenizer_info(const struct rlx_tokenizer *t,
			struct rlx_tokenizer_info *out_info)
{
	static const char *const names[] = {
		[TK_WORDPIECE] = "WordPiece", [TK_BPE] = "BPE",
		[TK_UNIGRAM] = "Unigram", [TK_WORDLEVEL] = "WordLevel",
	};

	if (!out_info)
		return;
	*out_info = (struct rlx_tokenizer_info){ 0 };
	if (!t)
		return;
	*out_info = (struct rlx_tokenizer_info){
		.model = names[t->model],
		.vocab_size = t->ids,
		.unk_id = t->unk,
		.pad_id = t->pad,
		.max_tokens = t->max_tokens,
		.pad_to = t->pad_to,
	};
}

const struct tk_added *tk_added_by_id(const struct rlx_tokenizer *t, int64_t id)
{
	uint64_t i = (uint64_t)id - t->id_from;

	return i < t->id_span && t->by_id[i] ? &t->added[t->by_id[i] - 1] : NULL;
}

int64_t rlx_tokenizer_id(const struct rlx_tokenizer *t, const char *text,
			 size_t len)
{
	uint32_t i;

	if (!t || (!text && len))
		return -1;
	for (i = 0; i < t->n_added; i++)
		if (t->added[i].text.len == len &&
		    !memcmp(tk_text(t, t->added[i].text), text, len))
			return t->added[i].id;
	return tk_vocab_get(&t->vocab, text, len);
}

const char *rlx_tokenizer_token(const struct rlx_tokenizer *t, int64_t id,
				size_t *out_len)
{
	const struct tk_added *a;

	if (!t)
		return NULL;
	a = tk_added_by_id(t, id);
	if (a) {
		*out_len = a->text.len;
		return (const char *)tk_text(t, a->text);
	}
	if (!tk_vocab_has(&t->vocab, id))
		return NULL;
	*out_len = t->vocab.tok[id].len;
	return (const char *)t->vocab.pool.b + t->vocab.tok[id].off;
}

enum rlx_status rlx_tokenizer_scratch_new(const struct rlx_tokenizer *t,
					  struct rlx_tokenizer_scratch **out_s,
					  struct rlx_error *err)
{
	struct rlx_tokenizer_scratch *s;

	if (!out_s)
		return rlx_fail(err, RLX_EINVAL, "tokenizer: out_s is NULL");
	*out_s = NULL;
	if (!t)
		return rlx_fail(err, RLX_EINVAL, "tokenizer: no tokenizer");
	s = rlx_calloc(1, sizeof(*s));
	if (!s)
		return rlx_fail(err, RLX_ENOMEM, "tokenizer: no memory");
	s->t = t;
	s->window = TK_WINDOW;
	s->window_max = TK_WINDOW_MAX;
	s->whole_max = TK_WHOLE_MAX;
	s->steps = UINT64_MAX;
	if (t->model == TK_BPE)
		s->cache = rlx_calloc(TK_CACHE_SLOTS, sizeof(*s->cache));
	/* so that the working text is never NULL, even when it is empty */
	if ((t->model == TK_BPE && !s->cache) || !tk_buf_reserve(&s->text, 64) ||
	    !tk_buf_reserve(&s->seg, 64) || !tk_buf_reserve(&s->tmp, 64)) {
		rlx_tokenizer_scratch_free(s);
		return rlx_fail(err, RLX_ENOMEM, "tokenizer: no memory");
	}
	*out_s = s;
	return RLX_OK;
}

static void buf_fini(struct tk_buf *b)
{
	rlx_free(b->b);
	rlx_free(b->map);
}

void rlx_tokenizer_scratch_free(struct rlx_tokenizer_scratch *s)
{
	if (!s)
		return;
	buf_fini(&s->text);
	buf_fini(&s->seg);
	buf_fini(&s->tmp);
	rlx_free(s->pieces.v);
	rlx_free(s->pieces2.v);
	rlx_free(s->tokens.v);
	rlx_free(s->pair.v);
	rlx_free(s->cps);
	rlx_free(s->cps2);
	rlx_free(s->sym);
	rlx_free(s->heap);
	rlx_free(s->best);
	rlx_free(s->cache);
	rlx_free(s);
}

size_t rlx_tokenizer_scratch_bytes(const struct rlx_tokenizer_scratch *s)
{
	const size_t byte = 1 + sizeof(*s->text.map);

	return ((size_t)s->text.cap + s->seg.cap + s->tmp.cap) * byte +
	       ((size_t)s->pieces.cap + s->pieces2.cap + s->found.cap) * sizeof(*s->pieces.v) +
	       ((size_t)s->tokens.cap + s->pair.cap) * sizeof(*s->tokens.v) +
	       ((size_t)s->cap_cps + s->cap_cps2) * sizeof(*s->cps) +
	       s->cap_sym * sizeof(*s->sym) + s->cap_heap * sizeof(*s->heap) +
	       s->cap_best * sizeof(*s->best);
}

/* A search for added tokens; a match is [begin, end) and @index. */
struct scan {
	const struct rlx_tokenizer	*t;
	const struct tk_trie		*trie;
	const uint8_t			*b;
	uint32_t			 n, pos;	/* where to go on */
	uint32_t			 begin, end, index;
};

static bool word_before(const uint8_t *b, uint32_t i)
{
	uint32_t cp;

	if (!i)
		return false;
	for (i--; (b[i] & 0xc0) == 0x80; i--)
		;
	rlx_utf8_next(b + i, &cp);
	return rlx_uc_is_word(cp);
}

static bool word_behind(const uint8_t *b, uint32_t n, uint32_t i)
{
	uint32_t cp;

	if (i == n)
		return false;
	rlx_utf8_next(b + i, &cp);
	return rlx_uc_is_word(cp);
}

/* Widen the match over the spaces its token takes along; not before @from. */
static void take_spaces(struct scan *c, const struct tk_added *a, uint32_t from)
{
	uint32_t i, cp;

	while (a->lstrip && c->begin > from) {
		for (i = c->begin - 1; (c->b[i] & 0xc0) == 0x80; i--)
			;
		rlx_utf8_next(c->b + i, &cp);
		if (!rlx_uc_is_space(cp))
			break;
		c->begin = i;
	}
	while (a->rstrip && c->end < c->n) {
		i = rlx_utf8_next(c->b + c->end, &cp);
		if (!rlx_uc_is_space(cp))
			break;
		c->end += i;
	}
}

/* Leftmost, then longest; what single_word refuses is passed over whole. */
static bool scan_next(struct scan *c)
{
	uint32_t from = c->pos, i = c->pos, k, node;
	const struct tk_added *a;
	int32_t best;

	if (!c->trie->n)
		return false;
	while (i < c->n) {
		if (!c->trie->first[c->b[i]]) {
			i++;
			continue;
		}
		best = TK_NONE;
		node = 0;
		for (k = i; k < c->n; k++) {
			node = tk_trie_child(c->trie, node, c->b[k]);
			if (!node)
				break;
			if (c->trie->val[node] != TK_NONE) {
				best = c->trie->val[node];
				c->end = k + 1;
			}
		}
		if (best == TK_NONE) {
			i++;
			continue;
		}
		a = &c->t->added[best];
		c->begin = i;
		c->index = (uint32_t)best;
		i = c->end;
		if (a->single_word && (word_before(c->b, c->begin) ||
				       word_behind(c->b, c->n, c->end)))
			continue;
		take_spaces(c, a, from);
		c->pos = c->end;
		return true;
	}
	return false;
}

static enum rlx_status add_text(struct rlx_tokenizer_scratch *s, uint32_t begin,
				uint32_t end, int32_t id)
{
	uint32_t at = s->text.n;

	if (begin == end)
		return RLX_OK;
	if (!tk_buf_copy(&s->text, &s->seg, begin, end) ||
	    !tk_piece_add(&s->pieces, at, s->text.n, id))
		return RLX_ENOMEM;
	return RLX_OK;
}

/* Load @n bytes that begin at byte @off of the text into s->seg as they are. */
static enum rlx_status set_segment(struct rlx_tokenizer_scratch *s,
				   const uint8_t *p, uint32_t n, uint32_t off)
{
	uint32_t i, k, e;

	s->seg.n = 0;
	if (!tk_buf_reserve(&s->seg, n))
		return RLX_ENOMEM;
	memcpy(s->seg.b, p, n);
	for (i = 0; i < n; i = e) {
		e = i + rlx_utf8_len(p[i]);
		for (k = i; k < e; k++)
			s->seg.map[k] = (struct rlx_token_span){ off + i,
								 off + e };
	}
	s->seg.n = n;
	return RLX_OK;
}

/* Normalize a stretch without verbatim added tokens, and find the others. */
static enum rlx_status add_segment(struct rlx_tokenizer_scratch *s,
				   const uint8_t *b, uint32_t begin, uint32_t end)
{
	struct scan c = { .t = s->t, .trie = &s->t->added_norm };
	enum rlx_status st;
	uint32_t at = 0;

	if (begin == end)
		return RLX_OK;
	st = set_segment(s, b + begin, end - begin, begin);
	if (!st)
		st = tk_normalize(s);
	c.b = s->seg.b;
	c.n = s->seg.n;
	while (!st && scan_next(&c)) {
		st = add_text(s, at, c.begin, TK_NONE);
		if (!st)
			st = add_text(s, c.begin, c.end, s->t->added[c.index].id);
		at = c.end;
	}
	return st ? st : add_text(s, at, s->seg.n, TK_NONE);
}

static enum rlx_status find_pieces(struct rlx_tokenizer_scratch *s,
				   const uint8_t *b, uint32_t n)
{
	struct scan c = { .t = s->t, .trie = &s->t->added_raw, .b = b, .n = n };
	enum rlx_status st = RLX_OK;
	uint32_t at = 0;

	s->text.n = 0;
	s->pieces.n = 0;
	while (!st && scan_next(&c)) {
		st = add_segment(s, b, at, c.begin);
		if (!st)
			st = set_segment(s, b + c.begin, c.end - c.begin, c.begin);
		if (!st)
			st = add_text(s, 0, s->seg.n, s->t->added[c.index].id);
		at = c.end;
	}
	return st ? st : add_segment(s, b, at, n);
}

static enum rlx_status run_model(struct rlx_tokenizer_scratch *s)
{
	enum rlx_status st = RLX_OK;
	uint32_t i;

	for (i = 0; i < s->pieces.n && !st; i++) {
		struct tk_piece p = s->pieces.v[i];

		if (p.id != TK_NONE)
			st = tk_token_add(&s->tokens, (uint32_t)p.id,
					  tk_span(&s->text, p.begin, p.end)) ?
			     RLX_OK : RLX_ENOMEM;
		else if (s->t->model == TK_BPE)
			st = tk_bpe(s, p.begin, p.end);
		else if (s->t->model == TK_UNIGRAM)
			st = tk_unigram(s, p.begin, p.end);
		else
			st = tk_wordpiece(s, p.begin, p.end);
	}
	return st;
}

static enum rlx_status read_whole(struct rlx_tokenizer_scratch *s, const uint8_t *b,
				  uint32_t n)
{
	enum rlx_status st;

	tk_bound_growth(s, n);
	st = find_pieces(s, b, n);
	if (!st)
		st = tk_pretokenize(s);
	return st ? st : run_model(s);
}

/* A stretch without verbatim added tokens, until there are more than @stop. */
static enum rlx_status read_windows(struct rlx_tokenizer_scratch *s, const uint8_t *b,
				    uint32_t begin, uint32_t end, uint32_t stop,
				    struct rlx_error *err)
{
	enum rlx_status st = RLX_OK;
	uint32_t cut;

	for (; !st && begin < end && s->tokens.n <= stop; begin = cut) {
		cut = tk_cut(s, b, begin, end);
		if (!cut)
			return rlx_fail(err, RLX_ERANGE, "tokenizer: the text cannot be cut "
					"within %u bytes from byte %u on; shorten it, or put "
					"spaces into it", s->t->cuts ? s->window_max :
					s->whole_max, begin);
		s->text.n = 0;
		s->pieces.n = 0;
		tk_bound_growth(s, cut - begin);
		st = add_segment(s, b, begin, cut);
		if (!st)
			st = tk_pretokenize(s);
		if (!st)
			st = run_model(s);
	}
	return st;
}

/* As read_whole(), but no more than it takes for more tokens than @stop. */
static enum rlx_status read_some(struct rlx_tokenizer_scratch *s, const uint8_t *b,
				 uint32_t n, uint32_t stop, struct rlx_error *err)
{
	struct scan c = { .t = s->t, .trie = &s->t->added_raw, .b = b, .n = n };
	enum rlx_status st = RLX_OK;
	uint32_t at = 0;

	while (!st && s->tokens.n <= stop && scan_next(&c)) {
		st = read_windows(s, b, at, c.begin, stop, err);
		if (!st && !tk_token_add(&s->tokens, (uint32_t)s->t->added[c.index].id,
					 (struct rlx_token_span){ c.begin, c.end }))
			st = RLX_ENOMEM;
		at = c.end;
	}
	return st ? st : read_windows(s, b, at, n, stop, err);
}

/* The tokens of one text into s->tokens, before special ones are added. */
enum rlx_status tk_tokenize(struct rlx_tokenizer_scratch *s, const char *text,
			    size_t len, uint32_t stop, struct rlx_error *err)
{
	const uint8_t *b = (const uint8_t *)text;
	enum rlx_status st;
	size_t bad;

	if (len > TK_TEXT_MAX)
		return rlx_fail(err, RLX_ERANGE,
				"tokenizer: text of %zu bytes, at most %d", len,
				TK_TEXT_MAX);
	if (!text && len)
		return rlx_fail(err, RLX_EINVAL, "tokenizer: text is NULL");
	bad = rlx_utf8_check(b, len);
	if (bad < len)
		return rlx_fail(err, RLX_EPARSE,
				"tokenizer: text is not UTF-8 at byte %zu", bad);
	s->tokens.n = 0;
	s->steps = tk_steps(len);
	st = !len ? RLX_OK : stop ? read_some(s, b, (uint32_t)len, stop, err) :
				    read_whole(s, b, (uint32_t)len);
	if (st == RLX_ERANGE)
		return st;
	if (st == RLX_ENOMEM && tk_grew_over(s))
		return rlx_fail(err, RLX_ENOSUP, "tokenizer: normalizing or pre-tokenizing makes "
				"over %d times its bytes of a text", TK_GROWTH);
	if (st == RLX_ENOMEM)
		return rlx_fail(err, st, "tokenizer: no memory for a text of %zu bytes",
				len);
	if (st)
		return rlx_fail(err, st,
				"tokenizer: a pattern takes too many steps on this text");
	return RLX_OK;
}
