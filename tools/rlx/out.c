// SPDX-License-Identifier: MIT
/* Named values for people or programs, and the progress bar. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/rlx/out.h"
#include "tools/rlx/terminal.h"

double now(void)
{
	return 1e-9 * (double)rlx_now();
}

void out_begin(struct out *o, bool json)
{
	o->json = json;
	if (json) {
		rlx_json_writer_begin(&o->w, stdout, true);
		rlx_json_put_begin(&o->w, '{');
	}
}

bool out_end(struct out *o)
{
	bool ok = true;

	if (o->json) {
		rlx_json_put_end(&o->w);
		ok = rlx_json_writer_end(&o->w);
	}
	return !fflush(stdout) && !ferror(stdout) && ok;
}

void out_section(struct out *o, const char *section)
{
	if (o->json) {
		rlx_json_put_key(&o->w, section);
		rlx_json_put_begin(&o->w, '{');
	} else {
		printf("%s\n", section);
	}
}

void out_section_end(struct out *o)
{
	if (o->json)
		rlx_json_put_end(&o->w);
}

static void put_key(struct out *o, const char *key)
{
	char name[64];
	size_t i;

	if (o->json) {
		rlx_json_put_key(&o->w, key);
		return;
	}
	snprintf(name, sizeof(name), "%s", key);
	for (i = 0; name[i]; i++)
		if (name[i] == '_')
			name[i] = ' ';
	printf("  %-22s ", name);
}

void out_named(struct out *o, const char *name, const char *v)
{
	if (o->json) {
		rlx_json_put_key(&o->w, name);
		rlx_json_put_str(&o->w, v);
	} else {
		printf("  %-22s %s\n", name, v);
	}
}

void out_str(struct out *o, const char *key, const char *v)
{
	put_key(o, key);
	if (o->json)
		rlx_json_put_str(&o->w, v);
	else
		printf("%s\n", v);
}

void out_int(struct out *o, const char *key, int64_t v)
{
	put_key(o, key);
	if (o->json)
		rlx_json_put_int(&o->w, v);
	else
		printf("%lld\n", (long long)v);
}

void out_bool(struct out *o, const char *key, bool v)
{
	put_key(o, key);
	if (o->json)
		rlx_json_put_bool(&o->w, v);
	else
		printf("%s\n", v ? "yes" : "no");
}

void out_num(struct out *o, const char *key, double v, int decimals, const char *unit)
{
	put_key(o, key);
	if (o->json)
		rlx_json_put_double(&o->w, v);
	else
		printf("%.*f%s%s\n", decimals, v, *unit ? " " : "", unit);
}

const char *size_text(uint64_t v, char buf[SIZE_TEXT])
{
	static const char *const unit[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	double x = (double)v;
	unsigned int i = 0;

	while (x >= 1024 && i < 5) {
		x /= 1024;
		i++;
	}
	snprintf(buf, SIZE_TEXT, x == floor(x) ? "%.0f %s" : "%.1f %s", x, unit[i]);
	return buf;
}

void out_bytes(struct out *o, const char *key, uint64_t v)
{
	char text[SIZE_TEXT];

	put_key(o, key);
	if (!o->json)
		printf("%s\n", size_text(v, text));
	else if (v > INT64_MAX)
		rlx_json_put_null(&o->w);
	else
		rlx_json_put_int(&o->w, (int64_t)v);
}

void progress_begin(struct progress *p, const char *what, uint64_t total)
{
	*p = (struct progress){ what, total, now(), 0, isatty(2) && total };
}

void progress_at(struct progress *p, uint64_t done)
{
	static const char bar[] = "==============================";
	double t, left;
	int n;

	if (!p->on)
		return;
	t = now();
	if (t < p->next && done < p->total)
		return;
	p->next = t + 0.1;
	left = done ? (t - p->begin) * (double)(p->total - done) / (double)done : 0;
	n = (int)(30 * (done < p->total ? done : p->total) / p->total);
	terminal_put(stderr, "\r");
	fprintf(stderr, "%s [%.*s%*s] %llu/%llu, %.0f s left ", p->what, n, bar, 30 - n, "",
		(unsigned long long)done, (unsigned long long)p->total, left);
	terminal_put(stderr, "\033[K");
}

void progress_end(struct progress *p)
{
	if (p->on)
		terminal_put(stderr, "\r\033[K");
	p->on = false;
}
