/* SPDX-License-Identifier: MIT */
/* Which provider of arenas a test is about: RLX_TEST_PROVIDER, else memfd. */
#ifndef RLX_SELFTESTS_PROVIDER_H
#define RLX_SELFTESTS_PROVIDER_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline const char *provider(void)
{
	const char *s = getenv("RLX_TEST_PROVIDER");

	return s && *s ? s : "memfd";
}

static inline bool on_kmod(void)
{
	return !strcmp(provider(), "kmod");
}

/* Every arena that names no provider is of that one. */
__attribute__((constructor)) static void choose_provider(void)
{
	setenv("RLX_ARENA_PROVIDER", provider(), 1);
}

#endif
