// SPDX-License-Identifier: MIT
/* The losses of a training as a table and as an image. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/formats/file.h"
#include "tools/rlx/train.h"

enum { WIDE = 720, HIGH = 360, LEFT = 60, TOP = 20, PATH = 4096 };

bool train_curve_add(struct train_curve *c, struct train_point p)
{
	if (!rlx_grow(&c->e, &c->cap, c->n + 1, sizeof(*c->e)))
		return false;
	c->e[c->n++] = p;
	return true;
}

static void put_cell(FILE *f, double x)
{
	if (isfinite(x))
		fprintf(f, ",%.6g", x);
	else
		fputc(',', f);
}

static void put_csv(const struct train_curve *c, FILE *f)
{
	uint32_t i;

	fputs("step,loss,test_loss,accuracy\n", f);
	for (i = 0; i < c->n; i++) {
		fprintf(f, "%llu", (unsigned long long)c->e[i].step);
		put_cell(f, c->e[i].loss);
		put_cell(f, c->e[i].test);
		put_cell(f, c->e[i].accuracy);
		fputc('\n', f);
	}
}

/* A number up to a comma or the end; NAN if nothing is there. */
static double cell(char **s)
{
	char *end;
	double x = strtod(*s, &end);

	x = end == *s ? NAN : x;
	*s = end + (*end == ',');
	return x;
}

bool train_curve_read(struct train_curve *c, const char *folder, uint64_t last,
		      struct rlx_error *err)
{
	char path[PATH], line[256], *s;
	struct rlx_error why = { 0 };
	struct train_point p;
	struct stat sb;
	bool ok = true;
	FILE *f;
	int fd;

	snprintf(path, sizeof(path), "%s/curve.csv", folder);
	if (rlx_file_open(path, &fd, &sb, &why)) {
		if (why.status != RLX_ENOENT)
			rlx_fail(err, why.status, "%s", why.text);
		return why.status == RLX_ENOENT;
	}
	f = fdopen(fd, "r");
	while (f && ok && fgets(line, sizeof(line), f)) {
		s = line;
		p.step = strtoull(s, &s, 10);
		if (s == line || *s++ != ',' || p.step > last)
			continue;
		p.loss = cell(&s);
		p.test = cell(&s);
		p.accuracy = cell(&s);
		ok = train_curve_add(c, p);
	}
	if (!f || !ok)
		rlx_fail(err, RLX_ENOMEM, "out of memory");
	if (f)
		fclose(f);
	else
		close(fd);
	return f && ok;
}

struct frame {
	double	last, low, high;
};

static double x_of(const struct frame *fr, uint64_t step)
{
	return LEFT + (WIDE - LEFT - 20) * (double)step / fr->last;
}

static double y_of(const struct frame *fr, double loss)
{
	return TOP + (HIGH - TOP - 40) * (fr->high - loss) / (fr->high - fr->low);
}

static struct frame frame_of(const struct train_curve *c)
{
	struct frame fr = { 1, INFINITY, -INFINITY };
	uint32_t i;

	for (i = 0; i < c->n; i++) {
		fr.last = fmax(fr.last, (double)c->e[i].step);
		if (isfinite(c->e[i].loss)) {
			fr.low = fmin(fr.low, c->e[i].loss);
			fr.high = fmax(fr.high, c->e[i].loss);
		}
		if (isfinite(c->e[i].test)) {
			fr.low = fmin(fr.low, c->e[i].test);
			fr.high = fmax(fr.high, c->e[i].test);
		}
	}
	if (!(fr.high > fr.low)) {
		fr.low = isfinite(fr.low) ? fr.low - 0.5 : 0;
		fr.high = fr.low + 1;
	}
	return fr;
}

static void put_line(const struct train_curve *c, FILE *f, const struct frame *fr, bool test)
{
	uint32_t i;

	fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" points=\"",
		test ? "#c33" : "#36c", test ? "2" : "1");
	for (i = 0; i < c->n; i++) {
		double y = test ? c->e[i].test : c->e[i].loss;

		if (isfinite(y))
			fprintf(f, "%.1f,%.1f ", x_of(fr, c->e[i].step), y_of(fr, y));
	}
	fputs("\"/>\n", f);
}

static void put_svg(const struct train_curve *c, FILE *f)
{
	struct frame fr = frame_of(c);
	int i;

	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" "
		"height=\"100%%\" fill=\"#fff\"/>\n", WIDE, HIGH);
	for (i = 0; i <= 4; i++) {
		double loss = fr.low + (fr.high - fr.low) * i / 4, y = y_of(&fr, loss);
		double step = floor(fr.last * i / 4), x = x_of(&fr, (uint64_t)step);

		fprintf(f, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
			"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>"
			"<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n",
			LEFT, WIDE - 20, y, y, LEFT - 6, y + 4, loss, x, HIGH - 22, step);
	}
	put_line(c, f, &fr, false);
	put_line(c, f, &fr, true);
	fprintf(f, "<text x=\"%d\" y=\"%d\" fill=\"#36c\">loss</text><text x=\"%d\" y=\"%d\" "
		"fill=\"#c33\">test</text><text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step"
		"</text>\n</svg>\n", WIDE - 120, TOP + 4, WIDE - 70, TOP + 4, WIDE / 2, HIGH - 6);
}

static bool write_one(const struct train_curve *c, const char *folder, const char *name,
		      void (*put)(const struct train_curve *, FILE *), struct rlx_error *err)
{
	struct rlx_file_writer w;
	enum rlx_status st = RLX_OK;
	char path[PATH];

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= PATH) {
		rlx_fail(err, RLX_EINVAL, "%s: the path is too long", folder);
		return false;
	}
	if (rlx_file_write_begin(&w, path, err))
		return false;
	put(c, w.f);
	if (ferror(w.f))
		st = rlx_fail(err, RLX_EIO, "%s cannot be written: %s", path, strerror(errno));
	return !rlx_file_write_end(&w, st, err);
}

bool train_curve_write(const struct train_curve *c, const char *folder, struct rlx_error *err)
{
	return write_one(c, folder, "curve.csv", put_csv, err) &&
	       write_one(c, folder, "curve.svg", put_svg, err);
}
