/* SPDX-License-Identifier: MIT */
/*
 * The Unicode properties and normal forms the tokenizers need, of UTF-8 text.
 * Tables are of one fixed Unicode version (unicode.def says which), unpacked
 * once at first use.
 */
#ifndef RLX_IO_UTF8_H
#define RLX_IO_UTF8_H

#include <stdbool.h>

#include "base/utf8.h"

/* General categories; Cn (unassigned) is 0. */
enum rlx_uc_gc {
	RLX_UC_CN, RLX_UC_LU, RLX_UC_LL, RLX_UC_LT, RLX_UC_LM, RLX_UC_LO,
	RLX_UC_MN, RLX_UC_MC, RLX_UC_ME, RLX_UC_ND, RLX_UC_NL, RLX_UC_NO,
	RLX_UC_PC, RLX_UC_PD, RLX_UC_PS, RLX_UC_PE, RLX_UC_PI, RLX_UC_PF,
	RLX_UC_PO, RLX_UC_SM, RLX_UC_SC, RLX_UC_SK, RLX_UC_SO, RLX_UC_ZS,
	RLX_UC_ZL, RLX_UC_ZP, RLX_UC_CC, RLX_UC_CF, RLX_UC_CO, RLX_UC_CS,
	RLX_UC_N,
};

/* Sets of them, as bits 1 << category. */
enum {
	RLX_UC_L = 0x3e, RLX_UC_M = 0x1c0, RLX_UC_NUM = 0xe00,
	RLX_UC_P = 0x7f000, RLX_UC_S = 0x780000, RLX_UC_Z = 0x3800000,
	RLX_UC_C = 0x3c000001,
};

/*
 * What is known of a code point: bits 0..4 category, these flags, and from
 * bit 9 on an index of its combining class.
 */
enum {
	RLX_UC_CANON	= 1 << 5,	/* has a canonical decomposition */
	RLX_UC_COMPAT	= 1 << 6,	/* has a compatibility one only */
	RLX_UC_LOWER	= 1 << 7,	/* lower case differs */
	RLX_UC_YOUNG	= 1 << 8,	/* P, M or Cf since after Unicode 8 */
};

enum { RLX_UC_BLOCK = 128, RLX_UC_BLOCKS = 0x110000 / RLX_UC_BLOCK };

/* First index into rlx_uc_props[] of each block of code points. */
extern uint16_t rlx_uc_block[RLX_UC_BLOCKS];
extern uint16_t rlx_uc_props[];

/*
 * Unpack the tables: before any rlx_uc_*() below. Any thread, any number of
 * times; does not allocate.
 */
void rlx_uc_init(void);

static inline uint32_t rlx_uc_prop(uint32_t cp)
{
	return rlx_uc_props[rlx_uc_block[cp / RLX_UC_BLOCK] +
			    cp % RLX_UC_BLOCK];
}

static inline unsigned int rlx_uc_gc(uint32_t cp)
{
	return rlx_uc_prop(cp) & 31;
}

static inline bool rlx_uc_is(uint32_t cp, uint32_t mask)
{
	return mask >> rlx_uc_gc(cp) & 1;
}

bool rlx_uc_is_space(uint32_t cp);	/* property White_Space */
bool rlx_uc_is_word(uint32_t cp);	/* \w of Unicode regexes */
bool rlx_uc_is_cjk(uint32_t cp);	/* the ideograph blocks BERT splits at */

/* As BERT's own code sees them, by the categories of Unicode 8. */
bool rlx_uc_bert_punct(uint32_t cp);	/* P, and ASCII symbols too */
bool rlx_uc_bert_control(uint32_t cp);	/* Cc, Cf, Co */
bool rlx_uc_bert_accent(uint32_t cp);	/* Mn */
bool rlx_uc_old_mark(uint32_t cp);	/* M, for StripAccents */

/* Lower case of @cp into @out (room for 2); returns how many: 1 or 2. */
unsigned int rlx_uc_lower(uint32_t cp, uint32_t *out);

enum { RLX_UC_DECOMP_MAX = 18 };

/*
 * Full decomposition of @cp into @out (room for RLX_UC_DECOMP_MAX), not yet
 * reordered; returns how many. @compat: NFKD, else NFD.
 */
unsigned int rlx_uc_decompose(uint32_t cp, bool compat, uint32_t *out);
unsigned int rlx_uc_ccc(uint32_t cp);	/* canonical combining class */
/* The primary composite of @a and @b, 0 if none. */
uint32_t rlx_uc_compose(uint32_t a, uint32_t b);

#endif
