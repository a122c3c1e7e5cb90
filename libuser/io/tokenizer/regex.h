/* SPDX-License-Identifier: MIT */
/* A regular expression as nodes and sets: regex_parse.c makes it, regex.c matches by it. */
#ifndef RLX_IO_TOKENIZER_REGEX_H
#define RLX_IO_TOKENIZER_REGEX_H

#include "io/tokenizer/impl.h"

enum { NO_NODE = -1 };

enum re_op { RE_SET, RE_REP, RE_ALT, RE_JOIN, RE_LOOK, RE_ACCEPT };

struct re_node {
	enum re_op	op;
	int32_t		next;
	int32_t		sub;		/* ALT, LOOK */
	int32_t		other;		/* ALT: what to try if sub fails */
	uint32_t	set;
	uint32_t	min, max;
	bool		possessive, negate;
	bool		first[128];	/* ALT: what sub can begin with */
};

struct re_range {
	uint32_t	lo, hi;
};

struct re_set {
	bool		ascii[128];
	bool		negate, space, not_space, word, not_word;
	uint32_t	gc;		/* mask of categories */
	uint32_t	range, ranges;	/* in tk_regex.range */
	int32_t		nested;		/* a further set to unite with */
};

struct tk_regex {
	struct re_node	*node;
	struct re_set	*set;
	struct re_range	*range;
	uint32_t	 nodes, cap_nodes, sets, cap_sets, ranges, cap_ranges;
	int32_t		 root;
	bool		 first[128];
};

/* Behind the parser: what sets hold of ASCII, and what each alternative can begin with. */
void tk_regex_prepare(struct tk_regex *re);

#endif
