// SPDX-License-Identifier: MIT
/* A plan as text, and its memory over time as an SVG image. */
#include "base/number.h"
#include "plan/plan.h"

static void print_place(const struct rlx_plan *p, uint32_t v, FILE *f)
{
	static const char *const names[RLX_PLACE_KINDS] = {
		"-", "const", "input", "param", "output", "work",
	};
	const struct rlx_place *at = &p->val[v].place;
	char type[96];

	if (!v) {
		fprintf(f, " -");
		return;
	}
	rlx_type_print(&p->val[v].type, type, sizeof(type));
	if (at->kind == RLX_PLACE_WORK)
		fprintf(f, " %%%u:%s@work+%llu", v, type, (unsigned long long)at->offset);
	else
		fprintf(f, " %%%u:%s@%s%u", v, type, names[at->kind], at->index);
}

enum rlx_status rlx_plan_print(const struct rlx_plan *p, FILE *f)
{
	uint32_t s, i;

	fprintf(f, "# %u steps, workspace %llu bytes, %llu without reuse%s\n", p->n_step,
		(unsigned long long)p->work_bytes, (unsigned long long)p->naive_bytes,
		p->n_persistent ? "; *: once while params stay" : "");
	for (s = 0; s < p->n_step; s++) {
		const struct rlx_plan_step *st = &p->step[s];

		fprintf(f, "%5u%c%-20s", s, st->once ? '*' : ' ',
			st->def ? st->def->name : "copy");
		for (i = 0; i < st->n_out; i++)
			print_place(p, st->out[i], f);
		fprintf(f, " <-");
		for (i = 0; i < st->n_in; i++)
			print_place(p, st->in[i], f);
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
		const struct rlx_plan_val *x = &p->val[v];
		uint64_t bytes = rlx_plan_bytes(p, v);

		if (x->place.kind != RLX_PLACE_WORK || x->root != v || !bytes)
			continue;
		rlx_type_print(&x->type, type, sizeof(type));
		fprintf(f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
			"fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"0.3\"><title>%%%u %s, "
			"steps %u to %u, %llu bytes at %llu</title></rect>\n",
			left + sx * x->first, h - top - sy * (double)(x->place.offset + bytes),
			sx * (x->last - x->first + 1), sy * (double)bytes,
			palette[v % (sizeof(palette) / sizeof(palette[0]))], v, type,
			x->first, x->last, (unsigned long long)bytes,
			(unsigned long long)x->place.offset);
	}
	fprintf(f, "</svg>\n");
	rlx_point_end(before);
	return ferror(f) ? RLX_EIO : RLX_OK;
}
