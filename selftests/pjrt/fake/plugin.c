// SPDX-License-Identifier: MIT
/*
 * A PJRT plugin that cannot be used, for the reason that RLX_TEST_FAKE names; or, by the name of
 * "compiles", one that takes every program and does nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "selftests/pjrt/fake/answers.h"

enum { SLOTS = PJRT_BUFFER_UNSAFE_POINTER + 1 };

static const char *mode;

static bool is(const char *name)
{
	return !strcmp(mode, name);
}

/* Of 5 bytes that no 0 follows, or none but many */
static struct pjrt_error *message(void *args)
{
	static const char text[] = { 'h', 'e', 'l', 'l', 'o', '?', '!', 0 };
	struct pjrt_error_message *a = args;

	a->message = is("mute") ? NULL : text;
	a->size = is("mute") ? 1 << 20 : 5;
	return NULL;
}

static struct pjrt_error *client(void *args)
{
	((struct pjrt_client_create *)args)->client = (struct pjrt_client *)&object;
	return NULL;
}

static struct pjrt_error *devices(void *args)
{
	static struct pjrt_hw *const one = (struct pjrt_hw *)&object;

	((struct pjrt_devices *)args)->device = &one;
	((struct pjrt_devices *)args)->n = 1;
	return NULL;
}

__attribute__((visibility("default"))) const struct pjrt_api *GetPjrtApi(void);

const struct pjrt_api *GetPjrtApi(void)
{
	struct pjrt_api *t = calloc(1, sizeof(*t) + SLOTS * sizeof(t->fn[0]));
	int i;

	mode = getenv("RLX_TEST_FAKE");
	if (!t || !mode || is("none"))
		return NULL;
	t->head.size = sizeof(*t) + (is("short") ? 20 : SLOTS) * sizeof(t->fn[0]);
	t->version.minor = is("old") ? PJRT_OLDEST - 1 : PJRT_OLDEST;
	for (i = 0; i < SLOTS; i++)
		t->fn[i] = works;
	t->fn[PJRT_ERROR_MESSAGE] = message;
	t->fn[PJRT_CLIENT_CREATE] = is("holes") ? NULL : is("empty") || is("compiles") ? client :
				    fails;
	if (is("compiles"))
		t->fn[PJRT_CLIENT_ADDRESSABLE_DEVICES] = devices;
	return t;
}
