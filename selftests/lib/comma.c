// SPDX-License-Identifier: MIT
/* A locale whose decimal point is a comma, for as long as a test needs one. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "selftests/lib/comma.h"
#include "selftests/lib/rlx_test.h"

void comma_begin(char *dir)
{
	static const char def[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\n"
				  "grouping -1\nEND LC_NUMERIC\n";
	char path[96], cmd[256], text[8];
	FILE *f;

	CHECK(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/def", dir);
	f = fopen(path, "w");
	CHECK(f && fputs(def, f) >= 0 && !fclose(f));
	snprintf(cmd, sizeof(cmd), "localedef -c -i %s %s/comma >%s/log 2>&1", path, dir, dir);
	CHECK(system(cmd) != -1);	/* it says 1, as other categories are not there */
	setenv("LOCPATH", dir, 1);
	CHECKF(setlocale(LC_NUMERIC, "comma"), "'%s' made no locale", cmd);
	snprintf(text, sizeof(text), "%.1f", 1.5);
	CHECK(!strcmp(text, "1,5"));
}

void comma_end(const char *dir)
{
	char cmd[64];

	setlocale(LC_NUMERIC, "C");
	unsetenv("LOCPATH");
	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	CHECK_EQ(system(cmd), 0);
}
