// SPDX-License-Identifier: MIT
/*
 * libFuzzer entry for the reader of .gguf. All that an accepted file tells is read, so a bad bound
 * shows under ASan.
 */
#include <stdlib.h>
#include <string.h>

#include "rlx/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

enum { MOST = 1 << 16 };
static volatile uint64_t sink;

static void touch(const void *data, uint64_t n)
{
	const uint8_t *s = data;
	uint64_t v = 0;

	for (; n; n--)
		v += *s++;
	sink += v;
}

static void read_values(const struct rlx_gguf *f)
{
	struct rlx_gguf_value v, e;
	const char *key;
	uint32_t i;

	for (i = 0; (key = rlx_gguf_key(f, i)); i++) {
		if (!rlx_gguf_get(f, key, &v))
			abort();
		if (v.type == RLX_GGUF_STRING)
			touch(v.data, v.n);
		while (rlx_gguf_next(&v, &e))
			touch(e.data, e.type == RLX_GGUF_STRING ? e.n : 0);
	}
}

static void read_tensors(const struct rlx_gguf *f)
{
	static float to[MOST];
	struct rlx_error err = { 0 };
	uint32_t i;

	for (i = 0; i < rlx_gguf_count(f); i++) {
		const struct rlx_gguf_tensor *t = rlx_gguf_at(f, i);

		if (rlx_gguf_find(f, t->name) != t)
			abort();
		touch(t->data, t->bytes);
		if (rlx_type_count(&t->type) <= MOST && rlx_gguf_read(t, to, &err) == RLX_OK)
			touch(to, (uint64_t)rlx_type_count(&t->type) * sizeof(*to));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct rlx_error err = { 0 };
	struct rlx_gguf *f;

	if (rlx_gguf_open_mem(p, n, &f, &err)) {
		if (!err.text[0] || f)
			abort();
		return 0;
	}
	read_values(f);
	read_tensors(f);
	rlx_gguf_close(f);
	return 0;
}
