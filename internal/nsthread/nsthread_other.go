// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nsthread

import (
	"errors"
	"fmt"
)

var errNotLinux = fmt.Errorf("nsthread: network namespaces need Linux: %w", errors.ErrUnsupported)

// In fails: only Linux has network namespaces.
func In(int, func() error) error {
	return errNotLinux
}

// Keep fails: only Linux has network namespaces.
func Keep(int) (fd int, release func() error, err error) {
	return 0, func() error { return nil }, errNotLinux
}

// Throwaway runs fn on a new goroutine and returns its error.
func Throwaway(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		err := errNoReturn
		defer func() { result <- err }()
		err = fn()
	}()
	return <-result
}
