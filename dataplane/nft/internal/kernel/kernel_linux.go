// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// OlderThan reports whether the kernel is older than the given version of Linux. If the kernel's
// version is not known, it returns true.
func OlderThan(major, minor, patch int) bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return true
	}
	v := version(unix.ByteSliceToString(name.Release[:]), unix.ByteSliceToString(name.Version[:]))
	return slices.Compare(v, []int{major, minor, patch}) < 0
}

// version returns the three numbers of a version. It reads them from a release such as
// "6.12.117+deb12-amd64". Releases of Debian may lack the last number ("6.1.0-56-amd64"). Their
// build text has it: "#1 SMP Debian 6.1.192-2 (2026-11-01)". If the version is unknown, the result
// is empty.
func version(release, build string) (v []int) {
	number := regexp.MustCompile(`^(\d+)\.(\d+)(?:\.(\d+))?`).FindStringSubmatch(release)
	if debian := regexp.MustCompile(` Debian (\d+)\.(\d+)\.(\d+)`).FindStringSubmatch(build); debian != nil {
		number = debian
	}
	if number == nil {
		return nil
	}
	for _, digits := range number[1:] {
		n, _ := strconv.Atoi(digits) // a number that is missing is 0
		v = append(v, n)
	}
	return v
}
