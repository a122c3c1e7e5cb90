// SPDX-License-Identifier: MIT
/*
 * libFuzzer entry for the npy and safetensors readers, told apart by the magic.
 * Data of an accepted file is read whole, so a bad bound shows under ASan.
 */
#include <stdlib.h>
#include <string.h>

#include "rlx/npy.h"
#include "rlx/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static volatile uint64_t sink;

static void touch(const struct rlx_type *t, const void *data)
{
	int64_t bytes = rlx_type_bytes(t), i;
	const uint8_t *s = data;
	uint64_t v = 0;

	if (bytes < 0)
		abort();
	if (bytes && (uintptr_t)data % (rlx_dtype_size(t->dtype) > 4 ? 4 :
					rlx_dtype_size(t->dtype)))
		abort();
	for (i = 0; i < bytes; i++)
		v += s[i];
	sink += v;
}

static void try_npy(const uint8_t *p, size_t n)
{
	struct rlx_error err = { 0 };
	struct rlx_npy *f;

	if (rlx_npy_open_mem(p, n, &f, &err)) {
		if (!err.text[0] || f)
			abort();
		return;
	}
	touch(rlx_npy_type(f), rlx_npy_data(f));
	rlx_npy_close(f);
}

static void try_safetensors(const uint8_t *p, size_t n)
{
	struct rlx_safetensors *f;
	struct rlx_error err = { 0 };
	const char *key, *val;
	uint32_t i;

	if (rlx_safetensors_open_mem(p, n, &f, &err)) {
		if (!err.text[0] || f)
			abort();
		return;
	}
	for (i = 0; i < rlx_safetensors_count(f); i++) {
		const struct rlx_safetensor *t = rlx_safetensors_at(f, i);

		touch(&t->type, t->data);
		if (rlx_safetensors_find(f, t->name) != t)
			abort();
	}
	for (i = 0; rlx_safetensors_meta(f, i, &key, &val); i++)
		sink += strlen(key) + strlen(val);
	rlx_safetensors_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	if (n && *p == 0x93)
		try_npy(p, n);
	else
		try_safetensors(p, n);
	return 0;
}
