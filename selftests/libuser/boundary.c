// SPDX-License-Identifier: MIT
/*
 * What goes into a session and comes out of it, by numbers: dtypes that are converted at the
 * boundary and those that are not, params of every kind, names of params, devices that are and
 * are not; rows of docs/surface.md.
 */
#include "rlx/compile.h"
#include "rlx/device.h"
#include "rlx/run.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

static const struct rlx_compile_opts cpu = { .size = sizeof(cpu), .device = "cpu" };

/* y = x of dtype @dt; of bool and c64 as well. */
static struct rlx_session *identity(enum rlx_dtype dt, int64_t n, bool param)
{
	struct rlx_graph *g = rlx_graph_new("identity");
	struct rlx_type t = rlx_type(dt, n);
	rlx_value x = param ? rlx_param(g, "x", t) : rlx_input(g, "x", t);

	rlx_output(g, "y", x);
	return rig_session(g, &cpu);
}

static void set(struct rlx_session *s, bool param, struct rlx_type t, const void *x)
{
	CHECKF(!rlx_session_set(s, param ? RLX_IO_PARAM : RLX_IO_INPUT, "x", t, x), "%s",
	       rlx_session_error(s)->text);
	CHECK(!rlx_session_run(s));
}

static void get(struct rlx_session *s, struct rlx_type t, void *y)
{
	CHECKF(!rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y), "%s", rlx_session_error(s)->text);
}

TEST(r001_widened_on_the_way_in)
{
	static const uint16_t f16[2] = { 0x3c00, 0xc000 }, bf16[2] = { 0x3f80, 0xc000 };
	struct rlx_session *s = identity(RLX_F32, 2, false);
	float y[2];

	set(s, false, rlx_type(RLX_F16, 2), f16);
	get(s, rlx_type(RLX_F32, 2), y);
	CHECK(y[0] == 1 && y[1] == -2);
	set(s, false, rlx_type(RLX_BF16, 2), bf16);
	get(s, rlx_type(RLX_F32, 2), y);
	CHECK(y[0] == 1 && y[1] == -2);
	CHECK_EQ(rlx_session_set(s, RLX_IO_INPUT, "x", rlx_type(RLX_F16, 3), f16), RLX_ESHAPE);
	rlx_session_free(s);
}

TEST(r002_r151_narrowed_once)
{
	const float x[3] = { 65519, 65520, 1 + 0x1p-11f }, b = 1 + 0x1p-8f;
	struct rlx_session *s = identity(RLX_F16, 3, false);
	uint16_t y[3];
	float back[3];

	set(s, false, rlx_type(RLX_F32, 3), x);
	get(s, rlx_type(RLX_F16, 3), y);
	CHECK(y[0] == 0x7bff && y[1] == 0x7c00 && y[2] == 0x3c00);
	get(s, rlx_type(RLX_F32, 3), back);	/* R152 */
	CHECK(back[0] == 65504 && isinf(back[1]) && back[2] == 1);
	rlx_session_free(s);
	s = identity(RLX_BF16, 1, false);
	set(s, false, rlx_type(RLX_F32, 1), &b);
	get(s, rlx_type(RLX_BF16, 1), y);
	CHECK(y[0] == 0x3f80);
	rlx_session_free(s);
}

TEST(r003_integers_are_not_read_as_floats)
{
	struct rlx_session *s = identity(RLX_F32, 2, false);
	const float x[2] = { 1.5, 2 };
	int32_t y[2];

	set(s, false, rlx_type(RLX_F32, 2), x);
	CHECK_EQ(rlx_session_get(s, RLX_IO_OUTPUT, "y", rlx_type(RLX_I32, 2), y), RLX_ETYPE);
	rlx_session_free(s);
}

#define SAME(dt, type, ...)						\
	do {								\
		const type x_[] = { __VA_ARGS__ };			\
		type y_[sizeof(x_) / sizeof(*x_)];			\
		int64_t n_ = sizeof(x_) / sizeof(*x_);			\
		struct rlx_session *s_ = identity(dt, n_, param);	\
									\
		set(s_, param, rlx_type(dt, n_), x_);			\
		get(s_, rlx_type(dt, n_), y_);				\
		CHECKF(!memcmp(x_, y_, sizeof(x_)), "%s", rlx_dtype_name(dt)); \
		rlx_session_free(s_);					\
	} while (0)

/* Params and inputs of other kinds than floats come back as they are. */
TEST(r026_r027_r044_r046_bits_are_kept)
{
	bool param = false;
	int i;

	for (i = 0; i < 2; i++, param = true) {
		SAME(RLX_I8, int8_t, -128, 0, 127);
		SAME(RLX_U8, uint8_t, 1, 2, 3, 254, 255);
		SAME(RLX_I32, int32_t, INT32_MAX, INT32_MIN);
		SAME(RLX_I64, int64_t, ((int64_t)1 << 40) + 1, INT64_MIN);
		SAME(RLX_F64, double, 1 + 0x1p-40, -0.0);
		SAME(RLX_BOOL, uint8_t, 1, 0, 1);
	}
}

TEST(r044_another_size_is_refused)
{
	struct rlx_session *s = identity(RLX_U8, 5, true);
	uint8_t x[6] = { 1, 2, 3, 4, 5, 6 };

	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "x", rlx_type(RLX_U8, 6), x), RLX_ESHAPE);
	rlx_session_free(s);
}

TEST(r045_doubles_stay_doubles)
{
	struct rlx_graph *g = rlx_graph_new("doubles");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F64, 3));
	const double in[3] = { 0.1, 1 + 0x1p-40, 3 };
	struct rlx_session *s;
	double y[3];

	rlx_output(g, "y", rlx_emit(g, softmax, .x = x, .axis = 0));
	s = rig_session(g, &cpu);
	set(s, false, rlx_type(RLX_F64, 3), in);
	get(s, rlx_type(RLX_F64, 3), y);
	CHECK(fabs(y[0] + y[1] + y[2] - 1) <= 0x1p-52);
	rlx_session_free(s);
}

TEST(r006_r004_a_layer)
{
	static const float x[8] = { 1, 0, 0, 0, 0, 1, 0, 0 }, zero[8];
	static const float w[12] = { 1, 0, 0, 0, 1, 0, 0, 0, 1 }, b[3] = { 0.5f, -0.5f, 0 };
	static const double want[2][6] = {
		{ 1.399789, -0.154269, 0, 0.345731, 0.345731, 0 },
		{ 0.345731, -0.154269, 0, 0.345731, -0.154269, 0 },
	};
	struct rlx_graph *g = rlx_graph_new("layer");
	rlx_value v = rlx_input(g, "x", rlx_type(RLX_F32, 2, 4));
	struct rlx_session *s;
	float y[6];
	int run, i;

	v = rlx_emit(g, matmul, .a = v, .b = rlx_param(g, "w", rlx_type(RLX_F32, 4, 3)));
	v = rlx_emit(g, add, .a = v, .b = rlx_param(g, "b", rlx_type(RLX_F32, 3)));
	rlx_output(g, "y", rlx_emit(g, gelu, .x = v));
	s = rig_session(g, &cpu);
	CHECK(!rlx_session_set(s, RLX_IO_PARAM, "w", rlx_type(RLX_F32, 4, 3), w));
	CHECK(!rlx_session_set(s, RLX_IO_PARAM, "b", rlx_type(RLX_F32, 3), b));
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "b", rlx_type(RLX_F32, 4), w), RLX_ESHAPE);
	CHECK_EQ(rlx_session_set(s, RLX_IO_PARAM, "c", rlx_type(RLX_F32, 3), b), RLX_ENOENT);
	for (run = 0; run < 2; run++) {
		set(s, false, rlx_type(RLX_F32, 2, 4), run ? zero : x);
		get(s, rlx_type(RLX_F32, 2, 3), y);
		for (i = 0; i < 6; i++)
			CHECKF(fabs((double)y[i] - want[run][i]) < 2e-6, "%d: %g", i, (double)y[i]);
	}
	rlx_session_free(s);
}

TEST(r146_rows)
{
	struct rlx_graph *g = rlx_graph_new("rows");
	static const float x[6] = { 1, 2, 3, 4, 5, 6 };
	struct rlx_session *s;
	float y[4];

	rlx_output(g, "y", rlx_input(g, "x", rlx_type(RLX_F32, 3, 2)));
	s = rig_session(g, &cpu);
	set(s, false, rlx_type(RLX_F32, 3, 2), x);
	CHECK(!rlx_session_rows(s, "y", 1, 2, y, sizeof(y)));
	CHECK(y[0] == 3 && y[1] == 4 && y[2] == 5 && y[3] == 6);
	CHECK_EQ(rlx_session_rows(s, "y", 2, 2, y, sizeof(y)), RLX_ERANGE);
	CHECK(rlx_session_rows(s, "y", 1, 2, y, 12) < 0);
	rlx_session_free(s);
}

TEST(r169_types_of_outputs)
{
	struct rlx_graph *g = rlx_graph_new("types");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 3));
	struct rlx_session *s;
	struct rlx_type t;

	rlx_output(g, "half", rlx_emit(g, cast, .x = x, .to = RLX_BF16));
	rlx_output(g, "less", rlx_emit(g, lt, .a = x, .b = rlx_scalar_const(g, RLX_F32, 0)));
	s = rig_session(g, &cpu);
	t = *rlx_program_io_type(rlx_session_program(s), RLX_IO_OUTPUT, 0);
	CHECK(t.dtype == RLX_BF16 && t.rank == 1 && t.dim[0] == 3);
	CHECK(rlx_program_io_type(rlx_session_program(s), RLX_IO_OUTPUT, 1)->dtype == RLX_BOOL);
	rlx_session_free(s);
}

TEST(r205_names_of_params)
{
	struct rlx_graph *g = rlx_graph_new("params");
	rlx_value x = rlx_input(g, "x", rlx_type(RLX_F32, 2));

	CHECK_EQ(rlx_graph_io_count(g, RLX_IO_PARAM), 0);
	rlx_output(g, "y", rlx_emit(g, add, .a = x, .b = rlx_param(g, "w", rlx_type(RLX_F32, 2))));
	CHECK_EQ(rlx_graph_io_count(g, RLX_IO_PARAM), 1);
	CHECK_STR(rlx_graph_io_name(g, RLX_IO_PARAM, 0), "w");
	rlx_graph_put(g);
}

TEST(r228_r048_r050_devices_that_are_not)
{
	CHECK_STR(rlx_device_why("cpu"), "");
	CHECK(!rlx_device_why("nonsense"));
	CHECK(!rlx_device_why("mlx"));
	CHECK(!rlx_device_why("metal"));
}

TEST_MAIN()
