// SPDX-License-Identifier: Apache-2.0

package observed

import (
	"os"

	"golang.org/x/sys/unix"
)

// keepNamespace returns a file descriptor of a network namespace, which is valid until release. It
// returns 0 for the namespace of the program, which needs no privilege to enter.
func keepNamespace(netns int) (fd int, release func() error, err error) {
	nothing := func() error { return nil }
	if netns == 0 {
		thread, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return 0, nothing, err
		}
		defer func() { _ = thread.Close() }()
		ours, err := thread.Stat()
		if err != nil {
			return 0, nothing, err
		}
		if program, err := os.Stat("/proc/self/ns/net"); err == nil && os.SameFile(program, ours) {
			return 0, nothing, nil
		}
		netns = int(thread.Fd())
	}
	fd, err = unix.FcntlInt(uintptr(netns), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return 0, nothing, err
	}
	return fd, func() error { return unix.Close(fd) }, nil
}
