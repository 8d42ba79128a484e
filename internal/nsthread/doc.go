// SPDX-License-Identifier: Apache-2.0

// Package nsthread runs functions in another network namespace, on threads that die
// afterwards, so that no thread of the program is ever left in the wrong namespace.
//
// # Usage
//
//	err := nsthread.In(fd, func() error { // fd of a network namespace
//		return os.WriteFile("/proc/sys/net/ipv4/conf/eth0/forwarding", []byte("1"), 0)
//	})
//
// # Concurrency
//
// All functions may be called from any number of goroutines.
//
// # Errors
//
// The function's own error, or one that wraps the kernel's errno. Where the system is not
// Linux In fails with errors.ErrUnsupported.
package nsthread
