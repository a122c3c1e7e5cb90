/* SPDX-License-Identifier: MIT */
/* What command lines and configurations call enum rlx_precision, in its order. */
#ifndef RLX_TOOLS_PRECISION_H
#define RLX_TOOLS_PRECISION_H

#define PRECISION_LIST(first, next)	\
	first("f32")			\
	next("bf16")			\
	next("mixed-bf16")		\
	next("f16")			\
	next("mixed-f16")		\
	next("tf32")

#define PRECISION_WORD(word)	word
#define PRECISION_OR(word)	"|" word
#define PRECISION_WORDS		PRECISION_LIST(PRECISION_WORD, PRECISION_OR)

#endif
