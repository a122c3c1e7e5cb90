# SPDX-License-Identifier: MIT
# The version of the library, the tools and the module: for make, for Kbuild, and read
# by dkms.conf. Only debian/changelog says it again, as it must.
RLX_VERSION	:= 0.1.0
