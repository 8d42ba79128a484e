// SPDX-License-Identifier: Apache-2.0

// Package smalldisk makes a small disk for tests: a file system in memory. When the disk is full,
// writes fail with the kernel's error "no space left on device". The disk is mounted nowhere:
// Disk.Path returns a path in /proc/self/fd, which only this process can use. The kernel removes
// the disk when its last file descriptor is closed.
//
// # Usage
//
//	disk, err := smalldisk.New(64 << 10)
//	defer disk.Close()
//	err = os.WriteFile(filepath.Join(disk.Path(), "file"), data, 0o600)
//	err = disk.Fill()
//
// # Concurrency
//
// A Disk is for one goroutine. Its path may be used by any goroutine of the process.
//
// # Errors
//
// New needs root. Root in a user namespace is enough: nstest.Main runs tests in such a namespace.
// The errors of New wrap those of the system.
package smalldisk
