// SPDX-License-Identifier: MIT
/*
 * Fuzzes the slot machine of the kernel module: the bytes choose the events, the
 * model says what must come of them.
 */
#include "kmod/slot.c"
#include "kmod/slot_check.c"
#include "selftests/kmod/kunit/slot_model.h"

unsigned int rlx_shim_warned;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct model w;
	const char *bad;

	memset(&w, 0, sizeof(w));
	w.from_data = true;
	w.data = data;
	w.left = size;
	bad = m_run(&w, U32_MAX);
	if (*bad || rlx_shim_warned) {
		fprintf(stderr, "ERROR: %s\n", *bad ? bad : "a warning");
		__builtin_trap();
	}
	return 0;
}
