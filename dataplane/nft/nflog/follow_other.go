// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nflog

import (
	"context"
	"errors"
)

// Config says what to follow.
type Config struct {
	// Group of nflog.
	Group uint16
	// NetNS is a file descriptor of the network namespace. 0 means that of the process.
	NetNS int
	// Started is called once the kernel has accepted the request. Optional.
	Started func()
}

// Follow returns an error: nflog is Linux's.
func Follow(context.Context, Config, func(Entry) error) error { return errors.ErrUnsupported }
