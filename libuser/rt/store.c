// SPDX-License-Identifier: MIT
/* Stores of prepared weights by the name of the device whose layout they are in. */
#include "ir/store.h"
#include "rt/rt.h"

typedef enum rlx_status store_fn(struct rlx_arena *arena, const char *layout,
				 struct rlx_store **out, struct rlx_error *err);

static enum rlx_status for_device(store_fn *fn, struct rlx_arena *arena, const char *device,
				  struct rlx_store **out, struct rlx_error *err)
{
	char layout[32];
	enum rlx_status st;

	if (!arena || !out)
		return rlx_fail(err, RLX_EINVAL,
				"store: an arena and a place for the store are needed");
	*out = NULL;
	st = rlx_device_layout(rlx_device_choice(device), layout, sizeof(layout), err);
	return st ? st : fn(arena, layout, out, err);
}

enum rlx_status rlx_store_new(struct rlx_arena *arena, const char *device,
			      struct rlx_store **out, struct rlx_error *err)
{
	return for_device(rlx_store_create, arena, device, out, err);
}

enum rlx_status rlx_store_open(struct rlx_arena *arena, const char *device,
			       struct rlx_store **out, struct rlx_error *err)
{
	return for_device(rlx_store_adopt, arena, device, out, err);
}
