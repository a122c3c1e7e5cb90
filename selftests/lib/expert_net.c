// SPDX-License-Identifier: MIT
/* Layers of experts, whose routes are inputs: graph, session, run, and what it is to give. */
#include "selftests/lib/expert_net.h"
#include "selftests/lib/rig.h"
#include "selftests/lib/rlx_test.h"

void expert_net_draw(struct expert_net *m, uint64_t *seed)
{
	if (!m->w)
		m->w = malloc((size_t)(m->layers * expert_net_count(m)) * sizeof(*m->w));
	for (int64_t i = 0; i < m->layers * expert_net_count(m); i++)
		m->w[i] = (float)((int64_t)(rlx_test_rand(seed) % 129) - 64) / 64;
}

struct rlx_graph *expert_net_graph(const struct expert_net *m)
{
	struct rlx_type tw = rlx_type(m->real, m->experts, m->width, m->width);
	struct rlx_graph *g = rlx_graph_new("experts");
	rlx_value x = rlx_input(g, "x", rlx_type(m->real, m->rows, m->width)), w;
	char name[32];

	for (int l = 0; l < m->layers; l++) {
		snprintf(name, sizeof(name), "w%d", l);
		w = m->constant ? rlx_emit(g, cast, .to = m->real, .x = rlx_constant(g,
				rlx_type(RLX_F32, m->experts, m->width, m->width),
				m->w + l * expert_net_count(m))) : rlx_param(g, name, tw);
		snprintf(name, sizeof(name), "route%d", l);
		x = rlx_emit(g, grouped_matmul, .x = x, .w = w,
			     .idx = rlx_input(g, name, rlx_type(RLX_I32, m->rows)));
	}
	rlx_output(g, "y", rlx_emit(g, cast, .x = x, .to = RLX_F32));
	return g;
}

enum rlx_status expert_net_fill(struct rlx_session *s, const struct expert_net *m)
{
	struct rlx_type tw = rlx_type(RLX_F32, m->experts, m->width, m->width);
	enum rlx_status st = RLX_OK;
	char name[32];

	for (int l = 0; l < m->layers && !m->constant && !st; l++) {
		snprintf(name, sizeof(name), "w%d", l);
		st = rlx_session_set(s, RLX_IO_PARAM, name, tw, m->w + l * expert_net_count(m));
	}
	return st;
}

struct rlx_session *expert_net_session(const struct expert_net *m, const char *device)
{
	struct rlx_compile_opts o = { .size = sizeof(o), .device = device, .flags = m->flags };
	struct rlx_session *s = rig_session(expert_net_graph(m), &o);

	CHECKF(!expert_net_fill(s, m), "%s", rlx_session_error(s)->text);
	return s;
}

enum rlx_status expert_net_try(struct rlx_session *s, const struct expert_net *m, const float *x,
			       const int32_t *routes, float *y)
{
	struct rlx_type t = rlx_type(RLX_F32, m->rows, m->width);
	struct rlx_buf out = rlx_session_buf(s, RLX_IO_OUTPUT, "y");
	enum rlx_status st = out.arena ? RLX_OK : rlx_session_error(s)->status;
	char name[32];

	if (!st) {
		memset(rlx_buf_ptr(out), 0xa5, out.bytes);
		st = rlx_session_set(s, RLX_IO_INPUT, "x", t, x);
	}
	for (int l = 0; l < m->layers && !st; l++) {
		snprintf(name, sizeof(name), "route%d", l);
		st = rlx_session_set(s, RLX_IO_INPUT, name, rlx_type(RLX_I32, m->rows),
				     routes + l * m->rows);
	}
	if (!st)
		st = rlx_session_run(s);
	return st ? st : rlx_session_get(s, RLX_IO_OUTPUT, "y", t, y);
}

void expert_net_run(struct rlx_session *s, const struct expert_net *m, const float *x,
		    const int32_t *routes, float *y)
{
	CHECKF(!expert_net_try(s, m, x, routes, y), "%s", rlx_session_error(s)->text);
}

void expert_net_wanted(const struct expert_net *m, const float *x, const int32_t *routes, float *y)
{
	const size_t bytes = (size_t)(m->rows * m->width) * sizeof(*y);
	float *in = malloc(bytes);
	int64_t e, i, j, k;
	const float *w;
	double sum;

	memcpy(y, x, bytes);
	for (int l = 0; l < m->layers; l++) {
		memcpy(in, y, bytes);
		for (i = 0; i < m->rows; i++) {
			e = routes[l * m->rows + i];
			e += e < 0 ? m->experts : 0;
			w = m->w + l * expert_net_count(m) + e * m->width * m->width;
			for (j = 0; j < m->width; j++) {
				for (sum = k = 0; k < m->width; k++)
					sum += (double)in[i * m->width + k] *
					       (double)w[k * m->width + j];
				y[i * m->width + j] = (float)sum;
			}
		}
	}
	free(in);
}
