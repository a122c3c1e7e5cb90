/* SPDX-License-Identifier: MIT */
/* Command line options: a table per subcommand is parsed and printed as help. */
#ifndef RLX_TOOLS_ARGS_H
#define RLX_TOOLS_ARGS_H

#include <stdbool.h>
#include <stdint.h>

/* What every subcommand ends with; said in the manual too. */
enum tool_exit {
	TOOL_OK		= 0,
	TOOL_MISMATCH	= 1,	/* it ran, and a comparison failed */
	TOOL_USAGE	= 2,	/* the command line is wrong */
	TOOL_FAILED	= 3,	/* anything else: file, model, memory, output */
};

enum arg_kind {
	ARG_FLAG,	/* bool */
	ARG_STR,	/* const char * */
	ARG_UINT,	/* uint64_t */
	ARG_NUM,	/* double, finite */
	ARG_WORD,	/* int: place in @metavar, words with | between them */
	ARG_LIST,	/* struct arg_list: one value each time */
	ARG_MANY,	/* struct arg_list: all up to the next option */
};

struct arg_list {
	const char	**v;
	unsigned int	  n;
};

/* A value may be left out of an ARG_STR: then it is @bare ("--peer"), if set. */
struct arg {
	const char	*name;		/* without dashes */
	enum arg_kind	 kind;
	void		*to;
	const char	*metavar;
	const char	*help;		/* lines with \n between them */
	const char	*bare;
};

struct args {
	const char		*name;		/* of the subcommand */
	const char		*synopsis;	/* what follows the name */
	const char		*about;
	const struct arg	*arg;
	unsigned int		 n_arg;
	const char		*more;		/* behind the options; may be NULL */
	struct arg_list		*rest;		/* operands; NULL: none are taken */
	unsigned int		 min_rest, max_rest;
	const char		*mismatch;	/* what status 1 means; NULL: it is none of it */
};

/*
 * Parse argv[1..]. True: go on. False: *@rc is what to exit with; help was
 * printed or the mistake was told. Lists are freed with arg_list_free().
 */
bool args_parse(const struct args *a, int argc, char **argv, int *rc);
void arg_list_free(struct arg_list *l);

/* "rlx NAME: " and the text on standard error; gives back @rc. */
int tool_fail(const char *name, int rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A whole number with nothing behind it, at most @max. */
bool parse_u64(const char *s, uint64_t max, uint64_t *out);
bool parse_num(const char *s, double *out);
/* Place of @s among the words of "a|b|c"; -1 if none. */
int word_index(const char *words, const char *s);

#endif
