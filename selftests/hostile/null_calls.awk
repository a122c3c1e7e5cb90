# SPDX-License-Identifier: MIT
# From the declarations of "tools/check-exports --calls": a row for each public function whose
# first argument is a pointer. A row calls it with that NULL and the others zero, and then with
# zeroed memory where the others are pointers to what a caller may make, and 1 for numbers.
#
#   awk -f null_calls.awk HEADER... DECLARATIONS

# Which structs callers can make: those that headers define.
FILENAME ~ /\.h$/ {
	if (FNR == 1 && match(FILENAME, /rlx\/[a-z_]+\.h$/))
		print "#include \"" substr(FILENAME, RSTART) "\""
	if (match($0, /^struct rlx_[a-z0-9_]+ \{/))
		known[substr($0, RSTART + 7, RLENGTH - 9)] = 1
	next
}

# The type of a parameter: without its name, and an array as the pointer that it is.
function type_of(p)
{
	sub(/^ +/, "", p)
	if (p ~ /\(\*/)
		return "function"
	if (sub(/ *\[.*/, "", p))
		sub(/[a-z0-9_]+$/, "*", p)
	else
		sub(/[a-z0-9_]+$/, "", p)
	return p
}

# What stands for an argument of type t.
function value(t, given,	s)
{
	if (t == "function")
		return "NULL"
	if (given && t ~ /FILE/)
		return "nowhere"
	if (given && t ~ /^(u?int|unsigned|size_t|double)[^*]*$/)
		return "1"
	if (match(t, /struct rlx_[a-z0-9_]+/))
		s = substr(t, RSTART + 7, RLENGTH - 7)
	if (given && t ~ /\*/ && (!s || s in known || t ~ /\*.*\*/))
		return "(" t ")given()"
	return "(" t "){ 0 }"
}

function call(name, given,	i, s)
{
	s = type[1] == "function" ? "NULL" : "(" type[1] "){ 0 }"
	for (i = 2; i <= n; i++)
		if (type[i] != "...")
			s = s ", " value(type[i], given)
	return name "(" s ")"
}

{
	if (!match($0, /rlx_[a-z0-9_]+ *\(/))
		next
	name = substr($0, RSTART, RLENGTH - 1)
	result = substr($0, 1, RSTART - 1)
	args = substr($0, RSTART + RLENGTH)
	sub(/ *$/, "", name)
	sub(/\) *$/, "", args)
	gsub(/\([^()]*\)\([^()]*\)/, "(*)", args)	# pointers to functions have commas
	n = split(args, p, ",")
	for (i = 1; i <= n; i++)
		type[i] = p[i] ~ /\.\.\./ ? "..." : type_of(p[i])
	if (type[1] !~ /\*|function/)
		next
	kind = result ~ /rlx_error \*/ ? "NULL_ERROR" : "NULL_CALL"
	printf "%s(%s,\n\t%s,\n\t%s)\n", kind, name, call(name, 0), call(name, 1)
}
