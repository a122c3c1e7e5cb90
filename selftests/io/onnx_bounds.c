// SPDX-License-Identifier: MIT
/* Small ONNX models that ask the importer for much, or for what is not there. */
#include "selftests/io/onnx_model.h"

static const int64_t dim_2[] = { 2 };

/* Models of f32 x[2] -> y, of whatever type. */
static void begin(struct out *g)
{
	g->n = 0;
	put_info(g, 11, "x", ONNX_FLOAT, dim_2, 1);
	put_info(g, 12, "y", ONNX_FLOAT, NULL, 0);
}

static struct rlx_spec spec_x(void)
{
	return (struct rlx_spec){
		.kind = RLX_SPEC_TENSOR, .name = "x", .type = rlx_type(RLX_F32, 2),
	};
}

/* Items that are absent, and sequences whose number of tensors doubles with each node. */
TEST(sequences_hold_tensors)
{
	struct out g;
	char line[64];
	int i;

	begin(&g);
	put_node(&g, "SequenceConstruct x _ x > y");
	refuse(&g, 17, spec_x(), RLX_ETYPE, "input 1 is no tensor");
	begin(&g);
	put_node(&g, "SequenceConstruct x > s");
	put_node(&g, "SequenceInsert s s > y");
	refuse(&g, 17, spec_x(), RLX_ETYPE, "input 1 is no tensor");
	begin(&g);
	put_node(&g, "SequenceConstruct x x > s0");
	for (i = 0; i < 40; i++) {
		snprintf(line, sizeof(line), "SequenceConstruct s%d s%d > s%d", i, i, i + 1);
		put_node(&g, line);
	}
	put_node(&g, "Identity s40 > y");
	refuse(&g, 17, spec_x(), RLX_ETYPE, "input 0 is no tensor");
}

TEST_MAIN()
