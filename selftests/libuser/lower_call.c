// SPDX-License-Identifier: MIT
/* What every backend's calls are held to before they are appended. */
#include "backends/common/lower.h"
#include "kernels/gemm.h"
#include "selftests/lib/rlx_test.h"

enum { CHOSEN = -1 };

static int appended;

static enum rlx_status append(struct rlx_lower *lo, enum rlx_kernel_id id, uint64_t units,
			      double work, size_t scratch)
{
	(void)lo, (void)id, (void)units, (void)work, (void)scratch;
	appended++;
	return RLX_OK;
}

static enum rlx_status append_gemm(struct rlx_lower *lo, struct rlx_k_gemm *g)
{
	(void)lo, (void)g;
	appended++;
	return RLX_OK;
}

/*
 * A call of @id, or CHOSEN: of the kernel that the backend chooses. Operands have dtypes but for
 * those in @without: bits of a, b and c.
 */
static enum rlx_status call(int id, unsigned int without, struct rlx_error *err)
{
	static const struct rlx_lower_ops ops = { .call = append, .gemm = append_gemm };
	static const struct rlx_backend be = { .name = "none" };
	struct rlx_device dev = { .be = &be };
	struct rlx_code code = { .dev = &dev };
	static struct rlx_lower lo;
	struct rlx_k_gemm *g;

	lo = (struct rlx_lower){ .ops = &ops, .code = &code, .err = err };
	g = rlx_lower_args(&lo, sizeof(*g));
	g->a_type = without & 1 ? RLX_NODTYPE : RLX_F32;
	g->b_type = without & 2 ? RLX_NODTYPE : RLX_F32;
	g->c_type = without & 4 ? RLX_NODTYPE : RLX_F32;
	return id == CHOSEN ? rlx_lower_gemm(&lo, g) :
	       rlx_lower_call(&lo, (enum rlx_kernel_id)id, 1, 1, 0);
}

TEST(a_gemm_has_dtypes)
{
	static const int gemm[] = {
		RLX_KERNEL_gemm_f64, RLX_KERNEL_gemm_f32, RLX_KERNEL_gemm_f16,
		RLX_KERNEL_gemm_bf16, RLX_KERNEL_gemm_int, CHOSEN,
	};
	unsigned int without;
	size_t i;

	for (i = 0; i < sizeof(gemm) / sizeof(gemm[0]); i++)
		for (without = 0; without < 8; without++) {
			struct rlx_error err = { 0 };
			enum rlx_status st = call(gemm[i], without, &err);

			CHECK_EQ(st, without ? RLX_EBUG : RLX_OK);
			CHECKF(!without || strstr(err.text, "dtype"), "%s", err.text);
		}
	CHECK_EQ(appended, (int)i);
}

/* What is no such struct may begin with anything. */
TEST(other_kernels_have_other_arguments)
{
	struct rlx_error err = { 0 };

	appended = 0;
	CHECK_EQ(call(RLX_KERNEL_softmax, 7, &err), RLX_OK);
	CHECK_EQ(appended, 1);
}

TEST_MAIN()
