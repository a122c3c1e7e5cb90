/* SPDX-License-Identifier: MIT */
/*
 * What subcommands print: named values in sections, and tables, each for people
 * or as JSON (tables also as CSV); and a progress bar.
 */
#ifndef RLX_TOOLS_OUT_H
#define RLX_TOOLS_OUT_H

#include "base/json.h"

/* Named values on standard output, aligned lines or one JSON object. */
struct out {
	bool			json;
	struct rlx_json_writer	w;
};

void out_begin(struct out *o, bool json);
/* False if standard output did not take it all. */
bool out_end(struct out *o);

/* @section is a heading and a nested object; @key are lower case, with _. */
void out_section(struct out *o, const char *section);
void out_section_end(struct out *o);
void out_str(struct out *o, const char *key, const char *v);
/* @name is somebody else's: printed as it is. */
void out_named(struct out *o, const char *name, const char *v);
void out_int(struct out *o, const char *key, int64_t v);
void out_bool(struct out *o, const char *key, bool v);
/* @unit is printed for people only; the key names it for programs. */
void out_num(struct out *o, const char *key, double v, int decimals,
	     const char *unit);
void out_bytes(struct out *o, const char *key, uint64_t v);

/* "12.3 MiB" into @buf, which is given back. */
enum { SIZE_TEXT = 32 };
const char *size_text(uint64_t v, char buf[SIZE_TEXT]);

enum table_format { TABLE_TEXT, TABLE_CSV, TABLE_JSON };
#define TABLE_WORDS "table|csv|json"

/* A column. Text is left-aligned, numbers to the right with @decimals. */
struct table_col {
	const char	*name;
	int		 decimals;	/* -1: text */
	bool		 wide;		/* left out of the text form */
};

/* A cell: text, or a number (NAN: empty). */
struct table_cell {
	const char	*text;
	double		 num;
};

struct table {
	const struct table_col	*col;
	unsigned int		 n_col, n_row, cap;
	struct table_cell	*cell;
	bool			 failed;
};

/* Append a row of n_col cells; text is copied. Failure shows in table_print(). */
void table_row(struct table *t, const struct table_cell *cells);
bool table_print(const struct table *t, enum table_format how);
void table_fini(struct table *t);

/* A bar on standard error while it is a terminal; else silent. */
struct progress {
	const char	*what;
	uint64_t	 total;
	double		 begin, next;
	bool		 on;
};

void progress_begin(struct progress *p, const char *what, uint64_t total);
void progress_at(struct progress *p, uint64_t done);
void progress_end(struct progress *p);

/* Seconds of the monotonic clock. */
double now(void);

#endif
