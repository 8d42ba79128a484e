// SPDX-License-Identifier: Apache-2.0

package nsthread

import (
	"os"

	"golang.org/x/sys/unix"
)

// Keep returns a file descriptor of a network namespace, given by another descriptor; 0 is the
// namespace of the calling thread. The result is valid until release is called. For the namespace
// of the program it is 0, because no privilege is needed to enter that one.
func Keep(netns int) (fd int, release func() error, err error) {
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
