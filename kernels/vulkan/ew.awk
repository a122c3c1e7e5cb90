# SPDX-License-Identifier: MIT
#
# Rows of elementwise.def -> a GLSL function for each number class: ewf_<op>() on floats,
# ewd_<op>() on doubles where that takes no function that GLSL lacks, ewi_<op>() and ewu_<op>()
# on 64-bit integers; and keep_rows(), which calls them all, so that the compiler keeps them.
#
# The integer column is C: casts become constructors, and bools are made numbers.

# Field @n of a row, fields being parted by commas outside parentheses and quotes.
function field(s, n,	i, c, depth, quoted, at, from)
{
	from = 1
	for (i = 1; i <= length(s) + 1; i++) {
		c = substr(s, i, 1)
		if (c == "\"")
			quoted = !quoted
		else if (c == "(")
			depth++
		else if (c == ")")
			depth--
		if ((c == "," && !depth && !quoted) || i > length(s)) {
			if (++at == n) {
				s = substr(s, from, i - from)
				gsub(/^[ \t]+|[ \t]+$/, "", s)
				return s
			}
			from = i + 1
		}
	}
	return ""
}

function params(type, names,	a, n, i, s)
{
	n = split(names, a, " ")
	for (i = 1; i <= n; i++)
		s = s (i > 1 ? ", " : "") "const in " type " " a[i]
	return s
}

function zeros(type, n,	s)
{
	while (n--)
		s = s (s == "" ? "" : ", ") type "(0)"
	return s
}

function put(prefix, type, value)
{
	printf "%s %s_%s(%s) { return %s(%s); }\n", type, prefix, name, params(type, names), type,
		value
	keep = keep sprintf("\t%s_%s(%s);\n", prefix, name, zeros(type, n))
}

# Parts that C's grammar and GLSL's do not share
function integers(v)
{
	gsub(/\(I\)/, "I", v)
	gsub(/\(uint64_t\)[a-z]+/, "&@", v)
	while (match(v, /\(uint64_t\)[a-z]+@/))
		v = substr(v, 1, RSTART - 1) "uint64_t(" substr(v, RSTART + 10, RLENGTH - 11) ")" \
			substr(v, RSTART + RLENGTH)
	gsub(/\(x > 0\) - \(x < 0\)/, "I(x > 0) - I(x < 0)", v)
	gsub(/!x/, "x == 0", v)
	gsub(/cond \?/, "cond != 0 ?", v)
	return v
}

/^EW[123]\(/ {
	n = substr($0, 3, 1) + 0
	names = n == 1 ? "x" : n == 2 ? "a b" : "cond a b"
	row = $0
	sub(/^EW[123]\(/, "", row)
	sub(/\)[ \t]*$/, "", row)
	name = field(row, 1)
	types = field(row, 2)
	sub(/ .*/, "", types)			# traits
	value = field(row, 4)
	whole = field(row, 5)
	if (types ~ /F/ && value != "NOFLOAT") {
		v = value
		sub(/1\.7976931348623157e308/, "3.4028234663852886e38", v)
		put("ewf", "float", v)
		v = value
		if (v !~ /(exp|expm1|log|log1p|sinh?|cosh?|tanh?|erf|pow|f?mod|atan2)\(/) {
			gsub(/[0-9]+\.[0-9]+(e-?[0-9]+)?/, "&lf", v)
			put("ewd", "double", v)
		}
	}
	if (types ~ /[IB]/) {
		v = integers(whole)
		u = v
		gsub(/int_/, "uint_", u)
		gsub(/I\(/, "uint64_t(", u)
		gsub(/I\(/, "int64_t(", v)
		put("ewi", "int64_t", v)
		put("ewu", "uint64_t", u)
	}
}

END { printf "void keep_rows()\n{\n%s}\n", keep }
