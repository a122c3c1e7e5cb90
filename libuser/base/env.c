// SPDX-License-Identifier: MIT
/* Variables of the environment that say one of a few words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/log.h"

int rlx_env_word(const char *name, const char *const *word, int n, atomic_bool *told)
{
	const char *s = getenv(name);
	char known[160];
	int i, at = 0;

	if (!s || !*s)
		return -1;
	for (i = 0; i < n; i++)
		if (!strcmp(s, word[i]))
			return i;
	if (atomic_exchange(told, true))
		return -1;
	for (i = 0; i < n && at < (int)sizeof(known); i++)
		at += snprintf(known + at, sizeof(known) - (size_t)at, " %s", word[i]);
	rlx_log(RLX_LOG_WARN, "%s: \"%.64s\" is unknown; known are%s", name, s, known);
	return -1;
}
