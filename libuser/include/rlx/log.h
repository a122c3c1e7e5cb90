/* SPDX-License-Identifier: MIT */
/* Where the library's few lines of text for a human go. */
#ifndef RLX_LOG_H
#define RLX_LOG_H

#include "rlx/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * enum rlx_log_level - how much a line matters.
 * @RLX_LOG_WARN:  something works, but not as it should; happens seldom
 * @RLX_LOG_DEBUG: asked for by RLX_DEBUG
 *
 * What fails is told by the call that fails, in its struct rlx_error, never
 * here.
 */
enum rlx_log_level {
	RLX_LOG_WARN,
	RLX_LOG_DEBUG,
};

/**
 * rlx_log_set - send lines to @fn instead of standard error.
 * @fn:  gets each line without a newline, from any thread, also several at
 *       once; must not call the library. NULL restores standard error
 * @ctx: for @fn
 *
 * Context: any thread; neither sleeps nor allocates. A line under way in
 * another thread may still go to the sink before.
 */
RLX_EXPORT void rlx_log_set(void (*fn)(void *ctx, enum rlx_log_level level,
				       const char *line),
			    void *ctx);

#ifdef __cplusplus
}
#endif
#endif
