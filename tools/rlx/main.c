// SPDX-License-Identifier: MIT
/* The rlx command: finds the subcommand and hands over. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/rlx/args.h"
#include "tools/rlx/terminal.h"
#include "tools/rlx/tool.h"

static const struct {
	const char	*name, *about;
	int		(*fn)(int argc, char **argv);
} commands[] = {
#define COMMAND(name, about) { #name, about, cmd_##name },
#include "tools/rlx/commands.def"
#undef COMMAND
};

enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *f)
{
	unsigned int i;

	fprintf(f, "usage: rlx COMMAND [OPTION ...]\n\n"
		"Compiles tensor graphs and runs them against arenas.\n\n");
	for (i = 0; i < N_COMMANDS; i++)
		fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].about);
	fprintf(f, "\n'rlx COMMAND --help' tells the options of one; 'rlx --version' "
		"the version.\n");
}

/* The name that shares most of its start with @s, or NULL. */
static const char *nearest(const char *s)
{
	unsigned int i, best = 0;
	const char *name = NULL;
	size_t k;

	for (i = 0; i < N_COMMANDS; i++) {
		for (k = 0; s[k] && s[k] == commands[i].name[k]; k++)
			;
		if (k > best) {
			best = (unsigned int)k;
			name = commands[i].name;
		}
	}
	return name;
}

static int unknown(const char *s)
{
	const char *near = nearest(s);

	fprintf(stderr, "rlx: no command '%s'%s%s%s; see rlx --help\n", s,
		near ? ", did you mean '" : "", near ? near : "", near ? "'" : "");
	return TOOL_USAGE;
}

static int dispatch(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	char *help[] = { NULL, "--help", NULL }, **rest = argv + 1;
	unsigned int i;

	if (argc < 2) {
		print_help(stderr);
		return TOOL_USAGE;
	}
	if (!strcmp(name, "--version")) {
		puts("rlx " RLX_VERSION);
		return TOOL_OK;
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h") ||
	    (!strcmp(name, "help") && argc == 2)) {
		print_help(stdout);
		return TOOL_OK;
	}
	argc--;
	if (!strcmp(name, "help")) {
		name = help[0] = argv[2];
		rest = help;
		argc = 2;
	}
	for (i = 0; i < N_COMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].fn(argc, rest);
	return unknown(name);
}

/*
 * A descriptor that is closed would be the next file's, and what is printed would go into an
 * arena or an output. What is opened here for reading takes nothing.
 */
static void hold_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* What somebody waits for has to arrive, help as well as results. */
int main(int argc, char **argv)
{
	int rc;

	hold_standard();
	terminal_guard();
	rc = dispatch(argc, argv);
	if ((fflush(stdout) || ferror(stdout)) && rc < TOOL_USAGE) {
		fputs("rlx: cannot write to standard output\n", stderr);
		rc = TOOL_FAILED;
	}
	return rc;
}
