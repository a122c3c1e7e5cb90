// SPDX-License-Identifier: MIT
/*
 * Rows that a subgroup shares, or a group of several: lanes have every so many-th element, or
 * quad of them, and what they find out is put together in an order that does not change.
 */
#extension GL_KHR_shader_subgroup_arithmetic : require

float row_max(const in float x)
{
	const float nan = subgroupMax(x != x ? 1.0 : 0.0);

	return nan != 0.0 ? NAN : subgroupMax(x);
}

float row_min(const in float x)
{
	const float nan = subgroupMax(x != x ? 1.0 : 0.0);

	return nan != 0.0 ? NAN : subgroupMin(x);
}
