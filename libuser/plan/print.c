// SPDX-License-Identifier: MIT
/* A plan told: as data, as text, and its memory over time as an SVG image. */
#include "base/number.h"
#include "plan/plan.h"

/* Entry @i of list @io as callers count: states are a list of their own. */
static unsigned int count_as_told(const struct rlx_plan *p, enum rlx_io io, uint32_t i)
{
	unsigned int n = 0;
	uint32_t k;

	for (k = 0; k < i; k++)
		n += p->io[io][k].state == p->io[io][i].state;
	return n;
}

struct rlx_value_place rlx_plan_told(const struct rlx_plan *p, uint32_t v)
{
	const struct rlx_plan_val *x = &p->val[v];
	struct rlx_value_place t = {
		.size = sizeof(t), .kind = x->place.kind, .index = x->place.index,
		.offset = x->place.kind == RLX_PLACE_WORK ? x->place.offset : 0,
		.shares = { x->root }, .first = x->first, .last = x->last,
	};
	enum rlx_io io = RLX_IO_INPUT;

	if (t.kind != RLX_PLACE_NONE)
		t.bytes = rlx_plan_bytes(p, v);
	if (t.kind != RLX_PLACE_INPUT && t.kind != RLX_PLACE_OUTPUT)
		return t;
	if (t.kind == RLX_PLACE_OUTPUT && p->io[RLX_IO_OUTPUT][t.index].state)
		t.index = p->io[RLX_IO_OUTPUT][t.index].donated - 1;
	else if (t.kind == RLX_PLACE_OUTPUT)
		io = RLX_IO_OUTPUT;
	if (p->io[io][t.index].state)
		t.kind = RLX_PLACE_STATE;
	t.index = count_as_told(p, io, t.index);
	return t;
}

struct rlx_program_step rlx_plan_told_step(const struct rlx_plan *p, uint32_t i)
{
	const struct rlx_plan_step *st = &p->step[i];

	return (struct rlx_program_step){
		.size = sizeof(struct rlx_program_step), .op = st->def ? st->def->name : "copy",
		.file = st->file, .line = st->line, .n_in = st->n_in, .n_out = st->n_out,
		.in = st->in, .out = st->out, .once = st->once,
	};
}

static void print_place(const struct rlx_plan *p, uint32_t v, FILE *f)
{
	static const char *const names[] = {
		"-", "const", "input", "param", "output", "work+", "state",
	};
	struct rlx_value_place at;
	char type[96];

	if (!v) {
		fprintf(f, " -");
		return;
	}
	at = rlx_plan_told(p, v);
	rlx_type_print(&p->val[v].type, type, sizeof(type));
	fprintf(f, " %%%u:%s@%s%llu", v, type, names[at.kind],
		at.kind == RLX_PLACE_WORK ? (unsigned long long)at.offset : at.index);
}

enum rlx_status rlx_plan_print(const struct rlx_plan *p, FILE *f)
{
	uint32_t s, i;

	fprintf(f, "# %u steps, workspace %llu bytes, %llu without reuse%s\n", p->n_step,
		(unsigned long long)p->work_bytes, (unsigned long long)p->naive_bytes,
		p->n_persistent ? "; *: once while params stay" : "");
	for (s = 0; s < p->n_step; s++) {
		struct rlx_program_step st = rlx_plan_told_step(p, s);

		fprintf(f, "%5u%c%-20s", s, st.once ? '*' : ' ', st.op);
		for (i = 0; i < st.n_out; i++)
			print_place(p, st.out[i], f);
		fprintf(f, " <-");
		for (i = 0; i < st.n_in; i++)
			print_place(p, st.in[i], f);
		fprintf(f, "\n");
	}
	return ferror(f) ? RLX_EIO : RLX_OK;
}

static const char *const palette[] = {
	"#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948",
	"#b07aa1", "#9c755f",
};

enum rlx_status rlx_plan_svg(const struct rlx_plan *p, FILE *f)
{
	const double w = 1200, h = 640, left = 40, top = 40;
	double sx = (w - 2 * left) / (p->n_step ? p->n_step : 1);
	double sy = (h - 2 * top) / (p->work_bytes ? (double)p->work_bytes : 1);
	locale_t before = rlx_point_begin();
	char type[96];
	uint32_t v;

	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
		"<text x=\"%g\" y=\"24\">workspace %llu bytes over %u steps "
		"(%llu without reuse)</text>\n",
		w, h, left, (unsigned long long)p->work_bytes, p->n_step,
		(unsigned long long)p->naive_bytes);
	for (v = 1; v < p->n_val; v++) {
		struct rlx_value_place x = rlx_plan_told(p, v);

		if (x.kind != RLX_PLACE_WORK || x.shares.id != v || !x.bytes)
			continue;
		rlx_type_print(&p->val[v].type, type, sizeof(type));
		fprintf(f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
			"fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"0.3\"><title>%%%u %s, "
			"steps %u to %u, %llu bytes at %llu</title></rect>\n",
			left + sx * x.first, h - top - sy * (double)(x.offset + x.bytes),
			sx * (x.last - x.first + 1), sy * (double)x.bytes,
			palette[v % (sizeof(palette) / sizeof(palette[0]))], v, type,
			x.first, x.last, (unsigned long long)x.bytes,
			(unsigned long long)x.offset);
	}
	fprintf(f, "</svg>\n");
	rlx_point_end(before);
	return ferror(f) ? RLX_EIO : RLX_OK;
}
