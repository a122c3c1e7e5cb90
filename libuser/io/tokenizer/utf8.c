// SPDX-License-Identifier: MIT
/* Unicode properties, from the packed tables of unicode.def. */
#include <pthread.h>

#include "io/tokenizer/utf8.h"
#include "io/tokenizer/unicode.def"

enum {
	UC_UNIFORM	= 48,	/* blocks of one value, and slack */
	UC_BLOCKS_USED	= UC_MIXED_BLOCKS + UC_UNIFORM,
	UC_CCC_SHIFT	= 9,
	UC_PAIRS	= 2048,	/* slots of the composition hash, half full */
	UC_ALT_UPPER	= 30,	/* runs alternating Lu, Ll */
	UC_ALT_LOWER	= 31,
	HANGUL_S	= 0xac00, HANGUL_L = 0x1100, HANGUL_V = 0x1161,
	HANGUL_T	= 0x11a7,
	HANGUL_NL	= 19, HANGUL_NV = 21, HANGUL_NT = 28,
	HANGUL_NS	= HANGUL_NL * HANGUL_NV * HANGUL_NT,
};

struct uc_decomp {
	uint32_t	cp;
	uint16_t	off;	/* into uc_values */
	uint8_t		n;
	bool		composes;
};

struct uc_lower_run {
	uint32_t	first, last;
	int32_t		delta;
};

struct uc_pair {
	uint32_t	a, b, c;
};

uint16_t rlx_uc_block[RLX_UC_BLOCKS];
uint16_t rlx_uc_props[UC_BLOCKS_USED * RLX_UC_BLOCK];

static uint32_t blocks_used, uniform[UC_UNIFORM], uniform_n;
static uint8_t ccc_value[128];
static uint32_t ccc_n;
static struct uc_lower_run lower_run[800];
static uint32_t lower_n;
static struct uc_decomp decomp[UC_DECOMPS];
static uint32_t decomp_n;
static uint32_t values[UC_VALUES];
static uint32_t values_n;
static struct uc_pair pairs[UC_PAIRS];

/* The next number of a packed table; past its end zeros. */
static uint32_t unpack(const char **s)
{
	uint32_t v = 0, shift = 0, d;

	do {
		char c = **s;

		if (!c)
			return v;
		++*s;
		d = c >= 'a' ? (uint32_t)(c - 'a') + 26 :
		    c >= 'A' ? (uint32_t)(c - 'A') :
		    c >= '0' ? (uint32_t)(c - '0') + 52 : c == '+' ? 62 : 63;
		v |= (d & 31) << shift;
		shift += 5;
	} while (d & 32 && shift < 32);
	return v;
}

static int32_t unpack_signed(const char **s)
{
	uint32_t v = unpack(s);

	return v & 1 ? -(int32_t)(v / 2) - 1 : (int32_t)(v / 2);
}

static uint16_t block_new(uint16_t value)
{
	uint32_t at, i;

	if (blocks_used == UC_BLOCKS_USED)
		return 0;
	at = blocks_used++ * RLX_UC_BLOCK;
	for (i = 0; i < RLX_UC_BLOCK; i++)
		rlx_uc_props[at + i] = value;
	return (uint16_t)at;
}

static bool block_is_uniform(uint32_t at)
{
	uint32_t i;

	for (i = 0; i < uniform_n; i++)
		if (uniform[i] == at)
			return true;
	return false;
}

static uint16_t block_uniform(uint16_t value)
{
	uint32_t i;

	for (i = 0; i < uniform_n; i++)
		if (rlx_uc_props[uniform[i]] == value)
			return (uint16_t)uniform[i];
	if (uniform_n == UC_UNIFORM)
		return 0;
	uniform[uniform_n] = block_new(value);
	return (uint16_t)uniform[uniform_n++];
}

/* Set @bits for @n code points from @cp on; blocks of one value are shared. */
static void prop_set(uint32_t cp, uint32_t n, uint32_t bits)
{
	uint32_t b, k, i;

	for (; n && cp < 0x110000; cp += k, n -= k) {
		b = cp / RLX_UC_BLOCK;
		k = RLX_UC_BLOCK - cp % RLX_UC_BLOCK;
		k = k < n ? k : n;
		if (block_is_uniform(rlx_uc_block[b])) {
			uint16_t v = rlx_uc_props[rlx_uc_block[b]];

			if (k == RLX_UC_BLOCK) {
				rlx_uc_block[b] =
					block_uniform((uint16_t)(v | bits));
				continue;
			}
			rlx_uc_block[b] = block_new(v);
		}
		for (i = 0; i < k; i++)
			rlx_uc_props[rlx_uc_block[b] + cp % RLX_UC_BLOCK + i] |=
				(uint16_t)bits;
	}
}

static void unpack_categories(void)
{
	const char *s = uc_category;
	uint32_t cp = 0, gc, n, i;

	while (*s) {
		gc = unpack(&s);
		n = unpack(&s);
		if (gc < UC_ALT_UPPER)
			prop_set(cp, n, gc);
		else
			for (i = 0; i < n; i++)
				prop_set(cp + i, 1,
					 (i ^ (gc == UC_ALT_LOWER)) & 1 ?
					 RLX_UC_LL : RLX_UC_LU);
		cp += n;
	}
}

static void unpack_classes(void)
{
	const char *s = uc_class;
	uint32_t cp = 0, n, c, i;

	ccc_n = 1;
	while (*s) {
		cp += unpack(&s);
		n = unpack(&s);
		c = unpack(&s);
		for (i = 1; i < ccc_n && ccc_value[i] != c; i++)
			;
		if (i == sizeof(ccc_value))
			return;
		if (i == ccc_n)
			ccc_value[ccc_n++] = (uint8_t)c;
		prop_set(cp, n, i << UC_CCC_SHIFT);
		cp += n;
	}
}

static void unpack_lowercase(void)
{
	const char *s = uc_lowercase;
	uint32_t cp = 0, n, step, i;

	while (*s && lower_n < sizeof(lower_run) / sizeof(*lower_run)) {
		struct uc_lower_run *r = &lower_run[lower_n++];

		cp += unpack(&s);
		n = unpack(&s);
		step = unpack(&s) + 1;
		r->delta = unpack_signed(&s);
		r->first = cp;
		for (i = 0; i < n; i++)
			prop_set(cp + i * step, 1, RLX_UC_LOWER);
		cp += (n - 1) * step;
		r->last = cp;
	}
	prop_set(0x130, 1, RLX_UC_LOWER);
}

static uint32_t pair_slot(uint32_t a, uint32_t b)
{
	return (a * 0x9e3779b1u ^ b * 0x85ebca77u) >> 21;
}

static void pair_add(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t i = pair_slot(a, b);

	while (pairs[i].c)
		i = (i + 1) % UC_PAIRS;
	pairs[i] = (struct uc_pair){ a, b, c };
}

/* One run of @n entries from @cp on that differ by a count in element @which. */
static void decomp_add(uint32_t cp, uint32_t n, const uint32_t *seq,
		       const uint32_t len[2], uint32_t which)
{
	uint32_t i, k;

	for (i = 0; i < n; i++) {
		struct uc_decomp *d = &decomp[decomp_n];

		if (decomp_n == UC_DECOMPS || values_n + len[0] > UC_VALUES)
			return;
		decomp_n++;
		*d = (struct uc_decomp){ cp + i, (uint16_t)values_n,
					 (uint8_t)len[0], len[1] };
		for (k = 0; k < len[0]; k++)
			values[values_n++] = seq[k] + (k == which ? i : 0);
		if (d->composes)
			pair_add(values[d->off], values[d->off + 1], d->cp);
	}
}

static void unpack_decomps(void)
{
	uint32_t cp = 0, n, k, which, compat, prev = 0, seq[RLX_UC_DECOMP_MAX];
	const char *s = uc_decomp;

	while (*s) {
		uint32_t len[2];

		cp += unpack(&s);
		n = unpack(&s);
		compat = n & 1;
		n = n / 2 + 1;
		len[0] = unpack(&s);
		len[1] = !compat && len[0] == 2;
		if (!compat && len[0] == 3)
			len[0] = 2;
		if (len[0] > RLX_UC_DECOMP_MAX)
			return;
		which = n > 1 ? unpack(&s) : 0;
		for (k = 0; k < len[0]; k++) {
			if (k == 1 && !compat) {
				seq[k] = unpack(&s);
				continue;
			}
			prev += (uint32_t)unpack_signed(&s);
			seq[k] = prev;
		}
		prop_set(cp, n, compat ? RLX_UC_COMPAT : RLX_UC_CANON);
		decomp_add(cp, n, seq, len, which);
		cp += n - 1;
	}
}

static void unpack_young(void)
{
	const char *s = uc_young;
	uint32_t cp = 0, n;

	while (*s) {
		cp += unpack(&s);
		n = unpack(&s);
		prop_set(cp, n, RLX_UC_YOUNG);
		cp += n;
	}
}

static void unpack_all(void)
{
	uniform[uniform_n++] = block_new(0);
	unpack_categories();
	unpack_classes();
	unpack_lowercase();
	unpack_decomps();
	unpack_young();
}

void rlx_uc_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, unpack_all);
}

unsigned int rlx_uc_ccc(uint32_t cp)
{
	return ccc_value[rlx_uc_prop(cp) >> UC_CCC_SHIFT];
}

bool rlx_uc_is_space(uint32_t cp)
{
	if (cp < 0x80)
		return cp == ' ' || (cp >= 9 && cp <= 13);
	return cp == 0x85 || rlx_uc_is(cp, RLX_UC_Z);
}

bool rlx_uc_is_word(uint32_t cp)
{
	const uint32_t set = RLX_UC_L | RLX_UC_M | 1u << RLX_UC_ND |
			     1u << RLX_UC_NL | 1u << RLX_UC_PC;

	/* the symbols that have property Alphabetic: letters in circles */
	return rlx_uc_is(cp, set) || (cp >= 0x24b6 && cp <= 0x24e9) ||
	       (cp >= 0x1f130 && cp <= 0x1f149) ||
	       (cp >= 0x1f150 && cp <= 0x1f169) ||
	       (cp >= 0x1f170 && cp <= 0x1f189);
}

bool rlx_uc_is_cjk(uint32_t cp)
{
	/* 0x2b920 is what the reference has, for 0x2b820 */
	return cp >= 0x3400 &&
	       (cp <= 0x4dbf || (cp >= 0x4e00 && cp <= 0x9fff) ||
		(cp >= 0xf900 && cp <= 0xfaff) ||
		(cp >= 0x20000 && cp <= 0x2a6df) ||
		(cp >= 0x2a700 && cp <= 0x2b81f) ||
		(cp >= 0x2b920 && cp <= 0x2ceaf) ||
		(cp >= 0x2f800 && cp <= 0x2fa1f));
}

static bool bert_is(uint32_t cp, uint32_t mask)
{
	uint32_t p = rlx_uc_prop(cp);

	return mask >> (p & 31) & 1 && !(p & RLX_UC_YOUNG);
}

bool rlx_uc_bert_punct(uint32_t cp)
{
	if (cp < 0x80)
		return cp > ' ' && cp < 0x7f &&
		       !((cp >= '0' && cp <= '9') ||
			 ((cp | 32) >= 'a' && (cp | 32) <= 'z'));
	/* the two were punctuation in Unicode 8 */
	return bert_is(cp, RLX_UC_P) || cp == 0x166d || cp == 0x111c9;
}

bool rlx_uc_bert_control(uint32_t cp)
{
	return bert_is(cp, 1u << RLX_UC_CC | 1u << RLX_UC_CF | 1u << RLX_UC_CO);
}

bool rlx_uc_bert_accent(uint32_t cp)
{
	if (cp < 0x300)
		return false;
	/* what became Mn, or ceased to be, after Unicode 8 */
	switch (cp) {
	case 0x1734:
	case 0x1171e:
		return true;
	case 0x1885:
	case 0x1886:
	case 0xa9bd:
	case 0x111c9:
		return false;
	}
	return bert_is(cp, 1u << RLX_UC_MN);
}

bool rlx_uc_old_mark(uint32_t cp)
{
	/* the marks of Unicode 9 that are younger than 8 */
	static const uint32_t nine[][2] = {
		{ 0x8d4, 0x8e1 }, { 0x1885, 0x1886 }, { 0x1dfb, 0x1dfb },
		{ 0xa8c5, 0xa8c5 }, { 0x1123e, 0x1123e },
		{ 0x11435, 0x11446 }, { 0x11c2f, 0x11cb6 },
		{ 0x1e000, 0x1e02a }, { 0x1e944, 0x1e94a },
	};
	uint32_t i;

	if (cp == 0x1cf2 || cp == 0x1cf3)	/* since then letters */
		return true;
	if (cp < 0x300 || !rlx_uc_is(cp, RLX_UC_M) || cp == 0x111c9)
		return false;
	for (i = 0; i < sizeof(nine) / sizeof(*nine); i++)
		if (cp >= nine[i][0] && cp <= nine[i][1])
			return true;
	return !(rlx_uc_prop(cp) & RLX_UC_YOUNG);
}

unsigned int rlx_uc_lower(uint32_t cp, uint32_t *out)
{
	uint32_t lo = 0, hi = lower_n;

	out[0] = cp;
	if (cp < 0x80) {
		if (cp >= 'A' && cp <= 'Z')
			out[0] = cp | 32;
		return 1;
	}
	if (!(rlx_uc_prop(cp) & RLX_UC_LOWER))
		return 1;
	if (cp == 0x130) {	/* I with dot: the one that becomes two */
		out[0] = 'i';
		out[1] = 0x307;
		return 2;
	}
	while (hi - lo > 1) {
		uint32_t mid = (lo + hi) / 2;

		if (lower_run[mid].first <= cp)
			lo = mid;
		else
			hi = mid;
	}
	out[0] = (uint32_t)((int32_t)cp + lower_run[lo].delta);
	return 1;
}

static const struct uc_decomp *decomp_find(uint32_t cp)
{
	uint32_t lo = 0, hi = decomp_n;

	while (hi - lo > 1) {
		uint32_t mid = (lo + hi) / 2;

		if (decomp[mid].cp <= cp)
			lo = mid;
		else
			hi = mid;
	}
	return &decomp[lo];
}

unsigned int rlx_uc_decompose(uint32_t cp, bool compat, uint32_t *out)
{
	uint32_t want = RLX_UC_CANON | (compat ? RLX_UC_COMPAT : 0);
	const struct uc_decomp *d;
	unsigned int n = 0, i;

	if (cp >= HANGUL_S && cp < HANGUL_S + HANGUL_NS) {
		uint32_t s = cp - HANGUL_S;

		out[0] = HANGUL_L + s / (HANGUL_NV * HANGUL_NT);
		out[1] = HANGUL_V + s / HANGUL_NT % HANGUL_NV;
		out[2] = HANGUL_T + s % HANGUL_NT;
		return s % HANGUL_NT ? 3 : 2;
	}
	if (!(rlx_uc_prop(cp) & want)) {
		out[0] = cp;
		return 1;
	}
	/* at most four deep, by the data; the longest result has 18 */
	d = decomp_find(cp);
	for (i = 0; i < d->n; i++)
		n += rlx_uc_decompose(values[d->off + i], compat, out + n);
	return n;
}

uint32_t rlx_uc_compose(uint32_t a, uint32_t b)
{
	uint32_t i;

	if (a >= HANGUL_L && a < HANGUL_L + HANGUL_NL && b >= HANGUL_V &&
	    b < HANGUL_V + HANGUL_NV)
		return HANGUL_S + ((a - HANGUL_L) * HANGUL_NV +
				   (b - HANGUL_V)) * HANGUL_NT;
	if (a >= HANGUL_S && a < HANGUL_S + HANGUL_NS && b > HANGUL_T &&
	    b < HANGUL_T + HANGUL_NT && !((a - HANGUL_S) % HANGUL_NT))
		return a + b - HANGUL_T;
	for (i = pair_slot(a, b); pairs[i].c; i = (i + 1) % UC_PAIRS)
		if (pairs[i].a == a && pairs[i].b == b)
			return pairs[i].c;
	return 0;
}
