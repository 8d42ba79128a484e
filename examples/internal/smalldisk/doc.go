// SPDX-License-Identifier: Apache-2.0

// Package smalldisk makes a disk for tests that is soon full: a file system in memory, whose writes
// fail with the kernel's own "no space left on device". It is mounted nowhere, and goes with its
// last descriptor.
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
// A Disk is for one goroutine, its path for all.
//
// # Errors
//
// New needs to be root, if only of a user namespace, as nstest.Main sees to; its errors wrap those
// of the system.
package smalldisk
