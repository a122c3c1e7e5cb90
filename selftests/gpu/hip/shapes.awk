# SPDX-License-Identifier: MIT
# Makes C++ that compares each call of backends/gpu/api.def with what HIP's headers
# declare under the name that stands there, argument by argument.
#
#   awk -f selftests/gpu/hip/shapes.awk backends/gpu/api.def
BEGIN {
	print "#define __HIP_PLATFORM_AMD__ 1"
	print "#define __HIP_DISABLE_CPP_FUNCTIONS__ 1"
	print "#include <hip/hip_runtime_api.h>\n#include <hip/hiprtc.h>"
	print "#include <cstdint>\n#include <type_traits>"
	print "struct rlx_gpu_launch;"
	print "#define GPU_CALL(name, cuda, hip, ...) typedef int name##_call(__VA_ARGS__);"
	print "#define RTC_CALL(name, cuda, hip, ...) typedef int rtc_##name##_call(__VA_ARGS__);"
	print "#include \"backends/gpu/api.def\""
	print "template <class A, class B> constexpr bool alike = sizeof(A) == sizeof(B) &&"
	print "	std::is_floating_point<A>::value == std::is_floating_point<B>::value;"
	print "template <class A, class B> struct same { enum { value = 0 }; };"
	print "template <class R, class... A, class S, class... B>"
	print "struct same<R(A...), S(B...)> {"
	print "	template <class C, class D, bool fit> struct all { enum { value = 0 }; };"
	print "	template <class... X> struct list {};"
	print "	template <class... C, class... D> struct all<list<C...>, list<D...>, true>"
	print "	{ enum { value = (alike<C, D> && ... && true) }; };"
	print "	enum { value = sizeof(R) == sizeof(S) &&"
	print "		all<list<A...>, list<B...>, sizeof...(A) == sizeof...(B)>::value };"
	print "};"
}
/^GPU_CALL\(|^RTC_CALL\(/ {
	split($0, part, /[(,] */)
	calls++
	if (part[4] == "NULL")	# there is no such call
		next
	name = substr(part[4], 2, length(part[4]) - 2)
	printf "static_assert(same<%s%s_call, decltype(%s)>::value, %s);\n",
		$0 ~ /^RTC/ ? "rtc_" : "", part[2], name, part[4]
}
END {
	if (!calls)
		print "#error no calls"
}
