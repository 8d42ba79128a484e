// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nsthread

import (
	"errors"
	"fmt"
)

// In fails: only Linux has network namespaces.
func In(int, func() error) error {
	return fmt.Errorf("nsthread: network namespaces need Linux: %w", errors.ErrUnsupported)
}

// Keep fails: only Linux has network namespaces.
func Keep(int) (fd int, release func() error, err error) {
	return 0, func() error { return nil }, fmt.Errorf("nsthread: network namespaces need Linux: %w", errors.ErrUnsupported)
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
