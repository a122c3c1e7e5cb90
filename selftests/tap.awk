# SPDX-License-Identifier: MIT
# Judges one program's TAP by the expectation files that are read before it.
#
# Variables: prog (its name), rc (exit status), start and now (seconds), cpu (seconds of
# processors), sum (the file that gets "passed failed skipped").

function glob_to_re(g)
{
	gsub(/[][\\.^$+(){}|]/, "\\\\&", g)
	gsub(/\*/, ".*", g)
	gsub(/\?/, ".", g)
	return "^" g "$"
}

function rest_from(n,	s, i)
{
	s = $0
	for (i = 1; i < n; i++)
		sub(/^[ \t]*[^ \t]+/, "", s)
	sub(/^[ \t]+/, "", s)
	return s
}

# The first expectation row of a kind that names the test, or 0.
function row_of(kind, id, reason,	i)
{
	for (i = 1; i <= nrow; i++)
		if (row_kind[i] == kind && id ~ row_id[i] &&
		    (kind != "skip" || reason ~ row_reason[i]))
			return i
	return 0
}

function fail(id, why)
{
	bad++
	said = said sprintf("FAIL  %s%s\n", id, why == "" ? "" : ": " why)
	if (notes != "")
		said = said notes
}

# Expectation files: "skip|broken|unsupported PATTERN reason".
FILENAME ~ /expect\/[^\/]*\.txt$/ {
	if ($1 ~ /^(skip|broken|unsupported)$/) {
		if (NF < 3)
			fail("expect:" FILENAME, "line " FNR " gives no reason")
		row_kind[++nrow] = $1
		row_id[nrow] = glob_to_re($2)
		row_reason[nrow] = glob_to_re(rest_from(3))
	}
	next
}

/^(not )?ok [0-9]+/ {
	failed = $1 == "not"
	name = rest_from(failed ? 4 : 3)
	sub(/^- /, "", name)
	if (match(name, /[ \t]*# *(SKIP|skip)/)) {
		reason = substr(name, RSTART + RLENGTH)
		sub(/^[ \t]+/, "", reason)
		if (reason == "")
			reason = skip_note
		id = prog ":" substr(name, 1, RSTART - 1)
		if (row_of("skip", id, reason))
			skipped++
		else
			fail(id, "skipped for an unlisted reason: " reason)
	} else {
		id = prog ":" name
		known = row_of("broken", id) || row_of("unsupported", id)
		if (failed && known)
			skipped++
		else if (failed)
			fail(id)
		else if (known)
			fail(id, "passes, but is listed as failing")
		else
			passed++
	}
	bad_lines += failed
	seen++
	notes = skip_note = ""
	next
}

# What a program measured of its parts; the long ones are worth a line.
/^# time: / {
	if ($(NF - 1) >= 5)
		said = said "      " substr($0, 3) "\n"
	next
}

/^1\.\.[0-9]+/ { planned = 1; plan = substr($1, 4) + 0; next }

{
	if ($0 ~ /^# SKIP /)
		skip_note = substr($0, 8)
	if (++kept[seen] <= 40)
		notes = notes "      " $0 "\n"
}

END {
	if (!planned && rc == 124)
		fail(prog, "ran past its time")
	else if (!planned)
		fail(prog, "ended with status " rc " before its plan")
	else if (plan != seen)
		fail(prog, "planned " plan " tests, ran " seen)
	else if (!seen)
		fail(prog, "has no tests")
	else if (rc && !bad_lines)
		fail(prog, "ended with status " rc)
	printf "%s  %s (%d passed%s%s, %.1f s, cpu %.1f s)\n%s", bad ? "fail" : "ok  ",
		prog, passed, bad ? ", " bad " failed" : "",
		skipped ? ", " skipped " skipped" : "", now - start, cpu, said
	print passed + 0, bad + 0, skipped + 0 >sum
}
