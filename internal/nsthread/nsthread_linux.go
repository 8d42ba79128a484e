// SPDX-License-Identifier: Apache-2.0

package nsthread

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// In runs fn in the network namespace of fd, and returns the error of fn. The sockets that fn opens
// stay in the namespace, and so do the processes that it starts. Goroutines that fn starts are not
// in the namespace. The caller needs CAP_SYS_ADMIN.
func In(fd int, fn func() error) error {
	return Throwaway(func() error {
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("nsthread: enter network namespace: %w", err)
		}
		return fn()
	})
}

// Throwaway runs fn on a new thread, and returns the error of fn. The thread ends afterwards in any
// case.
func Throwaway(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		err := errNoReturn
		defer func() { result <- err }()
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			// The main thread cannot end, and /proc/self shows its namespace. While this goroutine
			// is locked to it, another goroutine gets another thread.
			defer runtime.UnlockOSThread()
			err = Throwaway(fn)
			return
		}
		err = fn()
	}()
	return <-result
}
