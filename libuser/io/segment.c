// SPDX-License-Identifier: MIT
/* The end of what an importer made. */
#include "base/alloc.h"
#include "base/bump.h"
#include "io/segment.h"

void rlx_segment_fini(struct rlx_segment *seg)
{
	rlx_graph_put(seg->g);
	if (seg->mem)
		rlx_bump_fini(seg->mem);
	rlx_free(seg->mem);
	*seg = (struct rlx_segment){ 0 };
}
