// SPDX-License-Identifier: MIT
/* Command line options: parsing by table, and the help made of it. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/rlx/args.h"

int tool_fail(const char *name, int rc, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "rlx %s: ", name);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return rc;
}

bool parse_u64(const char *s, uint64_t max, uint64_t *out)
{
	char *end;
	unsigned long long v;

	if (*s < '0' || *s > '9')
		return false;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno || *end || v > max)
		return false;
	*out = v;
	return true;
}

bool parse_num(const char *s, double *out)
{
	char *end;
	double v = strtod(s, &end);

	if (end == s || *end || !isfinite(v))
		return false;
	*out = v;
	return true;
}

static void print_lines(const char *text, int indent)
{
	const char *end;

	for (; *text; text = *end ? end + 1 : end) {
		end = text + strcspn(text, "\n");
		printf("%.*s\n", (int)(end - text), text);
		if (*end)
			printf("%*s", indent, "");
	}
}

static void print_arg(const struct arg *o)
{
	char left[96];

	if (o->kind == ARG_FLAG)
		snprintf(left, sizeof(left), "--%s", o->name);
	else if (o->bare)
		snprintf(left, sizeof(left), "--%s[=%s]", o->name, o->metavar);
	else
		snprintf(left, sizeof(left), "--%s %s%s", o->name, o->metavar,
			 o->kind == ARG_MANY ? "..." : "");
	if (strlen(left) > 25)
		printf("  %s\n%29s", left, "");
	else
		printf("  %-26s ", left);
	print_lines(o->help, 29);
}

static void print_help(const struct args *a)
{
	unsigned int i;

	printf("usage: rlx %s %s\n\n%s\n\n", a->name, a->synopsis, a->about);
	for (i = 0; i < a->n_arg; i++)
		print_arg(&a->arg[i]);
	printf("  %-26s %s\n", "--help", "this text");
	if (a->more)
		printf("\n%s\n", a->more);
	printf("\nExit status: 0 done%s%s, 2 wrong usage, 3 anything else.\n",
	       a->mismatch ? ", 1 " : "", a->mismatch ? a->mismatch : "");
}

static bool append(struct arg_list *l, int argc, const char *v)
{
	if (!l->v)
		l->v = rlx_calloc((size_t)argc + 1, sizeof(*l->v));
	if (!l->v)
		return false;
	l->v[l->n++] = v;
	return true;
}

void arg_list_free(struct arg_list *l)
{
	rlx_free(l->v);
	*l = (struct arg_list){ 0 };
}

int word_index(const char *words, const char *s)
{
	size_t n = strlen(s), k;
	int i;

	for (i = 0; *words; i++) {
		k = strcspn(words, "|");
		if (k == n && !memcmp(words, s, n))
			return i;
		words += k + (words[k] == '|');
	}
	return -1;
}

/* NULL: taken. Else what was expected. */
static const char *take(const struct arg *o, int argc, const char *v)
{
	int i;

	switch (o->kind) {
	case ARG_STR:
		*(const char **)o->to = v;
		return NULL;
	case ARG_UINT:
		return parse_u64(v, INT64_MAX, o->to) ? NULL : "a whole number";
	case ARG_NUM:
		return parse_num(v, o->to) ? NULL : "a number";
	case ARG_WORD:
		i = word_index(o->metavar, v);
		if (i < 0)
			return o->metavar;
		*(int *)o->to = i;
		return NULL;
	default:
		return append(o->to, argc, v) ? NULL : "more memory";
	}
}

static const struct arg *find(const struct args *a, const char *s, size_t n)
{
	unsigned int i;

	for (i = 0; i < a->n_arg; i++)
		if (strlen(a->arg[i].name) == n && !memcmp(a->arg[i].name, s, n))
			return &a->arg[i];
	return NULL;
}

static int usage(const struct args *a, const char *what, const char *s)
{
	return tool_fail(a->name, TOOL_USAGE, "%s '%s'; see rlx %s --help", what, s,
			 a->name);
}

/* Of letters there is one, as compilers have it: where to write. */
static bool is_output(const char *s)
{
	return !strcmp(s, "-o");
}

/* The option at argv[i]; *@used is how many words it took. */
static int option(const struct args *a, int argc, char **argv, int i, int *used)
{
	const char *s = is_output(argv[i]) ? "output" : argv[i] + 2, *value = strchr(s, '='), *want;
	const struct arg *o = find(a, s, value ? (size_t)(value - s) : strlen(s));
	int j;

	*used = 1;
	if (!o)
		return usage(a, "no option", argv[i]);
	if (o->kind == ARG_FLAG) {
		if (value)
			return usage(a, "no value belongs to", argv[i]);
		*(bool *)o->to = true;
		return 0;
	}
	if (value)
		value++;
	else if (o->bare)
		value = o->bare;
	else if (i + 1 >= argc)
		return usage(a, "a value is missing behind", argv[i]);
	else
		value = argv[i + (*used)++];
	want = take(o, argc, value);
	if (want)
		return tool_fail(a->name, TOOL_USAGE, "--%s is '%s', want %s", o->name,
				 value, want);
	for (j = i + *used; o->kind == ARG_MANY && j < argc; j++, ++*used)
		if (!strncmp(argv[j], "--", 2) || take(o, argc, argv[j]))
			break;
	return 0;
}

bool args_parse(const struct args *a, int argc, char **argv, int *rc)
{
	struct arg_list none = { 0 }, *rest = a->rest ? a->rest : &none;
	bool only_rest = false;
	int i, used = 1;

	*rc = TOOL_OK;
	for (i = 1; i < argc && !*rc; i += used) {
		used = 1;
		if (only_rest || argv[i][0] != '-' || !argv[i][1]) {
			if (rest->n >= a->max_rest || !a->rest)
				*rc = usage(a, "do not know what to do with", argv[i]);
			else if (!append(rest, argc, argv[i]))
				*rc = tool_fail(a->name, TOOL_FAILED, "out of memory");
		} else if (!strcmp(argv[i], "--")) {
			only_rest = true;
		} else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
			print_help(a);
			return false;
		} else if (argv[i][1] != '-' && !is_output(argv[i])) {
			*rc = usage(a, "no option", argv[i]);
		} else {
			*rc = option(a, argc, argv, i, &used);
		}
	}
	if (!*rc && rest->n < a->min_rest)
		*rc = tool_fail(a->name, TOOL_USAGE, "usage: rlx %s %s", a->name,
				a->synopsis);
	return !*rc;
}
