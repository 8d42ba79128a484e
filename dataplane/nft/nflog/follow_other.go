// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package nflog

import (
	"context"
	"errors"
)

// Config configures Follow.
type Config struct {
	// Group is the number of the nflog group.
	Group uint16
	// NetNS is a file descriptor of the network namespace. 0 means the namespace of the process.
	NetNS int
	// Started is called once the socket follows the group. Optional.
	Started func()
}

// Follow returns errors.ErrUnsupported: only Linux has nflog.
func Follow(context.Context, Config, func(Entry) error) error { return errors.ErrUnsupported }
