// SPDX-License-Identifier: MIT
/* The text of the kernels, as a part of the library; made by source.awk. */
#include <string.h>

#include "backends/gpu/gpu.h"

#define TEXT(name, ...)	{ name, __VA_ARGS__ },
static const struct { const char *name, *text; } sources[] = {
#define SOURCE TEXT
#define HEADER(name, ...)
#include "gpu/text.h"
#undef SOURCE
#undef HEADER
};

static const char *const header_names[] = {
#define SOURCE(name, ...)
#define HEADER(name, ...) name,
#include "gpu/text.h"
#undef HEADER
};

static const char *const header_texts[] = {
#define HEADER(name, ...) __VA_ARGS__,
#include "gpu/text.h"
#undef HEADER
#undef SOURCE
};

const char *gpu_source(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
		if (!strcmp(sources[i].name, name))
			return sources[i].text;
	return NULL;
}

unsigned int gpu_headers(const char *const **names, const char *const **texts)
{
	*names = header_names;
	*texts = header_texts;
	return sizeof(header_names) / sizeof(header_names[0]);
}
