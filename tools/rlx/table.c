// SPDX-License-Identifier: MIT
/* Tables for people, for spreadsheets and for programs. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/rlx/out.h"

void table_row(struct table *t, const struct table_cell *cells)
{
	struct table_cell *to;
	unsigned int i;

	if (t->failed || !rlx_grow(&t->cell, &t->cap, (t->n_row + 1) * t->n_col,
				   sizeof(*t->cell))) {
		t->failed = true;
		return;
	}
	to = t->cell + t->n_row * t->n_col;
	for (i = 0; i < t->n_col; i++) {
		to[i] = cells[i];
		if (to[i].text) {
			to[i].text = rlx_strdup(to[i].text);
			t->failed = t->failed || !to[i].text;
		}
	}
	t->n_row++;
}

void table_fini(struct table *t)
{
	unsigned int i;

	for (i = 0; i < t->n_row * t->n_col; i++)
		rlx_free((void *)(uintptr_t)t->cell[i].text);
	rlx_free(t->cell);
	*t = (struct table){ .col = t->col, .n_col = t->n_col };
}

static const struct table_cell *at(const struct table *t, unsigned int row,
				   unsigned int col)
{
	return &t->cell[row * t->n_col + col];
}

/* Numbers of very different size share a column: small ones keep digits. */
static const char *cell_text(const struct table *t, unsigned int row,
			     unsigned int col, char buf[64])
{
	const struct table_cell *c = at(t, row, col);
	int decimals = t->col[col].decimals;

	if (decimals < 0)
		return c->text ? c->text : "";
	if (isnan(c->num))
		return "";
	if (c->num && fabs(c->num) < 0.5 * pow(10, -decimals))
		snprintf(buf, 64, "%.2g", c->num);
	else
		snprintf(buf, 64, "%.*f", decimals, c->num);
	return buf;
}

static int width(const struct table *t, unsigned int c)
{
	size_t w = strlen(t->col[c].name), k;
	unsigned int r;
	char buf[64];

	for (r = 0; r < t->n_row; r++) {
		k = strlen(cell_text(t, r, c, buf));
		w = k > w ? k : w;
	}
	return t->col[c].decimals < 0 ? -(int)w : (int)w;
}

static void print_text(const struct table *t)
{
	unsigned int c, r, last = 0;
	char buf[64];

	for (c = 0; c < t->n_col; c++)
		last = t->col[c].wide ? last : c;
	for (c = 0; c < last; c++)
		if (!t->col[c].wide)
			printf("%*s  ", width(t, c), t->col[c].name);
	printf("%*s\n", t->col[last].decimals < 0 ? 0 : width(t, last), t->col[last].name);
	for (r = 0; r < t->n_row; r++) {
		for (c = 0; c < last; c++)
			if (!t->col[c].wide)
				printf("%*s  ", width(t, c), cell_text(t, r, c, buf));
		printf("%*s\n", t->col[last].decimals < 0 ? 0 : width(t, last),
		       cell_text(t, r, last, buf));
	}
}

static void print_csv_text(const char *s)
{
	if (!strpbrk(s, ",\"\n")) {
		fputs(s, stdout);
		return;
	}
	putchar('"');
	for (; *s; s++)
		printf(*s == '"' ? "\"\"" : "%c", *s);
	putchar('"');
}

static void print_csv(const struct table *t)
{
	unsigned int c, r;

	for (c = 0; c < t->n_col; c++)
		printf("%s%s", t->col[c].name, c + 1 < t->n_col ? "," : "\n");
	for (r = 0; r < t->n_row; r++)
		for (c = 0; c < t->n_col; c++) {
			const struct table_cell *x = at(t, r, c);

			if (t->col[c].decimals < 0)
				print_csv_text(x->text ? x->text : "");
			else if (!isnan(x->num))
				printf("%.9g", x->num);
			putchar(c + 1 < t->n_col ? ',' : '\n');
		}
}

static bool print_json(const struct table *t)
{
	struct rlx_json_writer w;
	unsigned int c, r;

	rlx_json_writer_begin(&w, stdout, true);
	rlx_json_put_begin(&w, '[');
	for (r = 0; r < t->n_row; r++) {
		rlx_json_put_begin(&w, '{');
		for (c = 0; c < t->n_col; c++) {
			const struct table_cell *x = at(t, r, c);

			rlx_json_put_key(&w, t->col[c].name);
			if (t->col[c].decimals < 0 && x->text)
				rlx_json_put_str(&w, x->text);
			else if (t->col[c].decimals < 0 || isnan(x->num))
				rlx_json_put_null(&w);
			else
				rlx_json_put_double(&w, x->num);
		}
		rlx_json_put_end(&w);
	}
	rlx_json_put_end(&w);
	return rlx_json_writer_end(&w);
}

bool table_print(const struct table *t, enum table_format how)
{
	bool ok = !t->failed;

	if (ok && how == TABLE_JSON)
		ok = print_json(t);
	else if (ok && how == TABLE_CSV)
		print_csv(t);
	else if (ok)
		print_text(t);
	return !fflush(stdout) && !ferror(stdout) && ok;
}
