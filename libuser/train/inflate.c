// SPDX-License-Identifier: MIT
/*
 * DEFLATE, for data sets that come compressed: each is decoded once, as a whole, into memory
 * that was made for it, so there is no window but the output itself.
 *
 * Huffman codes are read by one table of 2^MAIN entries; longer ones go on in a canonical
 * search, bit by bit, which is rare.
 */
#include <pthread.h>
#include <string.h>

#include "train/inflate.h"

enum { BITS_MAX = 15, MAIN = 10, LITERALS = 288, DISTANCES = 32 };

struct code {
	uint16_t	fast[1 << MAIN];	/* symbol << 4 | length; 0: longer or none */
	uint16_t	count[BITS_MAX + 1];	/* codes of each length */
	uint16_t	symbol[LITERALS];	/* in the order of their codes */
};

struct stream {
	const uint8_t	*in;
	uint64_t	 n, at;		/* at: bytes taken into @hold */
	uint64_t	 hold;
	unsigned int	 bits;		/* in @hold */
	uint8_t		*out;
	uint64_t	 room, put;
	const char	*error;
	struct code	 literal, distance;
};

static const uint16_t length_base[29] = {
	3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99,
	115, 131, 163, 195, 227, 258,
};
static const uint8_t length_extra[29] = {
	0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0,
};
static const uint16_t distance_base[30] = {
	1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025,
	1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577,
};

static void fill(struct stream *s)
{
	while (s->bits <= 56 && s->at < s->n) {
		s->hold |= (uint64_t)s->in[s->at++] << s->bits;
		s->bits += 8;
	}
}

static uint32_t take(struct stream *s, unsigned int n)
{
	uint32_t v;

	if (s->bits < n)
		fill(s);
	if (s->bits < n) {
		s->error = "the stream ends too early";
		return 0;
	}
	v = (uint32_t)(s->hold & ((1ull << n) - 1));
	s->hold >>= n;
	s->bits -= n;
	return v;
}

/* False if the lengths make no prefix code. One code alone, of one bit, is allowed. */
static bool make_code(struct code *c, const uint8_t *len, unsigned int n)
{
	uint16_t at[BITS_MAX + 2] = { 0 }, next[BITS_MAX + 1];
	unsigned int i, k, code = 0;
	int left = 1;

	memset(c, 0, sizeof(*c));
	for (i = 0; i < n; i++)
		c->count[len[i]]++;
	c->count[0] = 0;
	for (i = 1; i <= BITS_MAX; i++) {
		left = 2 * left - c->count[i];
		if (left < 0)
			return false;
		at[i + 1] = (uint16_t)(at[i] + c->count[i]);
		next[i] = (uint16_t)(code = (code + (i > 1 ? c->count[i - 1] : 0)) << 1);
	}
	if (left > 0 && at[BITS_MAX + 1] > 1)
		return false;
	for (i = 0; i < n; i++) {
		unsigned int l = len[i], turned = 0, v;

		if (!l)
			continue;
		c->symbol[at[l]++] = (uint16_t)i;
		v = next[l]++;
		for (k = 0; k < l; k++)
			turned |= (v >> k & 1) << (l - 1 - k);
		for (k = turned; l <= MAIN && k < 1 << MAIN; k += 1u << l)
			c->fast[k] = (uint16_t)(i << 4 | l);
	}
	return true;
}

static unsigned int take_long(struct stream *s, const struct code *c)
{
	unsigned int l, code = 0, first = 0, index = 0;

	for (l = 1; l <= BITS_MAX; l++) {
		code |= take(s, 1);
		if (s->error)
			return 0;
		if (code - first < c->count[l])
			return c->symbol[index + code - first];
		index += c->count[l];
		first = (first + c->count[l]) << 1;
		code <<= 1;
	}
	s->error = "a code that is none";
	return 0;
}

static unsigned int take_symbol(struct stream *s, const struct code *c)
{
	unsigned int e;

	if (s->bits < BITS_MAX)
		fill(s);
	e = c->fast[s->hold & ((1 << MAIN) - 1)];
	if (!e || (e & 15) > s->bits)
		return take_long(s, c);
	s->hold >>= e & 15;
	s->bits -= e & 15;
	return e >> 4;
}

static void copy(struct stream *s, uint64_t distance, uint64_t n)
{
	uint8_t *to = s->out + s->put;
	const uint8_t *from;
	uint64_t i;

	if (distance > s->put) {
		s->error = "a distance that lies before the begin";
		return;
	}
	from = to - distance;
	n = n < s->room - s->put ? n : s->room - s->put;
	s->put += n;
	if (distance >= n)
		memcpy(to, from, n);
	else		/* it repeats itself */
		for (i = 0; i < n; i++)
			to[i] = from[i];
}

static void take_block(struct stream *s)
{
	unsigned int v, k;

	while (!s->error && s->put < s->room) {
		v = take_symbol(s, &s->literal);
		if (s->error || v == 256)
			return;
		if (v < 256) {
			s->out[s->put++] = (uint8_t)v;
			continue;
		}
		v -= 257;
		if (v >= 29) {
			s->error = "a length that is none";
			return;
		}
		v = length_base[v] + take(s, length_extra[v]);
		k = take_symbol(s, &s->distance);
		if (k >= 30) {
			s->error = "a distance that is none";
			return;
		}
		if (!s->error)
			copy(s, distance_base[k] + take(s, k < 2 ? 0 : k / 2 - 1), v);
	}
	/* full: what may follow is the end of the block */
	if (!s->error && take_symbol(s, &s->literal) != 256 && !s->error)
		s->error = "more than there is room for";
}

static void take_codes(struct stream *s)
{
	static const uint8_t order[19] = {
		16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
	};
	uint8_t len[LITERALS + DISTANCES] = { 0 };
	unsigned int lit = 257 + take(s, 5), dist = 1 + take(s, 5), n = 4 + take(s, 4), i, v, k;

	for (i = 0; i < n; i++)
		len[order[i]] = (uint8_t)take(s, 3);
	if (s->error || lit > 286 || !make_code(&s->literal, len, 19)) {
		s->error = s->error ? s->error : "code lengths that make no code";
		return;
	}
	memset(len, 0, sizeof(len));
	for (i = 0; i < lit + dist && !s->error; i += k) {
		v = take_symbol(s, &s->literal);
		k = v < 16 ? 1 : v == 16 ? 3 + take(s, 2) : v == 17 ? 3 + take(s, 3) :
		    11 + take(s, 7);
		if (i + k > lit + dist || (v == 16 && !i)) {
			s->error = s->error ? s->error : "code lengths that run over";
			return;
		}
		memset(len + i, v < 16 ? (int)v : v == 16 ? len[i - 1] : 0, k);
	}
	if (!s->error && (!len[256] || !make_code(&s->literal, len, lit) ||
			  !make_code(&s->distance, len + lit, dist)))
		s->error = "code lengths that make no code";
}

static void fixed_codes(struct stream *s)
{
	uint8_t len[LITERALS];

	memset(len, 8, 144);
	memset(len + 144, 9, 112);
	memset(len + 256, 7, 24);
	memset(len + 280, 8, 8);
	make_code(&s->literal, len, LITERALS);
	memset(len, 5, DISTANCES);
	make_code(&s->distance, len, DISTANCES);
}

static void take_stored(struct stream *s)
{
	uint32_t n;

	s->hold >>= s->bits & 7;
	s->bits &= ~7u;
	n = take(s, 16);
	if (take(s, 16) != (n ^ 0xffff) || s->error) {
		s->error = s->error ? s->error : "a stored block whose lengths differ";
		return;
	}
	s->at -= s->bits / 8;	/* back to whole bytes of the input */
	s->hold = s->bits = 0;
	if (n > s->n - s->at) {
		s->error = "the stream ends too early";
		return;
	}
	if (n > s->room - s->put) {
		s->error = "more than there is room for";
		n = (uint32_t)(s->room - s->put);
	}
	memcpy(s->out + s->put, s->in + s->at, n);
	s->at += n;
	s->put += n;
}

/* Which end shall be met: both at once, or the output's at the latest, or the stream's. */
enum ending { EXACT, OUTPUT_FIRST, STREAM_FIRST };

static struct inflate_result decode(const uint8_t *in, uint64_t n, uint8_t *out, uint64_t room,
				    enum ending ending)
{
	struct stream s = { .in = in, .n = n, .out = out, .room = room };
	bool last = false;

	while (!last && !s.error && !(ending == OUTPUT_FIRST && s.put == room)) {
		last = take(&s, 1);
		switch (take(&s, 2)) {
		case 0:
			take_stored(&s);
			break;
		case 1:
			fixed_codes(&s);
			take_block(&s);
			break;
		case 2:
			take_codes(&s);
			if (!s.error)
				take_block(&s);
			break;
		default:
			s.error = "a block of an unknown kind";
		}
	}
	if (ending == OUTPUT_FIRST && s.put == room)
		s.error = NULL;
	else if (!s.error && ending == EXACT && s.put != room)
		s.error = "it decodes to less than was announced";
	return (struct inflate_result){ s.error, s.at - s.bits / 8, s.put };
}

struct inflate_result inflate_raw(const uint8_t *in, uint64_t n, uint8_t *out, uint64_t room,
				  bool partial)
{
	return decode(in, n, out, room, partial ? OUTPUT_FIRST : EXACT);
}

static uint32_t crc_table[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_crc_table(void)
{
	uint32_t i, k, c;

	for (i = 0; i < 256; i++) {
		for (c = i, k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
		crc_table[i] = c;
	}
}

uint32_t inflate_crc32(uint32_t crc, const uint8_t *p, uint64_t n)
{
	pthread_once(&once, make_crc_table);
	for (crc = ~crc; n; n--)
		crc = crc >> 8 ^ crc_table[(crc ^ *p++) & 255];
	return ~crc;
}

/* Bytes of a member's header; 0 if it is none. */
static uint64_t gzip_head(const uint8_t *p, uint64_t n)
{
	uint64_t at = 10;
	unsigned int i;

	if (n < 18 || p[0] != 0x1f || p[1] != 0x8b || p[2] != 8 || p[3] & 0xe0)
		return 0;
	if (p[3] & 4)
		at += 2 + (p[10] | (uint64_t)p[11] << 8);
	for (i = 8; i <= 16; i *= 2) {		/* its name, a comment */
		while (p[3] & i && at < n && p[at])
			at++;
		at += !!(p[3] & i);
	}
	at += p[3] & 2 ? 2 : 0;
	return at < n ? at : 0;
}

struct inflate_result inflate_gzip(const uint8_t *in, uint64_t n, uint8_t *out, uint64_t room,
				   bool partial)
{
	struct inflate_result r = { 0 }, m;
	uint64_t head;
	uint32_t crc, isize;

	do {
		head = gzip_head(in + r.in, n - r.in);
		if (!head) {
			r.error = "no gzip header where one should be";
			return r;
		}
		r.in += head;
		m = decode(in + r.in, n - r.in, out + r.out, room - r.out,
			   partial ? OUTPUT_FIRST : STREAM_FIRST);
		r.in += m.in;
		if (m.error || (partial && r.out + m.out == room)) {
			r.error = m.error;
			r.out += m.out;
			return r;
		}
		if (n - r.in < 8) {
			r.error = "the stream ends too early";
			return r;
		}
		memcpy(&crc, in + r.in, 4);
		memcpy(&isize, in + r.in + 4, 4);
		if (crc != inflate_crc32(0, out + r.out, m.out) || isize != (uint32_t)m.out)
			r.error = "its crc does not fit: it is damaged";
		r.out += m.out;
		r.in += 8;
	} while (!r.error && r.in < n);
	if (!r.error && !partial && r.out != room)
		r.error = "it decodes to less than was announced";
	return r;
}
