// SPDX-License-Identifier: MIT
/* Fuzzes the configuration: it is read, or refused with the line and a reason. */
#include <stdlib.h>
#include <string.h>

#include "tools/rlxd/conf.h"

/* Called by libFuzzer. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rlx_error err = { 0 };
	struct conf *c = NULL;
	unsigned int i;

	if (conf_parse((const char *)data, size, "f", &c, &err)) {
		if (c || !err.status || strncmp(err.text, "f:", 2))
			__builtin_trap();
		return 0;
	}
	if (c->server.threads < 1 || c->server.max_header < 512)
		__builtin_trap();
	for (i = 0; i < c->n_model; i++)
		if (!c->model[i].path || !c->model[i].n_bucket || !*c->model[i].name)
			__builtin_trap();
	for (i = 0; i < c->n_key; i++)
		if (!c->key[i].secret_file || c->key[i].secret_len)
			__builtin_trap();
	conf_free(c);
	return 0;
}
