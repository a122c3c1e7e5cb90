/* SPDX-License-Identifier: MIT */
/* Sessions of one graph on two devices, and whether both give the same. */
#ifndef RLX_TEST_GPU_SESSIONS_H
#define RLX_TEST_GPU_SESSIONS_H

#include "rlx/graph.h"
#include "selftests/lib/rlx_test.h"
#include "selftests/lib/small_net.h"

static inline struct rlx_session *session_of(struct rlx_graph *g, const char *device,
					     uint32_t flags)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device, .flags = flags };
	struct rlx_program *p = NULL;
	struct rlx_session *s = NULL;
	struct rlx_error err = { 0 };

	CHECKF(!rlx_compile(g, &o, &p, &err), "%s", err.text);
	CHECKF(!rlx_session_new(p, NULL, &s, &err), "%s", err.text);
	rlx_program_put(p);
	return s;
}

/* Over a small net. */
static inline struct rlx_session *session_on(const char *device, unsigned int parts,
					     int64_t batch)
{
	struct rlx_graph *g = small_net(parts, batch);
	struct rlx_session *s = session_of(g, device, 0);

	rlx_graph_put(g);
	return s;
}

static inline void run(struct rlx_session *s)
{
	CHECKF(!rlx_session_run(s), "%s", rlx_session_error(s)->text);
}

static inline void poison(struct rlx_session *a)
{
	struct rlx_program *p = rlx_session_program(a);
	unsigned int k, n = rlx_program_io_count(p, RLX_IO_OUTPUT);

	for (k = 0; k < n; k++) {
		struct rlx_buf u = rlx_session_buf(a, RLX_IO_OUTPUT,
						   rlx_program_io_name(p, RLX_IO_OUTPUT, k));

		if (rlx_buf_ptr(u))
			memset(rlx_buf_ptr(u), 0xa5, u.bytes);
	}
}

/* All outputs of @a against @b's. */
static inline void same(struct rlx_session *a, struct rlx_session *b)
{
	struct rlx_program *p = rlx_session_program(a);
	unsigned int k, n = rlx_program_io_count(p, RLX_IO_OUTPUT);
	size_t i;

	for (k = 0; k < n; k++) {
		const char *name = rlx_program_io_name(p, RLX_IO_OUTPUT, k);
		size_t m = (size_t)rlx_type_count(rlx_program_io_type(p, RLX_IO_OUTPUT, k));
		const float *x = rlx_buf_ptr(rlx_session_buf(a, RLX_IO_OUTPUT, name));
		const float *y = rlx_buf_ptr(rlx_session_buf(b, RLX_IO_OUTPUT, name));

		for (i = 0; i < m; i++)
			CHECKF(fabsf(x[i] - y[i]) <= 1e-4f * (1 + fabsf(y[i])),
			       "%s[%zu] is %g, not %g", name, i, (double)x[i], (double)y[i]);
	}
}

static inline void compare(struct rlx_session *a, struct rlx_session *b)
{
	poison(a);
	run(a);
	run(b);
	same(a, b);
}

/* One of @g on @device, by @flags, that gave what one on the CPU gives. */
static inline struct rlx_session *session_as_cpu(struct rlx_graph *g, const char *device,
						 uint32_t flags)
{
	struct rlx_session *s = session_of(g, device, flags), *c = session_of(g, "cpu", flags);

	CHECK_EQ(small_net_fill(s, 3), 0);
	CHECK_EQ(small_net_fill(c, 3), 0);
	compare(s, c);
	rlx_session_free(c);
	return s;
}

#endif
