// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// OlderThan reports whether the kernel is older than a version of Linux, or not known.
func OlderThan(major, minor int) bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return true
	}
	m, n, ok := version(unix.ByteSliceToString(name.Release[:]))
	return !ok || cmp.Or(cmp.Compare(m, major), cmp.Compare(n, minor)) < 0
}

// version returns the first two numbers of a release as "6.12.117+deb12-amd64".
func version(release string) (major, minor int, ok bool) {
	first, rest, _ := strings.Cut(release, ".")
	if end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		rest = rest[:end]
	}
	major, majorErr := strconv.Atoi(first)
	minor, minorErr := strconv.Atoi(rest)
	return major, minor, majorErr == nil && minorErr == nil
}
