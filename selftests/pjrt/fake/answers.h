/* SPDX-License-Identifier: MIT */
/* What functions of a plugin that is none answer. */
#ifndef SELFTESTS_PJRT_ANSWERS_H
#define SELFTESTS_PJRT_ANSWERS_H

#include "backends/pjrt/api.h"

/* The one object of every kind that there is. */
static int object;

static struct pjrt_error *works(void *args)
{
	(void)args;
	return NULL;
}

static struct pjrt_error *fails(void *args)
{
	(void)args;
	return (struct pjrt_error *)&object;
}

#endif
