# SPDX-License-Identifier: MIT
# Makes the scdoc source of rlx-ops(3): every op from its row and the comment that stands
# directly above it. The rows come from the harvester, for whom the build reads them too:
#   awk -f libuser/ops/ops.awk FILES | awk -f tools/ops2scd.awk - FILES
#
# The comment has these fields, each beginning a line, their text going on behind two tabs:
#   Shapes:    of inputs and outputs; names every input
#   Dtypes:    that are taken and given
#   Does:      in words and formulas; here or beside stands every attribute without a hint
#   Errors:    that depend on data, or are not plain from the shapes; may be missing
#   Gradient:  to which inputs, by which rule; "none: why" where reflection says so
#   Source:    of the definition
# A row of elementwise.def says all but Does itself; Source may be there.
#
# What is missing or does not agree is told as "FILE:LINE: OP: what", and there is no page.

function bad(op, what)
{
	print where[op] ": " op ": " what > "/dev/stderr"
	failed = 1
}

# Text as scdoc takes it for itself, anywhere in a line.
function esc(s)
{
	gsub(/[\\_*#<>~`+|[\].-]/, "\\\\&", s)
	return s
}

function has_word(s, word)
{
	return (" " s " ") ~ ("[^A-Za-z0-9_]" word "[^A-Za-z0-9_]")
}

# Fields of the row: "KIND(name)", "KIND(type, name)" or "KIND(type, name, value)".
function read_fields(op, s,	what, at, part, n)
{
	while (match(s, /(INS|IN|OPT|ATTR_NZ|ATTR|DEF|REQ)\([^")]*("[^"]*")?\)/)) {
		what = substr(s, RSTART, RLENGTH)
		s = substr(s, RSTART + RLENGTH)
		at = index(what, "(")
		n = ++n_field[op]
		role[op, n] = substr(what, 1, at - 1)
		what = substr(what, at + 1, length(what) - at - 1)
		if (role[op, n] ~ /^(IN|OPT|INS)$/) {
			field[op, n] = what
			continue
		}
		split(what, part, ", ")
		type[op, n] = part[1]
		field[op, n] = part[2]
		value[op, n] = substr(what, length(part[1]) + length(part[2]) + 5)
		gsub(/^"|"$|f$/, "", value[op, n])
	}
}

function read_row(s,	op, at)
{
	at = index(s, ",")
	op = substr(s, 8, at - 8)
	name[++n_op] = op
	match(s, /"[^"]*"/)
	doc[op] = substr(s, RSTART + 1, RLENGTH - 2)
	s = substr(s, RSTART + RLENGTH)
	if (!match(s, /, ((RLX_T_[A-Z_]+( \| )?)+|0)\)$/))
		bad(op, "no traits at the end of its row")
	traits[op] = substr(s, RSTART)
	read_fields(op, substr(s, 1, RSTART))
}

# The harvest.
FNR == NR {
	if (/^RLX_OP\(/)
		read_row($0)
	next
}

# Arguments of a macro: part[1..] of what stands within its outermost parentheses.
function arguments(s, part,	i, c, depth, n)
{
	n = 1
	part[1] = ""
	for (i = index(s, "(") + 1; i < length(s); i++) {
		c = substr(s, i, 1)
		depth += (c == "(") - (c == ")")
		if (c == "," && !depth)
			part[++n] = ""
		else
			part[n] = part[n] c
	}
	for (i = 1; i <= n; i++)
		gsub(/^ +| +$/, "", part[i])
	return n
}

function classes(letters,	s)
{
	s = letters ~ /F/ ? "floats, f8 too" : ""
	if (letters ~ /I/)
		s = s (s == "" ? "" : ", ") "integers"
	if (letters ~ /B/)
		s = s (s == "" ? "" : ", ") "bool"
	return s
}

# What a row of elementwise.def says in its columns.
function read_pointwise(op, arity, s,	p, in_, y)
{
	arguments(s, p)
	sub(/ .*/, "", p[2])			# traits
	in_ = arity == 1 ? "x" : "a, b"
	text[op, "Shapes"] = arity == 1 ? "x[..] -> y[..], alike" : \
		(arity == 2 ? "a, b" : "cond, a, b") " -> y, broadcasting"
	y = p[3] == "BOOL" ? "bool" : arity == 1 ? "as x" : "as a and b promoted"
	text[op, "Dtypes"] = (arity == 3 ? "cond: bool; " : "") in_ ": " classes(p[2]) \
		"; y" (y == "bool" ? ": " : " ") y
	gsub(/\((I|uint64_t)\)/, "", p[5])
	text[op, "Value"] = "y = " (p[4] == "NOFLOAT" ? p[5] : p[4])
	if (traits[op] ~ /RLX_T_NODIFF/)
		text[op, "Gradient"] = "none: " \
			(p[3] == "BOOL" ? "the result is bool" : "it takes no floats")
	else if (arity == 1)
		text[op, "Gradient"] = "dx = dy (" p[6] ")"
	else
		text[op, "Gradient"] = "da = dy (" p[6] "), db = dy (" p[7] \
			"), summed over what was broadcast"
	text[op, "Source"] = "elementwise.def"
	own_rule[op] = 1
}

# Lines of the comment above the row into text[op, field].
function read_comment(op,	i, s, key)
{
	for (i = 1; i <= n_line; i++) {
		s = line[i]
		if (match(s, /^(Shapes|Dtypes|Does|Errors|Gradient|Source):[ \t]+/)) {
			key = substr(s, 1, index(s, ":") - 1)
			text[op, key] = substr(s, RLENGTH + 1)
		} else if (key != "" && sub(/^\t+/, "", s)) {
			text[op, key] = text[op, key] " " s
		} else if (s != "") {
			bad(op, "no field begins with '" s "'")
		}
	}
}

FNR == 1 { n_line = ended = inside = 0 }
/^\/\* .* \*\/$/ {
	n_line = 1
	line[1] = substr($0, 4, length($0) - 6)
	ended = FNR
	next
}
/^\/\*$/ { n_line = 0; inside = 1; next }
inside && /^ \*\/$/ { inside = 0; ended = FNR; next }
inside {
	s = $0
	sub(/^ \* ?/, "", s)
	line[++n_line] = s
	next
}
/^(RLX_OP|EW[123])\([a-z0-9_]+,/ {
	op = $0
	gsub(/^[A-Z_0-9]+\(|,.*/, "", op)
	where[op] = FILENAME ":" FNR
	seen[op] = 1
	if (/^EW/)
		read_pointwise(op, substr($0, 3, 1), $0)
	if (ended == FNR - 1)
		read_comment(op)
	next
}

# Who has a rule for gradients, or stands for ops that have.
/^const struct rlx_op_impl rlx_op_[a-z0-9_]+_impl = \{/ {
	impl = $0
	sub(/^.* rlx_op_/, "", impl)
	sub(/_impl = .*/, "", impl)
}
impl != "" && /\.(vjp|expand|grad_expand) = / { own_rule[impl] = 1 }
impl != "" && /\}?;$/ { impl = "" }

function check(op,	i, key, n, all, none)
{
	n = split("Shapes Dtypes Does Gradient Source", key, " ")
	for (i = 1; i <= n; i++)
		if (text[op, key[i]] == "")
			bad(op, "no " key[i] " in the comment above its row")
	all = text[op, "Shapes"] " " text[op, "Does"] " " text[op, "Gradient"]
	for (i = 1; i <= n_field[op]; i++) {
		if (role[op, i] ~ /^(IN|OPT|INS)$/) {
			if (!has_word(text[op, "Shapes"], field[op, i]))
				bad(op, "Shapes does not name input " field[op, i])
		} else if (role[op, i] != "REQ" && !has_word(all, field[op, i])) {
			bad(op, "nothing is said of attribute " field[op, i])
		}
	}
	none = traits[op] ~ /RLX_T_(NODIFF|LEAF)/ || !own_rule[op]
	if (text[op, "Gradient"] != "" && (text[op, "Gradient"] ~ /^none/) != none)
		bad(op, none ? "has no gradient, Gradient must begin with 'none'" : \
			"has a gradient, Gradient says none")
}

function say_field(op, i,	s)
{
	if (role[op, i] == "IN")
		return "input"
	if (role[op, i] == "OPT")
		return "input, may be missing"
	if (role[op, i] == "INS")
		return "any number of inputs"
	if (role[op, i] == "REQ")
		return type[op, i] ", must be given: " value[op, i]
	if (role[op, i] == "DEF")
		return type[op, i] ", " value[op, i] " if not given"
	if (role[op, i] == "ATTR_NZ")
		return type[op, i] ", " value[op, i] " if not given, and for 0"
	s = type[op, i]
	if (s ~ /^(str|type|blob|graph)$/)
		return s
	return s (s == "bool" ? ", false" : s ~ /^(ints|floats)$/ ? ", empty" : \
		  s ~ /^[if][36][24]$/ ? ", 0" : ", none") " if not given"
}

function say(op,	i, n, key)
{
	print "\n## " esc(op) "\n"
	if ((op, "Value") in text)
		print "_" esc(text[op, "Value"]) "_\n"
	else
		print "_" esc(doc[op]) "_\n"
	for (i = 1; i <= n_field[op]; i++)
		print "*" esc(field[op, i]) "*: " esc(say_field(op, i)) \
			(i < n_field[op] ? "++" : "\n")
	n = split("Shapes Dtypes Does Errors Gradient Source", key, " ")
	for (i = 1; i <= n; i++)
		if ((op, key[i]) in text && text[op, key[i]] != "elementwise.def")
			print "*" key[i] "*: " esc(text[op, key[i]]) "\n"
}

# The section of a row, by its traits.
function kind_of(t)
{
	return t ~ /_LEAF/ ? 1 : t ~ /_FUSED/ ? 8 : t ~ /_SUBGRAPH/ ? 6 : t ~ /_ELEMENTWISE/ ? 2 : \
	       t ~ /_COMPUTE/ ? 3 : t ~ /_REDUCTION/ ? 4 : t ~ /_MOVE/ ? 5 : 7
}

function intro()
{
	print "rlx-ops(3) \"\" \"RLX library\"\n"
	print "# NAME\n\nrlx-ops - what each operator of RLX takes, does and gives\n"
	print "# SYNOPSIS\n\n*#include <rlx/graph.h>*\n"
	print "rlx_value y = *rlx_emit*(_graph_, _op_, ._field_ = .., ..);\n"
	print "# DESCRIPTION\n"
	print "Each op's inputs and attributes follow its formula. *rlx ops --fields* and"
	print "*rlx/reflect.h* say the same to programs, *rlx-ops*(1) what a device runs itself.\n"
	print "A shape in brackets is the sizes of the dimensions, .. any number of them, [] a"
	print "scalar. Tensors have up to 8 dimensions, any of size 0. To broadcast is as numpy"
	print "does it. An axis may be counted from the end, -1 being the last.\n"
	print "Floats are f64 f32 f16 bf16, and where it is said f8e4m3 and f8e5m2; integers are"
	print "i64 i32 i16 i8 u64 u32 u16 u8. Operands of two dtypes are promoted as"
	print "*rlx_dtype_promote*() in *rlx/type.h* says. Results are rounded to the nearest, ties"
	print "to even; f8 saturates. The device \"ref\" computes floats in f64 and rounds once,"
	print "but for ops that it runs as the simpler ones they stand for; others compute in f32"
	print "what is not f64, in what order they like.\n"
	print "What does not fit is refused when the op is emitted, with RLX_ESHAPE, RLX_ETYPE or"
	print "RLX_EINVAL and a message of op and reason, which the graph keeps. What depends on"
	print "data fails when it runs, with RLX_ERANGE; not if an input and all outputs are empty,"
	print "since then nothing is looked at.\n"
	print "Of a gradient, _d_ before a name is the derivative by it, a ' means transposed."
	print "That of a real number by c64 z = a + ib is the one by a plus i times that by b."
	print "Where there is none by nature it ends without an error; where there is none yet, and"
	print "where c64 meets a rule of real numbers alone, it is refused with RLX_ENOSUP.\n"
}

function sort_names(	i, j, s)
{
	for (i = 2; i <= n_op; i++) {
		s = name[i]
		for (j = i - 1; j > 0 && name[j] > s; j--)
			name[j + 1] = name[j]
		name[j + 1] = s
	}
}

END {
	if (!n_op) {
		print "libuser/ops: no ops" > "/dev/stderr"
		exit 1
	}
	for (i = 1; i <= n_op; i++) {
		if (!(name[i] in seen))
			where[name[i]] = "libuser/ops"
		check(name[i])
	}
	if (failed)
		exit 1
	sort_names()
	n = split("LEAVES,ELEMENT BY ELEMENT,PRODUCTS,REDUCTIONS AND NORMALISATION," \
		  "DATA MOVEMENT AND CONVERSION,CONTROL FLOW,OTHERS,FUSED OPS", title, ",")
	about[2] = "In these formulas sel(c, a, b) is a where c holds, else b; rint rounds to the" \
		" nearest,\nties to even; max and min are NaN if an operand is. Integers are" \
		" computed with 64 bits,\nof which the result has the low ones."
	about[8] = "Passes make these of simpler ops; models need not write them."
	intro()
	for (k = 1; k <= n; k++) {
		print "# " title[k] "\n"
		if (k in about)
			print about[k] "\n"
		for (i = 1; i <= n_op; i++)
			if (kind_of(traits[name[i]]) == k)
				say(name[i])
	}
	print "# SEE ALSO\n\n*librlx*(3), *rlx-ops*(1)"
}
