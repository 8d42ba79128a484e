// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nodetraffic

import (
	"errors"
	"fmt"

	"github.com/wayleave/wayleave/internal/netns"
)

// capture captures nothing, because this system has no network namespaces.
type capture struct{}

// openCapture always returns an error.
func openCapture(*netns.NS, string) (*capture, error) {
	return nil, fmt.Errorf("packets are captured on Linux only: %w", errors.ErrUnsupported)
}

func (c *capture) frames() ([]frame, error) { return nil, errors.ErrUnsupported }

func (c *capture) close() error { return nil }
