// SPDX-License-Identifier: Apache-2.0

// Package nsthread runs functions in another network namespace, on threads that end afterwards. So
// no other thread of the program is ever in that namespace.
//
// # Usage
//
//	err := nsthread.In(fd, func() error { // fd of a network namespace
//		return os.WriteFile("/proc/sys/net/ipv4/conf/eth0/forwarding", []byte("1"), 0)
//	})
//
// # Concurrency
//
// All functions are safe for concurrent use.
//
// # Errors
//
// The errors of In are those of the function, and errors that wrap the kernel's errno. On systems
// other than Linux, every call of In returns errors.ErrUnsupported.
package nsthread
