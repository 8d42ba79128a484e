// SPDX-License-Identifier: Apache-2.0

package smalldisk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Disk is a small file system. It is for one goroutine.
type Disk struct {
	fd int
}

// New makes a disk with a size in bytes, rounded up to pages.
func New(bytes int) (*Disk, error) {
	type made struct {
		fd  int
		err error
	}
	result := make(chan made)
	go func() {
		// The thread gets a new mount namespace, in which it has the right to mount. The thread
		// ends with the goroutine.
		runtime.LockOSThread()
		fd, err := tmpfs(bytes)
		result <- made{fd, err}
	}()
	disk := <-result
	if disk.err != nil {
		return nil, fmt.Errorf("smalldisk: %w", disk.err)
	}
	return &Disk{disk.fd}, nil
}

// tmpfs returns a descriptor of a new file system that is mounted nowhere.
func tmpfs(bytes int) (int, error) {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return 0, fmt.Errorf("unshare: %w", err)
	}
	config, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("fsopen: %w", err)
	}
	defer func() { _ = unix.Close(config) }()
	if err := unix.FsconfigSetString(config, "size", strconv.Itoa(bytes)); err != nil {
		return 0, fmt.Errorf("size: %w", err)
	}
	if err := unix.FsconfigCreate(config); err != nil {
		return 0, fmt.Errorf("create: %w", err)
	}
	fd, err := unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("fsmount: %w", err)
	}
	return fd, nil
}

// Path returns the path of the disk. Only this process can use the path.
func (d *Disk) Path() string { return fmt.Sprintf("/proc/self/fd/%d", d.fd) }

// Close releases the disk.
func (d *Disk) Close() error { return unix.Close(d.fd) }

func (d *Disk) ballast() string { return filepath.Join(d.Path(), ".ballast") }

// Fill writes a file that takes all free space.
func (d *Disk) Fill() error {
	file, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	page := make([]byte, os.Getpagesize())
	for err == nil {
		_, err = file.Write(page)
	}
	if errors.Is(err, unix.ENOSPC) {
		err = nil
	}
	return errors.Join(err, file.Close())
}

// Free removes the file of Fill.
func (d *Disk) Free() error { return os.Remove(d.ballast()) }
