/* SPDX-License-Identifier: MIT */
/* RLX_DEBUG flags and the one sink for lines meant for a human. */
#ifndef RLX_BASE_LOG_H
#define RLX_BASE_LOG_H

#include <stdbool.h>

#include "rlx/log.h"

/* RLX_DEBUG=pass,mem,...; "all" sets each. Unknown words are named once. */
enum rlx_debug {
	RLX_DEBUG_PASS		= 1 << 0,	/* which passes changed what */
	RLX_DEBUG_PRINT		= 1 << 1,	/* graphs after each pass */
	RLX_DEBUG_ROUNDTRIP	= 1 << 2,	/* print and parse after each */
	RLX_DEBUG_PLAN		= 1 << 3,	/* places are verified */
	RLX_DEBUG_DISPATCH	= 1 << 4,	/* which kernel takes which op */
	RLX_DEBUG_RUN		= 1 << 5,	/* runs, binds, fallbacks */
	RLX_DEBUG_MEM		= 1 << 6,	/* arenas */
	RLX_DEBUG_IO		= 1 << 7,	/* files read */
};

bool rlx_debug_on(enum rlx_debug flag);

/* One line, without its newline; cut at 1000 bytes. Any thread; no heap. */
void rlx_log(enum rlx_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
